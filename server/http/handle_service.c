/* /v1/jobs and what the service says of itself */
#include "http/handlers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- jobs ---- */

/* "2026-11-22T12:39:29.272Z_" and an id, or "". */
static bool is_cursor(const char *text)
{
    return !text[0] ||
           (strlen(text) == 25 + 32 && text[24] == '_' && strspn(text, "0123456789-T:.Z") == 24 &&
            strspn(text + 25, "0123456789abcdef") == 32);
}

/* The newest first; of one millisecond by their ids. */
static int newer_first(const void *left, const void *right)
{
    const json_t *a = *(json_t *const *)left, *b = *(json_t *const *)right;
    int order = strcmp(remat_json_string(b, "created"), remat_json_string(a, "created"));
    return order ? order : strcmp(remat_json_string(b, "job_id"), remat_json_string(a, "job_id"));
}

/* Whether a job comes after the cursor, which names the last one told. */
static bool is_after(const json_t *job, const char *cursor)
{
    char own[80];
    snprintf(own, sizeof own, "%s_%s", remat_json_string(job, "created"),
             remat_json_string(job, "job_id"));
    return !cursor[0] || strcmp(own, cursor) < 0;
}

/* Whether the client may see it in the list, or take it back: what it asked first. */
static bool is_own(const request *r, const json_t *job)
{
    const char *by = json_string_value(json_object_get(job, "asked_by"));
    return r->admin || (by && strcmp(by, r->client) == 0);
}

static void add_own(const request *r, json_t *list, json_t *job)
{
    if (is_own(r, job))
        json_array_append(list, job);
    json_decref(job);
}

/* To the jobs of memory those of the store that it does not know. */
static remat_status add_stored(request *r, json_t *list, const json_t *ids, remat_error *error)
{
    enum { MOST = 1000 };
    remat_job_list stored;
    size_t known = json_object_size(ids),
           enough = r->cursor[0] || !r->admin ? MOST : known + r->limit + 1;
    const remat_page page = {.limit = (uint32_t)(enough < MOST ? enough : MOST)};
    remat_status status = remat_store_list_jobs(r->service->store, false, page, &stored, error);
    for (size_t i = 0; !status && i < stored.length; i++)
        if (!json_object_get(ids, stored.items[i].id))
            add_own(r, list, jobs_describe_record(&stored.items[i]));
    if (!status)
        remat_job_list_clear(&stored);
    return status;
}

/* One page of the list. */
static void reply_jobs(request *r, const json_t *list)
{
    size_t n = json_array_size(list), told = 0;
    json_t **sorted = calloc(n + 1, sizeof *sorted), *page = json_array();
    char next[80] = "";
    for (size_t i = 0; sorted && i < n; i++)
        sorted[i] = json_array_get(list, i);
    if (sorted && n > 0)
        qsort(sorted, n, sizeof *sorted, newer_first);
    for (size_t i = 0; sorted && i < n; i++) {
        if (!is_after(sorted[i], r->cursor))
            continue;
        if (told++ == r->limit) {
            const json_t *last = json_array_get(page, json_array_size(page) - 1);
            snprintf(next, sizeof next, "%s_%s", remat_json_string(last, "created"),
                     remat_json_string(last, "job_id"));
            break;
        }
        json_array_append(page, sorted[i]);
    }
    free(sorted);
    reply_page(r, "jobs", page, next[0] ? next : NULL);
}

static void list_jobs_work(request *r)
{
    json_t *own = r->context, *list = json_object_get(own, "jobs");
    remat_error error;
    r->context = NULL;
    if (!is_cursor(r->cursor))
        reply_refuse(r, REMAT_PROBLEM_INVALID_REQUEST, "cursor",
                     "the cursor is not one of this list");
    else if (add_stored(r, list, json_object_get(own, "known"), &error))
        reply_error(r, &error);
    else
        reply_jobs(r, list);
    json_decref(own);
}

bool list_jobs(request *r)
{
    json_t *known = json_object(),
           *own = jobs_describe_all(r->service->jobs, r->admin ? NULL : r->client, known);
    r->context = json_pack("{s:o, s:o}", "jobs", own, "known", known);
    if (!r->context) {
        reply_body(r, 200, NULL);
        return true;
    }
    return http_start_work(r, list_jobs_work, NULL);
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

bool get_job(request *r)
{
    json_t *json = jobs_describe(r->service->jobs, r->id);
    if (!json)
        return http_start_work(r, get_job_work, NULL);
    reply_body(r, 200, body_from_json(json, false));
    return true;
}

/* A job that memory does not know has ended, or is another daemon's: the store knows. */
static void stored_job_events(request *r)
{
    json_t *job = r->context;
    r->context = NULL;
    if (job)
        streams_open(r, job);
    http_answer(r);
}

static void get_job_events_work(request *r)
{
    get_job_work(r);
    if (r->reply.status != 200)
        return;
    remat_error error;
    const body *b = r->reply.body;
    json_t *job = NULL;
    if (remat_json_parse(b->data[BODY_IDENTITY], b->length[BODY_IDENTITY], &job, &error))
        reply_error(r, &error);
    body_release(r->reply.body);
    r->reply.body = NULL;
    r->context = job;
}

bool get_job_events(request *r)
{
    json_t *job = jobs_describe(r->service->jobs, r->id);
    if (!job)
        return http_start_work(r, get_job_events_work, stored_job_events);
    streams_open(r, job);
    return true;
}

static bool refuse_others(request *r)
{
    return reply_refuse(r, REMAT_PROBLEM_FORBIDDEN, "",
                        "the job is of others; the scope admin cancels it for all");
}

/* Another process has it, or nobody. */
static void delete_job_work(request *r)
{
    remat_job_record record = {0};
    remat_error error;
    remat_status status = remat_store_get_job(r->service->store, r->id, &record, &error);
    json_t *job = status ? NULL : jobs_describe_record(&record);
    bool own = is_own(r, job);
    json_decref(job);
    remat_job_record_clear(&record);
    if (!status && !own) {
        refuse_others(r);
        return;
    }
    if (!status)
        status = remat_store_cancel_job(r->service->store, r->id, &error);
    if (status == REMAT_NOT_FOUND)
        remat_fail(&error, REMAT_NOT_FOUND, "id", "there is no job %s", r->id);
    if (status)
        reply_error(r, &error);
    else
        get_job_work(r);
}

bool delete_job(request *r)
{
    jobs *j = r->service->jobs;
    jobs_taken taken = jobs_cancel_by(j, r->id, r);
    if (taken == JOBS_UNKNOWN)
        return http_start_work(r, delete_job_work, NULL);
    if (taken == JOBS_TAKEN)
        reply_body(r, 200, body_from_json(jobs_describe(j, r->id), false));
    else
        refuse_others(r);
    return true;
}

/* ---- the service itself ---- */

bool get_solvers(request *r)
{
    reply_body(r, 200, body_from_json(remat_solvers_encode(), true));
    return true;
}

bool get_health(request *r)
{
    reply_body(r, 200, body_from_json(json_pack("{s:s}", "status", "ok"), false));
    return true;
}

void get_ready(request *r)
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

bool get_metrics(request *r)
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
    add_gauge(g, "log_lines_dropped", "Log lines that stderr did not take, since the start.",
              (double)log_dropped());
    add_gauge(g, "uptime_seconds", "Since the start.", (double)(uv_hrtime() - s->started) / 1e9);
    r->context = g;
    return http_start_work(r, get_metrics_work, NULL);
}

bool get_problem(request *r)
{
    char *text = remat_problem_text(r->id);
    if (!text) {
        reply_refuse(r, REMAT_PROBLEM_NOT_FOUND, "", "there is no problem of this name");
        return true;
    }
    reply_body(r, 200, body_new(text, strlen(text), false));
    if (r->reply.status == 200)
        r->reply.content_type = "text/plain; charset=utf-8";
    return true;
}

bool get_openapi(request *r)
{
    size_t length;
    const char *document = remat_openapi(&length);
    reply_document(r, &r->service->openapi, document, length);
    return true;
}
