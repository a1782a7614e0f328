/* Several solvers asked the same question. */
#include "remat/table.h"

#include <stdlib.h>

typedef struct candidate {
    const remat_solver *solver;
    double updates;
    size_t position; /* in the registry */
} candidate;

static int compare_cost(const void *a, const void *b)
{
    const candidate *p = a, *q = b;
    if (p->updates != q->updates)
        return p->updates < q->updates ? -1 : 1;
    return p->position < q->position ? -1 : 1;
}

size_t remat_auto_solvers(const remat_problem *problem, uint64_t memory_limit,
                          const remat_solver *ret_solvers[REMAT_MAX_SOLVERS])
{
    candidate candidates[REMAT_MAX_SOLVERS];
    size_t n_solvers, n = 0;
    const remat_solver *const *solvers = remat_solvers(&n_solvers);
    for (size_t i = 0; i < n_solvers && n < REMAT_MAX_SOLVERS; i++) {
        remat_problem own = *problem;
        remat_estimate estimate;
        own.options = remat_options_default(solvers[i]);
        unsigned left_out =
            REMAT_BASELINE |
            (problem->profile->kind == REMAT_CHAIN ? (unsigned)REMAT_BASELINE_ON_CHAINS : 0u);
        if ((solvers[i]->accepts & left_out) || remat_solver_accepts(solvers[i], &own, NULL) ||
            remat_estimate_table(solvers[i], &own, &estimate, NULL) ||
            (memory_limit > 0 && estimate.least_bytes > memory_limit))
            continue;
        candidates[n++] = (candidate){solvers[i], estimate.updates, i};
    }
    qsort(candidates, n, sizeof *candidates, compare_cost);
    for (size_t i = 0; i < n; i++)
        ret_solvers[i] = candidates[i].solver;
    return n;
}

/* Sums of the same times in another order differ by less. */
#define SAME_TIME 1e-12

static bool better(const remat_point *a, const remat_point *b)
{
    double slack = SAME_TIME * b->makespan;
    if (a->makespan < b->makespan - slack)
        return true;
    return a->makespan <= b->makespan + slack && a->peak < b->peak;
}

/* The same with a limit for each table. */
static ptrdiff_t best_within(const remat_table *const *tables, size_t n, const uint64_t *limits)
{
    ptrdiff_t best = -1;
    remat_point best_point = {0};
    for (size_t i = 0; i < n; i++) {
        size_t n_points;
        const remat_point *frontier = remat_table_frontier(tables[i], &n_points);
        ptrdiff_t index = remat_table_point(tables[i], limits[i]);
        if (index >= 0 && (best < 0 || better(&frontier[index], &best_point))) {
            best = (ptrdiff_t)i;
            best_point = frontier[index];
        }
    }
    return best;
}

ptrdiff_t remat_best_table(const remat_table *const *tables, size_t n, uint64_t budget,
                           uint64_t *ret_least)
{
    uint64_t limits[REMAT_MAX_SOLVERS];
    *ret_least = 0;
    for (size_t i = 0; i < n; i++) {
        size_t n_points;
        const remat_point *frontier = remat_table_frontier(tables[i], &n_points);
        if (n_points > 0 && (*ret_least == 0 || frontier[0].peak < *ret_least))
            *ret_least = frontier[0].peak;
        limits[i] = budget;
    }
    return best_within(tables, n, limits);
}

remat_status remat_fail_infeasible(const char *solver, const remat_problem *problem,
                                   uint64_t budget, uint64_t least, remat_error *error)
{
    const char *name = problem->profile->name;
    if (least > 0)
        remat_fail(error, REMAT_INFEASIBLE, "budget",
                   "%s has no schedule of \"%.100s\" within %llu bytes; the least budget it can "
                   "serve is %llu bytes",
                   solver, name, (unsigned long long)budget, (unsigned long long)least);
    else
        remat_fail(error, REMAT_INFEASIBLE, "budget",
                   "%s has no schedule of \"%.100s\" within %llu bytes", solver, name,
                   (unsigned long long)budget);
    if (error)
        error->number = least;
    return REMAT_INFEASIBLE;
}

/* ---- the schedule to hand out ---- */

/* The best schedule of peak at most limit, laid out. */
static remat_status lay_out(const remat_table *table, const remat_problem *problem, uint64_t budget,
                            uint64_t limit, uint32_t alignment, remat_schedule *ret_schedule,
                            remat_error *error)
{
    remat_schedule schedule = {0};
    ptrdiff_t point = remat_table_point(table, limit);
    remat_status status =
        remat_table_trace(table, problem, (size_t)point, budget, &schedule, error);
    if (!status && alignment)
        status = remat_layout_new(problem->profile, &schedule.operations, alignment,
                                  &schedule.layout, error);
    if (!status && alignment)
        status =
            remat_layout_check(problem->profile, &schedule.operations, &schedule.layout, error);
    if (status)
        remat_schedule_clear(&schedule);
    else
        *ret_schedule = schedule;
    return status;
}

remat_status remat_least_budget(const remat_table *const *tables, size_t n,
                                const remat_problem *problem, uint32_t alignment,
                                uint64_t *ret_peak, uint64_t *ret_budget, remat_error *error)
{
    remat_schedule schedule;
    uint64_t again;
    remat_best_table(tables, n, 0, ret_peak);
    *ret_budget = *ret_peak;
    if (!alignment || *ret_peak == 0)
        return REMAT_OK;
    ptrdiff_t table = remat_best_table(tables, n, *ret_peak, &again);
    remat_status status =
        lay_out(tables[table], problem, *ret_peak, *ret_peak, alignment, &schedule, error);
    if (status)
        return status;
    *ret_budget = schedule.layout.arena;
    remat_schedule_clear(&schedule);
    return REMAT_OK;
}

static remat_status refuse(const remat_table *const *tables, size_t n, const char *name,
                           const remat_problem *problem, uint64_t budget, uint32_t alignment,
                           remat_error *error)
{
    uint64_t peak, least;
    remat_status status = remat_least_budget(tables, n, problem, alignment, &peak, &least, error);
    if (status)
        return status;
    if (peak > budget || peak == 0)
        return remat_fail_infeasible(name, problem, budget, least, error);
    remat_fail(error, REMAT_INFEASIBLE, "budget",
               "%s has no schedule of \"%.100s\" whose arena fits %llu bytes; its smallest has a "
               "peak of %llu bytes and an arena of %llu bytes",
               name, problem->profile->name, (unsigned long long)budget, (unsigned long long)peak,
               (unsigned long long)least);
    if (error)
        error->number = least;
    return REMAT_INFEASIBLE;
}

remat_status remat_best_schedule(const remat_table *const *tables, size_t n, const char *name,
                                 const remat_problem *problem, uint64_t budget, uint32_t alignment,
                                 remat_schedule *ret_schedule, remat_error *error)
{
    uint64_t limits[REMAT_MAX_SOLVERS];
    for (size_t i = 0; i < n; i++)
        limits[i] = budget;
    for (;;) {
        ptrdiff_t best = best_within(tables, n, limits);
        if (best < 0)
            return refuse(tables, n, name, problem, budget, alignment, error);
        remat_schedule schedule;
        remat_status status =
            lay_out(tables[best], problem, budget, limits[best], alignment, &schedule, error);
        if (status)
            return status;
        if (schedule.layout.arena <= budget) {
            *ret_schedule = schedule;
            return REMAT_OK;
        }
        limits[best] = schedule.simulation.peak - 1;
        remat_schedule_clear(&schedule);
    }
}

remat_status remat_store_all_peak(const remat_profile *profile, uint64_t *ret_peak,
                                  remat_error *error)
{
    const remat_problem problem = {.profile = profile, .max_budget = UINT64_MAX};
    remat_table *table = NULL;
    size_t n;
    remat_status status =
        remat_tabulate(remat_solver_find("store-all"), &problem, NULL, &table, error);
    if (status)
        return status;
    const remat_point *frontier = remat_table_frontier(table, &n);
    *ret_peak = frontier[n - 1].peak;
    remat_table_free(table);
    return REMAT_OK;
}
