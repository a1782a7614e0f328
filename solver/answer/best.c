/* Several tables, one schedule (remat/table.h): the best within a budget, the least there is, and
 * the next that is worth more memory. */
#include "answer/best.h"
#include "model/layout.h"
#include "remat/words.h"

#include <stdio.h>
#include <string.h>

remat_status answer_refuse_budget(const remat_profile *profile, uint64_t enough, remat_error *error)
{
    uint64_t bytes = 0;
    if (!error)
        return REMAT_INFEASIBLE;
    error->number = enough;
    if (profile->n_pinned == 0)
        return REMAT_INFEASIBLE;
    for (uint32_t v = 0; v < profile->n_nodes; v++)
        for (uint32_t k = 0; profile->nodes[v].once && k < profile->nodes[v].n_outputs; k++)
            bytes += remat_value_bytes(profile, remat_result_value(profile, v, k));
    size_t length = strlen(error->message);
    snprintf(error->message + length, sizeof error->message - length,
             "; %u nodes are pinned by recompute or keep, their results of %llu bytes are not made "
             "again",
             profile->n_pinned, (unsigned long long)bytes);
    return REMAT_INFEASIBLE;
}

/* ---- the best of several tables ---- */

static bool better(const remat_point *a, const remat_point *b)
{
    double slack = ANSWER_SAME_TIME * b->makespan;
    if (a->makespan < b->makespan - slack)
        return true;
    return a->makespan <= b->makespan + slack && a->peak < b->peak;
}

/* As remat_best_table, with a limit for each table. */
static ptrdiff_t best_within(const remat_table *const *tables, size_t n, const uint64_t *limits)
{
    ptrdiff_t best = -1;
    remat_point best_point = {0};
    for (size_t i = 0; i < n; i++) {
        size_t n_points;
        const remat_point *frontier = remat_table_frontier(tables[i], &n_points);
        ptrdiff_t index = remat_table_point(tables[i], limits[i]);
        if (index >= 0 && (best < 0 || better(&frontier[index], &best_point))) {
            best = (ptrdiff_t)i;
            best_point = frontier[index];
        }
    }
    return best;
}

ptrdiff_t remat_best_table(const remat_table *const *tables, size_t n, uint64_t budget,
                           uint64_t *ret_least)
{
    uint64_t limits[REMAT_MAX_SOLVERS];
    *ret_least = 0;
    for (size_t i = 0; i < n; i++) {
        size_t n_points;
        const remat_point *frontier = remat_table_frontier(tables[i], &n_points);
        if (n_points > 0 && (*ret_least == 0 || frontier[0].peak < *ret_least))
            *ret_least = frontier[0].peak;
        limits[i] = budget;
    }
    return best_within(tables, n, limits);
}

remat_status remat_fail_infeasible(const char *solver, const remat_problem *problem,
                                   uint64_t budget, uint64_t least, remat_error *error)
{
    const char *name = problem->profile->name;
    char asked[REMAT_BYTES_TEXT_SIZE], enough[REMAT_BYTES_TEXT_SIZE];
    if (least > 0)
        remat_fail(error, REMAT_INFEASIBLE, "budget",
                   "%s has no schedule of \"%.100s\" within %s; %s will do", solver, name,
                   remat_bytes_text(budget, asked), remat_bytes_text(least, enough));
    else
        remat_fail(error, REMAT_INFEASIBLE, "budget", "%s has no schedule of \"%.100s\" within %s",
                   solver, name, remat_bytes_text(budget, asked));
    return answer_refuse_budget(problem->profile, least, error);
}

/* ---- the schedule to hand out ---- */

remat_status answer_lay_out(const remat_problem *problem, const model_goal *asked,
                            remat_schedule *schedule, remat_error *error)
{
    if (!asked->alignment)
        return REMAT_OK;
    const remat_host unhurried = remat_host_unhurried(asked->host);
    const remat_operations *list = &schedule->operations;
    model_goal goal = *asked;
    goal.in_flight = problem->in_flight;
    remat_status status = model_layout_new(problem->profile, list, &goal, &schedule->layout, error);
    if (status == REMAT_CANCELLED && remat_host_late(goal.host)) {
        goal.capacity = UINT64_MAX;
        goal.host = &unhurried;
        status = model_layout_new(problem->profile, list, &goal, &schedule->layout, error);
    }
    return status ? status : remat_layout_check(problem->profile, list, &schedule->layout, error);
}

#define BRIEF_LAYOUT_WORK (REMAT_LAYOUT_WORK / 256)
#define TOLD_LAYOUT_WORK (REMAT_LAYOUT_WORK / 16)

/* Whether room is found with little work. */
static remat_status finds_room(const answer_choice *c, const remat_schedule *schedule,
                               uint64_t *ret_arena, remat_error *error)
{
    const remat_host unhurried = remat_host_unhurried(c->host);
    const model_goal goal = {.alignment = c->alignment,
                             .capacity = c->budget,
                             .work = BRIEF_LAYOUT_WORK,
                             .decide = true,
                             .one_of_many = true,
                             .host = &unhurried,
                             .in_flight = c->problem->in_flight,
                             .turn = schedule->simulation.turn};
    return model_layout_arena(c->problem->profile, &schedule->operations, &goal, ret_arena, NULL,
                              error);
}

/* The best schedule of peak at most limit, laid out; in brief only where that is easy, or with an
 * arena that is too large. decide: the arena matters only if it is not. */
static remat_status trace(const remat_table *table, const answer_choice *c, uint64_t limit,
                          bool decide, remat_schedule *ret_schedule, remat_error *error)
{
    const model_goal goal = {.alignment = c->alignment,
                             .capacity = c->budget,
                             .work = c->told ? TOLD_LAYOUT_WORK : REMAT_LAYOUT_WORK,
                             .decide = decide,
                             .one_of_many = c->told,
                             .host = c->host};
    remat_schedule schedule = {0};
    uint64_t arena = 0;
    ptrdiff_t point = remat_table_point(table, limit);
    remat_status status =
        remat_table_trace(table, c->problem, (size_t)point, c->budget, &schedule, error);
    if (!status && c->brief && c->alignment)
        status = finds_room(c, &schedule, &arena, error);
    schedule.layout.arena = arena;
    if (!status && arena <= c->budget)
        status = answer_lay_out(c->problem, &goal, &schedule, error);
    if (status)
        remat_schedule_clear(&schedule);
    else
        *ret_schedule = schedule;
    return status;
}

/* What the schedule of this peak needs with its layout. */
static remat_status budget_of(const remat_table *table, const answer_choice *of, uint64_t peak,
                              uint64_t *ret_budget, remat_error *error)
{
    remat_schedule schedule;
    const answer_choice c = {.problem = of->problem,
                             .budget = peak,
                             .alignment = of->alignment,
                             .host = of->host,
                             .told = of->told};
    remat_status status = trace(table, &c, peak, false, &schedule, error);
    if (status)
        return status;
    *ret_budget = schedule.layout.arena;
    remat_schedule_clear(&schedule);
    return REMAT_OK;
}

remat_status answer_least_budget(const answer_choice *c, uint64_t *ret_peak, uint64_t *ret_budget,
                                 remat_error *error)
{
    uint64_t again;
    remat_best_table(c->tables, c->n, 0, ret_peak);
    *ret_budget = *ret_peak;
    if (!c->alignment || *ret_peak == 0)
        return REMAT_OK;
    ptrdiff_t table = remat_best_table(c->tables, c->n, *ret_peak, &again);
    return budget_of(c->tables[table], c, *ret_peak, ret_budget, error);
}

remat_status remat_least_budget(const remat_table *const *tables, size_t n,
                                const remat_problem *problem, uint32_t alignment,
                                uint64_t *ret_peak, uint64_t *ret_budget, remat_error *error)
{
    const answer_choice choice = {
        .tables = tables, .n = n, .problem = problem, .alignment = alignment};
    return answer_least_budget(&choice, ret_peak, ret_budget, error);
}

static remat_status refuse(const answer_choice *c, remat_error *error)
{
    uint64_t peak, least;
    remat_status status = answer_least_budget(c, &peak, &least, error);
    if (status)
        return status;
    if (peak > c->budget || peak == 0)
        return remat_fail_infeasible(c->name, c->problem, c->budget, least, error);
    char asked[REMAT_BYTES_TEXT_SIZE], high[REMAT_BYTES_TEXT_SIZE], enough[REMAT_BYTES_TEXT_SIZE];
    remat_fail(
        error, REMAT_INFEASIBLE, "budget",
        "%s has no schedule of \"%.100s\" whose arena fits %s; its smallest has a peak of %s "
        "and an arena of %s",
        c->name, c->problem->profile->name, remat_bytes_text(c->budget, asked),
        remat_bytes_text(peak, high), remat_bytes_text(least, enough));
    return answer_refuse_budget(c->problem->profile, least, error);
}

static bool is_below(const remat_table *table, uint64_t limit, double makespan)
{
    size_t n;
    const remat_point *frontier = remat_table_frontier(table, &n);
    return frontier[remat_table_point(table, limit)].makespan < makespan * (1 - ANSWER_SAME_TIME);
}

remat_status answer_choose(const answer_choice *c, remat_schedule *ret_schedule, remat_error *error)
{
    uint64_t limits[REMAT_MAX_SOLVERS];
    for (size_t i = 0; i < c->n; i++)
        limits[i] = c->budget;
    for (;;) {
        ptrdiff_t best = best_within(c->tables, c->n, limits);
        if (best < 0 && !c->brief && !(c->below > 0))
            return refuse(c, error);
        if (best < 0 || (c->below > 0 && !is_below(c->tables[best], limits[best], c->below)))
            return REMAT_INFEASIBLE;
        remat_schedule schedule;
        remat_status status = trace(c->tables[best], c, limits[best], true, &schedule, error);
        if (status)
            return status;
        if (schedule.layout.arena <= c->budget) {
            *ret_schedule = schedule;
            return REMAT_OK;
        }
        limits[best] = schedule.simulation.peak - 1;
        remat_schedule_clear(&schedule);
    }
}

remat_status remat_best_schedule(const remat_table *const *tables, size_t n, const char *name,
                                 const remat_problem *problem, uint64_t budget, uint32_t alignment,
                                 remat_schedule *ret_schedule, remat_error *error)
{
    const answer_choice choice = {.tables = tables,
                                  .n = n,
                                  .name = name,
                                  .problem = problem,
                                  .budget = budget,
                                  .alignment = alignment};
    return answer_choose(&choice, ret_schedule, error);
}

/* ---- beside the one that is handed out ---- */

/* Of the overhead that is left: what saves less is not worth being told. */
#define USEFUL 0.01

static remat_neighbour of_point(const remat_table *table, const remat_point *point)
{
    return (remat_neighbour){.solver = remat_table_solver(table),
                             .peak = point->peak,
                             .budget = point->peak,
                             .makespan = point->makespan};
}

static bool closer(const remat_point *a, const remat_neighbour *b)
{
    return !b->solver || a->peak < b->peak || (a->peak == b->peak && a->makespan < b->makespan);
}

remat_status answer_find_neighbours(const remat_table *const *tables, size_t n,
                                    const remat_problem *problem, uint32_t alignment,
                                    const remat_host *host, remat_schedule *schedule,
                                    remat_error *error)
{
    double makespan = schedule->simulation.makespan;
    double overhead = makespan - remat_store_all_makespan(problem->profile);
    size_t chosen = 0;
    remat_problem any = *problem;
    any.max_budget = UINT64_MAX;
    /* those of an answer that a search began with are of tables that need not be these */
    schedule->least = schedule->next = (remat_neighbour){.solver = NULL};
    for (size_t i = 0; i < n; i++) {
        size_t n_points;
        const remat_point *points = remat_table_frontier(tables[i], &n_points);
        if (n_points > 0 && closer(&points[0], &schedule->least))
            schedule->least = of_point(tables[i], &points[0]);
        bool serves_others = remat_table_serves(tables[i], &any);
        for (size_t k = 0; k < n_points && serves_others && overhead > 1e-9 * makespan; k++) {
            if (points[k].makespan > makespan - USEFUL * overhead)
                continue;
            if (closer(&points[k], &schedule->next)) {
                schedule->next = of_point(tables[i], &points[k]);
                chosen = i;
            }
            break;
        }
    }
    if (!schedule->next.solver || !alignment)
        return REMAT_OK;
    const answer_choice c = {
        .problem = problem, .alignment = alignment, .host = host, .told = true};
    return budget_of(tables[chosen], &c, schedule->next.peak, &schedule->next.budget, error);
}
