/* One increasing sequence of lower sets, as the segment of every node, and the canonical strategy
 * for it: forward segment by segment, keeping the boundaries, full or lean (remat_boundary);
 * backward from the last segment, each computed again from what was kept. */
#ifndef REMAT_GRAPH_PLAN_H
#define REMAT_GRAPH_PLAN_H

#include "graph/graph.h"

/* By node. A node may be lean where remat_plan_trim leaves it so. */
typedef struct remat_plan {
    uint32_t *segment;
    bool *lean;
} remat_plan;

typedef struct remat_plan_cost {
    uint64_t bytes;    /* largest segment in the graph's model, its constant included */
    double overhead;   /* equation (1) without the last segment */
    double recomputed; /* equation (1) as it stands */
} remat_plan_cost;

/* Makes nodes lean only where it makes a difference: those of remat_can_be_lean in the boundary of
 * their lower set. */
void remat_plan_trim(const remat_profile *profile, const remat_plan *plan);

/* Whether segments 0, 1, .. without a gap increase along every edge and the plan is trimmed (a
 * damaged table's need not be). */
bool remat_plan_valid(const remat_graph *graph, const remat_plan *plan);

/* The model's bytes and overhead of a valid plan, from the definitions. */
remat_status remat_plan_measure(const remat_graph *graph, const remat_plan *plan,
                                remat_plan_cost *ret_cost, remat_error *error);

/* Appends the operations of a valid plan, without D. A node is run again only if its backward, that
 * of a consumer or another node run again needs it. */
remat_status remat_plan_emit(const remat_profile *profile, const remat_plan *plan,
                             remat_operations *operations, remat_error *error);

#endif
