/* Maximum flow from a source to a sink, by Dinic's blocking flows (1970). Capacities are times, so
 * doubles; what is left of one after an augmentation may be off in its last bits. The flow found is
 * feasible up to that, so its value bounds the least cut from below, less such a margin. */
#ifndef REMAT_BOUND_FLOW_H
#define REMAT_BOUND_FLOW_H

#include "model/arena.h"

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

/* A flow between some nodes, the last two of which are source and sink. Arcs are joined twice in
 * the same order: to be counted, and once bound_flow_open has made room for them to be there; each
 * join gives the arc's index then. Both fail without memory only, which is the arena's. */
bool bound_flow_new(bound_flow *flow, uint32_t n_nodes, model_arena *arena);
bool bound_flow_open(bound_flow *flow, model_arena *arena);
uint32_t bound_flow_join(bound_flow *flow, uint32_t from, uint32_t to);

/* The flow's value. level is afterwards not UINT32_MAX exactly where the source still reaches: one
 * side of a least cut. smallest: capacities up to this count as none. */
double bound_flow_run(bound_flow *flow, double smallest);

#endif
