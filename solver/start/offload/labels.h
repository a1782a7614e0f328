/* The exact optimum of the class in bytes: persistent schedules that offload before the loss and
 * prefetch after it, by a search over labels. */
#ifndef REMAT_START_OFFLOAD_LABELS_H
#define REMAT_START_OFFLOAD_LABELS_H

#include "start/offload/forward.h"

/* The work pofo allows one search: about half a second. */
#define OFFLOAD_LABEL_WORK 1e8

typedef struct offload_labels_result {
    bool finished;   /* false: the work allowed did not suffice; the rest says nothing */
    double value;    /* least makespan, or the bound given where nothing is faster, in the profile's
                      time unit; INFINITY: nothing fits */
    uint64_t labels; /* kept */
    double work;     /* done, in comparisons */
    offload_plan plan; /* of value; without operations where nothing is faster than bound */
} offload_labels_result;

/* relaxed: the program over slots rounded down, of the same chain and link without latency and of
 * at least as many bytes; what it says of a state bounds every path through it. NULL: without.
 * budget includes the graph inputs that stay. bound: a makespan known to be possible, or INFINITY.
 * work: comparisons and evaluations after which the search gives up. The caller clears the plan.
 * REMAT_CANCELLED at the host's wish. */
remat_status offload_labels_search(const offload_model *model, const offload_forward *relaxed,
                                   uint64_t budget, double bound, double work,
                                   const remat_host *host, offload_labels_result *ret_result,
                                   remat_error *error);

#endif
