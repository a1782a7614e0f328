#include "metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int statuses[METRIC_STATUSES] = {200, 201, 202, 204, 304, 400, 401, 404, 405, 409,
                                              411, 413, 415, 422, 429, 431, 500, 503, 0};
static const double buckets[METRIC_BUCKETS] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
                                               0.025,  0.1,     0.5,    1,     5,      30};

void metrics_request(metrics *m, unsigned route, int status, double seconds)
{
    unsigned s = 0, b = 0;
    while (s + 1 < METRIC_STATUSES && statuses[s] != status && statuses[s] != 0)
        s++;
    while (b < METRIC_BUCKETS && seconds > buckets[b])
        b++;
    atomic_fetch_add(&m->requests[route][s], 1);
    atomic_fetch_add(&m->latency[route][b], 1);
    atomic_fetch_add(&m->latency_microseconds[route], (uint_fast64_t)(seconds * 1e6));
}

void metrics_solver(metrics *m, const char *solver, double seconds)
{
    size_t n;
    const remat_solver *const *solvers = remat_solvers(&n);
    for (size_t i = 0; i < n && i < REMAT_MAX_SOLVERS; i++)
        if (strcmp(solvers[i]->name, solver) == 0) {
            atomic_fetch_add(&m->solver_solves[i], 1);
            atomic_fetch_add(&m->solver_microseconds[i], (uint_fast64_t)(seconds * 1e6));
        }
}

static unsigned long long read_counter(const atomic_uint_fast64_t *counter)
{
    return (unsigned long long)atomic_load(counter);
}

static void put_head(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP remat_%s %s\n# TYPE remat_%s %s\n", name, help, name, type);
}

static void put_counter(FILE *out, const char *name, const char *help,
                        const atomic_uint_fast64_t *counter)
{
    put_head(out, name, "counter", help);
    fprintf(out, "remat_%s %llu\n", name, read_counter(counter));
}

static void put_requests(FILE *out, const metrics *m, const char *const *routes, size_t n_routes)
{
    put_head(out, "http_requests_total", "counter", "Requests by route and status.");
    for (size_t r = 0; r < n_routes; r++)
        for (size_t s = 0; s < METRIC_STATUSES; s++)
            if (atomic_load(&m->requests[r][s]))
                fprintf(out, "remat_http_requests_total{route=\"%s\",status=\"%d\"} %llu\n",
                        routes[r], statuses[s], read_counter(&m->requests[r][s]));
    put_head(out, "http_request_seconds", "histogram", "Time to answer by route.");
    for (size_t r = 0; r < n_routes; r++) {
        unsigned long long count = 0;
        for (size_t b = 0; b <= METRIC_BUCKETS; b++)
            count += read_counter(&m->latency[r][b]);
        if (count == 0)
            continue;
        unsigned long long below = 0;
        for (size_t b = 0; b < METRIC_BUCKETS; b++) {
            below += read_counter(&m->latency[r][b]);
            fprintf(out, "remat_http_request_seconds_bucket{route=\"%s\",le=\"%g\"} %llu\n",
                    routes[r], buckets[b], below);
        }
        fprintf(out, "remat_http_request_seconds_bucket{route=\"%s\",le=\"+Inf\"} %llu\n",
                routes[r], count);
        fprintf(out, "remat_http_request_seconds_sum{route=\"%s\"} %.6f\n", routes[r],
                (double)read_counter(&m->latency_microseconds[r]) / 1e6);
        fprintf(out, "remat_http_request_seconds_count{route=\"%s\"} %llu\n", routes[r], count);
    }
}

static void put_solvers(FILE *out, const metrics *m)
{
    size_t n;
    const remat_solver *const *solvers = remat_solvers(&n);
    put_head(out, "solver_seconds", "summary", "Time spent making tables, by solver.");
    for (size_t i = 0; i < n && i < REMAT_MAX_SOLVERS; i++) {
        fprintf(out, "remat_solver_seconds_sum{solver=\"%s\"} %.6f\n", solvers[i]->name,
                (double)read_counter(&m->solver_microseconds[i]) / 1e6);
        fprintf(out, "remat_solver_seconds_count{solver=\"%s\"} %llu\n", solvers[i]->name,
                read_counter(&m->solver_solves[i]));
    }
}

char *metrics_text(const metrics *m, const char *const *routes, size_t n_routes,
                   const gauge *gauges, size_t n_gauges)
{
    static const char *const results[] = {"hit", "table", "miss"};
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (!out)
        return NULL;
    put_requests(out, m, routes, n_routes);
    put_head(out, "build_info", "gauge", "The version of the daemon.");
    fprintf(out, "remat_build_info{version=\"" REMAT_VERSION "\"} 1\n");
    put_head(out, "schedule_answers_total", "counter",
             "Schedules answered, by where from; through jobs too.");
    for (int i = 0; i < CACHE_RESULTS; i++)
        fprintf(out, "remat_schedule_answers_total{cache=\"%s\"} %llu\n", results[i],
                read_counter(&m->schedules[i]));
    put_counter(out, "solves_total", "Solves run, one for each question not answered before.",
                &m->solves);
    put_counter(out, "coalesced_total", "Questions that joined a solve under way.", &m->coalesced);
    put_counter(out, "tabulations_total", "Tables made.", &m->tabulations);
    put_solvers(out, m);
    put_counter(out, "verification_failures_total",
                "Schedules that the simulator rejected; must stay 0.", &m->verification_failures);
    put_counter(out, "damaged_records_total", "Stored records found damaged and dropped.",
                &m->damaged_records);
    put_counter(out, "jobs_failed_total", "Solves that ended in a problem.", &m->jobs_failed);
    put_counter(out, "jobs_cancelled_total", "Solves cancelled.", &m->jobs_cancelled);
    for (size_t i = 0; i < n_gauges; i++) {
        put_head(out, gauges[i].name, "gauge", gauges[i].help);
        fprintf(out, "remat_%s %.17g\n", gauges[i].name, gauges[i].value);
    }
    return fclose(out) == 0 ? text : NULL;
}
