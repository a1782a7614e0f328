/* Tables over batches. Private to api/plan. */
#ifndef REMAT_API_PLAN_SWEEP_H
#define REMAT_API_PLAN_SWEEP_H

#include "plan/plan.h"

/* The members "rows", "largest" and "best" of a plan's answer. budget: bytes left for a step;
 * update: seconds. */
remat_status plan_sweep(const remat_plan_request *request, uint64_t budget, double update,
                        json_t *answer, remat_error *error);

/* The device's way to the host, for a profile in microseconds. */
remat_link plan_link(const remat_device *device);

#endif
