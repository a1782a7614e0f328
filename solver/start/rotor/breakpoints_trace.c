/* Schedules out of a table of breakpoints: at every level the candidate that makes the value. */
#include "start/rotor/breakpoints_table.h"

static bool cost_within(const chain_breakpoints *table, uint32_t s, uint32_t t, uint64_t bytes,
                        int64_t *ret_ticks)
{
    const chain_breakpoint_list *points = chain_breakpoints_cell(table, s, t);
    ptrdiff_t i = chain_breakpoints_last(points, bytes);
    if (i < 0)
        return false;
    *ret_ticks = points->points[i].ticks;
    return true;
}

/* The implementation of F_all and B in C_1 that costs ticks, or NULL. */
static const chain_double *find_save(const chain_breakpoints *table, const chain_costs *chain,
                                     const chain_task *at, int64_t ticks)
{
    const chain_stage *stage = &chain->stages[at->s];
    for (uint32_t i = 0; i < stage->n_saves && !table->inputs_only; i++) {
        const chain_double *save = &stage->saves[i];
        int64_t inner;
        if (at->room >= chain_need_save(chain, save, at->t) &&
            cost_within(table, at->s + 1, at->t, at->room - save->kept, &inner) &&
            inner + save->ticks == ticks)
            return save;
    }
    return NULL;
}

/* The fastest implementation of F^j in a pass, or NULL. */
static const chain_single *find_forward(const chain_costs *chain, const chain_task *at, uint32_t j)
{
    const chain_stage *stage = &chain->stages[j];
    uint64_t need = chain_need_pass(chain, at->s, j, at->t);
    const chain_single *found = NULL;
    for (uint32_t i = 0; i < stage->n_passes && need + stage->passes[i].bytes <= at->room; i++)
        found = &stage->passes[i];
    return found;
}

/* The k of C_2 that costs ticks, or 0. */
static uint32_t find_pass(const chain_breakpoints *table, const chain_costs *chain,
                          const chain_task *at, int64_t ticks)
{
    int64_t cost = 0;
    for (uint32_t k = at->s + 1; k <= at->t; k++) {
        const chain_single *forward = find_forward(chain, at, k - 1);
        if (!forward)
            return 0;
        cost += forward->ticks;
        int64_t right, left;
        if (at->room >= chain->output[k - 1] && cost_within(table, at->s, k - 1, at->room, &left) &&
            cost_within(table, k, at->t, at->room - chain->output[k - 1], &right) &&
            cost + right + left == ticks)
            return k;
    }
    return 0;
}

/* ---- operations: those of chain.h, with their implementations ---- */

static remat_status emit_pass(const chain_costs *chain, const chain_task *at, uint32_t last,
                              remat_operations *operations)
{
    size_t from = operations->length;
    remat_status status = chain_emit_pass(at->s, last, operations);
    for (size_t i = from; i < operations->length; i++)
        if (operations->items[i].kind == REMAT_F)
            operations->items[i].alternative =
                (uint16_t)find_forward(chain, at, operations->items[i].index + 1)->implementation;
    return status;
}

static remat_status emit_leaf(const chain_costs *chain, const chain_task *at, int64_t ticks,
                              remat_operations *operations)
{
    const chain_stage *stage = &chain->stages[at->s];
    for (uint32_t i = 0; i < stage->n_directs; i++)
        if (stage->directs[i].ticks == ticks && stage->directs[i].bytes <= at->room)
            return chain_emit_direct(at->s, stage->directs[i].implementation, at->plain,
                                     operations);
    for (uint32_t i = 0; i < stage->n_saves; i++) {
        const chain_double *save = &stage->saves[i];
        if (save->ticks != ticks || chain_need_save(chain, save, at->s) > at->room)
            continue;
        remat_status status = chain_emit_save(at->s, save->forward, operations);
        return status ? status : chain_emit_backward(at->s, save->backward, at->plain, operations);
    }
    return REMAT_CORRUPT;
}

typedef struct tracer {
    const chain_breakpoints *table;
    const chain_costs *chain;
} tracer;

static remat_status trace_task(const void *context, chain_task at, chain_stack *stack,
                               remat_operations *operations)
{
    const chain_breakpoints *table = ((const tracer *)context)->table;
    const chain_costs *chain = ((const tracer *)context)->chain;
    if (at.closes)
        return chain_emit_backward(at.s, at.implementation, at.plain, operations);
    int64_t ticks;
    if (!cost_within(table, at.s, at.t, at.room, &ticks))
        return REMAT_CORRUPT;
    if (at.s == at.t)
        return emit_leaf(chain, &at, ticks, operations);
    const chain_double *save = find_save(table, chain, &at, ticks);
    if (save) {
        chain_push(stack, (chain_task){.s = at.s,
                                       .implementation = save->backward,
                                       .plain = at.plain,
                                       .closes = true});
        chain_push(stack, (chain_task){.room = at.room - save->kept, .s = at.s + 1, .t = at.t});
        return chain_emit_save(at.s, save->forward, operations);
    }
    uint32_t k = find_pass(table, chain, &at, ticks);
    if (k == 0)
        return REMAT_CORRUPT;
    uint64_t right = at.room - chain->output[k - 1];
    chain_push(stack, (chain_task){.room = at.room, .s = at.s, .t = k - 1, .plain = at.plain});
    chain_push(stack, (chain_task){.room = right, .s = k, .t = at.t, .plain = true});
    return emit_pass(chain, &at, k - 1, operations);
}

remat_status chain_breakpoints_trace(const chain_breakpoints *table, const chain_costs *chain,
                                     uint64_t bytes, remat_operations *operations,
                                     remat_error *error)
{
    const tracer context = {table, chain};
    remat_status status = chain_emit_tasks(chain, bytes, trace_task, &context, operations);
    if (status == REMAT_CORRUPT)
        return remat_fail(error, status, NULL, "the table has no schedule in %llu bytes",
                          (unsigned long long)bytes);
    return status ? remat_fail_memory(error) : REMAT_OK;
}
