/* The least schedule of some tables, and the next that is worth more memory. */
#include "core/neighbours.h"

/* Of the overhead that is left: what saves less is not worth being told. */
#define USEFUL 0.01

static remat_neighbour of_point(const remat_table *table, const remat_point *point)
{
    return (remat_neighbour){.solver = remat_table_solver(table),
                             .peak = point->peak,
                             .budget = point->peak,
                             .makespan = point->makespan};
}

static bool closer(const remat_point *a, const remat_neighbour *b)
{
    return !b->solver || a->peak < b->peak || (a->peak == b->peak && a->makespan < b->makespan);
}

/* The budget that a point needs with its layout. */
static remat_status lay_out(const remat_table *table, const remat_problem *problem, size_t index,
                            uint32_t alignment, uint64_t *ret_budget, remat_error *error)
{
    remat_schedule schedule = {0};
    uint64_t peak = *ret_budget;
    remat_status status = remat_table_trace(table, problem, index, peak, &schedule, error);
    if (!status)
        status = remat_layout_new(problem->profile, &schedule.operations, alignment,
                                  &schedule.layout, error);
    if (!status)
        *ret_budget = schedule.layout.arena;
    remat_schedule_clear(&schedule);
    return status;
}

remat_status core_find_neighbours(const remat_table *const *tables, size_t n,
                                  const remat_problem *problem, uint32_t alignment,
                                  remat_schedule *schedule, remat_error *error)
{
    double makespan = schedule->simulation.makespan;
    double overhead = makespan - remat_store_all_makespan(problem->profile);
    size_t chosen = 0, at = 0;
    for (size_t i = 0; i < n; i++) {
        size_t n_points;
        const remat_point *points = remat_table_frontier(tables[i], &n_points);
        if (n_points > 0 && closer(&points[0], &schedule->least))
            schedule->least = of_point(tables[i], &points[0]);
        bool serves_others = remat_table_serves(tables[i], UINT64_MAX);
        for (size_t k = 0; k < n_points && serves_others && overhead > 1e-9 * makespan; k++) {
            if (points[k].makespan > makespan - USEFUL * overhead)
                continue;
            if (closer(&points[k], &schedule->next)) {
                schedule->next = of_point(tables[i], &points[k]);
                chosen = i;
                at = k;
            }
            break;
        }
    }
    if (!schedule->next.solver || !alignment)
        return REMAT_OK;
    return lay_out(tables[chosen], problem, at, alignment, &schedule->next.budget, error);
}
