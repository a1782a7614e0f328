/* revolve, bptt-* and chen-*: the closed form against the dynamic program, the known values of the
 * uniform chain, and that no restricted solver beats rotor in the bytes its schedules take. */
#include "chain_support.h"

#include "chain/revolve.h"

#include <math.h>
#include <string.h>

/* Griewank & Walther: closed form, dynamic program and the positions agree. */
static void revolve_closed_form(void **state)
{
    (void)state;
    for (uint32_t c = 1; c <= 10; c++)
        for (uint32_t l = 1; l <= 60; l++) {
            double forwards = remat_revolve_forwards(l, c);
            assert_true(forwards == remat_revolve_forwards_by_program(l, c));
            if (l == 1)
                continue;
            uint64_t k = remat_revolve_position(l, c);
            assert_true(k >= 1 && k < l);
            double right = l - k == 1 ? 0
                           : c == 1   ? INFINITY
                                      : remat_revolve_forwards(l - k, c - 1);
            if ((double)k + right + remat_revolve_forwards(k, c) != forwards)
                fail_msg("l = %u, c = %u: position %llu is not optimal", l, c,
                         (unsigned long long)k);
        }
    /* r with binom(c+r, c) >= l: three repetitions reverse 84 stages with 6 snapshots, not 85 */
    assert_int_equal(remat_revolve_repetitions(84, 6), 3);
    assert_int_equal(remat_revolve_repetitions(85, 6), 4);
}

static void uniform(support_chain *chain, support_stage *stages, uint32_t n, uint64_t saved)
{
    *chain = (support_chain){.n = n, .n_inputs = 1, .stages = stages};
    chain->input_bytes[0] = 4;
    for (uint32_t i = 0; i < n; i++)
        stages[i] = (support_stage){
            .a = 4, .saved = saved, .delta = 4, .uf = 1, .ub = 1000, .uses_output = true};
}

static void *tabulate(const char *name, const remat_problem *problem)
{
    void *table = NULL;
    remat_error error = {0};
    const remat_solver *solver = remat_solver_find(name);
    if (solver->tabulate(problem, NULL, &table, &error))
        fail_msg("%s: %s", name, error.message);
    return table;
}

/* Makespan of the best step within budget. */
static double best_within(const remat_solver *solver, const void *table, uint64_t budget)
{
    double best = INFINITY;
    for (size_t i = 0; i < solver->n_steps(table) && solver->step_budget(table, i) <= budget; i++)
        best = solver->step_makespan(table, i);
    return best;
}

/* On a uniform chain bptt-hsm is Revolve: C(t,m) - t forward steps (Gruslys et al., section 3). */
static void hidden_states_are_revolve(void **state)
{
    (void)state;
    enum { STAGES = 24 };
    support_stage stages[STAGES];
    support_chain chain;
    uniform(&chain, stages, STAGES, 0);
    remat_profile *profile = support_profile(&chain);
    remat_problem problem = support_problem("revolve", profile, 1000);
    const remat_solver *revolve = remat_solver_find("revolve"),
                       *hsm = remat_solver_find("bptt-hsm");
    void *by_form = tabulate("revolve", &problem);
    problem.options.values[0] = 1;
    void *by_program = tabulate("revolve", &problem);
    support_check_steps("revolve", by_program, &problem, true);
    problem = support_problem("bptt-hsm", profile, 1000);
    void *bptt = tabulate("bptt-hsm", &problem);
    support_check_steps("bptt-hsm", bptt, &problem, true);
    for (uint32_t c = 1; c < STAGES; c++) {
        double makespan = STAGES * 1001.0 + remat_revolve_forwards(STAGES, c);
        bool in_form = false, in_program = false, in_bptt = false;
        for (size_t i = 0; i < revolve->n_steps(by_form); i++)
            in_form |= revolve->step_makespan(by_form, i) == makespan;
        for (size_t i = 0; i < revolve->n_steps(by_program); i++)
            in_program |= revolve->step_makespan(by_program, i) == makespan;
        for (size_t i = 0; i < hsm->n_steps(bptt); i++)
            in_bptt |= hsm->step_makespan(bptt, i) == makespan;
        assert_true(in_form && in_program && in_bptt);
    }
    revolve->table_free(by_form);
    revolve->table_free(by_program);
    hsm->table_free(bptt);
    remat_profile_free(profile);
}

static void check_family(const char *name, const remat_profile *profile, const void *optimal)
{
    const remat_solver *rotor = remat_solver_find("rotor"), *solver = remat_solver_find(name);
    remat_problem problem = support_problem(name, profile, UINT64_C(1) << 40);
    remat_error error = {0};
    if (remat_solver_accepts(solver, &problem, &error))
        return;
    void *table = tabulate(name, &problem), *loaded = NULL;
    assert_true(solver->n_steps(table) > 0);
    support_check_steps(name, table, &problem, true);
    for (size_t i = 0; i < solver->n_steps(table); i++) {
        uint64_t budget = solver->step_budget(table, i);
        assert_true(best_within(rotor, optimal, budget) <= solver->step_makespan(table, i));
    }
    remat_buffer buffer = {0};
    assert_int_equal(solver->save(table, &buffer, &error), REMAT_OK);
    remat_reader reader = {.data = buffer.data, .length = buffer.length};
    assert_int_equal(solver->load(&problem, &reader, &loaded, &error), REMAT_OK);
    support_check_steps(name, loaded, &problem, true);
    for (size_t i = 0; i < buffer.length; i++) {
        void *damaged = NULL;
        buffer.data[i] ^= 16;
        reader = (remat_reader){.data = buffer.data, .length = buffer.length};
        if (solver->load(&problem, &reader, &damaged, &error) == REMAT_OK) {
            for (size_t step = 0; step < solver->n_steps(damaged); step++) {
                remat_operations operations = {0};
                (void)solver->trace(damaged, &problem, step, &operations, &error);
                remat_operations_clear(&operations);
            }
            solver->table_free(damaged);
        }
        buffer.data[i] ^= 16;
    }
    remat_buffer_clear(&buffer);
    solver->table_free(loaded);
    solver->table_free(table);
}

static void no_family_beats_rotor(void **state)
{
    (void)state;
    static const char *const names[] = {"chen-sqrt", "chen-greedy", "revolve",
                                        "bptt-hsm",  "bptt-ism",    "bptt-msm"};
    enum { STAGES = 18 };
    uint64_t seed = 5;
    for (int round = 0; round < 12; round++) {
        support_stage stages[STAGES];
        support_chain chain;
        uint32_t n = 1 + (uint32_t)support_below(&seed, STAGES);
        uniform(&chain, stages, n, round % 2 ? 0 : support_below(&seed, 12));
        for (uint32_t i = 0; i < n && round % 3; i++) {
            stages[i].a += support_below(&seed, 9);
            stages[i].ob = support_below(&seed, 9);
            stages[i].uf += (double)support_below(&seed, 9);
            stages[i].uses_output = support_below(&seed, 2);
        }
        remat_profile *profile = support_profile(&chain);
        remat_problem problem = support_problem("rotor", profile, 100000);
        void *optimal = tabulate("rotor", &problem);
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            check_family(names[k], profile, optimal);
        remat_solver_find("rotor")->table_free(optimal);
        remat_profile_free(profile);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(revolve_closed_form),
        cmocka_unit_test(hidden_states_are_revolve),
        cmocka_unit_test(no_family_beats_rotor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
