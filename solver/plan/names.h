/* Things that requests name. Private to solver/plan. */
#ifndef REMAT_PLAN_NAMES_H
#define REMAT_PLAN_NAMES_H

#include "remat/words.h"

#include <string.h>

/* The index of name; -1: there is none, which the error says with the field and what is known. */
static inline int plan_find_name(const char *name, const char *field, const char *const *known,
                                 unsigned n, remat_error *error)
{
    for (unsigned i = 0; i < n; i++)
        if (strcmp(known[i], name) == 0)
            return (int)i;
    remat_fail_unknown(field, field, name, known, n, error);
    return -1;
}

#endif
