/* What a unit keeps and what it makes again. Private to solver/plan. */
#ifndef REMAT_PLAN_UNITS_H
#define REMAT_PLAN_UNITS_H

#include "remat/plan.h"

/* Thresholds worth trying, increasing: the first keeps everything, the last nothing; at most
 * PLAN_LEVELS. ratio: room for n_nodes, written over. */
enum { PLAN_LEVELS = 34 };
uint32_t plan_levels(const remat_profile *profile, const uint32_t *unit, double *ratio,
                     double level[PLAN_LEVELS]);

/* remat_way_solve of REMAT_WAY_REMAT without a link. ret_threshold: by unit, of the list that the
 * result is of. */
remat_status plan_fit(const remat_profile *profile, const uint32_t *unit, uint64_t budget,
                      double *ret_threshold, remat_way_result *ret_result, remat_error *error);

#endif
