/* Lean boundaries: nodes with saved bytes of which a boundary keeps the output alone and which are
 * run again. The recurrence over them is held against exhaustive search in graph_lowerset.c. */
#include "../unit/graph_support.h"

#include "start/lowerset/frontier.h"
#include "start/lowerset/plans.h"
#include "start/lowerset/search.h"

#include <math.h>

static bool saves_inside(const remat_profile *profile)
{
    for (uint32_t v = 0; v + 1 < profile->n_nodes; v++)
        if (profile->nodes[v].saved_bytes > 0)
            return true;
    return false;
}

/* ---- one plan ---- */

/* A valid plan: along every edge the segment stays or goes up by one. */
static void random_plan(uint64_t *seed, const graph_view *graph, const graph_plan *plan)
{
    const graph_order *order = &graph->order;
    uint32_t *segment = plan->segment;
    for (uint32_t v = 0; v < order->n; v++) {
        segment[v] = v > 0 && order->first_before[v] == order->first_before[v + 1] &&
                     support_below(seed, 3) == 0;
        for (uint32_t i = order->first_before[v]; i < order->first_before[v + 1]; i++)
            if (segment[order->before[i]] > segment[v])
                segment[v] = segment[order->before[i]];
        if (order->first_before[v] < order->first_before[v + 1])
            segment[v] += support_below(seed, 2) == 0;
        plan->lean[v] = support_below(seed, 3) > 0;
    }
    graph_plan_trim(graph->profile, plan);
}

static remat_simulation replay(const remat_profile *profile, const remat_operations *traced)
{
    remat_operations live = {0}, whole = {0};
    remat_simulation simulation;
    remat_error error = {0};
    assert_int_equal(remat_liveness(profile, traced, &live, &error), REMAT_OK);
    assert_int_equal(remat_insert_states(profile, &live, &whole, &error), REMAT_OK);
    assert_int_equal(remat_simulate(profile, &whole, NULL, NULL, NULL, &simulation, &error), 0);
    if (!simulation.valid)
        fail_msg("operation %zu: %s", simulation.bad_operation, simulation.reason);
    remat_operations_clear(&live);
    remat_operations_clear(&whole);
    return simulation;
}

/* What lean nodes save is not there while a later segment is done. */
static void check_lean_nodes(const remat_profile *profile, const graph_plan *plan,
                             const remat_operations *traced)
{
    bool saved[GRAPH_NODES] = {false};
    for (size_t i = 0; i < traced->length; i++) {
        const remat_operation *one = &traced->items[i];
        if (one->kind == REMAT_A)
            saved[one->index] = true;
        for (uint32_t u = 0; one->kind == REMAT_B && u < profile->n_nodes; u++)
            assert_false(saved[u] && plan->lean[u] && plan->segment[u] < plan->segment[one->index]);
    }
}

typedef struct plan_cost {
    uint64_t bytes;
    double overhead;
} plan_cost;

/* The model bounds peak and recomputation of any plan. */
static plan_cost check_plan(const graph_view *graph, const graph_plan *plan)
{
    plan_cost cost = {.overhead = graph_overhead(graph, plan, false)};
    remat_operations traced = {0};
    remat_error error = {0};
    assert_true(graph_plan_valid(graph->profile, plan));
    assert_int_equal(graph_plan_measure(graph, plan, &cost.bytes, &error), REMAT_OK);
    assert_int_equal(graph_plan_emit(graph->profile, plan, &traced, &error), REMAT_OK);
    remat_simulation simulation = replay(graph->profile, &traced);
    if (simulation.peak > cost.bytes)
        fail_msg("peak %llu, model %llu", (unsigned long long)simulation.peak,
                 (unsigned long long)cost.bytes);
    assert_true(simulation.recomputed_time <= cost.overhead + 1e-9);
    check_lean_nodes(graph->profile, plan, &traced);
    remat_operations_clear(&traced);
    return cost;
}

static void any_plan_is_bounded(void **state)
{
    (void)state;
    uint64_t seed = 11;
    size_t leaner = 0;
    for (int round = 0; round < 3000; round++) {
        graph_kind kind = {.n = 2 + (uint32_t)support_below(&seed, 14),
                           .density = 2 + support_below(&seed, 5),
                           .real_times = support_below(&seed, 2)};
        remat_profile *profile = graph_random(&seed, &kind);
        graph_plan plan = {.segment = (uint32_t[GRAPH_NODES]){0}, .lean = (bool[GRAPH_NODES]){0}};
        graph_view graph;
        remat_error error = {0};
        assert_int_equal(graph_init(&graph, profile, GRAPH_MODEL_SAFE, &error), REMAT_OK);
        random_plan(&seed, &graph, &plan);
        plan_cost lean = check_plan(&graph, &plan);
        memset(plan.lean, 0, kind.n * sizeof *plan.lean);
        plan_cost full = check_plan(&graph, &plan);
        assert_true(lean.bytes <= full.bytes && lean.overhead >= full.overhead);
        leaner += lean.bytes < full.bytes;
        graph_clear(&graph);
        remat_profile_free(profile);
    }
    assert_true(leaner > 100);
}

/* ---- the recurrence ---- */

/* Every corner is what its sequence measures. */
static void recurrence_measures_alike(void **state)
{
    (void)state;
    uint64_t seed = 12;
    for (int round = 0; round < 200; round++) {
        graph_kind kind = {.n = 2 + (uint32_t)support_below(&seed, 9), .density = 3};
        remat_profile *profile = graph_random(&seed, &kind);
        graph_view graph;
        graph_sets sets;
        graph_frontier frontier;
        remat_error error = {0};
        graph_frontier_rules rules = {.memory_centric = round % 2, .lean = true};
        size_t most = graph_sets_most(profile, GRAPH_FAMILY_EXACT, 5000);
        assert_int_equal(graph_init(&graph, profile, GRAPH_MODEL_SAFE, &error), REMAT_OK);
        assert_int_equal(graph_sets_init(&sets, &graph, GRAPH_FAMILY_EXACT, most, NULL, &error), 0);
        assert_int_equal(graph_frontier_init(&frontier, &graph, &sets, &rules, NULL, &error), 0);
        for (uint32_t i = 0; i < frontier.counts[0]; i++) {
            graph_plan plan = {.segment = (uint32_t[GRAPH_NODES]){0},
                               .lean = (bool[GRAPH_NODES]){0}};
            uint64_t bytes;
            graph_frontier_path(&frontier, &sets, i, &plan);
            graph_plan_trim(profile, &plan);
            assert_int_equal(graph_plan_measure(&graph, &plan, &bytes, &error), REMAT_OK);
            assert_true((double)(bytes - graph.constant) == frontier.entries[0][i].bytes);
            assert_true(fabs(fabs(frontier.entries[0][i].cost) -
                             graph_overhead(&graph, &plan, false)) < 1e-9);
        }
        graph_frontier_clear(&frontier);
        graph_sets_clear(&sets);
        graph_clear(&graph);
        remat_profile_free(profile);
    }
}

/* ---- the solver ---- */

/* lowerset's search of small graphs, without the lean candidates. */
static remat_status solve_full(const remat_problem *problem, const remat_host *host,
                               const remat_sink *sink, remat_error *error)
{
    graph_search search = {.family = GRAPH_FAMILY_EXACT,
                           .candidates =
                               GRAPH_SEARCH_TIME | GRAPH_SEARCH_MEMORY | GRAPH_SEARCH_CHEN,
                           .most_sets = graph_sets_most(problem->profile, GRAPH_FAMILY_EXACT, 600),
                           .thinned = true};
    return graph_search_solve(&search, problem, host, sink, error);
}

static void save_table(const remat_solver *solver, const remat_problem *problem,
                       remat_buffer *ret_buffer)
{
    remat_table *table = NULL;
    assert_int_equal(remat_tabulate(solver, problem, NULL, &table, NULL), REMAT_OK);
    assert_int_equal(remat_table_save(table, ret_buffer, NULL), REMAT_OK);
    remat_table_free(table);
}

static void assert_same_table(const remat_solver *a, const remat_solver *b,
                              const remat_problem *problem)
{
    remat_buffer one = {0}, two = {0};
    save_table(a, problem, &one);
    save_table(b, problem, &two);
    assert_int_equal(one.length, two.length);
    assert_memory_equal(one.data, two.data, one.length);
    remat_buffer_clear(&one);
    remat_buffer_clear(&two);
}

/* Every step of a table is within its nominal bytes and takes the time that it says. */
static void check_steps(const remat_solver *solver, const remat_problem *problem)
{
    steps offered = steps_of(solver->name, problem);
    for (size_t i = 0; i < offered.n; i++) {
        remat_simulation simulation = replay(problem->profile, &offered.items[i].operations);
        assert_true(simulation.peak <= offered.items[i].model.budget);
        assert_true(simulation.makespan == offered.items[i].model.makespan);
    }
    steps_clear(&offered);
}

/* Every schedule of one is served by the other as fast in the same bytes. Returns at how many
 * points it is faster or needs less than the least of the first. */
static size_t compare_frontiers(const remat_table *full, const remat_table *both)
{
    size_t count, other, better = 0;
    const remat_point *points = remat_table_frontier(full, &count);
    const remat_point *others = remat_table_frontier(both, &other);
    assert_true(count > 0 && other > 0);
    for (size_t i = 0; i < count; i++) {
        ptrdiff_t at = remat_table_point(both, points[i].peak);
        assert_true(at >= 0 && others[at].makespan <= points[i].makespan);
        better += others[at].makespan < points[i].makespan;
    }
    return better + (others[0].peak < points[0].peak);
}

static void adds_and_takes_nothing(void **state)
{
    (void)state;
    uint64_t seed = 13;
    size_t better = 0;
    const remat_solver *solver = remat_solver_find("lowerset");
    remat_solver before = *solver;
    before.solve = solve_full;
    for (int round = 0; round < 400; round++) {
        graph_kind kind = {.n = 2 + (uint32_t)support_below(&seed, 8),
                           .density = 2 + support_below(&seed, 3),
                           .plain = round % 4 == 0,
                           .real_times = support_below(&seed, 2)};
        remat_profile *profile = graph_random(&seed, &kind);
        remat_problem problem = support_problem("lowerset", profile, 1000000);
        remat_table *full = NULL, *both = NULL;
        remat_error error = {0};
        assert_int_equal(remat_tabulate(&before, &problem, NULL, &full, &error), REMAT_OK);
        assert_int_equal(remat_tabulate(solver, &problem, NULL, &both, &error), REMAT_OK);
        better += compare_frontiers(full, both);
        check_steps(solver, &problem);
        if (!saves_inside(profile))
            assert_same_table(&before, solver, &problem);
        remat_table_free(full);
        remat_table_free(both);
        remat_profile_free(profile);
    }
    assert_true(better > 0);
}

/* ---- blocks ---- */

/* Eight blocks (output 1, saved 20, gradient 1; F takes 1, B 2; B reads its input) and the loss
 * (output 0; 1 and 1). During B of block 8 saved(8), grad(8), the gradient and the value of block 7
 * are there, and those of blocks 1 to 6 or else an earlier segment has two blocks, whose saved
 * values are 40: 20 + 1 + 1 + 1 + 6 = 29. All blocks but the 8th run again. A full boundary holds
 * 20 saved bytes, as does each block of the segment that is done, so in 29 + 21 they are of two
 * blocks at most: a first segment of one or two, and one more. */
static remat_profile *eight_blocks(void)
{
    support_stage stages[9];
    for (int i = 0; i < 8; i++)
        stages[i] = (support_stage){.a = 1, .saved = 20, .delta = 1, .uf = 1, .ub = 2};
    stages[8] = (support_stage){.uf = 1, .ub = 1};
    support_chain chain = {.n = 9, .n_inputs = 1, .stages = stages};
    return support_profile(&chain);
}

static void blocks_fit(void **state)
{
    (void)state;
    remat_profile *profile = eight_blocks();
    remat_problem problem = support_problem("lowerset", profile, 1000000);
    const remat_solver *solver = remat_solver_find("lowerset");
    remat_solver before = *solver;
    before.solve = solve_full;
    remat_table *full = NULL, *both = NULL;
    remat_error error = {0};
    size_t count;
    assert_int_equal(remat_tabulate(&before, &problem, NULL, &full, &error), REMAT_OK);
    assert_int_equal(remat_tabulate(solver, &problem, NULL, &both, &error), REMAT_OK);
    assert_true(remat_table_frontier(full, &count)->peak > 29 + 21);
    const remat_point *point = remat_table_frontier(both, &count);
    assert_int_equal(point->peak, 29);
    assert_true(point->makespan == 8 * 3 + 2 + 7);
    remat_table_free(full);
    remat_table_free(both);
    remat_profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_plan_is_bounded),
        cmocka_unit_test(recurrence_measures_alike),
        cmocka_unit_test(adds_and_takes_nothing),
        cmocka_unit_test(blocks_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
