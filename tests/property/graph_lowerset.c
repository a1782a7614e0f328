/* Lower-set solvers on random graphs: against exhaustive search over every increasing sequence of
 * lower sets, through the simulator, and on damaged bytes. */
#include "../unit/graph_support.h"

#include "start/lowerset/frontier.h"
#include "start/lowerset/plans.h"

#include <math.h>

/* ---- exhaustive search ---- */

enum { NODES = 8, SUBSETS = 1 << NODES };

typedef struct search {
    const remat_profile *profile;
    uint32_t n, sets[SUBSETS];
    size_t n_sets;
    double budget, best;
    bool memory, recomputed, lean;
} search;

typedef enum summand { TIME, KEPT, GRADIENT, LEAN, SPARED } summand;

static uint32_t boundary(const search *s, uint32_t set)
{
    uint32_t result = 0;
    for (uint32_t v = 0; v < s->n; v++)
        for (uint32_t c = 0; set >> v & 1 && c < s->profile->nodes[v].n_consumers; c++)
            if (!(set >> s->profile->nodes[v].consumers[c] & 1))
                result |= 1u << v;
    return result;
}

/* Whether each node of the set that reads a state has the writer of what it reads in the set
 * too. */
static bool sees_its_states(const search *s, uint32_t set)
{
    uint32_t writer[2] = {UINT32_MAX, UINT32_MAX};
    for (uint32_t v = 0; v < s->n; v++) {
        const remat_node *node = &s->profile->nodes[v];
        for (uint32_t i = 0; i < node->n_reads; i++) {
            uint32_t w = writer[node->reads[i]];
            if ((set >> v & 1) && w != UINT32_MAX && !(set >> w & 1))
                return false;
        }
        for (uint32_t i = 0; i < node->n_writes; i++)
            writer[node->writes[i]] = v;
    }
    return true;
}

static void find_sets(search *s)
{
    s->n_sets = 0;
    for (uint32_t set = 0; set < 1u << s->n; set++) {
        bool lower = true;
        for (uint32_t v = 0; v < s->n && lower; v++)
            for (uint32_t i = 0; set >> v & 1 && i < s->profile->nodes[v].n_inputs; i++) {
                uint32_t input = s->profile->nodes[v].inputs[i];
                lower &= input >= s->n || set >> input & 1;
            }
        lower &= sees_its_states(s, set);
        if (lower)
            s->sets[s->n_sets++] = set;
    }
}

/* A lean boundary keeps of a node that saves the output alone and spares no time. */
static double sum(const search *s, uint32_t set, summand what)
{
    double total = 0;
    for (uint32_t v = 0; v < s->n; v++) {
        const remat_node *node = &s->profile->nodes[v];
        double of_node[] = {[TIME] = node->forward_time,
                            [KEPT] = (double)(node->output_bytes + node->saved_bytes),
                            [GRADIENT] = (double)node->gradient_bytes,
                            [LEAN] = (double)node->output_bytes,
                            [SPARED] = node->saved_bytes > 0 ? 0 : node->forward_time};
        if (set >> v & 1)
            total += of_node[what];
    }
    return total;
}

/* The safe model and equation (1), from the definitions, for every sequence. */
static void extend(search *s, uint32_t from, double cached, double overhead)
{
    uint32_t all = (1u << s->n) - 1;
    if (from == all) {
        if (s->memory ? overhead > s->best : overhead < s->best)
            s->best = overhead;
        return;
    }
    for (size_t i = 0; i < s->n_sets; i++) {
        uint32_t to = s->sets[i], added = to & ~from;
        if (to == from || (from & ~to))
            continue;
        double bytes = cached + sum(s, added, KEPT) + sum(s, added, GRADIENT) +
                       sum(s, boundary(s, from), GRADIENT);
        if (bytes > s->budget)
            continue;
        uint32_t kept = added & boundary(s, to); /* the rest of the boundary is cached already */
        double again = to == all && !s->recomputed ? 0 : sum(s, added & ~kept, TIME);
        extend(s, to, cached + sum(s, kept, KEPT), overhead + again);
        if (s->lean && sum(s, kept, LEAN) < sum(s, kept, KEPT))
            extend(s, to, cached + sum(s, kept, LEAN),
                   overhead + again + sum(s, kept, TIME) - sum(s, kept, SPARED));
    }
}

static void compare_rules(search *s, const graph_view *graph, const graph_sets *sets)
{
    graph_frontier frontier;
    remat_error error = {0};
    graph_frontier_rules rules = {
        .memory_centric = s->memory, .last_recomputed = s->recomputed, .lean = s->lean};
    assert_int_equal(graph_frontier_init(&frontier, graph, sets, &rules, NULL, &error), 0);
    const graph_entry *entries = frontier.entries[0];
    double sign = s->memory ? -1 : 1, nothing = -sign * -INFINITY, before = nothing;
    for (uint32_t i = 0; i < frontier.counts[0]; i++) {
        for (int below = 1; below >= 0; below--) {
            s->budget = entries[i].bytes - below;
            s->best = nothing;
            extend(s, 0, 0, 0);
            double expected = below ? before : sign * entries[i].cost;
            if (!(s->best == expected || fabs(s->best - expected) < 1e-9))
                fail_msg("budget %g: recurrence %.17g, exhaustive search %.17g", s->budget,
                         expected, s->best);
        }
        before = sign * entries[i].cost;
    }
    graph_frontier_clear(&frontier);
}

static void equals_exhaustive_search(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int round = 0; round < 400; round++) {
        graph_kind kind = {.n = 1 + (uint32_t)support_below(&seed, round % 8 == 0 ? NODES : 7),
                           .density = 2 + support_below(&seed, 3),
                           .plain = support_below(&seed, 2),
                           .real_times = support_below(&seed, 3) == 0};
        remat_profile *profile = graph_random(&seed, &kind);
        search s = {.profile = profile, .n = kind.n};
        graph_view graph;
        graph_sets sets;
        remat_error error = {0};
        find_sets(&s);
        assert_int_equal(graph_init(&graph, profile, GRAPH_MODEL_SAFE, &error), 0);
        assert_int_equal(graph_sets_count(profile, SUBSETS), s.n_sets);
        assert_int_equal(graph_sets_init(&sets, &graph, GRAPH_FAMILY_EXACT, s.n_sets, NULL, &error),
                         0);
        assert_int_equal(sets.count, s.n_sets);
        for (int rule = 0; rule < 8; rule++) {
            s.memory = rule & 1;
            s.recomputed = rule & 2;
            s.lean = rule & 4;
            compare_rules(&s, &graph, &sets);
        }
        graph_sets_clear(&sets);
        graph_clear(&graph);
        remat_profile_free(profile);
    }
}

/* ---- schedules ---- */

static const char *const solvers[] = {"chen-graph", "lowerset-approx", "lowerset",
                                      "lowerset-exact"};

static void every_schedule_is_verified(void **state)
{
    (void)state;
    uint64_t seed = 2;
    for (int round = 0; round < 500; round++) {
        graph_kind kind = {.n = 1 + (uint32_t)support_below(&seed, round % 10 ? 11 : 18),
                           .density = 2 + support_below(&seed, 6),
                           .plain = support_below(&seed, 4) == 0,
                           .real_times = support_below(&seed, 2)};
        remat_profile *profile = graph_random(&seed, &kind);
        for (size_t i = 0; i < sizeof solvers / sizeof *solvers; i++) {
            const remat_solver *solver = remat_solver_find(solvers[i]);
            remat_problem problem = support_problem(solvers[i], profile, 1000000);
            remat_error error = {0};
            graph_check_table(solver, &problem);
            if (solver->n_options == 0)
                continue;
            assert_int_equal(
                remat_options_set(solver, &problem.options, "centric", 0, "memory", &error), 0);
            if (strcmp(solver->name, "lowerset-approx") == 0)
                assert_int_equal(
                    remat_options_set(solver, &problem.options, "family", 0, "paper", &error), 0);
            graph_check_table(solver, &problem);
        }
        remat_profile_free(profile);
    }
}

/* Every nominal budget is a promise of the model: the step with the least is the least of all
 * sequences, and no step of any other solver goes below, but lowerset where lean boundaries do. */
static void exact_is_least(void **state)
{
    (void)state;
    uint64_t seed = 3;
    for (int round = 0; round < 300; round++) {
        graph_kind kind = {.n = 1 + (uint32_t)support_below(&seed, 12), .density = 3};
        remat_profile *profile = graph_random(&seed, &kind);
        uint64_t least[4] = {0};
        for (size_t i = 0; i < sizeof solvers / sizeof *solvers; i++) {
            remat_problem problem = support_problem(solvers[i], profile, 1000000);
            steps offered = steps_of(solvers[i], &problem);
            least[i] = steps_least(&offered);
            steps_clear(&offered);
        }
        bool saves = false;
        for (uint32_t v = 0; v < kind.n; v++)
            saves |= profile->nodes[v].saved_bytes > 0;
        assert_true(least[3] <= least[0] && least[3] <= least[1]);
        assert_true(saves ? least[2] <= least[3] : least[2] == least[3]);
        remat_profile_free(profile);
    }
}

/* ---- refusals ---- */

/* k sources into one loss: 2^k + 1 lower sets. */
static remat_profile *fan(uint32_t k)
{
    remat_node_spec nodes[64] = {{0}};
    char ids[64][16];
    const char *names[64], *input = "x";
    for (uint32_t v = 0; v <= k; v++) {
        snprintf(ids[v], sizeof ids[v], "v%u", v);
        names[v] = ids[v];
        nodes[v] = (remat_node_spec){.id = ids[v],
                                     .inputs = v < k ? &input : names,
                                     .n_inputs = v < k ? 1 : k,
                                     .forward_time = support_number(1),
                                     .output_bytes = support_number(1),
                                     .backward_uses_inputs = true};
    }
    remat_input_spec spec_input = {.id = "x", .bytes = support_number(0)};
    remat_profile_spec spec = {.format = "remat-profile/1",
                               .name = "fan",
                               .inputs = &spec_input,
                               .n_inputs = 1,
                               .nodes = nodes,
                               .n_nodes = k + 1};
    remat_profile *profile = NULL;
    assert_int_equal(remat_profile_new(&spec, &profile, NULL), REMAT_OK);
    return profile;
}

static void refuses_too_many_sets(void **state)
{
    (void)state;
    remat_profile *profile = fan(40);
    const remat_solver *exact = remat_solver_find("lowerset-exact");
    remat_problem problem = support_problem("lowerset-exact", profile, 1000);
    remat_estimate estimate;
    remat_error error = {0};
    assert_int_equal(exact->estimate(&problem, &estimate, &error), REMAT_TOO_LARGE);
    assert_non_null(strstr(error.message, "50000"));
    remat_problem other = support_problem("lowerset", profile, 1000);
    graph_check_table(remat_solver_find("lowerset"), &other);
    remat_host host = {.memory_limit = 10000};
    steps none;
    remat_profile_free(profile);
    profile = fan(10);
    problem.profile = profile;
    assert_int_equal(steps_try(exact, &problem, &host, &none, &error), REMAT_TOO_LARGE);
    remat_profile_free(profile);
}

static bool wish(void *data)
{
    int *polls = data;
    return --*polls < 0;
}

static void is_cancelled(void **state)
{
    (void)state;
    remat_profile *profile = fan(12);
    for (size_t i = 0; i < sizeof solvers / sizeof *solvers; i++)
        for (int after = 0; after < 40; after++) {
            int polls = after;
            remat_host host = {.data = &polls, .cancelled = wish};
            const remat_solver *solver = remat_solver_find(solvers[i]);
            remat_problem problem = support_problem(solvers[i], profile, 1000);
            remat_error error = {0};
            remat_table *table = NULL;
            remat_status status = remat_tabulate(solver, &problem, &host, &table, &error);
            assert_true(status == REMAT_CANCELLED || (i == 0 && status == REMAT_OK) || after > 20);
            remat_table_free(table);
        }
    remat_profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_exhaustive_search),
        cmocka_unit_test(every_schedule_is_verified),
        cmocka_unit_test(exact_is_least),
        cmocka_unit_test(refuses_too_many_sets),
        cmocka_unit_test(is_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
