#include "jobs/job.h"

#include "fleet/fleet.h"
#include "host/machine.h"

#include <string.h>
#include <utlist.h>

/* ---- running ---- */

/* Several tables may be made for one job, side by side or one after the other: it never goes
 * back. */
static void on_progress(void *data, double fraction)
{
    job *one = data;
    unsigned now = (unsigned)(fraction * 1000), before = atomic_load(&one->permille);
    while (now > before && !atomic_compare_exchange_weak(&one->permille, &before, now))
        ;
}

static void on_found(void *data, double makespan, double bound)
{
    job *one = data;
    double best = atomic_load(&one->best_makespan), most = atomic_load(&one->lower_bound);
    while (makespan > 0 && (best == 0 || makespan < best) &&
           !atomic_compare_exchange_weak(&one->best_makespan, &best, makespan))
        ;
    while (bound > most && !atomic_compare_exchange_weak(&one->lower_bound, &most, bound))
        ;
}

static bool on_cancelled(void *data)
{
    return atomic_load(&((job *)data)->cancel);
}

static void solve_job(job *one)
{
    service *s = one->jobs->service;
    one->terms.host.data = one;
    one->terms.host.progress = on_progress;
    one->terms.host.found = on_found;
    one->terms.host.cancelled = on_cancelled;
    one->terms.deadline = uv_hrtime() + s->config.solve_seconds * UINT64_C(1000000000);
    one->status = engine_solve(s->engine, &one->question, &one->terms, &one->outcome, &one->body,
                               &one->error);
}

/* Of processes on one store one solves a question; the others find its answer. */
static void run_shared(job *one)
{
    service *s = one->jobs->service;
    const char *name = one->question.id;
    bool taken;
    one->status = remat_store_take_lease(s->store, name, &taken, &one->error);
    one->elsewhere = !one->status && !taken;
    if (one->status || one->elsewhere)
        return;
    solve_job(one);
    fleet_release(s->fleet, name);
}

void job_run(task *t)
{
    job *one = (job *)t;
    one->elsewhere = false;
    if (atomic_load(&one->cancel))
        one->status = REMAT_CANCELLED;
    else if (remat_store_is_shared(one->jobs->service->store))
        run_shared(one);
    else
        solve_job(one);
    if (one->status == REMAT_CANCELLED) /* before it began or while a solver ran */
        remat_fail(&one->error, REMAT_CANCELLED, NULL, "the job was cancelled");
}

/* Those who were told of the job have an answer now, and look it up. */
static void count_answers(const job *one)
{
    bool answered = one->state == JOB_DONE && one->question.kind == REMAT_ASK_SCHEDULE;
    for (unsigned i = 0; answered && i < one->n_askers; i++)
        if (one->askers[i].told)
            atomic_fetch_add(&one->jobs->service->metrics.schedules[one->outcome.cache], 1);
}

void job_end(job *one, job_state state)
{
    jobs *j = one->jobs;
    metrics *counters = &j->service->metrics;
    one->state = state;
    one->ended = machine_clock();
    one->seconds = (double)(uv_hrtime() - one->begun) / 1e9;
    HASH_DELETE(by_key, j->by_key, one);
    j->n_unfinished--;
    job_disown(one);
    DL_APPEND(j->ended, one);
    j->n_ended++;
    if (state == JOB_FAILED)
        atomic_fetch_add(&counters->jobs_failed, 1);
    if (state == JOB_CANCELLED)
        atomic_fetch_add(&counters->jobs_cancelled, 1);
    count_answers(one);
    log_line(state == JOB_FAILED ? LOG_WARNING : LOG_INFO, "job",
             json_pack("{s:s, s:s*, s:s, s:f, s:s}", "job_id", one->id, "traceparent",
                       one->traceparent[0] ? one->traceparent : NULL, "state",
                       job_state_name(state), "seconds", one->seconds, "detail",
                       state == JOB_DONE ? "" : one->error.message));
    job_answer_waiters(one);
    job_save(one);
    /* The answer is in the engine's cache and in the store; the job need not hold it. */
    body_release(one->body);
    one->body = NULL;
    job_forget_oldest(j);
    memory_stir(j->service->memory);
}

/* Whether the job has to be run again later: another process solves its question, or the store is
 * away, and somebody relies on the job. */
static bool park(job *one)
{
    if (!one->elsewhere && !(one->status == REMAT_IO && one->acknowledged))
        return false;
    if (atomic_load(&one->cancel) || one->jobs->stopping) {
        one->interrupted |= !atomic_load(&one->cancel);
        one->status = remat_fail(&one->error, REMAT_CANCELLED, NULL, "the job was cancelled");
        return false;
    }
    one->state = JOB_QUEUED;
    one->parked = true;
    return true;
}

void job_run_done(task *t)
{
    job *one = (job *)t;
    if (park(one))
        return;
    if (one->status == REMAT_CANCELLED && one->interrupted) {
        /* By the stop of the daemon, not by a client: an acknowledged job stays unfinished in the
         * store. */
        one->state = JOB_QUEUED;
        one->jobs->n_unfinished--;
        HASH_DELETE(by_key, one->jobs->by_key, one);
        DL_APPEND(one->jobs->ended, one);
        one->jobs->n_ended++;
        job_send_away(one);
        return;
    }
    job_end(one, !one->status                      ? JOB_DONE
                 : one->status == REMAT_CANCELLED  ? JOB_CANCELLED
                 : one->status == REMAT_INFEASIBLE ? JOB_INFEASIBLE
                                                   : JOB_FAILED);
}

/* ---- parked ones ---- */

bool job_withdraw(job *one)
{
    bool parked = one->parked;
    one->parked = false;
    return parked || queue_withdraw(one->jobs->service->queue, &one->task);
}

void job_put_back(job *one, double cost)
{
    queue *q = one->jobs->service->queue;
    one->task.cost = cost;
    if (queue_withdraw(q, &one->task))
        queue_submit(q, &one->task);
}

void job_wake(job *one)
{
    if (!one->parked || (one->second && job_of_key(one->jobs, one->question.id)))
        return;
    one->parked = !queue_submit(one->jobs->service->queue, &one->task);
}

void jobs_wake(jobs *j, const char *key)
{
    if (j->stopping)
        return;
    if (key) {
        job *one = NULL;
        HASH_FIND(by_key, j->by_key, key, strlen(key), one);
        if (one)
            job_wake(one);
        return;
    }
    for (job *one = j->by_key, *after; one; one = after) {
        after = one->by_key.next;
        job_wake(one);
    }
}

void jobs_stop(jobs *j, bool now)
{
    j->stopping = true;
    for (job *one = j->by_key, *after; one; one = after) {
        after = one->by_key.next;
        bool waiting = job_withdraw(one);
        if (!waiting && !now)
            continue;
        one->interrupted = !atomic_exchange(&one->cancel, true);
        if (!waiting)
            continue;
        one->elsewhere = false;
        one->status = remat_fail(&one->error, REMAT_CANCELLED, NULL, "the server is stopping");
        job_run_done(&one->task);
    }
}
