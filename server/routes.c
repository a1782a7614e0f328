#include "handlers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SMALL_BODY = 1 << 20, /* bytes of a body that holds no profile and no operations */
    SMALL_BODY_VALUES = 100000,
    LARGE_WORK = 1 << 20, /* bytes of a body whose work takes long; compressed: a 1024th of it */
    TREES = 2,            /* a profile's tree, and again while it is checked as it will be stored */
    BUSY_RETRY_SECONDS = 2,
    AWAY_RETRY_SECONDS = 2
};

/* ---- replies ---- */

void reply_body(request *r, int status, body *b)
{
    if (!b) {
        remat_error error;
        remat_fail_memory(&error);
        reply_problem(r, REMAT_PROBLEM_INTERNAL, &error);
        return;
    }
    r->reply.status = status;
    r->reply.body = b;
}

void reply_problem(request *r, remat_problem_type type, const remat_error *error)
{
    r->reply = (reply){.status = remat_problem_status(type),
                       .body = body_from_json(remat_problem_encode(type, error), false),
                       .content_type = "application/problem+json",
                       .retry_after = type == REMAT_PROBLEM_STORAGE_AWAY ? AWAY_RETRY_SECONDS : 0};
}

void reply_error(request *r, const remat_error *error)
{
    reply_problem(r, remat_problem_of(error), error);
}

void reply_profile_error(request *r, const remat_error *error, bool whole_body)
{
    bool profile =
        error->status == REMAT_INVALID && (whole_body || strncmp(error->field, "profile.", 8) == 0);
    reply_problem(r, profile ? REMAT_PROBLEM_INVALID_PROFILE : remat_problem_of(error), error);
}

void make_immutable(request *r, const char *id)
{
    r->reply.immutable = true;
    snprintf(r->reply.etag, sizeof r->reply.etag, "\"%.64s\"", id);
}

void reply_schedule(request *r, body *b, const char *schedule_id, const char *cache)
{
    reply_body(r, 200, b);
    if (r->reply.status != 200)
        return;
    make_immutable(r, schedule_id);
    r->reply.immutable = strcmp(r->method, "POST") != 0;
    snprintf(r->reply.location, sizeof r->reply.location, "/v1/schedules/%s", schedule_id);
    r->reply.cache = cache;
}

body *page_body(const char *name, json_t *list, const char *next)
{
    return body_from_json(json_pack("{s:o, s:s?}", name, list ? list : json_null(), "next", next),
                          true);
}

/* ---- work on the pool ---- */

static void light_work(task *t)
{
    request *r = (request *)((char *)t - offsetof(request, task));
    r->work(r);
}

void reply_busy(request *r)
{
    remat_error error;
    body_release(r->reply.body);
    remat_fail(&error, REMAT_TOO_LARGE, NULL,
               "the bodies of other requests take the memory that there is for them");
    reply_problem(r, REMAT_PROBLEM_BUSY, &error);
    r->reply.retry_after = BUSY_RETRY_SECONDS;
}

static void light_done(task *t)
{
    request *r = (request *)((char *)t - offsetof(request, task));
    http_forget_body(r);
    if (r->busy)
        reply_busy(r);
    if (r->after)
        r->after(r);
    else
        http_answer(r);
}

/* Lets work run on a pool thread, then after (NULL: answer) on the loop. Always false: no reply
 * yet. */
bool start_work(request *r, void (*work)(request *r), void (*after)(request *r))
{
    r->work = work;
    r->after = after;
    bool large = r->length > LARGE_WORK || (r->coding[0] && r->length > LARGE_WORK / 1024);
    r->task =
        (task){.work = light_work, .done = light_done, .lane = large ? LANE_LARGE : LANE_LIGHT};
    queue_submit(r->service->queue, &r->task);
    return false;
}

/* ---- the table ---- */

typedef bool (*handler)(request *r);

typedef enum id_kind { NO_ID, HEX_64, HEX_32, FILE_NAME } id_kind;

typedef struct route {
    const char *prefix, *suffix; /* around the id */
    const char *name;            /* for metrics and the OpenAPI document */
    id_kind id;
    handler get, post, delete;
    bool open;  /* to everybody, without a token */
    bool large; /* its bodies hold profiles or operations */
} route;

static const route routes[] = {
    {"/healthz", "", "/healthz", NO_ID, get_health, NULL, NULL, true, false},
    {"/readyz", "", "/readyz", NO_ID, get_ready, NULL, NULL, true, false},
    {"/metrics", "", "/metrics", NO_ID, get_metrics, NULL, NULL, false, false},
    {"/openapi.json", "", "/openapi.json", NO_ID, get_openapi, NULL, NULL, false, false},
    {"/", "", "/", NO_ID, get_root, NULL, NULL, true, false},
    {"/page/", "", "/page/{file}", FILE_NAME, get_page_file, NULL, NULL, true, false},
    {"/v1/profiles", "", "/v1/profiles", NO_ID, list_profiles, post_profile, NULL, false, true},
    {"/v1/profiles/", "", "/v1/profiles/{id}", HEX_64, get_profile, NULL, delete_profile, false,
     false},
    {"/v1/schedules", "", "/v1/schedules", NO_ID, list_schedules, post_schedule, NULL, false, true},
    {"/v1/schedules/", "", "/v1/schedules/{id}", HEX_64, get_schedule, NULL, NULL, false, false},
    {"/v1/schedules/", "/timeline", "/v1/schedules/{id}/timeline", HEX_64, get_timeline, NULL, NULL,
     false, false},
    {"/v1/schedules/", "/measurements", "/v1/schedules/{id}/measurements", HEX_64,
     list_measurements, post_measurement, NULL, false, false},
    {"/v1/tradeoffs", "", "/v1/tradeoffs", NO_ID, NULL, post_tradeoff, NULL, false, true},
    {"/v1/simulations", "", "/v1/simulations", NO_ID, NULL, post_simulation, NULL, false, true},
    {"/v1/snapshots", "", "/v1/snapshots", NO_ID, NULL, post_snapshots, NULL, false, false},
    {"/v1/solvers", "", "/v1/solvers", NO_ID, get_solvers, NULL, NULL, false, false},
    {"/v1/jobs", "", "/v1/jobs", NO_ID, list_jobs, NULL, NULL, false, false},
    {"/v1/jobs/", "", "/v1/jobs/{id}", HEX_32, get_job, NULL, delete_job, false, false},
    {"/v1/jobs/", "/events", "/v1/jobs/{id}/events", HEX_32, get_job_events, NULL, NULL, false,
     false},
};
enum { N_ROUTES = sizeof routes / sizeof *routes };

const char *const *routes_names(size_t *ret_count)
{
    static const char *names[N_ROUTES + 1];
    names[0] = "unknown";
    for (size_t i = 0; i < N_ROUTES; i++)
        names[i + 1] = routes[i].name;
    *ret_count = N_ROUTES + 1;
    return names;
}

/* The same for a route whose id is the name of a file. */
static bool matches_file(const route *one, const char *path, char id[REMAT_ID_SIZE])
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t prefix = strlen(one->prefix), length = strlen(path);
    if (length <= prefix || length - prefix >= REMAT_ID_SIZE ||
        memcmp(path, one->prefix, prefix) != 0 || strspn(path + prefix, plain) != length - prefix)
        return false;
    memcpy(id, path + prefix, length - prefix + 1);
    return true;
}

/* Whether path is of the route, and the id in it. */
static bool matches(const route *one, const char *path, char id[REMAT_ID_SIZE])
{
    size_t prefix = strlen(one->prefix), length = strlen(path), suffix = strlen(one->suffix);
    size_t digits = one->id == HEX_64 ? 64 : one->id == HEX_32 ? 32 : 0;
    if (one->id == FILE_NAME)
        return matches_file(one, path, id);
    if (length != prefix + digits + suffix || memcmp(path, one->prefix, prefix) != 0 ||
        memcmp(path + length - suffix, one->suffix, suffix) != 0)
        return false;
    if (strspn(path + prefix, "0123456789abcdef") < digits)
        return false;
    memcpy(id, path + prefix, digits);
    id[digits] = '\0';
    return true;
}

static handler handler_of(const route *one, const char *method)
{
    if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0)
        return one->get;
    if (strcmp(method, "POST") == 0)
        return one->post;
    return strcmp(method, "DELETE") == 0 ? one->delete : NULL;
}

bool routes_find(request *r, const char *path)
{
    remat_error error;
    for (unsigned i = 0; i < N_ROUTES; i++) {
        const route *one = &routes[i];
        if (!matches(one, path, r->id))
            continue;
        r->route = i + 1;
        if (handler_of(one, r->method))
            return true;
        static const char *const allowed[] = {"", "GET, HEAD", "POST", "GET, HEAD, POST",
                                              "GET, HEAD, DELETE"};
        remat_fail(&error, REMAT_INVALID, NULL, "%s does not take %s", one->name, r->method);
        reply_problem(r, REMAT_PROBLEM_METHOD_NOT_ALLOWED, &error);
        r->reply.allow = allowed[one->delete ? 4 : (one->get != NULL) + 2 * (one->post != NULL)];
        return false;
    }
    remat_fail(&error, REMAT_NOT_FOUND, NULL,
               "there is nothing at this path; ids are 64 (jobs: 32) lower-case hex digits");
    reply_problem(r, REMAT_PROBLEM_NOT_FOUND, &error);
    return false;
}

unsigned routes_scope(const request *r)
{
    const route *one = &routes[r->route - 1];
    if (one->open)
        return SCOPE_NONE;
    if (strcmp(r->method, "DELETE") == 0)
        return one->delete == delete_job ? SCOPE_SOLVE : SCOPE_ADMIN;
    return strcmp(r->method, "POST") == 0 ? SCOPE_SOLVE : SCOPE_READ;
}

bool routes_takes_body(const request *r)
{
    return strcmp(r->method, "POST") == 0;
}

uint64_t routes_body_limit(const request *r)
{
    uint64_t limit = r->service->config.max_body;
    return routes[r->route - 1].large || limit < SMALL_BODY ? limit : SMALL_BODY;
}

bool routes_dispatch(request *r)
{
    return handler_of(&routes[r->route - 1], r->method)(r);
}

/* ---- bodies ---- */

/* What a body of this route may hold. A node has some 17 fields and alternatives have more; an edge
 * is a string, and an operation four values. */
static remat_json_limits limits_of(const request *r)
{
    const config *c = &r->service->config;
    uint64_t many = UINT64_C(64) * c->max_nodes + UINT64_C(4) * c->max_edges;
    bool large = routes[r->route - 1].large;
    return (remat_json_limits){.values = large ? many : SMALL_BODY_VALUES, .nodes = c->max_nodes};
}

/* Counts bytes against the budget of all requests. */
static remat_status take_memory(request *r, uint64_t bytes, remat_error *error)
{
    memory *m = r->service->memory;
    if (bytes > memory_budget(m))
        return remat_fail(error, REMAT_TOO_LARGE, NULL,
                          "reading the body takes %llu bytes; this server has %llu for that",
                          (unsigned long long)bytes, (unsigned long long)memory_budget(m));
    if (!memory_take(m, MEMORY_WORK, bytes)) {
        r->busy = true;
        return remat_fail(error, REMAT_TOO_LARGE, NULL,
                          "the bodies of other requests take too much memory now");
    }
    r->held += bytes;
    return REMAT_OK;
}

static remat_status decode_content(request *r, remat_json_scan *scan, char **ret_text,
                                   size_t *ret_length, remat_error *error)
{
    const char *content = r->content ? r->content : "";
    remat_status status =
        body_measure(r->coding, content, r->length, routes_body_limit(r), scan, ret_length, error);
    if (!status)
        status = take_memory(r, *ret_length, error);
    if (!status)
        status = body_decode(r->coding, content, r->length, *ret_length, ret_text, error);
    return status;
}

remat_status parse_content(request *r, json_t **ret_json, remat_error *error)
{
    const remat_json_limits allowed = limits_of(r);
    remat_json_scan scan;
    char *decoded = NULL;
    const char *text = r->content ? r->content : "";
    size_t length = r->length;
    remat_json_scan_init(&scan, &allowed);
    remat_status status = r->coding[0] ? decode_content(r, &scan, &decoded, &length, error)
                                       : remat_json_scan_feed(&scan, text, length, error);
    if (!status)
        status = take_memory(r, TREES * (scan.tree_bytes + length), error);
    if (!status)
        status = remat_json_load(decoded ? decoded : text, length, ret_json, error);
    free(decoded);
    return status;
}
