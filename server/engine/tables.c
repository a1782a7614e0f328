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
    free(shared);
}

/* What a table is called in memory, and in the store: there by profile ("" where it depends on
 * none), solver and options, with the link where the solver needs one. */
typedef struct table_name {
    const char *profile_id;
    char *options, *key; /* owned */
} table_name;

static void name_clear(table_name *name)
{
    free(name->options);
    free(name->key);
}

static remat_status name_options(const remat_solver *solver, const remat_problem *problem,
                                 table_name *name, remat_error *error)
{
    const remat_machine *machine = remat_machine_of(solver, &problem->options);
    char text[REMAT_TABLE_NAME_SIZE];
    if (machine) {
        remat_status status = machine->name_table(problem, text, error);
        name->profile_id = "";
        name->options = status ? NULL : strdup(text);
        return status || name->options ? status : remat_fail_memory(error);
    }
    json_t *json = remat_options_encode(solver, &problem->options);
    if (problem->link)
        remat_json_set(&json, "link", remat_link_encode(problem->link));
    name->options = json ? remat_json_text(json) : NULL;
    json_decref(json);
    return name->options ? REMAT_OK : remat_fail_memory(error);
}

/* Clear it, on failure too. */
static remat_status name_table(const char *profile_id, const remat_solver *solver,
                               const remat_problem *problem, table_name *ret_name,
                               remat_error *error)
{
    *ret_name = (table_name){.profile_id = profile_id};
    remat_status status = name_options(solver, problem, ret_name, error);
    if (!status && asprintf(&ret_name->key, "%s %s %s", ret_name->profile_id, solver->name,
                            ret_name->options) < 0) {
        ret_name->key = NULL;
        status = remat_fail_memory(error);
    }
    return status;
}

/* Takes the table into memory; it is freed on failure. */
static remat_status share(engine *e, const char *key, remat_table *table, shared_table **ret_table,
                          remat_error *error)
{
    shared_table *shared = malloc(sizeof *shared);
    if (!shared) {
        remat_table_free(table);
        return remat_fail_memory(error);
    }
    shared->table = table;
    atomic_init(&shared->references, 1);
    engine_cache_put(e->tables, key, shared, (size_t)remat_table_bytes(table));
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

static void drop(engine *e, const table_name *name, const char *solver, const remat_error *why)
{
    tell("a stored table cannot be used and is dropped", name->profile_id, solver, why);
    if (why->status == REMAT_CORRUPT)
        atomic_fetch_add(&e->metrics->damaged_records, 1);
    remat_store_delete_table(e->store, name->profile_id, solver, name->options, NULL);
}

static void keep(engine *e, const table_name *name, const remat_table *table)
{
    remat_buffer buffer = {0};
    remat_error why;
    const char *solver = remat_table_solver(table)->name;
    remat_status status = remat_table_save(table, &buffer, &why);
    if (!status && buffer.length <= ENGINE_STORE_BYTES)
        status = remat_store_put_table(e->store, name->profile_id, solver, name->options,
                                       buffer.data, buffer.length, &why);
    if (status && status != REMAT_NOT_FOUND)
        tell("a table could not be stored; it stays in memory", name->profile_id, solver, &why);
    remat_buffer_clear(&buffer);
}

/* From the store; anything unreadable is dropped and counts as not there. */
static remat_table *load(engine *e, const table_name *name, const remat_solver *solver,
                         const remat_problem *problem)
{
    remat_blob blob = {0};
    remat_error error;
    remat_table *table = NULL;
    remat_status status =
        remat_store_get_table(e->store, name->profile_id, solver->name, name->options, &blob, NULL);
    if (status == REMAT_CORRUPT)
        atomic_fetch_add(&e->metrics->damaged_records, 1);
    if (status)
        return NULL;
    status = remat_table_load(solver, problem, blob.data, blob.length, &table, &error);
    if (status && status != REMAT_NO_MEMORY)
        drop(e, name, solver->name, &error);
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
        lent->caller->progress(lent->caller->data, fraction);
}

static void lent_found(void *data, double makespan, double bound)
{
    remat_host_found(((const lent_host *)data)->caller, makespan, bound);
}

static bool lent_cancelled(void *data)
{
    const lent_host *lent = data;
    return lent->caller->cancelled && lent->caller->cancelled(lent->caller->data);
}

static bool lent_late(void *data)
{
    const lent_host *lent = data;
    return lent->deadline && uv_hrtime() > lent->deadline;
}

remat_host engine_lend_host(const engine *e, const engine_terms *terms, lent_host *room)
{
    *room = (lent_host){.caller = &terms->host, .team = e->team, .deadline = terms->deadline};
    return (remat_host){.data = room,
                        .parallel_for = lent_parallel_for,
                        .workers = team_workers(e->team),
                        .progress = lent_progress,
                        .found = lent_found,
                        .cancelled = lent_cancelled,
                        .late = lent_late,
                        .memory_limit = e->config.memory_limit};
}

/* ---- making one ---- */

remat_status engine_past_limit(const engine *e, const engine_terms *terms, const char *what,
                               remat_status status, remat_error *error)
{
    if (status != REMAT_CANCELLED || !terms->deadline || uv_hrtime() <= terms->deadline)
        return status;
    return remat_fail(error, REMAT_TOO_LARGE, NULL,
                      "%s took longer than this server's limit of %u s for a solve", what,
                      e->config.solve_seconds);
}

/* known: a kept table of the same name that does not serve; NULL: none. */
static remat_status make(engine_tables *t, const remat_solver *solver, const remat_problem *problem,
                         const table_name *name, const remat_host *host, const shared_table *known,
                         remat_table **ret_table, remat_error *error)
{
    engine *e = t->e;
    uint64_t start = uv_hrtime();
    remat_estimate estimate;
    remat_table *table = NULL;
    remat_status status = remat_estimate_table(solver, problem, &estimate, error);
    if (!status)
        status =
            remat_extend_table(known ? known->table : NULL, solver, problem, host, &table, error);
    if (status == REMAT_INTERNAL)
        atomic_fetch_add(&e->metrics->verification_failures, 1);
    if (status)
        return engine_past_limit(e, t->terms, solver->name, status, error);
    atomic_store(&t->made, true);
    atomic_fetch_add(&e->metrics->tabulations, 1);
    metrics_solver(e->metrics, solver->name, (double)(uv_hrtime() - start) / 1e9);
    if (estimate.updates >= STORE_TABLE_FROM && remat_table_bytes(table) <= ENGINE_STORE_BYTES)
        keep(e, name, table);
    *ret_table = table;
    return REMAT_OK;
}

/* What memory or the store has under the name, which may not serve the problem. */
static shared_table *find(engine *e, const table_name *name, const remat_solver *solver,
                          const remat_problem *problem)
{
    shared_table *shared = engine_cache_get(e->tables, name->key);
    remat_table *table = shared ? NULL : load(e, name, solver, problem);
    return table && share(e, name->key, table, &shared, NULL) ? NULL : shared;
}

static remat_status get_named(engine_tables *t, const remat_solver *solver,
                              const remat_problem *problem, const remat_host *host,
                              const table_name *name, shared_table **ret_shared, remat_error *error)
{
    remat_table *table = NULL;
    shared_table *known = find(t->e, name, solver, problem);
    if (known && remat_table_serves(known->table, problem)) {
        *ret_shared = known;
        return REMAT_OK;
    }
    remat_status status =
        t->terms->kept_only ? REMAT_OK : make(t, solver, problem, name, host, known, &table, error);
    engine_release_table(known);
    return table ? share(t->e, name->key, table, ret_shared, error) : status;
}

static remat_status get_table(void *data, const remat_solver *solver, const remat_problem *problem,
                              const remat_host *host, remat_held_table *ret_held,
                              remat_error *error)
{
    engine_tables *t = data;
    table_name name;
    shared_table *shared = NULL;
    remat_status status = name_table(t->profile_id, solver, problem, &name, error);
    if (!status)
        status = get_named(t, solver, problem, host, &name, &shared, error);
    name_clear(&name);
    if (!status && shared)
        *ret_held = (remat_held_table){shared->table, shared};
    return status;
}

static void release_held(void *data, remat_held_table held)
{
    (void)data;
    engine_release_table(held.handle);
}

remat_table_source engine_lend_tables(engine_tables *room)
{
    return (remat_table_source){.data = room, .get = get_table, .release = release_held};
}
