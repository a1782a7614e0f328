/* Solver, liveness, states, implementations and simulator put together: every step of a table
 * replayed, and the frontier of what that gives. */
#include "core/table_inside.h"

#include "core/choices.h"

#include <stdlib.h>

/* Where nodes have alternatives a step gives a list for each of some rooms: so many lists of one
 * step, and so many operations in all lists, about. */
enum { MOST_ROOMS = 64, MOST_OPERATIONS = 8000000 };

/* ---- views ---- */

remat_status remat_table_views_init(const remat_solver *solver, const remat_problem *problem,
                                    remat_table_views *ret_views, remat_error *error)
{
    remat_table_views views = {.problems = {*problem}, .n = 1};
    bool chooses = problem->profile->n_alternatives > 0;
    if (chooses && !(solver->chooses && solver->chooses(problem))) {
        remat_status status = REMAT_OK;
        for (unsigned i = 0; i < REMAT_VIEWS && !status; i++) {
            status =
                remat_profile_view_new(problem->profile, (remat_view)i, &views.owned[i], error);
            views.problems[i] = *problem;
            views.problems[i].profile = views.owned[i];
        }
        if (status) {
            remat_table_views_clear(&views);
            return status;
        }
        const remat_problem *least = &views.problems[REMAT_VIEW_LEAST];
        views.n = remat_solver_accepts(solver, least, NULL) ? 1 : REMAT_VIEWS;
    }
    *ret_views = views;
    return REMAT_OK;
}

void remat_table_views_clear(remat_table_views *views)
{
    for (unsigned i = 0; i < REMAT_VIEWS; i++)
        remat_profile_view_free(views->owned[i]);
    *views = (remat_table_views){0};
}

static size_t steps_of(const remat_table *table, unsigned view)
{
    return table->inner[view] ? table->solver->n_steps(table->inner[view]) : 0;
}

size_t remat_table_steps(const remat_table *table)
{
    return steps_of(table, REMAT_VIEW_OWN) + steps_of(table, REMAT_VIEW_LEAST);
}

unsigned remat_table_view_of(const remat_table *table, size_t *step)
{
    size_t own = steps_of(table, REMAT_VIEW_OWN);
    if (*step < own)
        return REMAT_VIEW_OWN;
    *step -= own;
    return REMAT_VIEW_LEAST;
}

/* ---- one verified list ---- */

/* Traces a step and applies liveness and states. On success *ret_operations belongs to the caller. */
static remat_status trace_step(const remat_table *table, const remat_table_views *views,
                               size_t step, remat_operations *ret_operations, remat_error *error)
{
    unsigned view = remat_table_view_of(table, &step);
    const remat_problem *problem = &views->problems[view];
    remat_operations traced = {0}, live = {0}, whole = {0};
    remat_status status = table->solver->trace(table->inner[view], problem, step, &traced, error);
    if (!status)
        status = remat_liveness(problem->profile, &traced, &live, error);
    if (!status && problem->profile->n_states > 0) {
        status = remat_insert_states(problem->profile, &live, &whole, error);
    } else if (!status) {
        whole = live;
        live = (remat_operations){0};
    }
    remat_operations_clear(&traced);
    remat_operations_clear(&live);
    if (status)
        remat_operations_clear(&whole);
    else
        *ret_operations = whole;
    return status;
}

/* Replays a list of a step; room 0: as the solver wrote it, so it must keep what was predicted. */
static remat_status replay(const remat_table *table, const remat_problem *problem, size_t step,
                           uint64_t room, const remat_operations *operations,
                           remat_simulation *ret_simulation, remat_error *error)
{
    const remat_solver *solver = table->solver;
    remat_status status = remat_simulate(problem->profile, operations, problem->link, NULL, NULL,
                                         ret_simulation, error);
    if (!status && !ret_simulation->valid)
        status =
            remat_fail(error, REMAT_INTERNAL, NULL,
                       "%s, step %zu: the simulator rejects operation %zu: %.300s", solver->name,
                       step, ret_simulation->bad_operation, ret_simulation->reason);
    if (status || room > 0)
        return status;
    size_t own = step;
    double predicted = solver->step_makespan(table->inner[remat_table_view_of(table, &own)], own);
    if (ret_simulation->makespan > predicted * (1 + REMAT_TABLE_ROUNDING))
        status = remat_fail(error, REMAT_INTERNAL, NULL,
                            "%s, step %zu: predicted makespan %.17g, replayed %.17g", solver->name,
                            step, predicted, ret_simulation->makespan);
    return status;
}

remat_status remat_table_realise(const remat_table *table, const remat_table_views *views,
                                 const remat_problem *problem, const remat_point *point,
                                 remat_operations *ret_operations, remat_simulation *ret_simulation,
                                 remat_error *error)
{
    remat_operations whole = {0}, chosen = {0};
    remat_choices *choices = NULL;
    remat_status status = trace_step(table, views, point->step, &whole, error);
    if (!status && point->room > 0)
        status = remat_choices_new(problem->profile, &whole, &choices, error);
    if (!status && point->room > 0)
        status = remat_choices_make(choices, point->room, &chosen, error);
    remat_operations *list = point->room > 0 ? &chosen : &whole;
    if (!status)
        status = replay(table, problem, point->step, point->room, list, ret_simulation, error);
    if (!status) {
        *ret_operations = *list;
        *list = (remat_operations){0};
    }
    remat_choices_free(choices);
    remat_operations_clear(&whole);
    remat_operations_clear(&chosen);
    return status;
}

/* ---- the frontier ---- */

typedef struct verification {
    const remat_table *table;
    const remat_table_views *views;
    const remat_problem *problem;
    const remat_host *host;
    size_t most_rooms;   /* of one step */
    remat_point *points; /* most_rooms + 1 of each step, of which so many are there: */
    size_t *n_points;
    remat_status *statuses;
    remat_error *errors; /* of the first failing step of each worker */
} verification;

static remat_status add_point(verification *v, size_t step, uint64_t room,
                              const remat_operations *operations, remat_error *error)
{
    remat_simulation simulation;
    if (remat_host_cancelled(v->host))
        return remat_fail(error, REMAT_CANCELLED, NULL, "cancelled");
    remat_status status = replay(v->table, v->problem, step, room, operations, &simulation, error);
    if (!status)
        v->points[step * (v->most_rooms + 1) + v->n_points[step]++] =
            (remat_point){.peak = simulation.peak,
                          .makespan = simulation.makespan,
                          .room = room,
                          .step = (uint32_t)step};
    return status;
}

/* The points of one list, with its implementations chosen within each of several rooms. */
static remat_status add_choices(verification *v, size_t step, const remat_operations *whole,
                                remat_error *error)
{
    remat_choices *choices;
    uint64_t rooms[MOST_ROOMS];
    remat_status status = remat_choices_new(v->problem->profile, whole, &choices, error);
    if (status)
        return status;
    size_t n = remat_choices_rooms(choices, rooms, v->most_rooms);
    for (size_t i = 0; i < n && !status; i++) {
        remat_operations chosen = {0};
        uint64_t room = rooms[i] > 0 ? rooms[i] : 1; /* 0 says that nothing was chosen */
        status = remat_choices_make(choices, room, &chosen, error);
        if (!status)
            status = add_point(v, step, room, &chosen, error);
        remat_operations_clear(&chosen);
    }
    remat_choices_free(choices);
    return status;
}

static void verify_step(void *context, size_t step, unsigned worker)
{
    verification *v = context;
    remat_status *status = &v->statuses[worker];
    remat_operations whole = {0};
    if (*status)
        return;
    if (remat_host_cancelled(v->host)) {
        *status = remat_fail(&v->errors[worker], REMAT_CANCELLED, NULL, "cancelled");
        return;
    }
    *status = trace_step(v->table, v->views, step, &whole, &v->errors[worker]);
    bool own = step < steps_of(v->table, REMAT_VIEW_OWN);
    if (!*status && own)
        *status = add_point(v, step, 0, &whole, &v->errors[worker]);
    if (!*status && v->table->chooses)
        *status = add_choices(v, step, &whole, &v->errors[worker]);
    remat_operations_clear(&whole);
}

static int compare_points(const void *a, const void *b)
{
    const remat_point *p = a, *q = b;
    if (p->peak != q->peak)
        return p->peak < q->peak ? -1 : 1;
    if (p->makespan != q->makespan)
        return p->makespan < q->makespan ? -1 : 1;
    if (p->step != q->step)
        return p->step < q->step ? -1 : 1;
    return p->room < q->room ? -1 : p->room > q->room;
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

/* Rooms of each step, 0 where there is nothing to choose. */
static size_t rooms_of_step(const remat_table *table, const remat_profile *profile, size_t n_steps)
{
    if (!table->chooses || n_steps == 0)
        return 0;
    size_t rooms = MOST_OPERATIONS / ((size_t)profile->n_nodes * n_steps);
    return rooms < 2 ? 2 : rooms > MOST_ROOMS ? MOST_ROOMS : rooms;
}

/* Puts the points of all steps side by side; returns how many there are. */
static size_t gather(verification *v, size_t n_steps)
{
    size_t n = 0;
    for (size_t step = 0; step < n_steps; step++)
        for (size_t i = 0; i < v->n_points[step]; i++)
            v->points[n++] = v->points[step * (v->most_rooms + 1) + i];
    return n;
}

static remat_status verify(verification *v, size_t n_steps, remat_error *error)
{
    unsigned workers = remat_host_workers(v->host);
    v->points = calloc(n_steps * (v->most_rooms + 1) + 1, sizeof *v->points);
    v->n_points = calloc(n_steps + 1, sizeof *v->n_points);
    v->statuses = calloc(workers, sizeof *v->statuses);
    v->errors = calloc(workers, sizeof *v->errors);
    if (!v->points || !v->n_points || !v->statuses || !v->errors)
        return remat_fail_memory(error);
    remat_host_parallel_for(v->host, n_steps, verify_step, v);
    for (unsigned w = 0; w < workers; w++)
        if (v->statuses[w]) {
            if (error)
                *error = v->errors[w];
            return v->statuses[w];
        }
    return REMAT_OK;
}

remat_status remat_table_build_frontier(remat_table *table, const remat_table_views *views,
                                        const remat_problem *problem, const remat_host *host,
                                        remat_error *error)
{
    size_t n_steps = remat_table_steps(table);
    verification v = {.table = table,
                      .views = views,
                      .problem = problem,
                      .host = host,
                      .most_rooms = rooms_of_step(table, problem->profile, n_steps)};
    remat_status status = verify(&v, n_steps, error);
    if (!status) {
        size_t n = gather(&v, n_steps);
        if (n > 0)
            qsort(v.points, n, sizeof *v.points, compare_points);
        table->n_frontier = pareto(v.points, n);
        table->frontier = v.points;
        v.points = NULL;
    }
    free(v.points);
    free(v.n_points);
    free(v.statuses);
    free(v.errors);
    return status;
}
