#include "routes.h"

#include "service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
                       .content_type = "application/problem+json"};
}

void reply_error(request *r, const remat_error *error)
{
    reply_problem(r, remat_problem_of(error), error);
}

/* What is wrong with a request whose body describes a profile: its own kind of problem. */
static void reply_profile_error(request *r, const remat_error *error, bool whole_body)
{
    bool profile =
        error->status == REMAT_INVALID && (whole_body || strncmp(error->field, "profile.", 8) == 0);
    reply_problem(r, profile ? REMAT_PROBLEM_INVALID_PROFILE : remat_problem_of(error), error);
}

static void make_immutable(request *r, const char *id)
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

/* ---- work on the pool ---- */

static void light_work(task *t)
{
    request *r = (request *)((char *)t - offsetof(request, task));
    r->work(r);
}

static void light_done(task *t)
{
    request *r = (request *)((char *)t - offsetof(request, task));
    if (r->after)
        r->after(r);
    else
        http_answer(r);
}

/* Lets work run on a pool thread, then after (NULL: answer) on the loop. Always false: no reply
 * yet. */
static bool start_work(request *r, void (*work)(request *r), void (*after)(request *r))
{
    r->work = work;
    r->after = after;
    r->task = (task){.work = light_work, .done = light_done, .lane = LANE_LIGHT};
    queue_submit(r->service->queue, &r->task);
    return false;
}

/* The request's body as JSON; decoded first when it came compressed. */
static remat_status parse_content(request *r, json_t **ret_json, remat_error *error)
{
    if (!r->coding[0])
        return remat_json_parse(r->content ? r->content : "", r->length, ret_json, error);
    char *text = NULL;
    size_t length = 0;
    remat_status status = body_decode(r->coding, r->content ? r->content : "", r->length,
                                      r->service->config.max_body, &text, &length, error);
    if (!status)
        status = remat_json_parse(text, length, ret_json, error);
    free(text);
    return status;
}

/* ---- profiles ---- */

static void post_profile_work(request *r)
{
    json_t *json = NULL;
    known_profile *known = NULL;
    body *summary = NULL;
    bool created = false;
    remat_error error;
    remat_status status = parse_content(r, &json, &error);
    if (status) {
        reply_error(r, &error);
        return;
    }
    status = engine_profile_post(r->service->engine, json, "", &known, &created, &summary, &error);
    json_decref(json);
    if (status) {
        reply_profile_error(r, &error, true);
        return;
    }
    reply_body(r, created ? 201 : 200, summary);
    snprintf(r->reply.location, sizeof r->reply.location, "/v1/profiles/%s", known->id);
    engine_profile_release(known);
}

static bool post_profile(request *r)
{
    return start_work(r, post_profile_work, NULL);
}

static json_t *profile_item(const remat_profile_record *p)
{
    char created[32], used[32];
    remat_time_text(p->created, created);
    remat_time_text(p->last_used, used);
    return json_pack("{s:s, s:s, s:s, s:i, s:i, s:s, s:s, s:I}", "profile_id", p->id, "name",
                     p->name, "kind", p->kind, "nodes", (int)p->nodes, "edges", (int)p->edges,
                     "created", created, "last_used", used, "schedules", (json_int_t)p->schedules);
}

/* {name: list, "next": cursor or null}; takes the list. */
static body *page_body(const char *name, json_t *list, const char *next)
{
    return body_from_json(json_pack("{s:o, s:s?}", name, list ? list : json_null(), "next", next),
                          true);
}

static void list_profiles_work(request *r)
{
    remat_profile_list list = {0};
    remat_error error;
    remat_page page = {.cursor = r->cursor, .limit = r->limit};
    if (remat_store_list_profiles(r->service->store, r->name[0] ? r->name : NULL, page, &list,
                                  &error)) {
        reply_error(r, &error);
        return;
    }
    json_t *items = json_array();
    for (size_t i = 0; i < list.length; i++)
        json_array_append_new(items, profile_item(&list.items[i]));
    reply_body(r, 200, page_body("profiles", items, list.next));
    remat_profile_list_clear(&list);
}

static bool list_profiles(request *r)
{
    return start_work(r, list_profiles_work, NULL);
}

static void get_profile_work(request *r)
{
    remat_profile_record record = {0};
    remat_error error;
    remat_status status = remat_store_get_profile(r->service->store, r->id, &record, &error);
    if (status) {
        if (status == REMAT_CORRUPT)
            atomic_fetch_add(&r->service->metrics.damaged_records, 1);
        remat_fail(&error, REMAT_NOT_FOUND, "id", "there is no profile %s", r->id);
        reply_error(r, &error);
        return;
    }
    json_t *json = json_loadb(record.summary.data, record.summary.length, 0, NULL);
    json_t *document = json_loadb(record.document.data, record.document.length, 0, NULL);
    if (json && document)
        json_object_set_new(json, "profile", document);
    remat_store_touch(r->service->store, r->id, NULL, NULL, NULL);
    remat_profile_record_clear(&record);
    reply_body(r, 200, body_from_json(json, true));
    make_immutable(r, r->id);
}

static bool get_profile(request *r)
{
    return start_work(r, get_profile_work, NULL);
}

static void delete_profile_work(request *r)
{
    remat_error error;
    if (remat_store_delete_profile(r->service->store, r->id, &error)) {
        reply_error(r, &error);
        return;
    }
    engine_forget_profile(r->service->engine, r->id);
    r->reply.status = 204;
}

static bool delete_profile(request *r)
{
    return start_work(r, delete_profile_work, NULL);
}

/* ---- schedules ---- */

/* Longer request bodies are not looked up by their hash: hashing them would hold the loop. */
enum { HASHED_BODY = 262144 };

/* A question on its way to the jobs. */
typedef struct inquiry {
    char hash[REMAT_ID_SIZE]; /* of the request's body; "": not taken */
    bool open;                /* q is to be solved */
    question q;
    known_profile *profile; /* of a trade-off, as tradeoff */
    remat_tradeoff_request *tradeoff;
    double cost, wait;
} inquiry;

/* Answers out of memory, the store or a stored table; else leaves the question open. */
static remat_status look_up(request *r, inquiry *in, remat_error *error)
{
    engine *e = r->service->engine;
    body *b = NULL;
    solve s = {.tables_only = true};
    const char *cache = "hit";
    remat_status status = engine_schedule(e, in->q.schedule_id, &b, NULL, error);
    if (status == REMAT_NOT_FOUND) {
        cache = "table";
        status = engine_solve(e, &in->q, &s, &b, error);
    }
    if (status)
        return status;
    if (!b) {
        in->open = true;
        in->cost = s.cost;
        return REMAT_OK;
    }
    atomic_fetch_add(&r->service->metrics.schedules[cache[0] == 'h' ? CACHE_HIT : CACHE_TABLE], 1);
    reply_schedule(r, b, in->q.schedule_id, cache);
    return REMAT_OK;
}

static remat_status read_schedule_request(request *r, inquiry *in, remat_error *error)
{
    json_t *json = NULL;
    remat_schedule_request asked;
    known_profile *known = NULL;
    uint64_t budget = 0;
    remat_status status = parse_content(r, &json, error);
    if (!status)
        status = remat_schedule_request_decode(json, &asked, error);
    if (!status)
        status = engine_subject(r->service->engine, &asked.subject, &known, error);
    json_decref(json);
    if (!status)
        status = remat_budget_resolve(&asked, known->store_all_peak, &budget, error);
    if (!status)
        status = question_init(&in->q, known->id, asked.subject.solver, &asked.subject.options,
                               budget, error);
    engine_profile_release(known);
    in->wait = status ? 0 : asked.subject.wait;
    return status;
}

static void post_schedule_work(request *r)
{
    inquiry *in = r->context;
    remat_error error;
    remat_status status = read_schedule_request(r, in, &error);
    if (!status)
        status = look_up(r, in, &error);
    if (status)
        reply_profile_error(r, &error, false);
    else if (in->hash[0])
        engine_remember_request(r->service->engine, in->hash, in->q.schedule_id);
}

static void after_inquiry(request *r)
{
    inquiry *in = r->context;
    r->context = NULL;
    if (in->open && in->tradeoff) {
        jobs_ask_tradeoff(r->service->jobs, r, in->profile, in->tradeoff, in->cost, in->wait);
    } else if (in->open) {
        jobs_ask(r->service->jobs, r, &in->q, in->cost, in->wait);
    } else {
        question_clear(&in->q);
        engine_profile_release(in->profile);
        free(in->tradeoff);
        http_answer(r);
    }
    free(in);
}

/* Starts work with a fresh inquiry; true when out of memory. */
static bool start_inquiry(request *r, const char *hash, void (*work)(request *r))
{
    inquiry *in = calloc(1, sizeof *in);
    if (!in) {
        reply_body(r, 200, NULL);
        return true;
    }
    snprintf(in->hash, sizeof in->hash, "%s", hash);
    r->context = in;
    return start_work(r, work, after_inquiry);
}

static bool post_schedule(request *r)
{
    char hash[REMAT_ID_SIZE] = "", id[REMAT_ID_SIZE];
    if (r->length <= HASHED_BODY && !r->coding[0]) {
        remat_sha256_hex(r->content ? r->content : "", r->length, hash);
        body *b = engine_recall_request(r->service->engine, hash, id);
        if (b) {
            atomic_fetch_add(&r->service->metrics.schedules[CACHE_HIT], 1);
            reply_schedule(r, b, id, "hit");
            return true;
        }
    }
    return start_inquiry(r, hash, post_schedule_work);
}

/* A stored schedule; one that was found damaged is solved again from its question. */
static void get_schedule_work(request *r)
{
    inquiry *in = r->context;
    body *b = NULL;
    char *text = NULL;
    remat_error error;
    remat_status status = engine_schedule(r->service->engine, r->id, &b, &text, &error);
    if (status == REMAT_NOT_FOUND && text) {
        log_line(LOG_WARNING, "a stored schedule was damaged and is solved again",
                 json_pack("{s:s}", "schedule_id", r->id));
        status = question_read(&in->q, text, strlen(text), &error);
        in->open = !status;
        in->wait = 30;
    } else if (!status) {
        reply_schedule(r, b, r->id, "hit");
    }
    if (status)
        reply_error(r, &error);
    free(text);
}

static bool get_schedule(request *r)
{
    body *b = engine_recall_schedule(r->service->engine, r->id);
    if (b) {
        reply_schedule(r, b, r->id, "hit");
        return true;
    }
    return start_inquiry(r, "", get_schedule_work);
}

static json_t *schedule_item(const remat_schedule_record *s)
{
    char created[32];
    remat_time_text(s->created, created);
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:f, s:f, s:s}", "schedule_id", s->id,
                     "profile_id", s->profile_id, "solver", s->solver, "requested_solver",
                     s->requested_solver, "budget", (json_int_t)s->budget, "peak",
                     (json_int_t)s->peak, "makespan", s->makespan, "overhead", s->overhead,
                     "created", created);
}

static void list_schedules_work(request *r)
{
    remat_schedule_list list = {0};
    remat_error error;
    remat_page page = {.cursor = r->cursor, .limit = r->limit};
    if (remat_store_list_schedules(r->service->store, r->profile_id[0] ? r->profile_id : NULL,
                                   r->solver[0] ? r->solver : NULL, page, &list, &error)) {
        reply_error(r, &error);
        return;
    }
    json_t *items = json_array();
    for (size_t i = 0; i < list.length; i++)
        json_array_append_new(items, schedule_item(&list.items[i]));
    reply_body(r, 200, page_body("schedules", items, list.next));
    remat_schedule_list_clear(&list);
}

static bool list_schedules(request *r)
{
    return start_work(r, list_schedules_work, NULL);
}

static void get_timeline_work(request *r)
{
    body *b = NULL;
    remat_error error;
    if (engine_timeline(r->service->engine, r->id, &b, &error)) {
        reply_error(r, &error);
        return;
    }
    reply_body(r, 200, b);
    make_immutable(r, r->id);
}

static bool get_timeline(request *r)
{
    return start_work(r, get_timeline_work, NULL);
}

/* ---- measurements ---- */

static json_t *measurement_item(const remat_measurement_record *m)
{
    char created[32];
    remat_time_text(m->created, created);
    json_t *json = json_loadb(m->body.data, m->body.length, 0, NULL);
    if (json && (json_object_set_new(json, "id", json_integer(m->id)) ||
                 json_object_set_new(json, "created", json_string(created)))) {
        json_decref(json);
        return NULL;
    }
    return json;
}

static void post_measurement_work(request *r)
{
    json_t *json = NULL, *record = NULL;
    remat_error error;
    remat_measurement_record m = {.created = 0};
    uv_timeval64_t now;
    uv_gettimeofday(&now);
    m.created = now.tv_sec * 1000 + now.tv_usec / 1000;
    remat_status status = parse_content(r, &json, &error);
    if (!status)
        status = remat_measurement_decode(json, &record, &error);
    json_decref(json);
    char *text = record ? remat_json_text(record) : NULL;
    json_decref(record);
    if (!status && !text)
        status = remat_fail_memory(&error);
    if (!status) {
        m.body = (remat_blob){text, strlen(text)};
        status = remat_store_put_measurement(r->service->store, r->id, &m, &error);
    }
    if (status == REMAT_NOT_FOUND)
        remat_fail(&error, REMAT_NOT_FOUND, "id", "there is no schedule %s", r->id);
    if (status)
        reply_error(r, &error);
    else
        reply_body(r, 201, body_from_json(measurement_item(&m), false));
    free(text);
}

static bool post_measurement(request *r)
{
    return start_work(r, post_measurement_work, NULL);
}

static void list_measurements_work(request *r)
{
    remat_measurement_list list = {0};
    remat_schedule_record schedule = {0};
    remat_error error;
    remat_page page = {.cursor = r->cursor, .limit = r->limit};
    remat_status status = remat_store_get_schedule(r->service->store, r->id, &schedule, &error);
    if (status == REMAT_CORRUPT && schedule.id)
        status = REMAT_OK; /* its body is damaged, its prediction is not */
    if (status == REMAT_NOT_FOUND)
        remat_fail(&error, REMAT_NOT_FOUND, "id", "there is no schedule %s", r->id);
    if (!status)
        status = remat_store_list_measurements(r->service->store, r->id, page, &list, &error);
    if (status) {
        reply_error(r, &error);
    } else {
        json_t *items = json_array();
        for (size_t i = 0; i < list.length; i++)
            json_array_append_new(items, measurement_item(&list.items[i]));
        reply_body(r, 200,
                   body_from_json(json_pack("{s:{s:f, s:I}, s:o, s:s?}", "predicted", "makespan",
                                            schedule.makespan, "peak", (json_int_t)schedule.peak,
                                            "measurements", items, "next", list.next),
                                  true));
    }
    remat_measurement_list_clear(&list);
    remat_schedule_record_clear(&schedule);
}

static bool list_measurements(request *r)
{
    return start_work(r, list_measurements_work, NULL);
}

/* ---- trade-offs and simulations ---- */

static remat_status tradeoff_work(request *r, inquiry *in, const json_t *json, remat_error *error)
{
    engine *e = r->service->engine;
    body *b = NULL;
    solve s = {.tables_only = true};
    in->tradeoff = malloc(sizeof *in->tradeoff);
    if (!in->tradeoff)
        return remat_fail_memory(error);
    remat_status status = remat_tradeoff_request_decode(json, in->tradeoff, error);
    if (!status)
        status = engine_subject(e, &in->tradeoff->subject, &in->profile, error);
    if (!status)
        status = engine_tradeoff(e, in->profile, in->tradeoff, &s, &b, error);
    if (status)
        return status;
    in->open = s.needs_solve;
    in->cost = s.cost;
    in->wait = in->tradeoff->subject.wait;
    in->tradeoff->subject.profile = NULL; /* the JSON is about to go */
    if (!in->open)
        reply_body(r, 200, b);
    return REMAT_OK;
}

static void post_tradeoff_work(request *r)
{
    json_t *json = NULL;
    remat_error error;
    remat_status status = parse_content(r, &json, &error);
    if (!status)
        status = tradeoff_work(r, r->context, json, &error);
    json_decref(json);
    if (status)
        reply_profile_error(r, &error, false);
}

static bool post_tradeoff(request *r)
{
    return start_inquiry(r, "", post_tradeoff_work);
}

static void post_simulation_work(request *r)
{
    json_t *json = NULL;
    known_profile *known = NULL;
    json_t *answer = NULL;
    remat_simulation_request asked;
    remat_error error;
    remat_status status = parse_content(r, &json, &error);
    if (!status)
        status = remat_simulation_request_decode(json, &asked, &error);
    if (!status)
        status = engine_subject(r->service->engine, &asked.subject, &known, &error);
    if (!status)
        status = remat_answer_simulation(&asked, known->profile, &answer, &error);
    if (status)
        reply_profile_error(r, &error, false);
    else
        reply_body(r, 200, body_from_json(answer, true));
    json_decref(json);
    engine_profile_release(known);
}

static bool post_simulation(request *r)
{
    return start_work(r, post_simulation_work, NULL);
}

/* ---- jobs ---- */

static bool list_jobs(request *r)
{
    reply_body(r, 200, body_from_json(jobs_describe_all(r->service->jobs), true));
    return true;
}

static void get_job_work(request *r)
{
    remat_job_record record = {0};
    remat_error error;
    remat_status status = remat_store_get_job(r->service->store, r->id, &record, &error);
    if (status == REMAT_NOT_FOUND)
        remat_fail(&error, REMAT_NOT_FOUND, "id", "there is no job %s", r->id);
    if (status)
        reply_error(r, &error);
    else
        reply_body(r, 200, body_from_json(jobs_describe_record(&record), false));
    remat_job_record_clear(&record);
}

static bool get_job(request *r)
{
    json_t *json = jobs_describe(r->service->jobs, r->id);
    if (!json)
        return start_work(r, get_job_work, NULL);
    reply_body(r, 200, body_from_json(json, false));
    return true;
}

static bool delete_job(request *r)
{
    if (!jobs_cancel(r->service->jobs, r->id))
        return start_work(r, get_job_work, NULL);
    reply_body(r, 200, body_from_json(jobs_describe(r->service->jobs, r->id), false));
    return true;
}

/* ---- the service itself ---- */

static bool get_solvers(request *r)
{
    reply_body(r, 200, body_from_json(remat_solvers_encode(), true));
    return true;
}

static bool get_health(request *r)
{
    reply_body(r, 200, body_from_json(json_pack("{s:s}", "status", "ok"), false));
    return true;
}

static void get_ready_work(request *r)
{
    remat_error error;
    json_t *reasons = json_array();
    if (remat_store_ping(r->service->store, &error))
        json_array_append_new(reasons, json_string(error.message));
    if (r->service->stopping)
        json_array_append_new(reasons, json_string("the server is stopping"));
    bool ready = json_array_size(reasons) == 0;
    reply_body(r, ready ? 200 : 503,
               body_from_json(json_pack("{s:b, s:o}", "ready", ready, "reasons", reasons), false));
}

static bool get_ready(request *r)
{
    return start_work(r, get_ready_work, NULL);
}

enum { N_GAUGES = 16 };

typedef struct gauges {
    gauge list[N_GAUGES];
    size_t n;
} gauges;

static void add_gauge(gauges *g, const char *name, const char *help, double value)
{
    g->list[g->n++] = (gauge){name, help, value};
}

static void get_metrics_work(request *r)
{
    service *s = r->service;
    gauges *g = r->context;
    remat_store_statistics store;
    uint64_t answers, tables, evictions;
    engine_counts(s->engine, &answers, &tables, &evictions);
    add_gauge(g, "cache_answer_bytes", "Bytes of answers in memory.", (double)answers);
    add_gauge(g, "cache_table_bytes", "Bytes of tables in memory.", (double)tables);
    add_gauge(g, "cache_evictions", "Things that left the caches for others.", (double)evictions);
    if (remat_store_statistics_get(s->store, &store, NULL) == REMAT_OK) {
        add_gauge(g, "store_profiles", "Stored profiles.", (double)store.profiles);
        add_gauge(g, "store_schedules", "Stored schedules.", (double)store.schedules);
        add_gauge(g, "store_tables", "Stored tables.", (double)store.tables);
        add_gauge(g, "store_table_bytes", "Bytes of stored tables.", (double)store.table_bytes);
        add_gauge(g, "store_bytes", "Bytes of the store's files.", (double)store.file_bytes);
    }
    size_t n_routes;
    const char *const *routes = routes_names(&n_routes);
    char *text = metrics_text(&s->metrics, routes, n_routes, g->list, g->n);
    reply_body(r, 200, text ? body_new(text, strlen(text), true) : NULL);
    r->reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
    free(g);
    r->context = NULL;
}

static bool get_metrics(request *r)
{
    service *s = r->service;
    gauges *g = calloc(1, sizeof *g);
    if (!g) {
        reply_body(r, 200, NULL);
        return true;
    }
    queue_counts counts = queue_count(s->queue);
    add_gauge(g, "queue_waiting", "Solves waiting.", counts.heavy_waiting);
    add_gauge(g, "queue_running", "Solves running.", counts.heavy_running);
    add_gauge(g, "light_waiting", "Short tasks waiting.", counts.light_waiting);
    add_gauge(g, "jobs_unfinished", "Jobs not ended.", jobs_unfinished(s->jobs));
    add_gauge(g, "connections", "Open connections.", http_connections(s->http));
    add_gauge(g, "uptime_seconds", "Since the start.", (double)(uv_hrtime() - s->started) / 1e9);
    r->context = g;
    return start_work(r, get_metrics_work, NULL);
}

static bool get_openapi(request *r)
{
    size_t length;
    const char *document = remat_openapi(&length);
    char *copy = malloc(length + 1);
    if (copy)
        memcpy(copy, document, length + 1);
    reply_body(r, 200, copy ? body_new(copy, length, true) : NULL);
    return true;
}

static bool get_root(request *r)
{
    char *text = strdup("remat " REMAT_VERSION ": rematerialization schedules over HTTP.\n"
                        "The page is not in this build. The API is described by /openapi.json.\n");
    reply_body(r, 200, text ? body_new(text, strlen(text), false) : NULL);
    r->reply.content_type = "text/plain; charset=utf-8";
    return true;
}

/* ---- the table ---- */

typedef bool (*handler)(request *r);

typedef enum id_kind { NO_ID, HEX_64, HEX_32 } id_kind;

typedef struct route {
    const char *prefix, *suffix; /* around the id */
    const char *name;            /* for metrics and the OpenAPI document */
    id_kind id;
    handler get, post, delete;
} route;

static const route routes[] = {
    {"/healthz", "", "/healthz", NO_ID, get_health, NULL, NULL},
    {"/readyz", "", "/readyz", NO_ID, get_ready, NULL, NULL},
    {"/metrics", "", "/metrics", NO_ID, get_metrics, NULL, NULL},
    {"/openapi.json", "", "/openapi.json", NO_ID, get_openapi, NULL, NULL},
    {"/", "", "/", NO_ID, get_root, NULL, NULL},
    {"/v1/profiles", "", "/v1/profiles", NO_ID, list_profiles, post_profile, NULL},
    {"/v1/profiles/", "", "/v1/profiles/{id}", HEX_64, get_profile, NULL, delete_profile},
    {"/v1/schedules", "", "/v1/schedules", NO_ID, list_schedules, post_schedule, NULL},
    {"/v1/schedules/", "", "/v1/schedules/{id}", HEX_64, get_schedule, NULL, NULL},
    {"/v1/schedules/", "/timeline", "/v1/schedules/{id}/timeline", HEX_64, get_timeline, NULL,
     NULL},
    {"/v1/schedules/", "/measurements", "/v1/schedules/{id}/measurements", HEX_64,
     list_measurements, post_measurement, NULL},
    {"/v1/tradeoffs", "", "/v1/tradeoffs", NO_ID, NULL, post_tradeoff, NULL},
    {"/v1/simulations", "", "/v1/simulations", NO_ID, NULL, post_simulation, NULL},
    {"/v1/solvers", "", "/v1/solvers", NO_ID, get_solvers, NULL, NULL},
    {"/v1/jobs", "", "/v1/jobs", NO_ID, list_jobs, NULL, NULL},
    {"/v1/jobs/", "", "/v1/jobs/{id}", HEX_32, get_job, NULL, delete_job},
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

/* Whether path is of the route, and the id in it. */
static bool matches(const route *one, const char *path, char id[REMAT_ID_SIZE])
{
    size_t prefix = strlen(one->prefix), length = strlen(path), suffix = strlen(one->suffix);
    size_t digits = one->id == HEX_64 ? 64 : one->id == HEX_32 ? 32 : 0;
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

bool routes_takes_body(const request *r)
{
    return strcmp(r->method, "POST") == 0;
}

bool routes_dispatch(request *r)
{
    return handler_of(&routes[r->route - 1], r->method)(r);
}
