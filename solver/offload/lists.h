/* The table of every solver that moves values: whole operation lists, each replayed, none slower
 * and larger than another. The functions at the end fit the members of remat_solver that they are
 * named after. */
#ifndef REMAT_OFFLOAD_LISTS_H
#define REMAT_OFFLOAD_LISTS_H

#include "offload/place.h"

typedef struct remat_lists remat_lists;

/* An empty table for the problem. */
remat_status remat_lists_new(const remat_problem *problem, remat_lists **ret_lists,
                             remat_error *error);

/* Passes a list through liveness and states, replays it, keeps it if it fits the problem's largest
 * budget and no kept list is at least as good. A list that the simulator rejects is left out. */
remat_status remat_lists_consider(remat_lists *lists, const remat_problem *problem,
                                  const remat_operations *operations, remat_error *error);

/* The same for what `make` appends for each index < count, on the host's workers. make returns
 * REMAT_INFEASIBLE, without a message, where there is no list. */
typedef remat_status (*remat_lists_make)(void *context, size_t index, remat_operations *operations,
                                         remat_error *error);
remat_status remat_lists_gather(remat_lists *lists, const remat_problem *problem,
                                const remat_host *host, size_t count, remat_lists_make make,
                                void *context, remat_error *error);

/* Makespan of the best list within budget; INFINITY when there is none. */
double remat_lists_best(const remat_lists *lists, uint64_t budget);

/* ---- members of remat_solver ---- */

void remat_lists_free(void *table);
uint64_t remat_lists_bytes(const void *table);
uint64_t remat_lists_max_budget(const void *table);
size_t remat_lists_n_steps(const void *table);
uint64_t remat_lists_step_budget(const void *table, size_t step);
double remat_lists_step_makespan(const void *table, size_t step);
remat_status remat_lists_trace(const void *table, const remat_problem *problem, size_t step,
                               remat_operations *operations, remat_error *error);
remat_status remat_lists_save(const void *table, remat_buffer *buffer, remat_error *error);
/* REMAT_INVALID for a table of another link. */
remat_status remat_lists_load(const remat_problem *problem, remat_reader *reader, void **ret_table,
                              remat_error *error);

#endif
