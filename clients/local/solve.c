#include "solve.h"

#include "remat/portfolio.h"

#include <time.h>
#include <unistd.h>

typedef struct room {
    const remat_question *question;
    const remat_profile *profile;
    uint64_t store_all_peak;
    const local_watch *watch;
    const char *label;
    remat_host host;
    remat_table_source source;
    remat_portfolio portfolio;
    remat_pebble_problem pebbles;
    remat_pebble_table *pebble_table; /* NULL: the question is in bytes */
    double start;
} room;

static double clock_seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void on_progress(void *data, double fraction)
{
    const room *r = data;
    r->watch->progress(r->watch->data, r->label, fraction);
}

static bool on_cancelled(void *data)
{
    const local_watch *watch = ((const room *)data)->watch;
    return watch->cancelled && watch->cancelled(watch->data);
}

/* Three quarters of the machine's memory, 0 (no limit) where that cannot be known. */
static uint64_t memory_limit(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (uint64_t)pages / 4 * 3 * (uint64_t)size : 0;
}

/* The portfolio's hook: each table is made, and the label is its solver's name. */
static remat_status make_table(void *data, const remat_solver *solver, const remat_problem *problem,
                               remat_held_table *ret_held, remat_error *error)
{
    room *r = data;
    remat_table *table = NULL;
    r->label = solver->name;
    remat_status status = remat_tabulate(solver, problem, &r->host, &table, error);
    ret_held->table = table;
    return status;
}

static void free_table(void *data, remat_held_table held)
{
    (void)data;
    remat_table_free((remat_table *)held.table);
}

static remat_status gather(room *r, remat_error *error)
{
    const remat_problem problem =
        remat_question_problem(r->question, r->profile, r->store_all_peak);
    r->source = (remat_table_source){.data = r, .get = make_table, .release = free_table};
    return remat_portfolio_gather(r->question->solver, &problem, &r->host, &r->source,
                                  &r->portfolio, error);
}

static remat_status solve_bytes(room *r, remat_schedule_answer *answer,
                                remat_schedule *ret_schedule, remat_error *error)
{
    const remat_question *q = r->question;
    const remat_problem problem = remat_question_problem(q, r->profile, r->store_all_peak);
    remat_status status = gather(r, error);
    r->label = "improving";
    answer->store_all_peak = r->store_all_peak;
    answer->candidates = q->solver ? NULL : r->portfolio.tables;
    answer->n_candidates = r->portfolio.n;
    return status ? status
                  : remat_portfolio_schedule(&r->portfolio, &problem, q->budget, q->alignment,
                                             q->effort, &r->host, ret_schedule, error);
}

static remat_status make_pebbles(room *r, remat_error *error)
{
    const remat_question *q = r->question;
    const remat_pebble_join *join = &r->pebbles.join;
    uint32_t edge, depth;
    double updates;
    remat_status status = remat_pebble_problem_of(r->profile, &q->options, &r->pebbles, error);
    if (status)
        return status;
    r->label = q->solver->name;
    remat_pebble_table_plan(NULL, join, remat_question_slots(q, &r->pebbles), r->host.memory_limit,
                            &edge, &depth, &updates);
    return remat_pebble_table_new(join->k, edge, depth, &r->host, &r->pebble_table, error);
}

static remat_status answer_schedule(room *r, json_t **ret_answer, remat_error *error)
{
    const remat_question *q = r->question;
    remat_schedule schedule = {.solver = NULL};
    remat_status status = REMAT_OK;
    remat_schedule_answer answer = {.question = q, .profile = r->profile, .schedule = &schedule};
    if (r->pebble_table) {
        answer.pebbles = &r->pebbles;
        answer.store_all_peak = remat_pebble_most_slots(&r->pebbles.join);
        status =
            remat_pebble_solve(r->pebble_table, &r->pebbles, (uint32_t)q->budget, &schedule, error);
    } else {
        status = solve_bytes(r, &answer, &schedule, error);
    }
    answer.solve_seconds = clock_seconds(CLOCK_MONOTONIC) - r->start;
    answer.created = (int64_t)(clock_seconds(CLOCK_REALTIME) * 1000);
    if (!status && !(*ret_answer = remat_schedule_encode(&answer)))
        status = remat_fail_memory(error);
    remat_schedule_clear(&schedule);
    return status;
}

static remat_status answer_tradeoff(room *r, json_t **ret_answer, remat_error *error)
{
    if (r->pebble_table)
        return remat_answer_pebble_tradeoff(r->question, &r->pebbles, r->pebble_table, &r->host,
                                            ret_answer, error);
    remat_status status = gather(r, error);
    if (!status && !(*ret_answer = remat_answer_tradeoff(r->question, r->profile, r->store_all_peak,
                                                         r->portfolio.tables, r->portfolio.n)))
        status = remat_fail_memory(error);
    return status;
}

remat_status local_solve(const remat_request *request, const char *profile_id,
                         const remat_profile *profile, uint64_t store_all_peak,
                         const local_watch *watch, json_t **ret_answer, remat_error *error)
{
    remat_question q = {.text = NULL};
    room r = {.question = &q,
              .profile = profile,
              .store_all_peak = store_all_peak,
              .watch = watch,
              .host = {.data = &r,
                       .progress = on_progress,
                       .cancelled = on_cancelled,
                       .memory_limit = memory_limit()},
              .start = clock_seconds(CLOCK_MONOTONIC)};
    remat_status status =
        remat_question_resolve(request, profile_id, profile, store_all_peak, &q, error);
    if (!status && remat_pebbles_asked(q.solver, &q.options))
        status = make_pebbles(&r, error);
    if (!status)
        status = q.kind == REMAT_ASK_TRADEOFF ? answer_tradeoff(&r, ret_answer, error)
                                              : answer_schedule(&r, ret_answer, error);
    remat_pebble_table_free(r.pebble_table);
    remat_pebble_problem_clear(&r.pebbles);
    remat_portfolio_release(&r.portfolio);
    remat_question_clear(&q);
    return status;
}
