#include "remat_local.h"

#include "api.h"
#include "remat/portfolio.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

/* One call. */
typedef struct call {
    remat_local_progress progress;
    void *data;
    remat_profile *profile;
    char profile_id[REMAT_ID_SIZE];
    uint64_t store_all_peak;
    bool of_profile; /* a failure is the profile's own */
    remat_portfolio portfolio;
    remat_table_source source;
    double start;
} call;

static double clock_seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void on_progress(void *data, double fraction)
{
    call *c = data;
    if (c->progress)
        c->progress(c->data, fraction);
}

static bool on_cancelled(void *data)
{
    call *c = data;
    return c->progress && c->progress(c->data, -1) != 0;
}

/* Solves may take three quarters of the machine's memory, as with remat --local. */
static remat_host host_of(call *c)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    uint64_t limit = pages > 0 && size > 0 ? (uint64_t)pages / 4 * 3 * (uint64_t)size : 0;
    return (remat_host){
        .data = c, .progress = on_progress, .cancelled = on_cancelled, .memory_limit = limit};
}

/* ---- a schedule ---- */

static remat_status make_table(void *data, const remat_solver *solver, const remat_problem *problem,
                               remat_held_table *ret_held, remat_error *error)
{
    const remat_host host = host_of(data);
    remat_table *table = NULL;
    remat_status status = remat_tabulate(solver, problem, &host, &table, error);
    ret_held->table = table;
    return status;
}

static void free_table(void *data, remat_held_table held)
{
    (void)data;
    remat_table_free((remat_table *)held.table);
}

static remat_status solve_bytes(call *c, remat_schedule_answer *answer,
                                remat_schedule *ret_schedule, remat_error *error)
{
    const remat_question *q = answer->question;
    const remat_problem problem = remat_question_problem(q, c->profile, c->store_all_peak);
    const remat_host host = host_of(c);
    c->source = (remat_table_source){.data = c, .get = make_table, .release = free_table};
    remat_status status =
        remat_portfolio_gather(q->solver, &problem, &host, &c->source, &c->portfolio, error);
    answer->store_all_peak = c->store_all_peak;
    answer->candidates = q->solver ? NULL : c->portfolio.tables;
    answer->n_candidates = c->portfolio.n;
    return status ? status
                  : remat_portfolio_schedule(&c->portfolio, &problem, q->budget, q->alignment,
                                             q->effort, &host, ret_schedule, error);
}

static remat_status answer_schedule(call *c, const remat_request *request, json_t **ret_answer,
                                    remat_error *error)
{
    remat_question q = {.text = NULL};
    remat_schedule schedule = {.solver = NULL};
    remat_schedule_answer answer = {.question = &q, .profile = c->profile, .schedule = &schedule};
    remat_status status =
        remat_question_resolve(request, c->profile_id, c->profile, c->store_all_peak, &q, error);
    if (!status && remat_pebbles_asked(q.solver, &q.options))
        status = remat_fail(error, REMAT_NOT_ACCEPTED, "options",
                            "pebbles are counted by rematd and by remat --local only");
    if (!status)
        status = solve_bytes(c, &answer, &schedule, error);
    answer.solve_seconds = clock_seconds(CLOCK_MONOTONIC) - c->start;
    answer.created = (int64_t)(clock_seconds(CLOCK_REALTIME) * 1000);
    if (!status && !(*ret_answer = remat_schedule_encode(&answer)))
        status = remat_fail_memory(error);
    remat_schedule_clear(&schedule);
    remat_portfolio_release(&c->portfolio);
    remat_question_clear(&q);
    return status;
}

/* ---- a call ---- */

static remat_status take_profile(call *c, const remat_request *request, remat_error *error)
{
    if (!request->profile)
        return remat_fail(error, REMAT_NOT_FOUND, "profile_id",
                          "there is no store here: the profile itself must be in \"profile\"");
    c->of_profile = true;
    remat_status status = remat_profile_decode(request->profile, "profile.", &c->profile, error);
    if (!status)
        status = remat_store_all_peak(c->profile, &c->store_all_peak, error);
    if (status)
        return status;
    c->of_profile = false;
    remat_profile_id(c->profile, c->profile_id);
    return REMAT_OK;
}

static remat_status answer_body(call *c, const char *path, const json_t *body, json_t **ret_answer,
                                remat_error *error)
{
    bool simulated = strcmp(path, "/v1/simulations") == 0;
    remat_request request;
    if (!simulated && strcmp(path, "/v1/schedules") != 0)
        return remat_fail(error, REMAT_NOT_FOUND, "", "\"%.100s\" is not answered here", path);
    remat_status status = remat_request_decode(
        body, simulated ? REMAT_ASK_SIMULATION : REMAT_ASK_SCHEDULE, &request, error);
    if (!status)
        status = take_profile(c, &request, error);
    if (status)
        return status;
    return simulated ? remat_answer_simulation(&request, c->profile, ret_answer, error)
                     : answer_schedule(c, &request, ret_answer, error);
}

EXPORTED char *remat_local_post(const char *path, const char *body, size_t length,
                                remat_local_progress progress, void *data, int *ret_status)
{
    call c = {.progress = progress, .data = data, .start = clock_seconds(CLOCK_MONOTONIC)};
    remat_error error = {0};
    json_t *json = NULL, *answer = NULL;
    remat_status status = remat_json_parse(body, length, &json, &error);
    if (!status)
        status = answer_body(&c, path, json, &answer, &error);
    *ret_status = 200;
    if (status) {
        remat_problem_type type = c.of_profile && status == REMAT_INVALID
                                      ? REMAT_PROBLEM_INVALID_PROFILE
                                      : remat_problem_of(&error);
        *ret_status = remat_problem_status(type);
        answer = remat_problem_encode(type, &error);
    }
    char *text = answer ? remat_json_text(answer) : NULL;
    json_decref(answer);
    json_decref(json);
    remat_profile_free(c.profile);
    return text;
}

EXPORTED void remat_local_free(char *text)
{
    free(text);
}

EXPORTED const char *remat_local_version(void)
{
    return REMAT_VERSION;
}
