/* The schedule of several tables: the best of theirs, searched on, its bound, or a refusal. */
#include "remat/answer.h"

#include "answer/best.h"
#include "answer/bounds.h"
#include "answer/by_price.h"
#include "answer/improving.h"
#include "answer/over_link.h"
#include "answer/part.h"
#include "answer/refuse.h"
#include "model/lists.h"

#include <math.h>

/* What a bound of every schedule (of those without offloading, where there is a link) says. That a
 * list is the fastest of its solver's class stays said beside it. */
static void claim(const remat_problem *problem, double bound, remat_schedule *schedule)
{
    double makespan = schedule->simulation.makespan;
    bool least = makespan <= bound * (1 + 1e-9);
    schedule->bound_class = problem->link ? "schedules without offloading" : "all schedules";
    schedule->lower_bound = fmin(bound, makespan);
    if (least)
        schedule->optimality = problem->link ? REMAT_OPTIMAL_IN_CLASS : REMAT_OPTIMAL;
    if (least || schedule->optimality == REMAT_HEURISTIC)
        schedule->class_name = schedule->bound_class;
}

/* What is told of while it is searched: what the answer will say. */
static void tell_bound(const answer_wish *w)
{
    const bool linked = answer_link_moves(w->problem->link);
    if (linked ? w->over_link > 0 : w->bound > 0 && w->bound < INFINITY)
        remat_host_found(w->host, 0, linked ? w->over_link : w->bound);
}

/* Of more than so many a list as near to the bound as NEAR is not searched on from; and one by
 * price is so alone, and shortly: of fewer a whole search was seen to find what is 6 % faster, and
 * up to FEW_SEARCHED it follows where the bound is farther than that. Of several in flight the
 * bound says less; and where a plan asks dozens of questions it is raised for thorough only. */
enum { FEW_SEARCHED = 600, FEW_PRICED = 150 };
#define NEAR 2e-3
#define NEAR_JOINT 1e-2 /* of a joint graph, whose bound says less */

/* Closes the gap below a makespan, as far as so much work goes, in one part of the progress. */
static remat_status raise_bound(answer_wish *w, bound_moments *moments, double makespan,
                                uint64_t work, double begin, double share, remat_error *error)
{
    answer_part part = {w->host, begin, share};
    const remat_host host = answer_part_host(&part);
    if (!moments || !(makespan > 0))
        return REMAT_OK;
    const uint64_t own = w->budget - bound_moments_others(moments, w->problem->in_flight);
    w->bound = w->raised > 0 ? fmax(w->bound, fmin(w->raised, makespan))
                             : bound_moments_raise(moments, own, w->bound, makespan, work,
                                                   !answer_link_moves(w->problem->link), &host);
    tell_bound(w);
    return remat_host_cancelled(w->host) ? remat_fail(error, REMAT_CANCELLED, NULL, "cancelled")
                                         : REMAT_OK; /* a bound cut short is no answer */
}

/* Of the progress, by the most moves that each makes and what a move took on networks of 50 to 600
 * nodes. Searches often end before; then the progress leaps. */
typedef struct search_shares {
    double quick, raise, patient, thorough;
} search_shares;

/* By joint (whose bound is not raised, and which is not searched patiently) and by thorough. */
static const search_shares SEARCH_SHARES[2][2] = {
    {{.quick = 0.4, .raise = 0.15, .patient = 0.45}, {0.07, 0.03, 0.1, 0.65}},
    {{.quick = 1}, {.quick = 0.1, .thorough = 0.9}},
};

/* Whether the list by price is the one to search on from, and little is left to find. */
static bool is_finished(const answer_wish *w)
{
    return w->priced && w->priced->fastest;
}

/* From the list by price alone. */
static remat_status finish(const answer_wish *whole, double share, remat_schedule *best,
                           remat_error *error)
{
    answer_part part = {whole->host, 0, share};
    const remat_host host = answer_part_host(&part);
    answer_wish w = *whole;
    w.effort = REMAT_FINISH;
    w.host = &host;
    return answer_improve_list(&w, &whole->priced->list, false, best, error);
}

/* Thorough is all of quick first, so that it is never slower. */
static remat_status search(const remat_portfolio *p, answer_wish *w, bound_moments *moments,
                           remat_schedule *best, remat_error *error)
{
    bool near = is_finished(w);
    const bool thorough = w->effort == REMAT_THOROUGH, joint = w->problem->profile->joint;
    const bool linked = answer_link_moves(w->problem->link); /* its bound is another */
    const bool several = w->problem->in_flight > 1 && !thorough;
    const search_shares *s = &SEARCH_SHARES[w->problem->profile->joint][thorough];
    double begin = s->quick;
    const double first = near ? s->quick / 4 : 0;
    remat_status status = near ? finish(w, first, best, error) : REMAT_OK;
    near = near && (w->problem->profile->n_nodes > FEW_SEARCHED || w->problem->in_flight > 1 ||
                    answer_reaches(best, w->bound * (1 + (joint ? NEAR_JOINT : NEAR))));
    if (!status && !near)
        status = answer_improve(p, w, REMAT_QUICK, first, s->quick - first, best, error);
    if (!status && !linked && !several)
        status = raise_bound(w, moments, best->simulation.makespan, REMAT_QUICK_RAISE, begin,
                             s->raise, error);
    begin += s->raise;
    const bool enough = several && (best->solver || w->problem->profile->n_nodes > FEW_PRICED);
    if (!status && (!near || thorough) && !enough)
        status = answer_improve_patiently(w, begin, s->patient, best, error);
    begin += s->patient;
    if (!status && thorough)
        status = answer_improve(p, w, REMAT_THOROUGH, begin, s->thorough, best, error);
    begin += s->thorough;
    if (!status && thorough && !linked)
        status = raise_bound(w, moments, best->simulation.makespan, REMAT_THOROUGH_RAISE, begin,
                             1 - begin, error);
    return status;
}

/* Whether what a search of many nodes would find is not worth its time. */
static bool is_near(const answer_wish *w, const remat_schedule *best)
{
    const double bound = answer_link_moves(w->problem->link) ? w->over_link : w->bound;
    return w->problem->profile->n_nodes > FEW_SEARCHED && best->solver &&
           best->simulation.makespan <= bound * (1 + NEAR);
}

static bool may_search(const remat_profile *profile, const remat_host *host)
{
    const uint64_t limit = host ? host->memory_limit : 0;
    return profile->n_nodes <= remat_improved_nodes(profile) &&
           (limit == 0 || remat_improve_bytes(profile) <= limit);
}

/* In parts of the progress of one that begins briefly. */
#define BRIEF_SHARE 0.3
#define FIRST_MIX_SHARE 0.2
#define MIX_MORE_SHARE 0.1
#define WITHOUT_SHARE 0.3
#define LEFT 0.85       /* of the overhead */
#define JOINT_LEFT 0.95 /* of joint graphs */
#define ABOVE 1.0011    /* a bound is looked for where there is a gap */
#define FAR_UP 1.015    /* of the bound */
#define OTHER_LIST 0.95 /* of the overhead */
#define NEARLY 1.005    /* of the bound: what is left to prove */
#define FAR_OVER_LINK 1.05

/* Whether to search over the link once more. */
static bool is_far(const answer_wish *w, const remat_schedule *best)
{
    const remat_profile *profile = w->problem->profile;
    return !profile->joint && profile->n_nodes <= ANSWER_LINKED_NODES && best->solver &&
           best->simulation.makespan > 1.05 * w->over_link &&
           !answer_is_hopeless(w, best->simulation.makespan) &&
           !answer_is_long_chain(w, &best->operations);
}

/* Whether all of the search without the link may find a faster list yet than the best over it. It
 * finds little that is faster than after its first part, from which the search over the link began;
 * of joint graphs, of which nothing is proven, the least. Where that part found nothing that fits,
 * it ends well above the bound. */
static bool may_be_beaten(const answer_wish *w, double brief, const remat_schedule *best)
{
    const double all = remat_store_all_makespan(w->problem->profile);
    const double left = answer_is_small_joint(w->problem->profile) ? JOINT_LEFT : LEFT;
    const double over = best->simulation.makespan - all;
    if (answer_reaches(best, w->bound))
        return false;
    if (best->solver && brief == 0 && w->problem->profile->n_nodes > ANSWER_NAMED_NODES)
        return left * over >= w->bound - all;
    return !(best->solver && over < left * (brief - all));
}

/* Where many short descents end far up, a few slow ones end far below at times: 6 points of
 * overhead on U-Net++ at 30 %. What is hardly faster is another list to begin with and no better
 * one. */
static remat_status descend_slowly(const answer_wish *whole, remat_schedule *best,
                                   remat_error *error)
{
    const remat_profile *profile = whole->problem->profile;
    const double all = remat_store_all_makespan(profile);
    answer_part part = {whole->host, BRIEF_SHARE, 0};
    const remat_host host = answer_part_host(&part);
    answer_wish w = *whole;
    remat_operations start = {0};
    remat_schedule other = {0};
    w.effort = REMAT_SLOW;
    w.host = &host;
    if (profile->joint || profile->n_nodes > ANSWER_SOME_NODES || !best->solver ||
        best->simulation.makespan <= FAR_UP * w.bound)
        return REMAT_OK;
    remat_status status = model_copy_list(&best->operations, &start)
                              ? remat_fail_memory(error)
                              : answer_improve_list(&w, &start, false, &other, error);
    if (other.solver &&
        other.simulation.makespan - all < OTHER_LIST * (best->simulation.makespan - all))
        answer_keep_faster(&other, best);
    remat_operations_clear(&start);
    remat_schedule_clear(&other);
    return status;
}

/* Over the link from what a short search without it finds, and once more where that ends far from
 * the bound. All of the search without it comes only where a list without the link may be faster
 * yet: with it no answer is slower. */
static remat_status mix_first(const remat_portfolio *p, answer_wish *whole, bound_moments *moments,
                              remat_schedule *best, remat_error *error)
{
    remat_schedule start = {0}, without = {0};
    answer_part part = {whole->host, BRIEF_SHARE, FIRST_MIX_SHARE};
    const remat_host host = answer_part_host(&part);
    answer_wish w = *whole, peaks = *whole;
    w.host = &host;
    peaks.alignment = 0; /* the search over the link sees to addresses */
    remat_status status = REMAT_OK;
    if (!answer_reaches(best, w.bound))
        status = (w.problem->profile->n_nodes > FEW_SEARCHED || w.problem->profile->joint) &&
                         is_finished(&peaks)
                     ? finish(&peaks, BRIEF_SHARE, &start, error)
                     : answer_improve(p, &peaks, REMAT_BRIEF, 0, BRIEF_SHARE, &start, error);
    if (!status)
        status = descend_slowly(&peaks, &start, error);
    bool beaten = best->solver && answer_faster(best, &start);
    if (!status)
        status = answer_mix(p, &w, start.solver && !beaten ? &start : NULL, best, error);
    const double brief = start.solver ? start.simulation.makespan : 0;
    remat_schedule_clear(&start);
    if (!status && is_far(&w, best)) {
        part = (answer_part){whole->host, part.begin + part.share, MIX_MORE_SHARE};
        status = answer_mix_on(&w, true, best, error);
    }
    if (!status && !answer_reaches(best, w.bound)) /* that no list without the link is faster */
        status = raise_bound(&w, moments, ABOVE * best->simulation.makespan, REMAT_QUICK_RAISE,
                             part.begin + part.share, 0, error);
    part = (answer_part){whole->host, part.begin + part.share, 0};
    if (!status && best->solver && best->simulation.makespan <= NEARLY * w.bound &&
        may_be_beaten(&w, brief, best)) /* which costs less than what comes then */
        status = answer_mix_on(&w, true, best, error);
    if (status || w.moves_alone || !may_be_beaten(&w, brief, best))
        return status;
    part.share = WITHOUT_SHARE;
    if (brief == 0 && w.problem->profile->n_nodes > ANSWER_NAMED_NODES)
        status = answer_improve(p, &w, REMAT_QUICK, 0, 1, &without, error); /* to begin there */
    else
        status = search(p, &w, moments, &without, error);
    part = (answer_part){whole->host, part.begin + part.share, 1 - part.begin - part.share};
    beaten = without.solver && answer_faster(&without, best);
    if (beaten)
        answer_keep_faster(&without, best);
    remat_schedule_clear(&without);
    return !status && beaten ? answer_mix_on(&w, true, best, error) : status;
}

/* With a link an answer carries the bound of all schedules, with copies and without. */
static void claim_over_link(double bound, remat_schedule *schedule)
{
    schedule->lower_bound = fmin(bound, schedule->simulation.makespan);
    schedule->class_name = schedule->bound_class = "all schedules";
    schedule->optimality = answer_reaches(schedule, bound) ? REMAT_OPTIMAL : REMAT_HEURISTIC;
}

/* The least peak of a list that takes no more time than storing everything. */
static uint64_t least_peak_of_order(const remat_portfolio *p, const remat_problem *problem,
                                    const remat_schedule *best)
{
    double enough = remat_store_all_makespan(problem->profile) * (1 + 1e-9);
    uint64_t least = best->simulation.makespan <= enough ? best->simulation.peak : UINT64_MAX;
    for (size_t i = 0; i < p->n; i++) {
        size_t n;
        const remat_point *points = remat_table_frontier(p->tables[i], &n);
        for (size_t k = 0; k < n; k++)
            if (points[k].makespan <= enough && points[k].peak < least)
                least = points[k].peak;
    }
    return least < UINT64_MAX ? least : 0;
}

/* ---- all of it ---- */

static remat_status choose(const remat_portfolio *p, const answer_wish *w, double below, bool brief,
                           remat_schedule *ret_schedule, remat_error *error)
{
    answer_choice choice = answer_choice_of(w, p->tables, p->n);
    choice.name = p->name;
    choice.below = below;
    choice.brief = brief;
    return answer_choose(&choice, ret_schedule, error);
}

/* What a search over the link began without, as its layout takes long to find, and did not beat. */
static remat_status choose_at_last(const remat_portfolio *p, const answer_wish *w,
                                   remat_schedule *best, remat_error *error)
{
    remat_schedule other = {0};
    const double below = best->solver ? best->simulation.makespan : INFINITY;
    remat_status status = w->alignment ? choose(p, w, below, false, &other, error) : REMAT_OK;
    if (status || !other.solver)
        return status == REMAT_INFEASIBLE ? REMAT_OK : status;
    answer_keep_faster(&other, best);
    remat_schedule_clear(&other);
    return answer_mix_on(w, true, best, error);
}

/* What an answer is made of; moments are the caller's to free. */
typedef struct findings {
    remat_schedule best; /* none: nothing fits */
    answer_priced priced;
    bound_moments *moments;
    remat_floor floor; /* where the tables have nothing */
} findings;

/* The list by price, and whether it is faster than those of the tables. */
static remat_status take_priced(answer_wish *w, findings *f, remat_error *error)
{
    remat_status status = answer_by_price(w, f->moments, &f->priced, &f->best, error);
    const bool many = w->problem->profile->n_nodes > FEW_PRICED; /* fewer begin as ever */
    const bool serves =
        !w->problem->profile->joint || f->priced.fastest; /* else two searches more */
    w->priced = many && serves && f->priced.list.length > 0 ? &f->priced : NULL;
    return status;
}

static remat_status find(const remat_portfolio *p, answer_wish *w, findings *f, remat_error *error)
{
    const remat_problem *problem = w->problem;
    const remat_profile *profile = problem->profile;
    const bool mixes =
        p->improved && answer_link_moves(problem->link) && profile->n_nodes <= REMAT_LARGE_NODES;
    const bool mixes_first = mixes && w->effort == REMAT_QUICK;
    answer_part part = {w->host, 0,
                        !mixes || mixes_first         ? 1
                        : w->effort == REMAT_THOROUGH ? 0.2
                                                      : 0.5};
    const remat_host host = answer_part_host(&part);
    w->host = &host;
    const double below = p->improved ? INFINITY : 0; /* its refusal is another */
    remat_status status = choose(p, w, below, mixes_first, &f->best, error);
    if (!status)
        remat_host_found(w->host, f->best.simulation.makespan, 0);
    if ((p->improved && status == REMAT_INFEASIBLE) || (!status && (p->improved || !problem->link)))
        status = answer_find_bound(p, problem, w->budget, &w->bound, &f->moments, error);
    if (!status && p->improved && w->bound < INFINITY)
        status = answer_find_exactly(w, &f->best, error);
    tell_bound(w);
    if (!status && !f->best.solver) /* before a search that cannot find anything */
        status = remat_find_floor(profile, &f->floor, error);
    bool searches = p->improved && may_search(profile, w->host) && w->bound < INFINITY &&
                    f->floor.bytes <= w->budget;
    if (!status && searches)
        status = take_priced(w, f, error);
    searches = searches && !is_near(w, &f->best);
    if (!status && searches && mixes_first) {
        status = mix_first(p, w, f->moments, &f->best, error);
        if (!status)
            status = choose_at_last(p, w, &f->best, error);
    } else {
        if (!status && searches)
            status = search(p, w, f->moments, &f->best, error);
        part = (answer_part){part.whole, part.share, 1 - part.share};
        if (!status && mixes)
            status = answer_mix(p, w, NULL, &f->best, error);
    }
    w->host = part.whole;
    return status;
}

static void clear_findings(findings *f)
{
    bound_moments_free(f->moments);
    remat_operations_clear(&f->priced.list);
    remat_schedule_clear(&f->best);
}

/* Over a link, where the bound is far: what a search ends in depends on where it begins. */
static bool may_be_far(const answer_wish *w, const remat_schedule *best)
{
    return w->over_link > 0 && best->solver && w->effort == REMAT_QUICK &&
           w->problem->profile->n_nodes <= ANSWER_LINKED_NODES &&
           best->simulation.makespan > FAR_OVER_LINK * w->over_link;
}

/* Where it costs little, or may give much: no slower than what is improved when it is asked for by
 * name, whose search from another list ends in another place now and then. */
static remat_status find_by_name(const remat_portfolio *p, const answer_wish *asked, findings *f,
                                 remat_error *error)
{
    remat_status status = REMAT_OK;
    const bool done =
        answer_reaches(&f->best, asked->problem->link ? asked->over_link : asked->bound);
    const remat_host host = remat_host_quiet(asked->host);
    for (size_t i = 0; i < p->n && p->n > 1 && !done && !status; i++) {
        const remat_solver *solver = remat_table_solver(p->tables[i]);
        if (!solver->improved || p->given[i])
            continue;
        const remat_portfolio one = {
            .name = solver->name, .improved = true, .n = 1, .tables = {p->tables[i]}};
        answer_wish w = *asked;
        w.host = &host;
        w.bound = 0;
        w.taken = f->best.solver ? f->best.simulation.makespan : 0;
        w.raised = answer_link_moves(asked->problem->link) ? 0 : asked->bound;
        w.moves_alone = w.problem->profile->n_nodes > ANSWER_NAMED_NODES;
        findings own = {.moments = NULL};
        status = find(&one, &w, &own, error);
        if (!status && own.best.solver)
            answer_keep_faster(&own.best, &f->best);
        clear_findings(&own);
        status = status == REMAT_INFEASIBLE ? REMAT_OK : status;
    }
    return status;
}

remat_status answer_schedule(const remat_portfolio *portfolio, const answer_wish *asked,
                             remat_schedule *ret_schedule, remat_error *error)
{
    const remat_problem *problem = asked->problem;
    const uint64_t budget = asked->budget;
    remat_error refusal = {0};
    findings f = {.moments = NULL};
    if (portfolio->n == 1 &&
        remat_machine_of(remat_table_solver(portfolio->tables[0]), &problem->options))
        return remat_table_schedule(portfolio->tables[0], problem, budget, ret_schedule, error);
    answer_wish w = *asked;
    w.bound = w.over_link = w.series = 0;
    w.given = problem->profile->joint;
    for (size_t i = 0; i < portfolio->n; i++)
        w.given = w.given && portfolio->given[i];
    const bool linked = portfolio->improved && answer_link_moves(problem->link);
    uint64_t room = 0;
    remat_status status =
        linked ? answer_find_link_bound(problem, budget, &w.over_link, &room, &refusal) : REMAT_OK;
    const bool refused = room > budget;
    if (refused)
        f.floor.bytes = room;
    if (!status && !refused)
        status = find(portfolio, &w, &f, &refusal);
    if (!status && portfolio->improved && (f.floor.bytes <= budget || (linked && f.best.solver)) &&
        (problem->profile->n_nodes <= ANSWER_NAMED_NODES || may_be_far(&w, &f.best)))
        status = find_by_name(portfolio, &w, &f, &refusal);
    if (!status && linked && !refused)
        status = answer_mix_patiently(portfolio, &w, &f.best, &refusal);
    const bool late = portfolio->improved && remat_host_late(w.host);
    if (status == REMAT_CANCELLED && late && f.best.solver)
        status = REMAT_OK;
    if (!status && !f.best.solver && linked && !refused) /* as a refusal does */
        status = answer_mix_briefly(portfolio, &w, &f.best, &refusal);
    if (!status && !f.best.solver)
        status = answer_refuse(portfolio, &w, f.moments, f.floor.bytes, &refusal);
    if (!status)
        status = answer_find_neighbours(portfolio->tables, portfolio->n, problem, w.alignment,
                                        w.host, &f.best, &refusal);
    if (!status && linked)
        claim_over_link(w.over_link, &f.best);
    else if (!status && (!problem->link || (portfolio->improved && f.best.solver->improved)))
        claim(problem, w.bound, &f.best);
    if (status && error)
        *error = refusal;
    if (!status && problem->profile->joint)
        f.best.reordered_peak = least_peak_of_order(portfolio, problem, &f.best);
    if (!status) {
        f.best.cut_short = late;
        *ret_schedule = f.best;
        f.best = (remat_schedule){0};
    }
    clear_findings(&f);
    return status;
}

remat_status remat_portfolio_schedule(const remat_portfolio *portfolio,
                                      const remat_problem *problem, uint64_t budget,
                                      uint32_t alignment, remat_effort effort,
                                      const remat_host *host, remat_schedule *ret_schedule,
                                      remat_error *error)
{
    answer_searches searches = {0};
    const answer_wish w = {.problem = problem,
                           .budget = budget,
                           .alignment = alignment,
                           .effort = effort,
                           .host = host,
                           .searches = &searches};
    const remat_status status = answer_schedule(portfolio, &w, ret_schedule, error);
    answer_searches_clear(&searches);
    return status;
}
