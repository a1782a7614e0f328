/* Tables of persistent schedules, for rotor and for butt: exact breakpoints where they are small,
 * slots of memory otherwise, with a bound from below in either case. The functions fit the members
 * of remat_solver that they are named after; options are remat_persistent_options. */
#ifndef REMAT_CHAIN_PERSISTENT_H
#define REMAT_CHAIN_PERSISTENT_H

#include "chain/chain.h"

enum { REMAT_PERSISTENT_OPTIONS = 2 };
extern const remat_option remat_persistent_options[REMAT_PERSISTENT_OPTIONS];

remat_status remat_persistent_estimate(const remat_problem *problem, remat_estimate *ret_estimate,
                                       remat_error *error);
/* Whether the table of the problem chooses among alternatives by itself. */
bool remat_persistent_chooses(const remat_problem *problem);

remat_status remat_persistent_tabulate(const remat_problem *problem, bool inputs_only,
                                       const remat_host *host, void **ret_table,
                                       remat_error *error);
void remat_persistent_free(void *table); /* accepts NULL */
uint64_t remat_persistent_bytes(const void *table);
uint64_t remat_persistent_max_budget(const void *table);
size_t remat_persistent_n_steps(const void *table);
uint64_t remat_persistent_step_budget(const void *table, size_t step);
double remat_persistent_step_makespan(const void *table, size_t step);
remat_status remat_persistent_trace(const void *table, const remat_problem *problem, size_t step,
                                    remat_operations *operations, remat_error *error);
double remat_persistent_lower_bound(const void *table, uint64_t budget);
remat_status remat_persistent_save(const void *table, remat_buffer *buffer, remat_error *error);
remat_status remat_persistent_load(const remat_problem *problem, bool inputs_only,
                                   remat_reader *reader, void **ret_table, remat_error *error);

#endif
