/* rotor and butt against an independent exhaustive search: shortest paths over memory states,
 * restricted to persistent schedules (Beaumont et al. 2019), on thousands of
 * random tiny chains with zero sizes, zero times, one or two stages, workspaces of all three kinds,
 * gradients of graph inputs (of later stages too), a loss gradient and stages whose backward reads
 * its input only. */
#include "../unit/chain_support.h"

#include <math.h>
#include <string.h>

enum {
    MAX_STAGES = 5,
    SETS = 1 << MAX_STAGES,
    STATES = (MAX_STAGES + 1) * SETS * SETS * (MAX_STAGES + 1)
};

/* ---- the search ---- */

/* t: next backward, 0 when done; plain, full: bit i-1 for a_i, abar_i; running: the i of the a_i
 * that the operation just before produced by F_ck or F_none, 0 if none. pinned values are those
 * read as inputs; they cannot be told from others by later operations except that F_none takes only
 * the running one. */
typedef struct memory_state {
    uint32_t t, plain, full, running;
} memory_state;

typedef struct search {
    const support_chain *chain;
    uint64_t budget;
    bool inputs_only; /* the class of butt: F_all^t just before B^t and nowhere else */
    double least[STATES];
    uint32_t queue[STATES];
    bool queued[STATES];
    size_t head, count;
} search;

static uint32_t code(memory_state at)
{
    return ((at.t * SETS + at.plain) * SETS + at.full) * (MAX_STAGES + 1) + at.running;
}

static memory_state decode(uint32_t c)
{
    memory_state at;
    at.running = c % (MAX_STAGES + 1);
    c /= MAX_STAGES + 1;
    at.full = c % SETS;
    c /= SETS;
    at.plain = c % SETS;
    at.t = c / SETS;
    return at;
}

static bool has(uint32_t set, uint32_t i)
{
    return i > 0 && (set >> (i - 1) & 1);
}

static uint64_t input_bytes(const support_chain *chain)
{
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < chain->n_inputs; k++)
        bytes += chain->input_bytes[k];
    return bytes;
}

/* Gradients of graph inputs alive once B^n .. B^first have run. */
static uint64_t input_gradients(const support_chain *chain, uint32_t first)
{
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < chain->n_inputs; k++) {
        bool alive = k == 0 && first == 1;
        for (uint32_t i = first; i <= chain->n; i++)
            alive |= chain->stages[i - 1].reads_input[k];
        if (alive)
            bytes += chain->input_gradient[k];
    }
    return bytes;
}

static uint64_t stored(const support_chain *chain, memory_state at)
{
    uint64_t bytes = input_bytes(chain);
    for (uint32_t i = 1; i <= chain->n; i++) {
        const support_stage *stage = &chain->stages[i - 1];
        if (has(at.plain, i))
            bytes += stage->a;
        if (has(at.full, i))
            bytes += stage->a + stage->saved;
    }
    if (at.t < chain->n && at.t > 0)
        bytes += chain->stages[at.t - 1].delta;
    return bytes + input_gradients(chain, at.t + 1);
}

static void reach(search *s, memory_state to, double time, uint64_t peak)
{
    if (peak > s->budget)
        return;
    uint32_t c = code(to);
    if (time >= s->least[c])
        return;
    s->least[c] = time;
    if (s->queued[c])
        return;
    s->queued[c] = true;
    s->queue[(s->head + s->count++) % STATES] = c;
}

static void try_forwards(search *s, memory_state at, double time, uint64_t bytes, uint32_t i)
{
    const support_stage *stage = &s->chain->stages[i - 1];
    bool plain_input = i == 1 || has(at.plain, i - 1);
    if ((!plain_input && !has(at.full, i - 1)) || has(at.full, i) || has(at.plain, i))
        return;
    if (s->inputs_only && at.full)
        return;
    memory_state to = at;
    to.running = 0;
    to.full |= 1u << (i - 1);
    if (!s->inputs_only || i == at.t)
        reach(s, to, time + stage->uf, bytes + stage->a + stage->saved + stage->os);
    if (i == s->chain->n)
        return;
    to = at;
    to.plain |= 1u << (i - 1);
    to.running = i;
    reach(s, to, time + stage->uf, bytes + stage->a + stage->of);
    if (i > 1 && at.running == i - 1) {
        to.plain &= ~(1u << (i - 2));
        reach(s, to, time + stage->uf, bytes + stage->a + stage->of);
    }
}

static void try_backward(search *s, memory_state at, double time, uint64_t bytes)
{
    const support_chain *chain = s->chain;
    const support_stage *stage = &chain->stages[at.t - 1];
    bool direct = at.t < chain->n && stage->saved == 0 && !stage->uses_output;
    if (at.t > 1 && !has(at.plain, at.t - 1) && !has(at.full, at.t - 1))
        return;
    if (!has(at.full, at.t) && !direct)
        return;
    uint64_t during =
        bytes + stage->ob + input_gradients(chain, at.t) - input_gradients(chain, at.t + 1);
    if (at.t == chain->n)
        during += stage->delta;
    if (at.t > 1)
        during += chain->stages[at.t - 2].delta;
    memory_state to = at;
    to.running = 0;
    to.t = at.t - 1;
    to.full &= ~(1u << (at.t - 1));
    to.plain &= ~(1u << (at.t - 1));
    if (at.t > 1)
        to.plain &= ~(1u << (at.t - 2));
    reach(s, to, time + stage->ub, during);
}

static double exhaustive(search *s, const support_chain *chain, uint64_t budget)
{
    s->chain = chain;
    s->budget = budget;
    s->head = s->count = 0;
    for (size_t i = 0; i < STATES; i++)
        s->least[i] = INFINITY;
    if (input_bytes(chain) > budget)
        return INFINITY;
    reach(s, (memory_state){.t = chain->n}, 0, 0);
    while (s->count > 0) {
        uint32_t c = s->queue[s->head];
        s->head = (s->head + 1) % STATES;
        s->count--;
        s->queued[c] = false;
        memory_state at = decode(c);
        if (at.t == 0)
            continue;
        uint64_t bytes = stored(chain, at);
        for (uint32_t i = 1; i <= at.t; i++)
            try_forwards(s, at, s->least[c], bytes, i);
        try_backward(s, at, s->least[c], bytes);
    }
    double best = INFINITY;
    for (uint32_t c = 0; c < SETS * SETS * (MAX_STAGES + 1); c++) /* t = 0 */
        best = fmin(best, s->least[c]);
    return best;
}

/* ---- random chains ---- */

static void random_chain(uint64_t *seed, support_chain *chain, support_stage *stages)
{
    uint64_t sizes = 1 + support_below(seed, 7), times = 1 + support_below(seed, 6);
    bool workspaces = support_below(seed, 2), small_save = support_below(seed, 4) == 0;
    bool inputs_only = support_below(seed, 4) == 0, late = support_below(seed, 3) == 0;
    *chain = (support_chain){.n = 1 + (uint32_t)support_below(seed, MAX_STAGES),
                             .n_inputs = late ? SUPPORT_INPUTS : 1,
                             .stages = stages};
    for (uint32_t k = 0; k < chain->n_inputs; k++) {
        chain->input_bytes[k] = support_below(seed, sizes);
        chain->input_gradient[k] = support_below(seed, 2) * support_below(seed, sizes);
    }
    for (uint32_t i = 0; i < chain->n; i++) {
        uint64_t forward = workspaces ? support_below(seed, sizes) : 0;
        stages[i] = (support_stage){
            .a = support_below(seed, sizes),
            .saved = support_below(seed, 3) ? support_below(seed, 2 * sizes) : 0,
            .delta = support_below(seed, sizes),
            .of = forward,
            .os = small_save ? support_below(seed, forward + 1) : forward + support_below(seed, 2),
            .ob = workspaces ? support_below(seed, sizes) : 0,
            .uf = (double)support_below(seed, times),
            .ub = (double)support_below(seed, times),
            .uses_output = !inputs_only || support_below(seed, 2),
        };
        for (uint32_t k = 0; k < chain->n_inputs; k++)
            stages[i].reads_input[k] = late && support_below(seed, 3) == 0;
    }
    stages[chain->n - 1].a = 0;
    for (uint32_t k = 1; k < chain->n_inputs; k++) /* every input has a consumer */
        stages[support_below(seed, chain->n)].reads_input[k] = true;
}

/* ---- the tests ---- */

static void compare(search *s, const support_chain *chain, const char *name, const steps *found)
{
    s->inputs_only = strcmp(name, "butt") == 0;
    double before = INFINITY;
    for (size_t i = 0; i < found->n; i++) {
        uint64_t budget = found->items[i].model.budget;
        double here = exhaustive(s, chain, budget), makespan = found->items[i].model.makespan;
        if (here != makespan)
            fail_msg("budget %llu: %s %g, exhaustive search %g", (unsigned long long)budget, name,
                     makespan, here);
        assert_true(steps_bound(found, budget) == here);
        if (budget > 0) {
            double below = exhaustive(s, chain, budget - 1);
            if (below != before || steps_bound(found, budget - 1) != before)
                fail_msg("budget %llu: %s %g, exhaustive search %g", (unsigned long long)budget - 1,
                         name, before, below);
        }
        before = here;
    }
    assert_true(found->n > 0);
    double all = 0;
    for (uint32_t i = 0; i < chain->n; i++)
        all += chain->stages[i].uf + chain->stages[i].ub;
    assert_true(before == all || s->inputs_only);
}

static void check_solver(search *s, const char *name, const support_chain *chain)
{
    remat_profile *profile = support_profile(chain);
    remat_problem problem = support_problem(name, profile, 1000);
    steps found = steps_of(name, &problem);
    compare(s, chain, name, &found);
    support_check_steps(name, &found, &problem, true);
    steps_clear(&found);
    remat_profile_free(profile);
}

static void equals_exhaustive_search(void **state)
{
    (void)state;
    search *s = calloc(1, sizeof *s);
    assert_non_null(s);
    uint64_t seed = 1;
    for (int round = 0; round < 3000; round++) {
        support_stage stages[MAX_STAGES];
        support_chain chain;
        random_chain(&seed, &chain, stages);
        check_solver(s, "rotor", &chain);
        check_solver(s, "butt", &chain);
    }
    free(s);
}

/* All sizes times `sizes`, all times times `times`. */
static void scale(support_chain *chain, uint64_t sizes, double times)
{
    for (uint32_t k = 0; k < chain->n_inputs; k++) {
        chain->input_bytes[k] *= sizes;
        chain->input_gradient[k] *= sizes;
    }
    for (uint32_t i = 0; i < chain->n; i++) {
        support_stage *stage = &chain->stages[i];
        stage->a *= sizes;
        stage->saved *= sizes;
        stage->delta *= sizes;
        stage->of *= sizes;
        stage->os *= sizes;
        stage->ob *= sizes;
        stage->uf *= times;
        stage->ub *= times;
    }
}

static void random_long_chain(uint64_t *seed, support_chain *chain, support_stage *stages,
                              uint32_t n)
{
    *chain = (support_chain){.n = n, .n_inputs = 1, .stages = stages};
    chain->input_bytes[0] = support_below(seed, 1000);
    for (uint32_t i = 0; i < n; i++)
        stages[i] = (support_stage){.a = support_below(seed, 1000),
                                    .saved = support_below(seed, 3000),
                                    .delta = support_below(seed, 1000),
                                    .of = support_below(seed, 300),
                                    .os = support_below(seed, 300),
                                    .ob = support_below(seed, 300),
                                    .uf = (double)support_below(seed, 100),
                                    .ub = (double)support_below(seed, 200),
                                    .uses_output = true};
}

/* Multiplying sizes and times multiplies budgets and makespans; near 2^44 bytes nothing overflows.
 */
static void scales(void **state)
{
    (void)state;
    uint64_t seed = 2;
    for (int round = 0; round < 20; round++) {
        support_stage stages[24];
        support_chain chain;
        random_long_chain(&seed, &chain, stages, 24);
        steps found[2];
        remat_profile *profiles[2];
        uint64_t sizes = UINT64_C(1) << 32;
        double times = 1.0 / 8;
        for (int k = 0; k < 2; k++) {
            if (k)
                scale(&chain, sizes, times);
            profiles[k] = support_profile(&chain);
            remat_problem problem = support_problem("rotor", profiles[k], UINT64_C(1) << 50);
            found[k] = steps_of("rotor", &problem);
            support_check_steps("rotor", &found[k], &problem, true);
        }
        assert_int_equal(found[0].n, found[1].n);
        for (size_t i = 0; i < found[0].n; i++) {
            const remat_model *a = &found[0].items[i].model, *b = &found[1].items[i].model;
            assert_true(a->budget * sizes == b->budget);
            assert_true(a->makespan * times == b->makespan);
        }
        for (int k = 0; k < 2; k++) {
            steps_clear(&found[k]);
            remat_profile_free(profiles[k]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_exhaustive_search),
        cmocka_unit_test(scales),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
