/* Several micro-batches in flight, on small random stages: what auto and the improver find and what
 * the bound says beside exhaustive search, and layouts that repeat the block of what is held. */
#include "property/amount.h"
#include "property/exhaustive.h"
#include "property/joint_random.h"

#include "bound/moments.h"
#include "remat/answer.h"

enum { STAGE_NODES = 5, MOST_FLIGHTS = 4 };

/* auto's answer; makespan INFINITY where there is none. */
static double answer(const remat_profile *profile, uint64_t budget, uint32_t in_flight,
                     uint32_t alignment, remat_schedule *ret_schedule)
{
    const remat_query query = {
        .problem = {.profile = profile, .max_budget = budget, .in_flight = in_flight},
        .budget = budget,
        .alignment = alignment};
    remat_answered answered = {.portfolio = {.n = 0}};
    remat_error error = {0};
    remat_status status = remat_answer(&query, NULL, NULL, &answered, &error);
    if (status && status != REMAT_INFEASIBLE)
        fail_msg("%s", error.message);
    *ret_schedule = answered.schedule;
    answered.schedule = (remat_schedule){0};
    remat_answered_clear(&answered);
    return status ? INFINITY : ret_schedule->simulation.makespan;
}

/* The judge's sum again, from the replay alone. */
static void judge(const remat_profile *profile, const remat_schedule *s, uint64_t budget,
                  uint32_t in_flight)
{
    remat_simulation replay;
    assert_int_equal(remat_simulate(profile, &s->operations, NULL, NULL, NULL, &replay, NULL),
                     REMAT_OK);
    assert_true(replay.valid && replay.makespan == s->simulation.makespan);
    assert_true(replay.peak + (in_flight - 1) * replay.held == s->simulation.peak);
    assert_true(s->simulation.peak <= budget && s->layout.arena <= budget);
}

/* Before any search has been: what it calls impossible is not looked for. */
static void judge_bound(const remat_profile *profile, uint64_t budget, uint32_t in_flight,
                        double least)
{
    bound_moments *moments = NULL;
    assert_int_equal(bound_moments_new(profile, &moments, NULL), REMAT_OK);
    double bound = bound_moments_in_flight(moments, budget, in_flight, 100);
    if (bound > least)
        fail_msg("%u in flight within %llu: bound %.17g, but the least is %.17g", in_flight,
                 (unsigned long long)budget, bound, least);
    bound_moments_free(moments);
}

static void equals_exhaustive_search(void **state)
{
    (void)state;
    dice d = {.state = 361};
    const shape s = {.most_nodes = STAGE_NODES};
    unsigned n = amount(2000, 20), equal = 0, harder = 0, proven = 0;
    for (unsigned i = 0; i < n; i++) {
        remat_profile *profile = random_profile(&d, &s);
        uint32_t in_flight = 1 + i % MOST_FLIGHTS;
        uint64_t peak;
        assert_int_equal(remat_store_all_in_flight(profile, in_flight, &peak, NULL), REMAT_OK);
        uint64_t budget = peak * (40 + below(&d, 65)) / 100;
        remat_schedule schedule;
        double least = least_in_flight(profile, budget, in_flight);
        double found = answer(profile, budget, in_flight, 0, &schedule);
        if (found < least || schedule.lower_bound > least ||
            (found < INFINITY && schedule.optimality == REMAT_OPTIMAL && found > least))
            fail_msg("stage %u, %u in flight within %llu: %g is found and %g said to be least; it "
                     "is %g",
                     i, in_flight, (unsigned long long)budget, found, schedule.lower_bound, least);
        if (found < INFINITY)
            judge(profile, &schedule, budget, in_flight);
        judge_bound(profile, budget, in_flight, least);
        equal += found == least;
        proven += found < INFINITY && schedule.lower_bound >= least * (1 - 1e-6);
        harder += in_flight > 1 && least > least_makespan(profile, budget);
        remat_schedule_clear(&schedule);
        remat_profile_free(profile);
    }
    print_message(
        "# %u of %u stages equal exhaustive search, %u proven; %u need more time than one "
        "in flight\n",
        equal, n, proven, harder);
    assert_true(equal * 100 >= n * 98 && harder * 4 >= n);
}

/* Of joint graphs with late inputs, of alternatives, states and addresses: within the budget by the
 * judges, and one table of lists gives to every number what a table asked for it alone gives. */
static void answers_are_what_they_say(void **state)
{
    (void)state;
    dice d = {.state = 362};
    const shape s = {.most_nodes = MOST_NODES, .states = true, .alternatives = true};
    unsigned found = 0, n = amount(200, 20);
    for (unsigned i = 0; i < n; i++) {
        remat_profile *profile = i % 2 ? random_joint_graph(&d, JOINT_NODES, chance(&d, 50), true)
                                       : random_profile(&d, &s);
        uint32_t in_flight = 2 + below(&d, MOST_FLIGHTS - 1);
        uint64_t peak;
        assert_int_equal(remat_store_all_in_flight(profile, in_flight, &peak, NULL), REMAT_OK);
        uint64_t budget = peak * (60 + below(&d, 60)) / 100;
        remat_schedule schedule;
        if (answer(profile, budget, in_flight, chance(&d, 50) ? 1 : 4, &schedule) < INFINITY) {
            judge(profile, &schedule, budget, in_flight);
            assert_true(schedule.layout.arena >= schedule.simulation.peak);
            found++;
        }
        remat_schedule_clear(&schedule);
        remat_profile_free(profile);
    }
    assert_true(found * 4 >= n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_exhaustive_search),
        cmocka_unit_test(answers_are_what_they_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
