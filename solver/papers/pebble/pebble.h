/* Joins of unit sizes with operations in place: the pebble model of the report.
 *
 * A join has k branches; branch j has length l_j and values x_0 .. x_{l_j}. One slot holds one
 * value or one gradient, and c of them may be taken at once. The k values x_0 are there at the
 * start; at the end the gradients at x_0 of the branches with keep[j] are there and nothing else.
 * Backwards run once each, so that makespan = forwards * u_f + sum(l) * u_b + u_t and a table holds
 * forwards alone: one table of k branches serves all lengths up to its edge, all slots up to its
 * own and all times. The mathematics, with what is corrected in it, is at the head of
 * solver/papers/pebble/recurrence.c. */
#ifndef REMAT_PAPERS_PEBBLE_PEBBLE_H
#define REMAT_PAPERS_PEBBLE_PEBBLE_H

#include "remat/bytes.h"
#include "remat/table.h"

enum { REMAT_PEBBLE_BRANCHES = 8, REMAT_PEBBLE_EDGE = 4096, REMAT_PEBBLE_SLOTS = 65535 };
#define REMAT_PEBBLE_INFINITE UINT32_MAX

typedef struct remat_pebble_join {
    uint32_t k;                             /* 1 .. REMAT_PEBBLE_BRANCHES */
    uint32_t length[REMAT_PEBBLE_BRANCHES]; /* l_j <= REMAT_PEBBLE_EDGE */
    bool keep[REMAT_PEBBLE_BRANCHES];       /* b_j */
} remat_pebble_join;

/* t0(n, c): least forwards for the n + 1 backwards of one branch below the turn that start from
 * {x_0, gradient at x_{n+1}}. Closed form. */
uint32_t remat_pebble_chain(uint32_t n, uint32_t slots);

/* c_min: a schedule exists from this number of slots on. */
uint32_t remat_pebble_least_slots(const remat_pebble_join *join);

/* sum(l) + k: from this number of slots on nothing is computed twice. */
uint32_t remat_pebble_most_slots(const remat_pebble_join *join);

/* ---- profiles ---- */

/* What a profile says in pebbles. Profiles do not change the rules of this model: what else a node
 * tells of itself (what its backward reads, whether it is in place, the sizes of the loss) is not
 * read. */
typedef struct remat_pebble_problem {
    remat_pebble_join join;
    const uint32_t *nodes[REMAT_PEBBLE_BRANCHES]; /* [j][i]: the node that F j i runs */
    double forward_time, backward_time, turn_time;
    uint32_t *node_list; /* owned */
} remat_pebble_problem;

/* Accepts a homogeneous join or chain whose outputs, gradients and graph inputs take 1 byte each,
 * with one graph input of its own at the head of every branch; a graph input that the loss itself
 * reads is a branch of length 0. Branches are in the order of their first nodes' inputs in the
 * profile. options.keep_gradients: every gradient at x_0 is kept. REMAT_NOT_ACCEPTED names the node
 * or input and the number. Clear with remat_pebble_problem_clear. */
remat_status remat_pebble_problem_of(const remat_profile *profile, const remat_options *options,
                                     remat_pebble_problem *ret_problem, remat_error *error);
void remat_pebble_problem_clear(remat_pebble_problem *problem);

/* ---- tables ---- */

typedef struct remat_pebble_table remat_pebble_table;

/* Bytes of a table; UINT64_MAX where they do not fit. */
uint64_t remat_pebble_table_bytes(uint32_t k, uint32_t edge, uint32_t slots);

/* The size that a kept table should grow to so that it answers the join with this many slots: what
 * known (NULL: nothing) answers and the join together, each doubled as far as memory_limit (0:
 * none) allows. *ret_updates: inner updates of the recurrence. */
void remat_pebble_table_plan(const remat_pebble_table *known, const remat_pebble_join *join,
                             uint32_t slots, uint64_t memory_limit, uint32_t *ret_edge,
                             uint32_t *ret_slots, double *ret_updates);

/* For k branches of lengths <= edge, any keep, and budgets up to slots. REMAT_INVALID past the
 * limits above, REMAT_TOO_LARGE past the host's memory limit. The caller frees. */
remat_status remat_pebble_table_new(uint32_t k, uint32_t edge, uint32_t slots,
                                    const remat_host *host, remat_pebble_table **ret_table,
                                    remat_error *error);
void remat_pebble_table_free(remat_pebble_table *table); /* accepts NULL */

uint32_t remat_pebble_table_branches(const remat_pebble_table *table);
void remat_pebble_table_size(const remat_pebble_table *table, uint32_t *ret_edge,
                             uint32_t *ret_slots);

/* Whether the table answers this join with this many slots. */
bool remat_pebble_table_covers(const remat_pebble_table *table, const remat_pebble_join *join,
                               uint32_t slots);

/* Least forwards, REMAT_PEBBLE_INFINITE when there is no schedule. The table covers the join. */
uint32_t remat_pebble_forwards(const remat_pebble_table *table, const remat_pebble_join *join,
                               uint32_t slots);

/* The table as bytes, without checksum. load survives any bytes: REMAT_CORRUPT. */
remat_status remat_pebble_table_save(const remat_pebble_table *table, remat_buffer *buffer,
                                     remat_error *error);
remat_status remat_pebble_table_load(remat_reader *reader, const remat_host *host,
                                     remat_pebble_table **ret_table, remat_error *error);

/* ---- schedules ---- */

typedef enum remat_pebble_kind {
    REMAT_PEBBLE_F,  /* x_i becomes x_{i+1} */
    REMAT_PEBBLE_S,  /* a second copy of x_i */
    REMAT_PEBBLE_T,  /* the turn: every x_l becomes its gradient */
    REMAT_PEBBLE_B,  /* x_i and the gradient at x_{i+1} become the gradient at x_i */
    REMAT_PEBBLE_D,  /* one copy of x_i is dropped */
    REMAT_PEBBLE_DB, /* the gradient at x_0 is dropped */
} remat_pebble_kind;

/* Appends the canonical optimal schedule: ties go to the first branch, then the smallest step.
 * REMAT_INFEASIBLE carries c_min in error->number. The caller clears the list, on failure too. */
remat_status remat_pebble_trace(const remat_pebble_table *table, const remat_pebble_join *join,
                                uint32_t slots, remat_steps *operations, remat_error *error);

typedef struct remat_pebble_replay {
    bool valid;
    size_t bad_operation; /* when invalid: the first bad one, or the length of the list */
    const char *reason;   /* when invalid; static */
    uint32_t forwards, backwards, turns;
    uint32_t peak;         /* slots */
    size_t peak_operation; /* first that reaches it */
} remat_pebble_replay;

/* The judge of pebbles: plays the list by the rules above, and nothing else. moments: NULL or room
 * for operations->length entries, of which it fills the memory. Fails with REMAT_NO_MEMORY only. */
remat_status remat_pebble_simulate(const remat_pebble_join *join, const remat_steps *operations,
                                   remat_moment *moments, remat_pebble_replay *ret_replay,
                                   remat_error *error);

/* The same with the problem's times: what remat_simulate says of lists of bytes. */
remat_status remat_pebble_judge(const remat_pebble_problem *problem, const remat_steps *operations,
                                remat_moment *moments, remat_simulation *ret_simulation,
                                remat_error *error);

/* Makespan of storing everything. */
double remat_pebble_store_all(const remat_pebble_problem *problem);

/* A schedule as it leaves the service, its operations in `steps`: traced, judged and compared
 * with what the table promised; the table covers the join. Optimal. REMAT_INFEASIBLE carries c_min
 * in error->number, REMAT_INTERNAL says what the judge found. *ret_schedule is written on success
 * only; clear it with remat_schedule_clear. */
remat_status remat_pebble_solve(const remat_pebble_table *table,
                                const remat_pebble_problem *problem, uint32_t slots,
                                remat_schedule *ret_schedule, remat_error *error);

#endif
