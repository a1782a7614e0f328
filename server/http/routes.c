#include "http/handlers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SMALL_BODY = 1 << 20, /* bytes of a body that holds no profile and no operations */
    SMALL_BODY_VALUES = 100000,
    NODE_BYTES = 300,      /* that a node of a profile takes, once it is read */
    LARGE_WORK = 1 << 18,  /* bytes of a body whose work takes long; they may be 87,000 nodes */
    MUCH_MEMORY = 1 << 20, /* bytes that are given back to the system at once */
};

/* ---- work on the pool ---- */

static void light_work(task *t)
{
    request *r = (request *)((char *)t - offsetof(request, task));
    r->work(r);
    if (r->held <= MUCH_MEMORY)
        return;
    /* Who is given the memory next would add to what is still there. */
    free(r->content);
    r->content = NULL;
    memory_return();
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
bool http_start_work(request *r, void (*work)(request *r), void (*after)(request *r))
{
    r->work = work;
    r->after = after;
    /* What a compressed body holds shows when it is read: 600 bytes are 170,000 nodes. */
    bool large = r->lengthy || r->coding[0] || r->length > LARGE_WORK;
    r->task =
        (task){.work = light_work, .done = light_done, .lane = large ? LANE_LARGE : LANE_LIGHT};
    queue_submit(r->service->queue, &r->task);
    return false;
}

/* ---- the table ---- */

/* What answers: on the loop, or, where it takes a while, on a pool thread. */
typedef struct handler {
    bool (*loop)(request *r);
    void (*work)(request *r);
} handler;

#define LOOP(name)                                                                                 \
    {                                                                                              \
        .loop = name                                                                               \
    }
#define WORK(name)                                                                                 \
    {                                                                                              \
        .work = name                                                                               \
    }

typedef struct route {
    const char *path; /* with {id} or {file}; also its name for metrics */
    handler get, post, delete;
    const char *parameters; /* of GET, each with a space before and behind it; NULL: none */
    bool open;              /* to everybody, without a token */
    bool large;             /* its bodies hold profiles or operations */
} route;

static const route routes[] = {
    {"/healthz", .get = LOOP(get_health), .open = true},
    {"/readyz", .get = WORK(get_ready), .open = true},
    {"/metrics", .get = LOOP(get_metrics)},
    {"/openapi.json", .get = LOOP(get_openapi)},
    {"/docs", .get = LOOP(get_docs), .open = true},
    {"/problems/{file}", .get = LOOP(get_problem), .open = true},
    {"/", .get = LOOP(get_root), .open = true},
    {"/page/{file}", .get = LOOP(get_page_file), .open = true},
    {"/v1/profiles", .get = WORK(list_profiles), .post = WORK(post_profile),
     .parameters = " cursor limit name ", .large = true},
    {"/v1/profiles/{id}", .get = WORK(get_profile), .delete = WORK(delete_profile)},
    {"/v1/schedules", .get = WORK(list_schedules), .post = LOOP(post_schedule),
     .parameters = " cursor limit profile_id solver ", .large = true},
    {"/v1/schedules/{id}", .get = LOOP(get_schedule)},
    {"/v1/schedules/{id}/timeline", .get = WORK(get_timeline)},
    {"/v1/schedules/{id}/trace", .get = WORK(get_trace)},
    {"/v1/schedules/{id}/explanation", .get = WORK(get_explanation)},
    {"/v1/schedules/{id}/measurements", .get = WORK(list_measurements),
     .post = WORK(post_measurement), .parameters = " cursor limit "},
    {"/v1/tradeoffs", .post = LOOP(post_tradeoff), .large = true},
    {"/v1/simulations", .post = WORK(post_simulation), .large = true},
    {"/v1/layouts", .post = LOOP(post_layout), .large = true},
    {"/v1/snapshots", .post = WORK(post_snapshots)},
    {"/v1/plans", .post = LOOP(post_plan), .large = true},
    {"/v1/devices", .get = LOOP(get_devices)},
    {"/v1/models", .get = LOOP(get_models)},
    {"/v1/solvers", .get = LOOP(get_solvers)},
    {"/v1/jobs", .get = LOOP(list_jobs), .parameters = " cursor limit "},
    {"/v1/jobs/{id}", .get = LOOP(get_job), .delete = LOOP(delete_job)},
    {"/v1/jobs/{id}/events", .get = LOOP(get_job_events)},
};
enum { N_ROUTES = sizeof routes / sizeof *routes };

const char *const *routes_names(size_t *ret_count)
{
    static const char *names[N_ROUTES + 1];
    names[0] = "unknown";
    for (size_t i = 0; i < N_ROUTES; i++)
        names[i + 1] = routes[i].path;
    *ret_count = N_ROUTES + 1;
    return names;
}

/* Whether path is of the route, and what stands in it for {id} or {file}: ids of jobs have 32
 * digits, others 64. */
static bool matches(const route *one, const char *path, char id[REMAT_ID_SIZE])
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t prefix = strcspn(one->path, "{");
    const char *brace = one->path + prefix;
    if (!*brace)
        return strcmp(path, one->path) == 0;
    if (strncmp(path, one->path, prefix) != 0)
        return false;
    bool file = brace[1] == 'f';
    size_t digits = strncmp(one->path, "/v1/jobs/", 9) == 0 ? 32 : 64;
    size_t length = strspn(path + prefix, file ? plain : "0123456789abcdef");
    if ((file ? length < 1 || length >= REMAT_ID_SIZE : length != digits) ||
        strcmp(path + prefix + length, strchr(brace, '}') + 1) != 0)
        return false;
    memcpy(id, path + prefix, length);
    id[length] = '\0';
    return true;
}

static bool is_handled(const handler *one)
{
    return one->loop || one->work;
}

static const handler *handler_of(const route *one, const char *method)
{
    static const handler none = {0};
    return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0 ? &one->get
           : strcmp(method, "POST") == 0                             ? &one->post
           : strcmp(method, "DELETE") == 0                           ? &one->delete
                                                                     : &none;
}

bool routes_find(request *r, const char *path)
{
    for (unsigned i = 0; i < N_ROUTES; i++) {
        const route *one = &routes[i];
        if (!matches(one, path, r->id))
            continue;
        r->route = i + 1;
        if (is_handled(handler_of(one, r->method)))
            return true;
        static const char *const allowed[] = {"", "GET, HEAD", "POST", "GET, HEAD, POST",
                                              "GET, HEAD, DELETE"};
        reply_refuse(r, REMAT_PROBLEM_METHOD_NOT_ALLOWED, "", "%s does not take %s", one->path,
                     r->method);
        r->reply.allow =
            allowed[is_handled(&one->delete) ? 4
                                             : is_handled(&one->get) + 2 * is_handled(&one->post)];
        return false;
    }
    return reply_refuse(r, REMAT_PROBLEM_NOT_FOUND, "",
                        "there is nothing at this path; ids are 64 (jobs: 32) lower-case hex "
                        "digits");
}

unsigned routes_scope(const request *r)
{
    const route *one = &routes[r->route - 1];
    if (one->open)
        return SCOPE_NONE;
    if (strcmp(r->method, "DELETE") == 0)
        return one->delete.loop == delete_job ? SCOPE_SOLVE | SCOPE_ADMIN : SCOPE_ADMIN;
    return strcmp(r->method, "POST") == 0 ? SCOPE_SOLVE : SCOPE_READ;
}

bool routes_takes_body(const request *r)
{
    return strcmp(r->method, "POST") == 0;
}

bool routes_takes_parameter(const request *r, const char *name)
{
    char word[32];
    const char *known = routes[r->route - 1].parameters;
    snprintf(word, sizeof word, " %s ", name);
    return known && !routes_takes_body(r) && strcmp(r->method, "DELETE") != 0 &&
           strstr(known, word);
}

uint64_t routes_body_limit(const request *r)
{
    uint64_t limit = r->service->config.max_body;
    return routes[r->route - 1].large || limit < SMALL_BODY ? limit : SMALL_BODY;
}

bool routes_dispatch(request *r)
{
    const handler *one = handler_of(&routes[r->route - 1], r->method);
    return one->loop ? one->loop(r) : http_start_work(r, one->work, NULL);
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

remat_status routes_take_memory(request *r, uint64_t bytes, remat_error *error)
{
    memory *m = r->service->memory;
    if (r->held + bytes >
        memory_share(m, MEMORY_WORK)) /* what it holds itself is never given back before */
        return remat_fail(error, REMAT_TOO_LARGE, NULL,
                          "the body takes %llu bytes; this server has %llu for that",
                          (unsigned long long)(r->held + bytes),
                          (unsigned long long)memory_share(m, MEMORY_WORK));
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
        status = routes_take_memory(r, *ret_length, error);
    if (!status)
        status = body_decode(r->coding, content, r->length, *ret_length, ret_text, error);
    return status;
}

remat_status http_parse_content(request *r, json_t **ret_json, remat_error *error)
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
        status = routes_take_memory(r, scan.tree_bytes + length + scan.nodes * NODE_BYTES, error);
    if (!status)
        status = remat_json_load(decoded ? decoded : text, length, ret_json, error);
    free(decoded);
    return status;
}
