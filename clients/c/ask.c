/* Questions about a profile: by id first, the document only if it is not known there, and a 202
 * followed to its end. */
#include "client.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SERVER_WAIT 20.0        /* seconds the server may hold a request that nobody watches */
#define WATCHED_SERVER_WAIT 0.5 /* the same where somebody wants to see progress */
#define FIRST_POLL 0.1
#define LONGEST_POLL 1.0
#define MAX_ROUNDS                                                                                 \
    5 /* jobs that one question may take: a table can be forgotten before it is read */

typedef struct question {
    remat_client *client;
    const char *path;
    json_t *body; /* owned */
    bool waits;   /* the call knows `wait` */
    const remat_client_wait *wait;
    double deadline; /* on client_clock */
} question;

static remat_status profile_id(const json_t *profile, char ret_id[REMAT_ID_SIZE],
                               remat_error *error)
{
    remat_profile *checked;
    remat_status status = remat_profile_decode(profile, "", &checked, error);
    if (status)
        return status;
    remat_profile_id(checked, ret_id);
    remat_profile_free(checked);
    return REMAT_OK;
}

/* The request as it is sent: the question with profile_id in it. */
static remat_status make_body(const json_t *asked, const json_t *profile, json_t **ret_body,
                              remat_error *error)
{
    char id[REMAT_ID_SIZE];
    remat_status status = profile ? profile_id(profile, id, error) : REMAT_OK;
    if (status)
        return status;
    json_t *body = json_copy((json_t *)asked);
    if (profile)
        remat_json_set(&body, "profile_id", json_string(id));
    *ret_body = body;
    return body ? REMAT_OK : remat_fail_memory(error);
}

static double seconds_left(const question *q)
{
    return fmax(0, q->deadline - client_clock());
}

/* most: seconds the server may hold the request. */
static remat_status post(question *q, double most, remat_client_answer *ret_answer,
                         remat_error *error)
{
    double wait = q->waits ? fmin(seconds_left(q), most) : 0;
    if (q->waits && json_object_set_new(q->body, "wait", json_real(wait)))
        return remat_fail_memory(error);
    char *text = remat_json_text(q->body);
    if (!text)
        return remat_fail_memory(error);
    client_request request = {
        .method = "POST", .path = q->path, .body = text, .length = strlen(text), .wait = wait};
    remat_status status = client_call(q->client, &request, ret_answer, error);
    free(text);
    return status;
}

/* The first request: by id, and again after the profile was sent if the server did not know it. */
static remat_status post_first(question *q, const json_t *profile, remat_client_answer *ret_answer,
                               remat_error *error)
{
    double most = q->wait && q->wait->progress ? WATCHED_SERVER_WAIT : SERVER_WAIT;
    remat_status status = post(q, most, ret_answer, error);
    if (status != REMAT_NOT_FOUND || !profile)
        return status;
    remat_client_answer pushed;
    status = remat_client_request(q->client, "POST", "/v1/profiles", profile, &pushed, error);
    if (status)
        return status;
    remat_client_answer_clear(&pushed);
    return post(q, most, ret_answer, error);
}

/* ---- jobs ---- */

static void report(const question *q, const char *job_id, const char *state, const json_t *job)
{
    if (!q->wait || !q->wait->progress)
        return;
    const json_t *position = json_object_get(job, "queue_position");
    remat_client_progress progress = {
        .job_id = job_id,
        .state = state,
        .fraction = json_number_value(json_object_get(job, "progress")),
        .elapsed = json_number_value(json_object_get(job, "elapsed_seconds")),
        .queue_position = json_is_integer(position) ? (long)json_integer_value(position) : -1,
        .makespan = json_number_value(json_object_get(job, "best_makespan")),
        .bound = json_number_value(json_object_get(job, "lower_bound"))};
    q->wait->progress(q->wait->data, &progress);
}

/* The answer of a job that is over. */
static remat_status conclude(question *q, const char *state, const json_t *job,
                             remat_client_answer *ret_answer, remat_error *error)
{
    const json_t *problem = json_object_get(job, "problem");
    const char *schedule_id = json_string_value(json_object_get(job, "schedule_id"));
    if (json_is_object(problem))
        return client_fail_by_problem(q->client, problem,
                                      (long)json_integer_value(json_object_get(problem, "status")),
                                      error);
    if (strcmp(state, "cancelled") == 0)
        return remat_fail(error, REMAT_CANCELLED, NULL, "the job was cancelled");
    if (strcmp(state, "done") != 0)
        return remat_fail(error, REMAT_IO, NULL, "the job ended in the state \"%.40s\"", state);
    return schedule_id
               ? remat_client_get(q->client, "schedules", schedule_id, "", ret_answer, error)
               : post(q, SERVER_WAIT, ret_answer, error);
}

static bool is_under_way(const char *state)
{
    return strcmp(state, "queued") == 0 || strcmp(state, "running") == 0;
}

/* Polls the job until it is over, or the time is: then *ret_answer is left alone and *ret_over
 * false. */
static remat_status poll_job(question *q, const char *job_id, bool *ret_over,
                             remat_client_answer *ret_answer, remat_error *error)
{
    double pause = FIRST_POLL;
    while (seconds_left(q) > 0) {
        remat_client_answer job;
        remat_status status = remat_client_get(q->client, "jobs", job_id, "", &job, error);
        if (status)
            return status;
        const char *state = json_string_value(json_object_get(job.json, "state"));
        if (!state) {
            status = remat_fail(error, REMAT_IO, NULL, "the server sent a job without a state");
        } else if (!is_under_way(state)) {
            status = conclude(q, state, job.json, ret_answer, error);
            *ret_over = true;
        } else {
            report(q, job_id, state, job.json);
            status = client_sleep(q->client, fmin(pause, seconds_left(q)), error);
            pause = fmin(1.5 * pause, LONGEST_POLL);
        }
        remat_client_answer_clear(&job);
        if (status || *ret_over)
            return status;
    }
    return REMAT_OK;
}

/* Replaces a 202 by the answer it promises, unless time is over first. */
static remat_status follow(question *q, remat_client_answer *answer, remat_error *error)
{
    for (int round = 0; answer->status == 202 && seconds_left(q) > 0; round++) {
        if (round == MAX_ROUNDS)
            return remat_fail(
                error, REMAT_IO, NULL,
                "the server finished %d jobs for this question and answered none of them",
                MAX_ROUNDS);
        const char *job_id = json_string_value(json_object_get(answer->json, "job_id"));
        remat_client_answer last;
        bool over = false;
        remat_status status =
            job_id ? poll_job(q, job_id, &over, &last, error)
                   : remat_fail(error, REMAT_IO, NULL, "the server sent a 202 without a job_id");
        if (status)
            return status;
        if (over) {
            remat_client_answer_clear(answer);
            *answer = last;
            memcpy(answer->cache, "miss", sizeof "miss"); /* it was solved while we waited */
        }
    }
    return REMAT_OK;
}

static remat_status ask(question *q, const json_t *asked, const json_t *profile,
                        remat_client_answer *ret_answer, remat_error *error)
{
    remat_client_answer answer = {0};
    remat_status status = make_body(asked, profile, &q->body, error);
    if (status)
        return status;
    q->deadline = client_clock() + (q->wait ? q->wait->seconds : INFINITY);
    status = post_first(q, profile, &answer, error);
    if (!status)
        status = follow(q, &answer, error);
    json_decref(q->body);
    if (status) {
        remat_client_answer_clear(&answer);
        return status;
    }
    *ret_answer = answer;
    return REMAT_OK;
}

remat_status remat_client_schedule(remat_client *client, const json_t *asked, const json_t *profile,
                                   const remat_client_wait *wait, remat_client_answer *ret_answer,
                                   remat_error *error)
{
    question q = {.client = client, .path = "/v1/schedules", .waits = true, .wait = wait};
    return ask(&q, asked, profile, ret_answer, error);
}

remat_status remat_client_tradeoffs(remat_client *client, const json_t *asked,
                                    const json_t *profile, const remat_client_wait *wait,
                                    remat_client_answer *ret_answer, remat_error *error)
{
    question q = {.client = client, .path = "/v1/tradeoffs", .waits = true, .wait = wait};
    return ask(&q, asked, profile, ret_answer, error);
}

remat_status remat_client_simulate(remat_client *client, const json_t *asked, const json_t *profile,
                                   remat_client_answer *ret_answer, remat_error *error)
{
    question q = {.client = client, .path = "/v1/simulations"};
    return ask(&q, asked, profile, ret_answer, error);
}
