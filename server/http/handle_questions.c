/* /v1/schedules, /v1/tradeoffs, /v1/simulations */
#include "http/handlers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Longer request bodies are not looked up by their hash: hashing them would hold the loop. */
enum { HASHED_BODY = 262144 };

/* ---- questions ---- */

remat_status http_look_up(request *r, asker *a, remat_error *error)
{
    body *b = NULL;
    const engine_terms terms = {.kept_only = true};
    engine_outcome outcome;
    remat_status status =
        engine_solve(r->service->engine, &a->question, &terms, &outcome, &b, error);
    a->cost = outcome.cost;
    if (!status && b)
        reply_answer(r, a->question.kind, outcome.id, b, outcome.cache);
    return status;
}

static remat_status read_question(request *r, asker *a, remat_error *error)
{
    json_t *json = NULL;
    remat_request asked;
    remat_status status = http_parse_content(r, &json, error);
    if (!status)
        status = remat_request_decode(json, a->question.kind, &asked, error);
    if (!status)
        status = engine_question(r->service->engine, &asked, &a->question, &a->profile_name, error);
    a->wait = status ? 0 : asked.wait;
    json_decref(json);
    return status;
}

static void post_question_work(request *r)
{
    asker *a = r->context;
    remat_error error;
    remat_status status = read_question(r, a, &error);
    if (!status)
        status = http_look_up(r, a, &error);
    if (status)
        reply_profile_error(r, &error, false);
    else if (a->body_name[0])
        engine_remember_request(r->service->engine, a->body_name, a->question.id);
}

void http_after_question(request *r)
{
    asker *a = r->context;
    r->context = NULL;
    if (r->reply.status)
        jobs_answer(a);
    else
        jobs_ask(r->service->jobs, a);
}

bool http_name_body(const request *r, const char *kind, char ret_name[BODY_NAME_SIZE])
{
    char id[REMAT_ID_SIZE];
    ret_name[0] = '\0';
    if (r->length > HASHED_BODY || r->coding[0])
        return false;
    remat_sha256_hex(r->content ? r->content : "", r->length, id);
    snprintf(ret_name, BODY_NAME_SIZE, "%s %s", kind, id);
    return true;
}

asker *http_start_asker(request *r, remat_request_kind kind, const char *body_name)
{
    asker *a = calloc(1, sizeof *a);
    if (!a) {
        reply_body(r, 200, NULL);
        return NULL;
    }
    a->request = r;
    a->question.kind = kind;
    snprintf(a->body_name, sizeof a->body_name, "%s", body_name);
    r->context = a;
    return a;
}

static bool post_question(request *r, remat_request_kind kind, const char *kind_name)
{
    char name[BODY_NAME_SIZE], id[REMAT_ID_SIZE];
    body *b = http_name_body(r, kind_name, name)
                  ? engine_recall_request(r->service->engine, name, id)
                  : NULL;
    if (!b)
        return !http_start_asker(r, kind, name) ||
               http_start_work(r, post_question_work, http_after_question);
    reply_answer(r, kind, id, b, CACHE_HIT);
    return true;
}

bool post_schedule(request *r)
{
    return post_question(r, REMAT_ASK_SCHEDULE, "schedule");
}

bool post_tradeoff(request *r)
{
    return post_question(r, REMAT_ASK_TRADEOFF, "tradeoff");
}

/* ---- schedules ---- */

/* A stored schedule; one that was found damaged is solved again from its question. */
static void get_schedule_work(request *r)
{
    asker *a = r->context;
    body *b = NULL;
    char *text = NULL;
    remat_error error;
    remat_status status = engine_schedule(r->service->engine, r->id, &b, &text, &error);
    if (status == REMAT_NOT_FOUND && text) {
        log_line(LOG_WARNING, "a stored schedule was damaged and is solved again",
                 json_pack("{s:s}", "schedule_id", r->id));
        status = remat_question_read(text, strlen(text), &a->question, &error);
        a->wait = 30;
    } else if (!status) {
        reply_answer(r, REMAT_ASK_SCHEDULE, r->id, b, CACHE_HIT);
    }
    if (status)
        reply_error(r, &error);
    free(text);
}

bool get_schedule(request *r)
{
    body *b = engine_recall(r->service->engine, r->id);
    if (!b)
        return !http_start_asker(r, REMAT_ASK_SCHEDULE, "") ||
               http_start_work(r, get_schedule_work, http_after_question);
    reply_answer(r, REMAT_ASK_SCHEDULE, r->id, b, CACHE_HIT);
    return true;
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

/* Of a list: "" for any. */
static remat_status check_finder(const char *solver, remat_error *error)
{
    if (!*solver || remat_solver_find(solver))
        return REMAT_OK;
    if (strcmp(solver, "auto") == 0)
        return remat_fail(error, REMAT_INVALID, "solver",
                          "a list is of the solver that found its schedules; auto is none, it asks "
                          "others");
    return remat_fail_solver(solver, error);
}

void list_schedules(request *r)
{
    remat_schedule_list list = {0};
    remat_error error;
    remat_page page = {.cursor = r->cursor, .limit = r->limit};
    if (check_finder(r->solver, &error) ||
        remat_store_list_schedules(r->service->store, r->profile_id[0] ? r->profile_id : NULL,
                                   r->solver[0] ? r->solver : NULL, page, &list, &error)) {
        reply_error(r, &error);
        return;
    }
    json_t *items = json_array();
    for (size_t i = 0; i < list.length; i++)
        remat_json_append(&items, schedule_item(&list.items[i]));
    reply_page(r, "schedules", items, list.next);
    remat_schedule_list_clear(&list);
}

void get_timeline(request *r)
{
    body *b = NULL;
    remat_error error;
    if (engine_timeline(r->service->engine, r->id, &b, &error)) {
        reply_error(r, &error);
        return;
    }
    reply_body(r, 200, b);
    reply_immutable(r, r->id);
}

/* What is made of a schedule. Not immutable: another version of this server may say it otherwise.
 */
static void reply_derived(request *r,
                          remat_status (*derive)(engine *, const char *, body **, remat_error *))
{
    body *b = NULL;
    remat_error error;
    if (derive(r->service->engine, r->id, &b, &error))
        reply_error(r, &error);
    else
        reply_body(r, 200, b);
}

void get_trace(request *r)
{
    reply_derived(r, engine_trace);
}

void get_explanation(request *r)
{
    reply_derived(r, engine_explanation);
}

void post_simulation(request *r)
{
    json_t *json = NULL;
    known_profile *known = NULL;
    json_t *answer = NULL;
    remat_request asked;
    remat_error error;
    remat_status status = http_parse_content(r, &json, &error);
    if (!status)
        status = remat_request_decode(json, REMAT_ASK_SIMULATION, &asked, &error);
    if (!status)
        status = engine_profile_of(r->service->engine, &asked, &known, &error);
    if (!status)
        status = remat_answer_simulation(&asked, known->profile, &answer, &error);
    if (status)
        reply_profile_error(r, &error, false);
    else
        reply_body(r, 200, body_from_json(answer, true));
    json_decref(json);
    engine_profile_release(known);
}
