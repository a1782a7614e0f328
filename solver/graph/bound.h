/* A lower bound on the makespan of any schedule without a link to the host, for every budget (the
 * proof is at the head of bound.c). */
#ifndef REMAT_GRAPH_BOUND_H
#define REMAT_GRAPH_BOUND_H

#include "remat/solver.h"

typedef struct graph_bound graph_bound;

/* The caller frees. */
remat_status graph_bound_new(const remat_profile *profile, graph_bound **ret_bound,
                             remat_error *error);
void graph_bound_free(graph_bound *bound); /* accepts NULL */

/* INFINITY when some backward alone does not fit. Decreasing in the budget, never below the
 * makespan of storing everything. */
double graph_bound_makespan(const graph_bound *bound, uint64_t budget);

/* Offers it as a staircase. */
remat_status graph_bound_offer(const remat_profile *profile, const remat_sink *sink,
                               remat_error *error);

#endif
