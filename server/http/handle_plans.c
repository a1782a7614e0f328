/* /v1/plans, /v1/devices, /v1/models */
#include "http/handlers.h"
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DRAFTS = 8 };

/* A plan from its request to its answer. */
typedef struct planning {
    remat_plan_draft draft;
    remat_host host;           /* of the draft: cancels it once nobody waits for it */
    double wait;               /* seconds, for each of its questions */
    char name[BODY_NAME_SIZE]; /* under which the answer is remembered; "": not at all */
} planning;

static void planning_free(planning *plan)
{
    remat_plan_draft_clear(&plan->draft);
    free(plan);
}

/* ---- the draft and its question ---- */

/* The profile of a plan: a model's is stored like any other. */
static remat_status know_profile(request *r, const remat_plan_request *plan,
                                 known_profile **ret_known, remat_error *error)
{
    remat_request subject = {.profile = plan->profile};
    memcpy(subject.profile_id, plan->profile_id, REMAT_ID_SIZE);
    return plan->model ? REMAT_OK
                       : engine_profile_of(r->service->engine, &subject, ret_known, error);
}

/* The document of a profile that is known by its id. */
static remat_status know_document(request *r, const remat_plan_request *plan,
                                  const known_profile *known, json_t **ret_document,
                                  remat_error *error)
{
    remat_profile_record record = {0};
    if (plan->model)
        return REMAT_OK;
    if (plan->profile) {
        *ret_document = json_incref((json_t *)plan->profile);
        return REMAT_OK;
    }
    remat_status status = engine_profile_record(r->service->engine, known->id, &record, error);
    if (!status)
        status =
            remat_json_parse(record.document.data, record.document.length, ret_document, error);
    remat_profile_record_clear(&record);
    return status;
}

/* The profile that was drafted is stored like any other. */
static remat_status store_document(request *r, const remat_plan_draft *draft,
                                   known_profile **ret_known, remat_error *error)
{
    bool created;
    return engine_profile_post(r->service->engine, draft->document, "", ret_known, &created, NULL,
                               error);
}

static bool is_gone(void *data)
{
    return atomic_load(&((request *)data)->gone);
}

static remat_status make_draft(request *r, const json_t *json, planning *one,
                               char ret_id[REMAT_ID_SIZE], remat_error *error)
{
    remat_plan_draft *draft = &one->draft;
    remat_plan_request plan;
    known_profile *known = NULL;
    json_t *document = NULL;
    remat_status status = remat_plan_request_decode(json, &plan, error);
    one->host = (remat_host){.data = r, .workers = 1, .cancelled = is_gone};
    if (!status) {
        plan.host = &one->host;
        plan.keeps = true;
        status = know_profile(r, &plan, &known, error);
    }
    if (!status)
        status = know_document(r, &plan, known, &document, error);
    if (!status)
        status =
            remat_plan_draft_make(&plan, known ? known->profile : NULL, document, draft, error);
    json_decref(document);
    if (!status && draft->document) {
        engine_profile_release(known);
        known = NULL;
        status = store_document(r, draft, &known, error);
    }
    if (!status && known) /* of a model whose pipeline is refused at once there is no profile */
        memcpy(ret_id, known->id, REMAT_ID_SIZE);
    if (!status)
        one->wait = plan.wait;
    engine_profile_release(known);
    return status;
}

/* The question that POST /v1/schedules would be asked. */
static remat_status make_question(request *r, const remat_plan_draft *draft, const char *id,
                                  char **ret_name, remat_question *ret_question, remat_error *error)
{
    remat_request asked;
    json_t *json = json_copy(draft->question);
    remat_json_set(&json, "profile_id", json_string(id));
    if (!json)
        return remat_fail_memory(error);
    remat_status status = remat_request_decode(json, REMAT_ASK_SCHEDULE, &asked, error);
    if (!status)
        status = engine_question(r->service->engine, &asked, ret_question, ret_name, error);
    json_decref(json);
    return status;
}

/* ---- the answer ---- */

/* Why no schedule fits, out of that problem. */
static remat_error refusal_of(const json_t *problem)
{
    remat_error refusal = {.status = REMAT_INFEASIBLE};
    const char *detail = json_string_value(json_object_get(problem, "detail"));
    snprintf(refusal.message, sizeof refusal.message, "%s", detail ? detail : "");
    refusal.number = (uint64_t)json_integer_value(json_object_get(problem, "minimum_budget"));
    refusal.proven = (uint64_t)json_integer_value(json_object_get(problem, "proven_minimum"));
    return refusal;
}

static void put_answer(request *r, planning *plan)
{
    remat_error error;
    const char *cache = r->reply.cache;
    body_release(r->reply.body);
    r->reply = (reply){.cache = cache};
    if (remat_plan_draft_finish(&plan->draft, &error)) {
        reply_error(r, &error);
        return;
    }
    body *b = body_from_json(json_incref(plan->draft.answer), true);
    if (b && plan->name[0])
        engine_remember(r->service->engine, plan->name, b);
    reply_body(r, 200, b);
}

static void finish_plan(request *r, void *data);

/* The draft's next question, for a new asker. */
static void ask_next(request *r, planning *plan)
{
    known_profile *known = NULL;
    remat_error error;
    const char *cache = r->reply.cache;
    body_release(r->reply.body);
    r->reply = (reply){.cache = cache};
    asker *a = http_start_asker(r, REMAT_ASK_SCHEDULE, "");
    if (!a) {
        planning_free(plan);
        return;
    }
    a->data = plan;
    a->finish = finish_plan;
    a->wait = plan->wait;
    remat_status status = store_document(r, &plan->draft, &known, &error);
    if (!status)
        status = make_question(r, &plan->draft, known->id, &a->profile_name, &a->question, &error);
    engine_profile_release(known);
    if (!status)
        status = http_look_up(r, a, &error);
    if (status)
        reply_profile_error(r, &error, false);
}

/* That nothing fits is an answer; any other problem stays one. */
static void finish_work(request *r)
{
    planning *plan = r->context;
    const body *b = r->reply.body;
    json_t *json = NULL;
    remat_error error;
    r->context = NULL;
    remat_status status =
        b ? remat_json_parse(b->data[BODY_IDENTITY], b->length[BODY_IDENTITY], &json, &error)
          : REMAT_OK;
    const bool solved = r->reply.status == 200;
    const char *type = json_string_value(json_object_get(json, "type"));
    const bool answers = solved || (type && strcmp(type, "/problems/infeasible-budget") == 0);
    const remat_error refusal = refusal_of(json);
    bool asks = false;
    if (json_is_true(json_object_get(json, "cut_short")))
        plan->name[0] = '\0'; /* later ones may do better */
    if (!status && answers)
        status = remat_plan_draft_next(&plan->draft, solved ? json : NULL,
                                       json && !solved ? &refusal : NULL, &asks, &error);
    if (status)
        reply_error(r, &error);
    else if (asks)
        ask_next(r, plan);
    else if (answers)
        put_answer(r, plan);
    json_decref(json);
    if (!asks)
        planning_free(plan);
}

/* The plan is answered, or has another question. */
static void after_work(request *r)
{
    if (r->context)
        http_after_question(r);
    else
        http_answer(r);
}

/* The jobs have filled the reply: a schedule, or what happened instead. */
static void finish_plan(request *r, void *data)
{
    planning *plan = data;
    if (r->reply.status == 200 || r->reply.status == 422) {
        r->context = plan;
        http_start_work(r, finish_work, after_work);
        return;
    }
    planning_free(plan);
    http_answer(r);
}

/* ---- the request ---- */

static remat_status read_plan(request *r, asker *a, remat_error *error)
{
    json_t *json = NULL;
    char id[REMAT_ID_SIZE] = "";
    planning *plan = a->data;
    remat_status status = http_parse_content(r, &json, error);
    if (!status)
        status = make_draft(r, json, plan, id, error);
    a->wait = plan->wait;
    if (!status && plan->draft.question)
        status = make_question(r, &plan->draft, id, &a->profile_name, &a->question, error);
    json_decref(json);
    return status;
}

static void post_plan_work(request *r)
{
    asker *a = r->context;
    const planning *plan = a->data;
    remat_error error;
    remat_status status = read_plan(r, a, &error);
    if (!status && plan->draft.question)
        status = http_look_up(r, a, &error);
    else if (!status)
        r->reply.status = 200; /* there is nothing to ask */
    if (status)
        reply_profile_error(r, &error, false);
}

/* True when the answer to a body like this is there. */
static bool recall(request *r, char name[BODY_NAME_SIZE])
{
    body *b = http_name_body(r, "plan", name) ? engine_recall(r->service->engine, name) : NULL;
    if (!b)
        return false;
    reply_body(r, 200, b);
    r->reply.cache = "hit";
    return true;
}

/* Drafts take up to seconds each, one after another. */
static void after_draft(request *r)
{
    r->service->plans--;
    http_after_question(r);
}

bool post_plan(request *r)
{
    char name[BODY_NAME_SIZE];
    if (recall(r, name))
        return true;
    if (r->service->plans >= MOST_DRAFTS) {
        reply_refuse(r, REMAT_PROBLEM_BUSY, "", "%u plans are being made ready; come again",
                     r->service->plans);
        return true;
    }
    asker *a = http_start_asker(r, REMAT_ASK_SCHEDULE, "");
    if (!a)
        return true;
    planning *plan = calloc(1, sizeof *plan);
    if (!plan) {
        r->context = NULL;
        free(a);
        reply_body(r, 200, NULL);
        return true;
    }
    memcpy(plan->name, name, sizeof name);
    a->data = plan;
    a->finish = finish_plan;
    r->lengthy = true;
    r->service->plans++;
    return http_start_work(r, post_plan_work, after_draft);
}

/* ---- what there is ---- */

bool get_devices(request *r)
{
    size_t length;
    const char *document = remat_devices_document(&length);
    reply_document(r, &r->service->devices, document, length);
    return true;
}

bool get_models(request *r)
{
    reply_body(r, 200, body_from_json(remat_networks_encode(), true));
    return true;
}
