#include "solve.h"

#include "host/machine.h"
#include "host/team.h"
#include "remat/answer.h"

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
    json_t **ret_answer;
    remat_error *error;
    remat_status status;
    double start;
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
    unsigned now = (unsigned)(fraction * 1000);
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

static void on_doing(void *data, const char *what)
{
    atomic_store(&((room *)data)->label, what);
}

static remat_status encode(room *r, const remat_query *query, const remat_answered *answered)
{
    if (query->curve)
        return remat_answer_tradeoff(r->question, query, r->store_all_peak, &answered->portfolio,
                                     &r->host, r->ret_answer, r->error);
    double overhead;
    const remat_schedule_answer answer = {
        .question = r->question,
        .profile = r->profile,
        .answered = answered,
        .store_all_peak = r->store_all_peak,
        .solve_seconds = clock_seconds(CLOCK_MONOTONIC) - r->start,
        .created = (int64_t)(clock_seconds(CLOCK_REALTIME) * 1000)};
    *r->ret_answer = remat_schedule_encode(&answer, &overhead);
    return *r->ret_answer ? REMAT_OK : remat_fail_memory(r->error);
}

static remat_status answer(room *r)
{
    remat_query query;
    remat_answered answered = {.portfolio = {.n = 0}};
    remat_status status =
        remat_question_query(r->question, r->profile, r->store_all_peak, &query, r->error);
    if (!status)
        status = remat_answer(&query, &r->host, NULL, &answered, r->error);
    if (!status)
        status = encode(r, &query, &answered);
    remat_answered_clear(&answered);
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
              .label = remat_question_solver(&q)};
    r.host = (remat_host){.data = &r,
                          .parallel_for = on_indices,
                          .workers = team_workers(r.team),
                          .progress = on_progress,
                          .cancelled = on_cancelled,
                          .doing = on_doing,
                          .memory_limit = machine_memory() / 4 * 3};
    status = solve_watched(&r, watch);
    team_free(r.team);
    remat_question_clear(&q);
    return status;
}
