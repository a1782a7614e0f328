/* What would fit in place of what does not. Private to api/plan. */
#ifndef REMAT_API_PLAN_NEAREST_H
#define REMAT_API_PLAN_NEAREST_H

#include "plan/plan.h"

/* Changes of a model's request with each of which alone a step fits by per-block checkpointing
 * (a small one by thresholds, REMAT_WAY_REMAT), with a twentieth of its activations left for
 * addresses: the one that changes least of a kind, the kinds by what they cost, cheapest first.
 * Each was planned; an array, empty where none does. NULL where the request itself fits so. */
remat_status api_nearest(const remat_plan_request *request, json_t **ret_changes,
                         remat_error *error);

#endif
