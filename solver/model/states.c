/* The states pass: S and R operations such that every recomputed node sees the mutable states that
 * its first run saw, and the step leaves them as one plain forward pass does.
 *
 * Source: Dauvergne & Hascoet, The Data-Flow Equations of Checkpointing in reverse Automatic
 * Differentiation (2006): a state that is written and read by recomputed code is in the snapshot
 * Snp. Version n of a state is its value after n of its writers in plain forward order; a node
 * expects the version that counts the writers before it. Only versions that are restored somewhere
 * are saved, each just before the state first leaves it. */
#include "model/arena.h"
#include "remat/schedule.h"

#include <string.h>

/* "Before operation `at`, save or restore `version` of `state`." */
typedef struct event {
    size_t at;
    uint32_t state, version;
    bool restore;
} event;

typedef struct walk {
    const remat_profile *profile;
    uint32_t **read_version, **write_version; /* by node, then by position in reads / writes */
    uint32_t *current;                        /* by state */
    uint32_t *first_key;                      /* by state: key of its version 0 */
    bool *left, *restored;                    /* by key */
    event *events;
    size_t n_events, capacity;
    model_arena arena;
} walk;

/* Which version of each of its states each node reads, and which it leaves. */
static remat_status number_versions(walk *w)
{
    const remat_profile *p = w->profile;
    w->read_version = model_arena_array(&w->arena, p->n_nodes, sizeof *w->read_version);
    w->write_version = model_arena_array(&w->arena, p->n_nodes, sizeof *w->write_version);
    w->current = model_arena_array(&w->arena, p->n_states, sizeof *w->current);
    w->first_key = model_arena_array(&w->arena, (size_t)p->n_states + 1, sizeof *w->first_key);
    if (!w->read_version || !w->write_version || !w->current || !w->first_key)
        return REMAT_NO_MEMORY;
    for (uint32_t v = 0; v < p->n_nodes; v++) {
        const remat_node *node = &p->nodes[v];
        w->read_version[v] = model_arena_array(&w->arena, node->n_reads, sizeof(uint32_t));
        w->write_version[v] = model_arena_array(&w->arena, node->n_writes, sizeof(uint32_t));
        if (!w->read_version[v] || !w->write_version[v])
            return REMAT_NO_MEMORY;
        for (uint32_t i = 0; i < node->n_reads; i++)
            w->read_version[v][i] = w->current[node->reads[i]];
        for (uint32_t i = 0; i < node->n_writes; i++)
            w->write_version[v][i] = ++w->current[node->writes[i]];
    }
    memset(w->current, 0, p->n_states * sizeof *w->current);
    for (uint32_t k = 0; k < p->n_states; k++)
        w->first_key[k + 1] = w->first_key[k] + p->states[k].n_writers + 1;
    w->left = model_arena_array(&w->arena, w->first_key[p->n_states], sizeof *w->left);
    w->restored = model_arena_array(&w->arena, w->first_key[p->n_states], sizeof *w->restored);
    return w->left && w->restored ? REMAT_OK : REMAT_NO_MEMORY;
}

static remat_status note(walk *w, event one)
{
    if (w->n_events == w->capacity) {
        size_t capacity = w->capacity ? w->capacity * 2 : 64;
        event *events = model_arena_array(&w->arena, capacity, sizeof *events);
        if (!events)
            return REMAT_NO_MEMORY;
        if (w->n_events)
            memcpy(events, w->events, w->n_events * sizeof *events);
        w->events = events;
        w->capacity = capacity;
    }
    w->events[w->n_events++] = one;
    return REMAT_OK;
}

/* State k goes from the version it holds to another, before or at operation `at`. */
static remat_status leave(walk *w, uint32_t k, uint32_t version, size_t at)
{
    uint32_t key = w->first_key[k] + w->current[k];
    remat_status status = REMAT_OK;
    if (w->current[k] != version && !w->left[key]) {
        w->left[key] = true;
        status = note(w, (event){.at = at, .state = k, .version = w->current[k]});
    }
    w->current[k] = version;
    return status;
}

static remat_status restore(walk *w, uint32_t k, uint32_t version, size_t at)
{
    if (w->current[k] == version)
        return REMAT_OK;
    w->restored[w->first_key[k] + version] = true;
    remat_status status = leave(w, k, version, at);
    return status ? status
                  : note(w, (event){.at = at, .state = k, .version = version, .restore = true});
}

static remat_status find_events(walk *w, const remat_operations *operations)
{
    remat_status status = REMAT_OK;
    for (size_t i = 0; i < operations->length && !status; i++) {
        const remat_operation *operation = &operations->items[i];
        if (operation->kind != REMAT_F && operation->kind != REMAT_A)
            continue;
        uint32_t v = operation->index;
        const remat_node *node = &w->profile->nodes[v];
        for (uint32_t j = 0; j < node->n_reads && !status; j++)
            status = restore(w, node->reads[j], w->read_version[v][j], i);
        for (uint32_t j = 0; j < node->n_writes && !status; j++)
            status = leave(w, node->writes[j], w->write_version[v][j], i);
    }
    for (uint32_t k = 0; k < w->profile->n_states && !status; k++)
        status = restore(w, k, w->profile->states[k].n_writers, operations->length);
    return status;
}

static remat_status rewrite(const walk *w, const remat_operations *from, remat_operations *to)
{
    size_t e = 0;
    for (size_t i = 0; i <= from->length; i++) {
        for (; e < w->n_events && w->events[e].at == i; e++) {
            const event *one = &w->events[e];
            if (!one->restore && !w->restored[w->first_key[one->state] + one->version])
                continue;
            if (remat_operations_push(to, (remat_operation){
                                              .kind = one->restore ? REMAT_R : REMAT_S,
                                              .index = one->state,
                                              .version = one->version,
                                          }))
                return REMAT_NO_MEMORY;
        }
        if (i == from->length)
            break;
        const remat_operation *operation = &from->items[i];
        if (operation->kind != REMAT_S && operation->kind != REMAT_R &&
            remat_operations_push(to, *operation))
            return REMAT_NO_MEMORY;
    }
    return REMAT_OK;
}

remat_status remat_insert_states(const remat_profile *profile, const remat_operations *operations,
                                 remat_operations *ret_operations, remat_error *error)
{
    walk w = {.profile = profile};
    remat_status status = number_versions(&w);
    if (!status)
        status = find_events(&w, operations);
    if (!status)
        status = rewrite(&w, operations, ret_operations);
    model_arena_clear(&w.arena);
    if (!status)
        return REMAT_OK;
    remat_operations_clear(ret_operations);
    return remat_fail_memory(error);
}
