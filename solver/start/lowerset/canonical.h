/* One increasing sequence of lower sets, as the segment of every node, and the canonical strategy
 * for it: forward segment by segment, keeping the boundaries, full or lean (graph_boundary);
 * backward from the last segment, each computed again from what was kept. */
#ifndef REMAT_START_LOWERSET_CANONICAL_H
#define REMAT_START_LOWERSET_CANONICAL_H

#include "start/lowerset/graph.h"

/* By node. A node may be lean where graph_plan_trim leaves it so. */
typedef struct graph_plan {
    uint32_t *segment;
    bool *lean;
} graph_plan;

/* Makes nodes lean only where it makes a difference: those of graph_can_be_lean in the boundary of
 * their lower set. */
void graph_plan_trim(const remat_profile *profile, const graph_plan *plan);

/* Bytes of the largest segment of a valid plan in the graph's model, its constant included, from
 * the definitions. */
remat_status graph_plan_measure(const graph_view *graph, const graph_plan *plan,
                                uint64_t *ret_bytes, remat_error *error);

/* Appends the operations of a valid plan, without D. A node is run again only if its backward, that
 * of a consumer or another node run again needs it. */
remat_status graph_plan_emit(const remat_profile *profile, const graph_plan *plan,
                             remat_operations *operations, remat_error *error);

#endif
