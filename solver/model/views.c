/* The facts that follow from a profile's nodes, and the two views of nodes with alternatives. */
#include "model/views.h"

#include "model/numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool same_costs(const remat_node *a, const remat_node *b)
{
    return a->forward_time == b->forward_time && a->backward_time == b->backward_time &&
           a->output_bytes == b->output_bytes && a->gradient_bytes == b->gradient_bytes;
}

static bool bare(const remat_node *node)
{
    return node->saved_bytes == 0 && node->forward_workspace_bytes == 0 &&
           node->backward_workspace_bytes == 0 && node->save_workspace_bytes == 0;
}

void model_profile_classify(remat_profile *profile)
{
    uint32_t n = profile->n_nodes;
    profile->input_bytes = profile->late_bytes = 0;
    profile->n_late = 0;
    profile->n_alternatives = profile->n_pinned = 0;
    profile->forward_time = profile->backward_time = 0;
    profile->not_chain = profile->not_join = profile->not_homogeneous = n;
    for (uint32_t v = 0; v < n; v++) {
        const remat_node *node = &profile->nodes[v];
        uint32_t from_nodes = 0;
        for (uint32_t i = 0; i < node->n_inputs; i++)
            from_nodes += node->inputs[i] < n;
        bool single = from_nodes <= 1 && node->n_consumers <= 1, loss = v + 1 == n;
        if (!single && profile->not_chain == n)
            profile->not_chain = v;
        if (!single && !loss && profile->not_join == n)
            profile->not_join = v;
        bool alike = bare(node) && (loss || same_costs(node, &profile->nodes[0]));
        if (!alike && profile->not_homogeneous == n)
            profile->not_homogeneous = v;
        profile->n_alternatives += node->n_alternatives;
        profile->n_pinned += node->once;
        profile->forward_time += node->forward_time;
        profile->backward_time += node->backward_time;
    }
    for (uint32_t k = 0; k < profile->n_inputs; k++)
        profile->input_bytes += profile->inputs[k].bytes;
    for (uint32_t k = 0; k < profile->n_inputs; k++) {
        profile->late_bytes += profile->inputs[k].late ? profile->inputs[k].bytes : 0;
        profile->n_late += profile->inputs[k].late;
    }
    if (profile->joint) /* the shapes are of forwards that have a backward */
        profile->not_chain = profile->not_join = profile->not_homogeneous = 0;
    profile->kind = profile->not_chain == n  ? REMAT_CHAIN
                    : profile->not_join == n ? REMAT_JOIN
                                             : REMAT_GRAPH;
    profile->homogeneous = profile->not_homogeneous == n;
}

/* ---- views ---- */

/* Every number of the node at its least over the implementations. An A whose saved values are not
 * wanted does for an F, and an F for an A that saves nothing. */
static void take_least(remat_node *node)
{
    remat_alternative least = remat_implementation(node, 0);
    for (uint32_t k = 0; k <= node->n_alternatives; k++) {
        const remat_alternative cost = remat_implementation(node, k);
        least.forward_time = fmin(least.forward_time, cost.forward_time);
        least.backward_time = fmin(least.backward_time, cost.backward_time);
        least.saved_bytes = model_smaller(least.saved_bytes, cost.saved_bytes);
        least.forward_workspace_bytes =
            model_smaller(least.forward_workspace_bytes,
                          model_smaller(cost.forward_workspace_bytes,
                                        cost.saved_bytes + cost.save_workspace_bytes));
        least.backward_workspace_bytes =
            model_smaller(least.backward_workspace_bytes, cost.backward_workspace_bytes);
        least.save_workspace_bytes =
            model_smaller(least.save_workspace_bytes, cost.save_workspace_bytes);
    }
    if (least.saved_bytes == 0)
        least.save_workspace_bytes =
            model_smaller(least.save_workspace_bytes, least.forward_workspace_bytes);
    node->forward_time = least.forward_time;
    node->backward_time = least.backward_time;
    node->saved_bytes = least.saved_bytes;
    node->forward_workspace_bytes = least.forward_workspace_bytes;
    node->backward_workspace_bytes = least.backward_workspace_bytes;
    node->save_workspace_bytes = least.save_workspace_bytes;
}

remat_status model_profile_view_new(const remat_profile *profile, remat_view view,
                                    remat_profile **ret_view, remat_error *error)
{
    remat_profile *copy = malloc(sizeof *copy);
    remat_node *nodes = malloc(profile->n_nodes * sizeof *nodes);
    if (!copy || !nodes) {
        free(copy);
        free(nodes);
        return remat_fail_memory(error);
    }
    memcpy(nodes, profile->nodes, profile->n_nodes * sizeof *nodes);
    for (uint32_t v = 0; v < profile->n_nodes; v++) {
        if (view == REMAT_VIEW_LEAST)
            take_least(&nodes[v]);
        nodes[v].alternatives = NULL;
        nodes[v].n_alternatives = 0;
    }
    *copy = *profile;
    copy->nodes = nodes;
    model_profile_classify(copy);
    *ret_view = copy;
    return REMAT_OK;
}

void model_profile_view_free(remat_profile *view)
{
    if (!view)
        return;
    free((void *)view->nodes);
    free(view);
}
