/* What is searched over a link: from the best list so far, and from the best of those that offload.
 */
#include "answer/over_link.h"

#include "answer/best.h"
#include "answer/part.h"
#include "model/lists.h"

bool answer_is_long_chain(const answer_wish *w, const remat_operations *list)
{
    enum { SHORT = 300 };
    return w->problem->profile->kind == REMAT_CHAIN && list->length > SHORT;
}

static remat_effort effort_once_more(const answer_wish *w, const remat_operations *list)
{
    const bool brief = w->effort == REMAT_QUICK && answer_is_long_chain(w, list);
    return brief ? REMAT_BRIEF : w->effort;
}

/* A list of the mixed search, judged. What addresses need beside the peak is asked of the search as
 * a smaller budget, a little at a time, and from the list before. */
static remat_status mix_within(const answer_wish *w, const remat_operations *start,
                               remat_schedule *ret_schedule, remat_error *error)
{
    enum { TRIES = 4 };
    answer_wish own = *w;
    remat_operations before = {0};
    remat_status status = REMAT_INFEASIBLE;
    for (uint64_t k = 0; k < TRIES && status == REMAT_INFEASIBLE; k++) {
        remat_operations list = {0};
        const answer_search search = {.start = k > 0 ? &before : start,
                                      .budget = w->budget - w->budget / 200 * k,
                                      .bound = w->over_link,
                                      .over_link = true};
        status = answer_search_once(&own, &search, &list, error);
        const bool found = !status && list.length > 0;
        if (found && model_copy_list(&list, &before))
            status = remat_fail_memory(error);
        if (!status)
            status = found ? answer_take(w, &list, ret_schedule, error) : REMAT_INFEASIBLE;
        remat_operations_clear(&list);
        if (!w->alignment || !found)
            break;
        own.effort = effort_once_more(w, start);
    }
    remat_operations_clear(&before);
    return status;
}

/* Searches on from one list, unless the bound is reached; *best becomes the result if that is
 * faster. */
static remat_status mix_from(const answer_wish *w, const remat_operations *start,
                             remat_schedule *best, remat_error *error)
{
    remat_schedule other = {0};
    if (answer_reaches(best, w->over_link))
        return REMAT_OK;
    remat_status status = mix_within(w, start, &other, error);
    if (!status)
        answer_keep_faster(&other, best);
    if (best->solver)
        remat_host_found(w->host, best->simulation.makespan, 0);
    remat_schedule_clear(&other);
    return status == REMAT_INFEASIBLE ? REMAT_OK : status;
}

remat_status answer_mix_on(const answer_wish *w, remat_schedule *best, remat_error *error)
{
    remat_operations list = {0};
    const remat_status status = model_copy_list(&best->operations, &list)
                                    ? remat_fail_memory(error)
                                    : mix_from(w, &list, best, error);
    remat_operations_clear(&list);
    return status;
}

/* Of many nodes a list that waits for the link most of the time leads nowhere. 0: any will do. */
static double slowest_start(const answer_wish *w, const remat_schedule *best)
{
    const bool any = w->problem->profile->n_nodes <= ANSWER_NAMED_NODES || !best->solver;
    return any ? 0 : 1.25 * best->simulation.makespan;
}

#define MIX_QUICK_SHARE 0.1 /* of the progress of a thorough one */
#define MIX_FIRST_SHARE 0.7 /* up to the search from those that offload */

/* Thorough is never slower than the quick answer, link and all. */
static remat_status begin_quickly(const remat_portfolio *p, const answer_wish *w,
                                  remat_schedule *best, remat_error *error)
{
    remat_schedule start = {0};
    answer_part part = {w->host, 0, MIX_QUICK_SHARE};
    const remat_host host = answer_part_host(&part);
    answer_wish quick = *w;
    quick.effort = REMAT_QUICK;
    quick.host = &host;
    remat_status status = answer_schedule(p, &quick, &start, error);
    if (!status)
        answer_keep_faster(&start, best);
    remat_schedule_clear(&start);
    return status == REMAT_INFEASIBLE ? REMAT_OK : status;
}

remat_status answer_mix(const remat_portfolio *p, const answer_wish *w, const remat_schedule *from,
                        remat_schedule *best, remat_error *error)
{
    const remat_table *offloading[REMAT_MAX_SOLVERS];
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++)
        if (remat_table_solver(p->tables[i])->accepts & REMAT_NEEDS_LINK)
            offloading[n++] = p->tables[i];
    remat_schedule start = {0};
    uint64_t peak = 0, enough = 0;
    remat_status status = REMAT_OK;
    if (answer_reaches(best, w->over_link))
        return REMAT_OK;
    if (w->effort == REMAT_THOROUGH)
        status = begin_quickly(p, w, best, error);
    const double begin = w->effort == REMAT_THOROUGH ? MIX_QUICK_SHARE : 0;
    answer_part part = {w->host, begin, MIX_FIRST_SHARE - begin};
    const remat_host host = answer_part_host(&part);
    answer_wish own = *w;
    own.host = &host;
    /* then that is the best of those that offload */
    const bool offloads = !from && best->solver && (best->solver->accepts & REMAT_NEEDS_LINK);
    if (!status && from) {
        status = mix_from(&own, &from->operations, best, error);
    } else if (!status && best->solver) {
        status = answer_mix_on(&own, best, error);
    } else if (!status) {
        status = remat_least_budget(p->tables, p->n, w->problem, 0, &peak, &enough, error);
        if (!status && peak > 0)
            status = remat_best_schedule(p->tables, p->n, "", w->problem, peak, 0, &start, error);
        if (!status && start.solver)
            status = mix_from(&own, &start.operations, best, error);
    }
    remat_schedule_clear(&start);
    part = (answer_part){w->host, MIX_FIRST_SHARE, 1 - MIX_FIRST_SHARE};
    if (!status && n > 0 && !offloads)
        status = answer_choose(&(answer_choice){.tables = offloading,
                                                .n = n,
                                                .name = "",
                                                .problem = w->problem,
                                                .budget = w->budget,
                                                .alignment = w->alignment,
                                                .host = w->host,
                                                .below = slowest_start(w, best),
                                                .brief = w->effort != REMAT_THOROUGH},
                               &start, error);
    status = status == REMAT_INFEASIBLE ? REMAT_OK : status;
    own.effort = best->solver ? effort_once_more(w, &start.operations) : own.effort;
    if (!status && start.solver)
        status = mix_from(&own, &start.operations, best, error);
    remat_schedule_clear(&start);
    return status;
}

remat_status answer_mix_patiently(const remat_portfolio *p, const answer_wish *w,
                                  remat_schedule *best, remat_error *error)
{
    enum { TINY = 8 };
    const remat_host host = remat_host_quiet(w->host);
    answer_wish own = *w;
    own.host = &host;
    own.effort = REMAT_PATIENT;
    const bool tiny = w->problem->profile->n_nodes <= TINY;
    return tiny && best->solver ? answer_mix(p, &own, NULL, best, error) : REMAT_OK;
}
