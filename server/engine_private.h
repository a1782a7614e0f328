/* What the files of the engine share. Private to engine.c and engine_tables.c. */
#ifndef REMAT_SERVER_ENGINE_PRIVATE_H
#define REMAT_SERVER_ENGINE_PRIVATE_H

#include "cache.h"
#include "engine.h"

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
    remat_table *table;
} shared_table;

/* For the cache: take and give back a reference. */
void *retain_table(void *thing);
void release_table(void *thing);

/* The tables that answer a question: that of its solver, or of every solver auto asks, cheapest
 * first. */
typedef struct gathered {
    shared_table *shared[REMAT_MAX_SOLVERS];
    const remat_table *tables[REMAT_MAX_SOLVERS];
    size_t n;
} gathered;

void release_gathered(gathered *g);

/* Each table from memory, from the store, or made now; solver NULL: auto. On failure, and with
 * s->needs_solve, none is held. */
remat_status gather_tables(engine *e, known_profile *known, const remat_solver *solver,
                           const remat_options *options, uint64_t budget, solve *s, gathered *g,
                           remat_error *error);

#endif
