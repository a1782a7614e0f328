/* A cache of reference-counted things by name: the least recently used go first when their costs
 * pass the limit. Thread-safe; no callback runs under the lock except retain. */
#ifndef REMAT_SERVER_CACHE_H
#define REMAT_SERVER_CACHE_H

#include <stddef.h>
#include <stdint.h>

typedef struct cache cache;

/* retain returns its argument with one reference more; release gives one back. NULL: out of memory.
 */
cache *cache_new(uint64_t limit, void *(*retain)(void *), void (*release)(void *));
void cache_free(cache *c); /* accepts NULL */

/* A new reference, or NULL. */
void *cache_get(cache *c, const char *name);

/* Keeps a reference of its own; replaces what had the name. Things that cost more than the whole
 * limit, and any when memory is short, are not kept. */
void cache_put(cache *c, const char *name, void *thing, size_t cost);

void cache_drop(cache *c, const char *name);
void cache_clear(cache *c);
void cache_counts(cache *c, uint64_t *ret_bytes, uint64_t *ret_evictions);

#endif
