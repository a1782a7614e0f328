#include "answer/over_link.h"
#include "model/arrays.h"
#include "model/lists.h"
#include "search/mixed.h"

struct answer_searched {
    answer_search asked;
    remat_operations start, found;
    remat_effort effort;
    uint32_t series;
    remat_status status; /* REMAT_OK or REMAT_INFEASIBLE */
};

void answer_searches_clear(answer_searches *searches)
{
    answer_mended_clear(searches);
    for (size_t i = 0; i < searches->n; i++) {
        remat_operations_clear(&searches->items[i].start);
        remat_operations_clear(&searches->items[i].found);
    }
    free(searches->items);
    *searches = (answer_searches){0};
}

static bool is_same(const struct answer_searched *one, const answer_wish *w, const answer_search *s)
{
    const answer_search *asked = &one->asked;
    return one->effort == w->effort && one->series == w->series && asked->budget == s->budget &&
           asked->bound == s->bound && asked->over_link == s->over_link &&
           asked->given == s->given && !asked->start == !s->start &&
           (!s->start || model_same_list(&one->start, s->start));
}

static remat_status search(const answer_wish *w, const answer_search *s, remat_operations *list,
                           remat_error *error)
{
    const remat_problem *problem = w->problem;
    const uint32_t in_flight = problem->in_flight > 1 ? problem->in_flight : 1;
    return s->over_link
               ? remat_mix(problem->profile, problem->link, s->start, s->budget, s->pads, s->given,
                           w->alignment, w->effort, s->bound, w->host, list, error)
               : remat_improve(problem->profile, s->start, s->budget, in_flight, w->alignment,
                               s->given, w->effort, w->series, s->bound, w->host, list, error);
}

static remat_status found_before(const struct answer_searched *one, remat_operations *ret_list,
                                 remat_error *error)
{
    if (one->status)
        return remat_fail(error, one->status, "budget", "no schedule within %llu bytes was found",
                          (unsigned long long)one->asked.budget);
    return model_copy_list(&one->found, ret_list) ? remat_fail_memory(error) : REMAT_OK;
}

remat_status answer_search_once(const answer_wish *w, const answer_search *s,
                                remat_operations *ret_list, remat_error *error)
{
    answer_searches *made = w->searches;
    for (size_t i = 0; i < made->n && !s->pads; i++)
        if (is_same(&made->items[i], w, s))
            return found_before(&made->items[i], ret_list, error);
    struct answer_searched one = {.asked = *s, .effort = w->effort, .series = w->series};
    one.status = search(w, s, ret_list, error);
    if ((one.status && one.status != REMAT_INFEASIBLE) || s->pads)
        return one.status;
    if (!model_reserve(&made->items, &made->capacity, made->n + 1, sizeof one) ||
        (s->start && model_copy_list(s->start, &one.start)) ||
        model_copy_list(ret_list, &one.found)) {
        remat_operations_clear(&one.start);
        remat_operations_clear(ret_list);
        return remat_fail_memory(error);
    }
    made->items[made->n++] = one;
    return one.status;
}
