/* Canonical schedules of pebble tables. For the minimising (m, i): keep x_p of branch m, advance it
 * i steps, solve the rest with one slot less and the gradient at x_{p+i} kept, then run the i
 * backwards of branch m. Corrected: the report's Definition 8 advances first and replicates the
 * output; x_p must be replicated before the first step, and the output needs no copy. */
#include "papers/pebble/pebble.h"

#include "model/arrays.h"

static remat_status push(remat_steps *list, remat_pebble_kind kind, uint32_t branch, uint32_t index)
{
    if (!model_reserve(&list->items, &list->capacity, list->length + 1, sizeof *list->items))
        return REMAT_NO_MEMORY;
    list->items[list->length++] =
        (remat_step){.kind = (uint8_t)kind, .branch = branch, .index = index};
    return REMAT_OK;
}

/* S x_s, then F up to x_{s+i}. */
static remat_status push_advance(remat_steps *list, uint32_t branch, uint32_t s, uint32_t i)
{
    remat_status status = push(list, REMAT_PEBBLE_S, branch, s);
    for (uint32_t q = s; q < s + i && !status; q++)
        status = push(list, REMAT_PEBBLE_F, branch, q);
    return status;
}

/* ---- below the turn ---- */

static uint64_t chain_choice(uint32_t n, uint32_t slots, uint32_t i)
{
    uint32_t above = remat_pebble_chain(n - i, slots - 1), below = remat_pebble_chain(i - 1, slots);
    if (above == REMAT_PEBBLE_INFINITE || below == REMAT_PEBBLE_INFINITE)
        return REMAT_PEBBLE_INFINITE;
    return (uint64_t)i + above + below;
}

/* Backwards s + n .. s of a branch from x_s. Feasible. */
static remat_status trace_chain(remat_steps *list, uint32_t branch, uint32_t s, uint32_t n,
                                uint32_t slots)
{
    while (n > 0) {
        uint32_t best = 1;
        for (uint32_t i = 2; i <= n; i++)
            if (chain_choice(n, slots, i) < chain_choice(n, slots, best))
                best = i;
        remat_status status = push_advance(list, branch, s, best);
        if (!status)
            status = trace_chain(list, branch, s + best, n - best, slots - 1);
        if (status)
            return status;
        n = best - 1;
    }
    return push(list, REMAT_PEBBLE_B, branch, s);
}

/* ---- the join ---- */

/* What is left to do once the inner problem of a choice is solved. */
typedef struct outer {
    uint32_t branch, start, steps, slots; /* of the backwards */
    bool drop;                            /* the gradient at x_start afterwards */
} outer;

typedef struct descent {
    const remat_pebble_table *table;
    remat_pebble_join rest; /* lengths left */
    uint32_t start[REMAT_PEBBLE_BRANCHES], slots;
    outer *stack;
    size_t depth;
} descent;

static uint64_t join_choice(const descent *d, uint32_t m, uint32_t i, uint32_t chain_slots)
{
    remat_pebble_join inner = d->rest;
    inner.length[m] -= i;
    inner.keep[m] = true;
    uint32_t above = remat_pebble_forwards(d->table, &inner, d->slots - 1);
    uint32_t below = remat_pebble_chain(i - 1, chain_slots);
    if (above == REMAT_PEBBLE_INFINITE || below == REMAT_PEBBLE_INFINITE)
        return REMAT_PEBBLE_INFINITE;
    return (uint64_t)i + above + below;
}

static uint32_t others_kept(const remat_pebble_join *join, uint32_t m)
{
    uint32_t kept = 0;
    for (uint32_t j = 0; j < join->k; j++)
        kept += j != m && join->keep[j];
    return kept;
}

static remat_status descend_once(descent *d, remat_steps *list, remat_error *error)
{
    uint64_t best = REMAT_PEBBLE_INFINITE;
    outer choice = {0};
    for (uint32_t m = 0; m < d->rest.k; m++) {
        uint32_t kept = others_kept(&d->rest, m), slots = d->slots > kept ? d->slots - kept : 0;
        for (uint32_t i = 1; i <= d->rest.length[m]; i++) {
            uint64_t value = join_choice(d, m, i, slots);
            if (value < best) {
                best = value;
                choice = (outer){m, d->start[m], i, slots, !d->rest.keep[m]};
            }
        }
    }
    if (best == REMAT_PEBBLE_INFINITE)
        return remat_fail(error, REMAT_CORRUPT, NULL, "the pebble table contradicts itself");
    d->stack[d->depth++] = choice;
    if (push_advance(list, choice.branch, choice.start, choice.steps))
        return remat_fail_memory(error);
    d->start[choice.branch] += choice.steps;
    d->rest.length[choice.branch] -= choice.steps;
    d->rest.keep[choice.branch] = true;
    d->slots--;
    return REMAT_OK;
}

static remat_status push_turn(const descent *d, remat_steps *list)
{
    remat_status status = push(list, REMAT_PEBBLE_T, 0, 0);
    for (uint32_t j = 0; j < d->rest.k && !status; j++)
        if (!d->rest.keep[j])
            status = push(list, REMAT_PEBBLE_DB, j, 0);
    return status;
}

static remat_status trace_join(descent *d, remat_steps *list, remat_error *error)
{
    while (remat_pebble_most_slots(&d->rest) > d->rest.k) {
        remat_status status = descend_once(d, list, error);
        if (status)
            return status;
    }
    remat_status status = push_turn(d, list);
    while (d->depth > 0 && !status) {
        const outer *o = &d->stack[--d->depth];
        status = trace_chain(list, o->branch, o->start, o->steps - 1, o->slots);
        if (!status && o->drop)
            status = push(list, REMAT_PEBBLE_DB, o->branch, 0);
    }
    return status ? remat_fail_memory(error) : REMAT_OK;
}

remat_status remat_pebble_trace(const remat_pebble_table *table, const remat_pebble_join *join,
                                uint32_t slots, remat_steps *operations, remat_error *error)
{
    uint32_t most = remat_pebble_most_slots(join), least = remat_pebble_least_slots(join);
    descent d = {.table = table, .rest = *join, .slots = slots < most ? slots : most};
    if (remat_pebble_forwards(table, join, d.slots) == REMAT_PEBBLE_INFINITE) {
        remat_fail(error, REMAT_INFEASIBLE, "budget",
                   "no schedule of this join fits %u slots; the least is %u", slots, least);
        if (error)
            error->number = least;
        return REMAT_INFEASIBLE;
    }
    d.stack = malloc(((size_t)most + 1) * sizeof *d.stack);
    if (!d.stack)
        return remat_fail_memory(error);
    remat_status status = trace_join(&d, operations, error);
    free(d.stack);
    return status;
}
