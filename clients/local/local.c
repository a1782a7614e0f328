#include "remat_local.h"

#include "plan/plan.h"
#include "solve.h"

#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

/* One call. */
typedef struct call {
    remat_local_progress progress;
    void *data;
    remat_profile *profile;
    char profile_id[REMAT_ID_SIZE];
    uint64_t store_all_peak;
    bool of_profile; /* a failure is the profile's own */
} call;

static bool look(void *data, const char *label, double fraction)
{
    const call *c = data;
    (void)label;
    return c->progress && c->progress(c->data, fraction) != 0;
}

static remat_status take_profile(call *c, const json_t *profile, remat_error *error)
{
    if (!profile)
        return remat_fail(error, REMAT_NOT_FOUND, "profile_id",
                          "there is no store here: the profile itself must be in \"profile\"");
    c->of_profile = true;
    remat_status status = remat_profile_decode(profile, "profile.", &c->profile, error);
    if (!status)
        status = remat_store_all_peak(c->profile, &c->store_all_peak, error);
    if (status)
        return status;
    c->of_profile = false;
    remat_profile_id(c->profile, c->profile_id);
    return REMAT_OK;
}

/* ---- plans ---- */

/* The draft's question, for the profile that the call has taken. */
static remat_status solve_draft(call *c, const remat_plan_draft *draft, json_t **ret_schedule,
                                remat_error *error)
{
    const local_watch watch = {.data = c, .look = look};
    remat_request request;
    json_t *question = json_copy(draft->question);
    if (!question || json_object_set_new(question, "profile_id", json_string(c->profile_id)) != 0) {
        json_decref(question);
        return remat_fail_memory(error);
    }
    remat_status status = remat_request_decode(question, REMAT_ASK_SCHEDULE, &request, error);
    if (!status)
        status = local_solve(&request, c->profile_id, c->profile, c->store_all_peak, &watch,
                             ret_schedule, error);
    json_decref(question);
    return status;
}

/* One question of a draft; ret_asks: it has another. */
static remat_status step_draft(call *c, remat_plan_draft *draft, bool *ret_asks, remat_error *error)
{
    json_t *schedule = NULL;
    remat_error refusal = {0};
    remat_status status = REMAT_OK;
    if (draft->document) { /* another profile than was given */
        remat_profile_free(c->profile);
        c->profile = NULL;
        status = take_profile(c, draft->document, error);
    }
    if (status)
        return status;
    if (draft->question)
        status = solve_draft(c, draft, &schedule, &refusal);
    const bool refused = status == REMAT_INFEASIBLE;
    if (status && !refused)
        *error = refusal;
    else
        status = remat_plan_draft_next(draft, schedule, refused ? &refusal : NULL, ret_asks, error);
    if (!status && !*ret_asks)
        status = remat_plan_draft_finish(draft, error);
    json_decref(schedule);
    return status;
}

static remat_status answer_plan(call *c, const json_t *body, json_t **ret_answer,
                                remat_error *error)
{
    remat_plan_request plan;
    remat_plan_draft draft = {.answer = NULL};
    remat_status status = remat_plan_request_decode(body, &plan, error);
    if (!status && !plan.model)
        status = take_profile(c, plan.profile, error);
    if (!status)
        status = remat_plan_draft_make(&plan, c->profile, plan.profile, &draft, error);
    for (bool asks = true; asks && !status;)
        status = step_draft(c, &draft, &asks, error);
    if (!status)
        *ret_answer = json_incref(draft.answer);
    remat_plan_draft_clear(&draft);
    return status;
}

/* ---- all of them ---- */

static remat_status answer_body(call *c, const char *path, const json_t *body, json_t **ret_answer,
                                remat_error *error)
{
    bool simulated = strcmp(path, "/v1/simulations") == 0;
    remat_request request;
    if (strcmp(path, "/v1/plans") == 0)
        return answer_plan(c, body, ret_answer, error);
    if (!simulated && strcmp(path, "/v1/schedules") != 0)
        return remat_fail(error, REMAT_NOT_FOUND, "", "\"%.100s\" is not answered here", path);
    remat_status status = remat_request_decode(
        body, simulated ? REMAT_ASK_SIMULATION : REMAT_ASK_SCHEDULE, &request, error);
    if (!status)
        status = take_profile(c, request.profile, error);
    if (status)
        return status;
    const local_watch watch = {.data = c, .look = look};
    return simulated ? remat_answer_simulation(&request, c->profile, ret_answer, error)
                     : local_solve(&request, c->profile_id, c->profile, c->store_all_peak, &watch,
                                   ret_answer, error);
}

EXPORTED char *remat_local_post(const char *path, const char *body, size_t length,
                                remat_local_progress progress, void *data, int *ret_status)
{
    call c = {.progress = progress, .data = data};
    remat_error error = {0};
    json_t *json = NULL, *answer = NULL;
    remat_status status = remat_json_parse(body, length, &json, &error);
    if (!status)
        status = answer_body(&c, path, json, &answer, &error);
    *ret_status = 200;
    if (status) {
        remat_problem_type type = c.of_profile && status == REMAT_INVALID
                                      ? REMAT_PROBLEM_INVALID_PROFILE
                                      : remat_problem_of(&error);
        *ret_status = remat_problem_status(type);
        answer = remat_problem_encode(type, &error);
    }
    char *text = answer ? remat_json_text(answer) : NULL;
    json_decref(answer);
    json_decref(json);
    remat_profile_free(c.profile);
    return text;
}

EXPORTED void remat_local_free(char *text)
{
    free(text);
}

EXPORTED const char *remat_local_version(void)
{
    return REMAT_VERSION;
}
