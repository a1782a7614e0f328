/* A solver in one file, for tests/integration/test_toy.py: of a chain it offers storing everything,
 * and storing nothing. Beside this file it takes a name in the registry and a line of the build. */
#include "remat/solver.h"

static remat_status estimate(const remat_problem *problem, remat_estimate *ret_estimate,
                             remat_error *error)
{
    double n = problem->profile->n_nodes;
    *ret_estimate = (remat_estimate){.table_bytes = (uint64_t)(n * n) * sizeof(remat_operation),
                                     .updates = 1000 * n};
    return REMAT_OK;
}

/* index 0: every node once. index 1: before every backward everything below it again. */
static remat_status trace(void *context, size_t index, remat_operations *list, remat_model *model,
                          remat_error *error)
{
    const remat_profile *profile = context;
    uint32_t n = profile->n_nodes;
    remat_status status = REMAT_OK;
    for (uint32_t v = 0; v < n && !status && index == 0; v++)
        status = remat_push(list, profile->nodes[v].saved_bytes ? REMAT_A : REMAT_F, v);
    for (uint32_t v = n; v-- > 0 && !status;) {
        for (uint32_t u = 0; u < v && !status && index == 1; u++)
            status = remat_push(list, REMAT_F, u);
        if (!status && index == 1)
            status = remat_push(list, profile->nodes[v].saved_bytes ? REMAT_A : REMAT_F, v);
        if (!status)
            status = remat_push(list, REMAT_B, v);
    }
    return status ? remat_fail_memory(error) : REMAT_OK;
}

static remat_status solve(const remat_problem *problem, const remat_host *host,
                          const remat_sink *sink, remat_error *error)
{
    return remat_offer_lists(sink, 2, trace, (void *)problem->profile, error);
}

const remat_solver remat_solver_toy = {
    .name = "toy",
    .summary = "All or nothing.",
    .source = "tests/toy",
    .optimal_for = "",
    .accepts = REMAT_ACCEPTS_CHAIN | REMAT_BASELINE,
    .estimate = estimate,
    .solve = solve,
};
