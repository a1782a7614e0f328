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

static remat_status gather(room *r, const remat_question *q, remat_error *error)
{
    const remat_host host = {.memory_limit = memory_limit()};
    const remat_problem problem =
        remat_question_problem(q, r->subject->profile, r->subject->store_all_peak);
    r->source = (remat_table_source){.data = r, .get = make_table, .release = free_table};
    return remat_portfolio_gather(q->solver, &problem, &host, &r->source, &r->portfolio, error);
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

/* ---- answers ---- */

static int64_t now_milliseconds(void)
{
    return (int64_t)(clock_seconds(CLOCK_REALTIME) * 1000);
}

static remat_status take_answer(json_t *json, json_t **ret_answer, remat_error *error)
{
    *ret_answer = json;
    return json ? REMAT_OK : remat_fail_memory(error);
}

static remat_status solve_bytes(room *r, remat_schedule_answer *answer,
                                remat_schedule *ret_schedule, remat_error *error)
{
    const remat_question *q = answer->question;
    const remat_problem problem =
        remat_question_problem(q, r->subject->profile, r->subject->store_all_peak);
    const remat_host host = {.data = r, .progress = on_progress};
    remat_status status = gather(r, q, error);
    r->label = "improving";
    answer->store_all_peak = r->subject->store_all_peak;
    answer->candidates = q->solver ? NULL : r->portfolio.tables;
    answer->n_candidates = r->portfolio.n;
    return status ? status
                  : remat_portfolio_schedule(&r->portfolio, &problem, q->budget, q->alignment,
                                             q->effort, &host, ret_schedule, error);
}

static remat_status solve_pebbles(room *r, const remat_question *q,
                                  const remat_pebble_problem *problem, remat_schedule *ret_schedule,
                                  remat_error *error)
{
    const remat_host host = {.data = r, .progress = on_progress, .memory_limit = memory_limit()};
    const remat_pebble_join *join = &problem->join;
    remat_pebble_table *table = NULL;
    uint32_t edge, depth, slots = (uint32_t)q->budget;
    double updates;
    remat_pebble_table_plan(NULL, join, slots, host.memory_limit, &edge, &depth, &updates);
    remat_status status = remat_pebble_table_new(join->k, edge, depth, &host, &table, error);
    if (!status)
        status = remat_pebble_solve(table, problem, slots, ret_schedule, error);
    remat_pebble_table_free(table);
    return status;
}

static remat_status solve_schedule(room *r, const remat_question *q, json_t **ret_answer,
                                   remat_error *error)
{
    const remat_profile *profile = r->subject->profile;
    remat_schedule schedule = {.solver = NULL};
    remat_pebble_problem pebbles = {.node_list = NULL};
    remat_status status = REMAT_OK;
    remat_schedule_answer answer = {.question = q, .profile = profile, .schedule = &schedule};
    if (!remat_pebbles_asked(q->solver, &q->options)) {
        status = solve_bytes(r, &answer, &schedule, error);
    } else if (!(status = remat_pebble_problem_of(profile, &q->options, &pebbles, error))) {
        answer.pebbles = &pebbles;
        answer.store_all_peak = remat_pebble_most_slots(&pebbles.join);
        status = solve_pebbles(r, q, &pebbles, &schedule, error);
    }
    answer.solve_seconds = clock_seconds(CLOCK_MONOTONIC) - r->start;
    answer.created = now_milliseconds();
    if (!status)
        status = take_answer(remat_schedule_encode(&answer), ret_answer, error);
    remat_schedule_clear(&schedule);
    remat_pebble_problem_clear(&pebbles);
    return status;
}

static remat_status solve_tradeoff(room *r, const remat_question *q, json_t **ret_answer,
                                   remat_error *error)
{
    const struct subject *s = r->subject;
    remat_status status = gather(r, q, error);
    return status ? status
                  : take_answer(remat_answer_tradeoff(q, s->profile, s->store_all_peak,
                                                      r->portfolio.tables, r->portfolio.n),
                                ret_answer, error);
}

remat_status local_answer(struct cli *cli, const struct subject *subject, const json_t *question,
                          remat_request_kind kind, json_t **ret_answer, remat_error *error)
{
    room r;
    remat_request request;
    remat_question q = {.text = NULL};
    json_t *json = with_id(question, subject);
    if (!json)
        return remat_fail_memory(error);
    remat_status status = remat_request_decode(json, kind, &request, error);
    if (!status)
        status = remat_question_resolve(&request, subject->id, subject->profile,
                                        subject->store_all_peak, &q, error);
    if (!status) {
        room_open(&r, cli, subject);
        status = kind == REMAT_ASK_TRADEOFF ? solve_tradeoff(&r, &q, ret_answer, error)
                                            : solve_schedule(&r, &q, ret_answer, error);
        room_close(&r);
    }
    remat_question_clear(&q);
    json_decref(json);
    return status;
}

json_t *local_explanation(const struct subject *subject, const json_t *schedule)
{
    json_t *explanation = NULL;
    if (remat_answer_explanation(schedule, subject->profile, &explanation, NULL))
        return NULL;
    return explanation;
}
