#include "jobs/job.h"

#include "http/reply.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum { TICK_MILLISECONDS = 10, RETRY_SECONDS = 2 };

/* ---- who asks ---- */

static bool is_by(const job_asker *one, const request *r)
{
    return strcmp(one->request_id, r->request_id) == 0 && strcmp(one->client, r->client) == 0;
}

/* One who asks again under the same id, as after a 202, is still one. */
static job_asker *find_asker(const job *one, const request *r)
{
    for (unsigned i = 0; i < one->n_askers; i++)
        if (is_by(&one->askers[i], r))
            return &one->askers[i];
    return NULL;
}

/* What was taken back under an id, or left, is not taken back again. */
static bool has_left(const job *one, const request *r)
{
    for (unsigned i = one->n_askers; i < one->n_known; i++)
        if (is_by(&one->askers[i], r))
            return true;
    return false;
}

/* Room behind those who ask: of one more, or else of one who has left. */
static job_asker *room_behind(job *one)
{
    void *longer = one->n_known < MOST_ASKERS
                       ? realloc(one->askers, (one->n_known + 1) * sizeof *one->askers)
                       : NULL;
    if (!longer)
        return one->n_askers < one->n_known ? &one->askers[one->n_askers] : NULL;
    one->askers = longer;
    one->askers[one->n_known++] = one->askers[one->n_askers];
    return &one->askers[one->n_askers];
}

static job_asker *know(job *one, const request *r)
{
    job_asker *added = room_behind(one);
    if (!added)
        return NULL;
    *added = (job_asker){.told = false};
    memcpy(added->request_id, r->request_id, sizeof added->request_id);
    memcpy(added->client, r->client, sizeof added->client);
    return added;
}

static void count_asker(job *one, const request *r)
{
    if (find_asker(one, r))
        return;
    one->asked++;
    if (know(one, r)) /* else it is counted, and cannot take that back */
        one->n_askers++;
}

static bool asks(const job *one, const char *client)
{
    unsigned i = 0;
    while (i < one->n_askers && strcmp(one->askers[i].client, client) != 0)
        i++;
    return i < one->n_askers;
}

static void forget_asker(job *one, job_asker *gone)
{
    if (!gone)
        return;
    const job_asker left = *gone, last = one->askers[--one->n_askers];
    *gone = last;
    one->askers[one->n_askers] = left;
    one->asked--;
    if (one->n_askers > 0 && !asks(one, one->asked_by)) /* the first of those who still do */
        memcpy(one->asked_by, one->askers[0].client, sizeof one->asked_by);
}

/* Whether the client asked for it and did not take that back. */
static bool is_of(const job *one, const char *client)
{
    return strcmp(one->asked_by, client) == 0 || asks(one, client);
}

/* ---- describing ---- */

/* What was asked, of the question's own members. */
static void describe_question(json_t **json, const char *profile_id, const char *solver,
                              const json_t *budget)
{
    remat_json_set(json, "kind", json_string(budget ? "schedule" : "tradeoff"));
    remat_json_set(json, "profile_id", json_string(profile_id));
    remat_json_set(json, "solver", json_string(solver));
    if (budget)
        remat_json_set(json, "budget", json_incref((json_t *)budget));
}

/* Who asked, and how often. */
static void describe_asking(json_t **json, const char *profile_name, const char *by,
                            json_int_t asked)
{
    if (profile_name)
        remat_json_set(json, "profile_name", json_string(profile_name));
    if (by[0])
        remat_json_set(json, "asked_by", json_string(by));
    if (asked > 0)
        remat_json_set(json, "asked", json_integer(asked));
}

/* What is known of the answer while it is searched, and was when the job ended. */
static void describe_found(json_t **json, const job *one)
{
    const double best = atomic_load(&one->best_makespan), bound = atomic_load(&one->lower_bound);
    if (best > 0)
        remat_json_set(json, "best_makespan", json_real(best));
    if (bound > 0)
        remat_json_set(json, "lower_bound", json_real(best > 0 ? fmin(best, bound) : bound));
}

static json_t *job_json(job *one)
{
    job_refresh_state(one);
    char created[32];
    bool over = one->state >= JOB_DONE;
    remat_time_text(one->created, created);
    double elapsed = over ? one->seconds : (double)(uv_hrtime() - one->begun) / 1e9;
    double progress = one->state == JOB_DONE ? 1 : (double)atomic_load(&one->permille) / 1000;
    json_t *json = json_pack(
        "{s:s, s:s, s:f, s:f, s:i, s:s}", "job_id", one->id, "state", job_state_name(one->state),
        "progress", progress, "elapsed_seconds", elapsed, "queue_position",
        one->state == JOB_QUEUED ? (int)queue_position(one->jobs->service->queue, &one->task) : 0,
        "created", created);
    const remat_question *q = &one->question;
    json_t *budget = q->kind == REMAT_ASK_SCHEDULE ? json_integer((json_int_t)q->budget) : NULL;
    describe_question(&json, q->profile_id, remat_question_solver(q), budget);
    json_decref(budget);
    describe_asking(&json, one->profile_name, one->asked_by, one->asked);
    describe_found(&json, one);
    if (job_schedule_id(one))
        remat_json_set(&json, "schedule_id", json_string(job_schedule_id(one)));
    if (job_has_problem(one))
        remat_json_set(&json, "problem",
                       remat_problem_encode(remat_problem_of(&one->error), &one->error));
    return json;
}

json_t *jobs_describe(jobs *j, const char *job_id)
{
    job *one = NULL;
    HASH_FIND(by_id, j->by_id, job_id, strlen(job_id), one);
    return one ? job_json(one) : NULL;
}

json_t *jobs_describe_all(jobs *j, const char *client, json_t *known)
{
    json_t *list = json_array();
    for (job *one = j->by_id; one; one = one->by_id.next) {
        json_object_set_new(known, one->id, json_true());
        if (!client || is_of(one, client))
            remat_json_append(&list, job_json(one));
    }
    return list;
}

json_t *jobs_describe_record(const remat_job_record *record)
{
    char created[32];
    remat_time_text(record->created, created);
    bool done = strcmp(record->state, "done") == 0;
    json_t *json = json_pack("{s:s, s:s, s:f, s:s}", "job_id", record->id, "state", record->state,
                             "progress", done ? 1.0 : 0.0, "created", created);
    json_t *question = json_loadb(record->question.data, record->question.length, 0, NULL);
    const json_t *own = json_object_get(question, "job");
    const char *id = json_string_value(json_object_get(question, "profile_id"));
    const char *solver = json_string_value(json_object_get(question, "solver"));
    const char *by = json_string_value(json_object_get(own, "asked_by"));
    describe_question(&json, id ? id : "", solver ? solver : "auto",
                      json_object_get(question, "budget"));
    describe_asking(&json, json_string_value(json_object_get(own, "profile_name")), by ? by : "",
                    json_integer_value(json_object_get(own, "asked")));
    json_decref(question);
    if (record->schedule_id)
        remat_json_set(&json, "schedule_id", json_string(record->schedule_id));
    if (record->problem.length > 0)
        remat_json_set(&json, "problem",
                       json_loadb(record->problem.data, record->problem.length, 0, NULL));
    return json;
}

unsigned jobs_unfinished(const jobs *j)
{
    return j->n_unfinished;
}

/* ---- answering ---- */

void jobs_answer(asker *a)
{
    if (a->finish)
        a->finish(a->request, a->data);
    else
        http_answer(a->request);
    remat_question_clear(&a->question);
    free(a->profile_name);
    free(a);
}

static void send_away(asker *a)
{
    reply_refuse(a->request, REMAT_PROBLEM_STOPPING, "", "the server is stopping; ask again");
    jobs_answer(a);
}

static void drop_waiter(job *one, asker *a)
{
    DL_DELETE(one->waiters, a);
    one->jobs->n_waiting--;
    a->request->leave = NULL;
}

void job_answer_waiters(job *one)
{
    asker *a, *next;
    DL_FOREACH_SAFE(one->waiters, a, next)
    {
        drop_waiter(one, a);
        if (one->state == JOB_DONE)
            reply_answer(a->request, one->question.kind, one->outcome.id, body_retain(one->body),
                         one->outcome.cache);
        else
            reply_error(a->request, &one->error);
        jobs_answer(a);
    }
}

static void acknowledge(job *one, asker *a)
{
    request *r = a->request;
    job_asker *own = find_asker(one, r);
    if (own)
        own->told = true;
    drop_waiter(one, a);
    reply_body(r, 202, body_from_json(job_json(one), false));
    snprintf(r->reply.location, sizeof r->reply.location, "/v1/jobs/%s", one->id);
    r->reply.retry_after = 1;
    jobs_answer(a);
}

void job_answer_acknowledgements(job *one)
{
    asker *a, *next;
    DL_FOREACH_SAFE(one->waiters, a, next)
    {
        if (!a->awaits_acknowledgement)
            continue;
        if (!one->save_status) {
            acknowledge(one, a);
            continue;
        }
        drop_waiter(one, a);
        reply_error(a->request, &one->save_error);
        jobs_answer(a);
    }
}

void job_send_away(job *one)
{
    asker *a, *next;
    DL_FOREACH_SAFE(one->waiters, a, next)
    {
        drop_waiter(one, a);
        send_away(a);
    }
}

/* ---- waiting ---- */

static void expire(job *one, asker *a)
{
    a->awaits_acknowledgement = true;
    one->acknowledged = true;
    job_refresh_state(one); /* which is what other processes will say of it */
    if (one->saved_state >= 0)
        acknowledge(one, a);
    else
        job_save(one);
}

static void on_tick(uv_timer_t *timer)
{
    jobs *j = timer->data;
    uint64_t now = uv_hrtime();
    for (job *one = j->by_key, *after; one; one = after) {
        after = one->by_key.next;
        asker *a, *next;
        DL_FOREACH_SAFE(one->waiters, a, next)
        {
            if (now >= a->deadline && !a->awaits_acknowledgement)
                expire(one, a);
        }
    }
    if (j->n_waiting == 0)
        uv_timer_stop(timer);
}

/* The one who asked has hung up, and was told nothing. A job that nobody asks for any longer goes
 * on behind all others: who asks again may find its answer. */
static void leave(request *r)
{
    asker *a = r->context;
    job *one = a->job;
    drop_waiter(one, a);
    forget_asker(one, find_asker(one, r));
    if (one->asked == 0 && !one->acknowledged)
        job_put_back(one, INFINITY);
    jobs_answer(a);
}

static void add_waiter(job *one, asker *a)
{
    jobs *j = one->jobs;
    count_asker(one, a->request);
    a->deadline = uv_hrtime() + (uint64_t)(a->wait * 1e9);
    a->job = one;
    a->request->leave = leave;
    a->request->context = a;
    DL_APPEND(one->waiters, a);
    j->n_waiting++;
    if (a->wait <= 0)
        expire(one, a);
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

/* A job of its own for an asker, counted among the unfinished solves of the client. NULL: the
 * request has its reply. */
static job *job_for(jobs *j, asker *a)
{
    request *r = a->request;
    limits *counts = j->service->limits;
    if (!limits_start_job(counts, r->client, r->most_jobs)) {
        reply_refuse(r, REMAT_PROBLEM_RATE_LIMITED, "",
                     "the client has %u unfinished solves, as many as it may", r->most_jobs);
        r->reply.retry_after = RETRY_SECONDS;
        return NULL;
    }
    job *one = job_new(j, NULL, a->question.id, a->cost);
    if (!one) {
        limits_end_job(counts, r->client);
        reply_refuse(r, REMAT_PROBLEM_BUSY, "", "the server has no memory left; ask again");
        return NULL;
    }
    memcpy(one->owner, r->client, CLIENT_SIZE);
    memcpy(one->asked_by, r->client, CLIENT_SIZE);
    memcpy(one->traceparent, r->traceparent, sizeof one->traceparent);
    one->profile_name = a->profile_name;
    a->profile_name = NULL;
    one->question = a->question;
    a->question = (remat_question){.text = NULL};
    if (job_start(one))
        return one;
    reply_refuse(r, REMAT_PROBLEM_BUSY, "", "too many solves are waiting; ask again");
    return NULL;
}

/* Asks for a job under way, which nobody may have asked for any longer. */
static void join(job *one, const asker *a)
{
    atomic_fetch_add(&one->jobs->service->metrics.coalesced, 1);
    if (one->asked == 0)
        job_put_back(one, a->cost);
}

/* An ended job that found that nothing fits, and would again. NULL: none is remembered. */
static const job *refused(jobs *j, const char *key)
{
    job *one;
    DL_FOREACH(j->ended, one)
    {
        if (one->state == JOB_INFEASIBLE && strcmp(one->key, key) == 0)
            return one;
    }
    return NULL;
}

void jobs_ask(jobs *j, asker *a)
{
    const remat_question *q = &a->question;
    if (!a->request->peer) { /* it has hung up meanwhile */
        jobs_answer(a);
        return;
    }
    if (j->stopping) {
        send_away(a);
        return;
    }
    /* The question may have been answered between the look into the store and now. */
    body *b = engine_recall(j->service->engine, q->id);
    job *one = b ? NULL : job_of_key(j, q->id);
    const job *no = b || one ? NULL : refused(j, q->id);
    if (b)
        reply_answer(a->request, q->kind, q->id, b, CACHE_HIT);
    else if (no)
        reply_error(a->request, &no->error);
    else if (one)
        join(one, a);
    else
        one = job_for(j, a);
    if (one)
        add_waiter(one, a);
    else
        jobs_answer(a);
}

/* ---- taking back ---- */

static job *find(jobs *j, const char *job_id)
{
    job *one = NULL;
    HASH_FIND(by_id, j->by_id, job_id, strlen(job_id), one);
    return one;
}

static void cancel(job *one)
{
    if (one->state >= JOB_DONE)
        return;
    atomic_store(&one->cancel, true);
    if (job_withdraw(one)) {
        remat_fail(&one->error, REMAT_CANCELLED, NULL, "the job was cancelled");
        job_end(one, JOB_CANCELLED);
    }
}

/* Those of the client that wait are told; alone: the one of that id. */
static void send_back(job *one, const request *r, bool alone)
{
    remat_error error;
    asker *a, *next;
    remat_fail(&error, REMAT_CANCELLED, NULL, "the job was taken back");
    DL_FOREACH_SAFE(one->waiters, a, next)
    {
        const bool same = strcmp(a->request->request_id, r->request_id) == 0;
        if (strcmp(a->request->client, r->client) != 0 || (alone && !same))
            continue;
        drop_waiter(one, a);
        reply_error(a->request, &error);
        jobs_answer(a);
    }
}

/* What a client asked for it does not ask for any longer. */
static void take_back(job *one, const request *r)
{
    const char *client = r->client;
    unsigned before = one->n_askers;
    for (unsigned i = one->n_askers; i-- > 0;)
        if (strcmp(one->askers[i].client, client) == 0)
            forget_asker(one, &one->askers[i]);
    if (before == one->n_askers && one->asked > 0 && --one->asked > 0) /* of before a restart */
        one->asked_by[0] = '\0';
    know(one, r); /* who took it back */
    send_back(one, r, false);
}

jobs_taken jobs_cancel_by(jobs *j, const char *job_id, const request *r)
{
    job *one = find(j, job_id);
    if (!one)
        return JOBS_UNKNOWN;
    job_asker *own = find_asker(one, r);
    bool again = !own && has_left(one, r);
    if (one->state >= JOB_DONE)
        return JOBS_TAKEN;
    if (!r->admin && !again && !is_of(one, r->client))
        return JOBS_OTHERS;
    if (own)
        forget_asker(one, own);
    else if (!r->admin && !again)
        take_back(one, r);
    if (own && one->asked > 0) /* the last is told when it has ended */
        send_back(one, r, true);
    if (one->asked == 0 || (!own && !again && r->admin))
        cancel(one);
    return JOBS_TAKEN;
}

void jobs_cancel(jobs *j, const char *job_id)
{
    job *one = find(j, job_id);
    if (one)
        cancel(one);
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
