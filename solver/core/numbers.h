/* Numbers that are compared everywhere. */
#ifndef REMAT_CORE_NUMBERS_H
#define REMAT_CORE_NUMBERS_H

#include <stdint.h>

static inline uint64_t core_larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static inline uint64_t core_smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* For qsort: below 0, 0 or above it. */
static inline int core_compare(double a, double b)
{
    return (a > b) - (a < b);
}

#endif
