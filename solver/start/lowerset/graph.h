/* A profile as the lower-set recurrences see it: time and bytes of every node, and the topological
 * order (the profile's own) that everything below is indexed by. Notation of the specification: V
 * the nodes, L a lower set (closed under predecessors), its boundary the nodes of L with a consumer
 * outside L. */
#ifndef REMAT_START_LOWERSET_GRAPH_H
#define REMAT_START_LOWERSET_GRAPH_H

#include "model/arena.h"
#include "model/numbers.h"
#include "remat/solver.h"
#include "start/lowerset/order.h"

/* What the bytes of a segment V' from L to L' are. */
typedef enum graph_model {
    /* cached + forward(V') + gradients(V') + gradients(boundary of L): what our operations hold at
     * most (specification, correction 6) */
    GRAPH_MODEL_SAFE,
    /* equation (2): cached + 2 M(V') + M(consumers of L' outside it) + M(their other inputs), with
     * M forward bytes everywhere */
    GRAPH_MODEL_EQUATION_2
} graph_model;

/* What a boundary keeps of its nodes: all that one run of them as A gives (the paper's canonical
 * strategy), or, lean, of those of graph_can_be_lean the output alone. These run again, as A, with
 * the rest of their segment. */
typedef enum graph_boundary {
    GRAPH_BOUNDARY_FULL,
    GRAPH_BOUNDARY_LEAN,
    GRAPH_BOUNDARIES
} graph_boundary;

static inline bool graph_can_be_lean(const remat_node *node)
{
    return node->saved_bytes > 0;
}

typedef struct graph_view {
    const remat_profile *profile;
    graph_model model;
    uint32_t n, words; /* nodes; 64-bit words of a set of nodes */
    double *time;      /* forward, by node */
    uint64_t *kept;    /* bytes of output and saved values */
    uint64_t *gradient;
    uint64_t *cached[GRAPH_BOUNDARIES]; /* bytes that a boundary keeps of a node, */
    double *spared[GRAPH_BOUNDARIES];   /* time of running it again that this spares */
    uint64_t constant; /* bytes that every segment holds besides: graph inputs, their gradients, the
                          largest workspace; 0 under equation (2) */
    graph_order order;
    model_arena arena;
} graph_view;

/* The graph keeps a pointer to the profile. Clear it, on failure too. */
remat_status graph_init(graph_view *graph, const remat_profile *profile, graph_model model,
                        remat_error *error);
void graph_clear(graph_view *graph);

/* ---- sets of nodes as words of 64 bits ---- */

static inline bool graph_bit(const uint64_t *set, uint32_t v)
{
    return set[v / 64] >> (v % 64) & 1;
}

static inline void graph_bit_set(uint64_t *set, uint32_t v)
{
    set[v / 64] |= UINT64_C(1) << (v % 64);
}

static inline void graph_bit_clear(uint64_t *set, uint32_t v)
{
    set[v / 64] &= ~(UINT64_C(1) << (v % 64));
}

static inline bool graph_subset(const uint64_t *a, const uint64_t *b, uint32_t words)
{
    for (uint32_t w = 0; w < words; w++)
        if (a[w] & ~b[w])
            return false;
    return true;
}

/* First member of set at or after v; n when there is none. */
uint32_t graph_bit_next(const uint64_t *set, uint32_t n, uint32_t v);

#endif
