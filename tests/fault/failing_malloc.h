/* The nth allocation fails: the linker sends malloc, calloc and realloc of the library here
 * (-Wl,--wrap). */
#ifndef TESTS_FAULT_FAILING_MALLOC_H
#define TESTS_FAULT_FAILING_MALLOC_H

#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>

static long countdown = -1; /* allocations until the one that fails; -1: none does */

static bool fails(void)
{
    return countdown >= 0 && countdown-- == 0;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

/* Making a block smaller never fails: callers keep what they have if it does. */
void *__wrap_realloc(void *old, size_t size)
{
    bool smaller = old && malloc_usable_size(old) >= size;
    return !smaller && fails() ? NULL : __real_realloc(old, size);
}

#endif
