#include "model/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_SIZE = 16384, ALIGNMENT = 16 };

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
