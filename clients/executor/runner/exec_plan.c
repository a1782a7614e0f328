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

remat_status remat_plan_read(const remat_profile *profile, const json_t *schedule,
                             remat_plan *ret_plan, remat_error *error)
{
    remat_judgement judged;
    if (json_object_get(schedule, "model"))
        return remat_fail(error, REMAT_INVALID, "model",
                          "schedules of the model \"%.60s\" cannot be executed",
                          remat_json_string(schedule, "model"));
    remat_status status = remat_schedule_judge(profile, NULL, NULL, schedule, &judged, error);
    if (status)
        return status;
    remat_plan plan = {.profile = profile,
                       .operations = judged.operations,
                       .layout = judged.layout,
                       .makespan = judged.simulation.makespan,
                       .peak = judged.simulation.peak};
    if (!judged.placed)
        status = remat_layout_new(profile, &plan.operations, REMAT_DEFAULT_ALIGNMENT, &plan.layout,
                                  error);
    if (status)
        remat_plan_clear(&plan);
    else
        *ret_plan = plan;
    return status;
}
