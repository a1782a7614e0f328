/* equiv-chain: the baseline of the report (RR-9273). The structure is ignored: all values at the
 * same distance from the turn are one value, all steps at the same distance one step, and the chain
 * that results is solved as a join of one branch (tables.c). */
#include "papers/join/solve.h"

static remat_status equiv_chain_estimate(const remat_problem *problem, remat_estimate *ret_estimate,
                                         remat_error *error)
{
    return join_estimate_tables(problem, true, ret_estimate, error);
}

static remat_status equiv_chain_solve(const remat_problem *problem, const remat_host *host,
                                      const remat_sink *sink, remat_error *error)
{
    return join_solve_tables(problem, true, host, sink, error);
}

const remat_solver remat_solver_equiv_chain = {
    .name = "equiv-chain",
    .summary = "Treats the values at the same distance from the loss as one and solves the chain "
               "that results.",
    .source = "Beaumont, Herrmann, Pallez, Shilova: Optimal Memory-aware Backpropagation of Deep "
              "Join Networks, RR-9273, 2019, EQUIV-CHAIN",
    .optimal_for = "",
    .version = 1, /* every list is judged, not only those its own bytes favour */
    .accepts = REMAT_ACCEPTS_CHAIN | REMAT_ACCEPTS_JOIN | REMAT_BASELINE,
    .options = join_options,
    .n_options = 1,
    .estimate = equiv_chain_estimate,
    .solve = equiv_chain_solve,
};
