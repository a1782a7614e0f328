/* join: canonical schedules of k chains that meet in the loss, with measured costs. The recurrence
 * with paper and corrections is at the head of tables.c; grouping, slots and bounds at that of
 * solve.c. */
#include "papers/join/solve.h"
#include "remat/machine.h"

static remat_status join_estimate(const remat_problem *problem, remat_estimate *ret_estimate,
                                  remat_error *error)
{
    return join_estimate_tables(problem, false, ret_estimate, error);
}

static remat_status join_solve(const remat_problem *problem, const remat_host *host,
                               const remat_sink *sink, remat_error *error)
{
    return join_solve_tables(problem, false, host, sink, error);
}

const remat_solver remat_solver_join = {
    .name = "join",
    .summary = "Canonical schedules of branches that meet in the loss, by dynamic programming over "
               "the position of every branch and the memory left.",
    .source = "Beaumont, Herrmann, Pallez, Shilova: Optimal Memory-aware Backpropagation of Deep "
              "Join Networks, RR-9273, 2019",
    .optimal_for = "joins whose branches have outputs of one size and gradients of one size, save "
                   "nothing and read no output in the backward; any times",
    .version = 1, /* every list is judged, not only those its own bytes favour */
    .accepts = REMAT_ACCEPTS_CHAIN | REMAT_ACCEPTS_JOIN | REMAT_BASELINE_ON_CHAINS,
    .options = join_options,
    .n_options = JOIN_OPTIONS,
    .estimate = join_estimate,
    .class_name = "schedules without offloading",
    .bounds_all = true,
    .solve = join_solve,
    .machine = &remat_pebbles,
    .machine_option = JOIN_OPTION_MODEL,
};
