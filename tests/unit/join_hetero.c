/* tests/data/join_hetero_small.json: joins with measured costs, with the optimum by exhaustive
 * search over all operation lists and the best canonical schedule (its "about" says of what). */
#include "../unit/join_support.h"

#include "papers/join/tables.h"

#include <jansson.h>
#include <math.h>

static uint64_t integer(const json_t *object, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(object, key));
}

static void read_stage(const json_t *node, support_stage *stage)
{
    *stage = (support_stage){
        .a = integer(node, "output_bytes"),
        .saved = integer(node, "saved_bytes"),
        .delta = integer(node, "gradient_bytes"),
        .of = integer(node, "forward_workspace_bytes"),
        .os = integer(node, "forward_workspace_bytes"),
        .ob = integer(node, "backward_workspace_bytes"),
        .uf = json_number_value(json_object_get(node, "forward_time")),
        .ub = json_number_value(json_object_get(node, "backward_time")),
        /* the loss's is not given: the default of profiles */
        .uses_output = !json_is_false(json_object_get(node, "backward_uses_output")),
    };
}

static void read_join(const json_t *instance, support_join *join)
{
    const json_t *branches = json_object_get(instance, "branches");
    *join = (support_join){.k = (uint32_t)json_array_size(branches)};
    read_stage(json_object_get(instance, "loss"), &join->loss);
    for (uint32_t j = 0; j < join->k; j++) {
        const json_t *nodes = json_object_get(json_array_get(branches, j), "nodes");
        join->length[j] = (uint32_t)json_array_size(nodes);
        for (uint32_t i = 0; i < join->length[j]; i++)
            read_stage(json_array_get(nodes, i), &join->steps[j][i]);
    }
}

/* null: infinity */
static double value_of(const json_t *instance, const char *key)
{
    const json_t *value = json_object_get(instance, key);
    return json_is_null(value) ? INFINITY : json_number_value(value);
}

/* The dynamic program itself, a byte a slot. */
static void check_canonical(const json_t *instance, const remat_profile *profile)
{
    join_costs *join = NULL;
    join_tables *tables = NULL;
    uint32_t least = (uint32_t)integer(instance, "canonical_minimum_budget");
    uint32_t budget = (uint32_t)integer(instance, "budget");
    join_setting setting = {.unit = 1, .n_slots = 200, .round_up = true};
    assert_int_equal(join_new(profile, &join, NULL), REMAT_OK);
    assert_int_equal(join_tables_new(join, &setting, NULL, &tables, NULL), REMAT_OK);
    const double *answer = join_tables_answer(tables);
    assert_true(answer[budget] == value_of(instance, "canonical"));
    assert_true(isinf(answer[least - 1]) && !isinf(answer[least]));
    assert_true(answer[200] == value_of(instance, "store_all_makespan"));
    assert_int_equal(join_exact(join), json_is_true(json_object_get(instance, "exact_class")));
    for (uint32_t m = least; m <= 200; m++) {
        remat_operations list = {0};
        remat_simulation simulation;
        assert_int_equal(join_tables_trace(tables, m, &list, NULL), REMAT_OK);
        assert_int_equal(remat_simulate(profile, &list, NULL, NULL, NULL, &simulation, NULL),
                         REMAT_OK);
        if (!simulation.valid)
            fail_msg("operation %zu: %s", simulation.bad_operation, simulation.reason);
        assert_true(simulation.makespan == answer[m]);
        assert_true(simulation.peak <= m);
        remat_operations_clear(&list);
    }
    join_tables_free(tables);
    join_free(join);
}

static double solved(const char *name, const remat_profile *profile, uint64_t budget, bool *optimal,
                     double *ret_bound)
{
    remat_problem problem = support_problem(name, profile, budget);
    const remat_solver *solver = remat_solver_find(name);
    remat_table *table = NULL;
    remat_schedule schedule;
    remat_error error = {0};
    double makespan = INFINITY;
    steps offered = steps_of(name, &problem);
    support_check_offers(name, &offered, &problem, true);
    *ret_bound = steps_bound(&offered, budget);
    steps_clear(&offered);
    if (remat_tabulate(solver, &problem, NULL, &table, &error))
        fail_msg("%s", error.message);
    remat_status status = remat_table_schedule(table, &problem, budget, &schedule, &error);
    if (status == REMAT_OK) {
        makespan = schedule.simulation.makespan;
        *optimal = schedule.optimality != REMAT_HEURISTIC;
        remat_schedule_clear(&schedule);
    } else {
        assert_int_equal(status, REMAT_INFEASIBLE);
    }
    remat_table_free(table);
    return makespan;
}

static void check_instance(const json_t *instance)
{
    support_join join;
    read_join(instance, &join);
    remat_profile *profile = support_join_profile(&join);
    bool exact = json_is_true(json_object_get(instance, "exact_class")), optimal = false;
    uint64_t budget = integer(instance, "budget");
    double optimum = value_of(instance, "optimum"), bound, none;
    check_canonical(instance, profile);
    double equiv = solved("equiv-chain", profile, budget, &optimal, &none);
    double found = solved("join", profile, budget, &optimal, &bound);
    assert_true(found <= value_of(instance, "canonical"));
    assert_true(found >= optimum && found <= equiv);
    assert_true(bound <= optimum);
    if (exact) {
        assert_true(found == optimum && bound == optimum);
        assert_true(optimal || isinf(found));
    }
    remat_profile_free(profile);
}

static void expected_values(void **state)
{
    (void)state;
    json_error_t problem;
    json_t *root = json_load_file(TEST_DATA "/join_hetero_small.json", 0, &problem);
    if (!root)
        fail_msg("join_hetero_small.json: %s", problem.text);
    const json_t *cases = json_object_get(root, "cases");
    assert_int_equal(json_array_size(cases), 24);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        print_message("# case %zu\n", i);
        check_instance(json_array_get(cases, i));
    }
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(expected_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
