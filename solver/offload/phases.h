/* A plan: what is computed, in order, and what is moved to the host and back; when the transfers
 * run is left to placement (place.h). */
#ifndef REMAT_OFFLOAD_PHASES_H
#define REMAT_OFFLOAD_PHASES_H

#include "offload/model.h"

/* {0} is no plan. Owns both members. */
typedef struct remat_offload_plan {
    remat_operations compute; /* F, A, B; a D in it counts for nothing */
    bool *moved;              /* by place: out(v) is v, saved(v) n + v, graph input k 2n + k */
} remat_offload_plan;

remat_status remat_offload_plan_init(remat_offload_plan *ret_plan, const remat_profile *profile,
                                     remat_error *error);
void remat_offload_plan_clear(remat_offload_plan *plan);

/* Marks Z_{i-1} in form x as moved. */
void remat_offload_plan_move(remat_offload_plan *plan, const remat_offload_model *model, uint32_t i,
                             int x);

/* One step of the forward phase: F_all^i (all) or F_ck^i F_none^{i+1} .. F_none^j, and whether the
 * input Z_{i-1} is offloaded. The loss is a step with i = j = n. */
typedef struct remat_offload_step {
    uint32_t i, j;
    bool all, offload;
} remat_offload_step;

/* Forward phase, B^n, then the steps backwards, each sub-chain by `child`: appends the list of
 * C_A(i, j, ..) of step number `step`. */
typedef remat_status (*remat_offload_child)(void *context, size_t step,
                                            remat_operations *operations);
remat_status remat_offload_plan_build(remat_offload_plan *plan, const remat_offload_model *model,
                                      const remat_offload_step *steps, size_t n_steps,
                                      remat_offload_child child, void *context);

#endif
