#include "job.h"

#include "routes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum { TICK_MILLISECONDS = 10, RETRY_SECONDS = 2 };

/* ---- describing ---- */

static json_t *job_json(job *one)
{
    job_refresh_state(one);
    char created[32];
    bool over = one->state >= DONE;
    remat_time_text(one->created, created);
    double elapsed = over ? one->seconds : (double)(uv_hrtime() - one->begun) / 1e9;
    double progress = one->state == DONE ? 1 : (double)atomic_load(&one->permille) / 1000;
    json_t *json = json_pack(
        "{s:s, s:s, s:f, s:f, s:i, s:s}", "job_id", one->id, "state", job_state_name(one->state),
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

void job_answer_waiters(job *one)
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

void job_answer_acknowledgements(job *one)
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

void job_send_away(job *one)
{
    request *r, *next;
    DL_FOREACH_SAFE(one->waiters, r, next)
    {
        drop_waiter(one, r);
        answer_busy(r, REMAT_PROBLEM_STOPPING, "the server is stopping; ask again");
    }
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
    job_refresh_state(one); /* which is what other processes will say of it */
    if (one->saved_state >= 0)
        acknowledge(one, r);
    else
        job_save(one);
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
    job *one = job_of_key(j, q->schedule_id);
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

void jobs_ask_tradeoff(jobs *j, request *r, known_profile *profile, const char *hash,
                       remat_tradeoff_request *tradeoff, double cost, double wait)
{
    char key[2 * REMAT_ID_SIZE];
    bool refused = refuse_while_stopping(j, r);
    snprintf(key, sizeof key, "tradeoff %s", hash);
    job *one = refused ? NULL : job_of_key(j, key);
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
    if (job_withdraw(one)) {
        remat_fail(&one->error, REMAT_CANCELLED, NULL, "the job was cancelled");
        job_end(one, CANCELLED);
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
