/* Bounds of several tables and of single moments, together. */
#include "answer/bounds.h"

#include "bound/moments.h"
#include "remat/improve.h"

#include <math.h>

static double bound_of_tables(const remat_table *const *tables, size_t n,
                              const remat_profile *profile, uint64_t budget)
{
    double bound = remat_store_all_makespan(profile);
    for (size_t i = 0; i < n; i++)
        if (remat_table_solver(tables[i])->bounds_all)
            bound = fmax(bound, remat_table_lower_bound(tables[i], profile, budget, INFINITY));
    return bound;
}

enum { CURVE_BUDGETS = 24 };

/* Steps down from budget to budget: what holds within one holds within less. */
static void bound_by_moments(bound_moments *moments, uint32_t n_nodes, const uint64_t *budgets,
                             size_t n, double *bounds)
{
    uint64_t least = UINT64_MAX, most = 0;
    for (size_t i = 0; i < n; i++) {
        least = budgets[i] < least ? budgets[i] : least;
        most = budgets[i] > most ? budgets[i] : most;
    }
    size_t steps = n < CURVE_BUDGETS ? n : CURVE_BUDGETS;
    for (size_t k = 0; k < steps; k++) {
        uint64_t step = n <= CURVE_BUDGETS ? budgets[k] : most - (most - least) / steps * k;
        double bound = bound_moments_makespan(moments, step, REMAT_FEW_MOMENTS(n_nodes));
        for (size_t i = 0; i < n; i++)
            if (budgets[i] <= step)
                bounds[i] = fmax(bounds[i], bound);
    }
}

/* With a link: that of the fastest table's class if its schedules offload. One of schedules without
 * offloading would not hold. */
static double bound_with_link(const remat_table *const *tables, size_t n,
                              const remat_profile *profile, uint64_t budget)
{
    uint64_t least;
    ptrdiff_t best = remat_best_table(tables, n, budget, &least);
    if (best < 0 || !(remat_table_solver(tables[best])->accepts & REMAT_NEEDS_LINK))
        return remat_store_all_makespan(profile);
    return remat_table_lower_bound(tables[best], profile, budget, INFINITY);
}

remat_status remat_lower_bounds(const remat_table *const *tables, size_t n,
                                const remat_profile *profile, const uint64_t *budgets,
                                size_t n_budgets, double *ret_bounds, remat_error *error)
{
    bool offloads = false;
    for (size_t i = 0; i < n; i++)
        offloads |= (remat_table_solver(tables[i])->accepts & REMAT_NEEDS_LINK) != 0;
    for (size_t i = 0; i < n_budgets; i++)
        ret_bounds[i] = offloads ? bound_with_link(tables, n, profile, budgets[i])
                                 : bound_of_tables(tables, n, profile, budgets[i]);
    if (offloads || profile->n_nodes > REMAT_LARGE_NODES)
        return REMAT_OK;
    bound_moments *moments = NULL;
    remat_status status = bound_moments_new(profile, &moments, error);
    if (!status)
        bound_by_moments(moments, profile->n_nodes, budgets, n_budgets, ret_bounds);
    bound_moments_free(moments);
    return status;
}

remat_status remat_least_makespan(const remat_profile *profile, remat_moments **kept,
                                  uint64_t budget, uint32_t in_flight, double *ret_makespan,
                                  remat_error *error)
{
    bound_moments *own = NULL, **moments = kept ? kept : &own;
    double bound = remat_store_all_makespan(profile);
    remat_status status = !*moments && profile->n_nodes <= REMAT_LARGE_NODES
                              ? bound_moments_new(profile, moments, error)
                              : REMAT_OK;
    if (*moments)
        bound = fmax(bound, bound_moments_in_flight(*moments, budget, in_flight,
                                                    REMAT_FEW_MOMENTS(profile->n_nodes)));
    bound_moments_free(own);
    if (!status)
        *ret_makespan = bound;
    return status;
}

void remat_moments_free(remat_moments *kept)
{
    bound_moments_free(kept);
}

remat_status answer_find_bound(const remat_portfolio *p, const remat_problem *problem,
                               uint64_t budget, double *ret_bound, bound_moments **ret_moments,
                               remat_error *error)
{
    const remat_profile *profile = problem->profile;
    bound_moments *moments = NULL;
    double bound = bound_of_tables(p->tables, p->n, profile, budget);
    uint32_t n = profile->n_nodes;
    remat_status status = n <= (p->improved ? remat_improved_nodes(profile) : REMAT_LARGE_NODES)
                              ? bound_moments_new(profile, &moments, error)
                              : REMAT_OK;
    if (moments)
        bound = fmax(bound, bound_moments_in_flight(moments, budget, problem->in_flight,
                                                    p->improved ? REMAT_MANY_MOMENTS(n)
                                                                : REMAT_FEW_MOMENTS(n)));
    *ret_moments = moments;
    *ret_bound = bound;
    return status;
}

remat_status answer_find_link_bound(const remat_problem *problem, uint64_t budget,
                                    double *ret_bound, uint64_t *ret_room, remat_error *error)
{
    const remat_profile *profile = problem->profile;
    bound_moments *moments = NULL;
    *ret_room = 0;
    if (ret_bound)
        *ret_bound = remat_store_all_makespan(profile);
    if (profile->n_nodes > REMAT_LARGE_NODES)
        return REMAT_OK;
    remat_status status = bound_moments_new(profile, &moments, error);
    if (!status)
        *ret_room = (uint64_t)bound_moments_least_room(moments);
    if (!status && ret_bound)
        *ret_bound =
            *ret_room > budget
                ? INFINITY
                : fmax(*ret_bound, bound_moments_over_link(moments, problem->link, budget));
    bound_moments_free(moments);
    return status;
}

remat_status remat_find_floor(const remat_profile *profile, remat_floor *ret_floor,
                              remat_error *error)
{
    bound_moments *moments = NULL;
    *ret_floor = (remat_floor){0};
    if (profile->n_nodes > REMAT_LARGE_NODES)
        return REMAT_OK;
    remat_status status = bound_moments_new(profile, &moments, error);
    bound_moment moment;
    if (!status) {
        const double least =
            bound_moments_least_budget(moments, REMAT_MANY_MOMENTS(profile->n_nodes), &moment);
        *ret_floor = (remat_floor){(uint64_t)ceil(least), moment.node, moment.forward, moment.last};
    }
    bound_moments_free(moments);
    return status;
}
