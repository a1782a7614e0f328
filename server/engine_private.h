/* What the files of the engine share. Private to engine.c and engine_tables.c. */
#ifndef REMAT_SERVER_ENGINE_PRIVATE_H
#define REMAT_SERVER_ENGINE_PRIVATE_H

#include "cache.h"
#include "engine.h"
#include "remat/portfolio.h"

struct engine {
    config config;
    remat_store *store;
    metrics *metrics;
    team *team;
    cache *profiles; /* id -> known_profile */
    cache *tables;   /* key -> shared_table */
    cache *answers;  /* schedule id, or "request " and hash -> body */
};

/* A table that the cache and its users share. */
typedef struct shared_table {
    atomic_uint references;
    remat_table *table;          /* one of the two */
    remat_pebble_table *pebbles; /* named by its number of branches */
} shared_table;

/* Larger tables are kept in memory only. */
#define STORE_TABLE_BYTES (UINT64_C(128) << 20)

/* For the cache: take and give back a reference. */
void *retain_table(void *thing);
void release_table(void *thing);

/* The tables that answer a question: that of its solver, or of every solver auto asks, cheapest
 * first; each from memory, from the store, or made now. On failure, and with s->needs_solve, none
 * is held; else remat_portfolio_release. */
remat_status gather_tables(engine *e, const known_profile *known, const remat_question *q, solve *s,
                           remat_portfolio *ret_portfolio, remat_error *error);

/* The host of a solve with the engine's team and limits. *room must last as long as the host. */
typedef struct lent_host {
    const remat_host *caller;
    team *team;
    uint64_t deadline; /* uv_hrtime; 0: none */
} lent_host;

remat_host lend_host(const engine *e, const solve *s, lent_host *room);

/* A question in the pebble model. */
remat_status engine_solve_pebbles(engine *e, const remat_question *q, const known_profile *known,
                                  solve *s, uint64_t start, body **ret_body, remat_error *error);

/* Stores the answer *b to q and remembers it; facts: solver, peak, makespan, overhead, created.
 * Where another thread or daemon has answered meanwhile, *b becomes that answer. On failure *b may
 * be NULL. */
remat_status engine_keep_answer(engine *e, const remat_question *q,
                                const remat_schedule_record *facts, body **b, remat_error *error);

int64_t engine_now(void); /* milliseconds since 1970 */
double engine_seconds_since(uint64_t start);

#endif
