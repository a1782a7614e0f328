/* The bodies of requests. */
#include "fields.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_WAIT 30.0
#define MAX_WAIT 3600.0
#define DEFAULT_POINTS 50

/* The fields that a subject is read from. */
typedef struct raw_subject {
    const char *profile_id, *solver;
    const json_t *profile, *options, *link;
    remat_number wait;
} raw_subject;

static remat_status read_options(const json_t *json, remat_subject *subject, remat_error *error)
{
    const char *name;
    json_t *value;
    if (!json || json_object_size(json) == 0)
        return REMAT_OK;
    if (!subject->solver)
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
        remat_status status = remat_options_set(subject->solver, &subject->options, name, number,
                                                json_string_value(value), error);
        if (status)
            return status;
    }
    return REMAT_OK;
}

static remat_status read_wait(remat_number wait, remat_subject *subject, remat_error *error)
{
    subject->wait = wait.given ? wait.value : DEFAULT_WAIT;
    if (!(subject->wait >= 0 && subject->wait <= MAX_WAIT))
        return remat_fail(error, REMAT_INVALID, "wait",
                          "wait is %g; it must be from 0 to %g seconds", subject->wait, MAX_WAIT);
    return REMAT_OK;
}

static remat_status read_subject(const raw_subject *raw, remat_subject *ret_subject,
                                 remat_error *error)
{
    remat_subject subject = {.profile = raw->profile, .link = raw->link};
    if ((raw->profile_id != NULL) + (raw->profile != NULL) != 1)
        return remat_fail(error, REMAT_INVALID, "profile_id",
                          "give one of profile_id and profile, not %s",
                          raw->profile ? "both" : "none");
    if (raw->profile_id) {
        if (!remat_is_id(raw->profile_id))
            return remat_fail(error, REMAT_INVALID, "profile_id",
                              "profile_id must be 64 lower-case hex digits");
        memcpy(subject.profile_id, raw->profile_id, REMAT_ID_SIZE);
    }
    if (raw->solver && strcmp(raw->solver, "auto") != 0) {
        subject.solver = remat_solver_find(raw->solver);
        if (!subject.solver)
            return remat_fail(error, REMAT_INVALID, "solver", "there is no solver \"%.60s\"",
                              raw->solver);
        subject.options = remat_options_default(subject.solver);
    }
    remat_status status = read_options(raw->options, &subject, error);
    if (!status)
        status = read_wait(raw->wait, &subject, error);
    if (!status)
        *ret_subject = subject;
    return status;
}

#define SUBJECT_RULES(raw)                                                                         \
    {"profile_id", FIELD_STRING, false, &(raw).profile_id},                                        \
        {"profile", FIELD_OBJECT, false, &(raw).profile},                                          \
        {"solver", FIELD_STRING, false, &(raw).solver},                                            \
        {"options", FIELD_OBJECT, false, &(raw).options},                                          \
        {"link", FIELD_OBJECT, false, &(raw).link},                                                \
    {                                                                                              \
        "wait", FIELD_NUMBER, false, &(raw).wait                                                   \
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
        remat_status status = fields_read(json, "layout.", rules, 1, error);
        if (status)
            return status;
        double bytes = alignment.value;
        uint32_t whole = bytes >= 1 && bytes <= (double)REMAT_MAX_ALIGNMENT ? (uint32_t)bytes : 0;
        if (whole == 0 || whole != bytes || (whole & (whole - 1)) != 0)
            return remat_fail(error, REMAT_INVALID, "layout.alignment",
                              "layout.alignment is %g; it must be a power of two from 1 to %u",
                              bytes, (unsigned)REMAT_MAX_ALIGNMENT);
        wish.alignment = whole;
    }
    *ret_wish = wish;
    return REMAT_OK;
}

static remat_status read_effort(const char *name, remat_schedule_request *request,
                                remat_error *error)
{
    const remat_solver *solver = request->subject.solver;
    if (solver && !solver->improved)
        return remat_fail(error, REMAT_INVALID, "effort",
                          "effort is for auto and interval; the lists of %s are not improved",
                          solver->name);
    for (int k = REMAT_QUICK; k <= REMAT_THOROUGH; k++)
        if (strcmp(name, remat_effort_name((remat_effort)k)) == 0) {
            request->effort = (remat_effort)k;
            return REMAT_OK;
        }
    return remat_fail(error, REMAT_INVALID, "effort",
                      "effort is \"%.40s\"; it is quick or thorough", name);
}

remat_status remat_schedule_request_decode(const json_t *json, remat_schedule_request *ret_request,
                                           remat_error *error)
{
    raw_subject raw = {0};
    const json_t *budget = NULL, *reserved = NULL, *layout = NULL;
    const char *effort = NULL;
    remat_schedule_request request = {0};
    const field_rule rules[] = {SUBJECT_RULES(raw),
                                {"budget", FIELD_ANY, true, &budget},
                                {"reserved", FIELD_ANY, false, &reserved},
                                {"layout", FIELD_ANY, false, &layout},
                                {"effort", FIELD_STRING, false, &effort}};
    remat_status status = fields_read(json, "", rules, sizeof rules / sizeof *rules, error);
    if (!status)
        status = read_subject(&raw, &request.subject, error);
    if (!status)
        status = remat_amount_decode(budget, "budget", true, &request.budget, error);
    if (!status && reserved)
        status = remat_amount_decode(reserved, "reserved", false, &request.reserved, error);
    if (!status)
        status = read_layout(layout, &request.layout, error);
    if (!status && effort)
        status = read_effort(effort, &request, error);
    if (!status)
        *ret_request = request;
    return status;
}

static remat_status read_budgets(const json_t *json, remat_tradeoff_request *request,
                                 remat_error *error)
{
    size_t n = json_array_size(json);
    if (n < 1 || n > REMAT_MAX_TRADEOFF_POINTS)
        return remat_fail(error, REMAT_INVALID, "budgets",
                          "budgets has %zu entries; 1 to %d are allowed", n,
                          REMAT_MAX_TRADEOFF_POINTS);
    for (size_t i = 0; i < n; i++) {
        char field[40];
        snprintf(field, sizeof field, "budgets[%zu]", i);
        remat_status status =
            remat_amount_decode(json_array_get(json, i), field, true, &request->budgets[i], error);
        if (status)
            return status;
    }
    request->n_budgets = n;
    return REMAT_OK;
}

remat_status remat_tradeoff_request_decode(const json_t *json, remat_tradeoff_request *ret_request,
                                           remat_error *error)
{
    raw_subject raw = {0};
    const json_t *budgets = NULL;
    remat_number points = {0};
    remat_tradeoff_request request = {0};
    const field_rule rules[] = {SUBJECT_RULES(raw),
                                {"points", FIELD_NUMBER, false, &points},
                                {"budgets", FIELD_ARRAY, false, &budgets}};
    remat_status status = fields_read(json, "", rules, sizeof rules / sizeof *rules, error);
    if (!status)
        status = read_subject(&raw, &request.subject, error);
    if (status)
        return status;
    if (budgets && points.given)
        return remat_fail(error, REMAT_INVALID, "points", "give points or budgets, not both");
    if (budgets) {
        status = read_budgets(budgets, &request, error);
        if (!status)
            *ret_request = request;
        return status;
    }
    double n = points.given ? points.value : DEFAULT_POINTS;
    if (!(n >= 2 && n <= REMAT_MAX_TRADEOFF_POINTS) || n != floor(n))
        return remat_fail(error, REMAT_INVALID, "points",
                          "points is %g; it must be an integer from 2 to %d", n,
                          REMAT_MAX_TRADEOFF_POINTS);
    request.points = (size_t)n;
    *ret_request = request;
    return REMAT_OK;
}

remat_status remat_simulation_request_decode(const json_t *json,
                                             remat_simulation_request *ret_request,
                                             remat_error *error)
{
    raw_subject raw = {0};
    remat_simulation_request request = {0};
    const field_rule rules[] = {{"profile_id", FIELD_STRING, false, &raw.profile_id},
                                {"profile", FIELD_OBJECT, false, &raw.profile},
                                {"operations", FIELD_ARRAY, true, &request.operations},
                                {"link", FIELD_OBJECT, false, &raw.link}};
    remat_status status = fields_read(json, "", rules, sizeof rules / sizeof *rules, error);
    if (!status)
        status = read_subject(&raw, &request.subject, error);
    if (!status)
        *ret_request = request;
    return status;
}

remat_status remat_measurement_decode(const json_t *json, json_t **ret_record, remat_error *error)
{
    remat_number step_time = {0}, steps = {.value = 1};
    const json_t *peak = NULL;
    const char *device = NULL, *note = NULL;
    remat_amount bytes = {0};
    const field_rule rules[] = {{"step_time", FIELD_NUMBER, true, &step_time},
                                {"peak", FIELD_ANY, false, &peak},
                                {"steps", FIELD_NUMBER, false, &steps},
                                {"device", FIELD_STRING, false, &device},
                                {"note", FIELD_STRING, false, &note}};
    remat_status status = fields_read(json, "", rules, sizeof rules / sizeof *rules, error);
    if (!status && peak)
        status = remat_amount_decode(peak, "peak", false, &bytes, error);
    if (status)
        return status;
    if (!(step_time.value >= 0) || isinf(step_time.value))
        return remat_fail(error, REMAT_INVALID, "step_time",
                          "step_time is %g; it must be finite and not negative", step_time.value);
    if (!(steps.value >= 1 && steps.value < 1e15) || steps.value != floor(steps.value))
        return remat_fail(error, REMAT_INVALID, "steps",
                          "steps is %g; it must be an integer of at least 1", steps.value);
    if ((device && strlen(device) > 200) || (note && strlen(note) > 2000))
        return remat_fail(error, REMAT_INVALID, device && strlen(device) > 200 ? "device" : "note",
                          "device may have 200 bytes and note 2000");
    json_t *record = json_pack("{s:f, s:I, s:o?, s:s?, s:s?}", "step_time", step_time.value,
                               "steps", (json_int_t)steps.value, "peak",
                               peak ? json_integer((json_int_t)bytes.value) : NULL, "device",
                               device, "note", note);
    if (!record)
        return remat_fail_memory(error);
    *ret_record = record;
    return REMAT_OK;
}
