/* The bodies of requests. */
#include "fields.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_POINTS 50

/* What is read from the body but does not stand in the request as it is. */
typedef struct raw_request {
    const char *profile_id, *solver, *effort;
    const json_t *options, *budget, *reserved, *layout;
    remat_number wait, points, in_flight;
} raw_request;

static remat_status read_options(const json_t *json, remat_request *request, remat_error *error)
{
    const char *name;
    json_t *value;
    if (!json || json_object_size(json) == 0)
        return REMAT_OK;
    if (!request->solver)
        return remat_fail(error, REMAT_INVALID, "options",
                          "options belong to one solver; auto has none, so name the solver");
    json_object_foreach((json_t *)json, name, value)
    {
        char field[96];
        snprintf(field, sizeof field, "options.%.60s", name);
        double number = json_is_boolean(value) ? json_is_true(value) : json_number_value(value);
        if (!json_is_boolean(value) && !json_is_number(value) && !json_is_string(value))
            return remat_fail(error, REMAT_INVALID, field,
                              "%s must be a number, a string, true or false", field);
        remat_status status = remat_options_set(request->solver, &request->options, name, number,
                                                json_string_value(value), error);
        if (status)
            return status;
    }
    return REMAT_OK;
}

/* What requests of every kind have. */
static remat_status read_subject(const raw_request *raw, remat_request *request, remat_error *error)
{
    if ((raw->profile_id != NULL) + (request->profile != NULL) != 1)
        return remat_fail(error, REMAT_INVALID, "profile_id",
                          "give one of profile_id and profile, not %s",
                          request->profile ? "both" : "none");
    if (raw->profile_id) {
        if (!remat_is_id(raw->profile_id))
            return remat_fail(error, REMAT_INVALID, "profile_id",
                              "profile_id must be 64 lower-case hex digits");
        memcpy(request->profile_id, raw->profile_id, REMAT_ID_SIZE);
    }
    if (raw->solver && strcmp(raw->solver, "auto") != 0) {
        request->solver = remat_solver_find(raw->solver);
        if (!request->solver)
            return remat_fail_solver(raw->solver, error);
        request->options = remat_options_default(request->solver);
    }
    uint64_t in_flight = 1;
    remat_status status =
        api_whole(&raw->in_flight, "in_flight", 1, REMAT_MOST_IN_FLIGHT, &in_flight, error);
    request->in_flight = (uint32_t)in_flight;
    if (!status)
        status = read_options(raw->options, request, error);
    return status ? status : api_wait(&raw->wait, &request->wait, error);
}

/* true, false or {"alignment": 256} */
static remat_status read_layout(const json_t *json, remat_layout_wish *ret_wish, remat_error *error)
{
    remat_layout_wish wish = {.given = json != NULL, .wanted = !json_is_false(json)};
    if (json && !json_is_boolean(json) && !json_is_object(json))
        return remat_fail(error, REMAT_INVALID, "layout",
                          "layout must be true, false or {\"alignment\": bytes}");
    if (json_is_object(json)) {
        remat_number alignment = {0};
        const field_rule rules[] = {{"alignment", FIELD_NUMBER, true, &alignment}};
        remat_status status = api_read(json, "layout.", rules, 1, error);
        if (status)
            return status;
        uint64_t bytes = 0;
        status = api_alignment(&alignment, "layout.alignment", &bytes, error);
        if (status)
            return status;
        wish.alignment = (uint32_t)bytes;
    }
    *ret_wish = wish;
    return REMAT_OK;
}

remat_status api_effort(const char *name, remat_effort *ret_effort, remat_error *error)
{
    const char *names[REMAT_THOROUGH + 1];
    for (int k = REMAT_QUICK; k <= REMAT_THOROUGH; k++) {
        names[k] = remat_effort_name((remat_effort)k);
        if (strcmp(name, names[k]) == 0) {
            *ret_effort = (remat_effort)k;
            return REMAT_OK;
        }
    }
    return remat_fail_unknown("effort", "effort", name, names, REMAT_THOROUGH + 1, error);
}

static remat_status read_effort(const char *name, remat_request *request, remat_error *error)
{
    const remat_solver *solver = request->solver;
    if (solver && !solver->improved)
        return remat_fail(
            error, REMAT_INVALID, "effort",
            "effort is for auto, interval and selective; the lists of %s are not improved",
            solver->name);
    return api_effort(name, &request->effort, error);
}

static remat_status read_schedule(const raw_request *raw, remat_request *request,
                                  remat_error *error)
{
    remat_status status = remat_amount_decode(raw->budget, "budget", true, &request->budget, error);
    if (!status && raw->reserved)
        status = remat_amount_decode(raw->reserved, "reserved", false, &request->reserved, error);
    if (!status)
        status = read_layout(raw->layout, &request->layout, error);
    if (!status && raw->effort)
        status = read_effort(raw->effort, request, error);
    return status;
}

static remat_status read_budgets(const json_t *json, remat_error *error)
{
    size_t n = json_array_size(json);
    remat_status status = REMAT_OK;
    if (n < 1 || n > REMAT_MAX_TRADEOFF_POINTS)
        return remat_fail(error, REMAT_INVALID, "budgets",
                          "budgets has %zu entries; 1 to %d are allowed", n,
                          REMAT_MAX_TRADEOFF_POINTS);
    for (size_t i = 0; i < n && !status; i++) {
        char field[40];
        remat_amount amount;
        snprintf(field, sizeof field, "budgets[%zu]", i);
        status = remat_amount_decode(json_array_get(json, i), field, true, &amount, error);
    }
    return status;
}

static remat_status read_tradeoff(const raw_request *raw, remat_request *request,
                                  remat_error *error)
{
    uint64_t points = request->budgets ? json_array_size(request->budgets) : DEFAULT_POINTS;
    if (request->budgets && raw->points.given)
        return remat_fail(error, REMAT_INVALID, "points", "give points or budgets, not both");
    remat_status status =
        api_whole(&raw->points, "points", 2, REMAT_MAX_TRADEOFF_POINTS, &points, error);
    request->points = (size_t)points;
    return status || !request->budgets ? status : read_budgets(request->budgets, error);
}

remat_status remat_request_decode(const json_t *json, remat_request_kind kind,
                                  remat_request *ret_request, remat_error *error)
{
    raw_request raw = {0};
    remat_request request = {.kind = kind};
    /* a trade-off's own, those of both, a schedule's own */
    const field_rule rules[] = {{"points", FIELD_NUMBER, false, &raw.points},
                                {"budgets", FIELD_ARRAY, false, &request.budgets},
                                {"profile_id", FIELD_STRING, false, &raw.profile_id},
                                {"profile", FIELD_OBJECT, false, &request.profile},
                                {"link", FIELD_OBJECT, false, &request.link},
                                {"solver", FIELD_STRING, false, &raw.solver},
                                {"options", FIELD_OBJECT, false, &raw.options},
                                {"wait", FIELD_NUMBER, false, &raw.wait},
                                {"in_flight", FIELD_NUMBER, false, &raw.in_flight},
                                {"budget", FIELD_ANY, true, &raw.budget},
                                {"reserved", FIELD_ANY, false, &raw.reserved},
                                {"layout", FIELD_ANY, false, &raw.layout},
                                {"effort", FIELD_STRING, false, &raw.effort}};
    const field_rule of_simulation[] = {rules[2],
                                        rules[3],
                                        rules[4],
                                        rules[8],
                                        {"operations", FIELD_ARRAY, true, &request.operations}};
    remat_status status = kind == REMAT_ASK_SCHEDULE ? api_read(json, "", rules + 2, 11, error)
                          : kind == REMAT_ASK_TRADEOFF
                              ? api_read(json, "", rules, 9, error)
                              : api_read(json, "", of_simulation, 5, error);
    if (!status)
        status = read_subject(&raw, &request, error);
    if (!status && kind == REMAT_ASK_SCHEDULE)
        status = read_schedule(&raw, &request, error);
    if (!status && kind == REMAT_ASK_TRADEOFF)
        status = read_tradeoff(&raw, &request, error);
    if (!status)
        *ret_request = request;
    return status;
}

remat_status remat_measurement_decode(const json_t *json, json_t **ret_record, remat_error *error)
{
    remat_number step_time = {0}, steps = {0};
    uint64_t n_steps = 1;
    const json_t *peak = NULL;
    const char *device = NULL, *note = NULL;
    remat_amount bytes = {0};
    const field_rule rules[] = {{"step_time", FIELD_NUMBER, true, &step_time},
                                {"peak", FIELD_ANY, false, &peak},
                                {"steps", FIELD_NUMBER, false, &steps},
                                {"device", FIELD_STRING, false, &device},
                                {"note", FIELD_STRING, false, &note}};
    remat_status status = api_read(json, "", rules, sizeof rules / sizeof *rules, error);
    if (!status && peak)
        status = remat_amount_decode(peak, "peak", false, &bytes, error);
    if (!status)
        status = api_whole(&steps, "steps", 1, 999999999999999, &n_steps, error);
    if (status)
        return status;
    if (!(step_time.value >= 0) || isinf(step_time.value))
        return remat_fail(error, REMAT_INVALID, "step_time",
                          "step_time is %g; it must be finite and not negative", step_time.value);
    if ((device && strlen(device) > 200) || (note && strlen(note) > 2000))
        return remat_fail(error, REMAT_INVALID, device && strlen(device) > 200 ? "device" : "note",
                          "device may have 200 bytes and note 2000");
    json_t *record =
        json_pack("{s:f, s:I, s:o?, s:s?, s:s?}", "step_time", step_time.value, "steps",
                  (json_int_t)n_steps, "peak", peak ? json_integer((json_int_t)bytes.value) : NULL,
                  "device", device, "note", note);
    if (!record)
        return remat_fail_memory(error);
    *ret_record = record;
    return REMAT_OK;
}
