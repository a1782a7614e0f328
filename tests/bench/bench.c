#include "bench.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_WORKERS = 64 };

static double clock_seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double bench_wall_seconds(void)
{
    return clock_seconds(CLOCK_MONOTONIC);
}

double bench_cpu_seconds(void)
{
    return clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
}

const char *bench_cpu_name(void)
{
    static char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    const char *name = "unknown";
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "model name", 10) == 0) {
            line[strcspn(line, "\n")] = '\0';
            name = strchr(line, ':') + 2;
            break;
        }
    if (file)
        fclose(file);
    return name;
}

static int compare(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

double bench_median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, compare);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* ---- workers ---- */

typedef struct loop {
    size_t count;
    atomic_size_t next;
    atomic_uint worker;
    void (*body)(void *context, size_t index, unsigned worker);
    void *context;
} loop;

static void *work(void *argument)
{
    loop *l = argument;
    unsigned worker = atomic_fetch_add(&l->worker, 1);
    for (size_t i; (i = atomic_fetch_add(&l->next, 1)) < l->count;)
        l->body(l->context, i, worker);
    return NULL;
}

static void parallel_for(void *data, size_t count,
                         void (*body)(void *context, size_t index, unsigned worker), void *context)
{
    unsigned workers = *(unsigned *)data, started = 0;
    loop l = {.count = count, .body = body, .context = context};
    pthread_t threads[MOST_WORKERS];
    while (started + 1 < workers && started + 1 < count &&
           pthread_create(&threads[started], NULL, work, &l) == 0)
        started++;
    work(&l);
    for (unsigned i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

const remat_host *bench_host(unsigned workers)
{
    static unsigned count;
    static remat_host host = {.data = &count, .parallel_for = parallel_for};
    host.workers = count = workers < MOST_WORKERS ? workers : (unsigned)MOST_WORKERS;
    return &host;
}

unsigned bench_processors(void)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return processors > 0 ? (unsigned)processors : 1;
}
