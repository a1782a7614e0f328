/* Maximum flow from a source to a sink, by Dinic's blocking flows (1970). Capacities are times, so
 * doubles; what is left of one after an augmentation may be off in its last bits. The flow found is
 * feasible up to that, so its value bounds the least cut from below, less such a margin. */
#ifndef REMAT_BOUND_FLOW_H
#define REMAT_BOUND_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bound_arc {
    uint32_t to, reverse; /* node; arc back */
    double left;          /* capacity less flow */
} bound_arc;

/* Arcs of node v: first[v] .. first[v + 1] - 1. */
typedef struct bound_flow {
    uint32_t n_nodes, n_arcs;
    uint32_t source, sink;
    uint32_t *first;
    bound_arc *arcs;
    uint32_t *level, *current, *queue; /* by node */
    uint32_t *path;
} bound_flow;

/* The flow's value. level is afterwards not UINT32_MAX exactly where the source still reaches: one
 * side of a least cut. smallest: capacities up to this count as none. */
double bound_flow_run(bound_flow *flow, double smallest);

#endif
