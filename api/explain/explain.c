/* Why a schedule is as it is: facts, and sentences of them. What solvers gave is read from the
 * stored schedule; all else is replayed. Nothing is said without a number of this very schedule. */
#include "explain/story.h"

#include <math.h>
#include <stdlib.h>

/* ---- the link ---- */

/* What a copy each way would take of the node that is worth most to move. */
static void say_detour(story *s, const remat_link *link)
{
    const remat_detour *d = &s->e->detour;
    explain_say(s, "%s, of what runs again worth most to move, has ",
                s->profile->nodes[d->node].id);
    explain_bytes(s, (double)d->bytes);
    explain_say(s, ": ");
    explain_time(s, d->out);
    explain_say(s, " out and ");
    explain_time(s, d->back);
    explain_say(s, " back, against ");
    explain_time(s, d->again);
    explain_say(s, " to run it again, and until the %s, ",
                s->profile->joint ? "peak" : "loss's backward");
    explain_time(s, s->e->until);
    explain_say(s, " into the step, the link takes out at most ");
    explain_bytes(s, s->e->until * link->to_host);
}

static void tell_link(story *s, const remat_link *link)
{
    const remat_simulation *replay = &s->e->simulation;
    const remat_detour *d = &s->e->detour;
    explain_begin(s);
    if (s->e->n_moved > 0) {
        explain_say(s, "The link takes %zu value%s out, ", s->e->n_moved,
                    s->e->n_moved == 1 ? "" : "s");
        explain_bytes(s, (double)replay->bytes_to_host);
        explain_say(s, ", and ");
        explain_bytes(s, (double)replay->bytes_to_device);
        explain_say(s, " back, and compute ");
        if (replay->idle_time > 0) {
            explain_say(s, "waits for it ");
            explain_time(s, replay->idle_time);
        } else {
            explain_say(s, "never waits for it in");
        }
        explain_say(s, replay->idle_time > 0 ? " of " : " ");
        explain_time(s, s->makespan);
    } else {
        explain_say(s, "The link is idle");
    }
    if (d->node < s->profile->n_nodes) {
        explain_say(s, "; ");
        say_detour(s, link);
    } else if (s->e->n_moved == 0 && replay->recomputed_time > 0) {
        explain_say(s, ": nothing goes over it in the ");
        explain_time(s, s->makespan);
        explain_say(s, " of this step");
    } else if (s->e->n_moved == 0) {
        explain_say(s, ", for nothing runs twice in the ");
        explain_time(s, s->makespan);
        explain_say(s, " of this step");
    }
    explain_say(s, ".");
    explain_finish(s, "link");
    json_t *fact =
        json_pack("{s:b, s:I, s:I, s:I, s:f, s:f}", "idle", s->e->n_moved == 0, "moved",
                  (json_int_t)s->e->n_moved, "bytes_to_host", (json_int_t)replay->bytes_to_host,
                  "bytes_to_device", (json_int_t)replay->bytes_to_device, "waiting",
                  replay->idle_time, "until", s->e->until);
    if (d->node < s->profile->n_nodes)
        remat_json_set(&fact, "detour",
                       json_pack("{s:s, s:I, s:f, s:f, s:f}", "node", s->profile->nodes[d->node].id,
                                 "bytes", (json_int_t)d->bytes, "to_host_time", d->out,
                                 "to_device_time", d->back, "forward_time", d->again));
    explain_set(s, "transfers", fact);
}

/* ---- other machines ---- */

static void tell_steps(story *s, const remat_machine *machine, const remat_machine_facts *facts,
                       const remat_steps *list, const remat_simulation *replay)
{
    uint32_t steps = 0, worked = 0;
    double budget = remat_json_number(s->schedule, "budget");
    for (uint32_t j = 0; j < facts->n_branches; j++)
        steps += facts->lengths[j];
    for (size_t i = 0; i < list->length; i++)
        worked += list->items[i].kind == 0;
    explain_begin(s);
    explain_say(s,
                "%s in the %s model: no schedule within %.0f %s%s takes fewer %s than its %u, for "
                "%u steps on %u branches, ",
                remat_json_string(s->schedule, "solver"), machine->name, budget, machine->unit,
                budget == 1 ? "" : "s", machine->work, worked, steps, facts->n_branches);
    explain_time(s, s->makespan);
    explain_say(s, " in all.");
    explain_finish(s, "solver");
    explain_begin(s);
    explain_say(s, "%u %s are run again, which takes ", worked - steps, machine->work);
    explain_time(s, s->makespan - s->store_all);
    explain_say(s, " or ");
    explain_percent(s, s->makespan > 0 ? 1 - s->store_all / s->makespan : 0);
    explain_say(s, " of the step.");
    explain_finish(s, "recomputed");
    explain_begin(s);
    explain_say(s,
                "The peak, %llu %ss, is at operation %zu of %zu; storing everything takes %llu, "
                "and %llu are the least.",
                (unsigned long long)replay->peak, machine->unit, replay->peak_operation,
                list->length, (unsigned long long)facts->most, (unsigned long long)facts->least);
    explain_finish(s, "peak");
}

static remat_status read_steps(story *s, remat_error *error)
{
    const remat_options none = {{0}};
    const remat_machine *machine;
    remat_steps list = {0};
    remat_machine_facts facts = {0};
    remat_simulation replay;
    remat_status status = api_steps_of_schedule(s->schedule, &machine, &list, error);
    if (!status)
        status = machine->facts(s->profile, &none, &facts, error);
    if (!status)
        status = machine->replay(s->profile, &list, NULL, &replay, error);
    if (!status && !replay.valid)
        status = remat_fail(error, REMAT_INFEASIBLE, "operations", "operation %zu: %s",
                            replay.bad_operation, replay.reason);
    if (!status)
        tell_steps(s, machine, &facts, &list, &replay);
    remat_machine_facts_clear(&facts);
    remat_steps_clear(&list);
    return status;
}

/* ---- the whole ---- */

static remat_status read_bytes(story *s, remat_error *error)
{
    const json_t *way = json_object_get(s->schedule, "link");
    remat_operations list = {0};
    remat_explanation e = {.recomputed = NULL};
    remat_link link;
    remat_status status = way ? remat_link_decode(way, s->profile, &link, error) : REMAT_OK;
    if (!status)
        status = remat_operations_decode(json_object_get(s->schedule, "operations"), s->profile,
                                         "operations", &list, error);
    if (!status)
        status = remat_explain(s->profile, &list, way ? &link : NULL, &e, error);
    if (!status && !e.simulation.valid)
        status = remat_fail(error, REMAT_INFEASIBLE, "operations",
                            "the schedule is not valid for \"%.100s\": operation %zu: %.300s",
                            s->profile->name, e.simulation.bad_operation, e.simulation.reason);
    if (!status) {
        double arena = remat_json_number(s->schedule, "arena");
        s->e = &e;
        s->makespan = e.simulation.makespan;
        s->room = isnan(arena) ? (double)e.simulation.peak + s->others * (double)e.simulation.held
                               : arena;
        explain_solver(s);
        explain_proof(s);
        explain_recomputed(s);
        explain_peak(s, &list);
        explain_least(s);
        explain_next(s);
        if (way)
            tell_link(s, &link);
    }
    remat_explanation_clear(&e);
    remat_operations_clear(&list);
    return status;
}

/* All sentences, a space between two. */
static json_t *join_sentences(const json_t *sentences)
{
    char *text = NULL;
    size_t length, i;
    json_t *one, *joined = NULL;
    FILE *out = open_memstream(&text, &length);
    if (!out)
        return NULL;
    json_array_foreach(sentences, i, one)
    {
        fprintf(out, "%s%s", i > 0 ? " " : "", remat_json_string(one, "text"));
    }
    if (fclose(out) == 0)
        joined = json_string(text);
    free(text);
    return joined;
}

remat_status remat_answer_explanation(const json_t *schedule, const remat_profile *profile,
                                      json_t **ret_answer, remat_error *error)
{
    story s = {.schedule = schedule,
               .profile = profile,
               .unit = remat_time_unit_name(profile->time_unit),
               .makespan = remat_json_number(schedule, "makespan"),
               .store_all = remat_json_number(schedule, "store_all_makespan"),
               .budget = remat_json_number(schedule, "budget"),
               .answer = json_object(),
               .sentences = json_array()};
    if (remat_json_number(schedule, "in_flight") > 1)
        s.others = remat_json_number(schedule, "in_flight") - 1;
    explain_set(&s, "schedule_id", json_string(remat_json_string(schedule, "schedule_id")));
    explain_set(&s, "text", json_string("")); /* stands first */
    explain_set(&s, "time_unit", json_string(s.unit));
    remat_status status =
        json_object_get(schedule, "model") ? read_steps(&s, error) : read_bytes(&s, error);
    if (!status)
        explain_set(&s, "text", join_sentences(s.sentences));
    explain_set(&s, "sentences", s.sentences);
    if (!status && (s.failed || !s.answer))
        status = remat_fail_memory(error);
    if (status)
        json_decref(s.answer);
    else
        *ret_answer = s.answer;
    return status;
}
