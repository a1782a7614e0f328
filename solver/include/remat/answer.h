/* One way from question to answer, asked of one solver or of all that fit: `auto`. Server, --local
 * and executor answer by remat_answer and differ in one thing only, where a table comes from: each
 * may keep tables and says so by a hook.
 *
 * auto asks every solver that accepts the problem, is no mere baseline, whose estimate is within
 * the host's limit of memory and takes no more than seconds. One that passes a limit while it runs
 * is left out as well, as long as another has a table. Of all tables the fastest schedule within
 * the budget answers, then the smallest, then that of the cheapest solver; then the improver
 * (remat/improve.h) betters it at the very budget that was asked for. A joint graph it asks the
 * improved solver twice, for any order and for the given one. So the answer depends on the question
 * alone. */
#ifndef REMAT_ANSWER_H
#define REMAT_ANSWER_H

#include "remat/improve.h"
#include "remat/machine.h"
#include "remat/table.h"

/* Part of the identity of auto's questions: counts up when its answers change. */
#define REMAT_PORTFOLIO_VERSION 27u

typedef struct remat_held_table {
    const remat_table *table;
    void *handle; /* the source's own */
} remat_held_table;

/* Where tables come from; no source: each is made, and freed by the portfolio. */
typedef struct remat_table_source {
    void *data;
    /* A table of the solver that serves the problem, kept or made now; none, with REMAT_OK, where
     * none is kept and none may be made. REMAT_TOO_LARGE where it passes a limit, of time too.
     * Several workers of the host call it at once; host is the part of it that this table may use.
     */
    remat_status (*get)(void *data, const remat_solver *solver, const remat_problem *problem,
                        const remat_host *host, remat_held_table *ret_held, remat_error *error);
    void (*release)(void *data, remat_held_table held);
} remat_table_source;

typedef struct remat_portfolio {
    const char *name; /* who answers: a solver or "auto" */
    const remat_table_source *source;
    const remat_table *tables[REMAT_MAX_SOLVERS]; /* of the cheapest solver first */
    remat_held_table held[REMAT_MAX_SOLVERS];     /* the same, as they were got */
    remat_table *owned[REMAT_MAX_SOLVERS];        /* of several in flight: what tables are then */
    bool given[REMAT_MAX_SOLVERS]; /* its lists keep the order of a joint graph's nodes */
    size_t n;
    bool improved;  /* answers go through the improver */
    double missing; /* expected updates of those that were not to be had */
} remat_portfolio;

/* The tables that answer a problem: of solver with the problem's options, or with NULL of auto's
 * solvers with their defaults. On failure nothing is held. */
remat_status remat_portfolio_gather(const remat_solver *solver, const remat_problem *problem,
                                    const remat_host *host, const remat_table_source *source,
                                    remat_portfolio *ret_portfolio, remat_error *error);
void remat_portfolio_release(remat_portfolio *portfolio); /* accepts {0} */

/* The schedule to hand out: that of remat_best_schedule and, where answers are improved, what the
 * improver makes of it at this budget with that effort; the solver of a better list is `interval`.
 * The lower bound is then the largest that holds for every schedule without offloading. host may be
 * NULL. */
remat_status remat_portfolio_schedule(const remat_portfolio *portfolio,
                                      const remat_problem *problem, uint64_t budget,
                                      uint32_t alignment, remat_effort effort,
                                      const remat_host *host, remat_schedule *ret_schedule,
                                      remat_error *error);

/* ---- the whole way ---- */

/* What is asked. */
typedef struct remat_query {
    const remat_solver *solver; /* NULL: auto */
    remat_problem problem;      /* max_budget: the budget, of a curve the largest one */
    bool curve;                 /* the tables alone are wanted, no schedule */
    uint64_t budget;            /* bytes, or units of the machine that the options ask for */
    uint32_t alignment;         /* of the layout; 0: none */
    remat_effort effort;
} remat_query;

/* What a query comes to. Some of its members may be there beside a failure; clear it in any case.
 */
typedef struct remat_answered {
    remat_schedule schedule;   /* {0} of a curve, and where tables are missing */
    remat_portfolio portfolio; /* the tables asked, held until this is cleared */
} remat_answered;

/* Gathers tables and makes the schedule of them. tables NULL: each is made. Where the source has
 * not all that it was asked for, portfolio.missing is not 0 and there is no schedule.
 * *ret_answered: {0} before. host and tables outlive it. */
remat_status remat_answer(const remat_query *query, const remat_host *host,
                          const remat_table_source *tables, remat_answered *ret_answered,
                          remat_error *error);
void remat_answered_clear(remat_answered *answered);

/* ---- what a curve and a refusal say beside it ---- */

/* For a curve, within each of some budgets (bytes, in any order), the largest bound known of every
 * schedule without O and P: by the tables and by single moments, those at a few budgets where there
 * are many. Where a table's solver offloads: the bound of the class of the fastest, as its schedule
 * carries it, or what no schedule is faster than. ret_bounds: room for n_budgets. */
remat_status remat_lower_bounds(const remat_table *const *tables, size_t n,
                                const remat_profile *profile, const uint64_t *budgets,
                                size_t n_budgets, double *ret_bounds, remat_error *error);

/* The same of one budget with so many micro-batches in flight, by single moments alone: INFINITY,
 * nothing fits. A lower bound of every schedule within the budget, without O and P. *kept: what was
 * found of the profile, for other budgets, NULL in the beginning; kept NULL: one budget is all. */
typedef struct bound_moments remat_moments;
remat_status remat_least_makespan(const remat_profile *profile, remat_moments **kept,
                                  uint64_t budget, uint32_t in_flight, double *ret_makespan,
                                  remat_error *error);
void remat_moments_free(remat_moments *kept); /* accepts NULL */

/* What every schedule without O and P holds at some moment whatever its order: bytes that none does
 * without, and the moment that says so. bytes 0: too many nodes to look. */
typedef struct remat_floor {
    uint64_t bytes;
    uint32_t node;
    bool forward; /* during its last forward (of a joint graph its first); else its backward */
    bool last; /* during its run, where it comes last of a joint graph's: all results are there */
} remat_floor;

remat_status remat_find_floor(const remat_profile *profile, remat_floor *ret_floor,
                              remat_error *error);

#endif
