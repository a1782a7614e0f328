/* The table of every lower-set solver: a list of plans (plan.h), each with the bytes its model
 * counts, equation (2)'s bytes and its makespan. The functions below fit the members of
 * remat_solver that they are named after.
 *
 * Steps are in increasing order of nominal budget; their makespans need not decrease. A plan that
 * is slower with more nominal bytes (memory-centric, Chen's segments) may be the one whose replayed
 * peak is the least, and the replay decides (specification, 9). */
#ifndef REMAT_GRAPH_PLANS_H
#define REMAT_GRAPH_PLANS_H

#include "graph/bound.h"
#include "graph/plan.h"

typedef struct remat_plans remat_plans;

/* Steps a table may have for a profile of n nodes, at most `wanted`: a table of plans stays under
 * 80 MiB. */
size_t remat_plans_limit(uint32_t n, size_t wanted);

/* Bytes of a table of count plans and of building it. */
uint64_t remat_plans_estimate(const remat_profile *profile, size_t count);

/* An empty table with room for capacity plans. Freed by remat_plans_free. */
remat_status remat_plans_new(const remat_profile *profile, size_t capacity, remat_plans **ret_plans,
                             remat_error *error);

/* Where the caller writes the next plan; false when the table is full. */
bool remat_plans_room(remat_plans *plans, remat_plan *ret_plan);

/* Trims and adds the plan written there. */
remat_status remat_plans_add(remat_plans *plans, const remat_graph *graph, remat_error *error);

/* Sorts the plans and drops doubles. */
remat_status remat_plans_finish(remat_plans *plans, remat_error *error);

/* ---- members of remat_solver ---- */

void remat_plans_free(void *table);
uint64_t remat_plans_bytes(const void *table);
uint64_t remat_plans_max_budget(const void *table);
size_t remat_plans_n_steps(const void *table);
uint64_t remat_plans_step_budget(const void *table, size_t step);
double remat_plans_step_makespan(const void *table, size_t step);
uint64_t remat_plans_model_peak(const void *table, size_t step); /* equation (2) */
remat_status remat_plans_trace(const void *table, const remat_problem *problem, size_t step,
                               remat_operations *operations, remat_error *error);
double remat_plans_lower_bound(const void *table, uint64_t budget);
remat_status remat_plans_save(const void *table, remat_buffer *buffer, remat_error *error);
remat_status remat_plans_load(const remat_problem *problem, remat_reader *reader, void **ret_table,
                              remat_error *error);

enum { REMAT_PLANS_VERSION = 2 }; /* of saved tables */

#define REMAT_PLANS_CLASS "schedules without offloading"

#define REMAT_PLANS_MEMBERS                                                                        \
    .table_version = REMAT_PLANS_VERSION, .table_free = remat_plans_free,                          \
    .table_bytes = remat_plans_bytes, .table_max_budget = remat_plans_max_budget,                  \
    .n_steps = remat_plans_n_steps, .step_budget = remat_plans_step_budget,                        \
    .step_makespan = remat_plans_step_makespan, .model_peak = remat_plans_model_peak,              \
    .trace = remat_plans_trace, .lower_bound = remat_plans_lower_bound,                            \
    .class_name = REMAT_PLANS_CLASS, .bounds_all = true, .save = remat_plans_save,                 \
    .load = remat_plans_load

#endif
