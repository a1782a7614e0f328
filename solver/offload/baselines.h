/* Schedules that offload and recompute nothing: the families behind offload-all, offload-conv and
 * offload-greedy, which pofo asks too. */
#ifndef REMAT_OFFLOAD_BASELINES_H
#define REMAT_OFFLOAD_BASELINES_H

#include "remat/solver.h"

typedef enum offload_choice {
    OFFLOAD_ALL,   /* every value that the backward reads */
    OFFLOAD_CONV,  /* the inputs of convolutions */
    OFFLOAD_GREEDY /* as many as needed, in order of benefit */
} offload_choice;

/* Offers the family's lists for budgets up to the problem's largest. */
remat_status offload_family(const remat_problem *problem, offload_choice choice,
                            const remat_sink *sink, remat_error *error);

/* Memory and work of it. */
remat_estimate offload_family_estimate(const remat_profile *profile);

#endif
