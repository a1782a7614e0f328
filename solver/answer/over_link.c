/* What is searched over a link: from the best list so far, and from the best of those that offload.
 */
#include "answer/over_link.h"

#include "answer/best.h"
#include "answer/part.h"
#include "model/arrays.h"
#include "model/layout.h"
#include "model/lists.h"

#include <stdlib.h>

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

/* ---- one search, with addresses ---- */

/* Where that does not do, all seldom does: of a list that was not mended, and of others. */
#define FIRST_WORK (REMAT_LAYOUT_WORK / 4)
#define SHORT_WORK (REMAT_LAYOUT_WORK / 8)

enum {
    SMALLEST_LESSON = 800, /* a part of the budget */
    MOST_DOUBLINGS = 2,    /* of it */
    MENDINGS = 5,
    MENDINGS_AGAIN = 2 /* of a list that was searched over the link before */
};

/* What one search with its mendings was asked, and the last list that it found, or none. */
struct answer_mended {
    remat_operations start;
    remat_effort effort;
    uint64_t budget;
    uint32_t alignment;
    double bound, taken;
    bool again;
    remat_operations list;
    remat_layout layout; /* empty without alignment */
    bool fits, hopeless;
};

/* What is to be left free in the next. */
typedef struct mending {
    uint64_t lesson, *pads; /* by task */
    uint32_t doublings;
} mending;

/* During what stands above the budget in the best layout that was found, that much is left free in
 * the next search, up to so much more than in the last: what fragments is planned for there, and
 * nowhere else. seen: zeros, by task. */
static void learn(mending *m, const remat_operations *list, uint32_t n_nodes, const uint64_t *over,
                  uint64_t *seen)
{
    const uint64_t most = m->lesson << m->doublings;
    for (size_t i = 0; i < list->length; i++) {
        const remat_operation *o = &list->items[i];
        if (o->kind > REMAT_B)
            continue;
        const uint32_t task = o->index + (o->kind == REMAT_B ? n_nodes : 0);
        const uint64_t more = over[i] < most ? over[i] : most;
        m->pads[task] += more > seen[task] ? more - seen[task] : 0;
        seen[task] = more > seen[task] ? more : seen[task];
    }
    m->doublings += m->doublings < MOST_DOUBLINGS;
}

/* Whether the list has addresses within the budget; where not, pads for the next one. */
static remat_status look_for_room(const answer_wish *w, uint64_t work, struct answer_mended *found,
                                  mending *m, remat_error *error)
{
    const remat_host unhurried = remat_host_unhurried(w->host);
    const model_goal goal = {.alignment = w->alignment,
                             .capacity = w->budget,
                             .work = work,
                             .one_of_many = true,
                             .host = &unhurried,
                             .in_flight = w->problem->in_flight};
    const remat_profile *profile = w->problem->profile;
    const size_t length = found->list.length;
    remat_status status = REMAT_OK;
    remat_layout_clear(&found->layout);
    if (w->alignment)
        status = model_layout_new(profile, &found->list, &goal, &found->layout, error);
    found->fits = !status && found->layout.arena <= w->budget;
    if (status || found->fits)
        return status;
    uint64_t *over = calloc(length + 2 * (size_t)profile->n_nodes, sizeof *over);
    if (!over)
        return remat_fail_memory(error);
    model_layout_over(&found->layout, w->budget, length, over);
    learn(m, &found->list, profile->n_nodes, over, over + length);
    free(over);
    return REMAT_OK;
}

static remat_status time_over_link(const answer_wish *w, const remat_operations *list,
                                   double *ret_makespan, remat_error *error)
{
    remat_simulation s;
    const remat_status status =
        remat_simulate(w->problem->profile, list, w->problem->link, NULL, NULL, &s, error);
    *ret_makespan = status ? 0 : s.makespan;
    return status;
}

/* A list of the mixed search. One without addresses is mended, in small steps, with what each
 * layout taught; where that fails, what they need beside the peak is asked of a whole search as a
 * smaller budget. */
static remat_status search_with_addresses(const answer_wish *w, struct answer_mended *one,
                                          mending *m, remat_error *error)
{
    const uint32_t mendings = one->again ? MENDINGS_AGAIN : MENDINGS;
    answer_wish own = *w;
    remat_status status = REMAT_OK;
    uint32_t failures = 0;
    double makespan = 0;
    bool found = true;
    for (uint32_t k = 0; k <= mendings && !status && !one->fits; k++) {
        remat_operations list = {0};
        const answer_search search = {.start = k > 0 ? &one->list : &one->start,
                                      .budget = w->budget - w->budget / 200 * failures,
                                      .pads = k > 0 && found ? m->pads : NULL,
                                      .bound = w->over_link,
                                      .over_link = true,
                                      .given = w->given};
        own.effort = k > 0 && found && w->effort == REMAT_QUICK ? REMAT_BRIEF : w->effort;
        status = answer_search_once(&own, &search, &list, error);
        found = !status && list.length > 0;
        failures = found ? 0 : failures + 1;
        if (found && k == 0 && w->taken > 0)
            status = time_over_link(w, &list, &makespan, error);
        one->hopeless = answer_is_hopeless(w, makespan);
        if (found && !one->hopeless) {
            model_swap_lists(&list, &one->list);
            status = look_for_room(w, k > 0 ? SHORT_WORK : FIRST_WORK, one, m, error);
        }
        remat_operations_clear(&list);
        if (one->list.length == 0)
            break;
    }
    return status;
}

static void clear_one(struct answer_mended *one)
{
    remat_operations_clear(&one->start);
    remat_operations_clear(&one->list);
    remat_layout_clear(&one->layout);
}

void answer_mended_clear(answer_searches *searches)
{
    for (size_t i = 0; i < searches->n_mended; i++)
        clear_one(&searches->mended[i]);
    free(searches->mended);
}

/* The same, which is made once: solvers that are asked by name lead to it again. */
static remat_status mend_once(const answer_wish *w, const remat_operations *start, bool again,
                              const struct answer_mended **ret_found, remat_error *error)
{
    answer_searches *made = w->searches;
    for (size_t i = 0; i < made->n_mended; i++) {
        const struct answer_mended *one = *ret_found = &made->mended[i];
        if (one->effort == w->effort && one->budget == w->budget &&
            one->alignment == w->alignment && one->bound == w->over_link && one->again == again &&
            (!one->hopeless || one->taken == w->taken) && model_same_list(&one->start, start))
            return REMAT_OK;
    }
    struct answer_mended one = {.effort = w->effort,
                                .budget = w->budget,
                                .alignment = w->alignment,
                                .bound = w->over_link,
                                .taken = w->taken,
                                .again = again};
    mending m = {.lesson = w->budget / SMALLEST_LESSON,
                 .pads = calloc(2 * (size_t)w->problem->profile->n_nodes, sizeof *m.pads)};
    remat_status status = REMAT_NO_MEMORY;
    if (m.pads &&
        model_reserve(&made->mended, &made->capacity_of_mended, made->n_mended + 1, sizeof one))
        status = model_copy_list(start, &one.start);
    status = status ? remat_fail_memory(error) : search_with_addresses(w, &one, &m, error);
    free(m.pads);
    if (status) {
        clear_one(&one);
        return status;
    }
    made->mended[made->n_mended] = one;
    *ret_found = &made->mended[made->n_mended++];
    return REMAT_OK;
}

/* The same, judged. Of what still has no addresses all of the work of a layout may find some, where
 * it was not searched before. */
static remat_status mix_within(const answer_wish *w, const remat_operations *start, bool again,
                               remat_schedule *ret_schedule, remat_error *error)
{
    const struct answer_mended *found = NULL;
    remat_operations list = {0};
    remat_status status = mend_once(w, start, again, &found, error);
    if (!status && (found->list.length == 0 || (!found->fits && again)))
        status = REMAT_INFEASIBLE;
    if (!status && model_copy_list(&found->list, &list))
        status = remat_fail_memory(error);
    if (!status)
        status = answer_take(w, &list, found->fits ? &found->layout : NULL, ret_schedule, error);
    remat_operations_clear(&list);
    return status;
}

/* ---- of several lists ---- */

/* Searches on from one list, unless the bound is reached; *best becomes the result if that is
 * faster. */
static remat_status mix_from(const answer_wish *w, const remat_operations *start, bool again,
                             remat_schedule *best, remat_error *error)
{
    remat_schedule other = {0};
    if (answer_reaches(best, w->over_link))
        return REMAT_OK;
    remat_status status = mix_within(w, start, again, &other, error);
    if (!status)
        answer_keep_faster(&other, best);
    if (best->solver)
        remat_host_found(w->host, best->simulation.makespan, 0);
    remat_schedule_clear(&other);
    return status == REMAT_INFEASIBLE ? REMAT_OK : status;
}

remat_status answer_mix_on(const answer_wish *w, bool again, remat_schedule *best,
                           remat_error *error)
{
    remat_operations list = {0};
    const remat_status status = model_copy_list(&best->operations, &list)
                                    ? remat_fail_memory(error)
                                    : mix_from(w, &list, again, best, error);
    remat_operations_clear(&list);
    return status;
}

/* Of many nodes a list that waits for the link most of the time leads nowhere. 0: any will do. */
static double slowest_start(const answer_wish *w, const remat_schedule *best)
{
    const bool any = w->problem->profile->n_nodes <= ANSWER_NAMED_NODES || !best->solver;
    return any ? 0 : 1.25 * best->simulation.makespan;
}

/* Of many nodes that search found none faster in 9 plans of 348 to 920, and took as long again. */
static bool begins_twice(const answer_wish *w, const remat_schedule *best)
{
    return w->effort == REMAT_THOROUGH || !best->solver ||
           w->problem->profile->n_nodes <= ANSWER_LINKED_NODES;
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
        status = mix_from(&own, &from->operations, false, best, error);
    } else if (!status && best->solver) {
        status = answer_mix_on(&own, false, best, error);
    } else if (!status) {
        status = remat_least_budget(p->tables, p->n, w->problem, 0, &peak, &enough, error);
        if (!status && peak > 0)
            status = remat_best_schedule(p->tables, p->n, "", w->problem, peak, 0, &start, error);
        if (!status && start.solver)
            status = mix_from(&own, &start.operations, false, best, error);
    }
    remat_schedule_clear(&start);
    part = (answer_part){w->host, MIX_FIRST_SHARE, 1 - MIX_FIRST_SHARE};
    answer_choice choice = answer_choice_of(w, offloading, n);
    choice.below = slowest_start(w, best);
    choice.brief = w->effort != REMAT_THOROUGH;
    if (!status && n > 0 && !offloads && begins_twice(w, best))
        status = answer_choose(&choice, &start, error);
    status = status == REMAT_INFEASIBLE ? REMAT_OK : status;
    own.effort = best->solver ? effort_once_more(w, &start.operations) : own.effort;
    if (!status && start.solver)
        status = mix_from(&own, &start.operations, false, best, error);
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

remat_status answer_mix_briefly(const remat_portfolio *p, const answer_wish *asked,
                                remat_schedule *best, remat_error *error)
{
    const remat_host host = remat_host_quiet(asked->host);
    const bool named = asked->problem->profile->n_nodes <= ANSWER_NAMED_NODES;
    answer_wish w = *asked;
    w.host = &host;
    w.bound = w.over_link = 0;
    w.effort = named ? REMAT_QUICK : REMAT_BRIEF;
    return answer_mix(p, &w, NULL, best, error);
}
