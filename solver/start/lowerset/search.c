/* From the frontier of the recurrence to plans.
 *
 * The recurrence gives every corner of the trade-off curve; as the true peak is the simulator's,
 * which frees more than the model knows, corners are taken all along the curve: time-centric ones
 * from the least feasible budget to no recomputation, memory-centric ones up to MEMORY_RANGE times
 * the least (beyond it they approach storing everything).
 *
 * With GRAPH_SEARCH_LEAN all this is done a second time: the recurrence with the choice of a lean
 * boundary at every step, Chen's segments with lean ones alone. The candidates of the first time
 * stay, as their replay may be the better one. */
#include "start/lowerset/search.h"

#include <math.h>

static const double MEMORY_RANGE = 2.6;

enum { TIME_STEPS = 72, MEMORY_STEPS = 40 };

/* Adds the corner of one entry. */
static remat_status add_corner(graph_plans *plans, const graph_view *graph, const graph_sets *sets,
                               const graph_frontier *frontier, uint32_t entry, remat_error *error)
{
    graph_plan plan;
    if (!graph_plans_room(plans, &plan))
        return REMAT_OK;
    graph_frontier_path(frontier, sets, entry, &plan);
    return graph_plans_add(plans, graph, error);
}

/* Adds the first corner and about `most` more, of about equal ratio from one to the next. */
static remat_status add_corners(graph_plans *plans, const graph_view *graph, const graph_sets *sets,
                                const graph_frontier *frontier, double range, size_t most,
                                remat_error *error)
{
    const graph_entry *entries = frontier->entries[0];
    uint32_t count = frontier->counts[0], last = 0;
    double least = fmax(entries[0].bytes, 1), end = fmin(entries[count - 1].bytes, range * least);
    while (last + 1 < count && entries[last + 1].bytes <= end)
        last++;
    double ratio = pow(fmax(end / least, 1), 1 / (double)most), next = least * ratio;
    remat_status status = add_corner(plans, graph, sets, frontier, 0, error);
    for (uint32_t i = 1; i <= last && !status; i++) {
        if (i < last && entries[i + 1].bytes <= next)
            continue;
        status = add_corner(plans, graph, sets, frontier, i, error);
        while (next < entries[i].bytes * (1 + 1e-9) && ratio > 1 + 1e-9)
            next *= ratio;
    }
    return status;
}

static remat_status add_frontier(const graph_frontier_rules *rules, graph_plans *plans,
                                 const graph_view *graph, const graph_sets *sets,
                                 const remat_host *host, remat_error *error)
{
    graph_frontier frontier;
    bool memory = rules->memory_centric;
    remat_status status = graph_frontier_init(&frontier, graph, sets, rules, host, error);
    if (status)
        return status;
    status = add_corners(plans, graph, sets, &frontier, memory ? MEMORY_RANGE : INFINITY,
                         memory ? MEMORY_STEPS : TIME_STEPS, error);
    graph_frontier_clear(&frontier);
    return status;
}

/* The corners of one kind of boundary or, lean, of both. */
static remat_status add_lower_sets(const graph_search *search, graph_plans *plans,
                                   const graph_view *graph, const graph_sets *sets,
                                   graph_boundary kind, const remat_host *host, remat_error *error)
{
    graph_frontier_rules rules = {.lean = kind == GRAPH_BOUNDARY_LEAN,
                                  .thinned = search->thinned,
                                  .memory_limit = host ? host->memory_limit : 0};
    remat_status status = REMAT_OK;
    if (search->candidates & GRAPH_SEARCH_TIME)
        status = add_frontier(&rules, plans, graph, sets, host, error);
    rules.memory_centric = true;
    if (!status && search->candidates & GRAPH_SEARCH_MEMORY)
        status = add_frontier(&rules, plans, graph, sets, host, error);
    return status;
}

/* Kinds of boundary to search with: the lean one where a node that can be in one can be lean. */
static int kinds_of(const graph_search *search, const remat_profile *profile)
{
    for (uint32_t v = 0; v < profile->n_nodes && search->candidates & GRAPH_SEARCH_LEAN; v++)
        if (profile->nodes[v].n_consumers > 0 && graph_can_be_lean(&profile->nodes[v]))
            return GRAPH_BOUNDARIES;
    return 1;
}

static size_t steps_of(const remat_profile *profile, int kinds)
{
    return graph_plans_limit(profile->n_nodes, (size_t)kinds * GRAPH_SEARCH_STEPS);
}

remat_estimate graph_search_estimate(const graph_search *search, const remat_profile *profile)
{
    int kinds = kinds_of(search, profile);
    size_t steps = steps_of(profile, kinds);
    remat_estimate estimate = {.table_bytes = graph_plans_estimate(profile, steps),
                               .updates = (double)steps * profile->n_nodes};
    if (!(search->candidates & (GRAPH_SEARCH_TIME | GRAPH_SEARCH_MEMORY)))
        return estimate;
    uint64_t sets = search->most_sets;
    bool both = search->candidates & GRAPH_SEARCH_TIME && search->candidates & GRAPH_SEARCH_MEMORY;
    estimate.table_bytes += graph_sets_bytes(profile->n_nodes, sets) + graph_frontier_bytes(sets);
    double passes = (both ? 2 : 1) * (kinds > 1 ? 3 : 1); /* a step with a choice is two */
    estimate.updates += passes * GRAPH_FRONTIER_LIST * (double)sets * sqrt((double)sets);
    return estimate;
}

static remat_status add_candidates(const graph_search *search, graph_plans *plans,
                                   const graph_view *graph, int kinds, const remat_host *host,
                                   remat_error *error)
{
    graph_sets sets = {0};
    remat_status status = REMAT_OK;
    if (search->candidates & (GRAPH_SEARCH_TIME | GRAPH_SEARCH_MEMORY))
        status = graph_sets_init(&sets, graph, search->family, search->most_sets, host, error);
    for (int kind = 0; kind < kinds && !status; kind++) {
        if (search->candidates & GRAPH_SEARCH_CHEN)
            status = graph_chen_add(plans, graph, (graph_boundary)kind, host, error);
        if (!status)
            status = add_lower_sets(search, plans, graph, &sets, (graph_boundary)kind, host, error);
    }
    graph_sets_clear(&sets);
    return status;
}

remat_status graph_search_solve(const graph_search *search, const remat_problem *problem,
                                const remat_host *host, const remat_sink *sink, remat_error *error)
{
    const remat_profile *profile = problem->profile;
    int kinds = kinds_of(search, profile);
    graph_plans *plans = NULL;
    graph_view graph;
    remat_status status = graph_init(&graph, profile, GRAPH_MODEL_SAFE, error);
    if (!status)
        status = graph_plans_new(profile, steps_of(profile, kinds), &plans, error);
    if (!status)
        status = add_candidates(search, plans, &graph, kinds, host, error);
    if (!status)
        status = graph_plans_offer(plans, sink, error);
    graph_clear(&graph);
    graph_plans_free(plans);
    return status;
}
