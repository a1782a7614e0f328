/* A part of the work for the host that lends for all of it: its progress begins somewhere and goes
 * some way. */
#ifndef REMAT_ANSWER_PART_H
#define REMAT_ANSWER_PART_H

#include "remat/solver.h"

typedef struct answer_part {
    const remat_host *whole; /* may be NULL */
    double begin, share;
} answer_part;

/* A host for that part, which must outlive it. */
remat_host answer_part_host(answer_part *part);

#endif
