/* What the files of remat/table.h share. */
#ifndef REMAT_CORE_TABLE_INSIDE_H
#define REMAT_CORE_TABLE_INSIDE_H

#include "core/views.h"
#include "remat/table.h"

enum { REMAT_VIEWS = 2 };

/* Sums of the same times in another order may differ by this much, relatively. */
#define REMAT_TABLE_ROUNDING 1e-9

/* A solver that does not know alternatives tabulates two views of a profile that has some: what
 * comes of the own one is never worse than without alternatives; the least one gives the bound, and
 * lists for budgets where the own implementations do not fit. */
struct remat_table {
    const remat_solver *solver;
    void *inner[REMAT_VIEWS]; /* the solver's own, by view; NULL: no such view, or not accepted */
    remat_point *frontier;
    size_t n_frontier;
    uint64_t fingerprint; /* of the profile */
    remat_options options;
    bool chooses;  /* the profile has alternatives */
    bool own_view; /* and the solver does not: inner[0] knows the nodes' own ones only */
};

/* The problem as the solver is shown it. Borrows from the problem it was made of. */
typedef struct remat_table_views {
    remat_problem problems[REMAT_VIEWS];
    remat_profile *owned[REMAT_VIEWS]; /* NULL where the problem's own profile is shown */
    unsigned n;                        /* 1: no second view */
} remat_table_views;

remat_status remat_table_views_init(const remat_solver *solver, const remat_problem *problem,
                                    remat_table_views *ret_views, remat_error *error);
void remat_table_views_clear(remat_table_views *views);

remat_status remat_table_new(const remat_solver *solver, const remat_problem *problem,
                             remat_table **ret_table, remat_error *error);

/* The steps of all views are counted through: those of the own one, then those of the least one. */
size_t remat_table_steps(const remat_table *table);
/* The view of a step; *step becomes its number there. */
unsigned remat_table_view_of(const remat_table *table, size_t *step);

/* Fills in the frontier: traces every step and replays it. */
remat_status remat_table_build_frontier(remat_table *table, const remat_table_views *views,
                                        const remat_problem *problem, const remat_host *host,
                                        remat_error *error);

/* The list of a frontier point, and its replay. On success *ret_operations is the caller's. */
remat_status remat_table_realise(const remat_table *table, const remat_table_views *views,
                                 const remat_problem *problem, const remat_point *point,
                                 remat_operations *ret_operations, remat_simulation *ret_simulation,
                                 remat_error *error);

#endif
