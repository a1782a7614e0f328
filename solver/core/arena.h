/* Memory that is given back all at once. {0} is an empty arena; allocations are zeroed and aligned
 * for any type. Not thread-safe. */
#ifndef REMAT_CORE_ARENA_H
#define REMAT_CORE_ARENA_H

#include <stddef.h>

typedef struct remat_arena {
    struct remat_arena_block *blocks;
} remat_arena;

/* count * size bytes, zeroed; NULL when out of memory or on overflow. Never NULL for a size of 0.
 */
void *remat_arena_array(remat_arena *arena, size_t count, size_t size);

/* A copy of text. */
char *remat_arena_string(remat_arena *arena, const char *text);

void remat_arena_clear(remat_arena *arena);

#endif
