/* Schedules out of a table of breakpoints: at every level the candidate that makes the value. */
#include "chain/breakpoints_table.h"

#include <stdlib.h>

/* A sub-chain to be emitted, or the backward that closes a C_1, which runs `way`. */
typedef struct task {
    uint64_t bytes;
    uint32_t s, t, way;
    bool plain, closes;
} task;

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

/* The way to run F_all and B in C_1 that costs ticks, or NULL. */
static const chain_double_way *find_save(const chain_breakpoints *table, const chain_costs *chain,
                                         const task *at, int64_t ticks)
{
    const chain_stage_ways *stage = &chain->stages[at->s];
    for (uint32_t i = 0; i < stage->n_saves && !table->inputs_only; i++) {
        const chain_double_way *save = &stage->saves[i];
        int64_t inner;
        if (at->bytes >= chain_need_save(chain, save, at->t) &&
            cost_within(table, at->s + 1, at->t, at->bytes - save->kept, &inner) &&
            inner + save->ticks == ticks)
            return save;
    }
    return NULL;
}

/* The fastest way of F^j in a pass, or NULL. */
static const chain_single_way *find_forward(const chain_costs *chain, const task *at, uint32_t j)
{
    const chain_stage_ways *stage = &chain->stages[j];
    uint64_t need = chain_need_pass(chain, at->s, j, at->t);
    const chain_single_way *found = NULL;
    for (uint32_t i = 0; i < stage->n_passes && need + stage->passes[i].bytes <= at->bytes; i++)
        found = &stage->passes[i];
    return found;
}

/* The k of C_2 that costs ticks, or 0. */
static uint32_t find_pass(const chain_breakpoints *table, const chain_costs *chain, const task *at,
                          int64_t ticks)
{
    int64_t cost = 0;
    for (uint32_t k = at->s + 1; k <= at->t; k++) {
        const chain_single_way *forward = find_forward(chain, at, k - 1);
        if (!forward)
            return 0;
        cost += forward->ticks;
        int64_t right, left;
        if (at->bytes >= chain->output[k - 1] &&
            cost_within(table, at->s, k - 1, at->bytes, &left) &&
            cost_within(table, k, at->t, at->bytes - chain->output[k - 1], &right) &&
            cost + right + left == ticks)
            return k;
    }
    return 0;
}

/* ---- operations: those of chain.h, with their ways ---- */

/* Sets the way of the operations of one kind from position `from` on. */
static void choose(remat_operations *operations, size_t from, remat_operation_kind kind,
                   uint32_t way)
{
    for (size_t i = from; i < operations->length; i++)
        if (operations->items[i].kind == kind)
            operations->items[i].alternative = (uint16_t)way;
}

static remat_status emit_pass(const chain_costs *chain, const task *at, uint32_t last,
                              remat_operations *operations)
{
    size_t from = operations->length;
    remat_status status = chain_emit_pass(at->s, last, operations);
    for (size_t i = from; i < operations->length; i++)
        if (operations->items[i].kind == REMAT_F)
            operations->items[i].alternative =
                (uint16_t)find_forward(chain, at, operations->items[i].index + 1)->way;
    return status;
}

static remat_status emit_backward(const task *at, uint32_t way, remat_operations *operations)
{
    size_t from = operations->length;
    remat_status status = chain_emit_backward(at->s, at->plain, operations);
    choose(operations, from, REMAT_B, way);
    return status;
}

static remat_status emit_save(const task *at, uint32_t way, remat_operations *operations)
{
    size_t from = operations->length;
    remat_status status = chain_emit_save(at->s, operations);
    choose(operations, from, REMAT_A, way);
    return status;
}

static remat_status emit_direct(const task *at, uint32_t way, remat_operations *operations)
{
    size_t from = operations->length;
    remat_status status = chain_emit_direct(at->s, at->plain, operations);
    choose(operations, from, REMAT_B, way);
    return status;
}

static remat_status emit_leaf(const chain_costs *chain, const task *at, int64_t ticks,
                              remat_operations *operations)
{
    const chain_stage_ways *stage = &chain->stages[at->s];
    for (uint32_t i = 0; i < stage->n_directs; i++)
        if (stage->directs[i].ticks == ticks && stage->directs[i].bytes <= at->bytes)
            return emit_direct(at, stage->directs[i].way, operations);
    for (uint32_t i = 0; i < stage->n_saves; i++) {
        const chain_double_way *save = &stage->saves[i];
        if (save->ticks != ticks || chain_need_save(chain, save, at->s) > at->bytes)
            continue;
        remat_status status = emit_save(at, save->forward, operations);
        return status ? status : emit_backward(at, save->backward, operations);
    }
    return REMAT_CORRUPT;
}

static remat_status trace_task(const chain_breakpoints *table, const chain_costs *chain, task at,
                               task *stack, size_t *depth, remat_operations *operations)
{
    if (at.closes)
        return emit_backward(&at, at.way, operations);
    int64_t ticks;
    if (!cost_within(table, at.s, at.t, at.bytes, &ticks))
        return REMAT_CORRUPT;
    if (at.s == at.t)
        return emit_leaf(chain, &at, ticks, operations);
    const chain_double_way *save = find_save(table, chain, &at, ticks);
    if (save) {
        stack[(*depth)++] =
            (task){.s = at.s, .way = save->backward, .plain = at.plain, .closes = true};
        stack[(*depth)++] = (task){.bytes = at.bytes - save->kept, .s = at.s + 1, .t = at.t};
        return emit_save(&at, save->forward, operations);
    }
    uint32_t k = find_pass(table, chain, &at, ticks);
    if (k == 0)
        return REMAT_CORRUPT;
    stack[(*depth)++] = (task){.bytes = at.bytes, .s = at.s, .t = k - 1, .plain = at.plain};
    stack[(*depth)++] =
        (task){.bytes = at.bytes - chain->output[k - 1], .s = k, .t = at.t, .plain = true};
    return emit_pass(chain, &at, k - 1, operations);
}

remat_status chain_breakpoints_trace(const chain_breakpoints *table, const chain_costs *chain,
                                     uint64_t bytes, remat_operations *operations,
                                     remat_error *error)
{
    task *stack = malloc(((size_t)chain->n + 2) * sizeof *stack);
    if (!stack)
        return remat_fail_memory(error);
    size_t depth = 0;
    stack[depth++] = (task){.bytes = bytes, .s = 1, .t = chain->n, .plain = true};
    remat_status status = REMAT_OK;
    while (depth > 0 && !status) {
        task at = stack[--depth];
        status = trace_task(table, chain, at, stack, &depth, operations);
    }
    free(stack);
    if (status == REMAT_CORRUPT)
        return remat_fail(error, status, NULL, "the table has no schedule in %llu bytes",
                          (unsigned long long)bytes);
    return status ? remat_fail_memory(error) : REMAT_OK;
}
