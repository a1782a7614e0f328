/* Lists of a stage as the planner knows them. */
#include "model/lists.h"
#include "pipeline/private.h"
#include "remat/layout.h"
#include "remat/plan.h"

#include <math.h>
#include <stdlib.h>

remat_status remat_stage_replay(const remat_profile *profile, const remat_operations *operations,
                                remat_stage_list *ret_list, remat_error *error)
{
    remat_simulation s;
    remat_moment *moments = malloc((operations->length + 1) * sizeof *moments);
    remat_status status = moments
                              ? remat_simulate(profile, operations, NULL, moments, NULL, &s, error)
                              : remat_fail_memory(error);
    if (!status && (!s.valid || s.turn > operations->length))
        status = remat_fail(error, REMAT_INVALID, "operations", "operation %zu: %.400s",
                            s.bad_operation, s.valid ? "there is no turn" : s.reason);
    if (!status) {
        const double forward = s.turn > 0 ? moments[s.turn - 1].end : 0;
        *ret_list = (remat_stage_list){
            .forward = forward, .backward = s.makespan - forward, .held = s.held, .peak = s.peak};
    }
    free(moments);
    return status;
}

static remat_status finish(const remat_profile *profile, const remat_operations *list,
                           uint64_t alignment, remat_stage_list *ret_list, remat_error *error)
{
    const uint32_t n = ret_list->in_flight;
    remat_operations whole = {0};
    remat_layout layout = {0};
    remat_status status = model_complete_list(profile, list, &whole, error);
    if (!status)
        status = remat_stage_replay(profile, &whole, ret_list, error);
    if (!status && alignment > 0)
        status = remat_layout_in_flight(profile, &whole, n, alignment, 0, NULL, &layout, error);
    const uint64_t others = n > 1 ? (n - 1) * ret_list->held : 0;
    if (!status && layout.arena > others + ret_list->peak)
        ret_list->peak = layout.arena - others;
    ret_list->in_flight = n;
    remat_layout_clear(&layout);
    remat_operations_clear(&whole);
    return status;
}

remat_status remat_stage_by_blocks(const remat_profile *profile, const uint32_t *unit,
                                   bool keeps_last, uint64_t alignment, remat_stage_list *ret_list,
                                   remat_error *error)
{
    const uint32_t n_units = unit[profile->n_nodes - 1] + 1;
    remat_operations list = {0};
    double *threshold = malloc(n_units * sizeof *threshold);
    if (!threshold)
        return remat_fail_memory(error);
    for (uint32_t u = 0; u < n_units; u++)
        threshold[u] = keeps_last && u + 1 == n_units ? -1 : INFINITY;
    remat_status status = remat_unit_list(profile, unit, threshold, 0, &list, error);
    if (!status)
        status = finish(profile, &list, alignment, ret_list, error);
    remat_operations_clear(&list);
    free(threshold);
    return status;
}

/* F and A of those of the unit that run again. */
static remat_status push_again(const remat_profile *p, const uint32_t *unit, const bool *again,
                               uint32_t of, remat_operations *list)
{
    remat_status status = REMAT_OK;
    uint32_t first = of;
    while (first > 0 && unit[first - 1] == unit[of])
        first--;
    for (uint32_t v = first; v <= of && !status; v++)
        if (again[v])
            status = remat_push(list, p->nodes[v].saved_bytes > 0 ? REMAT_A : REMAT_F, v);
    return status;
}

remat_status remat_stage_by_nodes(const remat_profile *p, const uint32_t *unit, const bool *again,
                                  uint64_t alignment, remat_stage_list *ret_list,
                                  remat_error *error)
{
    remat_operations list = {0};
    remat_status status = REMAT_OK;
    uint32_t made = UINT32_MAX; /* the unit whose nodes have run again */
    for (uint32_t v = 0; v < p->n_nodes && !status; v++) {
        const bool saves = p->nodes[v].saved_bytes > 0 && !(again && again[v]);
        status = remat_push(&list, saves ? REMAT_A : REMAT_F, v);
    }
    for (uint32_t v = p->n_nodes; v-- > 0 && !status;) {
        if (again && again[v] && unit[v] != made) {
            made = unit[v];
            status = push_again(p, unit, again, v, &list);
        }
        if (!status)
            status = remat_push(&list, REMAT_B, v);
    }
    if (status)
        status = remat_fail_memory(error);
    else
        status = finish(p, &list, alignment, ret_list, error);
    remat_operations_clear(&list);
    return status;
}
