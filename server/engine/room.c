/* What works take of the account, before they allocate it. */
#include "engine/private.h"

#include <uv.h>

/* Of a profile that is read, 100,000 nodes took 154 MiB where 155 are reserved. What a solve takes
 * for each node (list, simulation, addresses and their search, text and its compressed forms) is a
 * guess that mixes of requests stay within (tests/long/test_memory.py); alone it has not been
 * measured. */
enum { NODE_BYTES = 700, EDGE_BYTES = 40, PROFILE_NODE_BYTES = 300, RETURNED_FROM = 1 << 23 };
#define BUSY_NUMBER UINT64_MAX

bool engine_is_busy(const remat_error *error)
{
    return error->status == REMAT_TOO_LARGE && error->number == BUSY_NUMBER;
}

static remat_status fail_busy(remat_error *error)
{
    remat_fail(error, REMAT_TOO_LARGE, NULL, "other work takes the memory that there is now");
    if (error)
        error->number = BUSY_NUMBER;
    return REMAT_TOO_LARGE;
}

static bool is_cancelled(void *data)
{
    const remat_host *host = data;
    return host->cancelled && host->cancelled(host->data);
}

remat_status engine_reserve(engine *e, engine_terms *terms, memory_use use, uint64_t bytes,
                            remat_error *error)
{
    const uint64_t start = uv_hrtime(), share = memory_share(e->memory, use);
    if (bytes > share)
        return remat_fail(error, REMAT_TOO_LARGE, NULL,
                          "the work may take %llu bytes at once; this server has %llu for that",
                          (unsigned long long)bytes, (unsigned long long)share);
    if (!terms || terms->kept_only)
        return memory_take(e->memory, use, bytes) ? REMAT_OK : fail_busy(error);
    if (!memory_wait(e->memory, use, bytes, is_cancelled, &terms->host))
        return remat_fail(error, REMAT_CANCELLED, NULL, "cancelled");
    if (terms->deadline)
        terms->deadline += uv_hrtime() - start;
    return REMAT_OK;
}

/* What was freed is with the allocator's arena of this thread, where no other finds it. */
void engine_give_back(engine *e, uint64_t bytes)
{
    if (bytes >= RETURNED_FROM)
        memory_return();
    memory_give(e->memory, MEMORY_SOLVE, bytes);
}

static uint64_t table_need(const remat_solver *solver, const remat_problem *problem, uint64_t limit)
{
    remat_estimate estimate;
    if (remat_solver_accepts(solver, problem, NULL) ||
        remat_estimate_table(solver, problem, &estimate, NULL))
        return 0;
    return estimate.table_bytes < limit ? estimate.table_bytes : limit;
}

/* Of auto all solvers that may be asked. */
static uint64_t tables_need(const remat_query *query, uint64_t limit)
{
    size_t n;
    uint64_t sum = 0;
    const remat_solver *const *solvers = remat_solvers(&n);
    if (query->solver)
        return table_need(query->solver, &query->problem, limit);
    for (size_t i = 0; i < n && sum < limit; i++) {
        remat_problem problem = query->problem;
        problem.options = remat_options_default(solvers[i]);
        sum += table_need(solvers[i], &problem, limit);
    }
    return sum < limit ? sum : limit;
}

uint64_t engine_need(const engine *e, const remat_query *query)
{
    const remat_profile *profile = query->problem.profile;
    return tables_need(query, e->config.memory_limit) + (uint64_t)NODE_BYTES * profile->n_nodes +
           (uint64_t)EDGE_BYTES * profile->n_edges;
}

uint64_t engine_tree_bytes(const char *text, size_t length)
{
    static const remat_json_limits any = {UINT64_MAX, UINT64_MAX};
    remat_json_scan scan;
    remat_json_scan_init(&scan, &any);
    if (remat_json_scan_feed(&scan, text, length, NULL))
        return 0;
    return length + scan.tree_bytes + scan.nodes * PROFILE_NODE_BYTES;
}
