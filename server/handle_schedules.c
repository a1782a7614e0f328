/* /v1/schedules, /v1/tradeoffs, /v1/simulations */
#include "handlers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    remat_question resolved;
    known_profile *known = NULL;
    remat_status status = parse_content(r, &json, error);
    if (!status)
        status = remat_schedule_request_decode(json, &asked, error);
    if (!status)
        status = engine_subject(r->service->engine, &asked.subject, &known, error);
    if (!status)
        status = remat_question_resolve(&asked, known->id, known->profile, known->store_all_peak,
                                        &resolved, error);
    json_decref(json);
    engine_profile_release(known);
    if (!status)
        status = question_init(&in->q, &resolved, error);
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
        jobs_ask_tradeoff(r->service->jobs, r, in->profile, in->hash, in->tradeoff, in->cost,
                          in->wait);
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

bool post_schedule(request *r)
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

bool get_schedule(request *r)
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

bool list_schedules(request *r)
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

bool get_timeline(request *r)
{
    return start_work(r, get_timeline_work, NULL);
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
        status = remat_subject_link(&in->tradeoff->subject, in->profile->profile,
                                    &in->tradeoff->way, error);
    if (!status)
        status = engine_tradeoff(e, in->profile, in->tradeoff, &s, &b, error);
    if (status)
        return status;
    in->open = s.needs_solve;
    in->cost = s.cost;
    in->wait = in->tradeoff->subject.wait;
    in->tradeoff->subject.profile = in->tradeoff->subject.link = NULL; /* the JSON is about to go */
    remat_sha256_hex(r->content, r->length, in->hash);
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

bool post_tradeoff(request *r)
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

bool post_simulation(request *r)
{
    return start_work(r, post_simulation_work, NULL);
}
