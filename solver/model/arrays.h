/* Arrays that grow, and arrays in order. */
#ifndef REMAT_MODEL_ARRAYS_H
#define REMAT_MODEL_ARRAYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Room for `need` items of so many bytes each. array: the address of the pointer to the first one,
 * NULL or from malloc. When memory is short it is false and nothing has changed. */
static inline bool model_reserve(void *array, size_t *capacity, size_t need, size_t size)
{
    if (need <= *capacity)
        return true;
    size_t larger = *capacity + *capacity / 2 + 8;
    larger = larger < need ? need : larger;
    void *items;
    memcpy(&items, array, sizeof items);
    items = larger < SIZE_MAX / size ? realloc(items, larger * size) : NULL;
    if (!items)
        return false;
    memcpy(array, &items, sizeof items);
    *capacity = larger;
    return true;
}

/* How many of n items come before `least`, by a uint64_t at this offset by which they increase. */
static inline size_t model_count_below(const void *items, size_t n, size_t size, size_t offset,
                                       uint64_t least)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint64_t key;
        memcpy(&key, (const char *)items + middle * size + offset, sizeof key);
        if (key < least)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static inline size_t model_count_up_to(const void *items, size_t n, size_t size, size_t offset,
                                       uint64_t most)
{
    return most < UINT64_MAX ? model_count_below(items, n, size, offset, most + 1) : n;
}

#endif
