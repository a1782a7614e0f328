/* Tables of solvers whose schedules follow from one number (a segment length, a number of
 * snapshots): each step remembers that number, its bytes and its makespan; tracing runs the
 * construction again. The functions below fit the members of remat_solver that they are named
 * after. */
#ifndef REMAT_CHAIN_FAMILY_H
#define REMAT_CHAIN_FAMILY_H

#include "chain/chain.h"

/* Appends the schedule of one parameter. context is what remat_family_new or _trace was given. Must
 * survive any parameter: REMAT_CORRUPT. */
typedef remat_status (*remat_family_emit)(const remat_chain *chain, const void *context,
                                          uint64_t parameter, remat_operations *operations,
                                          remat_error *error);

/* Constructs the schedule of each parameter, measures it and keeps those that no other beats. */
remat_status remat_family_new(const remat_chain *chain, remat_family_emit emit, const void *context,
                              const uint64_t *parameters, size_t n_parameters,
                              const remat_host *host, void **ret_table, remat_error *error);

/* Traces a step of the table on the problem's profile. */
remat_status remat_family_trace(const void *table, const remat_problem *problem, size_t step,
                                remat_family_emit emit, const void *context,
                                remat_operations *operations, remat_error *error);

void remat_family_free(void *table);
uint64_t remat_family_bytes(const void *table);
uint64_t remat_family_max_budget(const void *table);
size_t remat_family_n_steps(const void *table);
uint64_t remat_family_step_budget(const void *table, size_t step);
double remat_family_step_makespan(const void *table, size_t step);
remat_status remat_family_save(const void *table, remat_buffer *buffer, remat_error *error);
remat_status remat_family_load(const remat_problem *problem, remat_reader *reader, void **ret_table,
                               remat_error *error);

/* Estimate for a family of n_parameters whose longest list has about n_operations. */
remat_estimate remat_family_estimate(uint32_t n, size_t n_parameters, double n_operations);

#endif
