/* The refusal of a budget, and what it says would do. */
#include "answer/refuse.h"

#include "answer/best.h"
#include "answer/by_price.h"
#include "answer/improving.h"
#include "answer/over_link.h"
#include "remat/words.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

/* Of a joint graph. */
static remat_status find_by_price(answer_wish *w, bound_moments *moments, remat_schedule *found,
                                  remat_error *error)
{
    const remat_profile *profile = w->problem->profile;
    answer_priced priced = {.makespan = 0};
    if (!profile->joint || !moments)
        return REMAT_OK;
    w->bound = bound_moments_in_flight(moments, w->budget, w->problem->in_flight,
                                       REMAT_FEW_MOMENTS(profile->n_nodes));
    const remat_status status =
        w->bound < INFINITY ? answer_by_price(w, moments, &priced, found, error) : REMAT_OK;
    remat_operations_clear(&priced.list);
    return status;
}

/* What the first of what auto does finds there; *ret_none: it is proven that none is. */
static remat_status look_at(const remat_portfolio *p, const answer_wish *asked,
                            bound_moments *moments, uint64_t budget, remat_schedule *found,
                            bool *ret_none, remat_error *error)
{
    const remat_host host = remat_host_quiet(asked->host);
    const bool joint = asked->problem->profile->joint;  /* whose search takes thrice the time */
    const bool several = asked->problem->in_flight > 1; /* which are not searched exactly */
    answer_wish w = *asked;
    w.host = &host;
    w.budget = budget;
    w.bound = w.over_link = 0;
    *ret_none = false;
    if (answer_link_moves(asked->problem->link))
        return answer_mix_briefly(p, &w, found, error);
    remat_status status = answer_find_exactly(&w, found, error);
    if (!status && !found->solver && w.bound < INFINITY)
        status = find_by_price(&w, moments, found, error);
    *ret_none = w.bound == INFINITY;
    w.bound = DBL_MAX; /* any list will do */
    if (!status && !found->solver && !*ret_none)
        status =
            answer_improve(p, &w, several || joint ? REMAT_BRIEF : REMAT_QUICK, 0, 1, found, error);
    return status;
}

/* How often that is worth a quick search. Of a chain the tables know the least, or nearly. */
static int halvings_of(const remat_profile *profile)
{
    enum { FEW = 2, SOME = 4, MANY = 6 };
    if (profile->n_nodes <= ANSWER_NAMED_NODES)
        return MANY;
    if (profile->n_nodes > ANSWER_SOME_NODES || profile->kind == REMAT_CHAIN)
        return 0;
    return profile->joint ? FEW : SOME; /* whose search takes thrice the time */
}

/* Closer to the least that will do than the tables know, where that takes no long time. *floor:
 * none fits less. */
static remat_status halve_down(const remat_portfolio *p, const answer_wish *w,
                               bound_moments *moments, uint64_t *floor, uint64_t *enough,
                               remat_error *error)
{
    enum { CLOSE = 500 }; /* a part of it */
    const bool proven = !answer_link_moves(w->problem->link) || w->over_link == INFINITY;
    uint64_t low = proven && *floor > w->budget + 1 ? *floor - 1 : w->budget, high = *enough;
    remat_status status = REMAT_OK;
    for (int k = halvings_of(w->problem->profile);
         k > 0 && !status && (high - low) > 1 + high / CLOSE; k--) {
        const uint64_t middle = low + (high - low) / 2;
        remat_schedule found = {0};
        bool none;
        status = look_at(p, w, moments, middle, &found, &none, error);
        *(found.solver ? &high : &low) = middle;
        *floor = none ? middle + 1 : *floor;
        remat_schedule_clear(&found);
    }
    *enough = high;
    return status;
}

remat_status answer_refuse(const remat_portfolio *p, const answer_wish *w, bound_moments *moments,
                           uint64_t floor, remat_error *error)
{
    const remat_problem *problem = w->problem;
    const uint64_t budget = w->budget;
    const bool linked = problem->link && w->over_link < INFINITY; /* none offloading is known of */
    uint64_t peak, enough;
    const answer_choice choice = answer_choice_of(w, p->tables, p->n);
    if (w->bound == INFINITY && floor <= budget) /* proven of this one, by search */
        floor = budget + 1;
    remat_status status = answer_least_budget(&choice, &peak, &enough, error);
    if (!status && enough > budget)
        status = halve_down(p, w, moments, &floor, &enough, error);
    if (status)
        return status;
    if (enough <= budget) /* none has a schedule, or none that fits with its layout */
        return remat_fail_infeasible(p->name, problem, budget, 0, error);
    char asked[REMAT_BYTES_TEXT_SIZE], will_do[REMAT_BYTES_TEXT_SIZE], least[REMAT_BYTES_TEXT_SIZE];
    char less[128] = "";
    if (floor > 0)
        snprintf(less, sizeof less, ", and none%s fits less than %s",
                 linked ? " without offloading" : "", remat_bytes_text(floor, least));
    remat_fail(error, REMAT_INFEASIBLE, "budget",
               "%s found no schedule of \"%.100s\" within %s; %s will do%s", p->name,
               problem->profile->name, remat_bytes_text(budget, asked),
               remat_bytes_text(enough, will_do), less);
    if (error && !linked)
        error->proven = floor;
    return answer_refuse_budget(problem->profile, enough, error);
}
