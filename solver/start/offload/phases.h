/* A plan: what is computed, in order, and what is moved to the host and back; when the transfers
 * run is left to placement (place.h). */
#ifndef REMAT_START_OFFLOAD_PHASES_H
#define REMAT_START_OFFLOAD_PHASES_H

#include "start/offload/model.h"

/* {0} is no plan. Owns both members. */
typedef struct offload_plan {
    remat_operations compute; /* F, A, B; a D in it counts for nothing */
    bool *moved;              /* by place: out(v) is v, saved(v) n + v, graph input k 2n + k */
} offload_plan;

remat_status offload_plan_init(offload_plan *ret_plan, const remat_profile *profile,
                               remat_error *error);
void offload_plan_clear(offload_plan *plan);

/* One step of the forward phase: F_all^i (all) or F_ck^i F_none^{i+1} .. F_none^j, and whether the
 * input Z_{i-1} is offloaded. The loss is a step with i = j = n. */
typedef struct offload_step {
    uint32_t i, j;
    bool all, offload;
} offload_step;

/* Forward phase, B^n, then the steps backwards, each sub-chain by `child`: appends the list of
 * C_A(i, j, ..) of step number `step`. */
typedef remat_status (*offload_child)(void *context, size_t step, remat_operations *operations);
remat_status offload_plan_build(offload_plan *plan, const offload_model *model,
                                const offload_step *steps, size_t n_steps, offload_child child,
                                void *context);

#endif
