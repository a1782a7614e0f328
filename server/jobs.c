#include "jobs.h"

#include "routes.h"
#include "service.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define HASH_NONFATAL_OOM 1
#define uthash_nonfatal_oom(element) ((element)->unhashed = 1)
#include <uthash.h>

enum { JOB_ID_SIZE = 33, ENDED_KEPT = 1000, TICK_MILLISECONDS = 10, RETRY_SECONDS = 2 };

typedef enum job_state { QUEUED, RUNNING, DONE, FAILED, CANCELLED } job_state;
static const char *const state_names[] = {"queued", "running", "done", "failed", "cancelled"};

typedef struct job {
    task task; /* the solve; first member */
    jobs *jobs;
    UT_hash_handle by_id, by_key;
    int unhashed;
    struct job *prev, *next; /* ended ones, oldest first */
    char id[JOB_ID_SIZE];
    char key[2 * REMAT_ID_SIZE]; /* of the question: schedule id, or "tradeoff " and hash */
    char owner[CLIENT_SIZE];     /* whose limit of unfinished solves it counts in; "": nobody's */
    question question;           /* of a schedule; text NULL for a trade-off */
    known_profile *profile;      /* of a trade-off */
    remat_tradeoff_request *tradeoff;
    job_state state;
    request *waiters;
    atomic_bool cancel;
    bool interrupted; /* cancelled by the stop of the daemon */
    bool elsewhere;   /* result: another process has the question */
    bool found;       /* result: the answer was there */
    bool parked;      /* neither queued nor running: woken from time to time */
    bool second;      /* of a question that this process had another job of */
    atomic_uint permille;
    uint64_t begun; /* uv_hrtime of the asking */
    int64_t created, ended;
    double seconds; /* elapsed at the end */
    solve solve;
    body *body;
    remat_error error;
    remat_status status;
    /* Durability. */
    task save; /* writes the job's record */
    bool acknowledged, saving;
    int saved_state; /* last one in the store, -1: none */
    job_state saving_state;
    remat_job_record record; /* being written */
    remat_error save_error;
    remat_status save_status;
} job;

struct jobs {
    service *service;
    job *by_id, *by_key; /* by_key: unfinished ones only */
    job *ended;
    unsigned n_ended, n_unfinished;
    uv_timer_t timer;
    unsigned n_waiting; /* requests */
    bool stopping;
};

static void save_job(job *one);

/* ---- describing ---- */

static int64_t now_milliseconds(void)
{
    uv_timeval64_t now;
    uv_gettimeofday(&now);
    return now.tv_sec * 1000 + now.tv_usec / 1000;
}

/* A running job is seen as such by everyone who looks; the pool starts it without telling. */
static void refresh_state(job *one)
{
    if (one->state == QUEUED && one->task.running)
        one->state = RUNNING;
}

static json_t *job_json(job *one)
{
    refresh_state(one);
    char created[32];
    bool over = one->state >= DONE;
    remat_time_text(one->created, created);
    double elapsed = over ? one->seconds : (double)(uv_hrtime() - one->begun) / 1e9;
    double progress = one->state == DONE ? 1 : (double)atomic_load(&one->permille) / 1000;
    json_t *json = json_pack(
        "{s:s, s:s, s:f, s:f, s:i, s:s}", "job_id", one->id, "state", state_names[one->state],
        "progress", progress, "elapsed_seconds", elapsed, "queue_position",
        one->state == QUEUED ? (int)queue_position(one->jobs->service->queue, &one->task) : 0,
        "created", created);
    if (json && one->state == DONE && one->question.text)
        json_object_set_new(json, "schedule_id", json_string(one->question.schedule_id));
    if (json && (one->state == FAILED || one->state == CANCELLED))
        json_object_set_new(json, "problem",
                            remat_problem_encode(remat_problem_of(&one->error), &one->error));
    return json;
}

json_t *jobs_describe(jobs *j, const char *job_id)
{
    job *one = NULL;
    HASH_FIND(by_id, j->by_id, job_id, strlen(job_id), one);
    return one ? job_json(one) : NULL;
}

json_t *jobs_describe_all(jobs *j)
{
    json_t *list = json_array();
    for (job *one = j->by_id; one; one = one->by_id.next)
        json_array_append_new(list, job_json(one));
    return json_pack("{s:o}", "jobs", list);
}

json_t *jobs_describe_record(const remat_job_record *record)
{
    char created[32];
    remat_time_text(record->created, created);
    bool done = strcmp(record->state, "done") == 0;
    json_t *json = json_pack("{s:s, s:s, s:f, s:s}", "job_id", record->id, "state", record->state,
                             "progress", done ? 1.0 : 0.0, "created", created);
    if (json && record->schedule_id)
        json_object_set_new(json, "schedule_id", json_string(record->schedule_id));
    if (json && record->problem.length > 0)
        json_object_set_new(json, "problem",
                            json_loadb(record->problem.data, record->problem.length, 0, NULL));
    return json;
}

unsigned jobs_unfinished(const jobs *j)
{
    return j->n_unfinished;
}

/* ---- answering ---- */

static void fill_reply(request *r, const job *one)
{
    metrics *counters = &r->service->metrics;
    if (one->state == DONE && one->question.text) {
        static const char *const names[] = {"hit", "table", "miss"};
        cache_result result = one->found             ? CACHE_HIT
                              : one->solve.tabulated ? CACHE_MISS
                                                     : CACHE_TABLE;
        atomic_fetch_add(&counters->schedules[result], 1);
        reply_schedule(r, body_retain(one->body), one->question.schedule_id, names[result]);
    } else if (one->state == DONE) {
        reply_body(r, 200, body_retain(one->body));
    } else {
        reply_error(r, &one->error);
    }
}

static void drop_waiter(job *one, request *r)
{
    DL_DELETE(one->waiters, r);
    one->jobs->n_waiting--;
    r->job = NULL;
}

static void answer_waiters(job *one)
{
    request *r, *next;
    DL_FOREACH_SAFE(one->waiters, r, next)
    {
        drop_waiter(one, r);
        fill_reply(r, one);
        http_answer(r);
    }
}

static void answer_busy(request *r, remat_problem_type type, const char *message)
{
    remat_error error;
    remat_fail(&error, REMAT_OK, NULL, "%s", message);
    reply_problem(r, type, &error);
    r->reply.retry_after = RETRY_SECONDS;
    http_answer(r);
}

static void acknowledge(job *one, request *r)
{
    drop_waiter(one, r);
    reply_body(r, 202, body_from_json(job_json(one), false));
    snprintf(r->reply.location, sizeof r->reply.location, "/v1/jobs/%s", one->id);
    r->reply.retry_after = 1;
    http_answer(r);
}

/* Those who were promised an acknowledgement get it once the job is in the store. */
static void answer_acknowledgements(job *one)
{
    request *r, *next;
    DL_FOREACH_SAFE(one->waiters, r, next)
    {
        if (!r->awaits_acknowledgement)
            continue;
        if (!one->save_status) {
            acknowledge(one, r);
            continue;
        }
        drop_waiter(one, r);
        reply_error(r, &one->save_error);
        http_answer(r);
    }
}

/* ---- memory ---- */

static void disown(job *one)
{
    if (one->owner[0])
        limits_end_job(one->jobs->service->limits, one->owner);
    one->owner[0] = '\0';
}

static void job_free(job *one)
{
    disown(one);
    question_clear(&one->question);
    engine_profile_release(one->profile);
    free(one->tradeoff);
    body_release(one->body);
    free(one);
}

static bool is_unsaved(const job *one)
{
    return one->acknowledged && one->saved_state != (int)one->state;
}

static void forget_oldest(jobs *j)
{
    job *one, *next;
    DL_FOREACH_SAFE(j->ended, one, next)
    {
        if (j->n_ended <= ENDED_KEPT)
            return;
        if (one->saving || is_unsaved(one))
            continue;
        DL_DELETE(j->ended, one);
        j->n_ended--;
        HASH_DELETE(by_id, j->by_id, one);
        job_free(one);
    }
}

/* ---- durability ---- */

static void save_work(task *t)
{
    job *one = (job *)((char *)t - offsetof(job, save));
    one->save_status =
        remat_store_put_job(one->jobs->service->store, &one->record, &one->save_error);
}

static void save_done(task *t)
{
    job *one = (job *)((char *)t - offsetof(job, save));
    free(one->record.problem.data);
    one->record = (remat_job_record){0};
    one->saving = false;
    if (one->save_status)
        log_line(LOG_ERROR, "a job could not be stored",
                 json_pack("{s:s, s:s}", "job_id", one->id, "why", one->save_error.message));
    else
        one->saved_state = (int)one->saving_state;
    answer_acknowledgements(one);
    if (!one->save_status)
        save_job(one);
}

/* Brings the job's record up to date, if anybody was told of it. */
static void save_job(job *one)
{
    if (one->saving || !is_unsaved(one))
        return;
    char *problem = NULL;
    if (one->state == FAILED || one->state == CANCELLED) {
        json_t *json = remat_problem_encode(remat_problem_of(&one->error), &one->error);
        problem = json ? remat_json_text(json) : NULL;
        json_decref(json);
    }
    one->record =
        (remat_job_record){.id = one->id,
                           .state = (char *)state_names[one->state],
                           .profile_id = one->question.asked.profile_id,
                           .question = {one->question.text, strlen(one->question.text)},
                           .schedule_id = one->state == DONE ? one->question.schedule_id : NULL,
                           .problem = {problem, problem ? strlen(problem) : 0},
                           .created = one->created,
                           .ended = one->ended};
    one->saving = true;
    one->saving_state = one->state;
    one->save = (task){.work = save_work, .done = save_done, .lane = LANE_LIGHT};
    queue_submit(one->jobs->service->queue, &one->save);
}

/* ---- running ---- */

/* Several tables may be made for one job, side by side or one after the other: it never goes back. */
static void on_progress(void *data, double fraction)
{
    job *one = data;
    unsigned now = (unsigned)(fraction * 1000), before = atomic_load(&one->permille);
    while (now > before && !atomic_compare_exchange_weak(&one->permille, &before, now))
        ;
}

static bool on_cancelled(void *data)
{
    return atomic_load(&((job *)data)->cancel);
}

static void solve_job(job *one)
{
    service *s = one->jobs->service;
    one->solve.deadline = uv_hrtime() + s->config.solve_seconds * UINT64_C(1000000000);
    atomic_fetch_add(&s->metrics.solves, 1);
    if (one->tradeoff)
        one->status = engine_tradeoff(s->engine, one->profile, one->tradeoff, &one->solve,
                                      &one->body, &one->error);
    else
        one->status = engine_solve(s->engine, &one->question, &one->solve, &one->body, &one->error);
}

/* The answer may have come while the job waited. True: it has, or looking for it failed. */
static bool find_answer(job *one)
{
    if (one->tradeoff)
        return false;
    one->status = engine_schedule(one->jobs->service->engine, one->question.schedule_id, &one->body,
                                  NULL, &one->error);
    one->found = one->status == REMAT_OK;
    return one->status != REMAT_NOT_FOUND;
}

/* Of processes on one store one solves a question; the others find its answer. */
static void run_shared(job *one)
{
    service *s = one->jobs->service;
    const char *name = one->tradeoff ? one->key : one->question.schedule_id;
    bool taken;
    one->status = remat_store_take_lease(s->store, name, &taken, &one->error);
    one->elsewhere = !one->status && !taken;
    if (one->status || one->elsewhere)
        return;
    if (!find_answer(one))
        solve_job(one);
    fleet_release(s->fleet, name);
}

static void run_work(task *t)
{
    job *one = (job *)t;
    one->elsewhere = false;
    if (atomic_load(&one->cancel))
        one->status = remat_fail(&one->error, REMAT_CANCELLED, NULL, "the job was cancelled");
    else if (remat_store_is_shared(one->jobs->service->store))
        run_shared(one);
    else if (!one->second || !find_answer(one))
        solve_job(one);
}

static void end_job(job *one, job_state state)
{
    jobs *j = one->jobs;
    metrics *counters = &j->service->metrics;
    one->state = state;
    one->ended = now_milliseconds();
    one->seconds = (double)(uv_hrtime() - one->begun) / 1e9;
    HASH_DELETE(by_key, j->by_key, one);
    j->n_unfinished--;
    disown(one);
    DL_APPEND(j->ended, one);
    j->n_ended++;
    if (state == FAILED)
        atomic_fetch_add(&counters->jobs_failed, 1);
    if (state == CANCELLED)
        atomic_fetch_add(&counters->jobs_cancelled, 1);
    log_line(state == FAILED ? LOG_WARNING : LOG_INFO, "job",
             json_pack("{s:s, s:s, s:f, s:s}", "job_id", one->id, "state", state_names[state],
                       "seconds", one->seconds, "detail", state == DONE ? "" : one->error.message));
    answer_waiters(one);
    save_job(one);
    /* The answer is in the engine's cache and in the store; the job need not hold it. */
    body_release(one->body);
    one->body = NULL;
    forget_oldest(j);
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
    one->state = QUEUED;
    one->parked = true;
    return true;
}

static void run_done(task *t)
{
    job *one = (job *)t;
    if (park(one))
        return;
    if (one->status == REMAT_CANCELLED && one->interrupted) {
        /* By the stop of the daemon, not by a client: an acknowledged job stays unfinished in the
         * store. */
        one->state = QUEUED;
        one->jobs->n_unfinished--;
        HASH_DELETE(by_key, one->jobs->by_key, one);
        DL_APPEND(one->jobs->ended, one);
        request *r, *next;
        DL_FOREACH_SAFE(one->waiters, r, next)
        {
            drop_waiter(one, r);
            answer_busy(r, REMAT_PROBLEM_STOPPING, "the server is stopping; ask again");
        }
        return;
    }
    end_job(one, !one->status ? DONE : one->status == REMAT_CANCELLED ? CANCELLED : FAILED);
}

/* ---- waiting ---- */

static void expire(job *one, request *r)
{
    if (one->tradeoff) {
        drop_waiter(one, r);
        answer_busy(r, REMAT_PROBLEM_BUSY,
                    "the table of this curve is still being made; ask again");
        return;
    }
    r->awaits_acknowledgement = true;
    one->acknowledged = true;
    refresh_state(one); /* which is what other processes will say of it */
    if (one->saved_state >= 0)
        acknowledge(one, r);
    else
        save_job(one);
}

static void on_tick(uv_timer_t *timer)
{
    jobs *j = timer->data;
    uint64_t now = uv_hrtime();
    for (job *one = j->by_key, *after; one; one = after) {
        after = one->by_key.next;
        request *r, *next;
        DL_FOREACH_SAFE(one->waiters, r, next)
        {
            if (now >= r->deadline && !r->awaits_acknowledgement)
                expire(one, r);
        }
    }
    if (j->n_waiting == 0)
        uv_timer_stop(timer);
}

static void add_waiter(job *one, request *r, double wait)
{
    jobs *j = one->jobs;
    r->job = one;
    r->deadline = uv_hrtime() + (uint64_t)(wait * 1e9);
    DL_APPEND(one->waiters, r);
    j->n_waiting++;
    if (wait <= 0)
        expire(one, r);
    if (!uv_is_active((uv_handle_t *)&j->timer))
        uv_timer_start(&j->timer, on_tick, TICK_MILLISECONDS, TICK_MILLISECONDS);
}

/* ---- asking ---- */

static void make_id(char id[JOB_ID_SIZE])
{
    uint64_t words[2] = {uv_hrtime(), 0};
    uv_random(NULL, NULL, words, sizeof words, 0, NULL);
    snprintf(id, JOB_ID_SIZE, "%016llx%016llx", (unsigned long long)words[0],
             (unsigned long long)words[1]);
}

/* A job to be filled in and started; NULL: out of memory. id NULL: a new one. */
static job *job_new(jobs *j, const char *id, const char *key, double cost)
{
    job *one = calloc(1, sizeof *one);
    if (!one)
        return NULL;
    one->jobs = j;
    one->begun = uv_hrtime();
    one->created = now_milliseconds();
    one->saved_state = -1;
    one->solve.host.data = one;
    one->solve.host.progress = on_progress;
    one->solve.host.cancelled = on_cancelled;
    one->task = (task){.work = run_work, .done = run_done, .lane = LANE_HEAVY, .cost = cost};
    if (id)
        snprintf(one->id, sizeof one->id, "%s", id);
    else
        make_id(one->id);
    snprintf(one->key, sizeof one->key, "%s", key);
    return one;
}

/* False: out of memory, and nobody knows it. */
static bool job_know(job *one)
{
    jobs *j = one->jobs;
    HASH_ADD(by_id, j->by_id, id, strlen(one->id), one);
    if (one->unhashed)
        return false;
    HASH_ADD(by_key, j->by_key, key, strlen(one->key), one);
    if (!one->unhashed)
        return true;
    HASH_DELETE(by_id, j->by_id, one);
    return false;
}

/* Makes the job known and queues it; frees it when it cannot. */
static bool job_start(job *one)
{
    jobs *j = one->jobs;
    if (job_know(one)) {
        if (queue_submit(j->service->queue, &one->task)) {
            j->n_unfinished++;
            return true;
        }
        HASH_DELETE(by_key, j->by_key, one);
        HASH_DELETE(by_id, j->by_id, one);
    }
    job_free(one);
    return false;
}

static job *find_key(jobs *j, const char *key)
{
    job *one = NULL;
    HASH_FIND(by_key, j->by_key, key, strlen(key), one);
    /* A cancelled job that is still running answers nobody new. */
    return one && !atomic_load(&one->cancel) ? one : NULL;
}

static bool refuse_while_stopping(const jobs *j, request *r)
{
    if (j->stopping)
        answer_busy(r, REMAT_PROBLEM_STOPPING, "the server is stopping; ask again");
    return j->stopping;
}

/* A job of its own for r, counted among the unfinished solves of its client. NULL: r is answered. */
static job *job_for(jobs *j, request *r, const char *key, double cost)
{
    remat_error error;
    if (!limits_start_job(j->service->limits, r->client, r->most_jobs)) {
        remat_fail(&error, REMAT_TOO_LARGE, NULL,
                   "the client has %u unfinished solves, as many as it may", r->most_jobs);
        reply_problem(r, REMAT_PROBLEM_RATE_LIMITED, &error);
        r->reply.retry_after = RETRY_SECONDS;
        http_answer(r);
        return NULL;
    }
    job *one = job_new(j, NULL, key, cost);
    if (one) {
        memcpy(one->owner, r->client, CLIENT_SIZE);
        return one;
    }
    limits_end_job(j->service->limits, r->client);
    answer_busy(r, REMAT_PROBLEM_BUSY, "the server has no memory left; ask again");
    return NULL;
}

static void answer_full(request *r)
{
    answer_busy(r, REMAT_PROBLEM_BUSY, "too many solves are waiting; ask again");
}

void jobs_ask(jobs *j, request *r, question *q, double cost, double wait)
{
    if (refuse_while_stopping(j, r)) {
        question_clear(q);
        return;
    }
    /* The question may have been answered between the look into the store and now. */
    body *b = engine_recall_schedule(j->service->engine, q->schedule_id);
    if (b) {
        atomic_fetch_add(&j->service->metrics.schedules[CACHE_HIT], 1);
        reply_schedule(r, b, q->schedule_id, "hit");
        question_clear(q);
        http_answer(r);
        return;
    }
    job *one = find_key(j, q->schedule_id);
    if (one) {
        atomic_fetch_add(&j->service->metrics.coalesced, 1);
        question_clear(q);
    } else if ((one = job_for(j, r, q->schedule_id, cost)) != NULL) {
        one->question = *q;
        if (!job_start(one)) {
            answer_full(r);
            return;
        }
    } else {
        question_clear(q);
        return;
    }
    add_waiter(one, r, wait);
}

void jobs_ask_tradeoff(jobs *j, request *r, known_profile *profile,
                       remat_tradeoff_request *tradeoff, double cost, double wait)
{
    char key[2 * REMAT_ID_SIZE], hash[REMAT_ID_SIZE];
    bool refused = refuse_while_stopping(j, r);
    remat_sha256_hex(r->content, r->length, hash);
    snprintf(key, sizeof key, "tradeoff %s", hash);
    job *one = refused ? NULL : find_key(j, key);
    if (one)
        atomic_fetch_add(&j->service->metrics.coalesced, 1);
    job *own = one || refused ? NULL : job_for(j, r, key, cost);
    if (!own) {
        engine_profile_release(profile);
        free(tradeoff);
    } else {
        own->profile = profile;
        own->tradeoff = tradeoff;
        one = job_start(own) ? own : NULL;
        if (!one)
            answer_full(r);
    }
    if (one)
        add_waiter(one, r, wait);
}

/* ---- parked ones ---- */

/* Takes the job back from where it waits; false when it runs. */
static bool withdraw(job *one)
{
    bool parked = one->parked;
    one->parked = false;
    return parked || queue_withdraw(one->jobs->service->queue, &one->task);
}

static void wake(job *one)
{
    if (!one->parked || (one->second && find_key(one->jobs, one->question.schedule_id)))
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
            wake(one);
        return;
    }
    for (job *one = j->by_key, *after; one; one = after) {
        after = one->by_key.next;
        wake(one);
    }
}

void jobs_save_again(jobs *j)
{
    for (job *one = j->by_id, *after; one; one = after) {
        after = one->by_id.next;
        if (one->state >= DONE)
            save_job(one);
    }
}

/* ---- the rest ---- */

bool jobs_cancel(jobs *j, const char *job_id)
{
    job *one = NULL;
    HASH_FIND(by_id, j->by_id, job_id, strlen(job_id), one);
    if (!one)
        return false;
    if (one->state >= DONE)
        return true;
    atomic_store(&one->cancel, true);
    if (withdraw(one)) {
        remat_fail(&one->error, REMAT_CANCELLED, NULL, "the job was cancelled");
        end_job(one, CANCELLED);
    }
    return true;
}

jobs *jobs_new(service *s)
{
    jobs *j = calloc(1, sizeof *j);
    if (!j)
        return NULL;
    j->service = s;
    uv_timer_init(s->loop, &j->timer);
    j->timer.data = j;
    return j;
}

/* A stored job that this process now has. It waits for its turn among the parked, whatever the queue
 * holds. */
static remat_status adopt(jobs *j, const remat_job_record *record, remat_error *error)
{
    question q;
    job *one = NULL;
    HASH_FIND(by_id, j->by_id, record->id, strlen(record->id), one);
    if (one)
        return REMAT_OK;
    remat_status status = question_read(&q, record->question.data, record->question.length, error);
    if (status)
        return status;
    bool second = find_key(j, q.schedule_id) != NULL;
    one = job_new(j, record->id, second ? record->id : q.schedule_id, INFINITY);
    if (!one) {
        question_clear(&q);
        return remat_fail_memory(error);
    }
    one->question = q;
    one->second = second;
    one->created = record->created;
    one->acknowledged = true;
    one->saved_state = QUEUED;
    one->parked = true;
    if (!job_know(one)) {
        job_free(one);
        return remat_fail_memory(error);
    }
    j->n_unfinished++;
    wake(one);
    return REMAT_OK;
}

void jobs_adopt(jobs *j, const remat_job_record *record)
{
    remat_error error;
    if (adopt(j, record, &error))
        log_line(LOG_WARNING, "a stored job cannot be read and is left",
                 json_pack("{s:s, s:s}", "job_id", record->id, "why", error.message));
}

remat_status jobs_resume(jobs *j, remat_error *error)
{
    enum { AT_ONCE = 1000 };
    size_t claimed;
    do {
        remat_job_list list = {0};
        remat_status status = remat_store_claim_jobs(j->service->store, AT_ONCE, &list, error);
        if (status)
            return status;
        for (size_t i = 0; i < list.length; i++)
            jobs_adopt(j, &list.items[i]);
        claimed = list.length;
        remat_job_list_clear(&list);
    } while (claimed == AT_ONCE);
    return REMAT_OK;
}

void jobs_stop(jobs *j, bool now)
{
    j->stopping = true;
    for (job *one = j->by_key, *after; one; one = after) {
        after = one->by_key.next;
        bool waiting = withdraw(one);
        if (!waiting && !now)
            continue;
        one->interrupted = !atomic_exchange(&one->cancel, true);
        if (!waiting)
            continue;
        one->elsewhere = false;
        one->status = remat_fail(&one->error, REMAT_CANCELLED, NULL, "the server is stopping");
        run_done(&one->task);
    }
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void jobs_free(jobs *j)
{
    if (!j)
        return;
    for (job *one = j->by_id, *after; one; one = after) {
        after = one->by_id.next;
        HASH_DELETE(by_id, j->by_id, one);
        job_free(one);
    }
    uv_close((uv_handle_t *)&j->timer, on_closed);
}
