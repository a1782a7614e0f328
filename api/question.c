/* Questions: what a request comes to once its profile is known, in one spelling. */
#include "api.h"

#include <math.h>
#include <string.h>

#include "remat/pebble.h"
#include "remat/portfolio.h"

/* ---- resolving ---- */

remat_status remat_subject_link(const remat_subject *subject, const remat_profile *profile,
                                remat_way *ret_way, remat_error *error)
{
    *ret_way = (remat_way){.given = subject->link != NULL};
    return subject->link ? remat_link_decode(subject->link, profile, &ret_way->link, error)
                         : REMAT_OK;
}

static remat_status resolve_budget(const remat_schedule_request *request, uint64_t store_all_peak,
                                   uint64_t *ret_budget, remat_error *error)
{
    double budget = request->budget.percent
                        ? floor(request->budget.value / 100 * (double)store_all_peak)
                        : request->budget.value;
    if (request->reserved.value > budget)
        return remat_fail(error, REMAT_INVALID, "reserved",
                          "reserved (%.17g bytes) is more than the budget (%.17g bytes)",
                          request->reserved.value, budget);
    budget -= request->reserved.value;
    if (budget >= (double)REMAT_MAX_BYTES)
        return remat_fail(error, REMAT_INVALID, "budget", "the budget of %.17g bytes is past 2^53",
                          budget);
    *ret_budget = (uint64_t)budget;
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

/* In pebbles percentages are of the slots that storing everything takes, and values have no
 * addresses. */
static remat_status resolve_pebbles(const remat_schedule_request *request,
                                    const remat_profile *profile, remat_question *question,
                                    remat_error *error)
{
    remat_pebble_problem problem;
    if (request->layout.given && request->layout.wanted)
        return remat_fail(error, REMAT_INVALID, "layout",
                          "schedules of the pebble model have no layout");
    if (request->subject.link)
        return remat_fail(error, REMAT_INVALID, "link", "the pebble model has no link to a host");
    remat_status status = remat_pebble_problem_of(profile, &question->options, &problem, error);
    if (status)
        return status;
    status =
        resolve_budget(request, remat_pebble_most_slots(&problem.join), &question->budget, error);
    remat_pebble_problem_clear(&problem);
    if (!status && question->budget > REMAT_PEBBLE_SLOTS)
        status = remat_fail(error, REMAT_INVALID, "budget",
                            "in the pebble model the budget is a number of slots, at most %d, not "
                            "%llu",
                            REMAT_PEBBLE_SLOTS, (unsigned long long)question->budget);
    return status;
}

remat_status remat_question_resolve(const remat_schedule_request *request, const char *profile_id,
                                    const remat_profile *profile, uint64_t store_all_peak,
                                    remat_question *ret_question, remat_error *error)
{
    const remat_subject *subject = &request->subject;
    remat_question question = {
        .solver = subject->solver, .options = subject->options, .effort = request->effort};
    memcpy(question.profile_id, profile_id, REMAT_ID_SIZE);
    remat_status status;
    if (remat_pebbles_asked(question.solver, &question.options)) {
        status = resolve_pebbles(request, profile, &question, error);
    } else {
        question.alignment = resolve_alignment(&request->layout, store_all_peak);
        status = remat_subject_link(subject, profile, &question.way, error);
        if (!status)
            status = resolve_budget(request, store_all_peak, &question.budget, error);
    }
    if (!status)
        *ret_question = question;
    return status;
}

/* ---- encoding ---- */

const char *remat_question_solver(const remat_question *question)
{
    return question->solver ? question->solver->name : "auto";
}

bool remat_question_improved(const remat_question *question)
{
    return !question->solver || question->solver->improved;
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
    for (size_t n = 0; json && solver && n < solver->n_options; n++) {
        size_t i = next_option(solver, last);
        last = solver->options[i].name;
        if (solver->options[i].silent && options->values[i] == solver->options[i].default_value)
            continue;
        if (json_object_set_new(json, last,
                                option_value(&solver->options[i], options->values[i]))) {
            json_decref(json);
            return NULL;
        }
    }
    return json;
}

static json_t *layout_encode(uint32_t alignment)
{
    return alignment ? json_pack("{s:i}", "alignment", (int)alignment) : json_false();
}

json_t *remat_question_encode(const remat_question *question)
{
    const remat_way *way = &question->way;
    json_t *link = way->given ? remat_link_encode(&way->link) : NULL;
    if (way->given && !link)
        return NULL;
    unsigned version = question->solver ? question->solver->version : REMAT_PORTFOLIO_VERSION;
    const char *effort =
        remat_question_improved(question) ? remat_effort_name(question->effort) : NULL;
    return json_pack("{s:I, s:s*, s:o, s:o*, s:o, s:s, s:s, s:o*}", "budget",
                     (json_int_t)question->budget, "effort", effort, "layout",
                     layout_encode(question->alignment), "link", link, "options",
                     remat_options_encode(question->solver, &question->options), "profile_id",
                     question->profile_id, "solver", remat_question_solver(question), "version",
                     version > 0 ? json_integer(version) : NULL);
}

remat_status remat_question_decode(const json_t *json, remat_question *ret_question,
                                   remat_error *error)
{
    remat_schedule_request request;
    json_t *asked = json_copy((json_t *)json);
    if (!asked)
        return remat_fail_memory(error);
    json_object_del(asked, "version");
    remat_status status = remat_schedule_request_decode(asked, &request, error);
    json_decref(asked);
    if (status)
        return status;
    const remat_subject *subject = &request.subject;
    remat_question question = {.solver = subject->solver,
                               .options = subject->options,
                               .effort = request.effort,
                               .alignment = resolve_alignment(&request.layout, UINT64_MAX)};
    memcpy(question.profile_id, subject->profile_id, REMAT_ID_SIZE);
    status = remat_subject_link(subject, NULL, &question.way, error);
    if (!status)
        status = resolve_budget(&request, 0, &question.budget, error);
    if (!status)
        *ret_question = question;
    return status;
}
