/* What every lower-set solver offers: plans (canonical.h), each with the bytes its model counts,
 * equation (2)'s bytes and its makespan, and the bound of bound.h.
 *
 * Makespans need not decrease with nominal budgets. A plan that is slower with more nominal bytes
 * (memory-centric, Chen's segments) may be the one whose replayed peak is the least, and the replay
 * decides (specification, 9). */
#ifndef REMAT_START_LOWERSET_PLANS_H
#define REMAT_START_LOWERSET_PLANS_H

#include "start/lowerset/canonical.h"

typedef struct graph_plans graph_plans;

/* How many plans of a profile of n nodes may be gathered, at most `wanted`: they stay under 80 MiB.
 */
size_t graph_plans_limit(uint32_t n, size_t wanted);

/* Bytes of count plans and of building them. */
uint64_t graph_plans_estimate(const remat_profile *profile, size_t count);

/* Room for capacity plans. Freed by graph_plans_free. */
remat_status graph_plans_new(const remat_profile *profile, size_t capacity, graph_plans **ret_plans,
                             remat_error *error);
void graph_plans_free(graph_plans *plans); /* accepts NULL */

/* Where the caller writes the next plan; false when there is no room left. */
bool graph_plans_room(graph_plans *plans, graph_plan *ret_plan);

/* Trims and adds the plan written there, unless it is there already. */
remat_status graph_plans_add(graph_plans *plans, const graph_view *graph, remat_error *error);

/* Offers all plans, and the bounds of the profile. */
remat_status graph_plans_offer(const graph_plans *plans, const remat_sink *sink,
                               remat_error *error);

#define GRAPH_PLANS_CLASS "schedules without offloading"

#endif
