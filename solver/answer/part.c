#include "answer/part.h"

static void part_parallel_for(void *data, size_t count,
                              void (*body)(void *context, size_t index, unsigned worker),
                              void *context)
{
    remat_host_parallel_for(((answer_part *)data)->whole, count, body, context);
}

static void part_progress(void *data, double fraction)
{
    const answer_part *p = data;
    remat_host_progress(p->whole, p->begin + p->share * fraction);
}

static bool part_cancelled(void *data)
{
    const remat_host whole = remat_host_unhurried(((answer_part *)data)->whole);
    return remat_host_cancelled(&whole);
}

static bool part_late(void *data)
{
    return remat_host_late(((answer_part *)data)->whole);
}

static void part_doing(void *data, const char *what)
{
    remat_host_doing(((answer_part *)data)->whole, what);
}

static void part_found(void *data, double makespan, double bound)
{
    remat_host_found(((answer_part *)data)->whole, makespan, bound);
}

remat_host answer_part_host(answer_part *p)
{
    return (remat_host){.data = p,
                        .parallel_for = part_parallel_for,
                        .workers = remat_host_workers(p->whole),
                        .progress = part_progress,
                        .cancelled = part_cancelled,
                        .late = part_late,
                        .memory_limit = p->whole ? p->whole->memory_limit : 0,
                        .doing = part_doing,
                        .found = part_found};
}
