/* Tables of the join solvers: the operation lists themselves, one for each budget at which the
 * answer changes, and a bound from below by slots of memory. The dynamic program's own tables are
 * many times larger and are given back once their schedules are traced. The functions fit the
 * members of remat_solver that they are named after. */
#ifndef REMAT_JOIN_STEPS_H
#define REMAT_JOIN_STEPS_H

#include "join/tables.h"

typedef struct remat_join_step {
    uint64_t budget; /* bytes, as measured */
    double makespan;
    uint32_t *operations; /* kind << 24 | node; D of saved values: see steps.c */
    size_t n_operations;
} remat_join_step;

/* Owns everything. bound[m]: least makespan in constant_bytes + (m + 1) * unit - 1 bytes. */
typedef struct remat_join_steps {
    remat_join_step *steps;
    size_t n_steps, capacity;
    uint64_t max_budget; /* UINT64_MAX: the last step serves all */
    uint64_t constant_bytes, unit;
    double *bound; /* NULL: store_all is the bound */
    size_t n_bound;
    double store_all; /* makespan */
} remat_join_steps;

remat_join_steps *remat_join_steps_new(const remat_profile *profile); /* NULL: out of memory */
void remat_join_steps_free(void *table);                              /* accepts NULL */

/* Measures a list and adds it; remat_join_steps_sort then keeps what nothing beats. */
remat_status remat_join_steps_add(remat_join_steps *steps, const remat_profile *profile,
                                  const remat_operations *operations, remat_error *error);
void remat_join_steps_sort(remat_join_steps *steps);

uint64_t remat_join_steps_bytes(const void *table);
uint64_t remat_join_steps_max_budget(const void *table);
size_t remat_join_steps_count(const void *table);
uint64_t remat_join_steps_budget(const void *table, size_t step);
double remat_join_steps_makespan(const void *table, size_t step);
remat_status remat_join_steps_trace(const void *table, const remat_problem *problem, size_t step,
                                    remat_operations *operations, remat_error *error);
double remat_join_steps_lower_bound(const void *table, uint64_t budget);
remat_status remat_join_steps_save(const void *table, remat_buffer *buffer, remat_error *error);
remat_status remat_join_steps_load(const remat_problem *problem, remat_reader *reader,
                                   void **ret_table, remat_error *error);

#endif
