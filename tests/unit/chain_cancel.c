/* Solves that are cancelled: the host is asked so often that less than 50 ms of CPU time lie
 * between two polls (solver.h), before the first and after the last; and a cancelled solve leaves
 * nothing behind. 339 stages with sizes that never repeat: the automatic form tries breakpoints
 * first and goes to slots then, here to 1000 of them for a gap of 5 %, a quarter of what the
 * default asks for. */
#include "chain_support.h"

#include <malloc.h>
#include <time.h>

enum { STAGES = 339, SLOTS = 500 };
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LIMIT_SECONDS 0.5 /* a sanitizer marks every byte of a table that is freed */
#else
#define LIMIT_SECONDS 0.05
#endif

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A host that gives up at a certain poll; 0: never. */
typedef struct listener {
    uint64_t polls, gives_up_at;
    double before, longest;
} listener;

static bool poll_host(void *data)
{
    listener *l = data;
    double now = cpu_seconds(), since = now - l->before;
    l->longest = since > l->longest ? since : l->longest;
    l->before = now;
    l->polls++;
    return l->gives_up_at && l->polls >= l->gives_up_at;
}

static remat_profile *long_chain(uint64_t *ret_bytes)
{
    static support_stage stages[STAGES];
    support_chain chain = {.n = STAGES, .n_inputs = 1, .stages = stages};
    uint64_t seed = 5, bytes = 0;
    chain.input_bytes[0] = support_below(&seed, 100000000);
    for (uint32_t i = 0; i < STAGES; i++) {
        uint64_t a = i + 1 < STAGES ? 1000000 + support_below(&seed, 99000000) : 0;
        uint64_t workspace = support_below(&seed, 20000000);
        stages[i] = (support_stage){.a = a,
                                    .saved = support_below(&seed, 200000000),
                                    .delta = a,
                                    .of = workspace,
                                    .os = workspace,
                                    .ob = support_below(&seed, 20000000),
                                    .uf = (double)(100 + support_below(&seed, 2900)),
                                    .ub = (double)(200 + support_below(&seed, 5800)),
                                    .uses_output = true};
        bytes += stages[i].a + stages[i].saved;
    }
    *ret_bytes = bytes;
    return support_profile(&chain);
}

/* One solve that gives up at a poll: its polls, and the longest time between two. */
static listener solve(const remat_problem *problem, uint64_t gives_up_at)
{
    const remat_solver *rotor = remat_solver_find("rotor");
    listener l = {.gives_up_at = gives_up_at, .before = cpu_seconds()};
    remat_host host = {.data = &l, .cancelled = poll_host};
    remat_table *table = NULL;
    remat_error error = {0};
    remat_status status = remat_tabulate(rotor, problem, &host, &table, &error);
    poll_host(&l);
    l.polls--;
    assert_int_equal(status, gives_up_at ? REMAT_CANCELLED : REMAT_OK);
    assert_true((table != NULL) == (gives_up_at == 0));
    if (table) {
        remat_estimate estimate;
        assert_int_equal(rotor->estimate(problem, &estimate, &error), REMAT_OK);
        assert_true(estimate.table_bytes >= 10 * remat_table_bytes(table));
    }
    assert_true(!gives_up_at || l.polls == gives_up_at);
    print_message("# polls %llu, at most %.2f ms between them\n", (unsigned long long)l.polls,
                  1e3 * l.longest);
    remat_table_free(table);
    return l;
}

/* Work without a poll is there each time; what a virtual machine charges a thread for the first
 * touch of its memory is not. Returns how many polls there were. */
static uint64_t solve_often(const remat_problem *problem, uint64_t gives_up_at)
{
    listener l = solve(problem, gives_up_at);
    double least = l.longest;
    for (int again = 0; again < 4 && least > LIMIT_SECONDS; again++) {
        l = solve(problem, gives_up_at);
        least = l.longest < least ? l.longest : least;
    }
    if (least > LIMIT_SECONDS)
        fail_msg("%.1f ms of CPU time without a poll, in each of five solves given up at poll %llu",
                 1e3 * least, (unsigned long long)gives_up_at);
    return l.polls;
}

static void cancel_everywhere(double slots, double gap, uint64_t cuts)
{
    uint64_t bytes;
    remat_profile *profile = long_chain(&bytes);
    remat_problem problem = support_problem("rotor", profile, bytes / 2);
    problem.options.values[0] = slots;
    problem.options.values[1] = gap;
    uint64_t polls = solve_often(&problem, 0);
    assert_true(polls > cuts);
    for (uint64_t cut = 0; cut < cuts; cut++)
        solve_often(&problem, 1 + cut * cut * (polls - 1) / (cuts * cuts));
    remat_profile_free(profile);
}

static void slots_are_cancelled(void **state)
{
    (void)state;
    cancel_everywhere(SLOTS, 1, 6);
}

static void automatic_is_cancelled(void **state)
{
    (void)state;
    cancel_everywhere(0, 0.05, 4);
}

/* The automatic form makes do with the memory there is: a table within the limit whose schedules
 * are verified and whose bound holds; only where the fewest slots do not fit is it refused. */
static void little_memory_makes_a_coarser_table(void **state)
{
    (void)state;
    const remat_solver *rotor = remat_solver_find("rotor");
    uint64_t bytes;
    remat_profile *profile = long_chain(&bytes);
    remat_problem problem = support_problem("rotor", profile, bytes / 2);
    remat_estimate estimate;
    remat_error error = {0};
    assert_int_equal(rotor->estimate(&problem, &estimate, &error), REMAT_OK);
    assert_true(estimate.least_bytes > 0 && estimate.least_bytes < estimate.table_bytes / 8);
    remat_table *table = NULL;
    remat_host host = {.memory_limit = estimate.least_bytes - 1};
    assert_int_equal(remat_tabulate(rotor, &problem, &host, &table, &error), REMAT_TOO_LARGE);
    host.memory_limit = estimate.least_bytes;
    if (remat_tabulate(rotor, &problem, &host, &table, &error))
        fail_msg("%s", error.message);
    assert_true(remat_table_bytes(table) <= host.memory_limit);
    remat_schedule schedule;
    assert_int_equal(remat_table_schedule(table, &problem, bytes / 2, &schedule, &error), REMAT_OK);
    assert_true(schedule.simulation.valid && schedule.simulation.peak <= bytes / 2);
    assert_true(schedule.lower_bound <= schedule.simulation.makespan);
    remat_schedule_clear(&schedule);
    remat_table_free(table);
    remat_profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_cancelled),
        cmocka_unit_test(automatic_is_cancelled),
        cmocka_unit_test(little_memory_makes_a_coarser_table),
    };
    /* meson has malloc fill what it hands out, which for such tables takes a second */
    mallopt(M_PERTURB, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
