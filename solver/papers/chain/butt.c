/* butt: precise optimal checkpointing of stage inputs (Butt's thesis, Algorithm 3.4).
 * In the terms of breakpoints.c,
 *
 *   C(s,s,m) = u_b,s                              if m >= delta_s + delta_{s-1} + o_b,s
 *   C(s,t,m) = min over k of C_2(k)
 *
 * which is the recurrence of rotor without C_1. A stage that has saved values, or whose backward
 * reads its output, cannot run backward from its input alone: its leaf is F_all^s, B^s as in rotor;
 * the thesis has no such stages.
 *
 * Corrected: the held gradient of a pass is b_j, not
 * b_i; "recompute everything" is no base case but the choice k = j-1; the table of peaks and the
 * shortcuts "(i,j) fails, so (i,j') fails" and "less than m_min fails" are dropped, the first as
 * superfluous, the others as wrong. */
#include "start/rotor/persistent.h"

static remat_status butt_solve(const remat_problem *problem, const remat_host *host,
                               const remat_sink *sink, remat_error *error)
{
    return chain_persistent_solve(problem, true, host, sink, error);
}

const remat_solver remat_solver_butt = {
    .name = "butt",
    .summary = "The fastest persistent schedule that keeps stage inputs only, never saved values.",
    .source = "Butt: Precise optimal checkpointing for memory-efficient deep learning (thesis)",
    .optimal_for = "persistent schedules that keep nothing but inputs of stages",
    .accepts = REMAT_ACCEPTS_CHAIN | REMAT_BASELINE,
    .options = chain_persistent_options,
    .n_options = CHAIN_PERSISTENT_OPTIONS,
    .class_name = "persistent schedules that keep inputs only",
    .chooses = chain_persistent_chooses,
    .estimate = chain_persistent_estimate,
    .solve = butt_solve,
};
