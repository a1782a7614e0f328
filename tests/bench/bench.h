/* What the benchmarks share: clocks, the processor's name, medians, workers. */
#ifndef TESTS_BENCH_BENCH_H
#define TESTS_BENCH_BENCH_H

#include "remat/solver.h"

double bench_wall_seconds(void);
double bench_cpu_seconds(void); /* of the process */

/* Of /proc/cpuinfo; static. */
const char *bench_cpu_name(void);

double bench_median(double *values, size_t n); /* sorts them */

/* A host of that many workers (at most 64): threads that are started for each loop. Static. */
const remat_host *bench_host(unsigned workers);

/* As many as the machine has processors. */
unsigned bench_processors(void);

#endif
