/* Questions in pebbles. Their tables depend on lengths alone, so there is one for each number of
 * branches, shared by all profiles: kept in memory, kept in the store, and grown on demand. */
#include "engine/private.h"

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

static remat_status share(engine *e, const char *name, remat_pebble_table *pebbles,
                          shared_table **ret_table, remat_error *error)
{
    uint32_t edge, slots, k = remat_pebble_table_branches(pebbles);
    remat_pebble_table_size(pebbles, &edge, &slots);
    return engine_share_table(e, name, (shared_table){.pebbles = pebbles},
                              (size_t)remat_pebble_table_bytes(k, edge, slots), ret_table, error);
}

/* What is known: in memory, else in the store; NULL if nothing is. */
static shared_table *find(engine *e, const char *name, const remat_host *host)
{
    shared_table *shared = engine_cache_get(e->tables, name);
    remat_blob blob = {0};
    remat_error error;
    remat_pebble_table *pebbles = NULL;
    if (shared || !engine_read_table(e, "", solver_name, name, &blob))
        return shared;
    remat_reader reader = {.data = blob.data, .length = blob.length};
    remat_status status = remat_pebble_table_load(&reader, host, &pebbles, &error);
    free(blob.data);
    if (status == REMAT_CORRUPT)
        engine_drop_table(e, "", solver_name, name, &error);
    return status || share(e, name, pebbles, &shared, &error) ? NULL : shared;
}

/* A table that answers the join; with s->tables_only a missing one gives s->needs_solve and none.
 */
static remat_status get_table(engine *e, const remat_pebble_join *join, uint32_t slots, solve *s,
                              shared_table **ret_table, remat_error *error)
{
    char name[NAME_SIZE];
    uint32_t edge, depth;
    double updates;
    lent_host lent;
    const remat_host host = engine_lend_host(e, s, &lent);
    table_name(join->k, name);
    shared_table *known = find(e, name, &host);
    if (known && remat_pebble_table_covers(known->pebbles, join, slots)) {
        *ret_table = known;
        return REMAT_OK;
    }
    remat_pebble_table_plan(known ? known->pebbles : NULL, join, slots, host.memory_limit, &edge,
                            &depth, &updates);
    engine_release_table(known);
    if (s->tables_only) {
        s->needs_solve = true;
        s->cost += updates;
        return REMAT_OK;
    }
    uint64_t start = uv_hrtime();
    remat_pebble_table *pebbles = NULL;
    remat_buffer buffer = {0};
    remat_error why;
    remat_status status = remat_pebble_table_new(join->k, edge, depth, &host, &pebbles, error);
    if (status)
        return status;
    s->cache = CACHE_MISS;
    engine_count_table(e, solver_name, start);
    engine_write_table(e, "", solver_name, name, &buffer,
                       remat_pebble_table_save(pebbles, &buffer, &why), &why);
    return share(e, name, pebbles, ret_table, error);
}

remat_status engine_solve_pebbles(engine *e, const remat_question *q,
                                  const remat_pebble_problem *problem, solve *s,
                                  remat_schedule *ret_schedule, remat_error *error)
{
    shared_table *shared = NULL;
    uint32_t slots = (uint32_t)q->budget;
    remat_status status = get_table(e, &problem->join, slots, s, &shared, error);
    if (status || !shared)
        return status;
    status = remat_pebble_solve(shared->pebbles, problem, slots, ret_schedule, error);
    engine_release_table(shared);
    return status;
}

remat_status engine_pebble_tradeoff(engine *e, const remat_question *q,
                                    const remat_profile *profile, solve *s, json_t **ret_answer,
                                    remat_error *error)
{
    remat_pebble_problem problem;
    shared_table *shared = NULL;
    lent_host lent;
    const remat_host host = engine_lend_host(e, s, &lent);
    remat_status status = remat_pebble_problem_of(profile, &q->options, &problem, error);
    if (status)
        return status;
    status = get_table(e, &problem.join, remat_question_slots(q, &problem), s, &shared, error);
    if (!status && shared)
        status =
            remat_answer_pebble_tradeoff(q, &problem, shared->pebbles, &host, ret_answer, error);
    engine_release_table(shared);
    remat_pebble_problem_clear(&problem);
    return status;
}
