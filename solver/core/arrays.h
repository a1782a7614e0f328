/* Arrays that grow. */
#ifndef REMAT_CORE_ARRAYS_H
#define REMAT_CORE_ARRAYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Room for `need` items of so many bytes each. array: the address of the pointer to the first one,
 * NULL or from malloc. When memory is short it is false and nothing has changed. */
static inline bool core_reserve(void *array, size_t *capacity, size_t need, size_t size)
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

#endif
