/* Chen's segments on a general graph.
 *
 * Source: Chen, Xu, Zhang, Guestrin 2016, Algorithm 3, as Kusumoto et al. 2019, Appendix B, apply
 * it to graphs: the only places to cut are articulation points, here those whose ancestor set has
 * exactly that point as its boundary (then what comes after the cut depends on the cut alone). A
 * segment is closed at the first such point after its bytes pass a threshold; thresholds are in
 * geometric progression, and the replay of all of them decides. In parallel branches each point
 * closes its own branch's part.
 *
 * v is such a point when every path from each of its ancestors to the loss meets v, that is, when v
 * post-dominates them all. In the tree of post-dominators (parent = the nearest; in a graph without
 * cycles the least common ancestor of the consumers) the ancestors of a point are its subtree, so
 * one pass finds the points and one pass per threshold the cuts. */
#include "start/lowerset/search.h"

#include <math.h>

enum { THRESHOLDS = 40 };

typedef struct cutting {
    const graph_view *graph;
    uint32_t *parent; /* nearest post-dominator; the loss is its own */
    bool *point;
    bool *cut;
    uint64_t *open;  /* bytes of the subtree that no cut has closed */
    uint32_t *owner; /* nearest cut at or above a node, then its rank */
} cutting;

/* ---- points ---- */

/* A parent has a larger index than its children. */
static uint32_t common_ancestor(const cutting *c, uint32_t a, uint32_t b)
{
    while (a != b) {
        if (a < b)
            a = c->parent[a];
        else
            b = c->parent[b];
    }
    return a;
}

static void find_points(cutting *c, uint32_t *lowest)
{
    const graph_order *order = &c->graph->order;
    uint32_t n = c->graph->n;
    c->parent[n - 1] = n - 1;
    for (uint32_t v = n - 1; v-- > 0;) {
        uint32_t edge = order->first_after[v];
        c->parent[v] = order->after[edge];
        while (++edge < order->first_after[v + 1])
            c->parent[v] = common_ancestor(c, c->parent[v], order->after[edge]);
    }
    for (uint32_t v = 0; v < n; v++) { /* lowest: what post-dominates v and all its ancestors */
        lowest[v] = v;
        for (uint32_t k = order->first_before[v]; k < order->first_before[v + 1]; k++)
            lowest[v] = common_ancestor(c, lowest[v], lowest[order->before[k]]);
        c->point[v] = lowest[v] == v;
    }
}

/* ---- cuts ---- */

/* Closes a segment at each point whose open subtree passes the threshold. */
static void choose_cuts(cutting *c, double threshold)
{
    uint32_t n = c->graph->n;
    for (uint32_t v = 0; v < n; v++)
        c->open[v] = c->graph->kept[v];
    for (uint32_t v = 0; v < n; v++) {
        c->cut[v] = v + 1 == n || (c->point[v] && (double)c->open[v] > threshold);
        if (!c->cut[v])
            c->open[c->parent[v]] += c->open[v];
    }
}

static void assign_segments(const cutting *c, graph_boundary kind, const graph_plan *plan)
{
    uint32_t *segment = plan->segment;
    uint32_t n = c->graph->n, rank = 0;
    for (uint32_t v = n; v-- > 0;)
        c->owner[v] = c->cut[v] ? v : c->owner[c->parent[v]];
    for (uint32_t v = 0; v < n; v++)
        if (c->cut[v])
            segment[v] = rank++;
    for (uint32_t v = 0; v < n; v++) {
        segment[v] = segment[c->owner[v]];
        plan->lean[v] = kind == GRAPH_BOUNDARY_LEAN;
    }
}

static remat_status add_thresholds(cutting *c, graph_plans *plans, graph_boundary kind,
                                   const remat_host *host, remat_error *error)
{
    double total = 1, least = INFINITY;
    for (uint32_t v = 0; v < c->graph->n; v++) {
        total += (double)c->graph->kept[v];
        if (c->graph->kept[v] > 0)
            least = fmin(least, (double)c->graph->kept[v]);
    }
    least = fmin(least, total);
    remat_status status = REMAT_OK;
    for (int i = 0; i < THRESHOLDS && !status; i++) {
        graph_plan plan;
        if (!graph_plans_room(plans, &plan))
            return REMAT_OK;
        if (remat_host_cancelled(host))
            return remat_fail(error, REMAT_CANCELLED, NULL, "cancelled");
        choose_cuts(c, i > 0 ? least * pow(total / least, i / (THRESHOLDS - 1.0)) : 0);
        assign_segments(c, kind, &plan);
        status = graph_plans_add(plans, c->graph, error);
    }
    return status;
}

remat_status graph_chen_add(graph_plans *plans, const graph_view *graph, graph_boundary kind,
                            const remat_host *host, remat_error *error)
{
    uint32_t n = graph->n;
    cutting c = {.graph = graph};
    model_arena arena = {0};
    c.parent = model_arena_array(&arena, n, sizeof *c.parent);
    c.point = model_arena_array(&arena, n, sizeof *c.point);
    c.cut = model_arena_array(&arena, n, sizeof *c.cut);
    c.open = model_arena_array(&arena, n, sizeof *c.open);
    c.owner = model_arena_array(&arena, n, sizeof *c.owner);
    remat_status status =
        c.parent && c.point && c.cut && c.open && c.owner ? REMAT_OK : remat_fail_memory(error);
    if (!status) {
        find_points(&c, c.owner);
        status = add_thresholds(&c, plans, kind, host, error);
    }
    model_arena_clear(&arena);
    return status;
}
