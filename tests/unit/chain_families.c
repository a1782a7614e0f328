/* revolve, bptt-* and chen-*: the closed form against the dynamic program, the known values of the
 * uniform chain, and that no restricted solver beats rotor in the bytes its schedules take. */
#include "chain_support.h"

#include "papers/chain/revolve.h"

#include <math.h>
#include <string.h>

enum { MOST_SNAPSHOTS = 10, MOST_STAGES = 60 };

/* Their (6), by its own recurrence. */
static void fill_forwards(double t[MOST_SNAPSHOTS + 1][MOST_STAGES + 1])
{
    for (int c = 0; c <= MOST_SNAPSHOTS; c++)
        for (int l = 0; l <= MOST_STAGES; l++) {
            t[c][l] = l <= 1 ? 0 : INFINITY;
            for (int k = 1; c > 0 && k < l; k++)
                t[c][l] = fmin(t[c][l], k + t[c - 1][l - k] + t[c][k]);
        }
}

/* Griewank & Walther: closed form, dynamic program and the positions agree. */
static void revolve_closed_form(void **state)
{
    (void)state;
    double t[MOST_SNAPSHOTS + 1][MOST_STAGES + 1];
    uint64_t range;
    fill_forwards(t);
    for (uint32_t c = 1; c <= MOST_SNAPSHOTS; c++)
        for (uint32_t l = 1; l <= MOST_STAGES; l++) {
            double forwards = chain_revolve_forwards(l, c);
            assert_true(forwards == t[c][l]);
            if (l == 1)
                continue;
            uint64_t k = chain_revolve_position(l, c);
            assert_true(k >= 1 && k < l);
            double right = l - k == 1 ? 0
                           : c == 1   ? INFINITY
                                      : chain_revolve_forwards(l - k, c - 1);
            if ((double)k + right + chain_revolve_forwards(k, c) != forwards)
                fail_msg("l = %u, c = %u: position %llu is not optimal", l, c,
                         (unsigned long long)k);
        }
    /* r with binom(c+r, c) >= l: three repetitions reverse 84 stages with 6 snapshots, not 85 */
    assert_int_equal(chain_revolve_repetitions(84, 6, &range), 3);
    assert_int_equal(chain_revolve_repetitions(85, 6, &range), 4);
}

static void uniform(support_chain *chain, support_stage *stages, uint32_t n, uint64_t saved)
{
    *chain = (support_chain){.n = n, .n_inputs = 1, .stages = stages};
    chain->input_bytes[0] = 4;
    for (uint32_t i = 0; i < n; i++)
        stages[i] = (support_stage){
            .a = 4, .saved = saved, .delta = 4, .uf = 1, .ub = 1000, .uses_output = true};
}

static bool has_makespan(const steps *s, double makespan)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->items[i].model.makespan == makespan)
            return true;
    return false;
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
    steps by_form = steps_of("revolve", &problem);
    problem.options.values[0] = 1;
    steps by_program = steps_of("revolve", &problem);
    support_check_steps("revolve", &by_program, &problem, true);
    problem = support_problem("bptt-hsm", profile, 1000);
    steps bptt = steps_of("bptt-hsm", &problem);
    support_check_steps("bptt-hsm", &bptt, &problem, true);
    for (uint32_t c = 1; c < STAGES; c++) {
        double makespan = STAGES * 1001.0 + chain_revolve_forwards(STAGES, c);
        assert_true(has_makespan(&by_form, makespan) && has_makespan(&by_program, makespan) &&
                    has_makespan(&bptt, makespan));
    }
    steps_clear(&by_form);
    steps_clear(&by_program);
    steps_clear(&bptt);
    remat_profile_free(profile);
}

static void check_family(const char *name, const remat_profile *profile, const steps *optimal)
{
    remat_problem problem = support_problem(name, profile, UINT64_C(1) << 40);
    if (remat_solver_accepts(remat_solver_find(name), &problem, NULL))
        return;
    steps s = steps_of(name, &problem);
    assert_true(s.n > 0);
    support_check_steps(name, &s, &problem, true);
    for (size_t i = 0; i < s.n; i++)
        assert_true(steps_best(optimal, s.items[i].model.budget) <= s.items[i].model.makespan);
    steps_clear(&s);
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
        steps optimal = steps_of("rotor", &problem);
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            check_family(names[k], profile, &optimal);
        steps_clear(&optimal);
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
