/* Answers that are computed from a request alone: the same for a server and for a command that
 * solves in its own process. */
#include "api.h"

#include "remat/portfolio.h"

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
    if (!status)
        status =
            remat_operations_decode(request->operations, profile, "operations", &operations, error);
    if (!status)
        status = remat_simulate(profile, &operations, request->link ? &link : NULL, NULL,
                                recomputed, &simulation, error);
    if (!status && !isfinite(simulation.makespan))
        status = remat_fail(error, REMAT_INVALID, "operations",
                            "the times of the operations add up to %g, which is past all numbers",
                            simulation.makespan);
    json_t *answer = status ? NULL : remat_simulation_encode(profile, &simulation, recomputed);
    remat_operations_clear(&operations);
    free(recomputed);
    if (status)
        return status;
    if (!answer)
        return remat_fail_memory(error);
    *ret_answer = answer;
    return REMAT_OK;
}

static remat_status replay(const json_t *schedule, const remat_profile *profile,
                           const remat_operations *operations, remat_moment *moments,
                           json_t **ret_answer, remat_error *error)
{
    remat_simulation simulation;
    remat_link link;
    const json_t *way = json_object_get(schedule, "link");
    remat_status status = way ? remat_link_decode(way, profile, &link, error) : REMAT_OK;
    if (!status)
        status = remat_simulate(profile, operations, way ? &link : NULL, moments, NULL, &simulation,
                                error);
    if (status)
        return status;
    if (!simulation.valid)
        return remat_fail(error, REMAT_INFEASIBLE, "operations",
                          "the schedule is not valid for \"%.100s\": operation %zu: %.300s",
                          profile->name, simulation.bad_operation, simulation.reason);
    const char *id = json_string_value(json_object_get(schedule, "schedule_id"));
    double budget = json_number_value(json_object_get(schedule, "budget"));
    remat_layout layout = {0};
    status = remat_layout_unplaced(profile, operations, 1, &layout, error);
    if (status)
        return status;
    json_t *answer = remat_timeline_encode(id ? id : "", budget >= 0 ? (uint64_t)budget : 0,
                                           profile, operations, moments, &simulation);
    bool whole = !json_object_set_new(answer, "values", remat_values_encode(&layout));
    remat_layout_clear(&layout);
    if (!whole) {
        json_decref(answer);
        return remat_fail_memory(error);
    }
    *ret_answer = answer;
    return REMAT_OK;
}

remat_status remat_answer_timeline(const json_t *schedule, const remat_profile *profile,
                                   json_t **ret_answer, remat_error *error)
{
    remat_operations operations = {0};
    if (json_object_get(schedule, "model"))
        return remat_pebble_timeline(schedule, profile, ret_answer, error);
    remat_status status = remat_operations_decode(json_object_get(schedule, "operations"), profile,
                                                  "operations", &operations, error);
    if (status)
        return status;
    remat_moment *moments = calloc(operations.length + 1, sizeof *moments);
    status = moments ? replay(schedule, profile, &operations, moments, ret_answer, error)
                     : remat_fail_memory(error);
    free(moments);
    remat_operations_clear(&operations);
    return status;
}
