/* The whole way from question to answer. */
#include "remat/answer.h"

/* A part of the work for the host that lends for all of it: its progress begins somewhere and goes
 * some way. */
typedef struct part {
    const remat_host *whole;
    double begin, share;
} part;

static void part_parallel_for(void *data, size_t count,
                              void (*body)(void *context, size_t index, unsigned worker),
                              void *context)
{
    remat_host_parallel_for(((part *)data)->whole, count, body, context);
}

static void part_progress(void *data, double fraction)
{
    const part *p = data;
    remat_host_progress(p->whole, p->begin + p->share * fraction);
}

static bool part_cancelled(void *data)
{
    return remat_host_cancelled(((part *)data)->whole);
}

static void part_doing(void *data, const char *what)
{
    remat_host_doing(((part *)data)->whole, what);
}

static remat_host part_host(part *p)
{
    return (remat_host){.data = p,
                        .parallel_for = part_parallel_for,
                        .workers = remat_host_workers(p->whole),
                        .progress = part_progress,
                        .cancelled = part_cancelled,
                        .memory_limit = p->whole ? p->whole->memory_limit : 0,
                        .doing = part_doing};
}

remat_status remat_answer(const remat_query *query, const remat_host *host,
                          const remat_table_source *tables, remat_answered *ret_answered,
                          remat_error *error)
{
    const bool improved = !query->curve && (!query->solver || query->solver->improved);
    part gathering = {host, 0, improved ? 0.5 : 1}, improving = {host, 0.5, 0.5};
    const remat_host first = part_host(&gathering), second = part_host(&improving);
    remat_portfolio *p = &ret_answered->portfolio;
    remat_status status =
        remat_portfolio_gather(query->solver, &query->problem, &first, tables, p, error);
    if (status || query->curve || p->missing > 0)
        return status;
    if (improved)
        remat_host_doing(host, "improving");
    return remat_portfolio_schedule(p, &query->problem, query->budget, query->alignment,
                                    query->effort, &second, &ret_answered->schedule, error);
}

void remat_answered_clear(remat_answered *answered)
{
    remat_schedule_clear(&answered->schedule);
    remat_portfolio_release(&answered->portfolio);
    *answered = (remat_answered){0};
}
