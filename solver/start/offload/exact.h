/* The backward-phase program in exact bytes (backward.c has the recurrence), each value computed
 * when it is asked for and remembered. */
#ifndef REMAT_START_OFFLOAD_EXACT_H
#define REMAT_START_OFFLOAD_EXACT_H

#include "start/offload/model.h"

typedef struct offload_exact offload_exact;

/* limit: evaluations after which nothing more is computed. */
remat_status offload_exact_new(const offload_model *model, double limit, const remat_host *host,
                               offload_exact **ret_exact, remat_error *error);
void offload_exact_free(offload_exact *exact); /* accepts NULL */

/* REMAT_TOO_LARGE, REMAT_CANCELLED or REMAT_NO_MEMORY, once values can no longer be trusted. */
remat_status offload_exact_status(const offload_exact *exact);
double offload_exact_work(const offload_exact *exact); /* evaluations so far */

/* C_A(i, j, free, due) in the model's units, due as fetching time; INFINITY: impossible. */
double offload_exact_value(offload_exact *exact, uint32_t i, uint32_t j, uint64_t free, double due);

/* Appends the operations of a finite value. */
remat_status offload_exact_trace(offload_exact *exact, uint32_t i, uint32_t j, uint64_t free,
                                 double due, remat_operations *operations);

#endif
