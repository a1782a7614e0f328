/* Memory that is given back all at once. {0} is an empty arena; allocations are zeroed and aligned
 * for any type. Not thread-safe. */
#ifndef REMAT_CORE_ARENA_H
#define REMAT_CORE_ARENA_H

#include <stddef.h>

typedef struct core_arena {
    struct remat_arena_block *blocks;
} core_arena;

/* count * size bytes, zeroed; NULL when out of memory or on overflow. Never NULL for a size of 0.
 */
void *core_arena_array(core_arena *arena, size_t count, size_t size);

/* A copy of text. */
char *core_arena_string(core_arena *arena, const char *text);

void core_arena_clear(core_arena *arena);

#endif
