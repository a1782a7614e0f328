/* Numbers that are compared everywhere. */
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

#endif
