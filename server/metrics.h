/* Counters for /metrics. Any thread may count. */
#ifndef REMAT_SERVER_METRICS_H
#define REMAT_SERVER_METRICS_H

#include "remat/table.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { METRIC_ROUTES = 32, METRIC_STATUSES = 20, METRIC_BUCKETS = 13 };

typedef enum cache_result { CACHE_HIT, CACHE_TABLE, CACHE_MISS, CACHE_RESULTS } cache_result;

typedef struct metrics {
    atomic_uint_fast64_t requests[METRIC_ROUTES][METRIC_STATUSES];
    atomic_uint_fast64_t latency[METRIC_ROUTES][METRIC_BUCKETS + 1];
    atomic_uint_fast64_t latency_microseconds[METRIC_ROUTES];
    atomic_uint_fast64_t schedules[CACHE_RESULTS]; /* answered questions by where they came from */
    atomic_uint_fast64_t solves, coalesced, tabulations;
    atomic_uint_fast64_t solver_solves[REMAT_MAX_SOLVERS], solver_microseconds[REMAT_MAX_SOLVERS];
    atomic_uint_fast64_t verification_failures, damaged_records;
    atomic_uint_fast64_t jobs_failed, jobs_cancelled;
} metrics;

/* seconds: from the first byte of the request to its answer being queued. */
void metrics_request(metrics *m, unsigned route, int status, double seconds);
void metrics_solver(metrics *m, const char *solver, double seconds);

/* One number read now, beside the counters. */
typedef struct gauge {
    const char *name, *help;
    double value;
} gauge;

/* Prometheus text format; malloc'ed, NULL when out of memory. routes: names by number. */
char *metrics_text(const metrics *m, const char *const *routes, size_t n_routes,
                   const gauge *gauges, size_t n_gauges);

#endif
