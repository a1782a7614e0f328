/* Questions: what a request comes to once its profile is known, in one spelling. */
#include "fields.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "remat/answer.h"

/* ---- resolving ---- */

/* What is left of an amount, percentages of most. */
static remat_status resolve_bytes(const remat_amount *amount, const remat_amount *reserved,
                                  const char *field, uint64_t most, uint64_t *ret_bytes,
                                  remat_error *error)
{
    double bytes = amount->percent ? floor(amount->value / 100 * (double)most) : amount->value;
    if (reserved->value > bytes)
        return remat_fail(error, REMAT_INVALID, "reserved",
                          "reserved (%.17g bytes) is more than the budget (%.17g bytes)",
                          reserved->value, bytes);
    bytes -= reserved->value;
    if (bytes >= (double)REMAT_MAX_BYTES)
        return remat_fail(error, REMAT_INVALID, field, "%s is %.17g bytes, which is past 2^53",
                          field, bytes);
    *ret_bytes = (uint64_t)bytes;
    return REMAT_OK;
}

/* Profiles this small count in units, not in bytes of a device. */
#define ALIGNED_FROM_BYTES 65536

uint32_t remat_default_alignment(uint64_t store_all_peak)
{
    return store_all_peak >= ALIGNED_FROM_BYTES ? REMAT_DEFAULT_ALIGNMENT : 1;
}

static uint32_t resolve_alignment(const remat_layout_wish *wish, uint64_t store_all_peak)
{
    if (!wish->wanted)
        return 0;
    return wish->alignment ? wish->alignment : remat_default_alignment(store_all_peak);
}

remat_status api_store_all(const remat_profile *profile, uint32_t in_flight,
                           uint64_t store_all_peak, uint64_t *ret_peak, remat_error *error)
{
    *ret_peak = store_all_peak;
    return in_flight > 1 ? remat_store_all_in_flight(profile, in_flight, ret_peak, error)
                         : REMAT_OK;
}

/* Of another machine percentages are of what storing everything takes, and values have no
 * addresses. */
static remat_status count_units(const remat_machine *machine, const remat_request *request,
                                const remat_profile *profile, uint64_t *ret_most,
                                remat_error *error)
{
    remat_machine_facts facts;
    if (request->layout.given && request->layout.wanted)
        return remat_fail(error, REMAT_INVALID, "layout",
                          "schedules of the %s model have no layout", machine->name);
    if (request->link)
        return remat_fail(error, REMAT_INVALID, "link", "the %s model has no link to a host",
                          machine->name);
    remat_status status = machine->facts(profile, &request->options, &facts, error);
    if (status)
        return status;
    *ret_most = facts.most;
    remat_machine_facts_clear(&facts);
    return REMAT_OK;
}

static remat_status check_units(const remat_machine *machine, const char *field, uint64_t units,
                                remat_error *error)
{
    if (!machine || units <= machine->most_budget)
        return REMAT_OK;
    return remat_fail(error, REMAT_INVALID, field,
                      "in the %s model the budget is a number of %ss, at most %llu, not %llu",
                      machine->name, machine->unit, (unsigned long long)machine->most_budget,
                      (unsigned long long)units);
}

static remat_status resolve_schedule(const remat_request *request, uint64_t most,
                                     const remat_machine *machine, remat_question *question,
                                     remat_error *error)
{
    remat_status status = resolve_bytes(&request->budget, &request->reserved, "budget", most,
                                        &question->budget, error);
    if (!machine)
        question->alignment = resolve_alignment(&request->layout, most);
    return status ? status : check_units(machine, "budget", question->budget, error);
}

static remat_status resolve_tradeoff(const remat_request *request, uint64_t most,
                                     const remat_machine *machine, remat_question *question,
                                     remat_error *error)
{
    question->points = request->points;
    if (!request->budgets)
        return REMAT_OK;
    question->budgets = calloc(request->points, sizeof *question->budgets);
    remat_status status = question->budgets ? REMAT_OK : remat_fail_memory(error);
    for (size_t i = 0; i < request->points && !status; i++) {
        char field[40];
        remat_amount amount, none = {0};
        snprintf(field, sizeof field, "budgets[%zu]", i);
        status =
            remat_amount_decode(json_array_get(request->budgets, i), field, true, &amount, error);
        if (!status)
            status = resolve_bytes(&amount, &none, field, most, &question->budgets[i], error);
        if (!status)
            status = check_units(machine, field, question->budgets[i], error);
    }
    return status;
}

/* profile NULL: of a request that is a question's text, which needs none. */
static remat_status resolve(const remat_request *request, const remat_profile *profile,
                            uint64_t store_all_peak, remat_question *question, remat_error *error)
{
    const remat_machine *machine =
        profile ? remat_machine_of(question->solver, &question->options) : NULL;
    uint64_t most = store_all_peak;
    const remat_link none = {0};
    const remat_problem problem = {
        .profile = profile, .link = request->link ? &none : NULL, .in_flight = question->in_flight};
    remat_status status = profile ? remat_check_in_flight(&problem, machine, error) : REMAT_OK;
    if (!status && profile)
        status = api_store_all(profile, question->in_flight, store_all_peak, &most, error);
    if (!status && machine)
        status = count_units(machine, request, profile, &most, error);
    if (!status)
        status = request->kind == REMAT_ASK_SCHEDULE
                     ? resolve_schedule(request, most, machine, question, error)
                     : resolve_tradeoff(request, most, machine, question, error);
    question->linked = request->link != NULL;
    if (!status && question->linked)
        status = remat_link_decode(request->link, profile, &question->link, error);
    return status ? status : remat_question_identify(question, error);
}

remat_status remat_question_resolve(const remat_request *request, const char *profile_id,
                                    const remat_profile *profile, uint64_t store_all_peak,
                                    remat_question *ret_question, remat_error *error)
{
    remat_question question = {.kind = request->kind,
                               .solver = request->solver,
                               .options = request->options,
                               .in_flight = request->in_flight,
                               .effort = request->effort};
    memcpy(question.profile_id, profile_id, REMAT_ID_SIZE);
    remat_status status = resolve(request, profile, store_all_peak, &question, error);
    if (status)
        remat_question_clear(&question);
    else
        *ret_question = question;
    return status;
}

void remat_question_clear(remat_question *question)
{
    free(question->text);
    free(question->budgets);
    *question = (remat_question){.text = NULL};
}

/* The largest budget that a trade-off of another machine asks for. */
static remat_status most_units(const remat_machine *machine, const remat_question *question,
                               const remat_profile *profile, uint64_t *ret_most, remat_error *error)
{
    remat_machine_facts facts;
    remat_status status = machine->facts(profile, &question->options, &facts, error);
    if (status)
        return status;
    *ret_most = question->budgets ? 0 : facts.most;
    for (size_t i = 0; question->budgets && i < question->points; i++)
        *ret_most = question->budgets[i] > *ret_most ? question->budgets[i] : *ret_most;
    remat_machine_facts_clear(&facts);
    return REMAT_OK;
}

remat_status remat_question_query(const remat_question *question, const remat_profile *profile,
                                  uint64_t store_all_peak, remat_query *ret_query,
                                  remat_error *error)
{
    const remat_machine *machine = remat_machine_of(question->solver, &question->options);
    remat_query query = {.solver = question->solver,
                         .problem = {.profile = profile,
                                     .link = question->linked ? &question->link : NULL,
                                     .options = question->options,
                                     .max_budget = question->budget,
                                     .in_flight = question->in_flight},
                         .curve = question->kind == REMAT_ASK_TRADEOFF,
                         .budget = question->budget,
                         .alignment = question->alignment,
                         .effort = question->effort};
    remat_status status = REMAT_OK;
    if (query.curve && machine)
        status = most_units(machine, question, profile, &query.problem.max_budget, error);
    else if (query.curve)
        status = api_store_all(profile, question->in_flight, store_all_peak,
                               &query.problem.max_budget, error);
    if (!status)
        *ret_query = query;
    return status;
}

/* ---- encoding ---- */

const char *remat_question_solver(const remat_question *question)
{
    return question->solver ? question->solver->name : "auto";
}

static json_t *option_value(const remat_option *option, double value)
{
    switch (option->type) {
    case REMAT_OPTION_INTEGER:
        return json_integer((json_int_t)value);
    case REMAT_OPTION_NUMBER:
        return json_real(value);
    case REMAT_OPTION_BOOLEAN:
        return json_boolean(value != 0);
    case REMAT_OPTION_CHOICE:
        break;
    }
    return json_string(option->choices[(size_t)value]);
}

/* The option whose name follows `last` in alphabetical order (NULL: the first), n_options if none
 * does. */
static size_t next_option(const remat_solver *solver, const char *last)
{
    size_t next = solver->n_options;
    for (size_t i = 0; i < solver->n_options; i++) {
        const char *name = solver->options[i].name;
        if ((!last || strcmp(name, last) > 0) &&
            (next == solver->n_options || strcmp(name, solver->options[next].name) < 0))
            next = i;
    }
    return next;
}

json_t *remat_options_encode(const remat_solver *solver, const remat_options *options)
{
    json_t *json = json_object();
    const char *last = NULL;
    for (size_t n = 0; solver && n < solver->n_options; n++) {
        size_t i = next_option(solver, last);
        last = solver->options[i].name;
        if (solver->options[i].silent && options->values[i] == solver->options[i].default_value)
            continue;
        remat_json_set(&json, last, option_value(&solver->options[i], options->values[i]));
    }
    return json;
}

static json_t *layout_encode(uint32_t alignment)
{
    return alignment ? json_pack("{s:i}", "alignment", (int)alignment) : json_false();
}

static json_t *budgets_encode(const remat_question *question)
{
    json_t *list = json_array();
    for (size_t i = 0; i < question->points; i++)
        remat_json_append(&list, json_integer((json_int_t)question->budgets[i]));
    return list;
}

/* Its members in alphabetical order. */
static json_t *question_encode(const remat_question *question)
{
    bool schedule = question->kind == REMAT_ASK_SCHEDULE;
    bool improved = !question->solver || question->solver->improved;
    unsigned version = question->solver ? question->solver->version : REMAT_PORTFOLIO_VERSION;
    json_t *json = json_object();
    if (schedule)
        remat_json_set(&json, "budget", json_integer((json_int_t)question->budget));
    if (question->budgets)
        remat_json_set(&json, "budgets", budgets_encode(question));
    if (schedule && improved)
        remat_json_set(&json, "effort", json_string(remat_effort_name(question->effort)));
    if (question->in_flight > 1)
        remat_json_set(&json, "in_flight", json_integer(question->in_flight));
    if (schedule)
        remat_json_set(&json, "layout", layout_encode(question->alignment));
    if (question->linked)
        remat_json_set(&json, "link", remat_link_encode(&question->link));
    remat_json_set(&json, "options", remat_options_encode(question->solver, &question->options));
    if (!schedule && !question->budgets)
        remat_json_set(&json, "points", json_integer((json_int_t)question->points));
    remat_json_set(&json, "profile_id", json_string(question->profile_id));
    remat_json_set(&json, "solver", json_string(remat_question_solver(question)));
    if (version > 0)
        remat_json_set(&json, "version", json_integer(version));
    return json;
}

remat_status remat_question_identify(remat_question *question, remat_error *error)
{
    json_t *json = question_encode(question);
    question->text = json ? remat_json_text(json) : NULL;
    json_decref(json);
    if (!question->text)
        return remat_fail_memory(error);
    remat_sha256_hex(question->text, strlen(question->text), question->id);
    return REMAT_OK;
}

remat_status remat_question_read(const char *text, size_t length, remat_question *ret_question,
                                 remat_error *error)
{
    json_t *json = NULL;
    remat_request request;
    remat_status status = remat_json_parse(text, length, &json, error);
    if (status)
        return status;
    json_object_del(json, "version");
    json_object_del(json, "job");
    status = remat_request_decode(
        json, json_object_get(json, "budget") ? REMAT_ASK_SCHEDULE : REMAT_ASK_TRADEOFF, &request,
        error);
    if (!status)
        status = remat_question_resolve(&request, request.profile_id, NULL, UINT64_MAX,
                                        ret_question, error);
    json_decref(json);
    return status;
}
