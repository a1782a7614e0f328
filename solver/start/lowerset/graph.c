#include "start/lowerset/graph.h"

static remat_status allocate(graph_view *graph, remat_error *error)
{
    graph->time = model_arena_array(&graph->arena, graph->n, sizeof *graph->time);
    graph->kept = model_arena_array(&graph->arena, graph->n, sizeof *graph->kept);
    graph->gradient = model_arena_array(&graph->arena, graph->n, sizeof *graph->gradient);
    uint64_t *cached = model_arena_array(&graph->arena, graph->n, sizeof *cached);
    double *spared = model_arena_array(&graph->arena, graph->n, sizeof *spared);
    if (!graph->time || !graph->kept || !graph->gradient || !cached || !spared)
        return remat_fail_memory(error);
    graph->cached[GRAPH_BOUNDARY_FULL] = graph->kept;
    graph->spared[GRAPH_BOUNDARY_FULL] = graph->time;
    graph->cached[GRAPH_BOUNDARY_LEAN] = cached;
    graph->spared[GRAPH_BOUNDARY_LEAN] = spared;
    return REMAT_OK;
}

/* Graph inputs and their gradients are counted for the whole step and the largest workspace for
 * every segment: the recurrence stays separable in the two ends of a segment, and the true peak is
 * the simulator's anyway. */
static uint64_t constant_bytes(const remat_profile *profile)
{
    uint64_t bytes = profile->input_bytes, workspace = 0;
    for (uint32_t k = 0; k < profile->n_inputs; k++)
        bytes += profile->inputs[k].gradient_bytes;
    for (uint32_t v = 0; v < profile->n_nodes; v++) {
        const remat_node *node = &profile->nodes[v];
        workspace = model_larger(workspace, node->forward_workspace_bytes);
        workspace = model_larger(workspace, node->save_workspace_bytes);
        workspace = model_larger(workspace, node->backward_workspace_bytes);
    }
    for (uint32_t k = 0; k < profile->n_states; k++)
        bytes += profile->states[k].bytes * ((uint64_t)profile->states[k].n_writers + 1);
    return bytes + workspace;
}

remat_status graph_init(graph_view *graph, const remat_profile *profile, graph_model model,
                        remat_error *error)
{
    uint32_t n = profile->n_nodes;
    *graph = (graph_view){.profile = profile, .model = model, .n = n, .words = (n + 63) / 64};
    remat_status status = allocate(graph, error);
    if (!status)
        status = graph_order_init(&graph->order, profile, error);
    if (status)
        return status;
    for (uint32_t v = 0; v < n; v++) {
        const remat_node *node = &profile->nodes[v];
        graph->time[v] = node->forward_time;
        graph->kept[v] = node->output_bytes + node->saved_bytes;
        graph->gradient[v] = model == GRAPH_MODEL_SAFE ? node->gradient_bytes : graph->kept[v];
        bool lean = graph_can_be_lean(node);
        graph->cached[GRAPH_BOUNDARY_LEAN][v] = lean ? node->output_bytes : graph->kept[v];
        graph->spared[GRAPH_BOUNDARY_LEAN][v] = lean ? 0 : node->forward_time;
    }
    graph->constant = model == GRAPH_MODEL_SAFE ? constant_bytes(profile) : 0;
    return REMAT_OK;
}

void graph_clear(graph_view *graph)
{
    graph_order_clear(&graph->order);
    model_arena_clear(&graph->arena);
}

uint32_t graph_bit_next(const uint64_t *set, uint32_t n, uint32_t v)
{
    uint32_t words = (n + 63) / 64, w = v / 64;
    if (v >= n)
        return n;
    uint64_t word = set[w] & (UINT64_MAX << (v % 64));
    while (!word && ++w < words)
        word = set[w];
    return word ? w * 64 + (uint32_t)__builtin_ctzll(word) : n;
}
