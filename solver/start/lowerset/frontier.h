/* The lower-set recurrence for every budget at once (the recurrence is at the head of frontier.c).
 */
#ifndef REMAT_START_LOWERSET_FRONTIER_H
#define REMAT_START_LOWERSET_FRONTIER_H

#include "start/lowerset/canonical.h"
#include "start/lowerset/sets.h"

typedef struct graph_frontier_rules {
    bool memory_centric;   /* the largest overhead that fits instead of the least */
    bool last_recomputed;  /* equation (1) literally: the last segment counts as recomputed */
    bool lean;             /* a boundary is full or lean, whichever serves; else all are full */
    bool thinned;          /* of entries within about 2 % of the same bytes keep the cheapest */
    uint64_t memory_limit; /* bytes, 0: none */
} graph_frontier_rules;

/* One Pareto-optimal sequence of lower sets from here to V: none with fewer bytes costs as little.
 */
typedef struct graph_entry {
    double bytes;   /* least budget beyond what is cached already; exact below 2^53 */
    double cost;    /* overhead; memory-centric: minus the overhead */
    uint32_t step;  /* graph_step of its first lower set */
    uint32_t entry; /* of this set, with which it goes on */
} graph_entry;

/* A lower set and the kind of its boundary in one number. */
static inline uint32_t graph_step(size_t set, graph_boundary kind)
{
    return (uint32_t)set * GRAPH_BOUNDARIES + (uint32_t)kind;
}

typedef struct graph_frontier {
    size_t n_sets;
    graph_entry **entries; /* by set: increasing bytes, strictly decreasing cost */
    uint32_t *counts;
    uint64_t table_bytes;
} graph_frontier;

/* Corners of one set, of the order of what real networks have. */
enum { GRAPH_FRONTIER_LIST = 128 };

/* Bytes of computing the frontier of n_sets lower sets with lists of that length on one thread. */
uint64_t graph_frontier_bytes(size_t n_sets);

/* Entry i of the empty set, entries[0][i], is the cheapest sequence within entries[0][i].bytes.
 * REMAT_TOO_LARGE past the memory limit. The caller clears it, not after failure. */
remat_status graph_frontier_init(graph_frontier *ret_frontier, const graph_view *graph,
                                 const graph_sets *sets, const graph_frontier_rules *rules,
                                 const remat_host *host, remat_error *error);
void graph_frontier_clear(graph_frontier *frontier);

/* The segment of each node, 0 .. segments - 1, in the sequence of one entry of the empty set, and
 * whether its boundary is lean. plan has room for n nodes. */
void graph_frontier_path(const graph_frontier *frontier, const graph_sets *sets, uint32_t entry,
                         const graph_plan *plan);

#endif
