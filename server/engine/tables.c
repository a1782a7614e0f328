/* Tables: from memory, from the store, or made now. */
#include "engine/private.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

/* Tables of fewer updates are made again faster than they are read. */
#define STORE_TABLE_FROM 1000.0

void *engine_retain_table(void *thing)
{
    atomic_fetch_add(&((shared_table *)thing)->references, 1);
    return thing;
}

void engine_release_table(void *thing)
{
    shared_table *shared = thing;
    if (!shared || atomic_fetch_sub(&shared->references, 1) != 1)
        return;
    remat_table_free(shared->table);
    remat_pebble_table_free(shared->pebbles);
    free(shared);
}

/* Name of a table in memory; its options, with the link where the solver needs one, are also its
 * name in the store. Free *ret_options. */
static remat_status table_key(const char *profile_id, const remat_solver *solver,
                              const remat_problem *problem, char **ret_key, char **ret_options,
                              remat_error *error)
{
    json_t *json = remat_options_encode(solver, &problem->options);
    if (problem->link)
        remat_json_set(&json, "link", remat_link_encode(problem->link));
    char *text = json ? remat_json_text(json) : NULL, *key = NULL;
    json_decref(json);
    if (!text || asprintf(&key, "%s %s %s", profile_id, solver->name, text) < 0) {
        free(text);
        return remat_fail_memory(error);
    }
    *ret_key = key;
    *ret_options = text;
    return REMAT_OK;
}

remat_status engine_share_table(engine *e, const char *key, shared_table table, size_t bytes,
                                shared_table **ret_table, remat_error *error)
{
    shared_table *shared = malloc(sizeof *shared);
    if (!shared) {
        remat_table_free(table.table);
        remat_pebble_table_free(table.pebbles);
        return remat_fail_memory(error);
    }
    *shared = table;
    atomic_init(&shared->references, 1);
    engine_cache_put(e->tables, key, shared, bytes);
    *ret_table = shared;
    return REMAT_OK;
}

/* ---- the store ---- */

static void tell(const char *what, const char *profile_id, const char *solver,
                 const remat_error *why)
{
    log_line(LOG_WARNING, what,
             json_pack("{s:s, s:s, s:s}", "profile_id", profile_id, "solver", solver, "why",
                       why->message));
}

bool engine_read_table(engine *e, const char *profile_id, const char *solver, const char *options,
                       remat_blob *ret_blob)
{
    remat_status status =
        remat_store_get_table(e->store, profile_id, solver, options, ret_blob, NULL);
    if (status == REMAT_CORRUPT)
        atomic_fetch_add(&e->metrics->damaged_records, 1);
    return status == REMAT_OK;
}

void engine_drop_table(engine *e, const char *profile_id, const char *solver, const char *options,
                       const remat_error *why)
{
    tell("a stored table cannot be used and is dropped", profile_id, solver, why);
    if (why->status == REMAT_CORRUPT)
        atomic_fetch_add(&e->metrics->damaged_records, 1);
    remat_store_delete_table(e->store, profile_id, solver, options, NULL);
}

void engine_write_table(engine *e, const char *profile_id, const char *solver, const char *options,
                        remat_buffer *buffer, remat_status save, remat_error *error)
{
    if (!save && buffer->length <= ENGINE_STORE_BYTES)
        save = remat_store_put_table(e->store, profile_id, solver, options, buffer->data,
                                     buffer->length, error);
    if (save && save != REMAT_NOT_FOUND)
        tell("a table could not be stored; it stays in memory", profile_id, solver, error);
    remat_buffer_clear(buffer);
}

/* From the store; anything unreadable is dropped and counts as not there. */
static remat_table *load_table(engine *e, const char *profile_id, const char *options,
                               const remat_solver *solver, const remat_problem *problem)
{
    remat_blob blob = {0};
    remat_error error;
    remat_table *table = NULL;
    if (!engine_read_table(e, profile_id, solver->name, options, &blob))
        return NULL;
    if (remat_table_load(solver, problem, blob.data, blob.length, &table, &error))
        engine_drop_table(e, profile_id, solver->name, options, &error);
    free(blob.data);
    return table;
}

/* ---- the host ---- */

static void lent_parallel_for(void *data, size_t count,
                              void (*run)(void *context, size_t index, unsigned worker),
                              void *context)
{
    team_parallel_for(((lent_host *)data)->team, count, run, context);
}

static void lent_progress(void *data, double fraction)
{
    const lent_host *lent = data;
    if (lent->caller->progress)
        lent->caller->progress(lent->caller->data, lent->begin + lent->share * fraction);
}

static bool lent_cancelled(void *data)
{
    const lent_host *lent = data;
    return (lent->deadline && uv_hrtime() > lent->deadline) ||
           (lent->caller->cancelled && lent->caller->cancelled(lent->caller->data));
}

remat_host engine_lend_host(const engine *e, const solve *s, lent_host *room)
{
    *room = (lent_host){.caller = &s->host, .team = e->team, .deadline = s->deadline, .share = 1};
    return (remat_host){.data = room,
                        .parallel_for = lent_parallel_for,
                        .workers = team_workers(e->team),
                        .progress = lent_progress,
                        .cancelled = lent_cancelled,
                        .memory_limit = e->config.memory_limit};
}

/* ---- making one ---- */

void engine_count_table(engine *e, const char *solver, uint64_t start)
{
    atomic_fetch_add(&e->metrics->tabulations, 1);
    metrics_solver(e->metrics, solver, (double)(uv_hrtime() - start) / 1e9);
}

/* What the hook of one gathering knows. */
typedef struct asking {
    engine *e;
    const known_profile *known;
    solve *s;
    const remat_host *host;
    atomic_bool tabulated;
} asking;

static remat_status make_table(asking *a, const remat_solver *solver, const remat_problem *problem,
                               const char *options, remat_table **ret_table, remat_error *error)
{
    engine *e = a->e;
    uint64_t start = uv_hrtime();
    remat_estimate estimate;
    remat_table *table = NULL;
    remat_status status = remat_estimate_table(solver, problem, &estimate, error);
    if (!status)
        status = remat_tabulate(solver, problem, a->host, &table, error);
    if (status == REMAT_INTERNAL)
        atomic_fetch_add(&e->metrics->verification_failures, 1);
    if (status == REMAT_CANCELLED && a->s->deadline && uv_hrtime() > a->s->deadline)
        status = remat_fail(error, REMAT_TOO_LARGE, NULL,
                            "%s took longer than this server's limit of %u s for a solve",
                            solver->name, e->config.solve_seconds);
    if (status)
        return status;
    atomic_store(&a->tabulated, true);
    engine_count_table(e, solver->name, start);
    if (estimate.updates >= STORE_TABLE_FROM && remat_table_bytes(table) <= ENGINE_STORE_BYTES) {
        remat_buffer buffer = {0};
        remat_error why;
        engine_write_table(e, a->known->id, solver->name, options, &buffer,
                           remat_table_save(table, &buffer, &why), &why);
    }
    *ret_table = table;
    return REMAT_OK;
}

/* A table that is kept in memory or in the store, else NULL. */
static shared_table *find_table(asking *a, const char *key, const char *options,
                                const remat_solver *solver, const remat_problem *problem,
                                remat_table **ret_loaded)
{
    shared_table *shared = engine_cache_get(a->e->tables, key);
    *ret_loaded = shared ? NULL : load_table(a->e, a->known->id, options, solver, problem);
    if (shared && !remat_table_serves(shared->table, problem->max_budget)) {
        engine_release_table(shared);
        shared = NULL;
    }
    if (*ret_loaded && !remat_table_serves(*ret_loaded, problem->max_budget)) {
        remat_table_free(*ret_loaded);
        *ret_loaded = NULL;
    }
    return shared;
}

/* The portfolio's hook: from memory, from the store, or made now unless only kept ones will do. */
static remat_status get_table(void *data, const remat_solver *solver, const remat_problem *problem,
                              remat_held_table *ret_held, remat_error *error)
{
    asking *a = data;
    char *key = NULL, *options = NULL;
    remat_table *table = NULL;
    remat_status status = table_key(a->known->id, solver, problem, &key, &options, error);
    if (status)
        return status;
    shared_table *shared = find_table(a, key, options, solver, problem, &table);
    if (!shared && !table && !a->s->tables_only)
        status = make_table(a, solver, problem, options, &table, error);
    if (!status && table)
        status = engine_share_table(a->e, key, (shared_table){.table = table},
                                    (size_t)remat_table_bytes(table), &shared, error);
    free(key);
    free(options);
    if (!status && shared)
        *ret_held = (remat_held_table){shared->table, shared};
    return status;
}

static void release_held(void *data, remat_held_table held)
{
    (void)data;
    engine_release_table(held.handle);
}

remat_status engine_gather(engine *e, const known_profile *known, const remat_question *q, solve *s,
                           remat_portfolio *ret_portfolio, remat_error *error)
{
    lent_host lent;
    const remat_host host = engine_lend_host(e, s, &lent);
    if (!q->solver || q->solver->improved)
        lent.share = 0.5; /* what is made of the tables comes then */
    asking a = {.e = e, .known = known, .s = s, .host = &host};
    remat_table_source source = {.data = &a, .get = get_table, .release = release_held};
    const remat_problem problem = remat_question_problem(q, known->profile, known->store_all_peak);
    remat_portfolio p;
    remat_status status = remat_portfolio_gather(q->solver, &problem, &host, &source, &p, error);
    if (atomic_load(&a.tabulated))
        s->cache = CACHE_MISS;
    if (status)
        return status;
    s->needs_solve = p.missing > 0;
    s->cost += p.missing;
    if (s->needs_solve)
        remat_portfolio_release(&p);
    static const remat_table_source held = {.release = release_held};
    p.source = &held;
    *ret_portfolio = p;
    return REMAT_OK;
}
