#include "solve.h"

#include "host/machine.h"
#include "host/team.h"
#include "remat/portfolio.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { LOOK_MILLISECONDS = 5 };

typedef struct room {
    const remat_question *question;
    const remat_profile *profile;
    uint64_t store_all_peak;
    team *team;
    remat_host host;
    remat_table_source source;
    remat_portfolio portfolio;
    remat_pebble_problem pebbles;
    remat_pebble_table *pebble_table; /* NULL: the question is in bytes */
    json_t **ret_answer;
    remat_error *error;
    remat_status status;
    double start, begin, share; /* of the progress: where this part begins, and its part */
    /* Between the thread that solves, its team, and the caller's, which alone calls the watch. */
    _Atomic(const char *) label;
    atomic_uint permille;
    atomic_bool cancel;
    bool done; /* with the lock */
    pthread_mutex_t lock;
    pthread_cond_t ended;
} room;

static double clock_seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Of several solvers side by side: it never goes back. */
static void on_progress(void *data, double fraction)
{
    room *r = data;
    unsigned now = (unsigned)((r->begin + r->share * fraction) * 1000);
    unsigned before = atomic_load(&r->permille);
    while (now > before && !atomic_compare_exchange_weak(&r->permille, &before, now))
        ;
}

static bool on_cancelled(void *data)
{
    return atomic_load(&((room *)data)->cancel);
}

static void on_indices(void *data, size_t count,
                       void (*body)(void *context, size_t index, unsigned worker), void *context)
{
    team_parallel_for(((room *)data)->team, count, body, context);
}

/* The portfolio's hook: each table is made, and the label is its solver's name. */
static remat_status make_table(void *data, const remat_solver *solver, const remat_problem *problem,
                               remat_held_table *ret_held, remat_error *error)
{
    room *r = data;
    remat_table *table = NULL;
    atomic_store(&r->label, solver->name);
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
    const bool more = r->question->kind == REMAT_ASK_SCHEDULE; /* comes after the tables */
    r->share = more ? 0.5 : 1;
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
    atomic_store(&r->label, "improving");
    r->begin = r->share = 0.5; /* after the tables */
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

static remat_status answer(room *r)
{
    const remat_question *q = r->question;
    remat_status status = REMAT_OK;
    if (remat_pebbles_asked(q->solver, &q->options))
        status = make_pebbles(r, r->error);
    if (!status)
        status = q->kind == REMAT_ASK_TRADEOFF ? answer_tradeoff(r, r->ret_answer, r->error)
                                               : answer_schedule(r, r->ret_answer, r->error);
    remat_pebble_table_free(r->pebble_table);
    remat_pebble_problem_clear(&r->pebbles);
    remat_portfolio_release(&r->portfolio);
    return status;
}

static void *answer_main(void *data)
{
    room *r = data;
    r->status = answer(r);
    pthread_mutex_lock(&r->lock);
    r->done = true;
    pthread_cond_signal(&r->ended);
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* Until the answer is there. The watch is called without the lock. */
static void watch_over(room *r, const local_watch *watch)
{
    for (bool done = false; !done;) {
        struct timespec until;
        if (watch->look(watch->data, atomic_load(&r->label), atomic_load(&r->permille) / 1000.0))
            atomic_store(&r->cancel, true);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += LOOK_MILLISECONDS * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_mutex_lock(&r->lock);
        while (!r->done && pthread_cond_timedwait(&r->ended, &r->lock, &until) != ETIMEDOUT)
            ;
        done = r->done;
        pthread_mutex_unlock(&r->lock);
    }
}

/* On a thread of its own, so that the caller's can watch. */
static remat_status solve_watched(room *r, const local_watch *watch)
{
    pthread_t thread;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->ended, NULL);
    if (team_start_thread(&thread, answer_main, r) != 0) {
        r->status = remat_fail(r->error, REMAT_NO_MEMORY, NULL, "no thread can be started");
    } else {
        watch_over(r, watch);
        pthread_join(thread, NULL);
    }
    pthread_cond_destroy(&r->ended);
    pthread_mutex_destroy(&r->lock);
    return r->status;
}

remat_status local_solve(const remat_request *request, const char *profile_id,
                         const remat_profile *profile, uint64_t store_all_peak,
                         const local_watch *watch, json_t **ret_answer, remat_error *error)
{
    remat_question q = {.text = NULL};
    remat_status status =
        remat_question_resolve(request, profile_id, profile, store_all_peak, &q, error);
    if (status)
        return status;
    room r = {.question = &q,
              .profile = profile,
              .store_all_peak = store_all_peak,
              .team = team_new(machine_cores(), false),
              .ret_answer = ret_answer,
              .error = error,
              .start = clock_seconds(CLOCK_MONOTONIC),
              .share = 1,
              .label = remat_question_solver(&q)};
    r.host = (remat_host){.data = &r,
                          .parallel_for = on_indices,
                          .workers = team_workers(r.team),
                          .progress = on_progress,
                          .cancelled = on_cancelled,
                          .memory_limit = machine_memory() / 4 * 3};
    status = solve_watched(&r, watch);
    team_free(r.team);
    remat_question_clear(&q);
    return status;
}
