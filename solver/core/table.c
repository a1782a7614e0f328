/* Solver, liveness, states and simulator put together: tables whose every promise has been
 * replayed. */
#include "remat/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Sums of the same times in another order may differ by this much, relatively. */
#define ROUNDING 1e-9

static const uint8_t magic[8] = {'R', 'E', 'M', 'A', 'T', 'T', 'A', 'B'};
enum { FORMAT_VERSION = 1 };

struct remat_table {
    const remat_solver *solver;
    void *inner; /* the solver's own */
    remat_point *frontier;
    size_t n_frontier;
    uint64_t fingerprint; /* of the profile */
    remat_options options;
};

double remat_store_all_makespan(const remat_profile *profile)
{
    /* Summed in the order in which store-all runs, so that its replay gives the same bits. */
    double makespan = 0;
    for (uint32_t v = 0; v < profile->n_nodes; v++)
        makespan += profile->nodes[v].forward_time;
    for (uint32_t v = profile->n_nodes; v-- > 0;)
        makespan += profile->nodes[v].backward_time;
    return makespan;
}

/* ---- one verified list ---- */

/* Traces a step, applies the passes, replays. On success *ret_operations belongs to the caller. */
static remat_status realise(const remat_solver *solver, const void *inner,
                            const remat_problem *problem, size_t step,
                            remat_operations *ret_operations, remat_simulation *ret_simulation,
                            remat_error *error)
{
    const remat_profile *profile = problem->profile;
    remat_operations traced = {0}, live = {0}, whole = {0};
    remat_simulation simulation;
    remat_status status = solver->trace(inner, problem, step, &traced, error);
    if (!status)
        status = remat_liveness(profile, &traced, &live, error);
    if (!status && profile->n_states > 0) {
        status = remat_insert_states(profile, &live, &whole, error);
    } else if (!status) {
        whole = live;
        live = (remat_operations){0};
    }
    if (!status)
        status = remat_simulate(profile, &whole, problem->link, NULL, NULL, &simulation, error);
    if (!status && !simulation.valid)
        status = remat_fail(error, REMAT_INTERNAL, NULL,
                            "%s, step %zu: the simulator rejects operation %zu: %.300s",
                            solver->name, step, simulation.bad_operation, simulation.reason);
    double predicted = solver->step_makespan(inner, step);
    if (!status && simulation.makespan > predicted * (1 + ROUNDING))
        status = remat_fail(error, REMAT_INTERNAL, NULL,
                            "%s, step %zu: predicted makespan %.17g, replayed %.17g", solver->name,
                            step, predicted, simulation.makespan);
    remat_operations_clear(&traced);
    remat_operations_clear(&live);
    if (status) {
        remat_operations_clear(&whole);
        return status;
    }
    *ret_operations = whole;
    *ret_simulation = simulation;
    return REMAT_OK;
}

/* ---- the frontier ---- */

typedef struct verification {
    const remat_table *table;
    const remat_problem *problem;
    const remat_host *host;
    remat_point *points;
    remat_status *statuses;
    remat_error *errors; /* of the first failing step of each worker */
} verification;

static void verify_step(void *context, size_t step, unsigned worker)
{
    verification *v = context;
    if (remat_host_cancelled(v->host)) {
        v->statuses[worker] = remat_fail(&v->errors[worker], REMAT_CANCELLED, NULL, "cancelled");
        return;
    }
    if (v->statuses[worker])
        return;
    remat_operations operations;
    remat_simulation simulation;
    v->statuses[worker] = realise(v->table->solver, v->table->inner, v->problem, step, &operations,
                                  &simulation, &v->errors[worker]);
    if (v->statuses[worker])
        return;
    remat_operations_clear(&operations);
    v->points[step] = (remat_point){
        .peak = simulation.peak, .makespan = simulation.makespan, .step = (uint32_t)step};
}

static int compare_points(const void *a, const void *b)
{
    const remat_point *p = a, *q = b;
    if (p->peak != q->peak)
        return p->peak < q->peak ? -1 : 1;
    if (p->makespan != q->makespan)
        return p->makespan < q->makespan ? -1 : 1;
    return p->step < q->step ? -1 : p->step > q->step;
}

/* Keeps of the sorted points those that are faster than every one before. */
static size_t pareto(remat_point *points, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || points[i].makespan < points[kept - 1].makespan)
            points[kept++] = points[i];
    return kept;
}

static remat_status build_frontier(remat_table *table, const remat_problem *problem,
                                   const remat_host *host, remat_error *error)
{
    size_t n = table->solver->n_steps(table->inner);
    unsigned workers = remat_host_workers(host);
    verification v = {.table = table, .problem = problem, .host = host};
    v.points = calloc(n + 1, sizeof *v.points);
    v.statuses = calloc(workers, sizeof *v.statuses);
    v.errors = calloc(workers, sizeof *v.errors);
    remat_status status = REMAT_OK;
    if (!v.points || !v.statuses || !v.errors)
        status = remat_fail_memory(error);
    else
        remat_host_parallel_for(host, n, verify_step, &v);
    for (unsigned w = 0; w < workers && !status; w++)
        if (v.statuses[w]) {
            status = v.statuses[w];
            if (error)
                *error = v.errors[w];
        }
    free(v.statuses);
    free(v.errors);
    if (status) {
        free(v.points);
        return status;
    }
    if (n > 0)
        qsort(v.points, n, sizeof *v.points, compare_points);
    table->n_frontier = pareto(v.points, n);
    table->frontier = v.points;
    return REMAT_OK;
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

static remat_status table_new(const remat_solver *solver, const remat_problem *problem,
                              remat_table **ret_table, remat_error *error)
{
    remat_table *table = calloc(1, sizeof *table);
    if (!table)
        return remat_fail_memory(error);
    table->solver = solver;
    table->fingerprint = fingerprint(problem->profile);
    table->options = problem->options;
    *ret_table = table;
    return REMAT_OK;
}

static remat_status refuse_by_estimate(const remat_solver *solver, const remat_problem *problem,
                                       const remat_host *host, remat_error *error)
{
    remat_estimate estimate;
    remat_status status = solver->estimate(problem, &estimate, error);
    if (status)
        return status;
    if (host && host->memory_limit && estimate.table_bytes > host->memory_limit)
        return remat_fail(error, REMAT_TOO_LARGE, NULL,
                          "%s would need a table of %llu bytes and %.3g updates; the limit is %llu "
                          "bytes",
                          solver->name, (unsigned long long)estimate.table_bytes, estimate.updates,
                          (unsigned long long)host->memory_limit);
    return REMAT_OK;
}

remat_status remat_tabulate(const remat_solver *solver, const remat_problem *problem,
                            const remat_host *host, remat_table **ret_table, remat_error *error)
{
    remat_table *table = NULL;
    remat_status status;
    if ((status = remat_solver_accepts(solver, problem, error)) ||
        (status = refuse_by_estimate(solver, problem, host, error)) ||
        (status = table_new(solver, problem, &table, error)))
        return status;
    status = solver->tabulate(problem, host, &table->inner, error);
    if (!status)
        status = build_frontier(table, problem, host, error);
    if (status) {
        remat_table_free(table);
        return status;
    }
    remat_host_progress(host, 1);
    *ret_table = table;
    return REMAT_OK;
}

void remat_table_free(remat_table *table)
{
    if (!table)
        return;
    if (table->inner)
        table->solver->table_free(table->inner);
    free(table->frontier);
    free(table);
}

const remat_solver *remat_table_solver(const remat_table *table)
{
    return table->solver;
}

uint64_t remat_table_bytes(const remat_table *table)
{
    return table->solver->table_bytes(table->inner) + table->n_frontier * sizeof(remat_point) +
           sizeof *table;
}

uint64_t remat_table_max_budget(const remat_table *table)
{
    return table->solver->table_max_budget(table->inner);
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

/* What may be claimed of a makespan at a budget. A schedule can be faster than the bound of its
 * class: liveness frees what the class counts as kept. */
static void claim(const remat_table *table, const remat_problem *problem, uint64_t budget,
                  remat_schedule *schedule)
{
    const remat_profile *profile = problem->profile;
    double makespan = schedule->simulation.makespan, least = remat_store_all_makespan(profile);
    schedule->class_name = "all schedules";
    schedule->lower_bound = least < makespan ? least : makespan;
    schedule->optimality = REMAT_HEURISTIC;
    if (makespan <= least * (1 + ROUNDING)) {
        schedule->optimality = REMAT_OPTIMAL;
        return;
    }
    if (!table->solver->lower_bound)
        return;
    double bound = table->solver->lower_bound(table->inner, budget);
    schedule->class_name = table->solver->class_name;
    if (makespan <= bound * (1 + ROUNDING)) {
        bool all = table->solver->bounds_all && !problem->link;
        schedule->optimality = all ? REMAT_OPTIMAL : REMAT_OPTIMAL_IN_CLASS;
        schedule->lower_bound = makespan < bound ? makespan : bound;
    } else if (bound > schedule->lower_bound) {
        schedule->lower_bound = bound;
    }
}

remat_status remat_table_trace(const remat_table *table, const remat_problem *problem, size_t index,
                               uint64_t budget, remat_schedule *ret_schedule, remat_error *error)
{
    const remat_point *point = &table->frontier[index];
    remat_schedule schedule = {.solver = table->solver};
    remat_problem own = *problem;
    own.options = table->options;
    remat_status status = realise(table->solver, table->inner, &own, point->step,
                                  &schedule.operations, &schedule.simulation, error);
    if (status)
        return status;
    if (schedule.simulation.peak != point->peak ||
        schedule.simulation.makespan != point->makespan) {
        remat_schedule_clear(&schedule);
        return remat_fail(error, REMAT_INTERNAL, NULL,
                          "%s, step %u: a second replay differs from the first",
                          table->solver->name, point->step);
    }
    schedule.nominal_budget = table->solver->step_budget(table->inner, point->step);
    schedule.model_peak = table->solver->model_peak
                              ? table->solver->model_peak(table->inner, point->step)
                              : schedule.nominal_budget;
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

/* ---- save and load ---- */

/* Eight bytes a step; every step is a bijection of the state, so one damaged word always shows. */
static uint64_t checksum(const uint8_t *bytes, size_t length)
{
    uint64_t hash = UINT64_C(0x9E3779B97F4A7C15) ^ length;
    for (size_t i = 0; i < length; i += 8) {
        uint64_t word = 0;
        size_t n = length - i < 8 ? length - i : 8;
        for (size_t k = 0; k < n; k++)
            word |= (uint64_t)bytes[i + k] << (8 * k);
        hash = (hash ^ word) * UINT64_C(0xD6E8FEB86659FD93);
        hash ^= hash >> 32;
    }
    return hash;
}

remat_status remat_table_save(const remat_table *table, remat_buffer *buffer, remat_error *error)
{
    const remat_solver *solver = table->solver;
    uint32_t name_length = (uint32_t)strlen(solver->name);
    remat_status status = remat_buffer_put(buffer, magic, sizeof magic);
    if (!status)
        status = remat_buffer_put_u32(buffer, FORMAT_VERSION);
    if (!status)
        status = remat_buffer_put_u32(buffer, solver->table_version);
    if (!status)
        status = remat_buffer_put_u64(buffer, table->fingerprint);
    if (!status)
        status = remat_buffer_put_u32(buffer, name_length);
    if (!status)
        status = remat_buffer_put(buffer, solver->name, name_length);
    if (!status)
        status = remat_buffer_put_u64(buffer, table->n_frontier);
    for (size_t i = 0; i < table->n_frontier && !status; i++) {
        const remat_point *point = &table->frontier[i];
        if (remat_buffer_put_u64(buffer, point->peak) ||
            remat_buffer_put_f64(buffer, point->makespan) ||
            remat_buffer_put_u32(buffer, point->step))
            status = REMAT_NO_MEMORY;
    }
    if (!status)
        status = solver->save(table->inner, buffer, error);
    if (!status)
        status = remat_buffer_put_u64(buffer, checksum(buffer->data, buffer->length));
    return status == REMAT_NO_MEMORY ? remat_fail_memory(error) : status;
}

static remat_status read_header(const remat_solver *solver, remat_reader *reader, uint64_t expected,
                                remat_error *error)
{
    const uint8_t *start = remat_reader_bytes(reader, sizeof magic);
    if (!start || memcmp(start, magic, sizeof magic) != 0)
        return remat_fail(error, REMAT_CORRUPT, NULL, "these bytes are not a table");
    uint32_t format = remat_reader_u32(reader), version = remat_reader_u32(reader);
    if (format != FORMAT_VERSION || version != solver->table_version)
        return remat_fail(error, REMAT_NEWER, NULL,
                          "table of format %u, version %u; this build reads format %d, version %u "
                          "of %s",
                          format, version, FORMAT_VERSION, solver->table_version, solver->name);
    uint64_t found = remat_reader_u64(reader);
    uint32_t name_length = remat_reader_u32(reader);
    const uint8_t *name = remat_reader_bytes(reader, name_length);
    if (!name || name_length != strlen(solver->name) ||
        memcmp(name, solver->name, name_length) != 0)
        return remat_fail(error, REMAT_INVALID, NULL, "the table is not one of %s", solver->name);
    if (found != expected)
        return remat_fail(error, REMAT_INVALID, NULL, "the table belongs to another profile");
    return REMAT_OK;
}

static remat_status read_frontier(remat_table *table, remat_reader *reader, remat_error *error)
{
    uint64_t n = remat_reader_u64(reader);
    if (reader->failed || n > (reader->length - reader->position) / 20)
        return remat_fail(error, REMAT_CORRUPT, NULL, "the table's frontier is damaged");
    table->frontier = calloc((size_t)n + 1, sizeof *table->frontier);
    if (!table->frontier)
        return remat_fail_memory(error);
    table->n_frontier = (size_t)n;
    for (size_t i = 0; i < n; i++) {
        remat_point *point = &table->frontier[i];
        point->peak = remat_reader_u64(reader);
        point->makespan = remat_reader_f64(reader);
        point->step = remat_reader_u32(reader);
        if (i > 0 && !(point[-1].peak < point->peak && point[-1].makespan > point->makespan))
            return remat_fail(error, REMAT_CORRUPT, NULL, "the table's frontier is not in order");
    }
    return REMAT_OK;
}

remat_status remat_table_load(const remat_solver *solver, const remat_problem *problem,
                              const void *bytes, size_t length, remat_table **ret_table,
                              remat_error *error)
{
    if (length < 8)
        return remat_fail(error, REMAT_CORRUPT, NULL, "a table of %zu bytes is too short", length);
    remat_reader tail = {.data = (const uint8_t *)bytes + length - 8, .length = 8};
    if (checksum(bytes, length - 8) != remat_reader_u64(&tail))
        return remat_fail(error, REMAT_CORRUPT, NULL, "the table's checksum does not hold");
    remat_table *table = NULL;
    remat_reader reader = {.data = bytes, .length = length - 8};
    remat_status status = table_new(solver, problem, &table, error);
    if (status)
        return status;
    if (!(status = read_header(solver, &reader, table->fingerprint, error)) &&
        !(status = read_frontier(table, &reader, error)))
        status = solver->load(problem, &reader, &table->inner, error);
    size_t steps = table->inner ? solver->n_steps(table->inner) : 0;
    for (size_t i = 0; i < table->n_frontier && !status; i++)
        if (table->frontier[i].step >= steps)
            status = remat_fail(error, REMAT_CORRUPT, NULL, "the table's frontier names step %u",
                                table->frontier[i].step);
    if (!status && reader.position != reader.length)
        status = remat_fail(error, REMAT_CORRUPT, NULL, "bytes are left over after the table");
    if (status) {
        remat_table_free(table);
        return status;
    }
    *ret_table = table;
    return REMAT_OK;
}
