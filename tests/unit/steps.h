/* What a solver offers, as it offers it: a sink that keeps every list with what the solver's own
 * model says of it, before liveness, states and replay. */
#ifndef TESTS_UNIT_STEPS_H
#define TESTS_UNIT_STEPS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "remat/table.h"

#include <math.h>
#include <stdlib.h>

typedef struct steps_one {
    remat_operations operations;
    remat_model model;
} steps_one;

typedef struct steps {
    steps_one *items;
    size_t n;
    struct {
        uint64_t budget;
        double makespan;
    } * bounds;
    size_t n_bounds;
} steps;

static inline remat_status steps_offer(void *data, size_t count, remat_tracer *trace, void *context,
                                       remat_error *error)
{
    steps *s = data;
    s->items = realloc(s->items, (s->n + count + 1) * sizeof *s->items);
    assert_non_null(s->items);
    for (size_t i = 0; i < count; i++) {
        steps_one one = {.model = {0}};
        remat_status status = trace(context, i, &one.operations, &one.model, error);
        if (!status)
            s->items[s->n++] = one;
        else
            remat_operations_clear(&one.operations);
        if (status && status != REMAT_INFEASIBLE)
            return status;
    }
    return REMAT_OK;
}

static inline remat_status steps_take_bound(void *data, uint64_t budget, double makespan,
                                            remat_error *error)
{
    (void)error;
    steps *s = data;
    s->bounds = realloc(s->bounds, (s->n_bounds + 1) * sizeof *s->bounds);
    assert_non_null(s->bounds);
    s->bounds[s->n_bounds].budget = budget;
    s->bounds[s->n_bounds++].makespan = makespan;
    return REMAT_OK;
}

static inline remat_status steps_hold(void *data, uint64_t bytes, remat_error *error)
{
    (void)data;
    (void)bytes;
    (void)error;
    return REMAT_OK;
}

static inline void steps_bind(void *data, uint64_t low, uint64_t high)
{
    (void)data;
    (void)low;
    (void)high;
}

/* Makespan of the fastest step whose nominal budget is within budget; INFINITY: none. */
static inline double steps_best(const steps *s, uint64_t budget)
{
    double best = INFINITY;
    for (size_t i = 0; i < s->n; i++)
        if (s->items[i].model.budget <= budget)
            best = fmin(best, s->items[i].model.makespan);
    return best;
}

static inline double steps_sink_best(void *data, uint64_t budget)
{
    return steps_best(data, budget);
}

static inline double steps_bound(const steps *s, uint64_t budget)
{
    double bound = 0;
    for (size_t i = 0; i < s->n_bounds; i++)
        if (budget <= s->bounds[i].budget)
            bound = fmax(bound, s->bounds[i].makespan);
    return bound;
}

static inline uint64_t steps_least(const steps *s)
{
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < s->n; i++)
        if (s->items[i].model.budget < least)
            least = s->items[i].model.budget;
    return least;
}

static inline void steps_clear(steps *s)
{
    for (size_t i = 0; i < s->n; i++)
        remat_operations_clear(&s->items[i].operations);
    free(s->items);
    free(s->bounds);
    *s = (steps){0};
}

/* On failure nothing is left in *ret_steps. */
static inline remat_status steps_try(const remat_solver *solver, const remat_problem *problem,
                                     const remat_host *host, steps *ret_steps, remat_error *error)
{
    *ret_steps = (steps){0};
    const remat_sink sink = {.data = ret_steps,
                             .offer = steps_offer,
                             .bound = steps_take_bound,
                             .hold = steps_hold,
                             .best = steps_sink_best,
                             .bind = steps_bind};
    remat_status status = solver->solve(problem, host, &sink, error);
    if (status)
        steps_clear(ret_steps);
    return status;
}

static inline steps steps_of(const char *name, const remat_problem *problem)
{
    steps s;
    remat_error error = {0};
    if (steps_try(remat_solver_find(name), problem, NULL, &s, &error))
        fail_msg("%s: %s", name, error.message);
    return s;
}

#endif
