/* tests/data/lowerset_small.json: optima of the recomputation problem on six small graphs, found by
 * trying every increasing sequence of lower sets (its "about" says of what). */
#include "../unit/graph_support.h"

#include "api.h"
#include "start/lowerset/canonical.h"
#include "start/lowerset/frontier.h"

#include <math.h>

enum { MOST_SETS = 1000 };

static json_t *load(void)
{
    json_error_t problem;
    json_t *root = json_load_file(TEST_DATA "/lowerset_small.json", 0, &problem);
    if (!root)
        fail_msg("lowerset_small.json: %s", problem.text);
    return root;
}

static const char *text(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static remat_profile *find_profile(const json_t *root, const char *name)
{
    size_t index;
    json_t *one;
    remat_profile *profile = NULL;
    remat_error error = {0};
    json_array_foreach(json_object_get(root, "profiles"), index, one)
    {
        if (strcmp(text(one, "name"), name) == 0 && remat_profile_decode(one, "", &profile, &error))
            fail_msg("%s: %s", name, error.message);
    }
    assert_non_null(profile);
    return profile;
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(1, fabs(b));
}

/* ---- one recurrence ---- */

typedef struct solved {
    remat_profile *profile;
    graph_view graph;
    graph_sets sets;
    graph_frontier frontier;
} solved;

static void solve(solved *s, const json_t *root, const char *name, graph_lowerset_family family,
                  const graph_frontier_rules *rules)
{
    remat_error error = {0};
    s->profile = find_profile(root, name);
    size_t most = graph_sets_most(s->profile, family, MOST_SETS);
    assert_true(most <= MOST_SETS);
    assert_int_equal(graph_init(&s->graph, s->profile, GRAPH_MODEL_EQUATION_2, &error), 0);
    assert_int_equal(graph_sets_init(&s->sets, &s->graph, family, most, NULL, &error), 0);
    assert_int_equal(graph_frontier_init(&s->frontier, &s->graph, &s->sets, rules, NULL, &error),
                     0);
}

static void clear(solved *s)
{
    graph_frontier_clear(&s->frontier);
    graph_sets_clear(&s->sets);
    graph_clear(&s->graph);
    remat_profile_free(s->profile);
}

static void check_case(const json_t *root, const json_t *one)
{
    bool recomputed = strcmp(text(one, "last_segment"), "recomputed") == 0;
    graph_frontier_rules rules = {.memory_centric = strcmp(text(one, "centric"), "memory") == 0,
                                  .last_recomputed = recomputed};
    solved s;
    solve(&s, root, text(one, "profile"),
          strcmp(text(one, "family"), "exact") == 0 ? GRAPH_FAMILY_EXACT : GRAPH_FAMILY_PAPER,
          &rules);
    double budget = number(one, "budget");
    const graph_entry *entries = s.frontier.entries[0];
    ptrdiff_t found = -1;
    while (found + 1 < (ptrdiff_t)s.frontier.counts[0] && entries[found + 1].bytes <= budget)
        found++;
    assert_int_equal(found >= 0, json_is_true(json_object_get(one, "feasible")));
    if (found >= 0) {
        graph_plan plan = {.segment = (uint32_t[GRAPH_NODES]){0}, .lean = (bool[GRAPH_NODES]){0}};
        uint64_t bytes;
        remat_error error = {0};
        const json_t *range = json_object_get(one, "peak_eq2_range");
        double overhead = rules.memory_centric ? -entries[found].cost : entries[found].cost;
        assert_true(near(overhead, number(one, "overhead")));
        graph_frontier_path(&s.frontier, &s.sets, (uint32_t)found, &plan);
        assert_true(graph_plan_valid(s.graph.profile, &plan));
        assert_int_equal(graph_plan_measure(&s.graph, &plan, &bytes, &error), 0);
        assert_true(near(graph_overhead(&s.graph, &plan, recomputed), overhead));
        assert_true((double)bytes == entries[found].bytes);
        assert_true((double)bytes >= json_number_value(json_array_get(range, 0)));
        assert_true((double)bytes <= json_number_value(json_array_get(range, 1)));
    }
    clear(&s);
}

static void expected_optima(void **state)
{
    (void)state;
    json_t *root = load(), *one;
    size_t index;
    assert_int_equal(json_array_size(json_object_get(root, "cases")), 201);
    json_array_foreach(json_object_get(root, "cases"), index, one)
    {
        check_case(root, one);
    }
    json_decref(root);
}

static void expected_families(void **state)
{
    (void)state;
    json_t *root = load(), *one;
    size_t index;
    const graph_frontier_rules rules = {0};
    json_array_foreach(json_object_get(root, "facts"), index, one)
    {
        solved s;
        solve(&s, root, text(one, "profile"), GRAPH_FAMILY_EXACT, &rules);
        assert_true((double)s.sets.count == number(one, "lower_sets"));
        assert_true(s.frontier.entries[0][0].bytes == number(one, "min_budget_exact"));
        assert_int_equal(graph_sets_count(s.profile, s.sets.count), s.sets.count);
        assert_int_equal(graph_sets_count(s.profile, s.sets.count - 1), s.sets.count);
        clear(&s);
        solve(&s, root, text(one, "profile"), GRAPH_FAMILY_PAPER, &rules);
        assert_true((double)s.sets.count == number(one, "pruned_family"));
        assert_true(s.frontier.entries[0][0].bytes == number(one, "min_budget_approx"));
        clear(&s);
    }
    json_decref(root);
}

/* ---- given sequences ---- */

static void read_segments(const remat_profile *profile, const json_t *segments, uint32_t *segment)
{
    size_t g, k;
    json_t *names, *name;
    json_array_foreach(segments, g, names)
    {
        json_array_foreach(names, k, name)
        {
            for (uint32_t v = 0; v < profile->n_nodes; v++)
                if (strcmp(profile->nodes[v].id, json_string_value(name)) == 0)
                    segment[v] = (uint32_t)g;
        }
    }
}

/* The expected peak runs every uncached node again; ours only what is read, so no more. */
static void check_replay(const remat_profile *profile, const graph_plan *plan, const json_t *one)
{
    remat_operations traced = {0}, live = {0};
    remat_simulation simulation;
    remat_error error = {0};
    assert_int_equal(graph_plan_emit(profile, plan, &traced, &error), REMAT_OK);
    assert_int_equal(remat_liveness(profile, &traced, &live, &error), REMAT_OK);
    assert_int_equal(remat_simulate(profile, &live, NULL, NULL, NULL, &simulation, &error), 0);
    if (!simulation.valid)
        fail_msg("operation %zu: %s", simulation.bad_operation, simulation.reason);
    assert_true((double)simulation.peak <= number(one, "peak_with_liveness"));
    assert_true(simulation.recomputed_time <= number(one, "overhead_last_kept") + 1e-9);
    remat_operations_clear(&traced);
    remat_operations_clear(&live);
}

static void expected_sequences(void **state)
{
    (void)state;
    json_t *root = load(), *one;
    size_t index;
    json_array_foreach(json_object_get(root, "evaluations"), index, one)
    {
        remat_profile *profile = find_profile(root, text(one, "profile"));
        graph_view graph;
        remat_error error = {0};
        uint64_t bytes;
        graph_plan plan = {.segment = (uint32_t[GRAPH_NODES]){0}, .lean = (bool[GRAPH_NODES]){0}};
        read_segments(profile, json_object_get(one, "segments"), plan.segment);
        assert_int_equal(graph_init(&graph, profile, GRAPH_MODEL_EQUATION_2, &error), 0);
        assert_true(graph_plan_valid(graph.profile, &plan));
        assert_int_equal(graph_plan_measure(&graph, &plan, &bytes, &error), 0);
        assert_true((double)bytes == number(one, "peak_eq2"));
        assert_true(near(graph_overhead(&graph, &plan, true), number(one, "overhead_eq1")));
        assert_true(near(graph_overhead(&graph, &plan, false), number(one, "overhead_last_kept")));
        check_replay(profile, &plan, one);
        graph_clear(&graph);
        remat_profile_free(profile);
    }
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expected_optima),
        cmocka_unit_test(expected_families),
        cmocka_unit_test(expected_sequences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
