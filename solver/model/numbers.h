/* Numbers that are compared, and drawn, everywhere. */
#ifndef REMAT_MODEL_NUMBERS_H
#define REMAT_MODEL_NUMBERS_H

#include <stdint.h>

static inline uint64_t model_larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static inline uint64_t model_smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* For qsort: below 0, 0 or above it. */
static inline int model_compare(double a, double b)
{
    return (a > b) - (a < b);
}

/* xorshift64* (Marsaglia 2003; Vigna 2016): the same on every machine. The state is never 0. */
static inline uint64_t model_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545F4914F6CDD1D);
}

/* In [0, below). */
static inline uint32_t model_random_below(uint64_t *state, uint32_t below)
{
    return (uint32_t)(((model_random(state) >> 32) * below) >> 32);
}

#endif
