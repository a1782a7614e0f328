/* Answers that are computed from a request alone: the same for a server and for a command that
 * solves in its own process. */
#include "fields.h"

#include "remat/answer.h"

#include <math.h>
#include <stdlib.h>

remat_status remat_answer_simulation(const remat_request *request, const remat_profile *profile,
                                     json_t **ret_answer, remat_error *error)
{
    remat_operations operations = {0};
    remat_link link;
    remat_simulation simulation;
    double *recomputed = calloc(profile->n_nodes, sizeof *recomputed);
    remat_status status = recomputed ? REMAT_OK : remat_fail_memory(error);
    if (!status && request->link)
        status = remat_link_decode(request->link, profile, &link, error);
    const remat_problem problem = {
        .profile = profile, .link = request->link ? &link : NULL, .in_flight = request->in_flight};
    if (!status && request->in_flight > 1)
        status = remat_check_in_flight(&problem, NULL, error);
    if (!status)
        status =
            remat_operations_decode(request->operations, profile, "operations", &operations, error);
    if (!status)
        status = remat_simulate(profile, &operations, request->link ? &link : NULL, NULL,
                                recomputed, &simulation, error);
    if (!status)
        remat_put_in_flight(&simulation, request->in_flight);
    if (!status && !isfinite(simulation.makespan))
        status = remat_fail(error, REMAT_INVALID, "operations",
                            "the times of the operations add up to %g, which is past all numbers",
                            simulation.makespan);
    json_t *answer =
        status ? NULL
               : remat_simulation_encode(profile, &simulation, request->in_flight, recomputed);
    remat_operations_clear(&operations);
    free(recomputed);
    if (status)
        return status;
    if (!answer)
        return remat_fail_memory(error);
    *ret_answer = answer;
    return REMAT_OK;
}

/* A schedule that is played again. */
typedef struct playing {
    const json_t *schedule;
    json_t *operations; /* borrowed */
    const remat_profile *profile;
    remat_moment *moments;
    remat_simulation simulation;
    json_t *values; /* owned; NULL: none */
    remat_error *error;
} playing;

/* What the micro-batches hold that wait: it is there at every moment. */
static void add_others(playing *p)
{
    const double in_flight = json_number_value(json_object_get(p->schedule, "in_flight"));
    const uint32_t n = in_flight > 1 ? (uint32_t)in_flight : 1;
    remat_put_in_flight(&p->simulation, n);
    for (size_t i = 0; i < json_array_size(p->operations); i++) {
        p->moments[i].memory_during += (n - 1) * p->simulation.held;
        p->moments[i].memory_after += (n - 1) * p->simulation.held;
    }
}

static remat_status play_bytes(playing *p)
{
    remat_operations list = {0};
    remat_layout layout = {0};
    remat_link link;
    const json_t *way = json_object_get(p->schedule, "link");
    remat_status status = way ? remat_link_decode(way, p->profile, &link, p->error) : REMAT_OK;
    if (!status)
        status = remat_operations_decode(p->operations, p->profile, "operations", &list, p->error);
    if (!status)
        status = remat_simulate(p->profile, &list, way ? &link : NULL, p->moments, NULL,
                                &p->simulation, p->error);
    if (!status && p->simulation.valid)
        add_others(p);
    if (!status && p->simulation.valid)
        status = remat_layout_unplaced(p->profile, &list, 1, &layout, p->error);
    if (!status && !(p->values = remat_values_encode(&layout)))
        status = remat_fail_memory(p->error);
    remat_operations_clear(&list);
    remat_layout_clear(&layout);
    return status;
}

static remat_status play_steps(playing *p)
{
    remat_steps list = {0};
    const remat_machine *machine;
    remat_status status = api_steps_of_schedule(p->schedule, &machine, &list, p->error);
    if (!status)
        status = machine->replay(p->profile, &list, p->moments, &p->simulation, p->error);
    remat_steps_clear(&list);
    return status;
}

static remat_status show(const playing *p, json_t **ret_answer)
{
    if (!p->simulation.valid)
        return remat_fail(p->error, REMAT_INFEASIBLE, "operations",
                          "the schedule is not valid for \"%.100s\": operation %zu: %.300s",
                          p->profile->name, p->simulation.bad_operation, p->simulation.reason);
    const char *id = json_string_value(json_object_get(p->schedule, "schedule_id"));
    double budget = json_number_value(json_object_get(p->schedule, "budget"));
    json_t *answer = remat_timeline_encode(id ? id : "", budget >= 0 ? (uint64_t)budget : 0,
                                           p->profile, p->operations, p->moments, &p->simulation);
    if (p->values)
        remat_json_set(&answer, "values", json_incref(p->values));
    *ret_answer = answer;
    return answer ? REMAT_OK : remat_fail_memory(p->error);
}

remat_status remat_answer_timeline(const json_t *schedule, const remat_profile *profile,
                                   json_t **ret_answer, remat_error *error)
{
    playing p = {.schedule = schedule,
                 .operations = json_object_get(schedule, "operations"),
                 .profile = profile,
                 .error = error};
    json_t *answer = NULL;
    p.moments = calloc(json_array_size(p.operations) + 1, sizeof *p.moments);
    remat_status status = !p.moments                           ? remat_fail_memory(error)
                          : json_object_get(schedule, "model") ? play_steps(&p)
                                                               : play_bytes(&p);
    if (!status)
        status = show(&p, &answer);
    json_decref(p.values);
    free(p.moments);
    if (!status)
        *ret_answer = answer;
    return status;
}
