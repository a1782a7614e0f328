/* A cache of reference-counted things by name: the least recently used go first when their costs
 * pass the limit. Thread-safe; no callback runs under the lock except retain. */
#ifndef REMAT_SERVER_CACHE_H
#define REMAT_SERVER_CACHE_H

#include <stddef.h>
#include <stdint.h>

typedef struct engine_cache engine_cache;

/* retain returns its argument with one reference more; release gives one back. NULL: out of memory.
 */
engine_cache *engine_cache_new(uint64_t limit, void *(*retain)(void *), void (*release)(void *));
void engine_cache_free(engine_cache *c); /* accepts NULL */

/* A new reference, or NULL. */
void *engine_cache_get(engine_cache *c, const char *name);

/* Keeps a reference of its own; replaces what had the name. Things that cost more than the whole
 * limit, and any when memory is short, are not kept. */
void engine_cache_put(engine_cache *c, const char *name, void *thing, size_t cost);

void engine_cache_drop(engine_cache *c, const char *name);
void engine_cache_clear(engine_cache *c);
void engine_cache_counts(engine_cache *c, uint64_t *ret_bytes, uint64_t *ret_evictions);

#endif
