/* Searching on, without a link, from what tables and prices gave. */
#include "answer/improving.h"

#include "answer/best.h"
#include "answer/part.h"
#include "model/layout.h"
#include "model/lists.h"
#include "search/exact.h"

#include <math.h>

#define GAP_FOR_PATIENCE 0.01 /* of the makespan */

enum { MANY_NODES = 1000 }; /* of so many it walks few moves, and ends near where it began */

remat_status answer_improve_list(const answer_wish *w, const remat_operations *start, bool given,
                                 remat_schedule *best, remat_error *error)
{
    if (answer_reaches(best, w->bound))
        return REMAT_OK;
    remat_schedule other = {0};
    remat_operations list = {0};
    const answer_search search = {
        .start = start, .budget = w->budget, .bound = w->bound, .given = given};
    remat_status status = answer_search_once(w, &search, &list, error);
    if (!status)
        status = answer_take(w, &list, NULL, &other, error);
    if (!status)
        answer_keep_faster(&other, best);
    if (best->solver)
        remat_host_found(w->host, best->simulation.makespan, 0);
    remat_operations_clear(&list);
    remat_schedule_clear(&other);
    return status == REMAT_INFEASIBLE || status == REMAT_TOO_LARGE ? REMAT_OK : status;
}

/* The list of least peak, which does not fit: a search that begins there finds what none from
 * nothing does. None where the tables have none, or one that fits but for its layout. */
static remat_status take_least(const answer_wish *w, const remat_table *const *tables, size_t n,
                               remat_schedule *ret_start, remat_error *error)
{
    remat_problem any = *w->problem;
    uint64_t peak;
    remat_best_table(tables, n, 0, &peak);
    const ptrdiff_t least = peak > w->budget ? remat_best_table(tables, n, peak, &peak) : -1;
    any.max_budget = UINT64_MAX;
    if (least < 0 || (remat_table_solver(tables[least])->accepts & REMAT_NEEDS_LINK))
        return REMAT_OK;
    return remat_table_trace(tables[least], &any, 0, peak, ret_start, error);
}

/* From the best schedule of some tables, or that by price, or, while *own, from what does not fit,
 * which is not so again. */
static remat_status improve_from(const answer_wish *w, const remat_table *const *tables, size_t n,
                                 bool *own, bool given, remat_schedule *best, remat_error *error)
{
    if (n == 0)
        return REMAT_OK;
    remat_schedule start = {0};
    answer_choice choice = answer_choice_of(w, tables, n);
    choice.below = INFINITY;
    choice.brief = w->effort == REMAT_BRIEF;
    remat_status status = answer_choose(&choice, &start, error);
    const bool nothing = status == REMAT_INFEASIBLE;
    const bool priced =
        w->priced && (!start.solver || w->priced->makespan < start.simulation.makespan);
    const remat_operations *from = priced ? &w->priced->list : &start.operations;
    if (nothing && *own && !priced) {
        const bool least = !w->problem->profile->joint && w->effort != REMAT_BRIEF;
        status = least ? take_least(w, tables, n, &start, error) : REMAT_OK;
    }
    if (priced || !status)
        status = answer_improve_list(w, priced || start.solver ? from : NULL, given, best, error);
    *own = *own && !nothing;
    remat_schedule_clear(&start);
    return status == REMAT_INFEASIBLE ? REMAT_OK : status;
}

static bool is_improved(const remat_portfolio *p, size_t i)
{
    return remat_table_solver(p->tables[i])->improved;
}

bool answer_is_small_joint(const remat_profile *profile)
{
    return profile->joint && profile->n_nodes <= ANSWER_SOME_NODES;
}

remat_status answer_improve(const remat_portfolio *p, const answer_wish *whole, remat_effort effort,
                            double begin, double share, remat_schedule *best, remat_error *error)
{
    const remat_table *others[REMAT_MAX_SOLVERS];
    size_t n_others = 0;
    const bool any_order = effort == REMAT_BRIEF && answer_is_small_joint(whole->problem->profile);
    bool own[2] = {true, true}, none = false; /* by given order: a second time finds the same */
    remat_status status = REMAT_OK;
    for (size_t i = 0; i < p->n; i++)
        if (!is_improved(p, i) && !(remat_table_solver(p->tables[i])->accepts & REMAT_NEEDS_LINK))
            others[n_others++] = p->tables[i];
    size_t searches = n_others > 0;
    for (size_t i = 0; i < p->n; i++)
        searches += is_improved(p, i);
    answer_part part = {whole->host, begin, share / (double)searches};
    const remat_host host = answer_part_host(&part);
    answer_wish w = *whole;
    w.effort = effort;
    w.host = &host;
    bool done = false;
    for (size_t i = 0; i < p->n && !status && !done; i++) {
        if (!is_improved(p, i) || (any_order && p->given[i]))
            continue;
        status = improve_from(&w, &p->tables[i], 1, &own[p->given[i]], p->given[i], best, error);
        part.begin += part.share;
        done = effort == REMAT_BRIEF && best->solver;
    }
    w.series = 1; /* or every second chain would do once more what it did */
    return status || done ? status : improve_from(&w, others, n_others, &none, false, best, error);
}

remat_status answer_find_exactly(answer_wish *w, remat_schedule *best, remat_error *error)
{
    const remat_profile *profile = w->problem->profile;
    if (w->problem->in_flight > 1)
        return REMAT_OK;
    search_exact_found f;
    remat_schedule other = {0};
    remat_operations list = {0};
    remat_status status = search_exactly(profile, w->budget, w->given, w->host, &f, error);
    if (status)
        return status;
    if (!w->given)
        w->bound = fmax(w->bound, f.bound);
    if (f.list.length > 0) {
        status = model_complete_list(profile, &f.list, &list, error);
        if (!status)
            status = answer_take(w, &list, NULL, &other, error);
        if (!status)
            answer_keep_faster(&other, best);
    }
    remat_operations_clear(&f.list);
    remat_operations_clear(&list);
    remat_schedule_clear(&other);
    return status == REMAT_INFEASIBLE ? REMAT_OK : status;
}

remat_status answer_improve_patiently(const answer_wish *whole, double begin, double share,
                                      remat_schedule *best, remat_error *error)
{
    if (whole->problem->profile->joint || whole->problem->profile->n_nodes > MANY_NODES ||
        (best->solver && best->simulation.makespan <= whole->bound * (1 + GAP_FOR_PATIENCE)))
        return REMAT_OK;
    answer_part part = {whole->host, begin, share};
    const remat_host host = answer_part_host(&part);
    answer_wish w = *whole;
    w.effort = REMAT_PATIENT;
    w.host = &host;
    /* one over the link is no start, and would be beaten by its time without it */
    const bool starts = best->solver && !(best->solver->accepts & REMAT_NEEDS_LINK);
    remat_operations start = {0};
    if (starts && model_copy_list(&best->operations, &start))
        return remat_fail_memory(error);
    remat_status status = answer_improve_list(&w, starts ? &start : NULL, false, best, error);
    remat_operations_clear(&start);
    return status;
}
