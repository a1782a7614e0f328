#include "start/offload/phases.h"

#include <stdlib.h>

remat_status offload_plan_init(offload_plan *ret_plan, const remat_profile *profile,
                               remat_error *error)
{
    size_t places = 2 * (size_t)profile->n_nodes + profile->n_inputs;
    bool *moved = calloc(places, sizeof *moved);
    if (!moved)
        return remat_fail_memory(error);
    *ret_plan = (offload_plan){.moved = moved};
    return REMAT_OK;
}

void offload_plan_clear(offload_plan *plan)
{
    remat_operations_clear(&plan->compute);
    free(plan->moved);
    *plan = (offload_plan){0};
}

/* Marks Z_{i-1} in form x as moved. */
static void mark_moved(offload_plan *plan, const offload_model *model, uint32_t i, int x)
{
    uint32_t n = model->n;
    for (uint32_t k = 0; i == 1 && k < model->profile->n_inputs; k++) {
        const remat_input *input = &model->profile->inputs[k];
        plan->moved[2 * (size_t)n + k] = input->n_consumers == 1 && input->consumers[0] == 0;
    }
    if (i == 1)
        return;
    plan->moved[i - 2] = true;
    if (x)
        plan->moved[(size_t)n + i - 2] = true;
}

remat_status offload_plan_build(offload_plan *plan, const offload_model *model,
                                const offload_step *steps, size_t n_steps, offload_child child,
                                void *context)
{
    remat_status status = REMAT_OK;
    for (size_t k = 0; k < n_steps && !status; k++) {
        const offload_step *step = &steps[k];
        if (step->offload)
            mark_moved(plan, model, step->i, k > 0 && steps[k - 1].all);
        status = step->all ? chain_emit_save(step->i, 0, &plan->compute)
                           : chain_emit_pass(step->i, step->j, &plan->compute);
    }
    for (size_t k = n_steps; k-- > 0 && !status;)
        status = steps[k].all ? chain_emit_backward(steps[k].i, 0, false, &plan->compute)
                              : child(context, k, &plan->compute);
    return status;
}
