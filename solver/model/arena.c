#include "model/arena.h"

#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

enum { BLOCK_SIZE = 16384, ALIGNMENT = 16, HUGE_PAGE = 1 << 21 };

struct remat_arena_block {
    struct remat_arena_block *next;
    size_t used, size;
    _Alignas(ALIGNMENT) unsigned char bytes[];
};

static struct remat_arena_block *block_new(size_t size)
{
    struct remat_arena_block *block = calloc(1, sizeof *block + size);
    if (block)
        block->size = size;
    return block;
}

void *model_arena_array(model_arena *arena, size_t count, size_t size)
{
    if (size > 0 && count > (SIZE_MAX / 4) / size)
        return NULL;
    size_t bytes = (count * size + ALIGNMENT) & ~(size_t)(ALIGNMENT - 1);
    struct remat_arena_block *block = arena->blocks;
    if (!block || block->size - block->used < bytes) {
        block = block_new(bytes > BLOCK_SIZE ? bytes : BLOCK_SIZE);
        if (!block)
            return NULL;
        block->next = arena->blocks;
        arena->blocks = block;
    }
    void *result = block->bytes + block->used;
    block->used += bytes;
    return result;
}

char *model_arena_string(model_arena *arena, const char *text)
{
    size_t length = strlen(text) + 1;
    char *copy = model_arena_array(arena, length, 1);
    return copy ? memcpy(copy, text, length) : NULL;
}

void model_arena_clear(model_arena *arena)
{
    while (arena->blocks) {
        struct remat_arena_block *next = arena->blocks->next;
        free(arena->blocks);
        arena->blocks = next;
    }
}

void *model_new_table(uint64_t bytes)
{
    if (bytes > SIZE_MAX - HUGE_PAGE)
        return NULL;
    if (bytes < 2 * HUGE_PAGE)
        return malloc((size_t)bytes);
    size_t rounded = ((size_t)bytes + HUGE_PAGE - 1) & ~(size_t)(HUGE_PAGE - 1);
    void *table = aligned_alloc(HUGE_PAGE, rounded);
#ifdef MADV_HUGEPAGE
    if (table)
        (void)madvise(table, rounded, MADV_HUGEPAGE); /* advice: nothing depends on it */
#endif
    return table;
}
