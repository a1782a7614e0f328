/* A lower bound on the makespan of any schedule without a link to the host, for every budget (the
 * proof is at the head of bound.c). */
#ifndef REMAT_START_LOWERSET_BOUND_H
#define REMAT_START_LOWERSET_BOUND_H

#include "remat/solver.h"

/* Offers it as a staircase. */
remat_status graph_bound_offer(const remat_profile *profile, const remat_sink *sink,
                               remat_error *error);

#endif
