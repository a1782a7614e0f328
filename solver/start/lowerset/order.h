/* What must come before what: the edges of the profile, and from the writer of a version of a state
 * to each node that reads this version (a state can be put back to a version that was there, not to
 * one that is still to come). Lower sets and segments are closed under both; values flow along the
 * first kind only. */
#ifndef REMAT_START_LOWERSET_ORDER_H
#define REMAT_START_LOWERSET_ORDER_H

#include "model/arena.h"
#include "remat/profile.h"

typedef struct graph_order {
    uint32_t n;
    uint32_t *first_before, *before; /* v: before[first_before[v] .. first_before[v + 1] - 1] */
    uint32_t *first_after, *after;
    model_arena arena;
} graph_order;

/* Clear it, on failure too. */
remat_status graph_order_init(graph_order *order, const remat_profile *profile, remat_error *error);
void graph_order_clear(graph_order *order);

#endif
