/* Joint graphs: the improver and the bound of single moments against exhaustive search. On small
 * random graphs every operation list without O and P is reached by Dijkstra's algorithm over what
 * is alive and what has run. The search shares no code with either and follows remat/simulate.h
 * alone. */
#include "property/amount.h"
#include "property/joint_random.h"
#include "property/state_queue.h"

#include "bound/moments.h"
#include "model/lists.h"
#include "remat/answer.h"
#include "search/exact.h"

#include <math.h>

/* A state: values alive (results, in the order of nodes), and nodes that have run. */
typedef struct machine {
    const remat_profile *p;
    uint32_t n, n_values;
    uint64_t budget;
    bool given;
    uint32_t first[JOINT_NODES + 1]; /* by node: its first value here */
    uint64_t bytes[JOINT_NODES + JOINT_FURTHER];
    uint32_t needs[JOINT_NODES], makes[JOINT_NODES], ends;
    state_queue queue;
} machine;

static uint32_t here(const machine *m, uint32_t value)
{
    return m->first[remat_value_node(m->p, value)] + remat_value_number(m->p, value);
}

static void describe(machine *m)
{
    for (uint32_t v = 0; v < m->n; v++) {
        const remat_node *node = &m->p->nodes[v];
        m->first[v + 1] = m->first[v] + node->n_outputs;
        for (uint32_t k = 0; k < node->n_outputs; k++) {
            m->bytes[m->first[v] + k] = remat_value_bytes(m->p, remat_result_value(m->p, v, k));
            m->makes[v] |= 1u << (m->first[v] + k);
        }
        for (uint32_t i = 0; i < node->n_inputs; i++)
            m->needs[v] |= 1u << here(m, node->inputs[i]);
    }
    m->n_values = m->first[m->n];
    for (uint32_t i = 0; i < m->p->n_outputs; i++)
        m->ends |= 1u << here(m, m->p->outputs[i]);
}

static uint64_t alive_bytes(const machine *m, uint32_t alive)
{
    uint64_t sum = 0;
    for (uint32_t x = 0; x < m->n_values; x++)
        sum += alive >> x & 1 ? m->bytes[x] : 0;
    return sum;
}

static void reach(machine *m, uint32_t alive, uint32_t ran, double time)
{
    uint32_t state = ran << m->n_values | alive;
    state_queue_reach(&m->queue, state, time);
}

static void run(machine *m, uint32_t v, uint32_t alive, uint32_t ran, double time)
{
    const remat_node *node = &m->p->nodes[v];
    bool ran_before = ran >> v & 1;
    if ((alive & m->makes[v]) || (alive & m->needs[v]) != m->needs[v] ||
        (ran_before && node->once) || (m->given && !ran_before && ran != (1u << v) - 1))
        return;
    uint64_t during = alive_bytes(m, alive | m->makes[v]) + node->forward_workspace_bytes;
    if (during <= m->budget)
        reach(m, alive | m->makes[v], ran | 1u << v, time + node->forward_time);
    if (!node->in_place || node->n_inputs == 0)
        return;
    uint32_t lost = here(m, node->inputs[0]);
    uint64_t out = node->output_bytes, in = m->bytes[lost];
    if (during - (in < out ? in : out) <= m->budget)
        reach(m, (alive | m->makes[v]) & ~(1u << lost), ran | 1u << v, time + node->forward_time);
}

static double least_makespan(const remat_profile *p, uint64_t budget, bool given)
{
    machine m = {.p = p, .n = p->n_nodes, .budget = budget, .given = given};
    describe(&m);
    uint32_t states = 1u << (m.n_values + m.n), every = (1u << m.n_values) - 1;
    m.queue = state_queue_new(states);
    double least = INFINITY;
    reach(&m, 0, 0, 0);
    while (m.queue.size > 0 && least == INFINITY) {
        uint32_t state = state_queue_take(&m.queue), alive = state & every,
                 ran = state >> m.n_values;
        double time = m.queue.least[state];
        if (ran == (1u << m.n) - 1 && (alive & m.ends) == m.ends)
            least = time;
        for (uint32_t v = 0; v < m.n; v++)
            run(&m, v, alive, ran, time);
        for (uint32_t x = 0; x < m.n_values; x++)
            if (alive >> x & 1)
                reach(&m, alive & ~(1u << x), ran, time);
    }
    state_queue_free(&m.queue);
    return least;
}

/* ---- the tests ---- */

/* Between what the largest operation takes and the order of the profile. */
static uint64_t random_budget(dice *d, const remat_profile *profile)
{
    uint64_t peak, largest = 0;
    assert_int_equal(remat_store_all_peak(profile, &peak, NULL), REMAT_OK);
    for (uint32_t v = 0; v < profile->n_nodes; v++) {
        const remat_node *node = &profile->nodes[v];
        uint64_t needs = node->forward_workspace_bytes;
        for (uint32_t k = 0; k < node->n_outputs; k++)
            needs += remat_value_bytes(profile, remat_result_value(profile, v, k));
        for (uint32_t i = node->in_place; i < node->n_inputs; i++)
            needs += remat_value_bytes(profile, node->inputs[i]);
        largest = needs > largest ? needs : largest;
    }
    return largest >= peak ? peak : largest + below(d, (uint32_t)(peak - largest) + 1);
}

static double improved(const remat_profile *profile, uint64_t budget, bool given)
{
    remat_operations list = {0};
    remat_simulation replay;
    remat_error error = {0};
    remat_status status =
        remat_improve(profile, NULL, budget, 1, 0, given, REMAT_QUICK, 0, 0, NULL, &list, &error);
    if (status == REMAT_INFEASIBLE)
        return INFINITY;
    if (status)
        fail_msg("%s", error.message);
    assert_int_equal(remat_simulate(profile, &list, NULL, NULL, NULL, &replay, &error), REMAT_OK);
    if (!replay.valid || replay.peak > budget)
        fail_msg("%s: peak %llu of %llu", replay.reason, (unsigned long long)replay.peak,
                 (unsigned long long)budget);
    uint32_t next = 0; /* the order of first runs */
    for (size_t i = 0; given && i < list.length; i++)
        if (list.items[i].kind == REMAT_F && list.items[i].index >= next)
            assert_int_equal(list.items[i].index, next++);
    remat_operations_clear(&list);
    return replay.makespan;
}

static void compare(bool given, bool pins, unsigned n, uint64_t seed)
{
    dice d = {.state = seed};
    unsigned equal = 0, infeasible = 0;
    for (unsigned i = 0; i < n; i++) {
        remat_profile *profile = random_joint(&d, JOINT_NODES, pins);
        uint64_t budget = random_budget(&d, profile);
        double least = least_makespan(profile, budget, given);
        double found = improved(profile, budget, given);
        if (found < least)
            fail_msg("graph %u: found %g, but the least is %g", i, found, least);
        equal += found == least;
        infeasible += least == INFINITY;
        remat_profile_free(profile);
    }
    print_message("# %u of %u graphs: the list equals exhaustive search (%u have none)\n", equal, n,
                  infeasible);
    assert_true(equal * 100 >= n * 98);
}

static void equals_exhaustive_search(void **state)
{
    (void)state;
    compare(false, false, amount(100, 24), 77);
}

static void equals_it_in_the_order_given(void **state)
{
    (void)state;
    compare(true, false, amount(50, 12), 78);
}

static void equals_it_with_pins(void **state)
{
    (void)state;
    compare(false, true, amount(50, 12), 79);
}

/* By the exact search: the makespan of its list, or the bound. */
static double searched(const remat_profile *profile, uint64_t budget, bool given, bool *ret_solved)
{
    search_exact_found f;
    remat_operations list = {0};
    remat_simulation replay = {.makespan = INFINITY};
    remat_error error = {0};
    assert_int_equal(search_exactly(profile, budget, given, NULL, &f, &error), REMAT_OK);
    if (f.list.length > 0) {
        assert_int_equal(model_complete_list(profile, &f.list, &list, &error), REMAT_OK);
        assert_int_equal(remat_simulate(profile, &list, NULL, NULL, NULL, &replay, &error), 0);
        assert_true(replay.valid && replay.peak <= budget);
        assert_true(f.bound <= replay.makespan && f.bound >= replay.makespan * (1 - 1e-9));
    }
    *ret_solved = f.list.length > 0 || f.bound == INFINITY;
    remat_operations_clear(&list);
    remat_operations_clear(&f.list);
    return *ret_solved ? replay.makespan : f.bound;
}

static void tiny_graphs_are_solved(void **state)
{
    (void)state;
    dice d = {.state = 80};
    unsigned solved = 0, n = amount(2000, 200);
    for (unsigned i = 0; i < n; i++) {
        remat_profile *profile = random_joint(&d, i % 20 ? 6 : JOINT_NODES, i % 3 == 0);
        const uint64_t budget = random_budget(&d, profile);
        const bool given = i % 4 == 0;
        bool is_solved;
        const double least = least_makespan(profile, budget, given),
                     found = searched(profile, budget, given, &is_solved);
        if (is_solved ? found != least : found > least)
            fail_msg("graph %u: %g, but the least is %g", i, found, least);
        solved += is_solved;
        remat_profile_free(profile);
    }
    print_message("# %u of %u graphs solved\n", solved, n);
    assert_true(solved >= n - n / 1000);
}

static void bound_holds(void **state)
{
    (void)state;
    dice d = {.state = 4712};
    unsigned proven = 0, refused = 0, known = 0, n = amount(500, 150);
    for (unsigned i = 0; i < n; i++) {
        remat_profile *profile = random_joint(&d, 7, chance(&d, 50));
        uint64_t budget = random_budget(&d, profile);
        bound_moments *moments = NULL;
        assert_int_equal(bound_moments_new(profile, &moments, NULL), REMAT_OK);
        double bound = bound_moments_makespan(moments, budget, 100);
        double least = least_makespan(profile, budget, false);
        if (bound > least)
            fail_msg("graph %u: bound %.17g, but the least is %.17g", i, bound, least);
        proven += bound >= least * (1 - 1e-6);
        refused += least == INFINITY;
        known += bound == INFINITY;
        if (least < INFINITY && bound_moments_least_budget(moments, 100, NULL) > (double)budget)
            fail_msg("graph %u: %llu bytes are called too few", i, (unsigned long long)budget);
        bound_moments_free(moments);
        remat_profile_free(profile);
    }
    print_message("# %u of %u optima proven by one moment, %u of %u refusals\n", proven, n, known,
                  refused);
    assert_true(proven > 0 && known > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_exhaustive_search),
        cmocka_unit_test(equals_it_in_the_order_given),
        cmocka_unit_test(equals_it_with_pins),
        cmocka_unit_test(tiny_graphs_are_solved),
        cmocka_unit_test(bound_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
