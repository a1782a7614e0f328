/* --local: the answers of the server, computed in this process. auto is chosen as there: of every
 * solver that accepts the profile and is not a mere baseline, the fastest schedule, then the
 * smallest peak. */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_TABLES 32

/* The tables that answer a question. */
typedef struct room {
    const struct subject *subject;
    remat_table *tables[MAX_TABLES];
    remat_options options[MAX_TABLES];
    size_t n;
    struct workers *workers;
    struct progress progress;
    const char *label;
    double start;
} room;

static double clock_seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void room_open(room *r, const struct cli *cli, const struct subject *subject)
{
    *r = (room){.subject = subject, .start = clock_seconds(CLOCK_MONOTONIC)};
    r->workers = workers_new();
    progress_begin(&r->progress, cli);
}

static void room_close(room *r)
{
    progress_end(&r->progress);
    workers_free(r->workers);
    for (size_t i = 0; i < r->n; i++)
        remat_table_free(r->tables[i]);
}

static void on_progress(void *data, double fraction)
{
    room *r = data;
    progress_draw(&r->progress, r->label, fraction);
}

static void lend_threads(void *data, size_t count,
                         void (*body)(void *context, size_t index, unsigned worker), void *context)
{
    workers_parallel_for(((room *)data)->workers, count, body, context);
}

/* Three quarters of the machine's memory, 0 (no limit) where that cannot be known. */
static uint64_t memory_limit(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (uint64_t)pages / 4 * 3 * (uint64_t)size : 0;
}

static remat_status add_table(room *r, const remat_solver *solver, const remat_problem *problem,
                              remat_error *error)
{
    remat_host host = {.data = r,
                       .parallel_for = r->workers ? lend_threads : NULL,
                       .workers = workers_count(r->workers),
                       .progress = on_progress,
                       .memory_limit = memory_limit()};
    r->label = solver->name;
    remat_status status = remat_tabulate(solver, problem, &host, &r->tables[r->n], error);
    if (!status)
        r->options[r->n++] = problem->options;
    return status;
}

static remat_status gather(room *r, const remat_subject *asked, uint64_t budget, remat_error *error)
{
    remat_problem problem = {.profile = r->subject->profile, .max_budget = budget};
    if (asked->solver) {
        problem.options = asked->options;
        return add_table(r, asked->solver, &problem, error);
    }
    size_t n_solvers;
    const remat_solver *const *solvers = remat_solvers(&n_solvers);
    remat_status status = REMAT_OK;
    for (size_t i = 0; i < n_solvers && r->n < MAX_TABLES && !status; i++) {
        problem.options = remat_options_default(solvers[i]);
        if ((solvers[i]->accepts & REMAT_BASELINE) ||
            remat_solver_accepts(solvers[i], &problem, NULL))
            continue;
        status = add_table(r, solvers[i], &problem, error);
        if (status == REMAT_TOO_LARGE && i + 1 < n_solvers)
            status = REMAT_OK; /* the others answer */
    }
    return status == REMAT_TOO_LARGE && r->n > 0 ? REMAT_OK : status;
}

/* Index of the table whose schedule within budget is fastest, then smallest; -1: none. */
static ptrdiff_t best_table(const room *r, uint64_t budget)
{
    ptrdiff_t best = -1;
    remat_point best_point = {0};
    for (size_t i = 0; i < r->n; i++) {
        size_t n;
        const remat_point *frontier = remat_table_frontier(r->tables[i], &n);
        ptrdiff_t index = remat_table_point(r->tables[i], budget);
        if (index < 0)
            continue;
        const remat_point *point = &frontier[index];
        if (best < 0 || point->makespan < best_point.makespan ||
            (point->makespan == best_point.makespan && point->peak < best_point.peak)) {
            best = (ptrdiff_t)i;
            best_point = *point;
        }
    }
    return best;
}

/* Least budget that a table can serve; 0: none can. */
static uint64_t least_budget(const room *r)
{
    uint64_t least = 0;
    for (size_t i = 0; i < r->n; i++) {
        size_t n;
        const remat_point *frontier = remat_table_frontier(r->tables[i], &n);
        if (n > 0 && (least == 0 || frontier[0].peak < least))
            least = frontier[0].peak;
    }
    return least;
}

remat_status local_store_all_peak(const remat_profile *profile, uint64_t *ret_peak,
                                  remat_error *error)
{
    remat_problem problem = {.profile = profile, .max_budget = UINT64_MAX};
    remat_table *table;
    size_t n;
    remat_status status =
        remat_tabulate(remat_solver_find("store-all"), &problem, NULL, &table, error);
    if (status)
        return status;
    *ret_peak = remat_table_frontier(table, &n)[0].peak;
    remat_table_free(table);
    return REMAT_OK;
}

/* The question with its subject in it, as the decoders of requests want it. */
static json_t *with_id(const json_t *question, const struct subject *subject)
{
    json_t *request = json_copy((json_t *)question);
    if (request && json_object_set_new(request, "profile_id", json_string(subject->id))) {
        json_decref(request);
        return NULL;
    }
    return request;
}

/* ---- schedules
 * -------------------------------------------------------------------------------------- */

static remat_status fail_infeasible(const room *r, const remat_subject *asked, uint64_t budget,
                                    remat_error *error)
{
    uint64_t least = least_budget(r);
    remat_fail(error, REMAT_INFEASIBLE, "budget",
               "%s has no schedule of \"%.100s\" within %llu bytes",
               asked->solver ? asked->solver->name : "auto", r->subject->profile->name,
               (unsigned long long)budget);
    error->number = least;
    return REMAT_INFEASIBLE;
}

/* The id the server would give: the digest of the question in its one spelling. */
static remat_status schedule_id(const struct subject *subject, const remat_subject *asked,
                                uint64_t budget, char ret_id[REMAT_ID_SIZE], remat_error *error)
{
    json_t *question = remat_question(subject->id, asked->solver, &asked->options, budget);
    char *text = question ? remat_json_text(question) : NULL;
    json_decref(question);
    if (!text)
        return remat_fail_memory(error);
    remat_sha256_hex(text, strlen(text), ret_id);
    free(text);
    return REMAT_OK;
}

static remat_status trace_answer(const room *r, size_t index, const remat_subject *asked,
                                 uint64_t budget, json_t **ret_answer, remat_error *error)
{
    char id[REMAT_ID_SIZE];
    remat_schedule schedule;
    remat_problem problem = {
        .profile = r->subject->profile, .options = r->options[index], .max_budget = budget};
    remat_status status = schedule_id(r->subject, asked, budget, id, error);
    if (!status)
        status = remat_table_schedule(r->tables[index], &problem, budget, &schedule, error);
    if (status)
        return status;
    remat_schedule_answer answer = {.schedule_id = id,
                                    .profile_id = r->subject->id,
                                    .profile = r->subject->profile,
                                    .schedule = &schedule,
                                    .requested_solver =
                                        asked->solver ? asked->solver->name : "auto",
                                    .budget = budget,
                                    .store_all_peak = r->subject->store_all_peak,
                                    .solve_seconds = clock_seconds(CLOCK_MONOTONIC) - r->start,
                                    .created = (int64_t)(clock_seconds(CLOCK_REALTIME) * 1000)};
    json_t *json = remat_schedule_encode(&answer);
    remat_schedule_clear(&schedule);
    if (!json)
        return remat_fail_memory(error);
    *ret_answer = json;
    return REMAT_OK;
}

static remat_status solve(const struct cli *cli, const struct subject *subject,
                          const remat_subject *asked, uint64_t budget, json_t **ret_answer,
                          remat_error *error)
{
    room r;
    room_open(&r, cli, subject);
    remat_status status = gather(&r, asked, budget, error);
    if (!status) {
        ptrdiff_t best = best_table(&r, budget);
        status = best < 0 ? fail_infeasible(&r, asked, budget, error)
                          : trace_answer(&r, (size_t)best, asked, budget, ret_answer, error);
    }
    room_close(&r);
    return status;
}

remat_status local_schedule(struct cli *cli, const struct subject *subject, const json_t *question,
                            json_t **ret_answer, remat_error *error)
{
    remat_schedule_request request;
    uint64_t budget;
    json_t *json = with_id(question, subject);
    if (!json)
        return remat_fail_memory(error);
    remat_status status = remat_schedule_request_decode(json, &request, error);
    if (!status)
        status = remat_budget_resolve(&request, subject->store_all_peak, &budget, error);
    if (!status)
        status = solve(cli, subject, &request.subject, budget, ret_answer, error);
    json_decref(json);
    return status;
}

/* ---- trade-offs
 * ------------------------------------------------------------------------------------- */

static uint64_t tradeoff_budget(const remat_tradeoff_request *request, const room *r,
                                uint64_t least, size_t i)
{
    double most = (double)r->subject->store_all_peak;
    if (request->n_budgets > 0) {
        const remat_amount *amount = &request->budgets[i];
        return (uint64_t)(amount->percent ? floor(amount->value / 100 * most) : amount->value);
    }
    double low = fmin((double)least, most);
    return (uint64_t)(low + (most - low) * (double)i / (double)(request->points - 1));
}

static remat_status encode_tradeoffs(const remat_tradeoff_request *request, const room *r,
                                     json_t **ret_answer, remat_error *error)
{
    size_t n = request->n_budgets > 0 ? request->n_budgets : request->points;
    uint64_t least = least_budget(r);
    json_t *list = json_array();
    for (size_t i = 0; list && i < n; i++) {
        uint64_t budget = tradeoff_budget(request, r, least, i);
        ptrdiff_t best = best_table(r, budget);
        json_t *point =
            remat_tradeoff_point(r->subject->profile, budget, best < 0 ? NULL : r->tables[best]);
        if (json_array_append_new(list, point)) {
            json_decref(list);
            list = NULL;
        }
    }
    if (!list)
        return remat_fail_memory(error);
    *ret_answer = list;
    return REMAT_OK;
}

static remat_status tradeoffs(const struct cli *cli, const struct subject *subject,
                              const remat_tradeoff_request *request, json_t **ret_answer,
                              remat_error *error)
{
    room r;
    room_open(&r, cli, subject);
    remat_status status = gather(&r, &request->subject, subject->store_all_peak, error);
    if (!status)
        status = encode_tradeoffs(request, &r, ret_answer, error);
    room_close(&r);
    return status;
}

remat_status local_tradeoffs(struct cli *cli, const struct subject *subject, const json_t *question,
                             json_t **ret_answer, remat_error *error)
{
    remat_tradeoff_request *request = malloc(sizeof *request);
    json_t *json = with_id(question, subject);
    remat_status status = request && json ? remat_tradeoff_request_decode(json, request, error)
                                          : remat_fail_memory(error);
    if (!status)
        status = tradeoffs(cli, subject, request, ret_answer, error);
    json_decref(json);
    free(request);
    return status;
}

/* ---- replays
 * ---------------------------------------------------------------------------------------- */

static remat_status replay(const struct subject *subject, const remat_operations *operations,
                           const remat_link *link, json_t **ret_answer, remat_error *error)
{
    remat_simulation simulation;
    double *recomputed = calloc(subject->profile->n_nodes, sizeof *recomputed);
    if (!recomputed)
        return remat_fail_memory(error);
    remat_status status =
        remat_simulate(subject->profile, operations, link, NULL, recomputed, &simulation, error);
    if (!status) {
        *ret_answer = remat_simulation_encode(subject->profile, &simulation, recomputed);
        if (!*ret_answer)
            status = remat_fail_memory(error);
    }
    free(recomputed);
    return status;
}

remat_status local_simulation(const struct subject *subject, const json_t *operations,
                              const json_t *link, json_t **ret_answer, remat_error *error)
{
    remat_operations list = {0};
    remat_link way = {0};
    remat_status status = link ? remat_link_decode(link, subject->profile, &way, error) : REMAT_OK;
    if (!status)
        status = remat_operations_decode(operations, subject->profile, "operations", &list, error);
    if (!status)
        status = replay(subject, &list, link ? &way : NULL, ret_answer, error);
    remat_operations_clear(&list);
    return status;
}

static remat_status replay_timeline(const struct subject *subject, const json_t *schedule,
                                    const remat_operations *operations, const remat_link *link,
                                    json_t **ret_timeline, remat_error *error)
{
    remat_simulation simulation;
    remat_moment *moments = calloc(operations->length + 1, sizeof *moments);
    if (!moments)
        return remat_fail_memory(error);
    remat_status status =
        remat_simulate(subject->profile, operations, link, moments, NULL, &simulation, error);
    if (!status && !simulation.valid)
        status = remat_fail(error, REMAT_INFEASIBLE, "operations",
                            "the schedule is not valid for \"%.100s\": operation %zu: %.300s",
                            subject->profile->name, simulation.bad_operation, simulation.reason);
    double budget = json_get_number(schedule, "budget");
    if (!status) {
        *ret_timeline = remat_timeline_encode(json_get_text(schedule, "schedule_id"),
                                              budget >= 0 ? (uint64_t)budget : 0, subject->profile,
                                              operations, moments, &simulation);
        if (!*ret_timeline)
            status = remat_fail_memory(error);
    }
    free(moments);
    return status;
}

remat_status local_timeline(const struct subject *subject, const json_t *schedule,
                            json_t **ret_timeline, remat_error *error)
{
    remat_operations operations = {0};
    remat_link way = {0};
    const json_t *link = json_object_get(schedule, "link");
    remat_status status = link ? remat_link_decode(link, subject->profile, &way, error) : REMAT_OK;
    if (!status)
        status = remat_schedule_operations(schedule, subject->profile, &operations, error);
    if (!status)
        status = replay_timeline(subject, schedule, &operations, link ? &way : NULL, ret_timeline,
                                 error);
    remat_operations_clear(&operations);
    return status;
}
