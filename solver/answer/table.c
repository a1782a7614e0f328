/* Tables: what a solver found, and the schedules traced out of it. */
#include "answer/compact.h"
#include "answer/table_private.h"
#include "model/arrays.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* Of all that the lists depend on. */
static uint64_t fingerprint(const remat_problem *problem)
{
    static const remat_link none = {0};
    const remat_link *link = problem->link ? problem->link : &none;
    const double numbers[] = {link->to_host, link->to_device, link->latency, link->shared};
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    remat_profile_encode(problem->profile, add_fingerprint, &hash);
    add_fingerprint(&hash, numbers, sizeof numbers);
    add_fingerprint(&hash, problem->options.values, sizeof problem->options.values);
    return hash;
}

remat_status answer_table_new(const remat_solver *solver, const remat_problem *problem,
                              remat_table **ret_table, remat_error *error)
{
    remat_table *table = calloc(1, sizeof *table);
    if (!table)
        return remat_fail_memory(error);
    table->solver = solver;
    table->fingerprint = fingerprint(problem);
    table->most_budget = UINT64_MAX;
    *ret_table = table;
    return REMAT_OK;
}

/* ---- views ---- */

static void views_clear(answer_table_views *views)
{
    for (unsigned i = 0; i < REMAT_VIEWS; i++)
        model_profile_view_free(views->owned[i]);
    *views = (answer_table_views){0};
}

static remat_status views_init(const remat_solver *solver, const remat_problem *problem,
                               answer_table_views *ret_views, remat_error *error)
{
    answer_table_views views = {.problems = {*problem}, .n = 1};
    bool chooses = problem->profile->n_alternatives > 0;
    if (chooses && !(solver->chooses && solver->chooses(problem))) {
        remat_status status = REMAT_OK;
        for (unsigned i = 0; i < REMAT_VIEWS && !status; i++) {
            status =
                model_profile_view_new(problem->profile, (remat_view)i, &views.owned[i], error);
            views.problems[i] = *problem;
            views.problems[i].profile = views.owned[i];
        }
        if (status) {
            views_clear(&views);
            return status;
        }
        const remat_problem *least = &views.problems[REMAT_VIEW_LEAST];
        views.n = remat_solver_accepts(solver, least, NULL) ? 1 : REMAT_VIEWS;
    }
    *ret_views = views;
    return REMAT_OK;
}

/* ---- making one ---- */

/* Of a solver that does not say: a list of one operation or two a node, and its copies. */
static remat_estimate small_estimate(const remat_profile *profile)
{
    return (remat_estimate){.table_bytes =
                                (uint64_t)profile->n_nodes * 16 * sizeof(remat_operation),
                            .updates = profile->n_nodes};
}

static remat_status estimate_views(const remat_solver *solver, const answer_table_views *views,
                                   remat_estimate *ret_estimate, remat_error *error)
{
    remat_estimate sum = {0}, one;
    for (unsigned i = 0; i < views->n; i++) {
        one = small_estimate(views->problems[i].profile);
        remat_status status =
            solver->estimate ? solver->estimate(&views->problems[i], &one, error) : REMAT_OK;
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
    answer_table_views views;
    const remat_machine *machine = remat_machine_of(solver, &problem->options);
    if (machine)
        return machine->estimate(problem, ret_estimate, error);
    remat_status status = views_init(solver, problem, &views, error);
    if (status)
        return status;
    status = estimate_views(solver, &views, ret_estimate, error);
    views_clear(&views);
    return status;
}

static remat_status refuse_by_estimate(const remat_solver *solver, const answer_table_views *views,
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

static remat_status solve_views(const remat_solver *solver, const answer_table_views *views,
                                const remat_problem *problem, const remat_host *host,
                                remat_table **ret_table, remat_error *error)
{
    remat_table *table = NULL;
    remat_status status = refuse_by_estimate(solver, views, host, error);
    if (status || (status = answer_table_new(solver, problem, &table, error)))
        return status;
    for (unsigned i = 0; i < views->n && !status; i++)
        status = answer_table_fill(table, views, i, problem, host, error);
    if (status) {
        remat_table_free(table);
        return status;
    }
    *ret_table = table;
    return REMAT_OK;
}

/* Takes raw, which is freed on failure. */
static remat_status wrap_raw(const remat_solver *solver, const remat_machine *machine, void *raw,
                             remat_table **ret_table, remat_error *error)
{
    remat_table *table = calloc(1, sizeof *table);
    if (!table) {
        machine->free(raw);
        return remat_fail_memory(error);
    }
    *table = (remat_table){.solver = solver, .machine = machine, .raw = raw};
    *ret_table = table;
    return REMAT_OK;
}

remat_status answer_load_raw(const remat_solver *solver, const remat_machine *machine,
                             const void *bytes, size_t length, remat_table **ret_table,
                             remat_error *error)
{
    remat_reader reader = {.data = bytes, .length = length};
    void *raw = NULL;
    remat_status status = machine->load(&reader, &raw, error);
    return status ? status : wrap_raw(solver, machine, raw, ret_table, error);
}

static remat_status tabulate_views(const remat_solver *solver, const remat_problem *problem,
                                   const remat_host *host, remat_table **ret_table,
                                   remat_error *error)
{
    answer_table_views views;
    remat_status status = views_init(solver, problem, &views, error);
    if (status)
        return status;
    status = solve_views(solver, &views, problem, host, ret_table, error);
    views_clear(&views);
    return status;
}

remat_status remat_extend_table(const remat_table *known, const remat_solver *solver,
                                const remat_problem *problem, const remat_host *host,
                                remat_table **ret_table, remat_error *error)
{
    const remat_machine *machine = remat_machine_of(solver, &problem->options);
    void *raw = NULL;
    remat_status status = remat_solver_accepts(solver, problem, error);
    if (status)
        return status;
    if (!machine) {
        status = tabulate_views(solver, problem, host, ret_table, error);
    } else {
        status = machine->tabulate(problem, known ? known->raw : NULL, host, &raw, error);
        if (!status)
            status = wrap_raw(solver, machine, raw, ret_table, error);
    }
    if (!status)
        remat_host_progress(host, 1);
    return status;
}

remat_status remat_tabulate(const remat_solver *solver, const remat_problem *problem,
                            const remat_host *host, remat_table **ret_table, remat_error *error)
{
    return remat_extend_table(NULL, solver, problem, host, ret_table, error);
}

void remat_table_free(remat_table *table)
{
    if (!table)
        return;
    if (table->machine)
        table->machine->free(table->raw);
    for (size_t i = 0; i < table->n_frontier; i++)
        free(table->frontier[i].list);
    for (size_t i = 0; i < table->n_beside; i++)
        free(table->beside[i].list);
    free(table->beside);
    free(table->frontier);
    free(table->bounds);
    free(table);
}

const remat_solver *remat_table_solver(const remat_table *table)
{
    return table->solver;
}

uint64_t remat_table_bytes(const remat_table *table)
{
    return (table->machine ? table->machine->bytes(table->raw) : 0) + sizeof *table +
           table->capacity * sizeof *table->frontier +
           table->beside_capacity * sizeof *table->beside +
           table->bounds_capacity * sizeof *table->bounds + table->bytes;
}

bool remat_table_serves(const remat_table *table, const remat_problem *problem)
{
    if (table->machine)
        return table->machine->serves(table->raw, problem);
    return table->least_budget <= problem->max_budget && problem->max_budget <= table->most_budget;
}

const remat_point *remat_table_frontier(const remat_table *table, size_t *ret_count)
{
    *ret_count = table->n_frontier;
    return table->frontier;
}

ptrdiff_t remat_table_point(const remat_table *table, uint64_t budget)
{
    return (ptrdiff_t)model_count_up_to(table->frontier, table->n_frontier, sizeof *table->frontier,
                                        offsetof(remat_point, peak), budget) -
           1;
}

/* ---- schedules ---- */

/* Least makespan of the solver's class within budget; 0 where the method gives no bound. */
static double class_bound(const remat_table *table, uint64_t budget)
{
    size_t first = model_count_below(table->bounds, table->n_bounds, sizeof *table->bounds,
                                     offsetof(answer_table_bound, budget), budget);
    return first < table->n_bounds ? table->bounds[first].makespan : 0;
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
    schedule->class_name = schedule->bound_class = "all schedules";
    schedule->lower_bound = remat_table_lower_bound(table, profile, budget, makespan);
    schedule->optimality = REMAT_HEURISTIC;
    if (makespan <= remat_store_all_makespan(profile) * (1 + REMAT_TABLE_ROUNDING)) {
        schedule->optimality = REMAT_OPTIMAL;
        return;
    }
    double bound = class_bound(table, budget);
    if (bound > 0)
        schedule->class_name = schedule->bound_class = table->solver->class_name;
    if (makespan <= bound * (1 + REMAT_TABLE_ROUNDING)) {
        bool all = table->solver->bounds_all && !problem->link;
        schedule->optimality = all ? REMAT_OPTIMAL : REMAT_OPTIMAL_IN_CLASS;
    }
}

remat_status remat_table_trace(const remat_table *table, const remat_problem *problem, size_t index,
                               uint64_t budget, remat_schedule *ret_schedule, remat_error *error)
{
    const remat_point *point = &table->frontier[index];
    remat_schedule schedule = {.solver = table->solver,
                               .nominal_budget = point->nominal_budget,
                               .model_peak = point->model_peak};
    remat_status status =
        answer_expand_list(point->list, point->list_bytes, &schedule.operations, error);
    if (status)
        return status;
    const remat_simulation *replay = &schedule.simulation;
    status = remat_simulate(problem->profile, &schedule.operations, problem->link, NULL, NULL,
                            &schedule.simulation, error);
    if (!status)
        remat_put_in_flight(&schedule.simulation, problem->in_flight);
    if (!status &&
        (!replay->valid || replay->peak != point->peak || replay->makespan != point->makespan))
        status = remat_fail(error, REMAT_CORRUPT, NULL,
                            "list %zu of a table of %s is not what was stored", index,
                            table->solver->name);
    if (status) {
        remat_schedule_clear(&schedule);
        return status;
    }
    claim(table, problem, budget, &schedule);
    *ret_schedule = schedule;
    return REMAT_OK;
}

remat_status remat_table_schedule(const remat_table *table, const remat_problem *problem,
                                  uint64_t budget, remat_schedule *ret_schedule, remat_error *error)
{
    if (table->machine)
        return table->machine->schedule(table->raw, problem, budget, ret_schedule, error);
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
    remat_steps_clear(&schedule->steps);
    remat_layout_clear(&schedule->layout);
    *schedule = (remat_schedule){0};
}

/* ---- in flight ---- */

static int by_peak(const void *left, const void *right)
{
    const remat_point *a = left, *b = right;
    if (a->peak != b->peak)
        return a->peak < b->peak ? -1 : 1;
    if (a->makespan != b->makespan)
        return a->makespan < b->makespan ? -1 : 1;
    return (a->held > b->held) - (a->held < b->held);
}

/* The point with a list of its own, its peak that of all in flight; false without memory. */
static bool copy_point(const remat_point *from, uint32_t in_flight, remat_point *to)
{
    *to = *from;
    to->peak += (in_flight - 1) * from->held;
    to->list = malloc(from->list_bytes + 1);
    if (to->list)
        memcpy(to->list, from->list, from->list_bytes);
    return to->list != NULL;
}

/* Keeps those that no smaller one is as fast as. */
static void keep_frontier(remat_table *table)
{
    size_t kept = 0;
    qsort(table->frontier, table->n_frontier, sizeof *table->frontier, by_peak);
    for (size_t i = 0; i < table->n_frontier; i++) {
        remat_point *one = &table->frontier[i];
        if (kept > 0 && table->frontier[kept - 1].makespan <= one->makespan) {
            free(one->list);
            continue;
        }
        table->bytes += one->list_bytes;
        table->frontier[kept++] = *one;
    }
    table->n_frontier = kept;
}

remat_status remat_table_in_flight(const remat_table *table, uint32_t in_flight,
                                   remat_table **ret_table, remat_error *error)
{
    const size_t n = table->n_frontier + table->n_beside;
    remat_table *own = calloc(1, sizeof *own);
    if (!own)
        return remat_fail_memory(error);
    *own = (remat_table){.solver = table->solver,
                         .fingerprint = table->fingerprint,
                         .least_budget = table->least_budget,
                         .most_budget = table->most_budget,
                         .frontier = calloc(n + 1, sizeof *own->frontier),
                         .bounds = malloc((table->n_bounds + 1) * sizeof *own->bounds),
                         .capacity = n + 1,
                         .n_bounds = table->n_bounds,
                         .bounds_capacity = table->n_bounds + 1};
    bool enough = own->frontier && own->bounds;
    for (size_t i = 0; i < n && enough; i++, own->n_frontier += enough)
        enough = copy_point(i < table->n_frontier ? &table->frontier[i]
                                                  : &table->beside[i - table->n_frontier],
                            in_flight, &own->frontier[i]);
    if (!enough) {
        remat_table_free(own);
        return remat_fail_memory(error);
    }
    if (table->n_bounds > 0) /* what none does with one in flight none does with more */
        memcpy(own->bounds, table->bounds, table->n_bounds * sizeof *own->bounds);
    keep_frontier(own);
    *ret_table = own;
    return REMAT_OK;
}

remat_status remat_store_all_in_flight(const remat_profile *profile, uint32_t in_flight,
                                       uint64_t *ret_peak, remat_error *error)
{
    const remat_problem problem = {.profile = profile, .max_budget = UINT64_MAX};
    remat_table *table = NULL;
    remat_status status =
        remat_tabulate(remat_solver_find("store-all"), &problem, NULL, &table, error);
    if (status)
        return status;
    const remat_point *last = &table->frontier[table->n_frontier - 1];
    *ret_peak = last->peak + (in_flight > 1 ? (in_flight - 1) * last->held : 0);
    remat_table_free(table);
    return REMAT_OK;
}

remat_status remat_store_all_peak(const remat_profile *profile, uint64_t *ret_peak,
                                  remat_error *error)
{
    return remat_store_all_in_flight(profile, 1, ret_peak, error);
}
