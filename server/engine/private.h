/* What the files of the engine share. Private to this folder. */
#ifndef REMAT_SERVER_ENGINE_PRIVATE_H
#define REMAT_SERVER_ENGINE_PRIVATE_H

#include "engine/cache.h"
#include "engine/engine.h"
#include "remat/portfolio.h"

struct engine {
    config config;
    remat_store *store;
    metrics *metrics;
    team *team;
    engine_cache *profiles; /* id -> known_profile */
    engine_cache *tables;   /* key -> shared_table */
    engine_cache *answers;  /* schedule id, or a name -> body */
};

/* A table that the cache and its users share. */
typedef struct shared_table {
    atomic_uint references;
    remat_table *table;          /* one of the two */
    remat_pebble_table *pebbles; /* named by its number of branches */
} shared_table;

/* Larger tables are kept in memory only. */
#define ENGINE_STORE_BYTES (UINT64_C(128) << 20)

/* For the cache: take and give back a reference. */
void *engine_retain_table(void *thing);
void engine_release_table(void *thing);

/* The tables that answer a question: that of its solver, or of every solver auto asks, cheapest
 * first; each from memory, from the store, or made now. On failure, and with s->needs_solve, none
 * is held; else remat_portfolio_release. */
remat_status engine_gather(engine *e, const known_profile *known, const remat_question *q, solve *s,
                           remat_portfolio *ret_portfolio, remat_error *error);

/* The host of a solve with the engine's team and limits. *room must last as long as the host. */
typedef struct lent_host {
    const remat_host *caller;
    team *team;
    uint64_t deadline;   /* uv_hrtime; 0: none */
    double begin, share; /* of the progress: where this part of the work begins, and its part */
} lent_host;

remat_host engine_lend_host(const engine *e, const solve *s, lent_host *room);

/* The schedule of a question in the pebble model; none with s->needs_solve. */
remat_status engine_solve_pebbles(engine *e, const remat_question *q,
                                  const remat_pebble_problem *problem, solve *s,
                                  remat_schedule *ret_schedule, remat_error *error);

/* The same of a trade-off. */
remat_status engine_pebble_tradeoff(engine *e, const remat_question *q,
                                    const remat_profile *profile, solve *s, json_t **ret_answer,
                                    remat_error *error);

/* Tables as they are stored: profile_id "" of none. What is damaged is dropped, counted and
 * told. */
bool engine_read_table(engine *e, const char *profile_id, const char *solver, const char *options,
                       remat_blob *ret_blob);
void engine_drop_table(engine *e, const char *profile_id, const char *solver, const char *options,
                       const remat_error *why);
/* save: how writing it to the buffer went; the buffer is cleared. */
void engine_write_table(engine *e, const char *profile_id, const char *solver, const char *options,
                        remat_buffer *buffer, remat_status save, remat_error *error);
/* Takes the table of a shared_table into memory; both are freed on failure. */
remat_status engine_share_table(engine *e, const char *key, shared_table table, size_t bytes,
                                shared_table **ret_table, remat_error *error);
/* A table was made since start. */
void engine_count_table(engine *e, const char *solver, uint64_t start);

#endif
