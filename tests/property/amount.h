/* How many random cases a property is tried on. */
#ifndef REMAT_TESTS_AMOUNT_H
#define REMAT_TESTS_AMOUNT_H

#include <stdlib.h>

/* all: by tests/run --long. usually: else, a fifth of it (one at least) under a sanitizer.
 * REMAT_CASES: so many, whatever was said. */
static inline unsigned amount(unsigned all, unsigned usually)
{
    const char *asked = getenv("REMAT_CASES");
    if (asked)
        return (unsigned)strtoul(asked, NULL, 10);
    if (getenv("REMAT_SLOW_BUILD"))
        return usually < 5 ? 1 : usually / 5;
    return getenv("REMAT_LONG") ? all : usually;
}

#endif
