#include "engine/cache.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>
#include <uv.h>

#define HASH_NONFATAL_OOM 1
#define uthash_nonfatal_oom(entry) ((entry)->unhashed = 1)
#include <uthash.h>

typedef struct entry {
    UT_hash_handle hh;
    struct entry *prev, *next; /* most recently used first */
    void *thing;
    size_t cost;
    int unhashed; /* out of memory while adding */
    char name[];
} entry;

struct engine_cache {
    uv_mutex_t lock;
    entry *by_name, *by_use;
    uint64_t limit, bytes, evictions;
    void *(*retain)(void *);
    void (*release)(void *);
};

engine_cache *engine_cache_new(uint64_t limit, void *(*retain)(void *), void (*release)(void *))
{
    engine_cache *c = calloc(1, sizeof *c);
    if (!c || uv_mutex_init(&c->lock) != 0) {
        free(c);
        return NULL;
    }
    c->limit = limit;
    c->retain = retain;
    c->release = release;
    return c;
}

/* Takes an entry out of both orders; the caller releases its thing after unlocking. */
static void take_out(engine_cache *c, entry *e)
{
    HASH_DEL(c->by_name, e);
    DL_DELETE(c->by_use, e);
    c->bytes -= e->cost;
}

static void release_all(engine_cache *c, entry *list)
{
    entry *e, *next;
    DL_FOREACH_SAFE(list, e, next)
    {
        c->release(e->thing);
        free(e);
    }
}

void engine_cache_clear(engine_cache *c)
{
    uv_mutex_lock(&c->lock);
    entry *all = c->by_use;
    HASH_CLEAR(hh, c->by_name);
    c->by_use = NULL;
    c->bytes = 0;
    uv_mutex_unlock(&c->lock);
    release_all(c, all);
}

void engine_cache_free(engine_cache *c)
{
    if (!c)
        return;
    engine_cache_clear(c);
    uv_mutex_destroy(&c->lock);
    free(c);
}

void *engine_cache_get(engine_cache *c, const char *name)
{
    entry *e = NULL;
    void *thing = NULL;
    uv_mutex_lock(&c->lock);
    HASH_FIND_STR(c->by_name, name, e);
    if (e) {
        DL_DELETE(c->by_use, e);
        DL_PREPEND(c->by_use, e);
        thing = c->retain(e->thing);
    }
    uv_mutex_unlock(&c->lock);
    return thing;
}

void engine_cache_put(engine_cache *c, const char *name, void *thing, size_t cost)
{
    size_t length = strlen(name);
    entry *e = cost <= c->limit ? calloc(1, sizeof *e + length + 1) : NULL;
    if (!e)
        return;
    memcpy(e->name, name, length + 1);
    e->cost = cost + sizeof *e + length;
    e->thing = c->retain(thing);
    entry *gone = NULL, *old = NULL;
    uv_mutex_lock(&c->lock);
    HASH_FIND_STR(c->by_name, name, old);
    if (old) {
        take_out(c, old);
        DL_APPEND(gone, old);
    }
    HASH_ADD_STR(c->by_name, name, e);
    if (e->unhashed) {
        DL_APPEND(gone, e);
    } else {
        DL_PREPEND(c->by_use, e);
        c->bytes += e->cost;
    }
    while (c->by_use && c->bytes > c->limit) {
        entry *last = c->by_use->prev;
        take_out(c, last);
        DL_APPEND(gone, last);
        c->evictions++;
    }
    uv_mutex_unlock(&c->lock);
    release_all(c, gone);
}

void engine_cache_drop(engine_cache *c, const char *name)
{
    entry *e = NULL, *gone = NULL;
    uv_mutex_lock(&c->lock);
    HASH_FIND_STR(c->by_name, name, e);
    if (e) {
        take_out(c, e);
        DL_APPEND(gone, e);
    }
    uv_mutex_unlock(&c->lock);
    release_all(c, gone);
}

void engine_cache_counts(engine_cache *c, uint64_t *ret_bytes, uint64_t *ret_evictions)
{
    uv_mutex_lock(&c->lock);
    *ret_bytes = c->bytes;
    *ret_evictions = c->evictions;
    uv_mutex_unlock(&c->lock);
}
