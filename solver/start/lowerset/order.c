#include "start/lowerset/order.h"

#include <string.h>

/* An edge is there twice where a node both feeds another and writes a state that it reads; that
 * does no harm. */
static void fill_before(graph_order *order, const remat_profile *profile, uint32_t *writer)
{
    uint32_t n = profile->n_nodes, used = 0;
    memset(writer, 0xff, profile->n_states * sizeof *writer);
    for (uint32_t v = 0; v < n; v++) {
        const remat_node *node = &profile->nodes[v];
        order->first_before[v] = used;
        for (uint32_t i = 0; i < node->n_inputs; i++)
            if (node->inputs[i] < n)
                order->before[used++] = node->inputs[i];
        for (uint32_t i = 0; i < node->n_reads; i++)
            if (writer[node->reads[i]] != UINT32_MAX)
                order->before[used++] = writer[node->reads[i]];
        for (uint32_t i = 0; i < node->n_writes; i++)
            writer[node->writes[i]] = v;
    }
    order->first_before[n] = used;
}

static void fill_after(graph_order *order)
{
    uint32_t n = order->n;
    for (uint32_t i = 0; i < order->first_before[n]; i++)
        order->first_after[order->before[i] + 2]++;
    for (uint32_t v = 2; v <= n; v++)
        order->first_after[v] += order->first_after[v - 1];
    for (uint32_t v = 0; v < n; v++)
        for (uint32_t i = order->first_before[v]; i < order->first_before[v + 1]; i++)
            order->after[order->first_after[order->before[i] + 1]++] = v;
}

remat_status graph_order_init(graph_order *order, const remat_profile *profile, remat_error *error)
{
    size_t n = profile->n_nodes, edges = profile->n_edges;
    for (uint32_t v = 0; v < profile->n_nodes; v++)
        edges += profile->nodes[v].n_reads;
    *order = (graph_order){.n = profile->n_nodes};
    order->first_before = model_arena_array(&order->arena, n + 1, sizeof *order->first_before);
    order->before = model_arena_array(&order->arena, edges, sizeof *order->before);
    order->first_after = model_arena_array(&order->arena, n + 2, sizeof *order->first_after);
    order->after = model_arena_array(&order->arena, edges, sizeof *order->after);
    uint32_t *writer = model_arena_array(&order->arena, profile->n_states, sizeof *writer);
    bool enough =
        order->first_before && order->before && order->first_after && order->after && writer;
    if (enough) {
        fill_before(order, profile, writer);
        fill_after(order);
    }
    return enough ? REMAT_OK : remat_fail_memory(error);
}

void graph_order_clear(graph_order *order)
{
    model_arena_clear(&order->arena);
    *order = (graph_order){0};
}
