/* The improver and the bound of single moments against exhaustive search: on small random graphs
 * every operation list without O and P is reached by Dijkstra's algorithm over what is alive. The
 * search shares no code with either and follows remat/simulate.h alone. */
#include "property/amount.h"
#include "property/exhaustive.h"

#include "bound/moments.h"
#include "model/lists.h"
#include "remat/answer.h"
#include "search/exact.h"

#include <math.h>

/* ---- the tests ---- */

#define SOME_WORK UINT64_C(400000)

/* A budget between what the largest operation takes and storing everything. */
static uint64_t random_budget(dice *d, const remat_profile *profile)
{
    uint64_t peak;
    assert_int_equal(remat_store_all_peak(profile, &peak, NULL), REMAT_OK);
    return peak * (40 + below(d, 65)) / 100;
}

static double improved(const remat_profile *profile, uint64_t budget, uint32_t alignment,
                       double enough)
{
    remat_operations list = {0};
    remat_simulation replay;
    remat_error error = {0};
    remat_status status = remat_improve(profile, NULL, budget, 1, alignment, false, REMAT_QUICK, 0,
                                        enough, NULL, &list, &error);
    if (status == REMAT_INFEASIBLE)
        return INFINITY;
    if (status)
        fail_msg("%s", error.message);
    assert_int_equal(remat_simulate(profile, &list, NULL, NULL, NULL, &replay, &error), REMAT_OK);
    if (!replay.valid || replay.peak > budget)
        fail_msg("%s: peak %llu of %llu", replay.reason, (unsigned long long)replay.peak,
                 (unsigned long long)budget);
    remat_layout layout = {0};
    if (alignment) {
        assert_int_equal(remat_layout_new(profile, &list, alignment, &layout, &error), REMAT_OK);
        assert_true(layout.arena <= budget);
    }
    remat_layout_clear(&layout);
    remat_operations_clear(&list);
    return replay.makespan;
}

static void equals_exhaustive_search(void **state)
{
    (void)state;
    dice d = {.state = 2611};
    const shape s = {.most_nodes = MOST_NODES};
    unsigned equal = 0, n = amount(500, 60);
    for (unsigned i = 0; i < n; i++) {
        remat_profile *profile = random_profile(&d, &s);
        uint64_t budget = random_budget(&d, profile);
        double least = least_makespan(profile, budget), found = improved(profile, budget, 0, 0);
        if (found < least)
            fail_msg("graph %u: found %g, but the least is %g", i, found, least);
        equal += found == least;
        remat_profile_free(profile);
    }
    print_message("# %u of %u graphs: the list equals exhaustive search\n", equal, n);
    assert_true(equal * 100 >= n * 98);
}

typedef struct proofs {
    unsigned by_one, by_several; /* optima that are proven */
} proofs;

static proofs count_proven(dice *d, const shape *s, unsigned n)
{
    proofs proven = {0};
    for (unsigned i = 0; i < n; i++) {
        remat_profile *profile = random_profile(d, s);
        uint64_t budget = random_budget(d, profile);
        bound_moments *moments = NULL;
        assert_int_equal(bound_moments_new(profile, &moments, NULL), REMAT_OK);
        double bound = bound_moments_makespan(moments, budget, 100);
        double least = least_makespan(profile, budget);
        if (bound > least)
            fail_msg("graph %u: bound %.17g, but the least is %.17g", i, bound, least);
        if (least < INFINITY && bound_moments_least_budget(moments, 100, NULL) > (double)budget)
            fail_msg("graph %u: %llu bytes are called too few", i, (unsigned long long)budget);
        proven.by_one += bound >= least * (1 - 1e-6);
        if (least < INFINITY) /* as if a slower schedule had been found */
            bound = bound_moments_raise(moments, budget, bound, 1.5 * least, SOME_WORK, true, NULL);
        if (bound > least)
            fail_msg("graph %u: bound %.17g, but the least is %.17g", i, bound, least);
        proven.by_several += bound >= least * (1 - 1e-6);
        bound_moments_free(moments);
        remat_profile_free(profile);
    }
    return proven;
}

static void bound_holds(void **state)
{
    (void)state;
    dice d = {.state = 4711};
    const shape any = {.most_nodes = 5}, chains = {.most_nodes = 5, .chain = true};
    const unsigned n = amount(10000, 4000);
    const proofs of_any = count_proven(&d, &any, n), of_chains = count_proven(&d, &chains, n / 5);
    print_message(
        "# optima proven by one moment and by several: %u and %u of %u, on chains %u and %u "
        "of %u\n",
        of_any.by_one, of_any.by_several, n, of_chains.by_one, of_chains.by_several, n / 5);
    assert_true(of_any.by_one < of_any.by_several && of_any.by_several > n / 100 * 90);
    assert_true(of_chains.by_one <= of_chains.by_several);
}

static bool count_poll(void *data)
{
    ++*(unsigned *)data;
    return false;
}

/* Work that does not try every second moment with as much to spare proves nothing, and is not
 * done. */
static void a_bound_is_raised_with_enough_work(void **state)
{
    (void)state;
    dice d = {.state = 1969};
    const shape s = {.most_nodes = MOST_NODES};
    unsigned raised = 0;
    for (unsigned i = 0; i < 400; i++) {
        remat_profile *profile = random_profile(&d, &s);
        const uint64_t budget = random_budget(&d, profile), n = profile->n_nodes;
        bound_moments *moments = NULL;
        assert_int_equal(bound_moments_new(profile, &moments, NULL), REMAT_OK);
        const double bound = bound_moments_makespan(moments, budget, 100);
        const uint64_t enough = 2 * n * n * 150 * 3;
        unsigned polls = 0;
        const remat_host host = {.data = &polls, .cancelled = count_poll};
        assert_true(bound == bound_moments_raise(moments, budget, bound, 2 * bound, enough - 1,
                                                 true, &host) &&
                    polls == 0);
        if (bound > remat_store_all_makespan(profile) && bound < INFINITY)
            bound_moments_raise(moments, budget, bound, 2 * bound, enough, true, &host);
        raised += polls > 0;
        bound_moments_free(moments);
        remat_profile_free(profile);
    }
    print_message("# of 400 graphs %u have a bound to raise\n", raised);
    assert_true(raised > 20);
}

/* States, alternatives and layout: valid, within the budget, never slower than the list given,
 * never faster than the bound. */
static void never_slower(void **state)
{
    (void)state;
    dice d = {.state = 99};
    const shape s = {.most_nodes = MOST_NODES, .states = true, .alternatives = true};
    for (unsigned i = 0; i < amount(100, 30); i++) {
        remat_profile *profile = random_profile(&d, &s);
        uint64_t peak;
        assert_int_equal(remat_store_all_peak(profile, &peak, NULL), REMAT_OK);
        const remat_problem problem = {.profile = profile, .max_budget = peak};
        remat_table *table = NULL;
        remat_schedule start;
        remat_error error = {0};
        assert_int_equal(
            remat_tabulate(remat_solver_find("lowerset"), &problem, NULL, &table, &error),
            REMAT_OK);
        uint64_t budget = random_budget(&d, profile);
        if (!remat_table_schedule(table, &problem, budget, &start, &error)) {
            remat_operations list = {0};
            remat_simulation replay;
            assert_int_equal(remat_improve(profile, &start.operations, budget, 1, 0, false,
                                           REMAT_QUICK, 0, 0, NULL, &list, &error),
                             REMAT_OK);
            assert_int_equal(remat_simulate(profile, &list, NULL, NULL, NULL, &replay, &error),
                             REMAT_OK);
            if (!replay.valid || replay.peak > budget)
                fail_msg("graph %u: %s", i, replay.reason);
            assert_true(replay.makespan <= start.simulation.makespan);
            remat_operations_clear(&list);
            remat_schedule_clear(&start);
        }
        bound_moments *moments = NULL;
        assert_int_equal(bound_moments_new(profile, &moments, NULL), REMAT_OK);
        double bound = bound_moments_makespan(moments, budget, 100);
        double found = fmin(improved(profile, budget, 0, 0), improved(profile, budget, 16, 0));
        if (bound < found && found < INFINITY)
            bound = bound_moments_raise(moments, budget, bound, 1.5 * found, SOME_WORK, true, NULL);
        if (bound > found)
            fail_msg("graph %u: bound %.17g, but %.17g was found", i, bound, found);
        bound_moments_free(moments);
        remat_table_free(table);
        remat_profile_free(profile);
    }
}

/* Storing everything, with a budget that is too small for it, several in flight, too. */
static void a_start_that_does_not_fit_is_no_answer(void **state)
{
    (void)state;
    dice d = {.state = 57};
    const shape s = {.most_nodes = MOST_NODES, .states = true};
    unsigned served = 0, refused = 0;
    for (unsigned i = 0; i < amount(200, 60); i++) {
        remat_profile *profile = random_profile(&d, &s);
        const uint32_t in_flight = 1 + below(&d, 3);
        remat_operations start = {0}, list = {0};
        remat_simulation replay;
        remat_error error = {0};
        assert_int_equal(model_store_everything(profile, &start), REMAT_OK);
        assert_int_equal(remat_simulate(profile, &start, NULL, NULL, NULL, &replay, &error),
                         REMAT_OK);
        remat_put_in_flight(&replay, in_flight);
        const uint64_t budget = replay.peak * (40 + below(&d, 59)) / 100;
        if (budget < replay.peak) {
            const remat_status status = remat_improve(profile, &start, budget, in_flight, 0, false,
                                                      REMAT_QUICK, 0, 0, NULL, &list, &error);
            assert_true(status == REMAT_OK || status == REMAT_INFEASIBLE);
            served += status == REMAT_OK;
            refused += status == REMAT_INFEASIBLE;
        }
        if (list.length > 0) {
            assert_int_equal(remat_simulate(profile, &list, NULL, NULL, NULL, &replay, &error),
                             REMAT_OK);
            remat_put_in_flight(&replay, in_flight);
            assert_true(replay.valid && replay.peak <= budget);
        }
        remat_operations_clear(&start);
        remat_operations_clear(&list);
        remat_profile_free(profile);
    }
    assert_true(served > 0 && refused > 0); /* of a dozen under a sanitizer */
}

/* Versions of states take room of which the search knows nothing, nor exhaustive search, whose
 * makespan is a bound: what serves a budget serves a larger one, and next to never slower. */
static void states_leave_room(void **state)
{
    (void)state;
    dice d = {.state = 5152};
    const shape s = {.most_nodes = MOST_NODES, .states = true};
    unsigned served = 0, slower = 0;
    for (unsigned i = 0; i < amount(300, 60); i++) {
        remat_profile *profile = random_profile(&d, &s);
        uint64_t peak;
        double slowest = 0;
        assert_int_equal(remat_store_all_peak(profile, &peak, NULL), REMAT_OK);
        for (uint64_t part = 19; part > 8 && profile->n_states > 0; part -= 2) {
            const uint64_t budget = peak * part / 20;
            const double least = least_makespan(profile, budget);
            if (least == INFINITY)
                break;
            const double found = improved(profile, budget, 0, least);
            if (found < INFINITY && slowest == INFINITY)
                fail_msg("graph %u: %g within %llu bytes, nothing within more", i, found,
                         (unsigned long long)budget);
            assert_true(found >= least);
            served += found < INFINITY;
            slower += found < slowest * (1 - 1e-9);
            slowest = fmax(slowest, found);
        }
        remat_profile_free(profile);
    }
    print_message("# %u budgets served, %u slower than a smaller one\n", served, slower);
    assert_true(served > 0 && slower * 100 <= served);
}

/* Makespan of who answers; INFINITY where there is no schedule or the profile is not for it.
 * ret_schedule, unless NULL: the schedule, to be cleared. */
static double answer(const remat_solver *solver, const remat_profile *profile,
                     const remat_link *link, uint64_t budget, remat_schedule *ret_schedule)
{
    remat_problem problem = {.profile = profile, .link = link, .max_budget = budget};
    remat_portfolio portfolio = {.n = 0};
    remat_schedule schedule = {0};
    remat_error error = {0};
    if (solver)
        problem.options = remat_options_default(solver);
    remat_status status = remat_portfolio_gather(solver, &problem, NULL, NULL, &portfolio, &error);
    if (!status)
        status = remat_portfolio_schedule(&portfolio, &problem, budget, 0, REMAT_QUICK, NULL,
                                          &schedule, &error);
    if (status == REMAT_INTERNAL || (!solver && status && status != REMAT_INFEASIBLE))
        fail_msg("%s: %s", solver ? solver->name : "auto", error.message);
    double makespan = status ? INFINITY : schedule.simulation.makespan;
    if (ret_schedule)
        *ret_schedule = schedule;
    else
        remat_schedule_clear(&schedule);
    remat_portfolio_release(&portfolio);
    return makespan;
}

/* What every solver claims of all schedules, by a judge that knows no solver's model. */
static void claims_hold(void **state)
{
    (void)state;
    dice d = {.state = 77};
    size_t n;
    const remat_solver *const *solvers = remat_solvers(&n);
    for (unsigned i = 0; i < amount(200, 60); i++) {
        const shape s = {.most_nodes = 5, .chain = i % 2};
        remat_profile *profile = random_profile(&d, &s);
        uint64_t budget = random_budget(&d, profile);
        double least = least_makespan(profile, budget);
        for (size_t k = 0; k <= n; k++) {
            remat_schedule schedule;
            const remat_solver *solver = k < n ? solvers[k] : NULL;
            double found = answer(solver, profile, NULL, budget, &schedule);
            bool all = schedule.bound_class && strcmp(schedule.bound_class, "all schedules") == 0;
            if (found < INFINITY && (!all || schedule.lower_bound > least || found < least ||
                                     (schedule.optimality == REMAT_OPTIMAL && found > least)))
                fail_msg("graph %u: %s %g, \"%s\", at least %g (%s); the least is %g", i,
                         solver ? solver->name : "auto", found,
                         remat_optimality_name(schedule.optimality), schedule.lower_bound,
                         schedule.bound_class, least);
            remat_schedule_clear(&schedule);
        }
        remat_profile_free(profile);
    }
}

/* Nor with a link slower than without. lowerset-exact is too dear for auto. */
static void auto_is_never_slower(void **state)
{
    (void)state;
    dice d = {.state = 31};
    const shape s = {.most_nodes = MOST_NODES, .states = true, .alternatives = true};
    size_t n;
    const remat_solver *const *solvers = remat_solvers(&n);
    for (unsigned i = 0; i < amount(100, 4); i++) {
        remat_profile *profile = random_profile(&d, &s);
        const remat_link link = random_link(&d);
        uint64_t budget = random_budget(&d, profile);
        double alone = answer(NULL, profile, NULL, budget, NULL);
        double linked = answer(NULL, profile, &link, budget, NULL);
        if (linked > alone * (1 + 1e-12))
            fail_msg("graph %u: %g with a link, %g without", i, linked, alone);
        for (size_t k = 0; k < n; k++) {
            double named = answer(solvers[k], profile, &link, budget, NULL);
            if (strcmp(solvers[k]->name, "lowerset-exact") != 0 && named < linked * (1 - 1e-12))
                fail_msg("graph %u: %s %g, auto %g", i, solvers[k]->name, named, linked);
        }
        remat_profile_free(profile);
    }
}

/* Of the exact search within the budget. */
static search_exact_found searched(const remat_profile *profile, uint64_t budget)
{
    search_exact_found f;
    remat_error error = {0};
    if (search_exactly(profile, budget, false, NULL, &f, &error))
        fail_msg("%s", error.message);
    if (f.list.length > 0) {
        remat_operations list = {0};
        remat_simulation replay;
        assert_int_equal(model_complete_list(profile, &f.list, &list, &error), REMAT_OK);
        assert_int_equal(remat_simulate(profile, &list, NULL, NULL, NULL, &replay, &error), 0);
        if (!replay.valid || replay.peak > budget || replay.makespan < f.bound ||
            replay.makespan > f.bound * (1 + 1e-9))
            fail_msg("%s: %g, %.17g in %llu bytes of %llu", replay.reason, f.bound, replay.makespan,
                     (unsigned long long)replay.peak, (unsigned long long)budget);
        remat_operations_clear(&list);
        remat_operations_clear(&f.list);
        f.list.length = 1;
    }
    return f;
}

static void compare_exactly(const shape *s, unsigned n, uint64_t seed)
{
    dice d = {.state = seed};
    unsigned solved = 0, infeasible = 0;
    for (unsigned i = 0; i < n; i++) {
        remat_profile *profile = random_profile(&d, s);
        const uint64_t budget = random_budget(&d, profile);
        const double least = least_makespan(profile, budget);
        const search_exact_found f = searched(profile, budget);
        if (f.bound > least || (f.list.length > 0 && f.bound < least * (1 - 1e-9)) ||
            (least == INFINITY && f.list.length > 0))
            fail_msg("graph %u: %.17g, but the least is %.17g", i, f.bound, least);
        solved += f.list.length > 0 || f.bound == INFINITY;
        infeasible += f.bound == INFINITY;
        remat_profile_free(profile);
    }
    print_message("# %u of %u graphs solved, of them %u have no list\n", solved, n, infeasible);
    assert_true(solved >= n - n / 1000);
}

static void tiny_graphs_are_solved(void **state)
{
    (void)state;
    const shape any = {.most_nodes = 6}, alternatives = {.most_nodes = 4, .alternatives = true},
                pins = {.most_nodes = 5, .pins = true};
    compare_exactly(&any, amount(10000, 1000), 3300);
    compare_exactly(&alternatives, amount(1000, 100), 3301);
    compare_exactly(&pins, amount(1000, 150), 3302);
}

/* Tiny graphs, and larger budgets are served no slower. */
static void auto_is_exact(void **state)
{
    (void)state;
    dice d = {.state = 3303};
    unsigned served = 0;
    for (unsigned i = 0; i < amount(1000, 60); i++) {
        const shape s = {
            .most_nodes = i % 3 ? 6 : 4, .alternatives = i % 3 == 0, .pins = i % 3 == 1};
        remat_profile *profile = random_profile(&d, &s);
        const uint64_t budget = random_budget(&d, profile);
        const double least = least_makespan(profile, budget);
        remat_schedule schedule = {0};
        const double found = answer(NULL, profile, NULL, budget, &schedule);
        if (found != least || (found < INFINITY && schedule.optimality != REMAT_OPTIMAL))
            fail_msg("graph %u: %g (%s), the least is %g", i, found,
                     remat_optimality_name(schedule.optimality), least);
        served += found < INFINITY;
        remat_schedule_clear(&schedule);
        remat_profile_free(profile);
    }
    assert_true(served > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_exhaustive_search),
        cmocka_unit_test(tiny_graphs_are_solved),
        cmocka_unit_test(bound_holds),
        cmocka_unit_test(a_bound_is_raised_with_enough_work),
        cmocka_unit_test(never_slower),
        cmocka_unit_test(a_start_that_does_not_fit_is_no_answer),
        cmocka_unit_test(states_leave_room),
        cmocka_unit_test(auto_is_exact),
        cmocka_unit_test(claims_hold),
        cmocka_unit_test(auto_is_never_slower),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
