/* Schedules out of a slot table: at every level the candidate that costs no more than the value. */
#include "start/rotor/slots_table.h"

#include <stdlib.h>

enum { INFINITE = CHAIN_SLOTS_INFINITE };

/* V of (s,t) in bytes, INFINITE when they are fewer than used. */
static int32_t value_within(const chain_slots *slots, uint32_t s, uint32_t t, uint64_t bytes,
                            uint64_t used)
{
    if (bytes < used)
        return INFINITE;
    uint64_t slot = (bytes - used) / slots->unit;
    return chain_slots_value(slots, chain_cell(slots->n, s, t),
                             slot < slots->n_slots ? (uint32_t)slot : slots->n_slots);
}

typedef struct tracer {
    const chain_slots *slots;
    const chain_costs *chain;
    const int32_t *prefix; /* forward costs of stages 1..i */
} tracer;

static int32_t cost_of(const tracer *r, int64_t ticks)
{
    return (int32_t)(ticks / r->slots->divisor);
}

static bool is_save(const tracer *r, const chain_task *at, int32_t value)
{
    uint32_t s = at->s;
    if (r->slots->inputs_only || at->room < chain_need_all(r->chain, s, at->t))
        return false;
    int32_t inner = value_within(r->slots, s + 1, at->t, at->room, r->chain->kept[s]);
    return inner < INFINITE && inner + cost_of(r, r->chain->backward[s]) <= value;
}

/* A k of C_2 that costs at most value, or 0. */
static uint32_t find_pass(const tracer *r, const chain_task *at, int32_t value)
{
    const chain_costs *chain = r->chain;
    uint32_t s = at->s, t = at->t;
    for (uint32_t k = s + 1; k <= t; k++) {
        if (chain_need_forward(chain, s, k - 1, t) > at->room)
            return 0;
        int32_t left = value_within(r->slots, s, k - 1, at->room, 0);
        if (left >= INFINITE)
            continue;
        int32_t right = value_within(r->slots, k, t, at->room, chain->output[k - 1]);
        if (right < INFINITE && left + right - r->prefix[s - 1] <= value)
            return k;
    }
    return 0;
}

static remat_status trace_task(const void *context, chain_task at, chain_stack *stack,
                               remat_operations *operations)
{
    const tracer *r = context;
    if (at.closes)
        return chain_emit_backward(at.s, 0, at.plain, operations);
    int32_t value = value_within(r->slots, at.s, at.t, at.room, 0);
    if (value >= INFINITE)
        return REMAT_CORRUPT;
    if (at.s == at.t)
        return chain_emit_leaf(r->chain, at.s, at.plain, operations);
    if (is_save(r, &at, value)) {
        uint64_t inner = at.room - r->chain->kept[at.s];
        chain_push(stack, (chain_task){.s = at.s, .plain = at.plain, .closes = true});
        chain_push(stack, (chain_task){.room = inner, .s = at.s + 1, .t = at.t});
        return chain_emit_save(at.s, 0, operations);
    }
    uint32_t k = find_pass(r, &at, value);
    if (k == 0)
        return REMAT_CORRUPT;
    uint64_t right = at.room - r->chain->output[k - 1];
    chain_push(stack, (chain_task){.room = at.room, .s = at.s, .t = k - 1, .plain = at.plain});
    chain_push(stack, (chain_task){.room = right, .s = k, .t = at.t, .plain = true});
    return chain_emit_pass(at.s, k - 1, operations);
}

remat_status chain_slots_trace(const chain_slots *slots, const chain_costs *chain, uint32_t slot,
                               remat_operations *operations, remat_error *error)
{
    int32_t *prefix = calloc((size_t)chain->n + 1, sizeof *prefix);
    if (!prefix)
        return remat_fail_memory(error);
    const tracer r = {.slots = slots, .chain = chain, .prefix = prefix};
    for (uint32_t i = 1; i <= chain->n; i++)
        prefix[i] = prefix[i - 1] + cost_of(&r, chain->forward[i]);
    remat_status status = chain_emit_tasks(chain, slot * slots->unit, trace_task, &r, operations);
    free(prefix);
    if (status == REMAT_CORRUPT)
        return remat_fail(error, status, NULL, "the table has no schedule in %u slots", slot);
    return status ? remat_fail_memory(error) : REMAT_OK;
}
