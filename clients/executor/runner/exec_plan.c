/* Plans: schedules that have been replayed, with checked addresses. */
#include "remat_exec.h"

#include "api.h"
#include "remat/answer.h"

#include <stdlib.h>
#include <string.h>

/* ---- making ---- */

static remat_status copy_list(const remat_operations *from, remat_operations *to,
                              remat_error *error)
{
    for (size_t i = 0; i < from->length; i++)
        if (remat_operations_push(to, from->items[i]))
            return remat_fail_memory(error);
    return REMAT_OK;
}

/* Validity, makespan and peak of plan->operations. */
static remat_status replay(remat_plan *plan, const remat_link *link, remat_error *error)
{
    remat_simulation simulation;
    remat_status status =
        remat_simulate(plan->profile, &plan->operations, link, NULL, NULL, &simulation, error);
    if (status)
        return status;
    if (!simulation.valid)
        return remat_fail(error, REMAT_INVALID, "operations",
                          "the schedule is not valid for \"%.100s\": operation %zu of %zu: %.300s",
                          plan->profile->name, simulation.bad_operation, plan->operations.length,
                          simulation.reason);
    plan->makespan = simulation.makespan;
    plan->peak = simulation.peak;
    return REMAT_OK;
}

remat_status remat_plan_make(const remat_profile *profile, const remat_operations *operations,
                             const remat_link *link, uint64_t alignment, remat_plan *ret_plan,
                             remat_error *error)
{
    remat_plan plan = {.profile = profile};
    remat_status status = copy_list(operations, &plan.operations, error);
    if (!status)
        status = replay(&plan, link, error);
    if (!status)
        status = remat_layout_new(profile, &plan.operations, alignment, &plan.layout, error);
    if (!status)
        status = remat_layout_check(profile, &plan.operations, &plan.layout, error);
    if (status)
        remat_plan_clear(&plan);
    else
        *ret_plan = plan;
    return status;
}

/* ---- solving ---- */

/* Takes over the list and the addresses of a schedule. */
static remat_status take_schedule(const remat_profile *profile, const remat_link *link,
                                  remat_schedule *schedule, remat_plan *ret_plan,
                                  remat_error *error)
{
    remat_plan plan = {
        .profile = profile, .operations = schedule->operations, .layout = schedule->layout};
    schedule->operations = (remat_operations){0};
    schedule->layout = (remat_layout){0};
    remat_status status = replay(&plan, link, error);
    if (!status)
        status = remat_layout_check(profile, &plan.operations, &plan.layout, error);
    if (status)
        remat_plan_clear(&plan);
    else
        *ret_plan = plan;
    return status;
}

remat_status remat_plan_solve(const remat_profile *profile, const char *solver, uint64_t budget,
                              const remat_link *link, uint64_t alignment, remat_plan *ret_plan,
                              remat_error *error)
{
    remat_query query = {.solver = solver ? remat_solver_find(solver) : NULL,
                         .problem = {.profile = profile, .link = link, .max_budget = budget},
                         .budget = budget,
                         .alignment = (uint32_t)alignment,
                         .effort = REMAT_QUICK};
    remat_answered answered = {.portfolio = {.n = 0}};
    if (solver && !query.solver)
        return remat_fail_solver(solver, error);
    if (query.solver)
        query.problem.options = remat_options_default(query.solver);
    remat_status status = remat_answer(&query, NULL, NULL, &answered, error);
    if (!status)
        status = take_schedule(profile, link, &answered.schedule, ret_plan, error);
    remat_answered_clear(&answered);
    return status;
}

void remat_plan_clear(remat_plan *plan)
{
    remat_operations_clear(&plan->operations);
    remat_layout_clear(&plan->layout);
    *plan = (remat_plan){0};
}

/* ---- reading ---- */

/* Takes over the offsets of the answer. */
static remat_status read_offsets(const json_t *allocations, remat_layout *layout,
                                 remat_error *error)
{
    if (json_array_size(allocations) != layout->n)
        return remat_fail(error, REMAT_INVALID, "allocations",
                          "the schedule has %zu allocations; its operations make %zu",
                          json_array_size(allocations), layout->n);
    layout->arena = 0;
    for (size_t i = 0; i < layout->n; i++) {
        remat_allocation *one = &layout->items[i];
        const json_t *item = json_array_get(allocations, i);
        const char *kind = json_string_value(json_array_get(item, 1));
        json_int_t first = json_integer_value(json_array_get(item, 0));
        json_int_t index = json_integer_value(json_array_get(item, 2));
        json_int_t offset = json_integer_value(json_array_get(item, 3));
        const char *expected = remat_allocation_kind_name((remat_allocation_kind)one->kind);
        json_int_t result =
            json_integer_value(json_array_get(item, 4)); /* of the first none is said */
        if (!kind || strcmp(kind, expected) != 0 || first != one->first ||
            index != (json_int_t)one->index || result != one->result || offset < 0 ||
            offset >= (json_int_t)REMAT_MAX_BYTES)
            return remat_fail(error, REMAT_INVALID, "allocations",
                              "allocations[%zu] is not the %s of index %u at operation %d, with an "
                              "offset",
                              i, expected, one->index, one->first);
        one->offset = (uint64_t)offset;
        uint64_t end = one->offset + one->bytes;
        layout->arena = end > layout->arena ? end : layout->arena;
    }
    return REMAT_OK;
}

static remat_status read_layout(const json_t *schedule, remat_plan *plan, remat_error *error)
{
    const json_t *allocations = json_object_get(schedule, "allocations");
    json_int_t alignment = json_integer_value(json_object_get(schedule, "alignment"));
    if (!allocations)
        return remat_layout_new(plan->profile, &plan->operations, REMAT_DEFAULT_ALIGNMENT,
                                &plan->layout, error);
    if (alignment < 1 || alignment > (json_int_t)REMAT_MAX_ALIGNMENT)
        return remat_fail(error, REMAT_INVALID, "alignment",
                          "the alignment of the schedule is %lld", (long long)alignment);
    remat_status status = remat_layout_unplaced(plan->profile, &plan->operations,
                                                (uint64_t)alignment, &plan->layout, error);
    if (!status)
        status = read_offsets(allocations, &plan->layout, error);
    return status;
}

/* A schedule that says which nodes it was made for must mean these. */
static remat_status check_nodes(const remat_profile *profile, const json_t *nodes,
                                remat_error *error)
{
    if (!nodes)
        return REMAT_OK;
    if (json_array_size(nodes) != profile->n_nodes)
        return remat_fail(error, REMAT_INVALID, "nodes",
                          "the schedule is for another network: it has %zu nodes, \"%.100s\" %u",
                          json_array_size(nodes), profile->name, profile->n_nodes);
    for (uint32_t v = 0; v < profile->n_nodes; v++) {
        const char *id = json_string_value(json_array_get(nodes, v));
        if (!id || strcmp(id, profile->nodes[v].id) != 0)
            return remat_fail(error, REMAT_INVALID, "nodes",
                              "the schedule is for another network: its node %u is \"%.100s\", not "
                              "\"%.100s\"",
                              v, id ? id : "", profile->nodes[v].id);
    }
    return REMAT_OK;
}

remat_status remat_plan_read(const remat_profile *profile, const json_t *schedule,
                             remat_plan *ret_plan, remat_error *error)
{
    remat_plan plan = {.profile = profile};
    remat_link link = {0};
    const json_t *list = json_object_get(schedule, "operations");
    const json_t *way = json_object_get(schedule, "link");
    if (json_object_get(schedule, "model"))
        return remat_fail(error, REMAT_INVALID, "model",
                          "schedules of the model \"%.60s\" cannot be executed",
                          json_string_value(json_object_get(schedule, "model")));
    if (!json_is_array(list))
        return remat_fail(error, REMAT_INVALID, "operations",
                          "this is not a schedule: it has no array \"operations\"");
    remat_status status = check_nodes(profile, json_object_get(schedule, "nodes"), error);
    if (!status && way)
        status = remat_link_decode(way, profile, &link, error);
    if (!status)
        status = remat_operations_decode(list, profile, "operations", &plan.operations, error);
    if (!status)
        status = replay(&plan, way ? &link : NULL, error);
    if (!status)
        status = read_layout(schedule, &plan, error);
    if (!status)
        status = remat_layout_check(profile, &plan.operations, &plan.layout, error);
    if (status)
        remat_plan_clear(&plan);
    else
        *ret_plan = plan;
    return status;
}
