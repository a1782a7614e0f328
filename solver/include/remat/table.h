/* From a problem to verified schedules.
 *
 * remat_tabulate runs a solver and replays every list it offers through the simulator. What remains
 * is the *frontier*: the lists no other beats in both replayed peak and replayed makespan. It
 * answers every budget: the best schedule is the last point whose peak fits, the least feasible
 * budget is the first point's peak, and the trade-off curve is the frontier itself. Larger budgets
 * never give slower schedules, by construction. A table is the frontier with its lists, packed, and
 * the solver's lower bound as a staircase over budgets; it is the same kind for every solver.
 *
 * Alternatives. Most solvers know one implementation of each node. Where a profile has alternatives
 * they solve it twice: with the nodes' own implementations, and with every cost of a node at its
 * least. For each list of either, implementations are chosen within several rooms
 * (model/implementations.h), and all of that is replayed. So no budget is served slower than
 * without the alternatives, and bounds come from the second solve, which is at most as slow as any
 * choice. Where a solver chooses by itself (remat_solver.chooses) it solves once; its lists get the
 * same choices on top.
 *
 * In flight. Beside the frontier a table keeps lists that hold less at the turn than those that
 * beat them in peak and makespan (remat/simulate.h), up to REMAT_MOST_BESIDE. remat_table_in_flight
 * makes the table of some number of micro-batches of it, whose peaks are those of all of them.
 *
 * A table does not hold its profile: pass the same one (or an equal one) with every call. Functions
 * with a const table may be called from several threads at once. */
#ifndef REMAT_TABLE_H
#define REMAT_TABLE_H

#include "remat/bytes.h"
#include "remat/layout.h"
#include "remat/solver.h"

typedef struct remat_table remat_table;

typedef struct remat_point {
    uint64_t peak;           /* bytes, replayed: increasing along the frontier */
    uint64_t held;           /* bytes at the turn, replayed */
    double makespan;         /* replayed: strictly decreasing */
    uint64_t nominal_budget; /* as in remat_schedule */
    uint64_t model_peak;
    uint8_t *list; /* the table's own: packed operations */
    size_t list_bytes;
} remat_point;

/* Another schedule that the tables hold than the one handed out. */
typedef struct remat_neighbour {
    const remat_solver *solver; /* NULL: none is known */
    uint64_t peak;
    uint64_t budget; /* that it needs, its arena included; of the least one its peak */
    double makespan;
} remat_neighbour;

typedef struct remat_schedule {
    const remat_solver *solver;
    remat_operations operations;
    remat_steps steps;           /* instead of operations, of another machine (remat/machine.h) */
    remat_simulation simulation; /* the replay of operations: valid, makespan, peak */
    uint64_t nominal_budget;     /* bytes the solver's model counts for it, at most */
    uint64_t model_peak; /* its peak by the paper's own equations; what is true is the replay */
    bool cut_short; /* the host's time was up while it was improved: not what the question's answer
                       is, but the best until then */
    remat_optimality optimality;
    const char *class_name;  /* among whom it is optimal, where it is; static */
    double lower_bound;      /* on the makespan at the budget asked for; at most the makespan */
    const char *bound_class; /* of whom; static */
    remat_layout layout;     /* empty where none was asked for */
    uint64_t reordered_peak; /* of a joint graph: the least peak known of a list that runs nothing
                                twice; 0: not looked for */
    remat_neighbour least;   /* the smallest of all tables asked, then the fastest */
    remat_neighbour next;    /* the smallest that saves a hundredth or more of the overhead: asked
                                with its budget, the same solvers answer no slower. Tables that
                                serve one budget only have no part in it */
} remat_schedule;

/* Checks that the solver accepts the problem, refuses by the estimate (REMAT_TOO_LARGE names both
 * numbers) before anything is allocated, solves and verifies. A list that the simulator rejects or
 * whose replay is slower than predicted is a bug: REMAT_INTERNAL names solver and list. */
remat_status remat_tabulate(const remat_solver *solver, const remat_problem *problem,
                            const remat_host *host, remat_table **ret_table, remat_error *error);

/* Whether that table, with problem->in_flight, has a list within the budget: where it has, in a
 * part of its time. The host, which may be NULL, is asked whether it cancels. */
remat_status remat_reaches(const remat_solver *solver, const remat_problem *problem,
                           uint64_t budget, const remat_host *host, bool *ret_reaches,
                           remat_error *error);

/* The same; a table of another machine (remat/machine.h) is to answer what known, one of the same
 * name, answers too. known: of the same solver and machine, or NULL. */
remat_status remat_extend_table(const remat_table *known, const remat_solver *solver,
                                const remat_problem *problem, const remat_host *host,
                                remat_table **ret_table, remat_error *error);

/* The table of so many micro-batches in flight, of one made without. Where there are several,
 * schedules of it are for problems that say the same number. The caller frees it. */
remat_status remat_table_in_flight(const remat_table *table, uint32_t in_flight,
                                   remat_table **ret_table, remat_error *error);

#define REMAT_MOST_BESIDE 512u

void remat_table_free(remat_table *table); /* accepts NULL */

const remat_solver *remat_table_solver(const remat_table *table);
uint64_t remat_table_bytes(const remat_table *table); /* memory it holds */
/* Whether it answers the problem, which is of the same profile and options, as a table made for
 * just that would: a table whose solver cut its slots from the problem's max_budget serves that one
 * only.
 */
bool remat_table_serves(const remat_table *table, const remat_problem *problem);
const remat_point *remat_table_frontier(const remat_table *table, size_t *ret_count);

/* Index of the last frontier point that fits budget, or -1 when none does. */
ptrdiff_t remat_table_point(const remat_table *table, uint64_t budget);

/* The lower_bound that a schedule of this makespan at this budget carries. */
double remat_table_lower_bound(const remat_table *table, const remat_profile *profile,
                               uint64_t budget, double makespan);

/* The best schedule within budget, replayed again now: REMAT_CORRUPT when it is not what it was. Of
 * another machine one of its own, judged.
 * REMAT_INFEASIBLE carries the least budget in error->number (0 when the table has no schedule at
 * all). *ret_schedule is written on success only; clear it with remat_schedule_clear. */
remat_status remat_table_schedule(const remat_table *table, const remat_problem *problem,
                                  uint64_t budget, remat_schedule *ret_schedule,
                                  remat_error *error);

/* The schedule of one frontier point, whose peak fits budget, replayed again now; what is claimed
 * of it is claimed at budget. */
remat_status remat_table_trace(const remat_table *table, const remat_problem *problem, size_t index,
                               uint64_t budget, remat_schedule *ret_schedule, remat_error *error);

void remat_schedule_clear(remat_schedule *schedule);

/* The table as bytes: magic, versions, solver, fingerprint of profile, link and options, bounds,
 * frontier, checksum; little endian everywhere. buffer must be empty. */
remat_status remat_table_save(const remat_table *table, remat_buffer *buffer, remat_error *error);

/* Reads what remat_table_save wrote for the same solver and problem. REMAT_CORRUPT for damaged
 * bytes, REMAT_NEWER for another version of format or solver, REMAT_INVALID for another problem. */
remat_status remat_table_load(const remat_solver *solver, const remat_problem *problem,
                              const void *bytes, size_t length, remat_table **ret_table,
                              remat_error *error);

/* remat_solver.estimate of all that remat_tabulate computes: for most solvers two solves where the
 * profile has alternatives. */
remat_status remat_estimate_table(const remat_solver *solver, const remat_problem *problem,
                                  remat_estimate *ret_estimate, remat_error *error);

/* Peak of storing everything, with so many micro-batches in flight. */
remat_status remat_store_all_in_flight(const remat_profile *profile, uint32_t in_flight,
                                       uint64_t *ret_peak, remat_error *error);

/* The least makespan any schedule of the profile can have: every node forward and backward once,
 * with the implementations that take the least time together. */
double remat_store_all_makespan(const remat_profile *profile);

/* ---- several solvers, one question ---- */

#define REMAT_MAX_SOLVERS 64

/* Index of the table whose schedule within budget is fastest, then smallest, then earliest; -1 when
 * none has one. *ret_least: the least budget that any of them can serve, 0 if none can any. */
ptrdiff_t remat_best_table(const remat_table *const *tables, size_t n, uint64_t budget,
                           uint64_t *ret_least);

/* The schedule to hand out: the fastest, then smallest, of all tables that fits budget. With
 * alignment > 0 every value gets an address and what must fit is the arena: while it does not, the
 * next smaller schedule is laid out. REMAT_INFEASIBLE carries in error->number a budget that would
 * do; name is who failed. Of problem only profile and link are read. *ret_schedule is written on
 * success only. */
remat_status remat_best_schedule(const remat_table *const *tables, size_t n, const char *name,
                                 const remat_problem *problem, uint64_t budget, uint32_t alignment,
                                 remat_schedule *ret_schedule, remat_error *error);

/* The least peak that any of the tables reaches, 0 if none has a schedule, and the budget that this
 * schedule needs: its arena, or with alignment 0 its peak. */
remat_status remat_least_budget(const remat_table *const *tables, size_t n,
                                const remat_problem *problem, uint32_t alignment,
                                uint64_t *ret_peak, uint64_t *ret_budget, remat_error *error);

/* REMAT_INFEASIBLE with the least budget (0: not known) in error->number. */
remat_status remat_fail_infeasible(const char *solver, const remat_problem *problem,
                                   uint64_t budget, uint64_t least, remat_error *error);

/* Peak of storing everything, at the makespan of remat_store_all_makespan, by replay. */
remat_status remat_store_all_peak(const remat_profile *profile, uint64_t *ret_peak,
                                  remat_error *error);

#endif
