/* What a unit keeps and what it makes again. Private to solver/plan. */
#ifndef REMAT_START_UNITS_H
#define REMAT_START_UNITS_H

#include "remat/plan.h"

/* By node: time per byte that keeping what its backward needs of it saves; < 0: its backward needs
 * nothing, or later units read it anyway. ratio: [n_nodes]. */
void plan_ratios(const remat_profile *profile, const uint32_t *unit, double *ratio);

/* Thresholds worth trying, increasing: the first keeps everything, the last nothing; at most
 * PLAN_LEVELS. ratio: room for n_nodes, written over. */
enum { PLAN_LEVELS = 34 };
uint32_t plan_levels(const remat_profile *profile, const uint32_t *unit, double *ratio,
                     double level[PLAN_LEVELS]);

/* As remat_unit_list, of units in groups, numbered in their order like them: of a group the forward
 * keeps what later groups read and what the thresholds of its units say. Before its backward it
 * runs again for what its units read of one another, and each unit again before its own. */
remat_status plan_grouped_list(const remat_profile *profile, const uint32_t *unit,
                               const uint32_t *group, const double *threshold,
                               remat_operations *ret_list, remat_error *error);

#endif
