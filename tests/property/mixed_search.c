/* Recomputation and offloading in one search: auto with a link on random small profiles of every
 * kind, states, alternatives, pins and joint graphs among them. Every answer is judged by the naive
 * judge of core_naive.h, is never slower than without the link, nor than a named solver, nor, of
 * fifty profiles but one at most, than any of many random lists with copies that fit the same
 * budget and keep the order. */
#include "property/amount.h"
#include "property/core_random.h"
#include "property/joint_random.h"

#include "answer/bounds.h"
#include "model/lists.h"
#include "remat/answer.h"
#include "search/mixed.h"

#include <math.h>

enum { LISTS = 600 };

static remat_status ask(const char *solver, const remat_profile *profile, const remat_link *link,
                        uint64_t budget, uint32_t alignment, remat_effort effort,
                        remat_answered *ret_answered)
{
    remat_error error = {0};
    remat_query query = {.solver = solver ? remat_solver_find(solver) : NULL,
                         .problem = {.profile = profile, .link = link, .max_budget = budget},
                         .budget = budget,
                         .alignment = alignment,
                         .effort = effort};
    if (query.solver)
        query.problem.options = remat_options_default(query.solver);
    *ret_answered = (remat_answered){.portfolio = {.n = 0}};
    remat_status status = remat_answer(&query, NULL, NULL, ret_answered, &error);
    if (status && status != REMAT_INFEASIBLE && status != REMAT_NOT_ACCEPTED)
        fail_msg("%s: %s", remat_status_text(status), error.message);
    return status;
}

static naive_verdict judge(const remat_profile *profile, const remat_operations *list,
                           const remat_link *link)
{
    remat_moment *moments = calloc(list->length + 1, sizeof *moments);
    naive_verdict verdict = naive_judge(profile, list, link, moments);
    free(moments);
    return verdict;
}

/* Makespan of the answer, which is checked; INFINITY where there is none. */
static double answer_with(const char *solver, const remat_profile *profile, const remat_link *link,
                          uint64_t budget, uint32_t alignment, remat_effort effort)
{
    remat_answered a;
    double makespan = INFINITY;
    remat_status status = ask(solver, profile, link, budget, alignment, effort, &a);
    if (!status) {
        const remat_schedule *s = &a.schedule;
        assert_true(s->simulation.valid && s->simulation.peak <= budget);
        assert_true(!alignment || s->layout.arena <= budget);
        const remat_problem problem = {.profile = profile, .link = link, .max_budget = budget};
        uint64_t floor;
        assert_int_equal(answer_find_link_bound(&problem, budget, NULL, &floor, NULL), REMAT_OK);
        assert_true(s->simulation.peak >= floor);
        if (!profile->joint) { /* the naive judge knows forward profiles */
            naive_verdict verdict = judge(profile, &s->operations, link);
            assert_true(verdict.valid && verdict.peak == s->simulation.peak);
            assert_true(fabs(verdict.makespan - s->simulation.makespan) <=
                        1e-12 * verdict.makespan);
        }
        assert_true(s->lower_bound <= s->simulation.makespan);
        makespan = s->simulation.makespan;
    } else {
        assert_true(status == REMAT_INFEASIBLE || status == REMAT_NOT_ACCEPTED);
    }
    remat_answered_clear(&a);
    return makespan;
}

static double answer(const char *solver, const remat_profile *profile, const remat_link *link,
                     uint64_t budget, uint32_t alignment)
{
    return answer_with(solver, profile, link, budget, alignment, REMAT_QUICK);
}

static void assert_no_slower(double mixed, double other, uint64_t budget, const char *than)
{
    if (mixed > other * (1 + 1e-9))
        fail_msg("within %llu bytes %.17g, but %.17g %s", (unsigned long long)budget, mixed, other,
                 than);
}

/* Whether first runs and backwards come in the order of the profile, and in its reverse. */
static bool keeps_order(const remat_profile *profile, const remat_operations *list)
{
    uint32_t forward = 0, backward = profile->n_nodes;
    for (size_t i = 0; i < list->length; i++) {
        const remat_operation *o = &list->items[i];
        if (o->kind <= REMAT_A && o->index > forward)
            return false;
        if (o->kind <= REMAT_A && o->index == forward)
            forward++;
        if (o->kind == REMAT_B && o->index != --backward)
            return false;
    }
    return true;
}

/* Whether random lists of this peak that copy can beat the answer. */
static void check_profile(dice *d, const remat_profile *profile, bool lists, unsigned *beaten)
{
    static const char *const named[] = {"store-all", "offload-all", "offload-greedy", "pofo"};
    uint64_t peak;
    const remat_link link = random_link(d);
    assert_int_equal(remat_store_all_peak(profile, &peak, NULL), REMAT_OK);
    const uint64_t budget = peak * (50 + below(d, 50)) / 100;
    const double mixed = answer(NULL, profile, &link, budget, 0);
    assert_no_slower(mixed, answer(NULL, profile, NULL, budget, 0), budget, "without the link");
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        assert_no_slower(mixed, answer(named[i], profile, &link, budget, 0), budget, named[i]);
    if (chance(d, 5)) /* it takes its time */
        assert_no_slower(answer_with(NULL, profile, &link, budget, 0, REMAT_THOROUGH), mixed,
                         budget, "by quick");
    const remat_problem problem = {.profile = profile, .link = &link, .max_budget = budget};
    double best = INFINITY, bound;
    uint64_t floor;
    assert_int_equal(answer_find_link_bound(&problem, budget, &bound, &floor, NULL), REMAT_OK);
    for (int i = 0; lists && i < LISTS; i++) {
        remat_operations list = random_whole_list(d, profile, true);
        naive_verdict verdict = judge(profile, &list, &link);
        if (verdict.valid && verdict.peak <= budget && verdict.makespan < bound * (1 - 1e-9))
            fail_msg("%.17g within %llu bytes is below the bound %.17g", verdict.makespan,
                     (unsigned long long)budget, bound);
        if (verdict.valid && verdict.peak < floor)
            fail_msg("a list of %llu bytes is below the floor of %llu",
                     (unsigned long long)verdict.peak, (unsigned long long)floor);
        if (verdict.valid && verdict.peak <= budget && keeps_order(profile, &list))
            best = fmin(best, verdict.makespan);
        remat_operations_clear(&list);
    }
    *beaten += mixed > best * (1 + 1e-9);
    if (chance(d, 30)) /* with addresses another list may win; that it fits is what counts */
        answer(NULL, profile, &link, budget, 16);
}

static void forward_profiles(void **state)
{
    (void)state;
    dice d = {20261123};
    unsigned beaten = 0;
    const unsigned n = amount(60, 16);
    for (unsigned k = 0; k < n; k++) {
        const shape s = {.most_nodes = 2 + below(&d, MOST_NODES - 1),
                         .states = k % 4 == 1,
                         .alternatives = k % 4 == 2,
                         .chain = k % 3 == 0};
        remat_profile *profile = random_profile(&d, &s);
        check_profile(&d, profile, true, &beaten);
        remat_profile_free(profile);
    }
    assert_true(beaten <= n / 50);
}

static void joint_profiles(void **state)
{
    (void)state;
    dice d = {77};
    unsigned beaten = 0;
    for (unsigned k = 0; k < amount(20, 10); k++) {
        remat_profile *profile = random_joint(&d, JOINT_NODES, k % 3 == 0);
        check_profile(&d, profile, false, &beaten);
        remat_profile_free(profile);
    }
}

#define BYTES(n)                                                                                   \
    (remat_number)                                                                                 \
    {                                                                                              \
        .value = (n), .given = true                                                                \
    }

/* A state that nobody writes changes nothing, one that is written only takes away; every list is
 * judged. */
static void joint_states(void **state)
{
    (void)state;
    dice d = {20261127};
    for (unsigned k = 0; k < amount(60, 5); k++) {
        const joint_touches read = {below(&d, 256), 0, 7}, none = {0, 0, 7};
        const joint_touches written = {below(&d, 256), below(&d, 256), below(&d, 3)};
        const joint_touches *const touches[] = {&none, &read, &written};
        const remat_link link = random_link(&d);
        const uint32_t part = 80 + below(&d, 20);
        const dice again = d;
        double makespan[3];
        for (int i = 0; i < 3; i++) {
            uint64_t peak;
            dice same = again;
            remat_profile *profile =
                random_joint_touching(&same, JOINT_NODES, k % 3 == 0, false, touches[i]);
            assert_int_equal(remat_store_all_peak(profile, &peak, NULL), REMAT_OK);
            makespan[i] = answer(NULL, profile, &link, peak * part / 100, 0);
            remat_profile_free(profile);
            d = same;
        }
        assert_true(makespan[0] == makespan[1]);
        assert_true(makespan[0] <= makespan[2]);
    }
}

/* Both `red` draw from the same generator and have to keep their order, but not that of the nodes:
 * one `big` fits at a time, and beside the second one only once something small has left. */
static void drawing_in_order(void **state)
{
    (void)state;
    static const char *const generator[] = {"generator"};
    const char *const reads[][3] = {{NULL},   {"k"},    {NULL},
                                    {"big0"}, {"big1"}, {"k", "red0", "red1"}};
    const remat_state_spec states[] = {{.id = generator[0], .bytes = BYTES(1)}};
    const char *const ids[] = {"k", "big0", "big1", "red0", "red1", "end"};
    static const double bytes[] = {6, 10, 10, 1, 1, 1};
    static const size_t n_reads[] = {0, 1, 0, 1, 1, 3};
    remat_node_spec nodes[6];
    for (size_t v = 0; v < 6; v++)
        nodes[v] = (remat_node_spec){.id = ids[v],
                                     .forward_time = BYTES(1),
                                     .output_bytes = BYTES(bytes[v]),
                                     .inputs = reads[v],
                                     .n_inputs = n_reads[v],
                                     .reads = generator,
                                     .writes = generator,
                                     .n_reads = v == 3 || v == 4,
                                     .n_writes = v == 3 || v == 4,
                                     .recompute = "never"};
    const remat_profile_spec spec = {.format = "remat-profile/1",
                                     .name = "drawing",
                                     .graph = "joint",
                                     .states = states,
                                     .n_states = 1,
                                     .nodes = nodes,
                                     .n_nodes = 6,
                                     .outputs = &ids[5],
                                     .n_outputs = 1};
    const remat_link link = {.to_host = 1, .to_device = 1};
    remat_profile *profile = NULL;
    assert_int_equal(remat_profile_new(&spec, &profile, NULL), REMAT_OK);
    assert_true(answer(NULL, profile, &link, 17, 0) == 7);
    remat_profile_free(profile);
}

/* v3 runs in the place of v2: copying v2's saved bytes out pays, copying its output does not, as v3
 * would wait for that. */
static void overwriting_waits(void **state)
{
    (void)state;
    const char *const reads[][3] = {{NULL}, {"v0"}, {"v1", "x"}, {"v2", "x"}, {"v3", "x", "v1"}};
    const remat_input_spec input = {.id = "x", .bytes = BYTES(1)};
    const remat_node_spec nodes[5] = {
        {.id = "v0",
         .forward_time = BYTES(8),
         .backward_time = BYTES(0.25),
         .output_bytes = BYTES(7),
         .saved_bytes = BYTES(4)},
        {.id = "v1",
         .forward_time = BYTES(0.25),
         .backward_time = BYTES(0.5),
         .output_bytes = BYTES(4),
         .gradient_bytes = BYTES(10),
         .backward_uses_output = true,
         .inputs = reads[1],
         .n_inputs = 1},
        {.id = "v2",
         .forward_time = BYTES(1),
         .backward_time = BYTES(2),
         .output_bytes = BYTES(8),
         .saved_bytes = BYTES(20),
         .backward_uses_inputs = true,
         .backward_uses_output = true,
         .inputs = reads[2],
         .n_inputs = 2},
        {.id = "v3",
         .forward_time = BYTES(1),
         .backward_time = BYTES(5),
         .output_bytes = BYTES(2),
         .forward_workspace_bytes = BYTES(2),
         .save_workspace_bytes = BYTES(1),
         .backward_uses_output = true,
         .in_place = true,
         .inputs = reads[3],
         .n_inputs = 2},
        {.id = "v4",
         .forward_time = BYTES(0),
         .backward_time = BYTES(1),
         .output_bytes = BYTES(16),
         .gradient_bytes = BYTES(4),
         .recompute = "never",
         .backward_uses_inputs = true,
         .backward_uses_output = true,
         .inputs = reads[4],
         .n_inputs = 3},
    };
    const remat_profile_spec spec = {.format = "remat-profile/1",
                                     .name = "in place",
                                     .inputs = &input,
                                     .n_inputs = 1,
                                     .nodes = nodes,
                                     .n_nodes = 5};
    const remat_link link = {.to_host = 1000, .to_device = 5, .latency = 1};
    remat_profile *profile = NULL;
    assert_int_equal(remat_profile_new(&spec, &profile, NULL), REMAT_OK);
    for (uint64_t budget = 56; budget <= 66; budget += 5)
        assert_true(answer(NULL, profile, &link, budget, 0) <= 19.02 + 1e-9);
    remat_profile_free(profile);
}

/* Whether during every run there is as much room as was asked for. */
static bool has_room(const remat_profile *profile, const remat_operations *list,
                     const remat_link *link, uint64_t budget, const uint64_t *pads)
{
    bool room = true;
    remat_simulation simulation;
    remat_moment *moments = calloc(list->length + 1, sizeof *moments);
    assert_int_equal(remat_simulate(profile, list, link, moments, NULL, &simulation, NULL),
                     REMAT_OK);
    assert_true(simulation.valid);
    for (size_t i = 0; i < list->length; i++) {
        const remat_operation *o = &list->items[i];
        const uint32_t task = o->index + (o->kind == REMAT_B ? profile->n_nodes : 0);
        room = room && (o->kind > REMAT_B || moments[i].memory_during + pads[task] <= budget);
    }
    free(moments);
    return room;
}

/* What is to be left free during some tasks is, and lists are found that the same search without
 * it would not have left it to. */
static void leaving_room(void **state)
{
    (void)state;
    unsigned found = 0, needed = 0;
    dice d = {20261129};
    const unsigned n = amount(120, 40);
    for (unsigned k = 0; k < n; k++) {
        const shape s = {.most_nodes = 7};
        remat_profile *profile = random_profile(&d, &s);
        const remat_link link = random_link(&d);
        remat_operations runs = {0}, start = {0}, with = {0}, without = {0};
        uint64_t peak, pads[14] = {0};
        assert_int_equal(remat_store_all_peak(profile, &peak, NULL), REMAT_OK);
        const uint64_t budget = peak * (80 + below(&d, 20)) / 100;
        for (uint32_t i = 0; i < 2 * profile->n_nodes; i++)
            pads[i] = chance(&d, 40) ? below(&d, (uint32_t)(peak / 8 + 1)) : 0;
        assert_int_equal(model_store_everything(profile, &runs), REMAT_OK);
        assert_int_equal(model_complete_list(profile, &runs, &start, NULL), REMAT_OK);
        assert_int_equal(remat_mix(profile, &link, &start, budget, pads, false, 0, REMAT_BRIEF, 0,
                                   NULL, &with, NULL),
                         REMAT_OK);
        assert_int_equal(remat_mix(profile, &link, &start, budget, NULL, false, 0, REMAT_BRIEF, 0,
                                   NULL, &without, NULL),
                         REMAT_OK);
        assert_true(with.length == 0 || has_room(profile, &with, &link, budget, pads));
        found += with.length > 0;
        needed += with.length > 0 && without.length > 0 &&
                  !has_room(profile, &without, &link, budget, pads);
        remat_operations_clear(&runs);
        remat_operations_clear(&start);
        remat_operations_clear(&with);
        remat_operations_clear(&without);
        remat_profile_free(profile);
    }
    if (found < n / 3 || needed < n / 12)
        fail_msg("%u found, %u of which needed it", found, needed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overwriting_waits), cmocka_unit_test(drawing_in_order),
        cmocka_unit_test(joint_states),      cmocka_unit_test(leaving_room),
        cmocka_unit_test(forward_profiles),  cmocka_unit_test(joint_profiles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
