/* tests/data/pofo_small.json: values of the programs for rematerialization and offloading, by an
 * independent implementation and exhaustive search (its "about" says of what). The program over
 * slots must give every value, the label search every optimum, and the lists of pofo must be no
 * slower than the reference. */
#include "../unit/chain_json.h"
#include "../unit/offload_support.h"

#define SAME 1e-9 /* relative: the file's own tolerance */

static void assert_same(const char *name, const char *what, double found, double expected)
{
    if (isinf(expected) ? !isinf(found) : !(fabs(found - expected) <= SAME * expected))
        fail_msg("%s, %s: %.17g, expected %.17g", name, what, found, expected);
}

static void check_slots(const json_t *instance, const char *name, const remat_profile *profile,
                        const remat_link *link)
{
    const char *slots;
    json_t *value;
    uint64_t budget = integer(instance, "budget");
    size_t checked = 0;
    json_object_foreach(json_object_get(instance, "slots"), slots, value)
    {
        double expected = json_is_null(value) ? INFINITY : json_number_value(value);
        uint32_t n_slots = (uint32_t)strtoul(slots, NULL, 10);
        assert_same(name, slots, support_slots(profile, link, budget, n_slots, NULL), expected);
        checked++;
    }
    assert_int_equal(checked, 3);
}

static void check_labels(const json_t *instance, const char *name, const remat_profile *profile,
                         const remat_link *link)
{
    offload_labels_result result;
    support_labels(profile, link, integer(instance, "budget"), &result);
    assert_true(result.finished);
    assert_same(name, "label search", result.value, number(instance, "optimal_makespan"));
    offload_plan_clear(&result.plan);
}

/* Liveness gains nothing here: every backward reads its input and its output. */
static void check_table(const json_t *instance, const char *name, const remat_profile *profile,
                        const remat_link *link)
{
    remat_problem problem = support_problem("pofo", profile, integer(instance, "budget"));
    remat_table *table = NULL;
    remat_schedule schedule;
    remat_error error = {0};
    problem.link = link;
    double optimal = number(instance, "optimal_makespan");
    double reference = number(json_object_get(instance, "plain_outputs"), "list_reference");
    support_good(remat_tabulate(remat_solver_find("pofo"), &problem, NULL, &table, &error), &error);
    remat_status status =
        remat_table_schedule(table, &problem, problem.max_budget, &schedule, &error);
    if (status == REMAT_INFEASIBLE) {
        print_message("# %s: no list; optimum %g\n", name, optimal);
        assert_true(isinf(reference));
    } else {
        support_good(status, &error);
        double makespan = schedule.simulation.makespan;
        print_message("# %s: list %g, reference %g, optimum %g, bound %g\n", name, makespan,
                      reference, optimal, schedule.lower_bound);
        assert_true(makespan <= reference * (1 + SAME));
        assert_true(makespan >= number(instance, "lower_bound") * (1 - SAME));
        assert_true(schedule.simulation.peak <= problem.max_budget);
        /* A list can beat the class: it fetches out and saved values of a stage apart. */
        assert_same(name, "bound", schedule.lower_bound, fmin(optimal, makespan));
        assert_int_equal(schedule.optimality == REMAT_HEURISTIC, makespan > optimal * (1 + SAME));
        remat_schedule_clear(&schedule);
    }
    remat_table_free(table);
}

static void expected_values(void **state)
{
    (void)state;
    json_error_t problem;
    json_t *root = json_load_file(TEST_DATA "/pofo_small.json", 0, &problem);
    if (!root)
        fail_msg("pofo_small.json: %s", problem.text);
    size_t index;
    json_t *instance;
    json_t *instances = json_object_get(root, "instances");
    assert_int_equal(json_array_size(instances), 10);
    json_array_foreach(instances, index, instance)
    {
        const char *name = json_string_value(json_object_get(instance, "name"));
        support_stage stages[MAX_STAGES];
        support_chain chain;
        remat_profile *profile = read_chain(instance, &chain, stages);
        remat_link link = support_link(number(instance, "bandwidth"));
        check_slots(instance, name, profile, &link);
        check_labels(instance, name, profile, &link);
        check_table(instance, name, profile, &link);
        remat_profile_free(profile);
    }
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(expected_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
