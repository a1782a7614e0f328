/* rotor: the optimal persistent schedule of a heterogeneous chain (see breakpoints.c for paper,
 * equations and corrections). */
#include "chain/breakpoints.h"

#include <math.h>
#include <stdlib.h>

typedef struct rotor_table {
    remat_chain *chain;
    remat_breakpoints *breakpoints;
} rotor_table;

static void table_free(void *table)
{
    rotor_table *t = table;
    if (!t)
        return;
    remat_breakpoints_free(t->breakpoints);
    remat_chain_free(t->chain);
    free(t);
}

static remat_status estimate(const remat_problem *problem, remat_estimate *ret_estimate,
                             remat_error *error)
{
    (void)error;
    double n = problem->profile->n_nodes;
    *ret_estimate =
        (remat_estimate){.table_bytes = (uint64_t)(n * n / 2 * 4 * n), .updates = n * n * n};
    return REMAT_OK;
}

static remat_status tabulate(const remat_problem *problem, const remat_host *host, void **ret_table,
                             remat_error *error)
{
    rotor_table *t = calloc(1, sizeof *t);
    if (!t)
        return remat_fail_memory(error);
    remat_status status = remat_chain_new(problem->profile, &t->chain, error);
    if (!status)
        status = remat_breakpoints_new(t->chain, false, (remat_breakpoints_limits){0}, host,
                                       &t->breakpoints, error);
    if (status) {
        table_free(t);
        return status;
    }
    *ret_table = t;
    return REMAT_OK;
}

static uint64_t table_bytes(const void *table)
{
    const rotor_table *t = table;
    return sizeof *t + remat_breakpoints_bytes(t->breakpoints) + remat_chain_bytes(t->chain->n);
}

static uint64_t table_max_budget(const void *table)
{
    (void)table;
    return UINT64_MAX;
}

static size_t n_steps(const void *table)
{
    return remat_breakpoints_answer(((const rotor_table *)table)->breakpoints).count;
}

static uint64_t step_budget(const void *table, size_t step)
{
    const rotor_table *t = table;
    return remat_breakpoints_answer(t->breakpoints).points[step].bytes + t->chain->input_bytes;
}

static double step_makespan(const void *table, size_t step)
{
    const rotor_table *t = table;
    return remat_chain_time(t->chain, remat_breakpoints_answer(t->breakpoints).points[step].ticks);
}

static remat_status trace(const void *table, const remat_problem *problem, size_t step,
                          remat_operations *operations, remat_error *error)
{
    (void)problem;
    const rotor_table *t = table;
    uint64_t bytes = remat_breakpoints_answer(t->breakpoints).points[step].bytes;
    return remat_breakpoints_trace(t->breakpoints, t->chain, bytes, operations, error);
}

static double lower_bound(const void *table, uint64_t budget)
{
    double bound = INFINITY;
    for (size_t i = 0; i < n_steps(table) && step_budget(table, i) <= budget; i++)
        bound = step_makespan(table, i);
    return bound;
}

static remat_status save(const void *table, remat_buffer *buffer, remat_error *error)
{
    return remat_breakpoints_save(((const rotor_table *)table)->breakpoints, buffer, error);
}

static remat_status load(const remat_problem *problem, remat_reader *reader, void **ret_table,
                         remat_error *error)
{
    rotor_table *t = calloc(1, sizeof *t);
    if (!t)
        return remat_fail_memory(error);
    remat_status status = remat_chain_new(problem->profile, &t->chain, error);
    if (!status)
        status = remat_breakpoints_load(t->chain, false, reader, &t->breakpoints, error);
    if (status) {
        table_free(t);
        return status;
    }
    *ret_table = t;
    return REMAT_OK;
}

const remat_solver remat_solver_rotor = {
    .name = "rotor",
    .summary = "The fastest persistent schedule of a chain, by dynamic programming over bytes.",
    .source = "Beaumont, Eyraud-Dubois, Herrmann, Joly, Shilova: Optimal checkpointing for "
              "heterogeneous chains, 2019",
    .optimal_for = "persistent schedules of a chain: what is kept stays until its backward",
    .accepts = REMAT_ACCEPTS_CHAIN,
    .table_version = 1,
    .estimate = estimate,
    .tabulate = tabulate,
    .table_free = table_free,
    .table_bytes = table_bytes,
    .table_max_budget = table_max_budget,
    .n_steps = n_steps,
    .step_budget = step_budget,
    .step_makespan = step_makespan,
    .trace = trace,
    .lower_bound = lower_bound,
    .class_name = "persistent schedules",
    .save = save,
    .load = load,
};
