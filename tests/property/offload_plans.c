/* pofo on random small chains against an exhaustive search over all plans (offload_sweeps.h), and
 * what must hold of the programs and of every table. Sizes, times and bandwidths are small
 * integers: all values are exact. */
#include "../unit/offload_support.h"

#include "property/amount.h"
#include "property/offload_sweeps.h"

static unsigned chains(void)
{
    return amount(400, 400);
}
#define SAME 1e-9 /* of sums in another order */

typedef struct example {
    support_stage stages[SWEEP_STAGES];
    support_chain chain;
    sweep_chain sweep;
    remat_profile *profile;
    remat_link link;
    uint64_t budget;
} example;

static double play(const remat_profile *profile, const remat_operations *operations,
                   const remat_link *link, remat_simulation *ret_simulation)
{
    remat_error error = {0};
    support_good(remat_simulate(profile, operations, link, NULL, NULL, ret_simulation, &error),
                 &error);
    return ret_simulation->valid ? ret_simulation->makespan : INFINITY;
}

/* 1 to `most` layers and the loss; the budget between nothing and everything. */
static void make_example(uint64_t *seed, uint32_t most, example *e)
{
    memset(e, 0, sizeof *e);
    uint32_t n = 2 + (uint32_t)support_below(seed, most);
    sweep_chain *s = &e->sweep;
    s->n = (int)n;
    uint64_t total = support_below(seed, 4), bandwidth = 1 + support_below(seed, 3);
    s->a[0] = (double)total;
    e->chain = (support_chain){.n = n, .n_inputs = 1, .stages = e->stages};
    e->chain.input_bytes[0] = total;
    e->chain.input_gradient[0] = support_below(seed, 2);
    s->delta[0] = (double)e->chain.input_gradient[0];
    for (uint32_t i = 0; i < n; i++) {
        support_stage *g = &e->stages[i];
        bool loss = i + 1 == n;
        *g = (support_stage){.a = loss ? 0 : 1 + support_below(seed, 5),
                             .saved = support_below(seed, 8),
                             .delta = loss ? 0 : support_below(seed, 5),
                             .of = support_below(seed, 3),
                             .ob = support_below(seed, 3),
                             .uf = (double)support_below(seed, 4),
                             .ub = (double)support_below(seed, 5),
                             .uses_output = true};
        g->os = support_below(seed, 2) ? g->of : support_below(seed, 3);
        s->a[i + 1] = (double)g->a;
        s->abar[i + 1] = (double)(g->a + g->saved);
        s->delta[i + 1] = (double)g->delta;
        s->of[i + 1] = (double)g->of;
        s->os[i + 1] = (double)g->os;
        s->ob[i + 1] = (double)g->ob;
        s->uf[i + 1] = g->uf;
        s->ub[i + 1] = g->ub;
        total += g->a + g->saved;
    }
    e->budget = 1 + total / 3 + support_below(seed, total + 4);
    s->budget = (double)e->budget;
    s->bandwidth = (double)bandwidth;
    e->link = support_link(s->bandwidth);
    e->profile = support_profile(&e->chain);
}

static double label_value(const remat_profile *profile, const remat_link *link, uint64_t budget)
{
    offload_labels_result result;
    support_labels(profile, link, budget, &result);
    assert_true(result.finished);
    offload_plan_clear(&result.plan);
    return result.value;
}

static void assert_same(double found, double expected, const char *what, unsigned k)
{
    if (isinf(expected) ? !isinf(found) : !(fabs(found - expected) <= SAME * (1 + expected)))
        fail_msg("chain %u, %s: %.17g, expected %.17g", k, what, found, expected);
}

/* The program over slots of one byte and the label search are the minimum over all plans; rounding
 * up gives no less, and the relaxed program no more. */
static void programs_are_exact(void **state)
{
    (void)state;
    uint64_t seed = 11;
    long plans = 0, count;
    unsigned feasible = 0;
    for (unsigned k = 0; k < chains(); k++) {
        example e;
        make_example(&seed, 3, &e);
        double least = sweep_search(&e.sweep, &count);
        uint32_t slots = (uint32_t)e.budget;
        plans += count;
        feasible += isfinite(least);
        assert_same(support_slots(e.profile, &e.link, e.budget, slots, NULL), least, "slots", k);
        assert_same(label_value(e.profile, &e.link, e.budget), least, "labels", k);
        assert_true(support_slots(e.profile, &e.link, e.budget, 7, NULL) >= least - SAME);
        assert_true(support_relaxed(e.profile, &e.link, e.budget, 7) <= least + SAME);
        remat_profile_free(e.profile);
    }
    print_message("# %u chains, %u feasible, %ld plans\n", chains(), feasible, plans);
    assert_true(feasible > chains() / 2 && feasible < chains());
}

/* More memory or a faster link never costs time. */
static void values_are_monotone(void **state)
{
    (void)state;
    uint64_t seed = 12;
    unsigned differ = 0;
    for (unsigned k = 0; k < chains() / 4; k++) {
        example e;
        make_example(&seed, 4, &e);
        remat_link faster = support_link(e.link.to_host * 2);
        double here = support_slots(e.profile, &e.link, e.budget, (uint32_t)e.budget, NULL);
        double more = support_slots(e.profile, &e.link, e.budget + 2, (uint32_t)e.budget + 2, NULL);
        double fast = support_slots(e.profile, &faster, e.budget, (uint32_t)e.budget, NULL);
        assert_true(more <= here && fast <= here);
        differ += more < here && fast < here;
        remat_profile_free(e.profile);
    }
    assert_true(differ > chains() / 80);
}

/* Directions of different speed: never better than both fast, never worse than both slow. */
static void directions_count_apart(void **state)
{
    (void)state;
    uint64_t seed = 13;
    unsigned slower = 0, faster = 0;
    for (unsigned k = 0; k < chains() / 4; k++) {
        example e;
        make_example(&seed, 3, &e);
        double slow = e.link.to_host, fast = 4 * slow;
        remat_link links[4] = {
            support_link(slow), support_link(fast), {slow, fast, 0, false}, {fast, slow, 0, false}};
        double values[4];
        for (int l = 0; l < 4; l++) {
            values[l] = label_value(e.profile, &links[l], e.budget);
            double slots = support_slots(e.profile, &links[l], e.budget, (uint32_t)e.budget, NULL);
            assert_same(slots, values[l], "slots of one byte", k);
        }
        for (int l = 2; l < 4; l++) {
            assert_true(values[l] <= values[0] * (1 + SAME));
            assert_true(isinf(values[1]) || values[l] >= values[1] * (1 - SAME));
            faster += values[l] < values[0];
            slower += values[l] > values[1];
        }
        remat_profile_free(e.profile);
    }
    assert_true(faster > chains() / 80 && slower > chains() / 80);
}

/* The list of the best plan, whole values moved, against the program that moves bytes. */
static void lists_keep_the_makespan(void **state)
{
    (void)state;
    uint64_t seed = 14;
    unsigned plans = 0, same = 0, placed = 0, table_same = 0;
    for (unsigned k = 0; k < chains(); k++) {
        example e;
        offload_labels_result result;
        offload_placing placing;
        remat_operations list = {0};
        remat_simulation simulation;
        remat_error error = {0};
        make_example(&seed, 4, &e);
        support_labels(e.profile, &e.link, e.budget, &result);
        if (isfinite(result.value)) {
            plans++;
            support_good(offload_placing_init(&placing, e.profile, &result.plan.compute,
                                              result.plan.moved, &error),
                         &error);
            if (offload_place(&placing, NULL, e.budget, &list) == REMAT_OK) {
                double makespan = play(e.profile, &list, &e.link, &simulation);
                assert_true(isfinite(makespan) && simulation.peak <= e.budget);
                placed++;
                same += makespan <= result.value * (1 + SAME);
            }
            offload_placing_clear(&placing);
            remat_problem problem = support_problem("pofo", e.profile, e.budget);
            remat_table *table;
            problem.link = &e.link;
            support_good(remat_tabulate(remat_solver_find("pofo"), &problem, NULL, &table, &error),
                         &error);
            size_t points;
            const remat_point *frontier = remat_table_frontier(table, &points);
            ptrdiff_t at = remat_table_point(table, e.budget);
            table_same += at >= 0 && frontier[at].makespan <= result.value * (1 + SAME);
            remat_table_free(table);
        }
        remat_operations_clear(&list);
        offload_plan_clear(&result.plan);
        remat_profile_free(e.profile);
    }
    print_message("# %u plans; %u lists placed, %u of them as fast as the program; of the tables "
                  "%u\n",
                  plans, placed, same, table_same);
    assert_true(plans > chains() / 2);
    assert_true(table_same * 10 >= plans * 9);
}

/* Points of a table's frontier are no worse than those of another one. */
static void assert_no_worse(const remat_table *table, const remat_table *other)
{
    size_t n, n_other;
    const remat_point *mine = remat_table_frontier(table, &n);
    const remat_point *theirs = remat_table_frontier(other, &n_other);
    for (size_t i = 0; i < n_other; i++) {
        ptrdiff_t at = remat_table_point(table, theirs[i].peak);
        assert_true(at >= 0);
        assert_true(mine[at].makespan <= theirs[i].makespan * (1 + SAME));
    }
}

static remat_table *tabulate(const char *solver, const example *e, const remat_link *link)
{
    remat_problem problem = support_problem(solver, e->profile, e->budget);
    remat_table *table = NULL;
    remat_error error = {0};
    problem.link = link;
    support_good(remat_tabulate(remat_solver_find(solver), &problem, NULL, &table, &error), &error);
    return table;
}

static void never_worse_than_its_parts(void **state)
{
    (void)state;
    static const char *const parts[] = {"rotor", "offload-all", "offload-conv", "offload-greedy"};
    uint64_t seed = 15;
    for (unsigned k = 0; k < chains() / 8; k++) {
        example e;
        make_example(&seed, 4, &e);
        remat_table *pofo = tabulate("pofo", &e, &e.link);
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            remat_table *part = tabulate(parts[i], &e, &e.link);
            size_t n;
            const remat_point *points = remat_table_frontier(part, &n);
            /* rotor's table reaches further than the budget asked for */
            while (n > 0 && points[n - 1].peak > e.budget)
                n--;
            for (size_t j = 0; j < n; j++) {
                ptrdiff_t at = remat_table_point(pofo, points[j].peak);
                size_t n_mine;
                const remat_point *mine = remat_table_frontier(pofo, &n_mine);
                assert_true(at >= 0);
                assert_true(mine[at].makespan <= points[j].makespan * (1 + SAME));
            }
            remat_table_free(part);
        }
        remat_table_free(pofo);
        remat_profile_free(e.profile);
    }
}

/* No bandwidth in either direction: rotor's frontier, point for point, and rotor's bound. */
static void no_bandwidth_is_rotor(void **state)
{
    (void)state;
    static const remat_link links[] = {{0, 0, 0, false}, {3, 0, 0, false}, {0, 3, 1, true}};
    uint64_t seed = 16;
    for (unsigned k = 0; k < chains() / 4; k++) {
        example e;
        make_example(&seed, 4, &e);
        remat_table *rotor = tabulate("rotor", &e, NULL);
        remat_table *pofo = tabulate("pofo", &e, &links[k % 3]);
        assert_no_worse(pofo, rotor);
        assert_no_worse(rotor, pofo);
        const remat_problem one = {.profile = e.profile, .max_budget = 1};
        assert_true(remat_table_serves(pofo, &one) == remat_table_serves(rotor, &one));
        remat_table_free(rotor);
        remat_table_free(pofo);
        remat_profile_free(e.profile);
    }
}

/* Whether every F_all and B fits with nothing else on the device but the stage's input. */
static bool needs_fit(const sweep_chain *c)
{
    for (int i = 1; i <= c->n; i++) {
        double input = i == 1 ? c->a[0] : c->abar[i - 1];
        double save = c->abar[i] + c->os[i];
        double back = c->abar[i] + c->delta[i] + c->delta[i - 1] + c->ob[i];
        if (input + (save > back ? save : back) > c->budget)
            return false;
    }
    return true;
}

/* Transfers that take no time: nothing is recomputed and nobody waits where the needs of single
 * operations permit. */
static void infinite_bandwidth_costs_nothing(void **state)
{
    (void)state;
    uint64_t seed = 17;
    const remat_link link = support_link(INFINITY);
    unsigned feasible = 0;
    for (unsigned k = 0; k < chains() / 4; k++) {
        example e;
        make_example(&seed, 4, &e);
        double least = remat_store_all_makespan(e.profile);
        double value = label_value(e.profile, &link, e.budget);
        bool fit = needs_fit(&e.sweep);
        assert_true(fit ? value == least : value >= least);
        double slots = support_slots(e.profile, &link, e.budget, (uint32_t)e.budget, NULL);
        assert_true(slots == value);
        if (fit) {
            remat_table *table = tabulate("pofo", &e, &link);
            remat_problem problem = support_problem("pofo", e.profile, e.budget);
            remat_schedule schedule;
            remat_error error = {0};
            problem.link = &link;
            support_good(remat_table_schedule(table, &problem, e.budget, &schedule, &error),
                         &error);
            assert_true(schedule.simulation.makespan == least);
            assert_true(schedule.simulation.idle_time == 0);
            assert_true(schedule.simulation.recomputed_time == 0);
            remat_schedule_clear(&schedule);
            remat_table_free(table);
            feasible++;
        }
        remat_profile_free(e.profile);
    }
    assert_true(feasible > chains() / 16);
}

/* ---- broken schedules ---- */

static bool moves(const remat_operation *operation)
{
    return operation->kind == REMAT_O || operation->kind == REMAT_P;
}

/* Without any one of its operations but D, with the first copy before its value, or in a byte less,
 * a schedule is none. */
static void break_list(const example *e, const remat_schedule *schedule, int *n_broken)
{
    remat_simulation simulation;
    remat_operations list = {0};
    for (size_t skip = 0; skip < schedule->operations.length; skip++) {
        if (schedule->operations.items[skip].kind == REMAT_D)
            continue;
        list.length = 0;
        for (size_t k = 0; k < schedule->operations.length; k++)
            if (k != skip)
                assert_int_equal(remat_operations_push(&list, schedule->operations.items[k]),
                                 REMAT_OK);
        if (isfinite(play(e->profile, &list, &e->link, &simulation)))
            fail_msg(
                "without operation %zu, %s %u, the list is valid", skip,
                remat_operation_name((remat_operation_kind)schedule->operations.items[skip].kind),
                schedule->operations.items[skip].index);
        ++*n_broken;
    }
    list.length = 0;
    for (size_t k = 0; k < schedule->operations.length; k++)
        assert_int_equal(remat_operations_push(&list, schedule->operations.items[k]), REMAT_OK);
    for (size_t k = 1; k < list.length; k++) {
        remat_operation copy = list.items[k];
        if (copy.kind != REMAT_O || copy.target == REMAT_INPUT)
            continue;
        size_t at = k; /* of its producer */
        while (list.items[at].index != copy.index || list.items[at].kind > REMAT_A)
            at--;
        memmove(&list.items[at + 1], &list.items[at], (k - at) * sizeof copy);
        list.items[at] = copy;
        assert_true(isinf(play(e->profile, &list, &e->link, &simulation)));
        assert_int_equal(simulation.bad_operation, at);
        break;
    }
    remat_operations_clear(&list);
}

static void broken_schedules_are_rejected(void **state)
{
    (void)state;
    uint64_t seed = 18;
    int n_broken = 0;
    for (unsigned k = 0; k < chains() / 4; k++) {
        example e;
        remat_schedule schedule;
        remat_error error = {0};
        make_example(&seed, 4, &e);
        remat_table *table = tabulate("pofo", &e, &e.link);
        remat_problem problem = support_problem("pofo", e.profile, e.budget);
        problem.link = &e.link;
        if (remat_table_schedule(table, &problem, e.budget, &schedule, &error) == REMAT_OK) {
            bool has_moves = false;
            for (size_t i = 0; i < schedule.operations.length; i++)
                has_moves |= moves(&schedule.operations.items[i]);
            if (has_moves)
                break_list(&e, &schedule, &n_broken);
            remat_schedule less;
            remat_status status =
                remat_table_schedule(table, &problem, schedule.simulation.peak - 1, &less, &error);
            if (status == REMAT_OK) {
                assert_true(less.simulation.makespan > schedule.simulation.makespan);
                remat_schedule_clear(&less);
            } else {
                assert_int_equal(status, REMAT_INFEASIBLE);
            }
            remat_schedule_clear(&schedule);
        }
        remat_table_free(table);
        remat_profile_free(e.profile);
    }
    assert_true(n_broken > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_are_exact),
        cmocka_unit_test(values_are_monotone),
        cmocka_unit_test(directions_count_apart),
        cmocka_unit_test(lists_keep_the_makespan),
        cmocka_unit_test(never_worse_than_its_parts),
        cmocka_unit_test(no_bandwidth_is_rotor),
        cmocka_unit_test(infinite_bandwidth_costs_nothing),
        cmocka_unit_test(broken_schedules_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
