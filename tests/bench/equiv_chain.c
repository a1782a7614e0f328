/* EQUIV-CHAIN (the report's baseline): the structure is ignored, all values at the same distance
 * from the turn are one value of k slots. The chain that results is solved as any join of one
 * branch,
 *
 *     E(s, c) = min_{i} w(s, s+i) + E(s+i, c-1) + e(s, i-1, c)       above the turn
 *     e(s, n, c) = min_{i} w(s, s+i) + e(s+i, n-i, c-1) + e(s, i-1, c)   below it
 *
 * with w(s, s+i) single steps in i levels: a level at distance d has the branches with l_j >= d, so
 * that branches of unequal lengths cost what they have. */
#include "equiv_chain.h"

#include <stdlib.h>

typedef struct equiv {
    uint32_t levels, slots;
    const uint32_t *weight; /* [s]: steps of the levels before s */
    uint32_t *below;        /* e at [s][n][c] */
    uint32_t *above;        /* E at [s][c] */
} equiv;

static uint32_t *below_at(const equiv *e, uint32_t s, uint32_t n, uint32_t c)
{
    return &e->below[((size_t)s * e->levels + n) * (e->slots + 1) + c];
}

static uint32_t *above_at(const equiv *e, uint32_t s, uint32_t c)
{
    return &e->above[(size_t)s * (e->slots + 1) + c];
}

static uint32_t add(uint32_t steps, uint32_t a, uint32_t b)
{
    if (a == REMAT_PEBBLE_INFINITE || b == REMAT_PEBBLE_INFINITE)
        return REMAT_PEBBLE_INFINITE;
    return steps + a + b;
}

static void fill_below(equiv *e, uint32_t s, uint32_t n, uint32_t c)
{
    uint32_t best = n == 0 && c >= 2 ? 0 : REMAT_PEBBLE_INFINITE;
    for (uint32_t i = 1; i <= n && c >= 3; i++) {
        uint32_t value = add(e->weight[s + i] - e->weight[s], *below_at(e, s + i, n - i, c - 1),
                             *below_at(e, s, i - 1, c));
        best = value < best ? value : best;
    }
    *below_at(e, s, n, c) = best;
}

static void fill_above(equiv *e, uint32_t s, uint32_t c)
{
    uint32_t best = s == e->levels && c >= 1 ? 0 : REMAT_PEBBLE_INFINITE;
    for (uint32_t i = 1; i <= e->levels - s && c >= 1; i++) {
        uint32_t value = add(e->weight[s + i] - e->weight[s], *above_at(e, s + i, c - 1),
                             *below_at(e, s, i - 1, c));
        best = value < best ? value : best;
    }
    *above_at(e, s, c) = best;
}

static uint32_t solve(equiv *e)
{
    for (uint32_t n = 0; n < e->levels; n++)
        for (uint32_t s = 0; s + n < e->levels; s++)
            for (uint32_t c = 0; c <= e->slots; c++)
                fill_below(e, s, n, c);
    for (uint32_t s = e->levels + 1; s-- > 0;)
        for (uint32_t c = 0; c <= e->slots; c++)
            fill_above(e, s, c);
    return *above_at(e, 0, e->slots);
}

remat_status equiv_chain(const remat_pebble_join *join, uint32_t slots, uint32_t *ret_forwards,
                         remat_error *error)
{
    equiv e = {.slots = slots / join->k};
    for (uint32_t j = 0; j < join->k; j++)
        e.levels = join->length[j] > e.levels ? join->length[j] : e.levels;
    if (e.slots > e.levels + 1)
        e.slots = e.levels + 1;
    uint32_t *weight = calloc((size_t)e.levels + 1, sizeof *weight);
    e.below = calloc((size_t)e.levels * e.levels * (e.slots + 1) + 1, sizeof *e.below);
    e.above = calloc(((size_t)e.levels + 1) * (e.slots + 1), sizeof *e.above);
    remat_status status = weight && e.below && e.above ? REMAT_OK : remat_fail_memory(error);
    if (!status) {
        for (uint32_t s = 0; s < e.levels; s++) {
            weight[s + 1] = weight[s];
            for (uint32_t j = 0; j < join->k; j++)
                weight[s + 1] += join->length[j] >= e.levels - s;
        }
        e.weight = weight;
        *ret_forwards = solve(&e);
    }
    free(weight);
    free(e.below);
    free(e.above);
    return status;
}
