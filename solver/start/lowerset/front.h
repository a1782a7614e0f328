/* The shared front: what every lower set far enough below can continue with.
 *
 * The step from L to L' needs max(X(L') - O(L), M(boundary of L' outside L) + b') bytes and costs
 * T(L') - T(L) - T(boundary of L' outside L) + t', where (b', t') is what L' continues with. When
 * no node of L is in the boundary of L' this is max(x - O(L), y) and z - T(L) with (M of a
 * boundary: what it caches, full or lean; T of a boundary: what it spares)
 *
 *   x = X(L'),  y = M(boundary of L') + b',  z = T(L') - T(boundary of L') + t'
 *
 * which know nothing of L. So the points (x, y, z) of all such L' are kept once, without those that
 * another one beats in all three, instead of visiting every pair (L, L') with every (b', t'). */
#ifndef REMAT_START_LOWERSET_FRONT_H
#define REMAT_START_LOWERSET_FRONT_H

#include "remat/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct graph_front_point {
    double x, y, z;       /* bytes below 2^53 are exact as double */
    uint32_t step, entry; /* as in graph_entry */
} graph_front_point;

/* Sorted by y. Immutable once made. */
typedef struct graph_front {
    size_t count, pruned; /* points; how many there were after the last full prune */
    graph_front_point points[];
} graph_front;

/* A front of the points of old (NULL: none) and those given, which are sorted in passing. The
 * caller frees it. NULL: out of memory. */
graph_front *graph_front_merge(const graph_front *old, graph_front_point *points, size_t count);

#endif
