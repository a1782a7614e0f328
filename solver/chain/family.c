#include "chain/family.h"

#include <math.h>
#include <stdlib.h>

typedef struct family_step {
    uint64_t budget, parameter;
    double makespan;
} family_step;

typedef struct family {
    size_t n_steps;
    family_step steps[];
} family;

static family *family_allocate(size_t n_steps)
{
    if (n_steps > (SIZE_MAX - sizeof(family)) / sizeof(family_step))
        return NULL;
    family *table = malloc(sizeof *table + n_steps * sizeof *table->steps);
    if (table)
        table->n_steps = n_steps;
    return table;
}

static int by_budget(const void *left, const void *right)
{
    const family_step *a = left, *b = right;
    if (a->budget != b->budget)
        return a->budget < b->budget ? -1 : 1;
    return (a->makespan > b->makespan) - (a->makespan < b->makespan);
}

/* Keeps the steps with increasing budget and strictly decreasing makespan. */
static void keep_best(family *table)
{
    qsort(table->steps, table->n_steps, sizeof *table->steps, by_budget);
    size_t kept = 0;
    double best = INFINITY;
    for (size_t i = 0; i < table->n_steps; i++)
        if (table->steps[i].makespan < best) {
            best = table->steps[i].makespan;
            table->steps[kept++] = table->steps[i];
        }
    table->n_steps = kept;
}

static remat_status measure_steps(const remat_chain *chain, remat_family_emit emit,
                                  const void *context, const uint64_t *parameters, family *table,
                                  const remat_host *host, remat_error *error)
{
    remat_operations operations = {0};
    remat_status status = REMAT_OK;
    for (size_t i = 0; i < table->n_steps && !status; i++) {
        if (remat_host_cancelled(host)) {
            status = remat_fail(error, REMAT_CANCELLED, NULL, "cancelled");
            break;
        }
        operations.length = 0;
        status = emit(chain, context, parameters[i], &operations, error);
        if (status)
            break;
        uint64_t bytes;
        int64_t ticks;
        remat_chain_measure(chain, &operations, &bytes, &ticks);
        table->steps[i] = (family_step){.budget = bytes,
                                        .parameter = parameters[i],
                                        .makespan = remat_chain_makespan(chain, ticks)};
        remat_host_progress(host, (double)(i + 1) / (double)table->n_steps);
    }
    remat_operations_clear(&operations);
    return status;
}

remat_status remat_family_new(const remat_chain *chain, remat_family_emit emit, const void *context,
                              const uint64_t *parameters, size_t n_parameters,
                              const remat_host *host, void **ret_table, remat_error *error)
{
    family *table = family_allocate(n_parameters);
    if (!table)
        return remat_fail_memory(error);
    remat_status status = measure_steps(chain, emit, context, parameters, table, host, error);
    if (status) {
        free(table);
        return status;
    }
    keep_best(table);
    *ret_table = table;
    return REMAT_OK;
}

remat_status remat_family_trace(const void *table, const remat_problem *problem, size_t step,
                                remat_family_emit emit, const void *context,
                                remat_operations *operations, remat_error *error)
{
    remat_chain *chain = NULL;
    remat_status status = remat_chain_new(problem->profile, &chain, error);
    if (status)
        return status;
    uint64_t parameter = ((const family *)table)->steps[step].parameter;
    status = emit(chain, context, parameter, operations, error);
    remat_chain_free(chain);
    return status;
}

void remat_family_free(void *table)
{
    free(table);
}

uint64_t remat_family_bytes(const void *table)
{
    const family *t = table;
    return sizeof *t + t->n_steps * sizeof *t->steps;
}

uint64_t remat_family_max_budget(const void *table)
{
    (void)table;
    return UINT64_MAX;
}

size_t remat_family_n_steps(const void *table)
{
    return ((const family *)table)->n_steps;
}

uint64_t remat_family_step_budget(const void *table, size_t step)
{
    return ((const family *)table)->steps[step].budget;
}

double remat_family_step_makespan(const void *table, size_t step)
{
    return ((const family *)table)->steps[step].makespan;
}

remat_status remat_family_save(const void *table, remat_buffer *buffer, remat_error *error)
{
    const family *t = table;
    remat_status status = remat_buffer_put_u64(buffer, t->n_steps);
    for (size_t i = 0; i < t->n_steps && !status; i++) {
        status = remat_buffer_put_u64(buffer, t->steps[i].budget);
        if (!status)
            status = remat_buffer_put_u64(buffer, t->steps[i].parameter);
        if (!status)
            status = remat_buffer_put_f64(buffer, t->steps[i].makespan);
    }
    return status ? remat_fail_memory(error) : REMAT_OK;
}

static bool read_steps(remat_reader *reader, family *table)
{
    for (size_t i = 0; i < table->n_steps; i++) {
        family_step *step = &table->steps[i];
        step->budget = remat_reader_u64(reader);
        step->parameter = remat_reader_u64(reader);
        step->makespan = remat_reader_f64(reader);
        if (reader->failed || !(step->makespan >= 0) || isinf(step->makespan))
            return false;
        if (i > 0 && (step->budget <= step[-1].budget || step->makespan >= step[-1].makespan))
            return false;
    }
    return true;
}

remat_status remat_family_load(const remat_problem *problem, remat_reader *reader, void **ret_table,
                               remat_error *error)
{
    (void)problem;
    uint64_t count = remat_reader_u64(reader);
    if (reader->failed || count > (reader->length - reader->position) / (3 * sizeof(uint64_t)))
        return remat_fail(error, REMAT_CORRUPT, NULL, "the table's list of steps is damaged");
    family *table = family_allocate((size_t)count);
    if (!table)
        return remat_fail_memory(error);
    if (!read_steps(reader, table)) {
        free(table);
        return remat_fail(error, REMAT_CORRUPT, NULL, "the table's list of steps is damaged");
    }
    *ret_table = table;
    return REMAT_OK;
}

remat_estimate remat_family_estimate(uint32_t n, size_t n_parameters, double n_operations)
{
    double list = n_operations * (double)sizeof(remat_operation);
    return (remat_estimate){.table_bytes = n_parameters * (sizeof(family_step) + sizeof(uint64_t)) +
                                           remat_chain_bytes(n, 0) +
                                           (list < 1e18 ? (uint64_t)list : UINT64_C(1) << 60),
                            .updates = n_operations * (double)n_parameters};
}
