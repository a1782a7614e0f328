/* Snapshots against a machine that writes fresh tokens: not against the set equations. Values are
 * numbers; a plain run of C writes numbers that depend on what it reads, so that running it again
 * from the right values gives the same ones, and reversed code writes numbers that never come back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include "remat/snapshot.h"

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static uint64_t random_state = 1;

static uint64_t draw(uint64_t top)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (random_state >> 33) % top;
}

/* ---- one variable ---- */

/* Runs PUSH(Sbk) PUSH(Snp) C [Req_D |- Dbar] POP(Snp) [Req_C |- Cbar] POP(Sbk); true when Cbar read
 * what it had to and a required variable came back. */
static bool machine_accepts(uint8_t given, uint8_t chosen)
{
    int value = 1, fresh = 2;
    if (given & REMAT_OUT_C)
        value = fresh++;
    if ((given & REMAT_OUT_DBAR) && !(chosen & REMAT_REQ_D))
        value = fresh++;
    if (chosen & REMAT_SNP)
        value = 1;
    if ((given & REMAT_USE_CBAR) && value != 1)
        return false;
    if ((given & REMAT_OUT_CBAR) && !(chosen & REMAT_REQ_C))
        value = fresh++;
    if (chosen & REMAT_SBK)
        value = 1;
    return !(given & REMAT_REQ) || value == 1;
}

static bool machine_minimal(uint8_t given, uint8_t chosen)
{
    if (!machine_accepts(given, chosen))
        return false;
    for (int subset = 0; subset < REMAT_CHOSEN; subset++)
        if ((subset & chosen) == subset && subset != chosen &&
            machine_accepts(given, (uint8_t)subset))
            return false;
    return true;
}

static void test_every_membership(void **state)
{
    (void)state;
    for (int given = 0; given <= REMAT_GIVEN; given++) {
        uint8_t choices[4], g = (uint8_t)given;
        size_t n = remat_snapshot_choices(g, choices), minimal = 0;
        for (int chosen = 0; chosen <= REMAT_CHOSEN; chosen++) {
            uint8_t c = (uint8_t)chosen;
            bool listed = false;
            for (size_t i = 0; i < n; i++)
                listed |= choices[i] == c;
            assert_int_equal(remat_snapshot_violations(g, c) == 0, machine_accepts(g, c));
            assert_int_equal(remat_snapshot_is_minimal(g, c), machine_minimal(g, c));
            assert_int_equal(listed, machine_minimal(g, c));
            minimal += listed;
        }
        assert_int_equal(minimal, n);
        assert_true(machine_minimal(g, remat_snapshot_lazy(g)));
        assert_true(machine_minimal(g, remat_snapshot_eager(g)));
    }
}

/* What (6) says of a variable, for each split of its Opts. */
static void test_published_solution(void **state)
{
    (void)state;
    for (int given = 0; given <= REMAT_GIVEN; given++) {
        uint8_t g = (uint8_t)given, sets = remat_snapshot_published(g);
        if ((given & REMAT_OUT_CBAR) && !(given & REMAT_OUT_C))
            continue; /* the hypothesis that the paper uses */
        for (int plus = 0; plus < 2; plus++) {
            int chosen = sets & REMAT_SNP0 ? REMAT_SNP : 0;
            if (sets & REMAT_OPT1)
                chosen |= plus ? REMAT_SBK : REMAT_REQ_C;
            if (sets & REMAT_OPT2)
                chosen |= plus ? REMAT_SBK : REMAT_SNP | REMAT_REQ_C;
            if (sets & REMAT_OPT3)
                chosen |= plus ? REMAT_SNP : REMAT_REQ_D;
            assert_true(machine_minimal(g, (uint8_t)chosen));
        }
        /* Lazy is all of it with - chosen. */
        int lazy = (sets & REMAT_SNP0 ? REMAT_SNP : 0) | (sets & REMAT_OPT1 ? REMAT_REQ_C : 0) |
                   (sets & REMAT_OPT2 ? REMAT_SNP | REMAT_REQ_C : 0) |
                   (sets & REMAT_OPT3 ? REMAT_REQ_D : 0);
        assert_int_equal(remat_snapshot_lazy(g), lazy);
    }
}

/* ---- bytes ---- */

static bool cheaper(const remat_snapshot_cost *a, const remat_snapshot_cost *b)
{
    if (a->peak != b->peak)
        return a->peak < b->peak;
    if (a->pushed != b->pushed)
        return a->pushed < b->pushed;
    return a->bytes_D + a->bytes_C < b->bytes_D + b->bytes_C;
}

static void test_cheapest_of_all(void **state)
{
    (void)state;
    for (int round = 0; round < 3000; round++) {
        remat_variable variables[5];
        remat_fragment fragment = {.variables = variables, .n = 1 + draw(5), .unshared = draw(2)};
        fragment.base_D = draw(30);
        fragment.base_C = draw(30);
        for (size_t v = 0; v < fragment.n; v++)
            variables[v] = (remat_variable){.given = (uint8_t)draw(REMAT_GIVEN + 1),
                                            .size = draw(20),
                                            .tape_D = draw(20),
                                            .tape_C = draw(20)};
        uint8_t chosen[5], best[5];
        remat_snapshot_cost cost, least = {.peak = UINT64_MAX};
        bool proven;
        for (uint64_t i = 0; i < (uint64_t)remat_snapshot_count(&fragment); i++) {
            remat_snapshot_solution(&fragment, i, chosen);
            cost = remat_snapshot_cost_of(&fragment, chosen);
            if (cheaper(&cost, &least))
                least = cost;
        }
        assert_int_equal(remat_snapshot_best(&fragment, best, &cost, &proven, NULL), REMAT_OK);
        assert_true(proven);
        assert_false(cheaper(&least, &cost) || cheaper(&cost, &least));
        remat_snapshot_cost again = remat_snapshot_cost_of(&fragment, best);
        assert_memory_equal(&again, &cost, sizeof cost);
        for (size_t v = 0; v < fragment.n; v++)
            assert_true(machine_minimal(variables[v].given, best[v]));
    }
}

/* Past the limit of the front the answer is still a minimal solution, and says that it is not
 * proven. */
static void test_large_fragment(void **state)
{
    (void)state;
    enum { N = 600 };
    remat_variable *variables = calloc(N, sizeof *variables);
    uint8_t chosen[N];
    remat_snapshot_cost cost, lazy;
    bool proven = true;
    assert_non_null(variables);
    for (size_t v = 0; v < N; v++)
        variables[v] = (remat_variable){.given = REMAT_GIVEN,
                                        .size = 1 + draw(1000000),
                                        .tape_D = 1 + draw(1000000),
                                        .tape_C = 1 + draw(1000000)};
    remat_fragment fragment = {.variables = variables, .n = N, .unshared = true};
    assert_int_equal(remat_snapshot_best(&fragment, chosen, &cost, &proven, NULL), REMAT_OK);
    assert_false(proven);
    for (size_t v = 0; v < N; v++)
        assert_true(machine_minimal(variables[v].given, chosen[v]));
    for (size_t v = 0; v < N; v++)
        chosen[v] = remat_snapshot_lazy(variables[v].given);
    lazy = remat_snapshot_cost_of(&fragment, chosen);
    assert_true(cost.peak <= lazy.peak);
    free(variables);
}

/* ---- nests ---- */

enum { VARIABLES = 4, MAX_PARTS = 40, MAX_CHECKPOINTS = 40 };

typedef struct nest {
    remat_part parts[MAX_PARTS];
    uint8_t sets[MAX_PARTS][5][VARIABLES];
    int leaf_id[MAX_PARTS];
    size_t n_parts;
} nest;

typedef struct kept {
    size_t path[8], depth;
    uint8_t chosen[VARIABLES];
} kept;

typedef struct machine {
    const nest *all;
    kept checkpoints[MAX_CHECKPOINTS];
    size_t n_checkpoints, next;
    uint64_t values[VARIABLES], fresh;
    bool changed[VARIABLES]; /* by reversed code, since the start */
} machine;

static void draw_leaf(nest *all, remat_part *part)
{
    size_t at = (size_t)(part - all->parts);
    uint8_t(*s)[VARIABLES] = all->sets[at];
    for (int v = 0; v < VARIABLES; v++) {
        s[0][v] = draw(3) == 0;                         /* use */
        s[1][v] = draw(3) == 0;                         /* out */
        s[2][v] = s[1][v];                              /* kill: the machine writes all it may */
        s[3][v] = s[0][v] || draw(4) == 0;              /* use_bar */
        s[4][v] = draw(4) == 0 || (s[1][v] && draw(2)); /* out_bar */
    }
    all->leaf_id[at] = (int)at + 1;
    *part = (remat_part){s[0], s[1], s[2], s[3], s[4], NULL, 0};
}

static void draw_nest(nest *all, remat_part *part, int depth)
{
    size_t n = 2 + draw(3);
    remat_part *first = &all->parts[all->n_parts];
    if (all->n_parts + n > MAX_PARTS - 10)
        n = 2;
    all->n_parts += n;
    *part = (remat_part){.parts = first, .n_parts = n};
    for (size_t i = 0; i < n; i++) {
        if (depth < 2 && draw(4) == 0 && all->n_parts + 4 < MAX_PARTS)
            draw_nest(all, &first[i], depth + 1);
        else
            draw_leaf(all, &first[i]);
    }
}

static void remember(void *context, const remat_checkpoint *c)
{
    machine *m = context;
    kept *k = &m->checkpoints[m->n_checkpoints++];
    assert_true(m->n_checkpoints <= MAX_CHECKPOINTS && c->depth <= 8);
    memcpy(k->path, c->path, c->depth * sizeof *c->path);
    k->depth = c->depth;
    memcpy(k->chosen, c->chosen, VARIABLES);
}

static void run_plain(machine *m, const remat_part *part)
{
    for (size_t i = 0; i < part->n_parts; i++)
        run_plain(m, &part->parts[i]);
    if (part->n_parts > 0)
        return;
    uint64_t mix = (uint64_t)m->all->leaf_id[part - m->all->parts];
    for (int v = 0; v < VARIABLES; v++)
        if (part->use[v])
            mix = mix * 1000003 + m->values[v];
    for (int v = 0; v < VARIABLES; v++)
        if (part->out[v])
            m->values[v] = mix * 31 + (uint64_t)v;
}

static void run_reversed(machine *m, const remat_part *nest_part, const uint8_t *required,
                         size_t *path, size_t depth);

/* [required |- Xbar] */
static void run_bar(machine *m, const remat_part *part, const uint8_t *required, size_t *path,
                    size_t depth)
{
    if (part->n_parts > 0) {
        run_reversed(m, part, required, path, depth);
        return;
    }
    for (int v = 0; v < VARIABLES; v++)
        if (part->out_bar[v] && !required[v]) {
            m->values[v] = ~m->fresh++;
            m->changed[v] = true;
        }
}

static const kept *find(const machine *m, const size_t *path, size_t depth)
{
    for (size_t i = 0; i < m->n_checkpoints; i++)
        if (m->checkpoints[i].depth == depth &&
            memcmp(m->checkpoints[i].path, path, depth * sizeof *path) == 0)
            return &m->checkpoints[i];
    fail();
    return NULL;
}

/* What a part's reversed run reads with the values of its entry. */
static void bar_use(const remat_part *part, uint8_t *ret_use)
{
    uint8_t zero[VARIABLES] = {0}, out[VARIABLES];
    if (part->n_parts == 0) {
        memcpy(ret_use, part->use_bar, VARIABLES);
        return;
    }
    machine ignored = {.n_checkpoints = 0};
    assert_int_equal(remat_sequence_solve(part, VARIABLES, zero, remat_snapshot_lazy, remember,
                                          &ignored, ret_use, out, NULL),
                     REMAT_OK);
}

static void run_from(machine *m, const remat_part *nest_part, size_t i, const uint8_t *required,
                     size_t *path, size_t depth)
{
    const remat_part *part = &nest_part->parts[i];
    uint64_t entry[VARIABLES];
    uint8_t req_D[VARIABLES], req_C[VARIABLES], use[VARIABLES];
    memcpy(entry, m->values, sizeof entry);
    path[depth] = i;
    if (i + 1 == nest_part->n_parts) {
        run_bar(m, part, required, path, depth + 1);
    } else {
        const kept *k = find(m, path, depth + 1);
        for (int v = 0; v < VARIABLES; v++) {
            req_D[v] = (k->chosen[v] & REMAT_REQ_D) != 0;
            req_C[v] = (k->chosen[v] & REMAT_REQ_C) != 0;
        }
        run_plain(m, part);
        uint64_t before_D[VARIABLES];
        memcpy(before_D, m->values, sizeof before_D);
        run_from(m, nest_part, i + 1, req_D, path, depth);
        for (int v = 0; v < VARIABLES; v++) {
            if (req_D[v]) /* D keeps its promise */
                assert_true(m->values[v] == before_D[v]);
            if (k->chosen[v] & REMAT_SNP)
                m->values[v] = entry[v];
        }
        bar_use(part, use);
        for (int v = 0; v < VARIABLES; v++)
            if (use[v])
                assert_true(m->values[v] == entry[v]);
        path[depth] = i;
        run_bar(m, part, req_C, path, depth + 1);
        for (int v = 0; v < VARIABLES; v++)
            if (k->chosen[v] & REMAT_SBK)
                m->values[v] = entry[v];
    }
    for (int v = 0; v < VARIABLES; v++)
        if (required[v])
            assert_true(m->values[v] == entry[v]);
}

static void run_reversed(machine *m, const remat_part *nest_part, const uint8_t *required,
                         size_t *path, size_t depth)
{
    run_from(m, nest_part, 0, required, path, depth);
}

static uint8_t choose_any(uint8_t given)
{
    uint8_t choices[4];
    return choices[draw(remat_snapshot_choices(given, choices))];
}

/* A leaf that is the last of its nest and keeps Req by tape: run_bar restores what is required. */
static void test_nests(void **state)
{
    (void)state;
    uint8_t (*const strategies[])(uint8_t) = {remat_snapshot_lazy, remat_snapshot_eager,
                                              choose_any};
    for (int round = 0; round < 6000; round++) {
        nest *all = calloc(1, sizeof *all);
        machine m = {.all = all, .fresh = 1};
        uint8_t required[VARIABLES], use[VARIABLES], out[VARIABLES];
        size_t path[8];
        assert_non_null(all);
        all->n_parts = 1;
        draw_nest(all, &all->parts[0], 0);
        for (int v = 0; v < VARIABLES; v++) {
            required[v] = draw(3) == 0;
            m.values[v] = 1000 + (uint64_t)v;
        }
        assert_int_equal(remat_sequence_solve(&all->parts[0], VARIABLES, required,
                                              strategies[round % 3], remember, &m, use, out, NULL),
                         REMAT_OK);
        uint64_t entry[VARIABLES];
        memcpy(entry, m.values, sizeof entry);
        run_reversed(&m, &all->parts[0], required, path, 0);
        for (int v = 0; v < VARIABLES; v++)
            if (!out[v]) /* nothing outside the predicted out set has changed */
                assert_true(m.values[v] == entry[v]);
        free(all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_membership),
        cmocka_unit_test(test_published_solution),
        cmocka_unit_test(test_cheapest_of_all),
        cmocka_unit_test(test_large_fragment),
        cmocka_unit_test(test_nests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
