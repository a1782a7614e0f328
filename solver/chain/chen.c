/* Segments (Chen, Xu, Zhang, Guestrin, "Training deep nets with sublinear memory cost", 2016).
 *
 * chen-sqrt: section 4.1, segments of ceil(sqrt(n)) stages; the outputs at their ends are kept,
 * every segment but the last is computed twice. chen-greedy: Algorithm 3 (memory planning with a
 * budget): a segment is closed once its kept bytes pass a threshold b. The paper searches b near
 * sqrt(x y) for one budget; here the whole family of thresholds is tabulated and every budget picks
 * its best, which contains the paper's search. Corrected: Algorithm 3 counts only the outputs of a
 * segment; what a segment holds while its backwards run are abar_i, and gradients and workspaces
 * are counted too. */
#include "chain/family.h"

#include <math.h>
#include <stdlib.h>

/* Appends the schedule with segments starting at starts[0] = 1 < starts[1] < .. and ending before
 * the next. */
static remat_status emit_segments(const remat_chain *chain, const uint32_t *starts, size_t count,
                                  remat_operations *operations)
{
    remat_status status = REMAT_OK;
    for (size_t g = 0; g + 1 < count && !status; g++)
        status = remat_chain_emit_pass(starts[g], starts[g + 1] - 1, operations);
    uint32_t end = chain->n;
    for (size_t g = count; g-- > 0 && !status;) {
        uint32_t first = starts[g];
        for (uint32_t i = first; i < end && !status; i++)
            status = remat_chain_emit_save(i, operations);
        if (!status)
            status = remat_chain_emit_leaf(chain, end, end == first, operations);
        for (uint32_t i = end; i-- > first && !status;)
            status = remat_chain_emit_backward(i, i == first, operations);
        end = first - 1;
    }
    return status;
}

/* Closes a segment when its stages reach stage_limit or its kept bytes pass byte_limit. */
static size_t cut(const remat_chain *chain, uint64_t stage_limit, uint64_t byte_limit,
                  uint32_t *starts)
{
    size_t count = 0;
    uint64_t stages = 0, bytes = 0;
    for (uint32_t i = 1; i <= chain->n; i++) {
        if (i == 1 || stages >= stage_limit || bytes > byte_limit) {
            starts[count++] = i;
            stages = 0;
            bytes = 0;
        }
        stages++;
        bytes += chain->kept[i];
    }
    return count;
}

static remat_status emit_cut(const remat_chain *chain, uint64_t stage_limit, uint64_t byte_limit,
                             remat_operations *operations, remat_error *error)
{
    uint32_t *starts = malloc(((size_t)chain->n + 1) * sizeof *starts);
    if (!starts)
        return remat_fail_memory(error);
    size_t count = cut(chain, stage_limit, byte_limit, starts);
    remat_status status = emit_segments(chain, starts, count, operations);
    free(starts);
    return status ? remat_fail_memory(error) : REMAT_OK;
}

static remat_status emit_uniform(const remat_chain *chain, const void *context, uint64_t stages,
                                 remat_operations *operations, remat_error *error)
{
    (void)context;
    return emit_cut(chain, stages, UINT64_MAX, operations, error);
}

static remat_status emit_greedy(const remat_chain *chain, const void *context, uint64_t bytes,
                                remat_operations *operations, remat_error *error)
{
    (void)context;
    return emit_cut(chain, UINT64_MAX, bytes, operations, error);
}

/* ---- chen-sqrt ---- */

static remat_status sqrt_estimate(const remat_problem *problem, remat_estimate *ret_estimate,
                                  remat_error *error)
{
    (void)error;
    uint32_t n = problem->profile->n_nodes;
    *ret_estimate = remat_family_estimate(n, 1, 5.0 * n);
    return REMAT_OK;
}

static remat_status sqrt_tabulate(const remat_problem *problem, const remat_host *host,
                                  void **ret_table, remat_error *error)
{
    remat_chain *chain = NULL;
    remat_status status = remat_chain_new(problem->profile, &chain, error);
    if (status)
        return status;
    uint64_t stages = (uint64_t)ceil(sqrt(chain->n));
    status = remat_family_new(chain, emit_uniform, NULL, &stages, 1, host, ret_table, error);
    remat_chain_free(chain);
    return status;
}

static remat_status sqrt_trace(const void *table, const remat_problem *problem, size_t step,
                               remat_operations *operations, remat_error *error)
{
    return remat_family_trace(table, problem, step, emit_uniform, NULL, operations, error);
}

const remat_solver remat_solver_chen_sqrt = {
    .name = "chen-sqrt",
    .summary =
        "Cuts the chain into segments of sqrt(n) stages and computes all but the last twice.",
    .source = "Chen, Xu, Zhang, Guestrin: Training deep nets with sublinear memory cost, 2016",
    .optimal_for = "",
    .accepts = REMAT_ACCEPTS_CHAIN | REMAT_BASELINE,
    .table_version = 1,
    .estimate = sqrt_estimate,
    .tabulate = sqrt_tabulate,
    .table_free = remat_family_free,
    .table_bytes = remat_family_bytes,
    .table_max_budget = remat_family_max_budget,
    .n_steps = remat_family_n_steps,
    .step_budget = remat_family_step_budget,
    .step_makespan = remat_family_step_makespan,
    .trace = sqrt_trace,
    .class_name = "",
    .save = remat_family_save,
    .load = remat_family_load,
};

/* ---- chen-greedy ---- */

enum { THRESHOLDS = 512 };

static remat_status greedy_estimate(const remat_problem *problem, remat_estimate *ret_estimate,
                                    remat_error *error)
{
    (void)error;
    uint32_t n = problem->profile->n_nodes;
    *ret_estimate = remat_family_estimate(n, THRESHOLDS, 5.0 * n);
    return REMAT_OK;
}

/* Thresholds in geometric progression from "every stage a segment" to "no checkpoint at all". */
static void choose_thresholds(const remat_chain *chain, uint64_t *thresholds)
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

static remat_status greedy_tabulate(const remat_problem *problem, const remat_host *host,
                                    void **ret_table, remat_error *error)
{
    remat_chain *chain = NULL;
    remat_status status = remat_chain_new(problem->profile, &chain, error);
    if (status)
        return status;
    uint64_t thresholds[THRESHOLDS];
    choose_thresholds(chain, thresholds);
    status =
        remat_family_new(chain, emit_greedy, NULL, thresholds, THRESHOLDS, host, ret_table, error);
    remat_chain_free(chain);
    return status;
}

static remat_status greedy_trace(const void *table, const remat_problem *problem, size_t step,
                                 remat_operations *operations, remat_error *error)
{
    return remat_family_trace(table, problem, step, emit_greedy, NULL, operations, error);
}

const remat_solver remat_solver_chen_greedy = {
    .name = "chen-greedy",
    .summary = "Closes a segment once its bytes pass a threshold; searches the threshold.",
    .source = "Chen, Xu, Zhang, Guestrin: Training deep nets with sublinear memory cost, 2016, "
              "Algorithm 3",
    .optimal_for = "",
    /* Quick, and after liveness now and then the least peak of all: auto asks it. */
    .accepts = REMAT_ACCEPTS_CHAIN,
    .table_version = 1,
    .estimate = greedy_estimate,
    .tabulate = greedy_tabulate,
    .table_free = remat_family_free,
    .table_bytes = remat_family_bytes,
    .table_max_budget = remat_family_max_budget,
    .n_steps = remat_family_n_steps,
    .step_budget = remat_family_step_budget,
    .step_makespan = remat_family_step_makespan,
    .trace = greedy_trace,
    .class_name = "",
    .save = remat_family_save,
    .load = remat_family_load,
};
