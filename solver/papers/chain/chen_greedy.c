/* chen-greedy: Algorithm 3 of Chen, Xu, Zhang, Guestrin, "Training deep nets with sublinear memory
 * cost", 2016 (memory planning with a budget): a segment is closed once its kept bytes pass a
 * threshold b. The paper searches b near sqrt(x y) for one budget; here the whole family of
 * thresholds is offered and every budget picks its best, which contains the paper's search.
 * Corrected: Algorithm 3 counts only the outputs of a segment; what a segment holds while its
 * backwards run are abar_i, and gradients and workspaces are counted too. */
#include "papers/chain/chen.h"
#include "papers/chain/family.h"

#include <math.h>
#include <stdlib.h>

enum { THRESHOLDS = 512 };

static remat_status emit(const chain_costs *chain, const void *context, uint64_t threshold,
                         remat_operations *operations, remat_error *error)
{
    (void)context;
    uint32_t *starts = malloc(chain->n * sizeof *starts);
    size_t count = 0;
    uint64_t bytes = 0;
    if (!starts)
        return remat_fail_memory(error);
    for (uint32_t i = 1; i <= chain->n; i++) {
        if (i == 1 || bytes > threshold) {
            starts[count++] = i;
            bytes = 0;
        }
        bytes += chain->kept[i];
    }
    remat_status status = chain_chen_segments(chain, starts, count, operations);
    free(starts);
    return status ? remat_fail_memory(error) : REMAT_OK;
}

/* Thresholds in geometric progression from "every stage a segment" to "no checkpoint at all". */
static void choose_thresholds(const chain_costs *chain, uint64_t *thresholds)
{
    uint64_t total = 0, least = UINT64_MAX;
    for (uint32_t i = 1; i <= chain->n; i++) {
        total += chain->kept[i];
        if (chain->kept[i] > 0 && chain->kept[i] < least)
            least = chain->kept[i];
    }
    double low = least < total ? (double)least : 1, high = (double)total + 1;
    thresholds[0] = 0;
    for (int i = 1; i < THRESHOLDS; i++)
        thresholds[i] = (uint64_t)(low * pow(high / low, (double)i / (THRESHOLDS - 1)));
    thresholds[THRESHOLDS - 1] = total;
}

static remat_status chen_greedy_estimate(const remat_problem *problem, remat_estimate *ret_estimate,
                                         remat_error *error)
{
    (void)error;
    uint32_t n = problem->profile->n_nodes;
    *ret_estimate = chain_family_estimate(n, THRESHOLDS, 5.0 * n);
    return REMAT_OK;
}

static remat_status chen_greedy_solve(const remat_problem *problem, const remat_host *host,
                                      const remat_sink *sink, remat_error *error)
{
    chain_costs *chain = NULL;
    uint64_t thresholds[THRESHOLDS];
    remat_status status = chain_new(problem->profile, &chain, error);
    if (status)
        return status;
    choose_thresholds(chain, thresholds);
    status = chain_family_offer(chain, emit, NULL, thresholds, THRESHOLDS, host, sink, error);
    chain_free(chain);
    return status;
}

const remat_solver remat_solver_chen_greedy = {
    .name = "chen-greedy",
    .summary = "Closes a segment once its bytes pass a threshold; searches the threshold.",
    .source = "Chen, Xu, Zhang, Guestrin: Training deep nets with sublinear memory cost, 2016, "
              "Algorithm 3",
    .optimal_for = "",
    /* Quick, and after liveness now and then the least peak of all: auto asks it. */
    .accepts = REMAT_ACCEPTS_CHAIN,
    .estimate = chen_greedy_estimate,
    .solve = chen_greedy_solve,
};
