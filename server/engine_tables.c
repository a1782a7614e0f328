/* Tables: from memory, from the store, or made now. */
#include "engine_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

/* Tables of fewer updates are made again faster than they are read. */
#define STORE_TABLE_FROM 1000.0

void *retain_table(void *thing)
{
    atomic_fetch_add(&((shared_table *)thing)->references, 1);
    return thing;
}

void release_table(void *thing)
{
    shared_table *shared = thing;
    if (!shared || atomic_fetch_sub(&shared->references, 1) != 1)
        return;
    remat_table_free(shared->table);
    remat_pebble_table_free(shared->pebbles);
    free(shared);
}

const remat_link *way_link(const remat_way *way)
{
    return way->given ? &way->link : NULL;
}

/* Name of a table in memory; its options, with the link where the solver needs one, are also its
 * name in the store. Free *ret_options. */
static remat_status table_key(const char *profile_id, const remat_solver *solver,
                              const remat_problem *problem, char **ret_key, char **ret_options,
                              remat_error *error)
{
    json_t *json = remat_options_encode(solver, &problem->options);
    if (json && problem->link &&
        json_object_set_new(json, "link", remat_link_encode(problem->link))) {
        json_decref(json);
        json = NULL;
    }
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

/* Takes the table into memory. */
static remat_status share_table(engine *e, const char *key, remat_table *table,
                                shared_table **ret_table, remat_error *error)
{
    shared_table *shared = calloc(1, sizeof *shared);
    if (!shared) {
        remat_table_free(table);
        return remat_fail_memory(error);
    }
    atomic_init(&shared->references, 1);
    shared->table = table;
    cache_put(e->tables, key, shared, (size_t)remat_table_bytes(table));
    *ret_table = shared;
    return REMAT_OK;
}

/* From the store; anything unreadable is dropped and counts as not there. */
static remat_table *load_table(engine *e, const char *profile_id, const char *options,
                               const remat_solver *solver, const remat_problem *problem)
{
    remat_blob blob = {0};
    remat_error error;
    remat_table *table = NULL;
    remat_status status =
        remat_store_get_table(e->store, profile_id, solver->name, options, &blob, &error);
    if (status == REMAT_CORRUPT)
        atomic_fetch_add(&e->metrics->damaged_records, 1);
    if (status)
        return NULL;
    status = remat_table_load(solver, problem, blob.data, blob.length, &table, &error);
    free(blob.data);
    if (!status)
        return table;
    log_line(LOG_WARNING, "a stored table cannot be used and is dropped",
             json_pack("{s:s, s:s, s:s}", "profile_id", profile_id, "solver", solver->name, "why",
                       error.message));
    if (status == REMAT_CORRUPT)
        atomic_fetch_add(&e->metrics->damaged_records, 1);
    remat_store_delete_table(e->store, profile_id, solver->name, options, NULL);
    return NULL;
}

static void store_table(engine *e, const char *profile_id, const char *options,
                        const remat_table *table)
{
    remat_buffer buffer = {0};
    remat_error error;
    if (remat_table_bytes(table) > STORE_TABLE_BYTES)
        return;
    const char *solver = remat_table_solver(table)->name;
    remat_status status = remat_table_save(table, &buffer, &error);
    if (!status)
        status = remat_store_put_table(e->store, profile_id, solver, options, buffer.data,
                                       buffer.length, &error);
    if (status && status != REMAT_NOT_FOUND)
        log_line(LOG_WARNING, "a table could not be stored; it stays in memory",
                 json_pack("{s:s, s:s, s:s}", "profile_id", profile_id, "solver", solver, "why",
                           error.message));
    remat_buffer_clear(&buffer);
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
    const remat_host *caller = ((lent_host *)data)->caller;
    if (caller->progress)
        caller->progress(caller->data, fraction);
}

static bool lent_cancelled(void *data)
{
    const lent_host *lent = data;
    return (lent->deadline && uv_hrtime() > lent->deadline) ||
           (lent->caller->cancelled && lent->caller->cancelled(lent->caller->data));
}

remat_host lend_host(const engine *e, const solve *s, lent_host *room)
{
    *room = (lent_host){.caller = &s->host, .team = e->team, .deadline = s->deadline};
    return (remat_host){.data = room,
                        .parallel_for = lent_parallel_for,
                        .workers = team_workers(e->team),
                        .progress = lent_progress,
                        .cancelled = lent_cancelled,
                        .memory_limit = e->config.memory_limit};
}

/* ---- making one ---- */

static remat_status make_table(engine *e, known_profile *known, const remat_solver *solver,
                               const remat_problem *problem, solve *s, const char *options,
                               remat_table **ret_table, remat_error *error)
{
    remat_estimate estimate;
    remat_status status = remat_estimate_table(solver, problem, &estimate, error);
    if (status)
        return status;
    if (s->tables_only) {
        s->needs_solve = true;
        s->cost += estimate.updates;
        return REMAT_OK;
    }
    lent_host lent;
    const remat_host host = lend_host(e, s, &lent);
    uint64_t start = uv_hrtime();
    remat_table *table = NULL;
    status = remat_tabulate(solver, problem, &host, &table, error);
    if (status == REMAT_INTERNAL)
        atomic_fetch_add(&e->metrics->verification_failures, 1);
    if (status == REMAT_CANCELLED && s->deadline && uv_hrtime() > s->deadline)
        status = remat_fail(error, REMAT_TOO_LARGE, NULL,
                            "%s took longer than this server's limit of %u s for a solve",
                            solver->name, e->config.solve_seconds);
    if (status)
        return status;
    s->tabulated = true;
    atomic_fetch_add(&e->metrics->tabulations, 1);
    metrics_solver(e->metrics, solver->name, (double)(uv_hrtime() - start) / 1e9);
    if (estimate.updates >= STORE_TABLE_FROM)
        store_table(e, known->id, options, table);
    *ret_table = table;
    return REMAT_OK;
}

/* A table that serves max_budget: from memory, from the store, or made now. With s->tables_only a
 * missing one gives REMAT_OK, s->needs_solve and no table. */
static remat_status get_table(engine *e, known_profile *known, const remat_solver *solver,
                              const remat_options *options, const remat_question *asked, solve *s,
                              shared_table **ret_table, remat_error *error)
{
    uint64_t max_budget = asked->budget;
    remat_problem problem = {
        .profile = known->profile, .options = *options, .max_budget = max_budget};
    if (solver->accepts & REMAT_NEEDS_LINK)
        problem.link = way_link(&asked->way);
    char *key = NULL, *options_text = NULL;
    remat_table *table = NULL;
    remat_status status = remat_solver_accepts(solver, &problem, error);
    if (!status)
        status = table_key(known->id, solver, &problem, &key, &options_text, error);
    if (status)
        return status;
    shared_table *shared = cache_get(e->tables, key);
    if (shared && !remat_table_serves(shared->table, max_budget)) {
        release_table(shared);
        shared = NULL;
    } else if (!shared) {
        table = load_table(e, known->id, options_text, solver, &problem);
        if (table && !remat_table_serves(table, max_budget)) {
            remat_table_free(table);
            table = NULL;
        }
    }
    if (!shared && !table)
        status = make_table(e, known, solver, &problem, s, options_text, &table, error);
    if (!status && table)
        status = share_table(e, key, table, &shared, error);
    free(key);
    free(options_text);
    if (!status)
        *ret_table = shared;
    return status;
}

/* ---- several ---- */

void release_gathered(gathered *g)
{
    while (g->n > 0)
        release_table(g->shared[--g->n]);
}

static remat_status gather_one(engine *e, known_profile *known, const remat_question *asked,
                               solve *s, gathered *g, remat_error *error)
{
    shared_table *shared = NULL;
    remat_status status =
        get_table(e, known, asked->solver, &asked->options, asked, s, &shared, error);
    if (!status && shared) {
        g->tables[g->n] = shared->table;
        g->shared[g->n++] = shared;
    }
    return status;
}

/* Solvers of fewer updates are asked side by side; larger ones one by one, each with the whole team. */
#define SIDE_BY_SIDE_UPDATES 1e8

/* What auto asks of one solver. */
typedef struct inquiry {
    const remat_solver *solver;
    remat_options options;
    solve s; /* of its own: several run at once */
    shared_table *shared;
    remat_status status;
    remat_error error;
} inquiry;

typedef struct round_of_inquiries {
    engine *e;
    known_profile *known;
    const remat_question *asked;
    inquiry *inquiries;
} round_of_inquiries;

static void inquire(void *context, size_t index, unsigned worker)
{
    (void)worker;
    round_of_inquiries *r = context;
    inquiry *one = &r->inquiries[index];
    one->status = get_table(r->e, r->known, one->solver, &one->options, r->asked, &one->s,
                            &one->shared, &one->error);
}

/* The first inquiries are of quick solvers: how many. */
static size_t count_quick(const round_of_inquiries *r, size_t n)
{
    size_t quick = 0;
    for (; quick < n; quick++) {
        const inquiry *one = &r->inquiries[quick];
        const remat_problem problem = {.profile = r->known->profile,
                                       .link = way_link(&r->asked->way),
                                       .options = one->options,
                                       .max_budget = r->asked->budget};
        remat_estimate estimate;
        if (remat_estimate_table(one->solver, &problem, &estimate, NULL) ||
            estimate.updates > SIDE_BY_SIDE_UPDATES)
            break;
    }
    return quick;
}

/* One that passes a limit while it runs leaves the answer to the others. */
static remat_status collect(const inquiry *inquiries, size_t n, solve *s, gathered *g,
                            remat_error *error)
{
    remat_status failure = REMAT_OK;
    for (size_t i = 0; i < n; i++) {
        const inquiry *one = &inquiries[i];
        s->tabulated |= one->s.tabulated;
        s->needs_solve |= one->s.needs_solve;
        s->cost += one->s.cost;
        if (!one->status && one->shared) {
            g->tables[g->n] = one->shared->table;
            g->shared[g->n++] = one->shared;
        }
        if (one->status && (!failure || failure == REMAT_TOO_LARGE)) {
            failure = one->status;
            if (error)
                *error = one->error;
        }
    }
    return failure == REMAT_TOO_LARGE && g->n > 0 ? REMAT_OK : failure;
}

static remat_status gather_auto(engine *e, known_profile *known, const remat_question *asked,
                                solve *s, gathered *g, remat_error *error)
{
    const remat_solver *solvers[REMAT_MAX_SOLVERS];
    const remat_problem problem = {
        .profile = known->profile, .link = way_link(&asked->way), .max_budget = asked->budget};
    size_t n = remat_auto_solvers(&problem, e->config.memory_limit, solvers);
    inquiry *inquiries = calloc(n + 1, sizeof *inquiries);
    if (!inquiries)
        return remat_fail_memory(error);
    for (size_t i = 0; i < n; i++)
        inquiries[i] = (inquiry){
            .solver = solvers[i],
            .options = remat_options_default(solvers[i]),
            .s = {.host = s->host, .deadline = s->deadline, .tables_only = s->tables_only}};
    round_of_inquiries r = {e, known, asked, inquiries};
    size_t quick = count_quick(&r, n);
    team_parallel_for(e->team, quick, inquire, &r);
    for (size_t i = quick; i < n; i++)
        inquire(&r, i, 0);
    remat_status status = collect(inquiries, n, s, g, error);
    free(inquiries);
    return status;
}

remat_status gather_tables(engine *e, known_profile *known, const remat_question *asked, solve *s,
                           gathered *g, remat_error *error)
{
    remat_status status = asked->solver ? gather_one(e, known, asked, s, g, error)
                                        : gather_auto(e, known, asked, s, g, error);
    if (status || s->needs_solve)
        release_gathered(g);
    return status;
}
