/* A join as the recurrences see it: k branches of steps that end in the loss. A chain is a join of
 * one branch; a loss alone has none. Step (j, i), 0 <= i < l_j, computes x_{i+1} from x_i; x_0 is a
 * graph input, which is resident and counted in constant_bytes, so that its size here is 0.
 *
 * A branch may stand for several branches of the profile: the steps at the same distance from the
 * turn are then one step of the sum of their sizes and times. What such a step counts is never less
 * than what its nodes, run one after the other, hold. */
#ifndef REMAT_PAPERS_JOIN_BRANCHES_H
#define REMAT_PAPERS_JOIN_BRANCHES_H

#include "model/arena.h"
#include "model/numbers.h"
#include "remat/solver.h"

#define JOIN_NONE UINT32_MAX

/* By step, except output and held: by value, 0 .. length. */
typedef struct join_branch {
    uint32_t length, width;
    uint64_t *output;            /* x_i */
    uint64_t *held;              /* gradients while that at x_i is alive: g_i and the gradients of
                                    graph inputs that later steps have started */
    uint64_t *made;              /* what B_i allocates: g_i, graph inputs' gradients, workspace */
    uint64_t *saved;             /* sv_i */
    uint64_t *forward_workspace; /* of F */
    uint64_t *save_workspace;    /* of the forward before B_i: A, or F where nothing is saved */
    double *forward, *backward;
    bool *uses_output;
    uint32_t *nodes; /* [i * width + a]: node of the profile, or JOIN_NONE */
    bool plain;      /* all its backwards read inputs, none is in place, no output is read, nothing
                        saved, no A leaner than the F, equal sizes: a candidate for the exact
                        class */
} join_branch;

typedef struct join_costs {
    const remat_profile *profile;
    uint32_t k;
    join_branch *branches;
    uint64_t constant_bytes; /* graph inputs, and gradients of those that several branches read */
    bool shared_gradients;   /* the latter are not 0 */
    uint32_t loss;
    uint64_t loss_output; /* and what it saves */
    uint64_t loss_kept; /* the same through the loss's backward: an output that it does not read is
                           dropped before */
    uint64_t loss_forward, loss_backward; /* workspace; gradient and workspace */
    double loss_time;
    model_arena arena;
} join_costs;

/* Every branch of the profile by itself. The caller frees. */
remat_status join_new(const remat_profile *profile, join_costs **ret_join, remat_error *error);

/* Branches with equal group[j] < n_groups become one. Only of what join_new made, whose arrays the
 * result does not share. */
remat_status join_merge(const join_costs *join, const uint32_t *group, uint32_t n_groups,
                        join_costs **ret_join, remat_error *error);
/* The same of one branch, without the others. */
remat_status join_alone(const join_costs *join, uint32_t branch, join_costs **ret_join,
                        remat_error *error);
void join_free(join_costs *join); /* accepts NULL */

/* Whether canonical schedules are optimal among all (the conditions are at the head of
 * tables.c). */
bool join_exact(const join_costs *join);

/* Greatest common divisor of all sizes; 1 when all are 0. */
uint64_t join_unit(const join_costs *join);

/* Appends the forward and backward of the loss and the drop of its output. */
remat_status join_push_turn(const join_costs *join, remat_operations *operations);

/* Bytes (constant ones included) and time of a list of F, A, B and D of outputs and saved values,
 * in place ignored.
 * Survives any list of existing nodes. */
remat_status join_measure(const remat_profile *profile, const remat_operations *operations,
                          uint64_t *ret_bytes, double *ret_time, remat_error *error);

#endif
