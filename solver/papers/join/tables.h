/* The tables of canonical schedules of a join with measured costs, over slots of memory: see
 * tables.c for the recurrence. */
#ifndef REMAT_PAPERS_JOIN_TABLES_H
#define REMAT_PAPERS_JOIN_TABLES_H

#include "papers/join/branches.h"

typedef struct join_setting {
    uint64_t unit;    /* bytes of a slot */
    uint32_t n_slots; /* beyond the constant bytes */
    bool round_up;    /* sizes: up for schedules, down for a bound from below */
} join_setting;

typedef struct join_tables join_tables;

/* Cells of the tables per slot, and inner updates per slot. */
void join_tables_size(const join_costs *join, double *ret_cells, double *ret_updates);

/* join must outlive the tables. The caller frees. */
remat_status join_tables_new(const join_costs *join, const join_setting *setting,
                             const remat_host *host, join_tables **ret_tables, remat_error *error);
void join_tables_free(join_tables *tables); /* accepts NULL */

/* Least time of the whole step for 0 .. n_slots slots; INFINITY where there is none. */
const double *join_tables_answer(const join_tables *tables);

/* Appends the schedule of a slot whose answer is finite. */
remat_status join_tables_trace(const join_tables *tables, uint32_t slot,
                               remat_operations *operations, remat_error *error);

#endif
