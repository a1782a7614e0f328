/* Graphs for tests: random DAGs with every feature of a profile, and the replay of a whole table.
 */
#ifndef TESTS_UNIT_GRAPH_SUPPORT_H
#define TESTS_UNIT_GRAPH_SUPPORT_H

#include "chain_support.h"

#include "start/lowerset/canonical.h"

#include <string.h>

enum { GRAPH_NODES = 24, GRAPH_INPUTS = 8 };

typedef struct graph_kind {
    uint32_t n;
    uint64_t density; /* one edge in so many is there */
    bool plain;       /* no saved bytes, workspaces, states, in_place */
    bool real_times;
} graph_kind;

static inline double graph_time(uint64_t *seed, bool real)
{
    double time = (double)support_below(seed, 12);
    return real ? time / 7 + (double)support_below(seed, 1000) / 997 : time;
}

/* n nodes; the last one is the loss and takes whatever no other node reads. */
static inline remat_profile *graph_random(uint64_t *seed, const graph_kind *kind)
{
    static const char *const states[] = {"rng", "stats"};
    remat_node_spec nodes[GRAPH_NODES] = {{0}};
    char ids[GRAPH_NODES][16];
    const char *inputs[GRAPH_NODES][GRAPH_NODES + 1];
    bool read[GRAPH_NODES] = {false};
    for (uint32_t v = 0; v < kind->n; v++) {
        remat_node_spec *node = &nodes[v];
        snprintf(ids[v], sizeof ids[v], "v%u", v);
        size_t count = 0;
        bool loss = v + 1 == kind->n, first_is_node = false;
        for (uint32_t u = v; u-- > 0;)
            if ((loss && !read[u]) || support_below(seed, kind->density) == 0) {
                first_is_node |= count == 0;
                inputs[v][count++] = ids[u];
                read[u] = true;
            }
        if (count == 0 || support_below(seed, 6) == 0)
            inputs[v][count++] = "x";
        *node =
            (remat_node_spec){.id = ids[v],
                              .inputs = inputs[v],
                              .n_inputs = count,
                              .forward_time = support_number(graph_time(seed, kind->real_times)),
                              .backward_time = support_number(graph_time(seed, kind->real_times)),
                              .output_bytes = support_number((double)support_below(seed, 12)),
                              .backward_uses_inputs = support_below(seed, 3) > 0,
                              .backward_uses_output = support_below(seed, 2) > 0};
        if (kind->plain)
            continue;
        node->saved_bytes =
            support_number((double)(support_below(seed, 3) ? 0 : support_below(seed, 9)));
        node->gradient_bytes = support_number((double)support_below(seed, 12));
        node->forward_workspace_bytes = support_number((double)support_below(seed, 4));
        node->backward_workspace_bytes = support_number((double)support_below(seed, 4));
        node->save_workspace_bytes = support_number((double)support_below(seed, 6));
        node->in_place = first_is_node && support_below(seed, 3) == 0;
        if (support_below(seed, 4) == 0) {
            node->reads = &states[support_below(seed, 2)];
            node->n_reads = 1;
        }
        if (support_below(seed, 5) == 0) {
            node->writes = &states[support_below(seed, 2)];
            node->n_writes = 1;
        }
    }
    remat_input_spec input = {.id = "x",
                              .bytes = support_number((double)support_below(seed, 5)),
                              .gradient_bytes = support_number((double)support_below(seed, 5))};
    bool is_read = false;
    for (uint32_t v = 0; v < kind->n; v++)
        is_read |= strcmp(inputs[v][nodes[v].n_inputs - 1], "x") == 0;
    assert_true(is_read); /* node 0 does */
    remat_state_spec state_specs[] = {{.id = "rng", .bytes = support_number(2)},
                                      {.id = "stats", .bytes = support_number(3)}};
    remat_profile_spec spec = {.format = "remat-profile/1",
                               .name = "random",
                               .inputs = &input,
                               .n_inputs = 1,
                               .states = state_specs,
                               .n_states = kind->plain ? 0 : 2,
                               .nodes = nodes,
                               .n_nodes = kind->n};
    remat_profile *profile = NULL;
    remat_error error = {0};
    if (remat_profile_new(&spec, &profile, &error))
        fail_msg("profile: %s: %s", error.field, error.message);
    return profile;
}

/* Tabulates, which replays every step; each replayed peak is within its nominal budget and each
 * answer within the bound. */
static inline void graph_check_table(const remat_solver *solver, const remat_problem *problem)
{
    remat_table *table = NULL;
    remat_error error = {0};
    if (remat_tabulate(solver, problem, NULL, &table, &error))
        fail_msg("%s: %s", solver->name, error.message);
    size_t count;
    const remat_point *points = remat_table_frontier(table, &count);
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        remat_schedule schedule;
        if (remat_table_schedule(table, problem, points[i].peak, &schedule, &error))
            fail_msg("%s: %s", solver->name, error.message);
        if (schedule.simulation.peak > schedule.nominal_budget)
            fail_msg("%s: peak %llu, nominal %llu", solver->name,
                     (unsigned long long)schedule.simulation.peak,
                     (unsigned long long)schedule.nominal_budget);
        assert_true(schedule.simulation.peak == points[i].peak);
        assert_true(schedule.lower_bound <= schedule.simulation.makespan);
        remat_schedule_clear(&schedule);
    }
    remat_table_free(table);
}

/* Equation (1) of a valid plan, with the last segment or without. */
static inline double graph_overhead(const graph_view *graph, const graph_plan *plan, bool last)
{
    double time = 0;
    for (uint32_t v = 0; v < graph->n; v++) {
        const remat_node *node = &graph->profile->nodes[v];
        uint32_t own = plan->segment[v];
        bool kept = false;
        for (uint32_t c = 0; c < node->n_consumers; c++)
            kept |= plan->segment[node->consumers[c]] > own;
        if (last || own < plan->segment[graph->n - 1])
            time += graph->time[v] - (kept ? graph->spared[plan->lean[v]][v] : 0);
    }
    return time;
}

/* Whether segments 0, 1, .. without a gap increase along every edge and lean are only nodes that
 * save something and that a later segment reads. */
static inline bool graph_plan_valid(const remat_profile *profile, const graph_plan *plan)
{
    uint32_t n = profile->n_nodes, last = plan->segment[n - 1], used = 0;
    for (uint32_t v = 0; v < n; v++) {
        const remat_node *node = &profile->nodes[v];
        bool read_later = false;
        for (uint32_t c = 0; c < node->n_consumers; c++) {
            uint32_t later = plan->segment[node->consumers[c]];
            if (later < plan->segment[v])
                return false;
            read_later |= later > plan->segment[v];
        }
        if (plan->segment[v] > last || (plan->lean[v] && !(read_later && node->saved_bytes > 0)))
            return false;
    }
    for (uint32_t g = 0; g <= last; g++)
        for (uint32_t v = 0; v < n; v++)
            if (plan->segment[v] == g) {
                used++;
                break;
            }
    return used == last + 1;
}

#endif
