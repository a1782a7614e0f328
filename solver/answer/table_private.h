/* What the files of remat/table.h share. */
#ifndef REMAT_ANSWER_TABLE_PRIVATE_H
#define REMAT_ANSWER_TABLE_PRIVATE_H

#include "model/views.h"
#include "remat/machine.h"

enum { REMAT_VIEWS = 2 };

/* Sums of the same times in another order may differ by this much, relatively. */
#define REMAT_TABLE_ROUNDING 1e-9

/* No schedule of the class within budget is faster than makespan. */
typedef struct answer_table_bound {
    uint64_t budget;
    double makespan;
} answer_table_bound;

struct remat_table {
    const remat_solver *solver;
    const remat_machine *machine; /* NULL: what follows; else raw is its table */
    void *raw;
    remat_point *frontier;
    size_t n_frontier, capacity;
    remat_point *beside; /* lists that hold less than those of the frontier that beat them */
    size_t n_beside, beside_capacity;
    answer_table_bound *bounds; /* budgets increase, makespans decrease, both strictly */
    size_t n_bounds, bounds_capacity;
    uint64_t bytes;                     /* of the lists */
    uint64_t fingerprint;               /* of profile, link and options */
    uint64_t least_budget, most_budget; /* it answers for a max_budget from one to the other */
};

/* The problem as the solver is shown it. Borrows from the problem it was made of. */
typedef struct answer_table_views {
    remat_problem problems[REMAT_VIEWS];
    remat_profile *owned[REMAT_VIEWS]; /* NULL where the problem's own profile is shown */
    unsigned n;                        /* 1: no second view */
} answer_table_views;

/* An empty table of the problem. */
remat_status answer_table_new(const remat_solver *solver, const remat_problem *problem,
                              remat_table **ret_table, remat_error *error);

/* Lets the solver solve one view and keeps of what it offers what nothing else in the table beats.
 */
remat_status answer_table_fill(remat_table *table, const answer_table_views *views, unsigned view,
                               const remat_problem *problem, const remat_host *host,
                               remat_error *error);

/* The table of a machine, of bytes that it saved. */
remat_status answer_load_raw(const remat_solver *solver, const remat_machine *machine,
                             const void *bytes, size_t length, remat_table **ret_table,
                             remat_error *error);

#endif
