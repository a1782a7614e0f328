/* The judge of answers. Nothing of what they say is believed: whoever sent them may be wrong, or
 * another than one thinks. */
#include "fields.h"

#include "remat/answer.h"

#include <math.h>
#include <string.h>

#define TOLERANCE 1e-9 /* of times: sums in another order, on another machine */

typedef struct trial {
    const remat_profile *profile;
    const remat_question *question; /* or NULL */
    const json_t *answer;
    remat_judgement *found;
    remat_error *error;
} trial;

static const json_t *member(const trial *t, const char *name)
{
    return json_object_get(t->answer, name);
}

/* ---- whose answer it is ---- */

static remat_status check_text(const trial *t, const char *name, const char *expected)
{
    const char *said = remat_json_string(t->answer, name);
    if (strcmp(said, expected) == 0)
        return REMAT_OK;
    return remat_fail(t->error, REMAT_INVALID, name, "%s is \"%.70s\" and not \"%.70s\"", name,
                      said, expected);
}

static remat_status check_nodes(const trial *t)
{
    const json_t *nodes = member(t, "nodes");
    const remat_profile *profile = t->profile;
    if (!nodes && !t->question)
        return REMAT_OK;
    if (json_array_size(nodes) != profile->n_nodes)
        return remat_fail(t->error, REMAT_INVALID, "nodes",
                          "the schedule is for another network: it has %zu nodes, \"%.100s\" %u",
                          json_array_size(nodes), profile->name, profile->n_nodes);
    for (uint32_t v = 0; v < profile->n_nodes; v++) {
        const char *id = json_string_value(json_array_get(nodes, v));
        if (!id || strcmp(id, profile->nodes[v].id) != 0)
            return remat_fail(t->error, REMAT_INVALID, "nodes",
                              "the schedule is for another network: its node %u is \"%.100s\", not "
                              "\"%.100s\"",
                              v, id ? id : "", profile->nodes[v].id);
    }
    return REMAT_OK;
}

static bool same_link(const remat_link *a, const remat_link *b)
{
    return a->to_host == b->to_host && a->to_device == b->to_device && a->latency == b->latency &&
           a->shared == b->shared;
}

static remat_status check_link(const trial *t)
{
    const json_t *way = member(t, "link");
    remat_judgement *found = t->found;
    found->linked = way != NULL;
    remat_status status =
        way ? remat_link_decode(way, t->profile, &found->link, t->error) : REMAT_OK;
    if (status || !t->question)
        return status;
    if (found->linked == t->question->linked &&
        (!way || same_link(&found->link, &t->question->link)))
        return REMAT_OK;
    return remat_fail(t->error, REMAT_INVALID, "link", "the schedule is for another link");
}

static remat_status check_origin(const trial *t, const char *profile_id)
{
    const remat_solver *solver = t->question ? t->question->solver : NULL;
    remat_status status = profile_id ? check_text(t, "profile_id", profile_id) : REMAT_OK;
    if (!status && t->question)
        status = check_text(t, "requested_solver", solver ? solver->name : "auto");
    if (!status)
        status = check_nodes(t);
    return status ? status : check_link(t);
}

/* ---- figures ---- */

/* A figure that the answer may leave out, unless it is needed. */
static remat_status check_number(const trial *t, const char *name, double expected, bool exact,
                                 bool needed)
{
    const json_t *said = member(t, name);
    const double value = json_number_value(said), slack = TOLERANCE * (1 + fabs(expected));
    if (!said && !needed)
        return REMAT_OK;
    if (exact ? json_is_integer(said) && value == expected
              : json_is_number(said) && fabs(value - expected) <= slack)
        return REMAT_OK;
    return remat_fail(t->error, REMAT_INVALID, name, "%s is %s%.17g; replayed it is %.17g", name,
                      json_is_number(said) ? "" : "no number, ", value, expected);
}

static double excess(double a, double b)
{
    return b > 0 ? a / b - 1 : 0;
}

/* What holds of an answer by itself, and of the replay. */
static remat_status check_times(const trial *t, double store_all)
{
    const remat_simulation *s = &t->found->simulation;
    const json_t *bound = member(t, "lower_bound");
    const double least = json_number_value(bound);
    remat_status status = check_number(t, "makespan", s->makespan, false, true);
    if (!status)
        status = check_number(t, "store_all_makespan", store_all, false, false);
    if (!status)
        status = check_number(t, "overhead", excess(s->makespan, store_all), false, false);
    if (!status && bound && !(least >= 0 && least <= s->makespan * (1 + TOLERANCE)))
        return remat_fail(t->error, REMAT_INVALID, "lower_bound",
                          "lower_bound is %.17g; the makespan is %.17g", least, s->makespan);
    return status || !bound ? status
                            : check_number(t, "gap", excess(s->makespan, least), false, false);
}

/* Bytes, or units of another machine, that must be within the budget. */
static remat_status check_within(const trial *t, const char *name, uint64_t bytes)
{
    const json_t *said = member(t, "budget");
    const double budget = json_number_value(said);
    remat_status status = check_number(t, name, (double)bytes, true, true);
    if (status || (!said && !t->question))
        return status;
    if (t->question)
        status = check_number(t, "budget", (double)t->question->budget, true, true);
    if (status || (double)bytes <= budget)
        return status;
    return remat_fail(t->error, REMAT_INVALID, name, "%s is %llu, more than the budget of %.0f",
                      name, (unsigned long long)bytes, budget);
}

static remat_status check_figures(const trial *t)
{
    const uint32_t in_flight = t->found->in_flight;
    uint64_t store_all = 0;
    remat_status status = remat_store_all_in_flight(t->profile, in_flight, &store_all, t->error);
    if (!status && in_flight > 1)
        status = check_number(t, "held", (double)t->found->simulation.held, true, true);
    if (!status)
        status = check_within(t, "peak", t->found->simulation.peak);
    if (!status && t->found->placed)
        status = check_within(t, "arena", t->found->layout.arena);
    if (!status)
        status = check_number(t, "store_all_peak", (double)store_all, true, false);
    if (!status)
        status =
            check_number(t, "recomputed_time", t->found->simulation.recomputed_time, false, false);
    return status ? status : check_times(t, remat_store_all_makespan(t->profile));
}

/* ---- the list ---- */

static remat_status check_valid(const trial *t, size_t length)
{
    const remat_simulation *s = &t->found->simulation;
    if (s->valid && length > 0 && isfinite(s->makespan))
        return REMAT_OK;
    return remat_fail(t->error, REMAT_INVALID, "operations",
                      "the schedule is not valid for \"%.100s\": operation %zu of %zu: %.300s",
                      t->profile->name, s->bad_operation, length,
                      s->valid ? "the list is empty, or its times are past all numbers"
                               : s->reason);
}

/* How many micro-batches the figures are of. */
static remat_status read_in_flight(const trial *t, uint32_t *ret_in_flight)
{
    const json_t *said = member(t, "in_flight");
    const json_int_t n = said ? json_integer_value(said) : 1;
    *ret_in_flight = (uint32_t)n;
    if (n < 1 || n > (json_int_t)REMAT_MOST_IN_FLIGHT)
        return remat_fail(t->error, REMAT_INVALID, "in_flight",
                          "in_flight is no number from 1 to %u", REMAT_MOST_IN_FLIGHT);
    if (t->question && t->question->in_flight != *ret_in_flight)
        return remat_fail(t->error, REMAT_INVALID, "in_flight",
                          "the schedule is for %u micro-batches in flight, not for %u",
                          *ret_in_flight, t->question->in_flight);
    const remat_problem problem = {.profile = t->profile,
                                   .link = t->found->linked ? &t->found->link : NULL,
                                   .in_flight = *ret_in_flight};
    return *ret_in_flight > 1 ? remat_check_in_flight(&problem, NULL, t->error) : REMAT_OK;
}

static remat_status replay(const trial *t)
{
    remat_judgement *found = t->found;
    uint32_t in_flight;
    remat_status status = read_in_flight(t, &in_flight);
    if (status)
        return status;
    status = remat_operations_decode(member(t, "operations"), t->profile, "operations",
                                     &found->operations, t->error);
    if (!status)
        status = remat_simulate(t->profile, &found->operations, found->linked ? &found->link : NULL,
                                NULL, NULL, &found->simulation, t->error);
    if (!status)
        status = check_valid(t, found->operations.length);
    if (!status)
        remat_put_in_flight(&found->simulation, in_flight);
    found->in_flight = in_flight;
    return status;
}

/* ---- addresses ---- */

static bool is_allocation(const json_t *item, const remat_allocation *one)
{
    const char *kind = json_string_value(json_array_get(item, 1));
    const char *expected = remat_allocation_kind_name((remat_allocation_kind)one->kind);
    json_int_t offset = json_integer_value(json_array_get(item, 3));
    return kind && strcmp(kind, expected) == 0 && json_is_integer(json_array_get(item, 3)) &&
           json_integer_value(json_array_get(item, 0)) == one->first &&
           json_integer_value(json_array_get(item, 2)) == (json_int_t)one->index &&
           json_integer_value(json_array_get(item, 4)) == one->result && /* none said: the first */
           offset >= 0 && offset < (json_int_t)REMAT_MAX_BYTES;
}

/* Takes over the offsets of the answer. */
static remat_status read_offsets(const trial *t, const json_t *allocations)
{
    remat_layout *layout = &t->found->layout;
    if (json_array_size(allocations) != layout->n)
        return remat_fail(t->error, REMAT_INVALID, "allocations",
                          "the schedule has %zu allocations; its operations make %zu",
                          json_array_size(allocations), layout->n);
    layout->arena = 0;
    for (size_t i = 0; i < layout->n; i++) {
        remat_allocation *one = &layout->items[i];
        const json_t *item = json_array_get(allocations, i);
        if (!is_allocation(item, one))
            return remat_fail(t->error, REMAT_INVALID, "allocations",
                              "allocations[%zu] is not the %s of index %u at operation %d, with an "
                              "offset",
                              i, remat_allocation_kind_name((remat_allocation_kind)one->kind),
                              one->index, one->first);
        one->offset = (uint64_t)json_integer_value(json_array_get(item, 3));
        uint64_t end = one->offset + one->bytes;
        layout->arena = end > layout->arena ? end : layout->arena;
    }
    return REMAT_OK;
}

/* Where several are in flight the arena begins with a block of what is held for each of them. */
static remat_status read_block(const trial *t)
{
    remat_layout *layout = &t->found->layout;
    const json_t *said = member(t, "held_arena");
    const uint64_t block = (uint64_t)json_integer_value(said), n = t->found->in_flight;
    if (json_integer_value(said) < 0 || block > REMAT_MAX_BYTES / n)
        return remat_fail(t->error, REMAT_INVALID, "held_arena",
                          "held_arena is no number of bytes of which there can be %llu",
                          (unsigned long long)n);
    layout->in_flight = t->found->in_flight;
    layout->held_arena = block;
    layout->arena = block * n > layout->arena ? block * n : layout->arena;
    return REMAT_OK;
}

static remat_status check_addresses(const trial *t)
{
    const json_t *allocations = member(t, "allocations");
    const json_int_t alignment = json_integer_value(member(t, "alignment"));
    remat_judgement *found = t->found;
    if (t->question && (t->question->alignment > 0) != (allocations != NULL))
        return remat_fail(t->error, REMAT_INVALID, "allocations",
                          "addresses were %sasked for, and there are %s", allocations ? "not " : "",
                          allocations ? "some" : "none");
    if (!allocations)
        return REMAT_OK;
    if (alignment < 1 || alignment > (json_int_t)REMAT_MAX_ALIGNMENT ||
        (t->question && alignment != t->question->alignment))
        return remat_fail(t->error, REMAT_INVALID, "alignment",
                          "the alignment of the schedule is %lld", (long long)alignment);
    found->placed = true;
    remat_status status = remat_layout_unplaced(t->profile, &found->operations, (uint64_t)alignment,
                                                &found->layout, t->error);
    if (!status)
        status = read_offsets(t, allocations);
    if (!status && found->in_flight > 1)
        status = read_block(t);
    return status ? status
                  : remat_layout_check(t->profile, &found->operations, &found->layout, t->error);
}

/* ---- another machine ---- */

static remat_status judge_steps(const trial *t, bool figures)
{
    remat_steps list = {0};
    const remat_machine *machine, *asked = NULL;
    if (t->question)
        asked = remat_machine_of(t->question->solver, &t->question->options);
    remat_status status = api_steps_of_schedule(t->answer, &machine, &list, t->error);
    if (!status && t->question && machine != asked)
        status = remat_fail(t->error, REMAT_INVALID, "model",
                            "schedules of the %s model were not asked for", machine->name);
    if (!status)
        status = machine->replay(t->profile, &list, NULL, &t->found->simulation, t->error);
    if (!status)
        status = check_valid(t, list.length);
    remat_steps_clear(&list);
    if (!status && figures)
        status = check_within(t, "peak", t->found->simulation.peak);
    const json_t *store_all = member(t, "store_all_makespan");
    return status || !figures ? status
                              : check_times(t, store_all ? json_number_value(store_all)
                                                         : t->found->simulation.makespan);
}

/* ---- all of it ---- */

static remat_status judge(const trial *t, bool figures)
{
    if (member(t, "model"))
        return judge_steps(t, figures);
    if (t->question && remat_machine_of(t->question->solver, &t->question->options))
        return remat_fail(t->error, REMAT_INVALID, "model",
                          "a schedule of another model was asked for");
    if (!json_is_array(member(t, "operations")))
        return remat_fail(t->error, REMAT_INVALID, "operations",
                          "this is not a schedule: it has no array \"operations\"");
    remat_status status = replay(t);
    if (!status)
        status = check_addresses(t);
    return status || !figures ? status : check_figures(t);
}

remat_status remat_schedule_judge(const remat_profile *profile, const char *profile_id,
                                  const remat_question *question, const json_t *answer,
                                  remat_judgement *ret_judgement, remat_error *error)
{
    remat_judgement found = {.linked = false};
    const trial t = {profile, question, answer, &found, error};
    remat_status status = check_origin(&t, profile_id);
    if (!status)
        status = judge(&t, profile_id != NULL);
    if (status || !ret_judgement)
        remat_judgement_clear(&found);
    else
        *ret_judgement = found;
    return status;
}

void remat_judgement_clear(remat_judgement *judgement)
{
    remat_operations_clear(&judgement->operations);
    remat_layout_clear(&judgement->layout);
    *judgement = (remat_judgement){.linked = false};
}
