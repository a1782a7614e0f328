/* Pebble tables against an exhaustive search that assumes no canonical form: 0-1 breadth-first over
 * all memory states with the operations F, S, T, B, D and Db. Random small joins; every trace is
 * replayed; cells of 16 and 32 bits and all kernels agree; saved tables come back, damaged ones do
 * not crash. */
#include "../unit/chain_support.h"

#include "papers/pebble/pebble.h"
#include "papers/pebble/rows.h"

#include <string.h>

/* ---- the search ---- */

enum { PLACES = 12, HASH = 1 << 21, NO_GRADIENT = 15, DROPPED = 14 };

/* copies: two bits a place; gradient: four bits a branch, its position, or one of the two above. */
typedef struct search {
    const remat_pebble_join *join;
    uint32_t first[REMAT_PEBBLE_BRANCHES];
    uint32_t slots;
    uint64_t *keys;
    uint8_t *closed;
    uint64_t *now, *next; /* states at this cost and at the next one */
    size_t n_now, n_next;
    size_t n_states;
} search;

static uint32_t copies(uint64_t state, uint32_t place)
{
    return (uint32_t)(state >> (2 * place)) & 3;
}

static uint32_t gradient(uint64_t state, uint32_t j)
{
    return (uint32_t)(state >> (2 * PLACES + 4 * j)) & 15;
}

static uint64_t with_gradient(uint64_t state, uint32_t j, uint32_t value)
{
    uint64_t shift = 2 * PLACES + 4 * j;
    return (state & ~(UINT64_C(15) << shift)) | (uint64_t)value << shift;
}

static uint32_t taken(const search *s, uint64_t state)
{
    uint32_t sum = 0;
    for (uint32_t p = 0; p < PLACES; p++)
        sum += copies(state, p);
    for (uint32_t j = 0; j < s->join->k; j++)
        sum += gradient(state, j) < DROPPED;
    return sum;
}

/* Whether the state is new at this cost; closes it. */
static bool close_state(search *s, uint64_t state)
{
    size_t at = (size_t)((state * UINT64_C(0x9e3779b97f4a7c15)) >> 43);
    while (s->closed[at] && s->keys[at] != state)
        at = (at + 1) % HASH;
    if (s->closed[at])
        return false;
    s->closed[at] = 1;
    s->keys[at] = state;
    assert_true(++s->n_states < HASH / 2);
    return true;
}

static void reach(search *s, uint64_t state, bool costs)
{
    if (taken(s, state) > s->slots)
        return;
    if (costs)
        s->next[s->n_next++] = state;
    else
        s->now[s->n_now++] = state;
    assert_true(s->n_now < HASH && s->n_next < HASH);
}

static void expand_branch(search *s, uint64_t state, uint32_t j)
{
    uint32_t length = s->join->length[j], g = gradient(state, j);
    for (uint32_t i = 0; i <= length; i++) {
        uint32_t place = s->first[j] + i, there = copies(state, place);
        uint64_t one = UINT64_C(1) << (2 * place);
        if (there == 0)
            continue;
        if (there < 3)
            reach(s, state + one, false);
        reach(s, state - one, false);
        if (i < length && copies(state, place + 1) < 3)
            reach(s, state - one + (one << 2), true);
        if (i < length && g == i + 1)
            reach(s, with_gradient(state - one, j, i), false);
    }
    if (g == 0 && !s->join->keep[j])
        reach(s, with_gradient(state, j, DROPPED), false);
}

static void expand_turn(search *s, uint64_t state)
{
    for (uint32_t j = 0; j < s->join->k; j++) {
        uint32_t last = s->first[j] + s->join->length[j];
        if (gradient(state, j) != NO_GRADIENT || copies(state, last) == 0)
            return;
        state -= UINT64_C(1) << (2 * last);
        state = with_gradient(state, j, s->join->length[j]);
    }
    reach(s, state, false);
}

static bool is_end(const search *s, uint64_t state)
{
    for (uint32_t p = 0; p < PLACES; p++)
        if (copies(state, p) > 0)
            return false;
    for (uint32_t j = 0; j < s->join->k; j++)
        if (gradient(state, j) != (s->join->keep[j] ? 0 : DROPPED))
            return false;
    return true;
}

static uint32_t search_cost(search *s, uint64_t start)
{
    if (taken(s, start) > s->slots)
        return REMAT_PEBBLE_INFINITE;
    s->now[s->n_now++] = start;
    for (uint32_t cost = 0; s->n_now > 0; cost++) {
        while (s->n_now > 0) {
            uint64_t state = s->now[--s->n_now];
            if (!close_state(s, state))
                continue;
            if (is_end(s, state))
                return cost;
            for (uint32_t j = 0; j < s->join->k; j++)
                expand_branch(s, state, j);
            expand_turn(s, state);
        }
        uint64_t *swap = s->now;
        s->now = s->next;
        s->n_now = s->n_next;
        s->next = swap;
        s->n_next = 0;
    }
    return REMAT_PEBBLE_INFINITE;
}

static uint32_t exhaustive(search *s, const remat_pebble_join *join, uint32_t slots)
{
    uint64_t start = 0;
    uint32_t place = 0;
    s->join = join;
    s->slots = slots;
    s->n_now = s->n_next = s->n_states = 0;
    memset(s->closed, 0, HASH);
    for (uint32_t j = 0; j < join->k; j++) {
        s->first[j] = place;
        start = with_gradient(start | UINT64_C(1) << (2 * place), j, NO_GRADIENT);
        place += join->length[j] + 1;
    }
    assert_true(place <= PLACES);
    return search_cost(s, start);
}

/* ---- comparisons ---- */

static remat_pebble_table *table_new(uint32_t k, uint32_t edge, uint32_t slots)
{
    remat_pebble_table *table = NULL;
    remat_error error = {0};
    if (remat_pebble_table_new(k, edge, slots, NULL, &table, &error))
        fail_msg("%s", error.message);
    return table;
}

static remat_pebble_join random_join(uint64_t *seed, uint32_t places)
{
    remat_pebble_join join = {.k = 1 + (uint32_t)support_below(seed, 4)};
    uint32_t left = places - join.k;
    for (uint32_t j = 0; j < join.k; j++) {
        join.length[j] = (uint32_t)support_below(seed, left + 1);
        join.keep[j] = support_below(seed, 2);
        left -= join.length[j];
    }
    return join;
}

static void check_trace(const remat_pebble_table *table, const remat_pebble_join *join,
                        uint32_t slots, uint32_t forwards)
{
    remat_steps operations = {0};
    remat_pebble_replay replay;
    remat_status status = remat_pebble_trace(table, join, slots, &operations, NULL);
    assert_int_equal(status, forwards == REMAT_PEBBLE_INFINITE ? REMAT_INFEASIBLE : REMAT_OK);
    if (status == REMAT_OK) {
        assert_int_equal(remat_pebble_simulate(join, &operations, NULL, &replay, NULL), REMAT_OK);
        if (!replay.valid)
            fail_msg("operation %zu: %s", replay.bad_operation, replay.reason);
        assert_int_equal(replay.forwards, forwards);
        assert_true(replay.peak <= slots);
    }
    remat_steps_clear(&operations);
}

static void against_search(void **state)
{
    (void)state;
    search s = {.keys = malloc(HASH * sizeof *s.keys), .closed = malloc(HASH)};
    s.now = malloc(HASH * sizeof *s.now);
    s.next = malloc(HASH * sizeof *s.next);
    remat_pebble_table *tables[5] = {NULL};
    for (uint32_t k = 1; k < 5; k++)
        tables[k] = table_new(k, PLACES - k, PLACES + 2);
    uint64_t seed = 20190501;
    for (int n = 0; n < 150; n++) {
        remat_pebble_join join = random_join(&seed, n < 140 ? 8 : 9);
        uint32_t least = remat_pebble_least_slots(&join);
        for (uint32_t c = least ? least - 1 : 0; c <= least + 3; c++) {
            uint32_t expected = exhaustive(&s, &join, c);
            assert_int_equal(remat_pebble_forwards(tables[join.k], &join, c), expected);
            assert_int_equal(expected == REMAT_PEBBLE_INFINITE, c < least);
            check_trace(tables[join.k], &join, c, expected);
        }
    }
    for (uint32_t k = 1; k < 5; k++)
        remat_pebble_table_free(tables[k]);
    free(s.keys);
    free(s.closed);
    free(s.now);
    free(s.next);
}

/* T straight from the recurrence, lengths unsorted, no table. */
static uint32_t recursive(const remat_pebble_join *join, uint32_t slots)
{
    uint32_t best = REMAT_PEBBLE_INFINITE;
    if (remat_pebble_most_slots(join) == join->k)
        return slots >= join->k ? 0 : best;
    for (uint32_t m = 0; m < join->k && slots >= join->k; m++) {
        uint32_t kept = 0;
        for (uint32_t j = 0; j < join->k; j++)
            kept += j != m && join->keep[j];
        for (uint32_t i = 1; i <= join->length[m]; i++) {
            remat_pebble_join inner = *join;
            inner.length[m] -= i;
            inner.keep[m] = true;
            uint32_t above = recursive(&inner, slots - 1);
            uint32_t below = remat_pebble_chain(i - 1, slots - kept);
            if (above != REMAT_PEBBLE_INFINITE && below != REMAT_PEBBLE_INFINITE &&
                i + above + below < best)
                best = i + above + below;
        }
    }
    return best;
}

static void against_recursion(void **state)
{
    (void)state;
    uint64_t seed = 9273;
    remat_pebble_table *tables[5] = {NULL};
    for (uint32_t k = 1; k < 5; k++)
        tables[k] = table_new(k, 10, 70);
    for (int n = 0; n < 400; n++) {
        remat_pebble_join join = random_join(&seed, 11);
        uint32_t c = (uint32_t)support_below(&seed, 12);
        uint32_t expected = recursive(&join, c);
        assert_int_equal(remat_pebble_forwards(tables[join.k], &join, c), expected);
        check_trace(tables[join.k], &join, c, expected);
    }
    for (uint32_t k = 1; k < 5; k++)
        remat_pebble_table_free(tables[k]);
}

/* t0 by Theorem 1 as corrected. */
static void chain_closed_form(void **state)
{
    (void)state;
    enum { N = 60, C = 30 };
    static uint32_t t0[N][C];
    for (uint32_t n = 0; n < N; n++)
        for (uint32_t c = 0; c < C; c++) {
            uint32_t best = n == 0 && c >= 2 ? 0 : REMAT_PEBBLE_INFINITE;
            for (uint32_t i = 1; i <= n && c >= 3; i++) {
                uint32_t value = i + t0[n - i][c - 1] + t0[i - 1][c];
                if (t0[n - i][c - 1] != REMAT_PEBBLE_INFINITE && value < best)
                    best = value;
            }
            t0[n][c] = best;
            assert_int_equal(remat_pebble_chain(n, c), best);
        }
}

/* A longer edge needs 32 bits for the same numbers. */
static void wide_cells(void **state)
{
    (void)state;
    remat_pebble_table *narrow = table_new(2, 200, 9), *wide = table_new(2, 400, 9);
    assert_true(remat_pebble_table_bytes(2, 400, 9) > 3 * remat_pebble_table_bytes(2, 200, 9));
    uint64_t seed = 32;
    for (int n = 0; n < 2000; n++) {
        remat_pebble_join join = {.k = 2};
        for (uint32_t j = 0; j < 2; j++) {
            join.length[j] = (uint32_t)support_below(&seed, 201);
            join.keep[j] = support_below(&seed, 2);
        }
        uint32_t c = (uint32_t)support_below(&seed, 10);
        assert_int_equal(remat_pebble_forwards(narrow, &join, c),
                         remat_pebble_forwards(wide, &join, c));
    }
    remat_pebble_join largest = {.k = 2, .length = {400, 400}};
    assert_true(remat_pebble_forwards(wide, &largest, 5) > UINT16_MAX);
    check_trace(wide, &largest, 5, remat_pebble_forwards(wide, &largest, 5));
    remat_pebble_table_free(narrow);
    remat_pebble_table_free(wide);
}

static void kernels_agree(void **state)
{
    (void)state;
    enum { CELLS = 3 * PEBBLE_ROWS_BLOCK, PAIRS = 5 };
    uint64_t seed = 16;
    uint16_t rows[2 * PAIRS][CELLS], plain[CELLS], best[CELLS];
    for (int round = 0; round < 200; round++) {
        pebble_rows_16 pairs[PAIRS];
        for (size_t p = 0; p < 2 * PAIRS; p++)
            for (size_t c = 0; c < CELLS; c++)
                rows[p][c] =
                    (uint16_t)(support_below(&seed, 4) ? support_below(&seed, 40000) : UINT16_MAX);
        for (size_t p = 0; p < PAIRS; p++)
            pairs[p] = (pebble_rows_16){rows[2 * p], rows[2 * p + 1]};
        memset(plain, 0xff, sizeof plain);
        memset(best, 0xff, sizeof best);
        pebble_rows_plain_16(plain, pairs, PAIRS, CELLS);
        pebble_rows_best_16()(best, pairs, PAIRS, CELLS);
        assert_memory_equal(plain, best, sizeof plain);
    }
}

static void saved_and_damaged(void **state)
{
    (void)state;
    remat_pebble_table *table = table_new(2, 6, 9), *again = NULL;
    remat_buffer buffer = {0};
    assert_int_equal(remat_pebble_table_save(table, &buffer, NULL), REMAT_OK);
    remat_reader reader = {.data = buffer.data, .length = buffer.length};
    assert_int_equal(remat_pebble_table_load(&reader, NULL, &again, NULL), REMAT_OK);
    assert_int_equal(reader.position, buffer.length);
    const remat_pebble_join join = {.k = 2, .length = {3, 6}};
    for (uint32_t c = 0; c < 10; c++)
        assert_int_equal(remat_pebble_forwards(table, &join, c),
                         remat_pebble_forwards(again, &join, c));
    remat_pebble_table_free(again);
    uint64_t seed = 4;
    for (int round = 0; round < 2000; round++) {
        size_t at = (size_t)support_below(&seed, round % 2 ? 12 : buffer.length);
        uint8_t before = buffer.data[at];
        buffer.data[at] = (uint8_t)support_random(&seed);
        reader = (remat_reader){.data = buffer.data,
                                .length = (size_t)support_below(&seed, 2) ? buffer.length : at};
        remat_steps operations = {0};
        if (remat_pebble_table_load(&reader, NULL, &again, NULL) == REMAT_OK) {
            if (remat_pebble_table_covers(again, &join, 7))
                (void)remat_pebble_trace(again, &join, 7, &operations, NULL);
            remat_pebble_table_free(again);
        }
        remat_steps_clear(&operations);
        buffer.data[at] = before;
    }
    remat_buffer_clear(&buffer);
    remat_pebble_table_free(table);
}

static void limits(void **state)
{
    (void)state;
    remat_pebble_table *table = NULL;
    remat_error error = {0};
    assert_int_equal(remat_pebble_table_new(0, 5, 5, NULL, &table, &error), REMAT_INVALID);
    assert_int_equal(remat_pebble_table_new(9, 5, 5, NULL, &table, &error), REMAT_INVALID);
    assert_int_equal(remat_pebble_table_new(8, 4096, 60000, NULL, &table, &error), REMAT_TOO_LARGE);
    remat_host host = {.memory_limit = 1000};
    assert_int_equal(remat_pebble_table_new(3, 30, 30, &host, &table, &error), REMAT_TOO_LARGE);
    assert_null(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_search),
        cmocka_unit_test(against_recursion),
        cmocka_unit_test(chain_closed_form),
        cmocka_unit_test(wide_cells),
        cmocka_unit_test(kernels_agree),
        cmocka_unit_test(saved_and_damaged),
        cmocka_unit_test(limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
