/* rotor: the optimal persistent schedule of a heterogeneous chain. The recurrence with paper,
 * equations and corrections is at the head of breakpoints.c; slots.c has it over slots of memory.
 * Beyond the paper: a stage whose backward reads its input only is run backward without a forward
 * before it (chain.h). */
#include "chain/persistent.h"

static remat_status tabulate(const remat_problem *problem, const remat_host *host, void **ret_table,
                             remat_error *error)
{
    return remat_persistent_tabulate(problem, false, host, ret_table, error);
}

static remat_status load(const remat_problem *problem, remat_reader *reader, void **ret_table,
                         remat_error *error)
{
    return remat_persistent_load(problem, false, reader, ret_table, error);
}

const remat_solver remat_solver_rotor = {
    .name = "rotor",
    .summary = "The fastest persistent schedule of a chain, by dynamic programming over bytes.",
    .source = "Beaumont, Eyraud-Dubois, Herrmann, Joly, Shilova: Optimal checkpointing for "
              "heterogeneous chains: how to train deep neural networks with limited memory, 2019",
    .optimal_for = "persistent schedules of a chain: what is kept stays until its backward",
    .accepts = REMAT_ACCEPTS_CHAIN,
    .table_version = 1,
    .options = remat_persistent_options,
    .n_options = REMAT_PERSISTENT_OPTIONS,
    .chooses = remat_persistent_chooses,
    .estimate = remat_persistent_estimate,
    .tabulate = tabulate,
    .table_free = remat_persistent_free,
    .table_bytes = remat_persistent_bytes,
    .table_max_budget = remat_persistent_max_budget,
    .n_steps = remat_persistent_n_steps,
    .step_budget = remat_persistent_step_budget,
    .step_makespan = remat_persistent_step_makespan,
    .trace = remat_persistent_trace,
    .lower_bound = remat_persistent_lower_bound,
    .class_name = "persistent schedules",
    .save = remat_persistent_save,
    .load = load,
};
