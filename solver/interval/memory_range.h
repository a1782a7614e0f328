/* The inner loop of the search: bytes added to a range of slots. */
#ifndef REMAT_INTERVAL_MEMORY_RANGE_H
#define REMAT_INTERVAL_MEMORY_RANGE_H

#include <stddef.h>

/* What is taken from the memory of a slot without a run; no sum of sizes reaches it. */
#define INTERVAL_EMPTY_SLOT 0x1p52

/* Adds delta to memory[0 .. n-1] and returns how much the sum of max(0, memory - budget) grew. All
 * numbers are whole and exact in a double, so every version gives the same sum. */
typedef double interval_range_add(double *memory, size_t n, double delta, double budget);

/* The same sum, nothing written. */
typedef double interval_range_probe(const double *memory, size_t n, double delta, double budget);

typedef struct interval_range_kernel {
    const char *name;
    interval_range_add *add;
    interval_range_probe *probe;
} interval_range_kernel;

/* The versions that this processor runs, the plain one first and the fastest last; returns how
 * many. */
size_t interval_range_kernels(interval_range_kernel ret_kernels[3]);

#endif
