/* join against an exhaustive search over all operation lists of tiny joins (every state of outputs,
 * saved values and backwards; operations F, A, B, D and D of saved values): equal in the exact
 * class, never below the optimum elsewhere, and bounds never above it. Larger random joins, also of
 * many branches: every step is replayed, more slots and more budget never give slower schedules,
 * tables come back from their bytes. */
#include "../unit/join_support.h"

#include "papers/join/others.h"
#include "papers/join/tables.h"
#include "remat/table.h"

#include <math.h>
#include <string.h>

/* ---- the search ---- */

enum { TINY = 6, COSTS = 600, STATES = 1 << 19, ENTRIES = 1 << 22 };

typedef struct search {
    const support_join *join;
    uint32_t first[JOIN_BRANCHES], n;
    bool saves; /* something is saved somewhere */
    uint64_t budget;
    bool *closed;
    uint32_t *entries, *next, n_entries, heads[COSTS];
    uint32_t cost; /* of the state being expanded */
} search;

/* out: bit by node; saved: bit by node; position: 3 bits a branch; turned. */
typedef struct place {
    uint32_t out, saved, position[JOIN_BRANCHES];
    bool turned;
} place;

static uint32_t pack(const search *s, const place *p)
{
    uint32_t code = p->out | p->saved << s->n, shift = s->n + (s->saves ? s->n : 0);
    for (uint32_t j = 0; j < s->join->k; j++, shift += 3)
        code |= p->position[j] << shift;
    code |= (uint32_t)p->turned << shift;
    assert_true(code < STATES);
    return code;
}

static place unpack(const search *s, uint32_t code)
{
    uint32_t mask = (1u << s->n) - 1, shift = s->n + (s->saves ? s->n : 0);
    place p = {.out = code & mask, .saved = s->saves ? (code >> s->n) & mask : 0};
    for (uint32_t j = 0; j < s->join->k; j++, shift += 3)
        p.position[j] = (code >> shift) & 7;
    p.turned = (code >> shift) & 1;
    return p;
}

static uint64_t gradient_bytes(const support_join *join, uint32_t j, uint32_t position)
{
    return position ? join->steps[j][position - 1].delta : join->input_gradient[j];
}

static uint64_t memory(const search *s, const place *p)
{
    uint64_t bytes = 0;
    for (uint32_t j = 0; j < s->join->k; j++) {
        for (uint32_t i = 0; i < s->join->length[j]; i++) {
            bytes += (p->out >> (s->first[j] + i) & 1) * s->join->steps[j][i].a;
            bytes += (p->saved >> (s->first[j] + i) & 1) * s->join->steps[j][i].saved;
        }
        if (p->turned)
            bytes += gradient_bytes(s->join, j, p->position[j]);
    }
    return bytes;
}

static void push(search *s, const place *p, double time)
{
    uint32_t cost = s->cost + (uint32_t)time;
    assert_true(cost < COSTS && s->n_entries < ENTRIES);
    s->entries[s->n_entries] = pack(s, p);
    s->next[s->n_entries] = s->heads[cost];
    s->heads[cost] = s->n_entries++;
}

static void expand_step(search *s, const place *p, uint32_t j, uint32_t i)
{
    const support_stage *step = &s->join->steps[j][i];
    uint32_t bit = 1u << (s->first[j] + i);
    bool input = i == 0 || (p->out & bit >> 1);
    uint64_t now = memory(s, p);
    place q = *p;
    if (p->out & bit) {
        q.out &= ~bit;
        push(s, &q, 0);
        q = *p;
    } else if (input) {
        q.out |= bit;
        if (now + step->a + step->of <= s->budget)
            push(s, &q, step->uf);
        q.saved |= bit;
        if (step->saved > 0 && !(p->saved & bit) &&
            now + step->a + step->saved + step->os <= s->budget)
            push(s, &q, step->uf);
        q = *p;
    }
    if (p->saved & bit) {
        q.saved &= ~bit;
        push(s, &q, 0);
        q = *p;
    }
    if (!p->turned || p->position[j] != i + 1 || !input || (step->saved > 0 && !(p->saved & bit)) ||
        (step->uses_output && !(p->out & bit)) ||
        now + gradient_bytes(s->join, j, i) + step->ob > s->budget)
        return;
    q.position[j] = i;
    q.saved &= ~bit;
    push(s, &q, step->ub);
}

static void expand_turn(search *s, const place *p)
{
    const support_stage *loss = &s->join->loss;
    uint64_t now = memory(s, p), gradients = loss->delta + (loss->uses_output ? loss->a : 0);
    place q = *p;
    q.turned = true;
    for (uint32_t j = 0; j < s->join->k; j++) {
        if (!(p->out >> (s->first[j] + s->join->length[j] - 1) & 1))
            return;
        gradients += gradient_bytes(s->join, j, s->join->length[j]);
    }
    if (!p->turned && now + loss->a + loss->of <= s->budget &&
        now + gradients + loss->ob <= s->budget)
        push(s, &q, loss->uf + loss->ub);
}

static bool is_end(const search *s, const place *p)
{
    for (uint32_t j = 0; j < s->join->k; j++)
        if (p->position[j] > 0)
            return false;
    return p->turned;
}

static double exhaustive(search *s, uint64_t budget)
{
    place start = {0};
    s->budget = budget;
    s->n_entries = s->cost = 0;
    memset(s->closed, 0, STATES);
    memset(s->heads, 0xff, sizeof s->heads);
    for (uint32_t j = 0; j < s->join->k; j++)
        start.position[j] = s->join->length[j];
    push(s, &start, 0);
    for (; s->cost < COSTS; s->cost++)
        while (s->heads[s->cost] != UINT32_MAX) {
            uint32_t entry = s->heads[s->cost], code = s->entries[entry];
            s->heads[s->cost] = s->next[entry];
            if (s->closed[code])
                continue;
            s->closed[code] = true;
            place p = unpack(s, code);
            if (is_end(s, &p))
                return s->cost;
            for (uint32_t j = 0; j < s->join->k; j++)
                for (uint32_t i = 0; i < s->join->length[j]; i++)
                    expand_step(s, &p, j, i);
            expand_turn(s, &p);
        }
    return INFINITY;
}

/* ---- random joins ---- */

static double any_time(uint64_t *seed)
{
    return (double)support_below(seed, 5);
}

static void random_loss(uint64_t *seed, support_join *join)
{
    join->loss = (support_stage){.a = support_below(seed, 2),
                                 .delta = support_below(seed, 2),
                                 .of = support_below(seed, 3),
                                 .ob = support_below(seed, 3),
                                 .uf = any_time(seed),
                                 .ub = any_time(seed),
                                 .uses_output = support_below(seed, 2)};
}

/* saves: with saved values; uses: with outputs that backwards read. */
static void random_join(uint64_t *seed, uint32_t nodes, uint32_t most, bool saves, bool uses,
                        support_join *join)
{
    memset(join, 0, sizeof *join);
    random_loss(seed, join);
    while (nodes > 0 && join->k < most) {
        uint32_t length = 1 + (uint32_t)support_below(seed, nodes);
        nodes -= length;
        for (uint32_t i = 0; i < length; i++)
            join->steps[join->k][i] = (support_stage){
                .a = 1 + support_below(seed, 4),
                .saved = saves ? support_below(seed, 3) : 0,
                .delta = 1 + support_below(seed, 3),
                .of = support_below(seed, 2),
                .os = support_below(seed, 3),
                .ob = support_below(seed, 3),
                .uf = any_time(seed),
                .ub = any_time(seed),
                .uses_output = uses && support_below(seed, 2),
            };
        join->input_gradient[join->k] = support_below(seed, 2);
        join->length[join->k++] = length;
    }
}

/* Into the exact class. */
static void make_exact(support_join *join)
{
    uint64_t turn = join->loss.delta + join->loss.ob + (join->loss.uses_output ? join->loss.a : 0);
    if (join->loss.os < join->loss.of)
        join->loss.os = join->loss.of;
    for (uint32_t j = 0; j < join->k; j++)
        turn += join->steps[j][0].delta;
    for (uint32_t j = 0; j < join->k; j++)
        for (uint32_t i = 0; i < join->length[j]; i++) {
            support_stage *step = &join->steps[j][i];
            step->a = join->steps[j][0].a;
            step->delta = join->steps[j][0].delta;
            if ((i ? step->a : 0) + step->of > turn)
                step->of = 0;
            if (step->os < step->of)
                step->os = step->of;
            if (i && step->a > turn) /* still too much: the loss's backward takes it */
                join->loss.ob += step->a - turn;
        }
}

static search search_new(void)
{
    search s = {.closed = malloc(STATES)};
    s.entries = malloc(ENTRIES * sizeof *s.entries);
    s.next = malloc(ENTRIES * sizeof *s.next);
    return s;
}

static void search_clear(search *s)
{
    free(s->closed);
    free(s->entries);
    free(s->next);
}

static void search_start(search *s, const support_join *join)
{
    s->join = join;
    s->n = 0;
    s->saves = false;
    for (uint32_t j = 0; j < join->k; j++) {
        s->first[j] = s->n;
        s->n += join->length[j];
        for (uint32_t i = 0; i < join->length[j]; i++)
            s->saves = s->saves || join->steps[j][i].saved > 0;
    }
}

/* ---- comparisons ---- */

static void compare(search *s, const remat_profile *profile, double slots, bool exact)
{
    enum { MOST = 48 };
    remat_problem problem = support_problem("join", profile, MOST);
    problem.options.values[0] = slots;
    steps offered = steps_of("join", &problem);
    support_check_offers("join", &offered, &problem, true);
    uint64_t from = offered.n ? steps_least(&offered) : 8;
    for (uint64_t m = from > 2 ? from - 2 : 0; m < from + 8; m++) {
        double optimum = exhaustive(s, m), bound = steps_bound(&offered, m);
        double found = steps_best(&offered, m);
        if (bound > optimum || found < optimum)
            fail_msg("budget %llu: bound %g, optimum %g, found %g", (unsigned long long)m, bound,
                     optimum, found);
        if (exact && (found != optimum || bound != optimum))
            fail_msg("budget %llu: bound %g, optimum %g, found %g in the exact class",
                     (unsigned long long)m, bound, optimum, found);
    }
    steps_clear(&offered);
}

static void tiny_joins(void **state)
{
    (void)state;
    static support_join join;
    search s = search_new();
    uint64_t seed = 42;
    int n_exact = 0;
    for (int n = 0; n < 160; n++) {
        bool exact = n % 2, saves = n % 4 == 0;
        random_join(&seed, saves ? 4 : TINY, 3, saves && !exact, !exact, &join);
        if (exact)
            make_exact(&join);
        remat_profile *profile = support_join_profile(&join);
        join_costs *view = NULL;
        assert_int_equal(join_new(profile, &view, NULL), REMAT_OK);
        bool claimed = join_exact(view);
        n_exact += claimed;
        join_free(view);
        search_start(&s, &join);
        compare(&s, profile, 0, claimed);
        compare(&s, profile, 7, false);
        remat_profile_free(profile);
    }
    assert_true(n_exact > 40);
    search_clear(&s);
}

/* ---- larger joins ---- */

static void check_larger(const char *name, const remat_profile *profile, uint64_t budget,
                         double slots)
{
    const remat_solver *solver = remat_solver_find(name);
    remat_problem problem = support_problem(name, profile, budget);
    remat_estimate estimate = {0};
    problem.options.values[0] = slots;
    assert_int_equal(solver->estimate(&problem, &estimate, NULL), REMAT_OK);
    assert_true(estimate.table_bytes < UINT64_C(2000000000));
    steps offered = steps_of(name, &problem);
    assert_true(offered.n > 0);
    support_check_offers(name, &offered, &problem, true);
    steps_clear(&offered);
}

static void larger_joins(void **state)
{
    (void)state;
    static support_join join;
    uint64_t seed = 7;
    for (int n = 0; n < 24; n++) {
        random_join(&seed, 8 + (uint32_t)n, 1 + (uint32_t)n % JOIN_BRANCHES, n % 2, n % 3, &join);
        remat_profile *profile = support_join_profile(&join);
        check_larger("join", profile, 400, 0);
        check_larger("join", profile, 60, n % 5 ? 90 : 23);
        check_larger("equiv-chain", profile, 400, 0);
        remat_profile_free(profile);
    }
}

/* Six branches of 20: past any table of positions, answered by groups. */
static void many_branches(void **state)
{
    (void)state;
    static support_join join;
    uint64_t seed = 3;
    memset(&join, 0, sizeof join);
    random_loss(&seed, &join);
    join.k = JOIN_BRANCHES;
    for (uint32_t j = 0; j < join.k; j++) {
        join.length[j] = 20;
        for (uint32_t i = 0; i < 20; i++)
            join.steps[j][i] =
                (support_stage){.a = 10, .delta = 10, .uf = 1, .ub = 2, .uses_output = j % 2};
    }
    remat_profile *profile = support_join_profile(&join);
    check_larger("join", profile, 2000, 60);
    remat_profile_free(profile);
}

/* A loss by itself; a chain, where nothing beats the persistent optimum by more than the class. */
static void chains(void **state)
{
    (void)state;
    support_stage stages[6];
    uint64_t seed = 5;
    for (uint32_t n = 1; n <= 6; n++) {
        support_chain chain = {.n = n, .n_inputs = 2, .input_bytes = {3, 2}, .stages = stages};
        chain.input_gradient[1] = 2;
        for (uint32_t i = 0; i < n; i++)
            stages[i] = (support_stage){.a = 1 + support_below(&seed, 4),
                                        .saved = support_below(&seed, 2),
                                        .delta = 1,
                                        .uf = 1,
                                        .ub = 1,
                                        .uses_output = true,
                                        .reads_input = {false, i % 2 == 1}};
        remat_profile *profile = support_profile(&chain);
        check_larger("join", profile, 200, 0);
        check_larger("equiv-chain", profile, 200, 0);
        remat_profile_free(profile);
    }
}

/* At every budget at least as fast as the methods it is to beat. */
static void check_point(const remat_table *join, uint64_t peak, double makespan, const char *name)
{
    size_t n;
    const remat_point *frontier = remat_table_frontier(join, &n);
    ptrdiff_t point = remat_table_point(join, peak);
    if (point < 0 || frontier[point].makespan > makespan * (1 + 1e-9))
        fail_msg("%s takes %g within %llu bytes, join %g", name, makespan, (unsigned long long)peak,
                 point < 0 ? -1.0 : frontier[point].makespan);
}

static remat_status solve_sequential(const remat_problem *problem, const remat_host *host,
                                     const remat_sink *sink, remat_error *error)
{
    return join_offer_sequential(problem, sink, host, error);
}

static size_t check_sequential(const remat_table *join, const remat_problem *problem)
{
    const remat_solver sequential = {.solve = solve_sequential};
    steps offered;
    remat_error error = {0};
    if (steps_try(&sequential, problem, NULL, &offered, &error))
        fail_msg("%s", error.message);
    size_t n = offered.n;
    for (size_t i = 0; i < n; i++) {
        remat_simulation simulation;
        assert_int_equal(remat_simulate(problem->profile, &offered.items[i].operations, NULL, NULL,
                                        NULL, &simulation, NULL),
                         REMAT_OK);
        if (!simulation.valid)
            fail_msg("operation %zu: %s", simulation.bad_operation, simulation.reason);
        check_point(join, simulation.peak, simulation.makespan, "rotor, sequentialised");
    }
    steps_clear(&offered);
    return n;
}

static void never_worse_than_others(void **state)
{
    (void)state;
    static support_join join;
    static const char *const others[] = {"equiv-chain", "lowerset-approx"};
    uint64_t seed = 19;
    size_t sequential = 0;
    for (int n = 0; n < 40; n++) {
        random_join(&seed, 5 + (uint32_t)n, 2 + (uint32_t)n % 3, n % 2, n % 3, &join);
        remat_profile *profile = support_join_profile(&join);
        const remat_problem problem = support_problem("join", profile, 2000);
        remat_table *table = NULL, *other = NULL;
        assert_int_equal(remat_tabulate(remat_solver_find("join"), &problem, NULL, &table, NULL),
                         REMAT_OK);
        for (size_t i = 0; i < 2; i++) {
            const remat_problem theirs = support_problem(others[i], profile, 2000);
            size_t points;
            assert_int_equal(
                remat_tabulate(remat_solver_find(others[i]), &theirs, NULL, &other, NULL),
                REMAT_OK);
            const remat_point *frontier = remat_table_frontier(other, &points);
            for (size_t k = 0; k < points; k++)
                check_point(table, frontier[k].peak, frontier[k].makespan, others[i]);
            remat_table_free(other);
        }
        sequential += check_sequential(table, &problem);
        remat_table_free(table);
        remat_profile_free(profile);
    }
    assert_true(sequential > 200);
}

static bool wish(void *data)
{
    return --*(int *)data < 0;
}

static void cancelled(void **state)
{
    (void)state;
    static support_join join;
    uint64_t seed = 11;
    random_join(&seed, 12, 2, true, true, &join);
    remat_profile *profile = support_join_profile(&join);
    const remat_solver *solver = remat_solver_find("join");
    remat_problem problem = support_problem("join", profile, 100);
    for (int polls = 0; polls < 60; polls += 7) {
        int left = polls;
        remat_table *table = NULL;
        const remat_host host = {.data = &left, .cancelled = wish};
        assert_int_equal(remat_tabulate(solver, &problem, &host, &table, NULL), REMAT_CANCELLED);
        assert_null(table);
    }
    remat_profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tiny_joins),
                                       cmocka_unit_test(larger_joins),
                                       cmocka_unit_test(many_branches),
                                       cmocka_unit_test(chains),
                                       cmocka_unit_test(never_worse_than_others),
                                       cmocka_unit_test(cancelled)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
