/* The core's sink: liveness, states, implementations and simulator put together. Every list that a
 * solver offers is replayed, and packed where no list of the table is as small and as fast.
 *
 * Lists are judged side by side, a batch at a time, against the table as it was before the batch;
 * then they are inserted in the order of their numbers. So the table does not depend on how many
 * workers there are, and a batch is all that waits in memory beside it. */
#include "answer/compact.h"
#include "answer/table_private.h"
#include "model/arrays.h"
#include "model/implementations.h"
#include "model/lists.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Where nodes have alternatives a list gives one for each of some rooms: so many of one list, and
 * so many operations in all, about. */
enum { BATCH = 64, MOST_ROOMS = 64, MOST_OPERATIONS = 8000000 };

/* Where the lists of one view go. */
typedef struct intake {
    remat_table *table;
    const remat_problem *problem; /* what is judged */
    const remat_problem *shown;   /* what the solver sees */
    const remat_host *host;
    bool as_written; /* lists count as they are: their implementations are the problem's own */
    bool chooses;    /* and with implementations chosen */
    bool bounded;    /* what bounds the shown problem bounds this one */
    size_t n_offered;
    uint64_t held;
} intake;

/* What one offered list gives. */
typedef struct verdict {
    remat_point *points;
    size_t n_points, capacity;
    remat_status status;
    remat_error error;
} verdict;

/* ---- the table ---- */

/* Where a point of this peak stands, or -1 when a point is there that is as good. */
static ptrdiff_t find_place(const remat_table *table, uint64_t peak, double makespan)
{
    const remat_point *points = table->frontier;
    ptrdiff_t before = remat_table_point(table, peak);
    if (before < 0)
        return 0;
    if (points[before].makespan <= makespan)
        return -1;
    return points[before].peak < peak ? before + 1 : before;
}

/* Whether one point is as good as another in all three. */
static bool covers(const remat_point *one, const remat_point *other)
{
    return one->peak <= other->peak && one->held <= other->held && one->makespan <= other->makespan;
}

/* Whether a list would be kept: on the frontier, or for those in flight beside it. */
static bool is_wanted(const remat_table *table, const remat_point *point)
{
    if (find_place(table, point->peak, point->makespan) >= 0)
        return true;
    for (size_t i = 0; i < table->n_frontier && table->frontier[i].peak <= point->peak; i++)
        if (covers(&table->frontier[i], point))
            return false;
    for (size_t i = 0; i < table->n_beside; i++)
        if (covers(&table->beside[i], point))
            return false;
    return true;
}

static void forget(remat_table *table, remat_point *point)
{
    table->bytes -= point->list_bytes;
    free(point->list);
}

/* Where a point with a list of the table's goes that leaves the frontier, or does not come to it.
 */
static remat_status put_beside(remat_table *table, remat_point point)
{
    size_t kept = 0;
    for (size_t i = 0; i < table->n_beside; i++) {
        if (covers(&point, &table->beside[i]))
            forget(table, &table->beside[i]);
        else
            table->beside[kept++] = table->beside[i];
    }
    table->n_beside = kept;
    if (!is_wanted(table, &point) || kept == REMAT_MOST_BESIDE) {
        forget(table, &point);
        return REMAT_OK;
    }
    if (!model_reserve(&table->beside, &table->beside_capacity, kept + 1, sizeof point)) {
        forget(table, &point);
        return REMAT_NO_MEMORY;
    }
    table->beside[table->n_beside++] = point;
    return REMAT_OK;
}

/* Takes the point's list, on failure too. */
static remat_status insert(remat_table *table, remat_point point)
{
    ptrdiff_t place = find_place(table, point.peak, point.makespan);
    if (place < 0) {
        table->bytes += point.list_bytes;
        return put_beside(table, point);
    }
    if (!model_reserve(&table->frontier, &table->capacity, table->n_frontier + 1, sizeof point)) {
        free(point.list);
        return REMAT_NO_MEMORY;
    }
    remat_status status = REMAT_OK;
    size_t at = (size_t)place;
    table->bytes += point.list_bytes;
    while (at < table->n_frontier && table->frontier[at].makespan >= point.makespan && !status) {
        remat_point beaten = table->frontier[at];
        memmove(table->frontier + at, table->frontier + at + 1,
                (--table->n_frontier - at) * sizeof *table->frontier);
        if (covers(&point, &beaten))
            forget(table, &beaten);
        else
            status = put_beside(table, beaten);
    }
    memmove(table->frontier + at + 1, table->frontier + at,
            (table->n_frontier++ - at) * sizeof *table->frontier);
    table->frontier[at] = point;
    return status;
}

static remat_status check_limit(const intake *in, remat_error *error)
{
    uint64_t limit = in->host ? in->host->memory_limit : 0, own = remat_table_bytes(in->table);
    if (limit == 0 || (own <= limit && in->held <= limit - own))
        return REMAT_OK;
    return remat_fail(error, REMAT_TOO_LARGE, NULL,
                      "%s holds %llu bytes and %llu of schedules; the limit is %llu bytes",
                      in->table->solver->name, (unsigned long long)in->held,
                      (unsigned long long)own, (unsigned long long)limit);
}

/* ---- one list ---- */

static remat_status add_point(verdict *v, remat_point point)
{
    if (!model_reserve(&v->points, &v->capacity, v->n_points + 1, sizeof point))
        return REMAT_NO_MEMORY;
    v->points[v->n_points++] = point;
    return REMAT_OK;
}

static remat_status keep(const intake *in, verdict *v, const remat_operations *list,
                         const remat_model *model, const remat_simulation *replay)
{
    const remat_point wanted = {
        .peak = replay->peak, .held = replay->held, .makespan = replay->makespan};
    if (!is_wanted(in->table, &wanted))
        return REMAT_OK;
    remat_buffer packed = {0};
    uint64_t nominal = model->budget ? model->budget : replay->peak;
    remat_status status = answer_compact_list(list, &packed, &v->error);
    uint8_t *fitted = status ? NULL : realloc(packed.data, packed.length);
    if (!status)
        status = add_point(
            v, (remat_point){.peak = replay->peak,
                             .held = replay->held,
                             .makespan = replay->makespan,
                             .nominal_budget = nominal,
                             .model_peak = model->model_peak ? model->model_peak : nominal,
                             .list = fitted ? fitted : packed.data,
                             .list_bytes = packed.length});
    if (!status)
        return REMAT_OK;
    free(fitted ? fitted : packed.data);
    return status == REMAT_NO_MEMORY ? remat_fail_memory(&v->error) : status;
}

/* Replays a list, which must keep what was predicted (0: nothing). *ret_valid is false where it is
 * tentative and left out. */
static remat_status replay_list(const intake *in, verdict *v, size_t number,
                                const remat_operations *list, const remat_model *model,
                                double predicted, bool *ret_valid)
{
    remat_simulation replay;
    if (remat_host_cancelled(in->host))
        return remat_fail(&v->error, REMAT_CANCELLED, NULL, "cancelled");
    remat_status status = remat_simulate(in->problem->profile, list, in->problem->link, NULL, NULL,
                                         &replay, &v->error);
    if (status)
        return status;
    const char *solver = in->table->solver->name;
    *ret_valid = replay.valid;
    if (!replay.valid && model->tentative)
        return REMAT_OK;
    if (!replay.valid)
        return remat_fail(&v->error, REMAT_INTERNAL, NULL,
                          "%s, list %zu: the simulator rejects operation %zu: %.300s", solver,
                          number, replay.bad_operation, replay.reason);
    if (predicted > 0 && replay.makespan > predicted * (1 + REMAT_TABLE_ROUNDING))
        return remat_fail(&v->error, REMAT_INTERNAL, NULL,
                          "%s, list %zu: predicted makespan %.17g, replayed %.17g", solver, number,
                          predicted, replay.makespan);
    return keep(in, v, list, model, &replay);
}

/* The list with its implementations chosen within each of several rooms. */
static remat_status replay_choices(const intake *in, verdict *v, size_t number,
                                   const remat_operations *whole, const remat_model *model)
{
    model_implementations *choices;
    uint64_t rooms[MOST_ROOMS];
    remat_status status =
        model_implementations_new(in->problem->profile, whole, &choices, &v->error);
    if (status)
        return status;
    size_t most = MOST_OPERATIONS / (in->problem->profile->n_nodes * (in->n_offered + 1));
    most = most < 2 ? 2 : most > MOST_ROOMS ? MOST_ROOMS : most;
    size_t n = model_implementations_rooms(choices, rooms, most);
    for (size_t i = 0; i < n && !status; i++) {
        remat_operations chosen = {0};
        status = model_implementations_make(choices, rooms[i], &chosen, &v->error);
        bool valid;
        if (!status)
            status = replay_list(in, v, number, &chosen, model, 0, &valid);
        remat_operations_clear(&chosen);
    }
    model_implementations_free(choices);
    return status;
}

/* Whether a tentative list is valid on the profile that the solver sees. */
static remat_status try_list(const intake *in, const remat_operations *whole, bool *ret_valid,
                             remat_error *error)
{
    remat_simulation replay;
    remat_status status =
        remat_simulate(in->shown->profile, whole, in->shown->link, NULL, NULL, &replay, error);
    *ret_valid = !status && replay.valid;
    return status;
}

static remat_status judge_list(const intake *in, verdict *v, size_t number,
                               const remat_operations *traced, const remat_model *model)
{
    remat_operations whole = {0};
    bool valid = true;
    remat_status status = model_complete_list(in->shown->profile, traced, &whole, &v->error);
    if (!status && in->as_written)
        status = replay_list(in, v, number, &whole, model, model->makespan, &valid);
    else if (!status && model->tentative)
        status = try_list(in, &whole, &valid, &v->error);
    if (!status && valid && in->chooses)
        status = replay_choices(in, v, number, &whole, model);
    remat_operations_clear(&whole);
    return status;
}

/* ---- batches ---- */

typedef struct batch {
    const intake *intake;
    remat_tracer *trace;
    void *context;
    size_t first;
    verdict *verdicts;
} batch;

static void judge_one(void *context, size_t index, unsigned worker)
{
    (void)worker;
    const batch *b = context;
    verdict *v = &b->verdicts[index];
    remat_operations traced = {0};
    remat_model model = {0};
    v->points = NULL;
    v->n_points = v->capacity = 0;
    v->status = remat_host_cancelled(b->intake->host)
                    ? remat_fail(&v->error, REMAT_CANCELLED, NULL, "cancelled")
                    : b->trace(b->context, b->first + index, &traced, &model, &v->error);
    if (!v->status)
        v->status = judge_list(b->intake, v, b->first + index, &traced, &model);
    else if (v->status == REMAT_INFEASIBLE)
        v->status = REMAT_OK;
    remat_operations_clear(&traced);
}

static remat_status insert_batch(intake *in, verdict *verdicts, size_t count, remat_error *error)
{
    remat_status status = REMAT_OK;
    for (size_t i = 0; i < count; i++) {
        verdict *v = &verdicts[i];
        if (!status && v->status) {
            status = v->status;
            if (error)
                *error = v->error;
        }
        for (size_t k = 0; k < v->n_points; k++)
            if (status)
                free(v->points[k].list);
            else if (insert(in->table, v->points[k]))
                status = remat_fail_memory(error);
        free(v->points);
    }
    return status ? status : check_limit(in, error);
}

static remat_status sink_offer(void *data, size_t count, remat_tracer *trace, void *context,
                               remat_error *error)
{
    intake *in = data;
    size_t room = count < BATCH ? count : BATCH;
    verdict *verdicts = malloc((room + 1) * sizeof *verdicts);
    if (!verdicts)
        return remat_fail_memory(error);
    batch b = {.intake = in, .trace = trace, .context = context, .verdicts = verdicts};
    remat_status status = REMAT_OK;
    in->n_offered += count;
    for (; b.first < count && !status; b.first += room) {
        size_t n = count - b.first < room ? count - b.first : room;
        remat_host_parallel_for(in->host, n, judge_one, &b);
        status = insert_batch(in, verdicts, n, error);
    }
    free(verdicts);
    return status;
}

/* ---- the rest of the sink ---- */

static remat_status sink_bound(void *data, uint64_t budget, double makespan, remat_error *error)
{
    intake *in = data;
    remat_table *t = in->table;
    if (!in->bounded)
        return REMAT_OK;
    if (!model_reserve(&t->bounds, &t->bounds_capacity, t->n_bounds + 1, sizeof *t->bounds))
        return remat_fail_memory(error);
    t->bounds[t->n_bounds++] = (answer_table_bound){budget, makespan};
    return REMAT_OK;
}

static remat_status sink_hold(void *data, uint64_t bytes, remat_error *error)
{
    intake *in = data;
    in->held = bytes;
    return check_limit(in, error);
}

static double sink_best(void *data, uint64_t budget)
{
    const remat_table *table = ((const intake *)data)->table;
    ptrdiff_t index = remat_table_point(table, budget);
    return index < 0 ? INFINITY : table->frontier[index].makespan;
}

static void sink_bind(void *data, uint64_t low, uint64_t high)
{
    const intake *in = data;
    remat_table *table = in->table;
    uint64_t own =
        in->problem->max_budget; /* low and high may be of one that a solver made of it */
    low = low < own ? low : own;
    high = high > own ? high : own;
    table->least_budget = low > table->least_budget ? low : table->least_budget;
    table->most_budget = high < table->most_budget ? high : table->most_budget;
}

static int by_budget(const void *left, const void *right)
{
    const answer_table_bound *a = left, *b = right;
    if (a->budget != b->budget)
        return a->budget < b->budget ? -1 : 1;
    return (a->makespan > b->makespan) - (a->makespan < b->makespan);
}

/* From the largest budget down: a bound that says no more than one of a larger budget is dropped.
 */
static void sort_bounds(remat_table *table)
{
    size_t kept = table->n_bounds;
    if (kept > 0)
        qsort(table->bounds, kept, sizeof *table->bounds, by_budget);
    for (size_t i = table->n_bounds; i-- > 0;)
        if (kept == table->n_bounds || table->bounds[i].makespan > table->bounds[kept].makespan)
            table->bounds[--kept] = table->bounds[i];
    table->n_bounds -= kept;
    if (table->n_bounds > 0)
        memmove(table->bounds, table->bounds + kept, table->n_bounds * sizeof *table->bounds);
}

remat_status answer_table_fill(remat_table *table, const answer_table_views *views, unsigned view,
                               const remat_problem *problem, const remat_host *host,
                               remat_error *error)
{
    intake in = {.table = table,
                 .problem = problem,
                 .shown = &views->problems[view],
                 .host = host,
                 .as_written = view == REMAT_VIEW_OWN,
                 .chooses = problem->profile->n_alternatives > 0,
                 .bounded = view == REMAT_VIEW_LEAST || !views->owned[REMAT_VIEW_OWN]};
    const remat_sink sink = {.data = &in,
                             .offer = sink_offer,
                             .bound = sink_bound,
                             .hold = sink_hold,
                             .best = sink_best,
                             .bind = sink_bind};
    remat_status status = table->solver->solve(in.shown, host, &sink, error);
    sort_bounds(table);
    return status;
}

/* ---- what solvers call, of any sink ---- */

remat_status remat_offer_lists(const remat_sink *sink, size_t count, remat_tracer *trace,
                               void *context, remat_error *error)
{
    return sink->offer(sink->data, count, trace, context, error);
}

typedef struct single {
    const remat_operations *operations;
    const remat_model *model;
} single;

static remat_status copy_single(void *context, size_t index, remat_operations *operations,
                                remat_model *model, remat_error *error)
{
    (void)index;
    const single *one = context;
    if (one->model)
        *model = *one->model;
    return model_copy_list(one->operations, operations) ? remat_fail_memory(error) : REMAT_OK;
}

remat_status remat_offer(const remat_sink *sink, const remat_operations *operations,
                         const remat_model *model, remat_error *error)
{
    single one = {operations, model};
    return sink->offer(sink->data, 1, copy_single, &one, error);
}

remat_status remat_offer_bound(const remat_sink *sink, uint64_t budget, double makespan,
                               remat_error *error)
{
    return sink->bound(sink->data, budget, makespan, error);
}

remat_status remat_sink_hold(const remat_sink *sink, uint64_t bytes, remat_error *error)
{
    return sink->hold(sink->data, bytes, error);
}

double remat_sink_best(const remat_sink *sink, uint64_t budget)
{
    return sink->best(sink->data, budget);
}

void remat_sink_bind(const remat_sink *sink, uint64_t low, uint64_t high)
{
    sink->bind(sink->data, low, high);
}
