/* Memory that is given back all at once. {0} is an empty arena; allocations are zeroed and aligned
 * for any type. Not thread-safe. */
#ifndef REMAT_MODEL_ARENA_H
#define REMAT_MODEL_ARENA_H

#include <stddef.h>
#include <stdint.h>

typedef struct model_arena {
    struct remat_arena_block *blocks;
} model_arena;

/* count * size bytes, zeroed; NULL when out of memory or on overflow. Never NULL for a size of 0.
 */
void *model_arena_array(model_arena *arena, size_t count, size_t size);

/* A copy of text. */
char *model_arena_string(model_arena *arena, const char *text);

void model_arena_clear(model_arena *arena);

/* So many bytes, a large number of them in huge pages where the system has them; the caller frees
 * them. NULL when out of memory. */
void *model_new_table(uint64_t bytes);

#endif
