/* What the files of the engine share. Private to this folder. */
#ifndef REMAT_SERVER_ENGINE_PRIVATE_H
#define REMAT_SERVER_ENGINE_PRIVATE_H

#include "engine/cache.h"
#include "engine/engine.h"
#include "remat/answer.h"

struct engine {
    config config;
    remat_store *store;
    metrics *metrics;
    team *team;
    memory *memory;
    engine_cache *profiles; /* id -> known_profile */
    engine_cache *tables;   /* key -> shared_table */
    engine_cache *answers;  /* schedule id, or a name -> body */
};

/* Bytes of the account for a work: where terms let it, the call waits for them, and *terms'
 * deadline comes later by that. REMAT_TOO_LARGE: they never fit, or engine_is_busy;
 * REMAT_CANCELLED. */
remat_status engine_reserve(engine *e, engine_terms *terms, memory_use use, uint64_t bytes,
                            remat_error *error);
void engine_give_back(engine *e, uint64_t bytes);

/* What answering the query may take at once: tables, the profile, the answer. */
uint64_t engine_need(const engine *e, const remat_query *query);
/* That a JSON text takes, as a tree and, if it is one, as a profile. */
uint64_t engine_tree_bytes(const char *text, size_t length);

/* A table that the cache and its users share. */
typedef struct shared_table {
    atomic_uint references;
    remat_table *table;
} shared_table;

/* Larger tables are kept in memory only. */
#define ENGINE_STORE_BYTES (UINT64_C(128) << 20)

/* For the cache: take and give back a reference. */
void *engine_retain_table(void *thing);
void engine_release_table(void *thing);

/* The host of a solve with the engine's team and limits. *room must last as long as the host. */
typedef struct lent_host {
    const remat_host *caller;
    team *team;
    uint64_t deadline; /* uv_hrtime; 0: none */
} lent_host;

remat_host engine_lend_host(const engine *e, const engine_terms *terms, lent_host *room);

/* Where a query's tables come from: memory, the store, or they are made now, unless
 * terms->kept_only. Counts and keeps what it makes. *room must last as long as the source. */
typedef struct engine_tables {
    engine *e;
    const char *profile_id;
    const engine_terms *terms;
    atomic_bool made;
} engine_tables;

remat_table_source engine_lend_tables(engine_tables *room);

/* The status; where it says that the solve was cancelled, and it was by its deadline:
 * REMAT_TOO_LARGE, naming what took so long. */
remat_status engine_past_limit(const engine *e, const engine_terms *terms, const char *what,
                               remat_status status, remat_error *error);

#endif
