/* Samples per second over batches, by every way through a step: the largest batch, the best one.
 * Private to api/plan. */
#ifndef REMAT_API_PLAN_SWEEP_H
#define REMAT_API_PLAN_SWEEP_H

#include "plan/plan.h"

/* Rows of a model by the lists of remat_way_solve. budget: bytes left for a step; update: seconds.
 * The request is read meanwhile only. The caller frees. */
remat_status plan_sweep_new(const remat_plan_request *request, uint64_t budget, double update,
                            plan_sweep **ret_sweep, remat_error *error);
void plan_sweep_free(plan_sweep *sweep); /* accepts NULL */

/* A schedule of the batch that was asked for takes the place of what those lists gave in its row. */
void plan_sweep_settle(plan_sweep *sweep, const remat_way_result *result, bool offloaded);

/* Whether a row says that the batch asked for fits. Rows are without addresses and of lists that
 * know the model's blocks: there may be no schedule that fits with its addresses. */
bool plan_sweep_fits(plan_sweep *sweep);

/* The members "rows", "largest" and "best_batch" of a plan's answer. */
void plan_sweep_encode(const plan_sweep *sweep, json_t *answer, bool *failed);

#endif
