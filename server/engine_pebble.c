/* Questions in pebbles. Their tables depend on lengths alone, so there is one for each number of
 * branches, shared by all profiles: kept in memory, kept in the store, and grown on demand. */
#include "engine_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

/* Name of the table in the store, beside the solver's name. */
enum { NAME_SIZE = 48 };
static const char solver_name[] = "join";

static void table_name(uint32_t k, char name[NAME_SIZE])
{
    snprintf(name, NAME_SIZE, "{\"branches\":%u,\"model\":\"pebble\"}", k);
}

/* ---- the table ---- */

static remat_status share(engine *e, const char *name, remat_pebble_table *pebbles,
                          shared_table **ret_table, remat_error *error)
{
    uint32_t edge, slots, k = remat_pebble_table_branches(pebbles);
    shared_table *shared = calloc(1, sizeof *shared);
    if (!shared) {
        remat_pebble_table_free(pebbles);
        return remat_fail_memory(error);
    }
    atomic_init(&shared->references, 1);
    shared->pebbles = pebbles;
    remat_pebble_table_size(pebbles, &edge, &slots);
    cache_put(e->tables, name, shared, (size_t)remat_pebble_table_bytes(k, edge, slots));
    *ret_table = shared;
    return REMAT_OK;
}

/* What is known: in memory, else in the store; NULL if nothing is. */
static shared_table *find(engine *e, const char *name, const remat_host *host)
{
    shared_table *shared = cache_get(e->tables, name);
    remat_blob blob = {0};
    remat_error error;
    remat_pebble_table *pebbles = NULL;
    if (shared)
        return shared;
    remat_status status = remat_store_get_table(e->store, "", solver_name, name, &blob, &error);
    if (status == REMAT_CORRUPT)
        atomic_fetch_add(&e->metrics->damaged_records, 1);
    if (status)
        return NULL;
    remat_reader reader = {.data = blob.data, .length = blob.length};
    status = remat_pebble_table_load(&reader, host, &pebbles, &error);
    free(blob.data);
    if (status == REMAT_CORRUPT) {
        atomic_fetch_add(&e->metrics->damaged_records, 1);
        remat_store_delete_table(e->store, "", solver_name, name, NULL);
    }
    return status || share(e, name, pebbles, &shared, &error) ? NULL : shared;
}

static void keep(engine *e, const char *name, const remat_pebble_table *pebbles)
{
    remat_buffer buffer = {0};
    remat_error error;
    remat_status status = remat_pebble_table_save(pebbles, &buffer, &error);
    if (!status && buffer.length <= STORE_TABLE_BYTES)
        status = remat_store_put_table(e->store, "", solver_name, name, buffer.data, buffer.length,
                                       &error);
    if (status)
        log_line(LOG_WARNING, "a table could not be stored; it stays in memory",
                 json_pack("{s:s, s:s}", "solver", solver_name, "why", error.message));
    remat_buffer_clear(&buffer);
}

/* A table that answers the join; with s->tables_only a missing one gives s->needs_solve and none. */
static remat_status get_table(engine *e, const remat_pebble_join *join, uint32_t slots, solve *s,
                              shared_table **ret_table, remat_error *error)
{
    char name[NAME_SIZE];
    uint32_t edge, depth;
    double updates;
    lent_host lent;
    const remat_host host = lend_host(e, s, &lent);
    table_name(join->k, name);
    shared_table *known = find(e, name, &host);
    if (known && remat_pebble_table_covers(known->pebbles, join, slots)) {
        *ret_table = known;
        return REMAT_OK;
    }
    remat_pebble_table_plan(known ? known->pebbles : NULL, join, slots, host.memory_limit, &edge,
                            &depth, &updates);
    release_table(known);
    if (s->tables_only) {
        s->needs_solve = true;
        s->cost += updates;
        return REMAT_OK;
    }
    uint64_t start = uv_hrtime();
    remat_pebble_table *pebbles = NULL;
    remat_status status = remat_pebble_table_new(join->k, edge, depth, &host, &pebbles, error);
    if (status)
        return status;
    s->cache = CACHE_MISS;
    atomic_fetch_add(&e->metrics->tabulations, 1);
    metrics_solver(e->metrics, solver_name, (double)(uv_hrtime() - start) / 1e9);
    keep(e, name, pebbles);
    return share(e, name, pebbles, ret_table, error);
}

/* ---- the answer ---- */

static remat_status answer(engine *e, const remat_question *q, const known_profile *known,
                           const remat_pebble_problem *problem,
                           const remat_pebble_schedule *schedule, uint64_t start, body **ret_body,
                           remat_error *error)
{
    double store_all = schedule->store_all_makespan;
    const remat_pebble_answer whole = {.question = q,
                                       .profile = known->profile,
                                       .problem = problem,
                                       .schedule = schedule,
                                       .solve_seconds = engine_seconds_since(start),
                                       .created = engine_now()};
    body *b = body_from_json(remat_pebble_schedule_encode(&whole), true);
    if (!b)
        return remat_fail_memory(error);
    const remat_schedule_record facts = {.solver = (char *)solver_name,
                                         .peak = schedule->replay.peak,
                                         .makespan = schedule->makespan,
                                         .overhead =
                                             store_all > 0 ? schedule->makespan / store_all - 1 : 0,
                                         .created = whole.created};
    remat_status status = engine_keep_answer(e, q, &facts, &b, error);
    if (status) {
        body_release(b);
        return status;
    }
    *ret_body = b;
    return REMAT_OK;
}

static remat_status solve_problem(engine *e, const remat_question *q, const known_profile *known,
                                  const remat_pebble_problem *problem, solve *s, uint64_t start,
                                  body **ret_body, remat_error *error)
{
    shared_table *shared = NULL;
    remat_pebble_schedule schedule;
    uint32_t slots = (uint32_t)q->budget;
    remat_status status = get_table(e, &problem->join, slots, s, &shared, error);
    if (status || !shared)
        return status;
    status = remat_pebble_solve(shared->pebbles, problem, slots, &schedule, error);
    release_table(shared);
    if (status == REMAT_INTERNAL)
        atomic_fetch_add(&e->metrics->verification_failures, 1);
    if (status)
        return status;
    status = answer(e, q, known, problem, &schedule, start, ret_body, error);
    remat_pebble_schedule_clear(&schedule);
    return status;
}

remat_status engine_solve_pebbles(engine *e, const remat_question *q, const known_profile *known,
                                  solve *s, uint64_t start, body **ret_body, remat_error *error)
{
    remat_pebble_problem problem;
    remat_status status = remat_pebble_problem_of(known->profile, &q->options, &problem, error);
    if (status)
        return status;
    status = solve_problem(e, q, known, &problem, s, start, ret_body, error);
    remat_pebble_problem_clear(&problem);
    return status;
}
