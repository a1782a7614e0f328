/* tests/data/chain_small.json: optima of small chains found by exhaustive search (its "about" says
 * of what). rotor must reproduce every number exactly; the other chain solvers must not beat them.
 */
#include "../unit/chain_json.h"

#include <string.h>

/* Last step within budget, or -1. */
static ptrdiff_t step_within(const steps *s, uint64_t budget)
{
    ptrdiff_t found = -1;
    for (size_t i = 0; i < s->n && s->items[i].model.budget <= budget; i++)
        found = (ptrdiff_t)i;
    return found;
}

static void check_numbers(const json_t *instance, const steps *s)
{
    uint64_t budget = integer(instance, "budget");
    assert_true(s->n > 0);
    assert_int_equal(s->items[0].model.budget, integer(instance, "min_feasible_budget"));
    assert_int_equal(s->items[s->n - 1].model.budget, integer(instance, "no_recompute_budget"));
    ptrdiff_t step = step_within(s, budget);
    double bound = steps_bound(s, budget);
    if (json_is_null(json_object_get(instance, "optimal_makespan"))) {
        assert_int_equal(step, -1);
        assert_true(isinf(bound));
        return;
    }
    assert_true(step >= 0);
    assert_true(s->items[step].model.makespan == number(instance, "optimal_makespan"));
    assert_true(bound == number(instance, "optimal_makespan"));
    assert_int_equal(s->items[step].model.budget, integer(instance, "peak"));
}

/* Through liveness, states and simulator: never slower, never larger than the model says. */
static void check_table(const json_t *instance, const remat_problem *problem)
{
    remat_table *table = NULL;
    remat_error error = {0};
    remat_schedule schedule;
    if (remat_tabulate(remat_solver_find("rotor"), problem, NULL, &table, &error))
        fail_msg("%s", error.message);
    uint64_t budget = integer(instance, "budget");
    remat_status status = remat_table_schedule(table, problem, budget, &schedule, &error);
    if (json_is_null(json_object_get(instance, "optimal_makespan"))) {
        if (status == REMAT_OK) { /* liveness may fit what the model does not */
            assert_true(schedule.simulation.peak <= budget);
            remat_schedule_clear(&schedule);
        } else {
            assert_int_equal(status, REMAT_INFEASIBLE);
            assert_true(error.number > budget);
            assert_true(error.number <= integer(instance, "min_feasible_budget"));
        }
    } else {
        assert_int_equal(status, REMAT_OK);
        assert_true(schedule.simulation.makespan <= number(instance, "optimal_makespan"));
        assert_true(schedule.simulation.peak <= budget);
        assert_true(schedule.lower_bound <= schedule.simulation.makespan);
        remat_schedule_clear(&schedule);
    }
    remat_table_free(table);
}

/* A heuristic's or restricted solver's step never beats the optimum of its bytes. */
static void check_other(const char *name, const remat_problem *problem, const steps *optimal)
{
    const remat_solver *solver = remat_solver_find(name);
    remat_problem own = *problem;
    own.options = remat_options_default(solver);
    if (remat_solver_accepts(solver, &own, NULL))
        return;
    steps s = steps_of(name, &own);
    support_check_steps(name, &s, &own, true);
    for (size_t i = 0; i < s.n; i++)
        assert_true(steps_best(optimal, s.items[i].model.budget) <= s.items[i].model.makespan);
    steps_clear(&s);
}

static void check_instance(const json_t *instance)
{
    support_stage stages[MAX_STAGES];
    support_chain chain;
    remat_profile *profile = read_chain(instance, &chain, stages);
    remat_problem problem = support_problem("rotor", profile, integer(instance, "budget"));
    steps rotor = steps_of("rotor", &problem);
    check_numbers(instance, &rotor);
    support_check_steps("rotor", &rotor, &problem, true);
    check_table(instance, &problem);
    static const char *const others[] = {"chen-sqrt", "chen-greedy", "revolve"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        check_other(others[i], &problem, &rotor);
    steps_clear(&rotor);
    remat_profile_free(profile);
}

static void expected_values(void **state)
{
    (void)state;
    json_error_t problem;
    json_t *root = json_load_file(TEST_DATA "/chain_small.json", 0, &problem);
    if (!root)
        fail_msg("chain_small.json: %s", problem.text);
    size_t index;
    json_t *instance;
    json_t *instances = json_object_get(root, "instances");
    assert_true(json_array_size(instances) == 20);
    json_array_foreach(instances, index, instance)
    {
        print_message("# %s\n", json_string_value(json_object_get(instance, "name")));
        check_instance(instance);
    }
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(expected_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
