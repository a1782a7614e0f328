/* The slot tables: every version of the kernel against a plain recurrence written here, exact bytes
 * between the two ways of rounding, traces that fit, workers, cancellation, memory limits, storage.
 */
#include "../unit/chain_support.h"

#include "start/rotor/breakpoints.h"
#include "start/rotor/slots.h"

#include <math.h>
#include <string.h>

enum { MAX_STAGES = 48 };

static void random_chain(uint64_t *seed, support_chain *chain, support_stage *stages)
{
    uint64_t sizes = 1 + support_below(seed, 2000);
    bool small_save = support_below(seed, 2), inputs_only = support_below(seed, 3) == 0;
    *chain = (support_chain){
        .n = 1 + (uint32_t)support_below(seed, MAX_STAGES), .n_inputs = 1, .stages = stages};
    chain->input_bytes[0] = support_below(seed, sizes);
    for (uint32_t i = 0; i < chain->n; i++) {
        uint64_t forward = support_below(seed, sizes);
        stages[i] = (support_stage){
            .a = i + 1 < chain->n ? support_below(seed, sizes) : 0,
            .saved = inputs_only && support_below(seed, 2) ? 0 : support_below(seed, 3 * sizes),
            .delta = support_below(seed, sizes),
            .of = forward,
            .os = small_save ? support_below(seed, forward + 1) : forward,
            .ob = support_below(seed, sizes),
            .uf = (double)support_below(seed, 100),
            .ub = (double)support_below(seed, 100),
            .uses_output = !inputs_only,
        };
    }
}

/* ---- the recurrence, plainly ---- */

typedef struct plain {
    const chain_costs *chain;
    const chain_slots_setting *setting;
    bool each_pass;
    int64_t *values; /* [s][t][m] */
} plain;

static int64_t *value(const plain *p, uint32_t s, uint32_t t)
{
    uint32_t n = p->chain->n;
    return p->values + ((size_t)s * (n + 1) + t) * ((size_t)p->setting->n_slots + 1);
}

static uint64_t rounded(const plain *p, uint64_t bytes)
{
    uint64_t unit = p->setting->unit;
    return p->setting->round_up ? (bytes + unit - 1) / unit : bytes / unit;
}

static int64_t plain_value(const plain *p, uint32_t s, uint32_t t, uint64_t m)
{
    const chain_costs *c = p->chain;
    const int64_t none = CHAIN_KERNEL_INFINITE;
    if (s == t)
        return m >= rounded(p, chain_leaf_bytes(c, s)) ? chain_leaf_ticks(c, s) : none;
    int64_t best = none;
    uint64_t kept = rounded(p, c->kept[s]), whole = 0, pass = 0;
    for (uint32_t j = s; j < t; j++)
        whole = model_larger(whole, chain_need_forward(c, s, j, t));
    if (!p->each_pass && m < rounded(p, whole))
        return none;
    if (!p->setting->inputs_only && m >= rounded(p, chain_need_all(c, s, t)) && m >= kept)
        best = value(p, s + 1, t)[m - kept] + c->forward[s] + c->backward[s];
    for (uint32_t k = s + 1; k <= t; k++) {
        uint64_t shift = rounded(p, c->output[k - 1]);
        pass = model_larger(pass, chain_need_forward(c, s, k - 1, t));
        if (m < shift || (p->each_pass && m < rounded(p, pass)))
            continue;
        int64_t cost = c->forward_sum[k - 1] - c->forward_sum[s - 1] + value(p, k, t)[m - shift] +
                       value(p, s, k - 1)[m];
        best = cost < best ? cost : best;
    }
    return best < none ? best : none;
}

static int64_t *plain_answer(const chain_costs *chain, const chain_slots_setting *setting)
{
    uint32_t n = chain->n;
    size_t row = (size_t)setting->n_slots + 1;
    plain p = {.chain = chain, .setting = setting};
    for (uint32_t i = 1; i <= n; i++)
        p.each_pass |= chain->save_workspace[i] < chain->forward_workspace[i];
    p.values = malloc((size_t)(n + 1) * (n + 1) * row * sizeof *p.values);
    assert_non_null(p.values);
    for (uint32_t length = 0; length < n; length++)
        for (uint32_t s = 1; s + length <= n; s++)
            for (uint32_t m = 0; m <= setting->n_slots; m++)
                value(&p, s, s + length)[m] = plain_value(&p, s, s + length, m);
    int64_t *answer = malloc(row * sizeof *answer);
    assert_non_null(answer);
    memcpy(answer, value(&p, 1, n), row * sizeof *answer);
    free(p.values);
    return answer;
}

/* ---- the tests ---- */

static chain_slots_setting random_setting(uint64_t *seed, const chain_costs *chain)
{
    uint64_t bytes = 0;
    for (uint32_t i = 1; i <= chain->n; i++)
        bytes += chain->kept[i] + chain->held[i] / 2;
    chain_slots_setting setting = {.n_slots = 1 + (uint32_t)support_below(seed, 150),
                                   .round_up = support_below(seed, 2),
                                   .inputs_only = support_below(seed, 3) == 0};
    setting.unit = 1 + bytes * (1 + support_below(seed, 10)) / 10 / setting.n_slots;
    return setting;
}

static void check_traces(const chain_slots *slots, const chain_costs *chain)
{
    const int32_t *answer = chain_slots_answer(slots);
    for (uint32_t m = 0; m <= chain_slots_count(slots); m++) {
        if (answer[m] >= CHAIN_KERNEL_INFINITE)
            continue;
        remat_operations operations = {0};
        remat_error error = {0};
        uint64_t bytes;
        int64_t ticks;
        if (chain_slots_trace(slots, chain, m, &operations, &error))
            fail_msg("slot %u: %s", m, error.message);
        chain_measure(chain, &operations, &bytes, &ticks);
        assert_true(bytes <= chain->input_bytes + m * chain_slots_unit(slots));
        assert_true(ticks <= answer[m]);
        remat_operations_clear(&operations);
    }
}

static void check_exact(const chain_slots *slots, const chain_costs *chain,
                        const chain_slots_setting *setting)
{
    chain_breakpoints *exact = NULL;
    remat_error error = {0};
    assert_int_equal(chain_breakpoints_new(chain, setting->inputs_only,
                                           (chain_breakpoints_limits){0}, NULL, &exact, &error),
                     REMAT_OK);
    chain_breakpoint_list list = chain_breakpoints_answer(exact);
    size_t at = 0;
    int64_t best = CHAIN_KERNEL_INFINITE;
    for (uint32_t m = 0; m <= setting->n_slots; m++) {
        /* the largest budget that rounds to m slots, or the least */
        uint64_t bytes = m * setting->unit + (setting->round_up ? 0 : setting->unit - 1);
        for (; at < list.count && list.points[at].bytes <= bytes; at++)
            best = list.points[at].ticks;
        int64_t slot_value = chain_slots_answer(slots)[m];
        assert_true(setting->round_up ? slot_value >= best : slot_value <= best);
    }
    chain_breakpoints_free(exact);
}

static void versions_agree(void **state)
{
    (void)state;
    chain_kernel_version versions[3];
    size_t n_versions = chain_kernel_versions(versions);
    for (size_t v = 0; v < n_versions; v++)
        print_message("# kernel %s\n", versions[v].name);
    uint64_t seed = 11;
    for (int round = 0; round < 300; round++) {
        support_stage stages[MAX_STAGES];
        support_chain claim;
        random_chain(&seed, &claim, stages);
        remat_profile *profile = support_profile(&claim);
        chain_costs *chain = NULL;
        remat_error error = {0};
        assert_int_equal(chain_new(profile, &chain, &error), REMAT_OK);
        chain_slots_setting setting = random_setting(&seed, chain);
        int64_t *expected = plain_answer(chain, &setting);
        for (size_t v = 0; v < n_versions; v++) {
            chain_slots *slots = NULL;
            setting.kernel = versions[v].run;
            assert_int_equal(chain_slots_new(chain, &setting, NULL, &slots, &error), REMAT_OK);
            for (uint32_t m = 0; m <= setting.n_slots; m++)
                if (chain_slots_answer(slots)[m] != expected[m])
                    fail_msg("%s: %u stages, slot %u of %u: %d, plainly %lld", versions[v].name,
                             chain->n, m, setting.n_slots, chain_slots_answer(slots)[m],
                             (long long)expected[m]);
            if (setting.round_up)
                check_traces(slots, chain);
            check_exact(slots, chain, &setting);
            chain_slots_free(slots);
        }
        free(expected);
        chain_free(chain);
        remat_profile_free(profile);
    }
}

/* A host that runs indices backwards on alternating workers, and gives up after some polls. */
typedef struct odd_host {
    int polls_left; /* negative: never gives up */
} odd_host;

static void backwards(void *data, size_t count,
                      void (*body)(void *context, size_t index, unsigned worker), void *context)
{
    (void)data;
    for (size_t i = count; i-- > 0;)
        body(context, i, (unsigned)(i % 3));
}

static bool gives_up(void *data)
{
    odd_host *odd = data;
    if (odd->polls_left < 0)
        return false;
    return odd->polls_left == 0 || --odd->polls_left == 0;
}

static void hosts(void **state)
{
    (void)state;
    const remat_solver *rotor = remat_solver_find("rotor");
    uint64_t seed = 12;
    support_stage stages[MAX_STAGES];
    support_chain claim = {.n = 0};
    while (claim.n < 40)
        random_chain(&seed, &claim, stages);
    remat_profile *profile = support_profile(&claim);
    remat_problem problem = support_problem("rotor", profile, 20000);
    remat_error error = {0};
    for (int slots = 0; slots <= 100; slots += 100) {
        problem.options.values[0] = slots;
        steps alone, shared;
        odd_host odd = {-1};
        remat_host host = {
            .data = &odd, .parallel_for = backwards, .workers = 3, .cancelled = gives_up};
        assert_int_equal(steps_try(rotor, &problem, NULL, &alone, &error), REMAT_OK);
        assert_int_equal(steps_try(rotor, &problem, &host, &shared, &error), REMAT_OK);
        assert_int_equal(alone.n, shared.n);
        for (size_t i = 0; i < alone.n; i++) {
            const remat_model *a = &alone.items[i].model, *b = &shared.items[i].model;
            assert_true(a->budget == b->budget && a->makespan == b->makespan);
        }
        support_check_steps("rotor", &shared, &problem, true);
        for (int polls = 1; polls < 12; polls++) {
            steps none;
            odd.polls_left = polls;
            remat_status status = steps_try(rotor, &problem, &host, &none, &error);
            if (status == REMAT_OK)
                steps_clear(&none);
            else
                assert_int_equal(status, REMAT_CANCELLED);
        }
        steps_clear(&alone);
        steps_clear(&shared);
    }
    remat_host small = {.memory_limit = 4096};
    steps none;
    problem.options.values[0] = 100;
    assert_int_equal(steps_try(rotor, &problem, &small, &none, &error), REMAT_TOO_LARGE);
    remat_profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_agree),
        cmocka_unit_test(hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
