/* --local: the answers of the server, computed in this process by the same portfolio. */
#include "cli.h"

#include "remat/portfolio.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The tables that answer a question. */
typedef struct room {
    const struct subject *subject;
    remat_portfolio portfolio;
    remat_table_source source;
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
    progress_begin(&r->progress, cli->show_progress, cli->ascii);
}

static void room_close(room *r)
{
    progress_end(&r->progress);
    remat_portfolio_release(&r->portfolio);
}

static void on_progress(void *data, double fraction)
{
    room *r = data;
    progress_draw(&r->progress, r->label, fraction);
}

/* Three quarters of the machine's memory, 0 (no limit) where that cannot be known. */
static uint64_t memory_limit(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (uint64_t)pages / 4 * 3 * (uint64_t)size : 0;
}

/* The portfolio's hook: each table is made, and the progress line names its solver. */
static remat_status make_table(void *data, const remat_solver *solver, const remat_problem *problem,
                               remat_held_table *ret_held, remat_error *error)
{
    room *r = data;
    remat_table *table = NULL;
    const remat_host host = {.data = r, .progress = on_progress, .memory_limit = memory_limit()};
    r->label = solver->name;
    remat_status status = remat_tabulate(solver, problem, &host, &table, error);
    ret_held->table = table;
    return status;
}

static void free_table(void *data, remat_held_table held)
{
    (void)data;
    remat_table_free((remat_table *)held.table);
}

static remat_status gather(room *r, const remat_question *asked, remat_error *error)
{
    const remat_host host = {.memory_limit = memory_limit()};
    const remat_problem problem = {.profile = r->subject->profile,
                                   .link = asked->way.given ? &asked->way.link : NULL,
                                   .options = asked->options,
                                   .max_budget = asked->budget};
    r->source = (remat_table_source){.data = r, .get = make_table, .release = free_table};
    return remat_portfolio_gather(asked->solver, &problem, &host, &r->source, &r->portfolio, error);
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

/* ---- schedules ---- */

static int64_t now_milliseconds(void)
{
    return (int64_t)(clock_seconds(CLOCK_REALTIME) * 1000);
}

static remat_status take_answer(json_t *json, json_t **ret_answer, remat_error *error)
{
    *ret_answer = json;
    return json ? REMAT_OK : remat_fail_memory(error);
}

/* The id the server would give: the digest of the question in its one spelling. */
static remat_status schedule_id(const remat_question *asked, char ret_id[REMAT_ID_SIZE],
                                remat_error *error)
{
    json_t *question = remat_question_encode(asked);
    char *text = question ? remat_json_text(question) : NULL;
    json_decref(question);
    if (!text)
        return remat_fail_memory(error);
    remat_sha256_hex(text, strlen(text), ret_id);
    free(text);
    return REMAT_OK;
}

static remat_status solve_bytes(room *r, const remat_question *asked, const char *id,
                                json_t **ret_answer, remat_error *error)
{
    remat_schedule schedule;
    const remat_problem problem = {.profile = r->subject->profile,
                                   .link = asked->way.given ? &asked->way.link : NULL};
    const remat_host host = {.data = r, .progress = on_progress};
    remat_status status = gather(r, asked, error);
    r->label = "improving";
    if (!status)
        status = remat_portfolio_schedule(&r->portfolio, &problem, asked->budget, asked->alignment,
                                          asked->effort, &host, &schedule, error);
    if (status)
        return status;
    const remat_schedule_answer answer = {.schedule_id = id,
                                          .question = asked,
                                          .profile = r->subject->profile,
                                          .schedule = &schedule,
                                          .store_all_peak = r->subject->store_all_peak,
                                          .candidates = asked->solver ? NULL : r->portfolio.tables,
                                          .n_candidates = r->portfolio.n,
                                          .solve_seconds =
                                              clock_seconds(CLOCK_MONOTONIC) - r->start,
                                          .created = now_milliseconds()};
    status = take_answer(remat_schedule_encode(&answer), ret_answer, error);
    remat_schedule_clear(&schedule);
    return status;
}

static remat_status solve_pebbles(room *r, const remat_question *asked, const char *id,
                                  json_t **ret_answer, remat_error *error)
{
    const remat_host host = {.data = r, .progress = on_progress, .memory_limit = memory_limit()};
    remat_pebble_problem problem;
    remat_pebble_schedule schedule = {.makespan = 0};
    remat_pebble_table *table = NULL;
    uint32_t edge, depth;
    double updates;
    remat_status status =
        remat_pebble_problem_of(r->subject->profile, &asked->options, &problem, error);
    if (status)
        return status;
    uint32_t slots = (uint32_t)asked->budget;
    remat_pebble_table_plan(NULL, &problem.join, slots, host.memory_limit, &edge, &depth, &updates);
    status = remat_pebble_table_new(problem.join.k, edge, depth, &host, &table, error);
    if (!status)
        status = remat_pebble_solve(table, &problem, slots, &schedule, error);
    if (!status) {
        const remat_pebble_answer answer = {.schedule_id = id,
                                            .profile_id = asked->profile_id,
                                            .profile = r->subject->profile,
                                            .problem = &problem,
                                            .schedule = &schedule,
                                            .slots = slots,
                                            .solve_seconds =
                                                clock_seconds(CLOCK_MONOTONIC) - r->start,
                                            .created = now_milliseconds()};
        status = take_answer(remat_pebble_schedule_encode(&answer), ret_answer, error);
    }
    remat_pebble_schedule_clear(&schedule);
    remat_pebble_table_free(table);
    remat_pebble_problem_clear(&problem);
    return status;
}

static remat_status solve(const struct cli *cli, const struct subject *subject,
                          const remat_question *asked, json_t **ret_answer, remat_error *error)
{
    room r;
    char id[REMAT_ID_SIZE];
    remat_status status = schedule_id(asked, id, error);
    if (status)
        return status;
    room_open(&r, cli, subject);
    status = remat_pebbles_asked(asked->solver, &asked->options)
                 ? solve_pebbles(&r, asked, id, ret_answer, error)
                 : solve_bytes(&r, asked, id, ret_answer, error);
    room_close(&r);
    return status;
}

remat_status local_schedule(struct cli *cli, const struct subject *subject, const json_t *question,
                            json_t **ret_answer, remat_error *error)
{
    remat_schedule_request request;
    remat_question asked;
    json_t *json = with_id(question, subject);
    if (!json)
        return remat_fail_memory(error);
    remat_status status = remat_schedule_request_decode(json, &request, error);
    if (!status)
        status = remat_question_resolve(&request, subject->id, subject->profile,
                                        subject->store_all_peak, &asked, error);
    if (!status)
        status = solve(cli, subject, &asked, ret_answer, error);
    json_decref(json);
    return status;
}

/* ---- trade-offs ---- */

static remat_status tradeoffs(const struct cli *cli, const struct subject *subject,
                              const remat_tradeoff_request *request, json_t **ret_answer,
                              remat_error *error)
{
    room r;
    room_open(&r, cli, subject);
    const remat_question asked = {.solver = request->subject.solver,
                                  .options = request->subject.options,
                                  .budget = subject->store_all_peak,
                                  .way = request->way};
    remat_status status = gather(&r, &asked, error);
    json_t *answer = status
                         ? NULL
                         : remat_answer_tradeoff(request, subject->profile, subject->store_all_peak,
                                                 r.portfolio.tables, r.portfolio.n);
    room_close(&r);
    if (status)
        return status;
    if (!answer)
        return remat_fail_memory(error);
    *ret_answer = answer;
    return REMAT_OK;
}

remat_status local_tradeoffs(struct cli *cli, const struct subject *subject, const json_t *question,
                             json_t **ret_answer, remat_error *error)
{
    remat_tradeoff_request *request = malloc(sizeof *request);
    json_t *json = with_id(question, subject);
    remat_status status = request && json ? remat_tradeoff_request_decode(json, request, error)
                                          : remat_fail_memory(error);
    if (!status)
        status = remat_subject_link(&request->subject, subject->profile, &request->way, error);
    if (!status)
        status = tradeoffs(cli, subject, request, ret_answer, error);
    json_decref(json);
    free(request);
    return status;
}
