/* What every search of an answer does with what it finds. */
#include "answer/wish.h"

#include "answer/best.h"

#include <stdlib.h>
#include <string.h>

#define HOPELESS 1.3 /* of the overhead */

bool answer_link_moves(const remat_link *link)
{
    return link && link->to_host > 0 && link->to_device > 0;
}

bool answer_reaches(const remat_schedule *best, double bound)
{
    return best->solver && best->simulation.makespan <= bound * (1 + 1e-9);
}

bool answer_is_hopeless(const answer_wish *w, double makespan)
{
    const double all = remat_store_all_makespan(w->problem->profile);
    return w->taken > 0 && makespan - all > HOPELESS * (w->taken - all);
}

bool answer_faster(const remat_schedule *a, const remat_schedule *b)
{
    return !b->solver || a->simulation.makespan < b->simulation.makespan * (1 - ANSWER_SAME_TIME);
}

void answer_keep_faster(remat_schedule *other, remat_schedule *best)
{
    if (!answer_faster(other, best))
        return;
    remat_schedule old = *best;
    *best = *other;
    *other = old;
}

/* The layout itself, checked, or one with all work. */
static remat_status lay_out(const answer_wish *w, const remat_layout *layout,
                            remat_schedule *schedule, remat_error *error)
{
    const model_goal goal = {.alignment = w->alignment,
                             .capacity = w->budget,
                             .work = REMAT_LAYOUT_WORK,
                             .decide = true,
                             .host = w->host};
    if (!layout || !layout->items)
        return answer_lay_out(w->problem, &goal, schedule, error);
    schedule->layout = *layout;
    schedule->layout.items = malloc(layout->n * sizeof *layout->items);
    if (!schedule->layout.items)
        return remat_fail_memory(error);
    memcpy(schedule->layout.items, layout->items, layout->n * sizeof *layout->items);
    return remat_layout_check(w->problem->profile, &schedule->operations, &schedule->layout, error);
}

remat_status answer_take(const answer_wish *w, remat_operations *list, const remat_layout *layout,
                         remat_schedule *ret_schedule, remat_error *error)
{
    const remat_problem *problem = w->problem;
    remat_schedule schedule = {.solver = remat_solver_find("interval"),
                               .operations = *list,
                               .optimality = REMAT_HEURISTIC};
    *list = (remat_operations){0};
    remat_status status = remat_simulate(problem->profile, &schedule.operations, problem->link,
                                         NULL, NULL, &schedule.simulation, error);
    if (!status)
        remat_put_in_flight(&schedule.simulation, problem->in_flight);
    if (!status)
        status = lay_out(w, layout, &schedule, error);
    const remat_simulation *replay = &schedule.simulation;
    if (!status && (!replay->valid || replay->peak > w->budget))
        status = remat_fail(error, REMAT_INTERNAL, NULL,
                            "a list of the improver is not what it should be: %.200s",
                            replay->valid ? "it passes the budget" : replay->reason);
    if (!status && schedule.layout.arena > w->budget)
        status = REMAT_INFEASIBLE; /* laid out otherwise than the improver saw it */
    schedule.nominal_budget = schedule.model_peak = replay->peak;
    if (status)
        remat_schedule_clear(&schedule);
    else
        *ret_schedule = schedule;
    return status;
}
