/* Things that requests name. Private to solver/plan. */
#ifndef REMAT_PLAN_NAMES_H
#define REMAT_PLAN_NAMES_H

#include "remat/status.h"

#include <stdio.h>
#include <string.h>

/* The index of name; -1: there is none, which the error says with the field and what is known. */
static inline int plan_find_name(const char *name, const char *field, const char *const *known,
                                 unsigned n, remat_error *error)
{
    char list[REMAT_MESSAGE_SIZE / 2] = "";
    for (unsigned i = 0; i < n; i++) {
        if (strcmp(known[i], name) == 0)
            return (int)i;
        size_t length = strlen(list);
        snprintf(list + length, sizeof list - length, "%s%s", i > 0 ? ", " : "", known[i]);
    }
    remat_fail(error, REMAT_INVALID, field, "there is no %s \"%.60s\"; known are %s", field, name,
               list);
    return -1;
}

#endif
