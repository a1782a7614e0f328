/* The allocations of a valid operation list and when each of them lives. */
#include "model/arena.h"
#include "model/layout.h"

#include <stdlib.h>
#include <string.h>

#define NONE REMAT_LAYOUT_NONE

enum { MOST = 1 << 30 };

/* Slots in which an allocation can be alive: out(v) is v, saved(v) is n + v, gradients 2n + value,
 * graph inputs after them, further results of nodes, then the versions of the states. */
typedef struct walk {
    const remat_profile *profile;
    const remat_operations *operations;
    uint32_t n, first_gradient, first_input;
    uint32_t *first_version; /* by state: slot of its version 0; one more at the end */
    uint32_t *alive;         /* by slot: item, or NONE */
    uint32_t *last_restore;  /* by slot of a version: its last R, or NONE */
    uint16_t *maker;         /* by node: implementation that made saved(v); then of its host copy */
    bool *read_later;        /* by node */
    bool *overwrites;        /* by operation: this F takes over its first input's place */
    model_lives lives;
    int32_t at;
    bool turned; /* the late inputs are there */
    model_arena arena;
} walk;

static bool allocate(walk *w)
{
    const remat_profile *p = w->profile;
    w->n = p->n_nodes;
    w->first_gradient = 2 * w->n;
    w->first_input = w->first_gradient + w->n + p->n_inputs;
    model_arena *arena = &w->arena;
    w->first_version = model_arena_array(arena, (size_t)p->n_states + 1, sizeof *w->first_version);
    if (!w->first_version)
        return false;
    uint32_t slots = w->first_input + p->n_inputs + p->n_results;
    for (uint32_t k = 0; k < p->n_states; k++) {
        w->first_version[k] = slots;
        slots += p->states[k].n_writers + 1;
    }
    w->first_version[p->n_states] = slots;
    w->alive = model_arena_array(arena, slots, sizeof *w->alive);
    w->last_restore = model_arena_array(arena, slots, sizeof *w->last_restore);
    w->maker = model_arena_array(arena, 2 * (size_t)w->n, sizeof *w->maker);
    w->read_later = model_arena_array(arena, remat_n_values(p), sizeof *w->read_later);
    w->overwrites = model_arena_array(arena, w->operations->length, sizeof *w->overwrites);
    if (!w->alive || !w->last_restore || !w->maker || !w->read_later || !w->overwrites)
        return false;
    memset(w->alive, 0xff, slots * sizeof *w->alive);
    memset(w->last_restore, 0xff, slots * sizeof *w->last_restore);
    return true;
}

/* At most this many allocations are made. */
static size_t count(const walk *w)
{
    size_t n = w->profile->n_inputs;
    for (size_t i = 0; i < w->operations->length; i++) {
        const remat_operation *operation = &w->operations->items[i];
        if (operation->kind == REMAT_B)
            n += (size_t)w->profile->nodes[operation->index].n_inputs + 2;
        else
            n += operation->kind > REMAT_A
                     ? 3
                     : (size_t)w->profile->nodes[operation->index].n_outputs + 2;
    }
    return n;
}

/* ---- what lies ahead: overwriting forwards, last restores ---- */

static void note_reads(walk *w, const remat_node *node)
{
    for (uint32_t i = 0; i < node->n_inputs; i++)
        w->read_later[node->inputs[i]] = true;
}

static void note_made(walk *w, const remat_operation *operation)
{
    if (operation->kind == REMAT_P) {
        w->read_later[remat_operation_value(w->profile, operation)] = false;
        return;
    }
    for (uint32_t k = 0; k < w->profile->nodes[operation->index].n_outputs; k++)
        w->read_later[remat_result_value(w->profile, operation->index, k)] = false;
}

static void look_ahead(walk *w)
{
    for (uint32_t i = 0; i < w->profile->n_outputs; i++)
        w->read_later[w->profile->outputs[i]] = true;
    for (size_t i = w->operations->length; i-- > 0;) {
        const remat_operation *operation = &w->operations->items[i];
        uint32_t v = operation->index;
        if (operation->kind == REMAT_R) {
            uint32_t *last = &w->last_restore[w->first_version[v] + operation->version];
            *last = *last == NONE ? (uint32_t)i : *last;
        }
        if (operation->target != REMAT_OUT || operation->kind >= REMAT_S)
            continue;
        const remat_node *node = &w->profile->nodes[v];
        bool forward = operation->kind == REMAT_F || operation->kind == REMAT_A;
        if (forward || operation->kind == REMAT_P)
            note_made(w, operation);
        if (forward && node->in_place && node->n_inputs > 0 &&
            remat_is_result(w->profile, node->inputs[0]))
            w->overwrites[i] = !w->read_later[node->inputs[0]];
        if (forward || (operation->kind == REMAT_B && node->backward_uses_inputs))
            note_reads(w, node);
        if (operation->kind == REMAT_O)
            w->read_later[remat_operation_value(w->profile, operation)] = true;
        if (operation->kind == REMAT_B && node->backward_uses_output)
            w->read_later[v] = true;
    }
}

/* ---- the walk ---- */

/* Adds an item, alive to the end unless something ends it; NONE when it has no bytes. */
static uint32_t make(walk *w, remat_allocation_kind kind, uint32_t index, uint64_t bytes)
{
    if (bytes == 0)
        return NONE;
    uint32_t item = w->lives.n++;
    w->lives.next[item] = NONE;
    w->lives.items[item] = (remat_allocation){.bytes = bytes,
                                              .first = w->at,
                                              .last = (int32_t)w->operations->length - 1,
                                              .index = index,
                                              .kind = (uint8_t)kind};
    return item;
}

static void end(walk *w, uint32_t *item)
{
    if (*item != NONE)
        w->lives.items[*item].last = w->at;
    *item = NONE;
}

static void overwrite(walk *w, uint32_t lost, uint32_t made)
{
    if (lost != NONE && made != NONE)
        w->lives.next[lost] = made;
}

static void make_workspace(walk *w, uint32_t v, uint64_t bytes)
{
    uint32_t workspace = make(w, REMAT_ALLOCATION_WORKSPACE, v, bytes);
    end(w, &workspace);
}

/* Where a value lives. */
static uint32_t *slot_of(walk *w, uint32_t value)
{
    uint32_t n = w->n;
    return &w->alive[value < n ? value : w->first_input + (value - n)];
}

static uint32_t make_result(walk *w, uint32_t value)
{
    uint32_t item = make(w, REMAT_ALLOCATION_OUT, remat_value_node(w->profile, value),
                         remat_value_bytes(w->profile, value));
    if (item != NONE)
        w->lives.items[item].result = (uint16_t)remat_value_number(w->profile, value);
    return item;
}

static void make_inputs(walk *w, bool late)
{
    for (uint32_t k = 0; k < w->profile->n_inputs; k++)
        if (w->profile->inputs[k].late == late)
            w->alive[w->first_input + k] =
                make(w, REMAT_ALLOCATION_INPUT, k, w->profile->inputs[k].bytes);
}

static bool reads_late(const walk *w, const remat_node *node)
{
    for (uint32_t i = 0; i < node->n_inputs && w->profile->n_late > 0; i++)
        if (!remat_is_result(w->profile, node->inputs[i]) &&
            w->profile->inputs[node->inputs[i] - w->n].late)
            return true;
    return false;
}

static void forward(walk *w, const remat_operation *operation)
{
    uint32_t v = operation->index;
    const remat_node *node = &w->profile->nodes[v];
    if (!w->turned && reads_late(w, node)) {
        make_inputs(w, true);
        w->turned = true;
    }
    const remat_alternative cost = remat_implementation(node, operation->alternative);
    bool save = operation->kind == REMAT_A;
    for (uint32_t k = 0; k < node->n_outputs; k++) {
        uint32_t value = remat_result_value(w->profile, v, k);
        *slot_of(w, value) = make_result(w, value);
    }
    if (save) {
        w->alive[w->n + v] = make(w, REMAT_ALLOCATION_SAVED, v, cost.saved_bytes);
        w->maker[v] = operation->alternative;
    }
    make_workspace(w, v, save ? cost.save_workspace_bytes : cost.forward_workspace_bytes);
    if (w->overwrites[w->at]) {
        uint32_t *lost = slot_of(w, node->inputs[0]);
        overwrite(w, *lost, w->alive[v]);
        end(w, lost);
    }
}

static uint32_t make_gradient(walk *w, uint32_t value)
{
    uint64_t bytes = remat_gradient_bytes(w->profile, value);
    return value < w->n ? make(w, REMAT_ALLOCATION_GRADIENT, value, bytes)
                        : make(w, REMAT_ALLOCATION_INPUT_GRADIENT, value - w->n, bytes);
}

static void backward(walk *w, const remat_operation *operation)
{
    uint32_t v = operation->index;
    const remat_node *node = &w->profile->nodes[v];
    uint32_t *gradients = &w->alive[w->first_gradient];
    if (node->n_consumers == 0) /* the loss */
        gradients[v] = make_gradient(w, v);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        uint32_t *gradient = &gradients[node->inputs[i]];
        if (*gradient != NONE) /* accumulates */
            continue;
        *gradient = make_gradient(w, node->inputs[i]);
        if (i == 0 && node->in_place)
            overwrite(w, gradients[v], *gradient);
    }
    make_workspace(w, v,
                   remat_implementation(node, operation->alternative).backward_workspace_bytes);
    end(w, &gradients[v]);
    end(w, &w->alive[w->n + v]);
}

static uint32_t *target(walk *w, const remat_operation *operation)
{
    if (operation->target == REMAT_OUT)
        return slot_of(w, remat_operation_value(w->profile, operation));
    return &w->alive[operation->index + (operation->target == REMAT_SAVED ? w->n : w->first_input)];
}

static uint32_t fetch(walk *w, const remat_operation *operation)
{
    uint32_t i = operation->index;
    if (operation->target == REMAT_INPUT)
        return make(w, REMAT_ALLOCATION_INPUT, i, w->profile->inputs[i].bytes);
    if (operation->target == REMAT_SAVED) {
        w->maker[i] = w->maker[w->n + i];
        return make(w, REMAT_ALLOCATION_SAVED, i,
                    remat_implementation(&w->profile->nodes[i], w->maker[i]).saved_bytes);
    }
    return make_result(w, remat_operation_value(w->profile, operation));
}

static void visit(walk *w, const remat_operation *operation)
{
    uint32_t i = operation->index, slot;
    switch ((remat_operation_kind)operation->kind) {
    case REMAT_F:
    case REMAT_A:
        forward(w, operation);
        return;
    case REMAT_B:
        backward(w, operation);
        return;
    case REMAT_D:
        end(w, target(w, operation));
        return;
    case REMAT_O:
        if (operation->target == REMAT_SAVED)
            w->maker[w->n + i] = w->maker[i];
        return;
    case REMAT_P:
        *target(w, operation) = fetch(w, operation);
        return;
    case REMAT_S:
        slot = w->first_version[i] + operation->version;
        w->alive[slot] = make(w, REMAT_ALLOCATION_STATE, i, w->profile->states[i].bytes);
        return;
    case REMAT_R:
        slot = w->first_version[i] + operation->version;
        if (w->last_restore[slot] == (uint32_t)w->at)
            end(w, &w->alive[slot]);
        return;
    }
}

static void walk_list(walk *w)
{
    look_ahead(w);
    w->at = -1;
    make_inputs(w, false);
    for (w->at = 0; w->at < (int32_t)w->operations->length; w->at++)
        visit(w, &w->operations->items[w->at]);
}

remat_status model_layout_lives(const remat_profile *profile, const remat_operations *operations,
                                model_lives *ret_lives, remat_error *error)
{
    walk w = {.profile = profile, .operations = operations};
    size_t most = count(&w);
    if (operations->length > MOST || most > MOST)
        return remat_fail(error, REMAT_TOO_LARGE, "operations",
                          "%zu operations with up to %zu allocations are past the limit of %d",
                          operations->length, most, MOST);
    w.lives.items = malloc((most + 1) * sizeof *w.lives.items);
    w.lives.next = malloc((most + 1) * sizeof *w.lives.next);
    bool enough = w.lives.items && w.lives.next && allocate(&w);
    if (enough) {
        walk_list(&w);
        *ret_lives = w.lives;
    } else {
        free(w.lives.items);
        free(w.lives.next);
    }
    model_arena_clear(&w.arena);
    return enough ? REMAT_OK : remat_fail_memory(error);
}
