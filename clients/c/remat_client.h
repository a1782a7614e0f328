/* The client: asks a rematd over HTTP and hands back what it answered.
 *
 *     remat_client *client;
 *     remat_client_answer answer;
 *     remat_error error;
 *     json_t *question = json_pack("{s:s}", "budget", "60%");
 *     if (remat_client_new(NULL, &client, &error) ||
 *         remat_client_schedule(client, question, profile, NULL, &answer, &error))
 *         fprintf(stderr, "%s\n", error.message);
 *     ... json_object_get(answer.json, "operations") ...
 *     remat_client_answer_clear(&answer);
 *     remat_client_free(client);
 *
 * Units. Seconds are double, bytes are size_t. Bodies are the documents of the HTTP API, as they
 * are. Ownership. What a function returns in ret_ belongs to the caller; it is untouched on
 * failure. JSON that is passed in stays the caller's and is not changed. Strings that are passed in
 * are copied. Threads. A handle may move between threads but serves one call at a time; any number
 * of handles may be used at once. Take one per thread: a handle keeps its connection open between
 * calls. Errors. Every function returns a remat_status and describes a failure in *error (which may
 * be NULL):
 *
 *   REMAT_INVALID       the server refused the request (4xx); error->field names the field
 *   REMAT_NOT_FOUND     404, by a problem document: a bare 404 is REMAT_IO
 *   REMAT_INFEASIBLE    no schedule fits; error->number is the least budget in bytes that would do
 *   REMAT_NOT_ACCEPTED  the solver does not take this profile
 *   REMAT_TOO_LARGE     past a limit of the server
 *   REMAT_CANCELLED     the job was cancelled, or `cancelled` said so
 *   REMAT_IO            no answer, no usable answer, 401, 429 or 5xx: nothing is known about the
 * question REMAT_NO_MEMORY     out of memory here
 *
 * Where the server sent a problem document (RFC 9457), remat_client_problem has it whole. */
#ifndef REMAT_CLIENT_H
#define REMAT_CLIENT_H

#include "api.h"

#define REMAT_CLIENT_DEFAULT_SERVER "http://127.0.0.1:7070"

typedef struct remat_client remat_client;

/* {0} is the default of everything. */
typedef struct remat_client_settings {
    const char *server;     /* http or https URL, a path is allowed; NULL: REMAT_SERVER of the
                               environment,     and without it REMAT_CLIENT_DEFAULT_SERVER */
    const char *token;      /* bearer token; NULL: REMAT_TOKEN of the environment; "": none */
    const char *request_id; /* X-Request-Id of every request, by which a server knows who asked for
                               a job: one count however often it is asked, and a cancel takes that
                               back while others ask for it; NULL: each request its own */
    double connect_timeout; /* seconds until the connection stands; 0: 5 */
    double timeout;    /* seconds for one request and its answer, asking again included, beyond the
                          wait that the request itself asks for; 0: 60 */
    double patience;   /* seconds that may be spent, in all, on asking again after 429 and 503;
                          0: 30, negative: do not ask again */
    size_t max_answer; /* bytes of a decoded answer that are still read; 0: 256 MiB */
    bool (*cancelled)(void *data); /* polled while waiting, at least once a second; true: give up */
    void *data;                    /* of cancelled */
} remat_client_settings;

typedef struct remat_client_answer {
    long status;    /* HTTP status, 200 to 299 */
    json_t *json;   /* NULL where the body is empty */
    char *text;     /* the body as it came, NUL-terminated; never NULL */
    size_t length;  /* of text */
    char cache[16]; /* X-Remat-Cache: "hit", "table", "miss", also "miss" for what a job was
                       followed to; "" when there is none */
} remat_client_answer;

/* Frees what the answer holds. Accepts {0} and an answer already cleared. */
void remat_client_answer_clear(remat_client_answer *answer);

/* Checks the settings (REMAT_INVALID: what is wrong with the URL) and makes a handle. settings may
 * be NULL. Nothing is sent before the first call. Reads the environment, so no thread may change
 * that meanwhile. */
remat_status remat_client_new(const remat_client_settings *settings, remat_client **ret_client,
                              remat_error *error);

/* Closes the connection. Accepts NULL. */
void remat_client_free(remat_client *client);

/* The URL that is asked, without a slash at its end; lives as long as the handle. */
const char *remat_client_server(const remat_client *client);

/* The problem document of the last call on this handle: NULL unless that call failed by one.
 * Borrowed, until the next call. */
const json_t *remat_client_problem(const remat_client *client);

/* One call of the API: method "GET", path "/v1/jobs?limit=3", body NULL or JSON. 429 and 503 are
 * asked again after what Retry-After says, within `patience`. Every call of this API may be
 * repeated without harm, so that is safe for POST too. A status beyond 299 is a failure. */
remat_status remat_client_request(remat_client *client, const char *method, const char *path,
                                  const json_t *body, remat_client_answer *ret_answer,
                                  remat_error *error);

/* ---- questions about a profile ---- */

/* How a solve that takes long comes on. */
typedef struct remat_client_progress {
    const char *job_id;
    const char *state;   /* "queued", "running", ... */
    double fraction;     /* 0 to 1 */
    double elapsed;      /* seconds, by the server */
    long queue_position; /* jobs before this one; -1: not queued */
    double makespan;     /* of the best schedule so far, in the profile's unit; 0: none */
    double bound;        /* that none is below, as far as is proven; 0: nothing yet */
} remat_client_progress;

/* How long to wait. A NULL wait, or {.seconds = INFINITY}, waits until there is an answer. */
typedef struct remat_client_wait {
    double seconds; /* when they are over, the answer is the 202 with its job_id; 0: at once */
    void (*progress)(void *data, const remat_client_progress *progress); /* or NULL */
    void *data;
} remat_client_wait;

/* POST /v1/schedules, /v1/tradeoffs and /v1/simulations. question has the members of that request
 * (budget, solver, ..) except `wait`, and names its subject either by a profile_id member, with
 * profile NULL, or by profile, a remat-profile/1 document: then the profile's id is computed here,
 * the question asked by id, and the document sent only if the server does not know it. A 202 is
 * followed to its end: answer->status 202 means that wait->seconds were over. */
remat_status remat_client_schedule(remat_client *client, const json_t *question,
                                   const json_t *profile, const remat_client_wait *wait,
                                   remat_client_answer *ret_answer, remat_error *error);
remat_status remat_client_tradeoffs(remat_client *client, const json_t *question,
                                    const json_t *profile, const remat_client_wait *wait,
                                    remat_client_answer *ret_answer, remat_error *error);
remat_status remat_client_simulate(remat_client *client, const json_t *question,
                                   const json_t *profile, remat_client_answer *ret_answer,
                                   remat_error *error);

/* ---- what is stored ---- */

/* One page of GET /v1/profiles. name and cursor may be NULL; limit 0 leaves the page size to the
 * server. */
remat_status remat_client_profiles(remat_client *client, const char *name, const char *cursor,
                                   unsigned limit, remat_client_answer *ret_answer,
                                   remat_error *error);

/* GET of one thing by its id: of list "profiles", "schedules" or "jobs", part "" or of a schedule
 * "/timeline" or "/explanation". REMAT_INVALID when id cannot be one. */
remat_status remat_client_get(remat_client *client, const char *list, const char *id,
                              const char *part, remat_client_answer *ret_answer,
                              remat_error *error);
remat_status remat_client_cancel_job(remat_client *client, const char *id,
                                     remat_client_answer *ret_answer, remat_error *error);
remat_status remat_client_solvers(remat_client *client, remat_client_answer *ret_answer,
                                  remat_error *error);

#endif
