/* Plans: steps by units, units as large as there is room, groups of them. */
#include "unit/plan_support.h"

#include "model/lists.h"
#include "remat/simulate.h"
#include "remat/table.h"
#include "start/rooms.h"
#include "start/units.h"

#include <math.h>

/* By every way the step is valid (remat_way_solve replays it), fits what it says and is no faster
 * than storing everything; remat is never slower than blocks, no way slower for a link. */
static void ways_keep_their_budgets(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt2",    "llama3.2-1b", "bert-base",
                                        "vit-b16", "resnet50",    "unet"};
    const remat_link link = {24e3, 24e3, 10, false};
    for (size_t i = 0; i < COUNT(names); i++) {
        remat_network_graph *graph =
            plan_network(names[i], 2, REMAT_BFLOAT16, 0, i % 2 == 0 && i < 4);
        remat_profile *p = plan_checked(graph);
        const double least = remat_store_all_makespan(p);
        uint64_t all;
        assert_int_equal(remat_store_all_peak(p, &all, NULL), REMAT_OK);
        for (int part = 20; part > 0; part -= 3) {
            remat_way_result r[2 * REMAT_WAYS];
            const uint64_t budget = all / 20 * (uint64_t)part;
            for (unsigned k = 0; k < 2 * REMAT_WAYS; k++) {
                remat_error error;
                if (remat_way_solve(p, graph->unit, graph->kept, (remat_way)(k / 2),
                                    k % 2 ? &link : NULL, budget, &r[k], &error))
                    fail_msg("%s: %s", names[i], error.message);
                if (!r[k].fits)
                    continue;
                assert_true(r[k].peak <= budget && r[k].makespan >= least * (1 - 1e-9));
            }
            assert_true(!r[2].fits || (r[4].fits && r[4].makespan <= r[2].makespan * (1 + 1e-9)));
            const remat_way_result *kept = &r[2 * REMAT_WAY_BLOCKS], *gone = &r[2 * REMAT_WAYS - 1];
            assert_true(gone->peak <= kept->peak);
            assert_true(!kept->fits || gone->makespan >= kept->makespan * (1 - 1e-9));
            for (unsigned k = 0; k < 2 * REMAT_WAY_OFFLOADED; k += 2) /* a link never hurts */
                assert_true(!r[k].fits ||
                            (r[k + 1].fits && r[k + 1].makespan <= r[k].makespan * (1 + 1e-9)));
        }
        remat_profile_free(p);
        remat_network_graph_free(graph);
    }
}

/* A chain of four of 10 bytes each, all read by their backwards, in two units and a loss's: forward
 * 4 x 1, backward 4 x 2. Without thresholds of INFINITY: a and b are kept; with: b is what the next
 * unit reads, a runs again. */
static void unit_lists_by_hand(void **state)
{
    (void)state;
    remat_node_spec nodes[4];
    static const char *const ids[] = {"a", "b", "c", "loss"};
    static const char *inputs[] = {"x", "a", "b", "c"};
    for (unsigned v = 0; v < 4; v++)
        nodes[v] = (remat_node_spec){.id = ids[v],
                                     .inputs = &inputs[v],
                                     .n_inputs = 1,
                                     .forward_time = {1, true},
                                     .backward_time = {2, true},
                                     .output_bytes = {v < 3 ? 10 : 0, true},
                                     .backward_uses_inputs = true};
    const remat_input_spec x = {.id = "x", .bytes = {0, true}};
    const remat_profile_spec spec = {.format = "remat-profile/1",
                                     .name = "hand",
                                     .inputs = &x,
                                     .n_inputs = 1,
                                     .nodes = nodes,
                                     .n_nodes = 4};
    static const uint32_t unit[] = {0, 0, 1, 2};
    static const struct {
        double threshold;
        const char *text;
    } known[] = {{-1, "F0 F1 F2 F3 B3 B2 B1 B0 "}, {INFINITY, "F0 F1 F2 F3 B3 B2 F0 B1 B0 "}};
    remat_profile *p;
    remat_error error;
    assert_int_equal(remat_profile_new(&spec, &p, &error), REMAT_OK);
    for (size_t i = 0; i < COUNT(known); i++) {
        remat_operations list = {0};
        const double threshold[] = {known[i].threshold, known[i].threshold, -1};
        char text[128] = "";
        assert_int_equal(remat_unit_list(p, unit, threshold, 0, &list, &error), REMAT_OK);
        for (size_t k = 0; k < list.length; k++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%u ",
                     remat_operation_name((remat_operation_kind)list.items[k].kind),
                     list.items[k].index);
        assert_string_equal(text, known[i].text);
        remat_operations_clear(&list);
    }
    remat_profile_free(p);
    /* As a stage of two units it holds b for each in flight, of a pipeline's end c too. */
    static const uint32_t halves[] = {0, 0, 1, 1};
    nodes[3].output_bytes.value = 10;
    assert_int_equal(remat_profile_new(&spec, &p, &error), REMAT_OK);
    for (int keeps_last = 0; keeps_last < 2; keeps_last++) {
        remat_stage_list stage = {.in_flight = 0};
        assert_int_equal(remat_stage_by_blocks(p, halves, keeps_last, 0, &stage, &error), REMAT_OK);
        assert_int_equal(stage.held, keeps_last ? 20 : 10);
        assert_true(stage.forward == 4 && stage.backward == (keeps_last ? 9 : 10));
    }
    remat_profile_free(p);
}

/* A chain of n nodes of 10 bytes that their backwards read, and a loss; forward 1, backward 2. */
static remat_profile *chain_of(uint32_t n, uint64_t input_bytes)
{
    char names[32][8];
    const char *inputs[32];
    remat_node_spec nodes[32];
    for (uint32_t v = 0; v < n; v++) {
        snprintf(names[v], sizeof names[v], "n%u", v);
        inputs[v] = v > 0 ? names[v - 1] : "x";
        nodes[v] = (remat_node_spec){.id = names[v],
                                     .inputs = &inputs[v],
                                     .n_inputs = 1,
                                     .forward_time = {1, true},
                                     .backward_time = {2, true},
                                     .output_bytes = {v + 1 < n ? 10 : 0, true},
                                     .backward_uses_inputs = true};
    }
    const remat_input_spec x = {.id = "x", .bytes = {(double)input_bytes, true}};
    const remat_profile_spec spec = {.format = "remat-profile/1",
                                     .name = "chain",
                                     .inputs = &x,
                                     .n_inputs = 1,
                                     .nodes = nodes,
                                     .n_nodes = n};
    remat_profile *p;
    remat_error error;
    assert_int_equal(remat_profile_new(&spec, &p, &error), REMAT_OK);
    return p;
}

/* Units of two, two and one, the first two of them a group: b, which the second unit reads, is made
 * again once before it, and a then and before its own backward. */
static void groups_by_hand(void **state)
{
    (void)state;
    static const uint32_t unit[] = {0, 0, 1, 1, 2, 3}, group[] = {0, 0, 0, 0, 1, 2};
    static const double threshold[] = {INFINITY, INFINITY, INFINITY, -1};
    remat_profile *p = chain_of(6, 0);
    remat_operations list = {0};
    remat_error error;
    char text[128] = "";
    assert_int_equal(plan_grouped_list(p, unit, group, threshold, &list, &error), REMAT_OK);
    for (size_t k = 0; k < list.length; k++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%u ",
                 remat_operation_name((remat_operation_kind)list.items[k].kind),
                 list.items[k].index);
    assert_string_equal(text, "F0 F1 F2 F3 F4 F5 B5 B4 F0 F1 F2 B3 B2 F0 B1 B0 ");
    remat_operations_clear(&list);
    remat_profile_free(p);
}

/* Least over all ways to cut n nodes of equal bytes, of which one crosses every end: the largest of
 * what the units before hand on and one makes again. */
static double least_room(uint32_t n, double kept, double crossing)
{
    double least = INFINITY;
    for (uint32_t ends = 0; ends < 1u << (n - 1); ends++) {
        double handed = 0, held = 0, most = 0;
        for (uint32_t v = 0; v < n; v++) {
            held += kept;
            most = fmax(most, handed + held);
            if (v + 1 < n && ends & 1u << v) {
                handed += crossing;
                held = 0;
            }
        }
        least = fmin(least, most);
    }
    return least;
}

/* Units take the least bytes of all: beside exhaustive search. */
static void units_fill_the_least_room(void **state)
{
    (void)state;
    enum { MOST = 12 };
    double kept[MOST], crossing[MOST], nothing[MOST] = {0};
    bool dropped[MOST];
    uint32_t unit[MOST], group[MOST];
    for (uint32_t n = 2; n <= MOST; n++)
        for (int bytes = 1; bytes <= 5; bytes++) {
            for (uint32_t v = 0; v < n; v++) {
                kept[v] = bytes;
                crossing[v] = v + 1 < n ? 1 : 0;
                dropped[v] = true;
            }
            const start_rooms rooms = {n, kept, nothing, crossing, nothing, dropped};
            const uint32_t units = start_fill_rooms(&rooms, n, false, true, INFINITY, unit, group);
            double handed = 0, held = 0, most = 0;
            assert_int_equal(units, unit[n - 1] + 1);
            for (uint32_t v = 0; v < n; v++) {
                handed += v > 0 && unit[v] != unit[v - 1];
                held = v > 0 && unit[v] == unit[v - 1] ? held + bytes : bytes;
                most = fmax(most, handed + held);
            }
            assert_true(most == least_room(n, bytes, 1));
        }
}

/* What a unit reads of the one before it comes back a unit earlier: where copies take less time
 * than units nothing waits but for the first. */
static void copies_back_are_hidden(void **state)
{
    (void)state;
    enum { NODES = 31 };
    const remat_link link = {10, 10, 0, false}; /* 2 for a unit of two, whose backward takes 4 */
    uint32_t unit[NODES];
    double threshold[NODES];
    remat_profile *p = chain_of(NODES, 0);
    for (uint32_t v = 0; v < NODES; v++) {
        unit[v] = v / 2;
        threshold[v] = -1;
    }
    remat_operations list = {0}, whole = {0};
    remat_simulation s;
    remat_error error;
    assert_int_equal(remat_unit_list(p, unit, threshold, NODES, &list, &error), REMAT_OK);
    assert_int_equal(model_complete_list(p, &list, &whole, &error), REMAT_OK);
    assert_int_equal(remat_simulate(p, &whole, &link, NULL, NULL, &s, &error), REMAT_OK);
    assert_true(s.valid && s.bytes_to_host >= 10 * (NODES - 6));
    assert_true(s.idle_time <= 2);
    remat_operations_clear(&list);
    remat_operations_clear(&whole);
    remat_profile_free(p);
}

/* Of eighty equal layers, of which each keeps much and hands on little, groups need less than half
 * of what units do; the least of everything comes first. */
static void deep_models_fit_in_groups(void **state)
{
    (void)state;
    remat_network_graph *graph = plan_network("llama2-70b", 1, REMAT_BFLOAT16, 0, false);
    remat_profile *p = plan_checked(graph);
    remat_problem problem = {.profile = p, .max_budget = UINT64_C(1) << 50, .in_flight = 1};
    remat_way_result blocks;
    remat_table *table;
    size_t n;
    const remat_solver *selective = remat_solver_find("selective");
    problem.options = remat_options_default(selective);
    assert_int_equal(
        remat_way_solve(p, graph->unit, NULL, REMAT_WAY_BLOCKS, NULL, 0, &blocks, NULL), REMAT_OK);
    assert_int_equal(remat_tabulate(selective, &problem, NULL, &table, NULL), REMAT_OK);
    const remat_point *points = remat_table_frontier(table, &n);
    assert_true(n > 0 && points[0].peak < blocks.peak / 2);
    assert_true(points[0].makespan < 1.6 * remat_store_all_makespan(p));
    remat_table_free(table);
    remat_profile_free(p);
    remat_network_graph_free(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ways_keep_their_budgets), cmocka_unit_test(unit_lists_by_hand),
        cmocka_unit_test(groups_by_hand),          cmocka_unit_test(units_fill_the_least_room),
        cmocka_unit_test(copies_back_are_hidden),  cmocka_unit_test(deep_models_fit_in_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
