/* Samples per second over batches, by every way through a step: the largest batch, the best one.
 * Private to api/plan. */
#ifndef REMAT_API_PLAN_SWEEP_H
#define REMAT_API_PLAN_SWEEP_H

#include "plan/plan.h"

/* Rows of a model by the lists of remat_way_solve. table: of a step, of which only the graph's hole
 * is another of other batches; update: seconds. The request is read meanwhile only. The caller
 * frees. */
remat_status api_sweep_new(const remat_plan_request *request, const remat_step_table *table,
                           double update, api_sweep **ret_sweep, remat_error *error);
void api_sweep_free(api_sweep *sweep); /* accepts NULL */

/* A schedule of the batch that was asked for takes the place of what those lists gave in its
 * row; beside: seconds of the step beside its makespan. */
void api_sweep_settle(api_sweep *sweep, const remat_way_result *result, double beside,
                      bool offloaded);

/* Whether a row says that the batch asked for fits, with offloading or without. Rows are without
 * addresses and of lists that know the model's blocks: there may be no schedule that fits with its
 * addresses. */
bool api_sweep_fits(api_sweep *sweep, bool offloaded);

/* The members "rows", "largest" and "best_batch" of a plan's answer. */
void api_sweep_encode(const api_sweep *sweep, json_t **answer);

#endif
