/* Which tables answer a problem: how branches are grouped, how many slots there are, and which
 * bound may be claimed. Shared by the solvers join and equiv-chain. */
#ifndef REMAT_PAPERS_JOIN_SOLVE_H
#define REMAT_PAPERS_JOIN_SOLVE_H

#include "papers/join/tables.h"

/* The options of join; equiv-chain has the first alone. */
enum {
    JOIN_OPTION_SLOTS,
    JOIN_OPTION_MODEL, /* 0: allocator, 1: pebble */
    JOIN_OPTION_KEEP,
    JOIN_OPTIONS
};
extern const remat_option join_options[JOIN_OPTIONS];
extern const remat_solver remat_solver_join;
/* papers/pebble/machine.c */
extern const remat_machine remat_pebbles;

/* merged: all branches as one (equiv-chain), and no bound but store-all. */
remat_status join_estimate_tables(const remat_problem *problem, bool merged,
                                  remat_estimate *ret_estimate, remat_error *error);
/* As remat_solver.solve. */
remat_status join_solve_tables(const remat_problem *problem, bool merged, const remat_host *host,
                               const remat_sink *sink, remat_error *error);

#endif
