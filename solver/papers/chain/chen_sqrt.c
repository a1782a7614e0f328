/* chen-sqrt: segments of ceil(sqrt(n)) stages (Chen, Xu, Zhang, Guestrin, "Training deep nets with
 * sublinear memory cost", 2016, section 4.1). The outputs at their ends are kept, every segment but
 * the last is computed twice. One list, offered with what the chain's model counts for it. */
#include "papers/chain/chen.h"

#include <math.h>
#include <stdlib.h>

remat_status chain_chen_segments(const chain_costs *chain, const uint32_t *starts, size_t count,
                                 remat_operations *operations)
{
    remat_status status = REMAT_OK;
    for (size_t g = 0; g + 1 < count && !status; g++)
        status = chain_emit_pass(starts[g], starts[g + 1] - 1, operations);
    uint32_t end = chain->n;
    for (size_t g = count; g-- > 0 && !status;) {
        uint32_t first = starts[g];
        for (uint32_t i = first; i < end && !status; i++)
            status = chain_emit_save(i, 0, operations);
        if (!status)
            status = chain_emit_leaf(chain, end, end == first, operations);
        for (uint32_t i = end; i-- > first && !status;)
            status = chain_emit_backward(i, 0, i == first, operations);
        end = first - 1;
    }
    return status;
}

static remat_status emit(const chain_costs *chain, remat_operations *operations)
{
    uint32_t length = (uint32_t)ceil(sqrt(chain->n));
    uint32_t *starts = malloc(chain->n * sizeof *starts);
    size_t count = 0;
    if (!starts)
        return REMAT_NO_MEMORY;
    for (uint32_t i = 1; i <= chain->n; i += length)
        starts[count++] = i;
    remat_status status = chain_chen_segments(chain, starts, count, operations);
    free(starts);
    return status;
}

static remat_status chen_sqrt_solve(const remat_problem *problem, const remat_host *host,
                                    const remat_sink *sink, remat_error *error)
{
    (void)host;
    chain_costs *chain = NULL;
    remat_operations list = {0};
    remat_model model = {0};
    remat_status status = chain_new(problem->profile, &chain, error);
    if (status)
        return status;
    if (emit(chain, &list)) {
        status = remat_fail_memory(error);
    } else {
        chain_model(chain, &list, &model);
        status = remat_offer(sink, &list, &model, error);
    }
    remat_operations_clear(&list);
    chain_free(chain);
    return status;
}

const remat_solver remat_solver_chen_sqrt = {
    .name = "chen-sqrt",
    .summary =
        "Cuts the chain into segments of sqrt(n) stages and computes all but the last twice.",
    .source = "Chen, Xu, Zhang, Guestrin: Training deep nets with sublinear memory cost, 2016",
    .optimal_for = "",
    .accepts = REMAT_ACCEPTS_CHAIN | REMAT_BASELINE,
    .solve = chen_sqrt_solve,
};
