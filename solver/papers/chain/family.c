#include "papers/chain/family.h"

#include <math.h>
#include <stdlib.h>

typedef struct member {
    uint64_t parameter;
    remat_model model;
} member;

typedef struct family {
    const chain_costs *chain;
    chain_family_emit emit;
    const void *context;
    member *members;
    size_t count;
} family;

static int by_budget(const void *left, const void *right)
{
    const remat_model *a = &((const member *)left)->model, *b = &((const member *)right)->model;
    if (a->budget != b->budget)
        return a->budget < b->budget ? -1 : 1;
    return (a->makespan > b->makespan) - (a->makespan < b->makespan);
}

/* Keeps the members with increasing budget and strictly decreasing makespan. */
static void keep_best(family *f)
{
    size_t kept = 0;
    double best = INFINITY;
    if (f->count > 0)
        qsort(f->members, f->count, sizeof *f->members, by_budget);
    for (size_t i = 0; i < f->count; i++)
        if (f->members[i].model.makespan < best) {
            best = f->members[i].model.makespan;
            f->members[kept++] = f->members[i];
        }
    f->count = kept;
}

static remat_status measure(family *f, const uint64_t *parameters, const remat_host *host,
                            remat_error *error)
{
    remat_operations operations = {0};
    remat_status status = REMAT_OK;
    for (size_t i = 0; i < f->count && !status; i++) {
        if (remat_host_cancelled(host)) {
            status = remat_fail(error, REMAT_CANCELLED, NULL, "cancelled");
            break;
        }
        operations.length = 0;
        f->members[i] = (member){.parameter = parameters[i]};
        status = f->emit(f->chain, f->context, parameters[i], &operations, error);
        if (!status)
            chain_model(f->chain, &operations, &f->members[i].model);
    }
    remat_operations_clear(&operations);
    return status;
}

static remat_status trace(void *context, size_t index, remat_operations *operations,
                          remat_model *model, remat_error *error)
{
    const family *f = context;
    *model = f->members[index].model;
    return f->emit(f->chain, f->context, f->members[index].parameter, operations, error);
}

remat_status chain_family_offer(const chain_costs *chain, chain_family_emit emit,
                                const void *context, const uint64_t *parameters,
                                size_t n_parameters, const remat_host *host, const remat_sink *sink,
                                remat_error *error)
{
    family f = {.chain = chain, .emit = emit, .context = context, .count = n_parameters};
    f.members = malloc((n_parameters + 1) * sizeof *f.members);
    if (!f.members)
        return remat_fail_memory(error);
    remat_status status = measure(&f, parameters, host, error);
    if (!status) {
        keep_best(&f);
        status = remat_offer_lists(sink, f.count, trace, &f, error);
    }
    free(f.members);
    return status;
}

remat_estimate chain_family_estimate(uint32_t n, size_t n_parameters, double n_operations)
{
    double list = n_operations * (double)sizeof(remat_operation);
    return (remat_estimate){.table_bytes = n_parameters * (sizeof(member) + sizeof(uint64_t)) +
                                           chain_bytes(n, 0) +
                                           (list < 1e18 ? (uint64_t)list : UINT64_C(1) << 60),
                            .updates = n_operations * (double)n_parameters};
}
