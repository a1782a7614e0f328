/* Runners: the memory of a plan. */
#include "runner.h"

#include <stdlib.h>

typedef struct ranked {
    uint64_t key;
    uint32_t item;
} ranked;

static int compare_ranks(const void *a, const void *b)
{
    const ranked *p = a, *q = b;
    if (p->key != q->key)
        return p->key < q->key ? -1 : 1;
    return p->item < q->item ? -1 : p->item > q->item;
}

/* The items in the order of their ends, or of their offsets. */
static bool sort_items(const remat_layout *layout, bool by_offset, uint32_t *ret_order)
{
    ranked *ranks = malloc((layout->n + 1) * sizeof *ranks);
    if (!ranks)
        return false;
    for (uint32_t i = 0; i < layout->n; i++)
        ranks[i] =
            (ranked){by_offset ? layout->items[i].offset : (uint64_t)layout->items[i].last, i};
    qsort(ranks, layout->n, sizeof *ranks, compare_ranks);
    for (uint32_t i = 0; i < layout->n; i++)
        ret_order[i] = ranks[i].item;
    free(ranks);
    return true;
}

static bool allocate(remat_runner *r)
{
    const remat_profile *profile = r->plan->profile;
    size_t items = r->plan->layout.n + 1, most = 1, results = 1;
    for (uint32_t v = 0; v < r->n; v++) {
        most = profile->nodes[v].n_inputs > most ? profile->nodes[v].n_inputs : most;
        results = profile->nodes[v].n_outputs > results ? profile->nodes[v].n_outputs : results;
    }
    r->alive = calloc(r->n_slots, sizeof *r->alive);
    r->leaving = calloc(r->n_slots, sizeof *r->leaving);
    r->arriving = calloc(r->n_slots, sizeof *r->arriving);
    r->host = calloc(r->n_slots, sizeof *r->host);
    r->ending = calloc(items, sizeof *r->ending);
    r->by_offset = calloc(items, sizeof *r->by_offset);
    r->version_items = calloc(items, sizeof *r->version_items);
    r->version_operations = calloc(items, sizeof *r->version_operations);
    r->ran = calloc(r->n + 1, sizeof *r->ran);
    r->inputs = calloc(most, sizeof *r->inputs);
    r->gradients = calloc(most, sizeof *r->gradients);
    r->accumulate = calloc(most, sizeof *r->accumulate);
    r->outputs = calloc(results, sizeof *r->outputs);
    return r->alive && r->leaving && r->arriving && r->host && r->ending && r->by_offset &&
           r->version_items && r->version_operations && r->ran && r->inputs && r->gradients &&
           r->accumulate && r->outputs && sort_items(&r->plan->layout, false, r->ending) &&
           sort_items(&r->plan->layout, true, r->by_offset);
}

static uint64_t bytes_of_target(const remat_runner *r, const remat_operation *operation)
{
    const remat_profile *profile = r->plan->profile;
    return operation->target == REMAT_INPUT ? profile->inputs[operation->index].bytes
           : operation->target == REMAT_SAVED
               ? profile->nodes[operation->index].saved_bytes
               : remat_value_bytes(profile, remat_operation_value(profile, operation));
}

/* A place on the host for every value that is copied there. */
static remat_status take_host(remat_runner *r, remat_error *error)
{
    const remat_operations *operations = &r->plan->operations;
    for (size_t i = 0; i < operations->length; i++) {
        const remat_operation *operation = &operations->items[i];
        if (operation->kind != REMAT_O || bytes_of_target(r, operation) == 0)
            continue;
        uint32_t slot = runner_slot_of_target(r, operation);
        uint64_t bytes = bytes_of_target(r, operation);
        if (!r->host[slot])
            r->host[slot] = r->backend->allocate_host(r->backend->data, bytes);
        if (!r->host[slot])
            return remat_fail(error, REMAT_TOO_LARGE, NULL,
                              "the host has no %llu bytes for the copy of \"%.100s\"%s",
                              (unsigned long long)bytes, runner_name_of(r, operation),
                              remat_exec_fault(r->backend));
    }
    return REMAT_OK;
}

const char *remat_exec_fault(const remat_exec_backend *backend)
{
    return backend->fault ? backend->fault(backend->data) : "";
}

uint64_t runner_bytes(const remat_runner *r)
{
    return r->plan->layout.arena + (r->flags & REMAT_EXEC_GUARD ? RUNNER_GUARD_BYTES : 0);
}

static remat_status take_memory(remat_runner *r, remat_error *error)
{
    uint64_t bytes = runner_bytes(r);
    r->arena = r->backend->allocate(r->backend->data, bytes);
    if (!r->arena)
        return remat_fail(error, REMAT_TOO_LARGE, NULL, "%s has no %llu bytes for the arena%s",
                          r->backend->name, (unsigned long long)bytes,
                          remat_exec_fault(r->backend));
    if (r->flags & REMAT_EXEC_GUARD)
        r->watched = malloc(bytes);
    return r->flags & REMAT_EXEC_GUARD && !r->watched ? remat_fail_memory(error)
                                                      : take_host(r, error);
}

static remat_status check_network(const remat_plan *plan, const remat_exec_network *network,
                                  remat_error *error)
{
    const remat_profile *profile = plan->profile;
    if (!network->forward || (!network->backward && !profile->joint))
        return remat_fail(error, REMAT_INVALID, NULL, "the network has no forward or no backward");
    if (profile->n_states > 0 && (!network->save_state || !network->restore_state))
        return remat_fail(error, REMAT_INVALID, NULL,
                          "the profile has %u states; the network cannot save and restore them",
                          profile->n_states);
    for (uint32_t k = 0; k < profile->n_inputs; k++)
        if (profile->inputs[k].bytes > 0 && (!network->graph_inputs || !network->graph_inputs[k]))
            return remat_fail(error, REMAT_INVALID, NULL, "graph input \"%.100s\" is not given",
                              profile->inputs[k].id);
    return REMAT_OK;
}

remat_status remat_runner_new(const remat_plan *plan, const remat_exec_network *network,
                              const remat_exec_backend *backend, unsigned flags,
                              remat_runner **ret_runner, remat_error *error)
{
    const remat_profile *profile = plan->profile;
    remat_status status = check_network(plan, network, error);
    if (status)
        return status;
    remat_runner *r = calloc(1, sizeof *r);
    if (!r)
        return remat_fail_memory(error);
    r->plan = plan;
    r->network = network;
    r->backend = backend;
    r->flags = flags | (flags & REMAT_EXEC_GUARD ? (unsigned)REMAT_EXEC_POISON : 0u);
    r->n = profile->n_nodes;
    r->first_gradient = 2 * r->n;
    r->first_input = r->first_gradient + r->n + profile->n_inputs;
    r->first_result = r->first_input + profile->n_inputs;
    r->n_slots = r->first_result + profile->n_results;
    status = allocate(r) ? take_memory(r, error) : remat_fail_memory(error);
    if (status)
        remat_runner_free(r);
    else
        *ret_runner = r;
    return status;
}

void remat_runner_free(remat_runner *r)
{
    if (!r)
        return;
    r->backend->release(r->backend->data, r->arena);
    for (uint32_t slot = 0; r->host && slot < r->n_slots; slot++)
        if (r->host[slot])
            r->backend->release_host(r->backend->data, r->host[slot]);
    free(r->watched);
    free(r->alive);
    free(r->leaving);
    free(r->arriving);
    free(r->host);
    free(r->ending);
    free(r->by_offset);
    free(r->version_items);
    free(r->version_operations);
    free(r->ran);
    free(r->inputs);
    free(r->gradients);
    free(r->accumulate);
    free(r->outputs);
    free(r);
}
