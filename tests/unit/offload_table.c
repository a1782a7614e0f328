/* What the solvers of solver/offload promise beside their schedules: tables that are saved and
 * loaded, damaged bytes, cancellation, limits of memory, latency, shared links, graphs. */
#include "../unit/core_support.h"
#include "../unit/offload_support.h"

static const char *const solvers[] = {"offload-all", "offload-conv", "offload-greedy",
                                      "offload-selective", "pofo"};
enum { SOLVERS = sizeof solvers / sizeof *solvers, STAGES = 12 };

/* Twelve stages that differ; storing everything takes some 380 bytes. */
static remat_profile *make_chain(void)
{
    support_stage stages[STAGES];
    support_chain chain = {.n = STAGES, .n_inputs = 2, .stages = stages};
    uint64_t seed = 3;
    memset(stages, 0, sizeof stages);
    chain.input_bytes[0] = 9;
    chain.input_bytes[1] = 2; /* read by the loss: stays */
    for (uint32_t i = 0; i < STAGES; i++)
        stages[i] = (support_stage){.a = i + 1 < STAGES ? 4 + support_below(&seed, 12) : 0,
                                    .saved = support_below(&seed, 30),
                                    .delta = i + 1 < STAGES ? 5 : 0,
                                    .uf = (double)(1 + support_below(&seed, 9)),
                                    .ub = (double)(2 + support_below(&seed, 9)),
                                    .uses_output = true};
    stages[STAGES - 1].reads_input[1] = true;
    return support_profile(&chain);
}

static remat_table *tabulate(const char *solver, const remat_problem *problem)
{
    remat_table *table = NULL;
    remat_error error = {0};
    support_good(remat_tabulate(remat_solver_find(solver), problem, NULL, &table, &error), &error);
    return table;
}

static uint64_t store_all_peak(const remat_profile *profile)
{
    uint64_t peak;
    remat_error error = {0};
    support_good(remat_store_all_peak(profile, &peak, &error), &error);
    return peak;
}

static void assert_same_frontier(const remat_table *a, const remat_table *b)
{
    size_t n_a, n_b;
    const remat_point *of_a = remat_table_frontier(a, &n_a);
    const remat_point *of_b = remat_table_frontier(b, &n_b);
    assert_int_equal(n_a, n_b);
    for (size_t i = 0; i < n_a; i++)
        assert_true(of_a[i].peak == of_b[i].peak && of_a[i].makespan == of_b[i].makespan);
}

static void saved_tables_load(void **state)
{
    (void)state;
    remat_profile *profile = make_chain();
    const remat_link link = {4, 3, 0.5, false};
    for (size_t k = 0; k < SOLVERS; k++) {
        const remat_solver *solver = remat_solver_find(solvers[k]);
        remat_problem problem = support_problem(solvers[k], profile, store_all_peak(profile));
        remat_buffer buffer = {0};
        remat_error error = {0};
        remat_table *back = NULL;
        remat_schedule schedule;
        problem.link = &link;
        remat_table *table = tabulate(solvers[k], &problem);
        support_good(remat_table_save(table, &buffer, &error), &error);
        support_good(remat_table_load(solver, &problem, buffer.data, buffer.length, &back, &error),
                     &error);
        assert_same_frontier(table, back);
        assert_true(remat_table_serves(back, &problem));
        size_t n;
        const remat_point *points = remat_table_frontier(back, &n);
        assert_true(n > (strcmp(solvers[k], "offload-conv") ? 3 : 0)); /* none is one here */
        for (size_t i = 0; i < n; i++) {
            support_good(remat_table_schedule(back, &problem, points[i].peak, &schedule, &error),
                         &error);
            remat_schedule_clear(&schedule);
        }
        const remat_link other = {4, 3, 0.25, false};
        remat_table *wrong = NULL;
        problem.link = &other;
        assert_int_equal(
            remat_table_load(solver, &problem, buffer.data, buffer.length, &wrong, &error),
            REMAT_INVALID);
        remat_buffer_clear(&buffer);
        remat_table_free(table);
        remat_table_free(back);
    }
    remat_profile_free(profile);
}

static bool cancel_at(void *data)
{
    int *left = data;
    return --*left < 0;
}

/* Cancelled at every tenth poll in turn, until the work is done before it. */
static void cancellation_leaves_nothing(void **state)
{
    (void)state;
    remat_profile *profile = make_chain();
    const remat_link link = support_link(4);
    for (size_t k = 0; k < SOLVERS; k++) {
        remat_problem problem = support_problem(solvers[k], profile, store_all_peak(profile));
        int cancelled = 0;
        remat_status status = REMAT_CANCELLED;
        problem.link = &link;
        for (int polls = 0; status == REMAT_CANCELLED; polls += 1 + polls / 2) {
            int left = polls;
            const remat_host host = {.data = &left, .cancelled = cancel_at};
            remat_table *table = NULL;
            status = remat_tabulate(remat_solver_find(solvers[k]), &problem, &host, &table, NULL);
            cancelled += status == REMAT_CANCELLED;
            remat_table_free(table);
        }
        assert_int_equal(status, REMAT_OK);
        assert_true(cancelled > 0);
    }
    remat_profile_free(profile);
}

static void memory_limit_is_kept(void **state)
{
    (void)state;
    remat_profile *profile = make_chain();
    const remat_link link = support_link(4);
    remat_problem problem = support_problem("pofo", profile, store_all_peak(profile) / 2);
    const remat_host host = {.memory_limit = 100000};
    remat_table *table = NULL;
    problem.link = &link;
    assert_int_equal(remat_tabulate(remat_solver_find("pofo"), &problem, &host, &table, NULL),
                     REMAT_TOO_LARGE);
    assert_null(table);
    remat_profile_free(profile);
}

/* A latency costs time but never validity, and a table without a link is refused. */
static void latency_costs_time(void **state)
{
    (void)state;
    remat_profile *profile = make_chain();
    uint64_t budget = store_all_peak(profile) / 2;
    double makespans[3];
    static const remat_link links[3] = {{2, 2, 0, false}, {2, 2, 3, false}, {2, 2, 3, true}};
    for (int k = 0; k < 3; k++) {
        remat_problem problem = support_problem("pofo", profile, budget);
        problem.link = &links[k];
        remat_table *table = tabulate("pofo", &problem);
        remat_schedule schedule;
        remat_error error = {0};
        support_good(remat_table_schedule(table, &problem, budget, &schedule, &error), &error);
        makespans[k] = schedule.simulation.makespan;
        assert_true(schedule.lower_bound <= makespans[k]);
        remat_schedule_clear(&schedule);
        remat_table_free(table);
    }
    print_message("# makespan %g, with latency %g, shared %g\n", makespans[0], makespans[1],
                  makespans[2]);
    assert_true(makespans[0] < makespans[1]);
    assert_true(makespans[1] <= makespans[2]);
    remat_problem problem = support_problem("pofo", profile, budget);
    remat_error error = {0};
    assert_int_equal(remat_solver_accepts(remat_solver_find("pofo"), &problem, &error),
                     REMAT_NOT_ACCEPTED);
    assert_string_equal(error.field, "link");
    remat_profile_free(profile);
}

/* A table for any budget there is, and one for a budget in which nothing fits. */
static void extreme_budgets(void **state)
{
    (void)state;
    remat_profile *profile = make_chain();
    const remat_link link = support_link(4);
    for (size_t k = 0; k < SOLVERS; k++) {
        remat_problem problem = support_problem(solvers[k], profile, UINT64_MAX);
        size_t n;
        problem.link = &link;
        remat_table *table = tabulate(solvers[k], &problem);
        const remat_point *points = remat_table_frontier(table, &n);
        assert_true(n > 0 && points[n - 1].makespan == remat_store_all_makespan(profile));
        assert_true(remat_table_serves(table, &problem));
        remat_table_free(table);
        problem.max_budget = 1;
        table = tabulate(solvers[k], &problem);
        assert_int_equal(remat_table_point(table, 1), -1);
        remat_table_free(table);
    }
    remat_profile_free(profile);
}

/* One byte short of everything: vDNN moves all it can, greedy as little as it must. */
static void greedy_moves_only_what_it_must(void **state)
{
    (void)state;
    remat_profile *profile = make_chain();
    const remat_link link = support_link(4);
    uint64_t peak = store_all_peak(profile), bytes[2] = {0};
    static const char *const names[] = {"offload-all", "offload-greedy"};
    for (int k = 0; k < 2; k++) {
        remat_problem problem = support_problem(names[k], profile, peak - 1);
        problem.link = &link;
        remat_table *table = tabulate(names[k], &problem);
        remat_schedule schedule;
        remat_error error = {0};
        support_good(remat_table_schedule(table, &problem, peak - 1, &schedule, &error), &error);
        bytes[k] = schedule.simulation.bytes_to_host;
        assert_true(schedule.simulation.recomputed_time == 0);
        assert_true(schedule.simulation.bytes_to_device == bytes[k]);
        remat_schedule_clear(&schedule);
        remat_table_free(table);
    }
    assert_true(bytes[1] > 0 && bytes[1] < bytes[0]);
    remat_profile_free(profile);
}

/* vDNN_conv: the inputs of convolutions and nothing else, on a graph too. */
static void conv_moves_inputs_of_convolutions(void **state)
{
    (void)state;
    const remat_profile_spec spec = {
        HEADER,
        GRAPH_INPUTS({.id = "x", .bytes = NUMBER(4)}),
        NODES({.id = "a",
               .op = "Conv2d",
               INPUTS("x"),
               .output_bytes = NUMBER(8),
               .forward_time = NUMBER(9),
               .backward_uses_inputs = true},
              {.id = "b",
               .op = "relu",
               INPUTS("a"),
               .output_bytes = NUMBER(8),
               .forward_time = NUMBER(9),
               .backward_uses_inputs = true},
              {.id = "c",
               .op = "conv2d",
               INPUTS("b"),
               .output_bytes = NUMBER(8),
               .forward_time = NUMBER(9),
               .backward_uses_inputs = true},
              {.id = "d",
               .op = "add",
               INPUTS("b", "c"),
               .output_bytes = NUMBER(0),
               .forward_time = NUMBER(9),
               .backward_uses_inputs = true}),
    };
    remat_profile *profile = make_profile(&spec);
    const remat_link link = support_link(4);
    remat_problem problem = support_problem("offload-conv", profile, store_all_peak(profile) - 1);
    remat_schedule schedule;
    remat_error error = {0};
    size_t n_moved = 0;
    problem.link = &link;
    remat_table *table = tabulate("offload-conv", &problem);
    support_good(remat_table_schedule(table, &problem, problem.max_budget, &schedule, &error),
                 &error);
    for (size_t k = 0; k < schedule.operations.length; k++) {
        const remat_operation *operation = &schedule.operations.items[k];
        n_moved += operation->kind == REMAT_O;
        if (operation->kind == REMAT_O)
            assert_true(operation->target == REMAT_INPUT || operation->index == 1);
    }
    /* of its candidates x and b, b is read by the loss, whose backward comes first: it stays */
    assert_int_equal(n_moved, 1);
    remat_schedule_clear(&schedule);
    remat_table_free(table);
    remat_profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saved_tables_load),
        cmocka_unit_test(cancellation_leaves_nothing),
        cmocka_unit_test(memory_limit_is_kept),
        cmocka_unit_test(latency_costs_time),
        cmocka_unit_test(extreme_budgets),
        cmocka_unit_test(greedy_moves_only_what_it_must),
        cmocka_unit_test(conv_moves_inputs_of_convolutions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
