/* rotor: the optimal persistent schedule of a heterogeneous chain. The recurrence with paper,
 * equations and corrections is at the head of breakpoints.c; slots.c has it over slots of memory.
 * Beyond the paper: a stage whose backward reads its input only is run backward without a forward
 * before it (chain.h). */
#include "start/rotor/persistent.h"

static remat_status rotor_solve(const remat_problem *problem, const remat_host *host,
                                const remat_sink *sink, remat_error *error)
{
    return chain_persistent_solve(problem, false, host, sink, error);
}

const remat_solver remat_solver_rotor = {
    .name = "rotor",
    .summary = "The fastest persistent schedule of a chain, by dynamic programming over bytes.",
    .source = "Beaumont, Eyraud-Dubois, Herrmann, Joly, Shilova: Optimal checkpointing for "
              "heterogeneous chains: how to train deep neural networks with limited memory, 2019",
    .optimal_for = "persistent schedules of whole stages: from its forward to its backward a stage "
                   "keeps its output and all it saves, or its input, or nothing",
    .accepts = REMAT_ACCEPTS_CHAIN,
    .options = chain_persistent_options,
    .n_options = CHAIN_PERSISTENT_OPTIONS,
    .class_name = "persistent schedules of whole stages",
    .chooses = chain_persistent_chooses,
    .estimate = chain_persistent_estimate,
    .solve = rotor_solve,
};
