/* Schedules that offload and recompute nothing: the families behind offload-greedy, which pofo asks
 * too, and behind vDNN's (papers/vdnn.c). */
#ifndef REMAT_START_OFFLOAD_GREEDY_H
#define REMAT_START_OFFLOAD_GREEDY_H

#include "remat/solver.h"

/* Offers the family's lists for budgets up to the problem's largest. moved: by place (phases.h),
 * what may move; NULL: every value that the backward reads. greedy: as many of them as needed, in
 * order of benefit; else all. */
remat_status offload_family(const remat_problem *problem, const bool *moved, bool greedy,
                            const remat_sink *sink, remat_error *error);

/* *ret_moved, the caller's to free: by place, the inputs of convolutions. A convolution is a node
 * whose op contains "conv", in any case of letters, or is "block": a group of operations stands for
 * the heavy layer in it, for vDNN_conv singles out the layers that compute long enough to hide a
 * transfer. */
remat_status offload_mark_convolutions(const remat_profile *profile, bool **ret_moved,
                                       remat_error *error);

/* Memory and work of it. */
remat_status offload_family_estimate(const remat_problem *problem, remat_estimate *ret_estimate,
                                     remat_error *error);

#endif
