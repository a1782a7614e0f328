/* Whether a solver has a list within a budget: its lists are offered to a sink that ends at the
 * first one. The last of each offer, which solvers put last as it keeps least, are looked at before
 * all others, so that a yes takes a small part of the table's time. */
#include "model/lists.h"
#include "remat/table.h"

#include <math.h>

typedef struct reach {
    const remat_problem *problem;
    uint64_t budget;
    bool last, found; /* of an offer the last alone */
} reach;

static remat_status look_at(reach *r, size_t index, remat_tracer *trace, void *context,
                            remat_error *error)
{
    const remat_problem *problem = r->problem;
    remat_operations traced = {0}, whole = {0};
    remat_model model = {0};
    remat_simulation replay = {0};
    remat_status status = trace(context, index, &traced, &model, error);
    if (!status)
        status = model_complete_list(problem->profile, &traced, &whole, error);
    if (!status)
        status =
            remat_simulate(problem->profile, &whole, problem->link, NULL, NULL, &replay, error);
    if (!status && replay.valid) {
        remat_put_in_flight(&replay, problem->in_flight);
        r->found = replay.peak <= r->budget;
    }
    remat_operations_clear(&traced);
    remat_operations_clear(&whole);
    return status == REMAT_INFEASIBLE ? REMAT_OK : status;
}

static remat_status offer(void *data, size_t count, remat_tracer *trace, void *context,
                          remat_error *error)
{
    reach *r = data;
    remat_status status = REMAT_OK;
    for (size_t i = count; i-- > 0 && !status && !r->found;)
        if ((i + 1 == count) == r->last)
            status = look_at(r, i, trace, context, error);
    return !status && r->found ? REMAT_CANCELLED : status;
}

static remat_status ignore_bound(void *data, uint64_t budget, double makespan, remat_error *error)
{
    (void)data, (void)budget, (void)makespan, (void)error;
    return REMAT_OK;
}

static remat_status ignore_bytes(void *data, uint64_t bytes, remat_error *error)
{
    (void)data, (void)bytes, (void)error;
    return REMAT_OK;
}

static double know_none(void *data, uint64_t budget)
{
    (void)data, (void)budget;
    return INFINITY;
}

static void ignore_range(void *data, uint64_t low, uint64_t high)
{
    (void)data, (void)low, (void)high;
}

static remat_status look_in_table(const remat_solver *solver, const remat_problem *problem,
                                  uint64_t budget, const remat_host *host, bool *ret_reaches,
                                  remat_error *error)
{
    remat_problem one = *problem;
    remat_table *table = NULL, *several = NULL;
    one.in_flight = 1;
    remat_status status = remat_tabulate(solver, &one, host, &table, error);
    if (!status && problem->in_flight > 1)
        status = remat_table_in_flight(table, problem->in_flight, &several, error);
    if (!status)
        *ret_reaches = remat_table_point(several ? several : table, budget) >= 0;
    remat_table_free(several);
    remat_table_free(table);
    return status;
}

remat_status remat_reaches(const remat_solver *solver, const remat_problem *problem,
                           uint64_t budget, const remat_host *host, bool *ret_reaches,
                           remat_error *error)
{
    remat_status status = remat_solver_accepts(solver, problem, error);
    if (status)
        return status;
    if (problem->profile->n_alternatives > 0)
        return look_in_table(solver, problem, budget, host, ret_reaches, error);
    reach r = {.problem = problem, .budget = budget};
    const remat_sink sink = {&r, offer, ignore_bound, ignore_bytes, know_none, ignore_range};
    for (int pass = 0; pass < 2 && !status && !r.found; pass++) {
        r.last = pass == 0;
        status = solver->solve(problem, host, &sink, error);
    }
    *ret_reaches = r.found;
    return status == REMAT_CANCELLED && r.found ? REMAT_OK : status;
}
