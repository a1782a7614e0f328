/* What a unit keeps and what it makes again. Private to solver/plan. */
#ifndef REMAT_START_UNITS_H
#define REMAT_START_UNITS_H

#include "remat/plan.h"

/* Thresholds worth trying, increasing: the first keeps everything, the last nothing; at most
 * PLAN_LEVELS. ratio: room for n_nodes, written over. */
enum { PLAN_LEVELS = 34 };
uint32_t plan_levels(const remat_profile *profile, const uint32_t *unit, double *ratio,
                     double level[PLAN_LEVELS]);

#endif
