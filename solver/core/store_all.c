/* store-all: every node forward once with everything saved, every node backward once. The makespan
 * is a lower bound for every schedule; after liveness the peak is the store-all peak the service
 * reports. */
#include "remat/solver.h"
#include "remat/table.h"

#include <stdlib.h>

/* Nothing need be remembered but the two numbers of the one step. */
typedef struct store_all_table {
    uint64_t budget;
    double makespan;
} store_all_table;

static remat_status estimate(const remat_problem *problem, remat_estimate *ret_estimate,
                             remat_error *error)
{
    (void)error;
    *ret_estimate = (remat_estimate){.table_bytes = sizeof(store_all_table),
                                     .updates = problem->profile->n_nodes};
    return REMAT_OK;
}

/* All values, and at worst all gradients and the two largest workspaces beside them. */
static uint64_t everything_bytes(const remat_profile *profile)
{
    uint64_t bytes = profile->input_bytes;
    for (uint32_t v = 0; v < profile->n_nodes; v++) {
        const remat_node *node = &profile->nodes[v];
        bytes += node->output_bytes + node->saved_bytes + node->gradient_bytes;
    }
    return bytes;
}

static remat_status tabulate(const remat_problem *problem, const remat_host *host, void **ret_table,
                             remat_error *error)
{
    (void)host;
    store_all_table *table = malloc(sizeof *table);
    if (!table)
        return remat_fail_memory(error);
    *table = (store_all_table){.budget = everything_bytes(problem->profile),
                               .makespan = remat_store_all_makespan(problem->profile)};
    *ret_table = table;
    return REMAT_OK;
}

static uint64_t table_bytes(const void *table)
{
    (void)table;
    return sizeof(store_all_table);
}

static uint64_t table_max_budget(const void *table)
{
    (void)table;
    return UINT64_MAX;
}

static size_t n_steps(const void *table)
{
    (void)table;
    return 1;
}

static uint64_t step_budget(const void *table, size_t step)
{
    (void)step;
    return ((const store_all_table *)table)->budget;
}

static double step_makespan(const void *table, size_t step)
{
    (void)step;
    return ((const store_all_table *)table)->makespan;
}

static remat_status trace(const void *table, const remat_problem *problem, size_t step,
                          remat_operations *operations, remat_error *error)
{
    (void)table;
    (void)step;
    uint32_t n = problem->profile->n_nodes;
    for (uint32_t v = 0; v < n; v++)
        if (remat_push(operations, problem->profile->nodes[v].saved_bytes ? REMAT_A : REMAT_F, v))
            return remat_fail_memory(error);
    for (uint32_t v = n; v-- > 0;)
        if (remat_push(operations, REMAT_B, v))
            return remat_fail_memory(error);
    return REMAT_OK;
}

static double lower_bound(const void *table, uint64_t budget)
{
    (void)budget;
    return ((const store_all_table *)table)->makespan;
}

static remat_status save(const void *table, remat_buffer *buffer, remat_error *error)
{
    const store_all_table *t = table;
    if (remat_buffer_put_u64(buffer, t->budget) || remat_buffer_put_f64(buffer, t->makespan))
        return remat_fail_memory(error);
    return REMAT_OK;
}

static remat_status load(const remat_problem *problem, remat_reader *reader, void **ret_table,
                         remat_error *error)
{
    uint64_t budget = remat_reader_u64(reader);
    double makespan = remat_reader_f64(reader);
    if (reader->failed || makespan != remat_store_all_makespan(problem->profile))
        return remat_fail(error, REMAT_CORRUPT, NULL, "store-all table is damaged");
    store_all_table *table = malloc(sizeof *table);
    if (!table)
        return remat_fail_memory(error);
    *table = (store_all_table){.budget = budget, .makespan = makespan};
    *ret_table = table;
    return REMAT_OK;
}

const remat_solver remat_solver_store_all = {
    .name = "store-all",
    .summary = "Keeps every value until its last use; computes nothing twice.",
    .source = "the usual backpropagation; the baseline of every paper",
    .optimal_for = "the makespan, whenever it fits",
    .accepts = REMAT_ACCEPTS_ANY_SHAPE,
    .table_version = 1,
    .estimate = estimate,
    .tabulate = tabulate,
    .table_free = free,
    .table_bytes = table_bytes,
    .table_max_budget = table_max_budget,
    .n_steps = n_steps,
    .step_budget = step_budget,
    .step_makespan = step_makespan,
    .trace = trace,
    .lower_bound = lower_bound,
    .class_name = "all schedules",
    .save = save,
    .load = load,
};
