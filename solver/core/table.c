/* Tables: what a solver found, and the schedules traced out of it. */
#include "core/table_inside.h"

#include <math.h>
#include <stdlib.h>

/* Of the implementations of a node those that take the least time together: what A saves, B of the
 * same one reads. */
static void least_times(const remat_node *node, double *ret_forward, double *ret_backward)
{
    double fastest = node->forward_time;
    for (uint32_t k = 1; k <= node->n_alternatives; k++)
        fastest = fmin(fastest, remat_implementation(node, k).forward_time);
    *ret_forward = *ret_backward = INFINITY;
    for (uint32_t k = 0; k <= node->n_alternatives; k++) {
        const remat_alternative cost = remat_implementation(node, k);
        double forward = cost.saved_bytes > 0 ? cost.forward_time : fastest;
        if (forward + cost.backward_time < *ret_forward + *ret_backward) {
            *ret_forward = forward;
            *ret_backward = cost.backward_time;
        }
    }
}

double remat_store_all_makespan(const remat_profile *profile)
{
    /* Summed in the order in which store-all runs, so that its replay gives the same bits. */
    double makespan = 0, forward, backward;
    for (uint32_t v = 0; v < profile->n_nodes; v++) {
        least_times(&profile->nodes[v], &forward, &backward);
        makespan += forward;
    }
    for (uint32_t v = profile->n_nodes; v-- > 0;) {
        least_times(&profile->nodes[v], &forward, &backward);
        makespan += backward;
    }
    return makespan;
}

/* ---- tables ---- */

/* FNV-1a, 64 bits, over the canonical encoding: tells profiles apart by accident, not by malice. */
static void add_fingerprint(void *context, const void *bytes, size_t length)
{
    uint64_t *hash = context;
    for (size_t i = 0; i < length; i++)
        *hash = (*hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
}

static uint64_t fingerprint(const remat_profile *profile)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    remat_profile_encode(profile, add_fingerprint, &hash);
    return hash;
}

remat_status remat_table_new(const remat_solver *solver, const remat_problem *problem,
                             remat_table **ret_table, remat_error *error)
{
    remat_table *table = calloc(1, sizeof *table);
    if (!table)
        return remat_fail_memory(error);
    table->solver = solver;
    table->fingerprint = fingerprint(problem->profile);
    table->options = problem->options;
    table->chooses = problem->profile->n_alternatives > 0;
    *ret_table = table;
    return REMAT_OK;
}

static remat_status estimate_views(const remat_solver *solver, const remat_table_views *views,
                                   remat_estimate *ret_estimate, remat_error *error)
{
    remat_estimate sum = {0}, one;
    for (unsigned i = 0; i < views->n; i++) {
        remat_status status = solver->estimate(&views->problems[i], &one, error);
        if (status)
            return status;
        sum.table_bytes += one.table_bytes;
        sum.least_bytes += one.least_bytes ? one.least_bytes : one.table_bytes;
        sum.updates += one.updates;
    }
    *ret_estimate = sum;
    return REMAT_OK;
}

remat_status remat_estimate_table(const remat_solver *solver, const remat_problem *problem,
                                  remat_estimate *ret_estimate, remat_error *error)
{
    remat_table_views views;
    remat_status status = remat_table_views_init(solver, problem, &views, error);
    if (status)
        return status;
    status = estimate_views(solver, &views, ret_estimate, error);
    remat_table_views_clear(&views);
    return status;
}

static remat_status refuse_by_estimate(const remat_solver *solver, const remat_table_views *views,
                                       const remat_host *host, remat_error *error)
{
    remat_estimate estimate;
    remat_status status = estimate_views(solver, views, &estimate, error);
    if (status)
        return status;
    if (host && host->memory_limit && estimate.least_bytes > host->memory_limit)
        return remat_fail(error, REMAT_TOO_LARGE, NULL,
                          "%s would need a table of %llu bytes and %.3g updates; the limit is %llu "
                          "bytes",
                          solver->name, (unsigned long long)estimate.least_bytes, estimate.updates,
                          (unsigned long long)host->memory_limit);
    return REMAT_OK;
}

static remat_status tabulate_views(const remat_solver *solver, const remat_table_views *views,
                                   const remat_problem *problem, const remat_host *host,
                                   remat_table **ret_table, remat_error *error)
{
    remat_table *table = NULL;
    remat_status status = refuse_by_estimate(solver, views, host, error);
    if (status || (status = remat_table_new(solver, problem, &table, error)))
        return status;
    table->own_view = views->owned[REMAT_VIEW_OWN] != NULL;
    for (unsigned i = 0; i < views->n && !status; i++)
        status = solver->tabulate(&views->problems[i], host, &table->inner[i], error);
    if (!status)
        status = remat_table_build_frontier(table, views, problem, host, error);
    if (status) {
        remat_table_free(table);
        return status;
    }
    *ret_table = table;
    return REMAT_OK;
}

remat_status remat_tabulate(const remat_solver *solver, const remat_problem *problem,
                            const remat_host *host, remat_table **ret_table, remat_error *error)
{
    remat_table_views views;
    remat_status status = remat_solver_accepts(solver, problem, error);
    if (status || (status = remat_table_views_init(solver, problem, &views, error)))
        return status;
    status = tabulate_views(solver, &views, problem, host, ret_table, error);
    remat_table_views_clear(&views);
    if (!status)
        remat_host_progress(host, 1);
    return status;
}

void remat_table_free(remat_table *table)
{
    if (!table)
        return;
    for (unsigned i = 0; i < REMAT_VIEWS; i++)
        if (table->inner[i])
            table->solver->table_free(table->inner[i]);
    free(table->frontier);
    free(table);
}

const remat_solver *remat_table_solver(const remat_table *table)
{
    return table->solver;
}

uint64_t remat_table_bytes(const remat_table *table)
{
    uint64_t bytes = table->n_frontier * sizeof(remat_point) + sizeof *table;
    for (unsigned i = 0; i < REMAT_VIEWS; i++)
        if (table->inner[i])
            bytes += table->solver->table_bytes(table->inner[i]);
    return bytes;
}

uint64_t remat_table_max_budget(const remat_table *table)
{
    uint64_t budget = UINT64_MAX;
    for (unsigned i = 0; i < REMAT_VIEWS; i++) {
        uint64_t one =
            table->inner[i] ? table->solver->table_max_budget(table->inner[i]) : UINT64_MAX;
        budget = one < budget ? one : budget;
    }
    return budget;
}

const remat_point *remat_table_frontier(const remat_table *table, size_t *ret_count)
{
    *ret_count = table->n_frontier;
    return table->frontier;
}

ptrdiff_t remat_table_point(const remat_table *table, uint64_t budget)
{
    size_t low = 0, high = table->n_frontier;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->frontier[middle].peak <= budget)
            low = middle + 1;
        else
            high = middle;
    }
    return (ptrdiff_t)low - 1;
}

/* ---- schedules ---- */

/* Least makespan of the solver's class within budget; 0 where the method gives no bound. The own
 * view bounds nothing: alternatives may be faster. */
static double class_bound(const remat_table *table, uint64_t budget)
{
    const void *inner = table->inner[table->own_view ? REMAT_VIEW_LEAST : REMAT_VIEW_OWN];
    return inner && table->solver->lower_bound ? table->solver->lower_bound(inner, budget) : 0;
}

double remat_table_lower_bound(const remat_table *table, const remat_profile *profile,
                               uint64_t budget, double makespan)
{
    double least = fmin(remat_store_all_makespan(profile), makespan);
    if (makespan <= least * (1 + REMAT_TABLE_ROUNDING))
        return least;
    return fmax(least, fmin(class_bound(table, budget), makespan));
}

/* What may be claimed of a makespan at a budget. A schedule can be faster than the bound of its
 * class: liveness frees what the class counts as kept. */
static void claim(const remat_table *table, const remat_problem *problem, uint64_t budget,
                  remat_schedule *schedule)
{
    const remat_profile *profile = problem->profile;
    double makespan = schedule->simulation.makespan;
    schedule->class_name = "all schedules";
    schedule->lower_bound = remat_table_lower_bound(table, profile, budget, makespan);
    schedule->optimality = REMAT_HEURISTIC;
    if (makespan <= remat_store_all_makespan(profile) * (1 + REMAT_TABLE_ROUNDING)) {
        schedule->optimality = REMAT_OPTIMAL;
        return;
    }
    double bound = class_bound(table, budget);
    if (bound > 0)
        schedule->class_name = table->solver->class_name;
    if (makespan <= bound * (1 + REMAT_TABLE_ROUNDING)) {
        bool all = table->solver->bounds_all && !problem->link;
        schedule->optimality = all ? REMAT_OPTIMAL : REMAT_OPTIMAL_IN_CLASS;
    }
}

static void describe(const remat_table *table, size_t step, remat_schedule *schedule)
{
    const remat_solver *solver = table->solver;
    const void *inner = table->inner[remat_table_view_of(table, &step)];
    schedule->nominal_budget = solver->step_budget(inner, step);
    schedule->model_peak =
        solver->model_peak ? solver->model_peak(inner, step) : schedule->nominal_budget;
}

remat_status remat_table_trace(const remat_table *table, const remat_problem *problem, size_t index,
                               uint64_t budget, remat_schedule *ret_schedule, remat_error *error)
{
    const remat_point *point = &table->frontier[index];
    remat_schedule schedule = {.solver = table->solver};
    remat_problem own = *problem;
    remat_table_views views;
    own.options = table->options;
    remat_status status = remat_table_views_init(table->solver, &own, &views, error);
    if (status)
        return status;
    status = remat_table_realise(table, &views, &own, point, &schedule.operations,
                                 &schedule.simulation, error);
    remat_table_views_clear(&views);
    if (status)
        return status;
    if (schedule.simulation.peak != point->peak ||
        schedule.simulation.makespan != point->makespan) {
        remat_schedule_clear(&schedule);
        return remat_fail(error, REMAT_INTERNAL, NULL,
                          "%s, step %u: a second replay differs from the first",
                          table->solver->name, point->step);
    }
    describe(table, point->step, &schedule);
    claim(table, problem, budget, &schedule);
    *ret_schedule = schedule;
    return REMAT_OK;
}

remat_status remat_table_schedule(const remat_table *table, const remat_problem *problem,
                                  uint64_t budget, remat_schedule *ret_schedule, remat_error *error)
{
    ptrdiff_t index = remat_table_point(table, budget);
    if (index < 0) {
        uint64_t least = table->n_frontier ? table->frontier[0].peak : 0;
        return remat_fail_infeasible(table->solver->name, problem, budget, least, error);
    }
    return remat_table_trace(table, problem, (size_t)index, budget, ret_schedule, error);
}

void remat_schedule_clear(remat_schedule *schedule)
{
    remat_operations_clear(&schedule->operations);
    remat_layout_clear(&schedule->layout);
    *schedule = (remat_schedule){0};
}
