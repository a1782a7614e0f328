/* Families of lower sets, with what the recurrence needs of each of them. */
#ifndef REMAT_START_LOWERSET_SETS_H
#define REMAT_START_LOWERSET_SETS_H

#include "start/lowerset/graph.h"

typedef enum graph_lowerset_family {
    GRAPH_FAMILY_EXACT,   /* all lower sets */
    GRAPH_FAMILY_PAPER,   /* the ancestor sets L^v, the empty set and V */
    GRAPH_FAMILY_ENRICHED /* those and the prefixes of two topological orders */
} graph_lowerset_family;

typedef struct graph_set {
    uint32_t level; /* the first node it lacks: it contains the prefix of that length */
    uint32_t size;
    uint32_t far; /* every lower set of this level or a higher one contains it, and none of its
                     nodes is in the boundary of one */
    uint32_t first, n_boundary; /* into boundary[] of the family */
    uint64_t bytes;             /* kept and gradient of its nodes */
    uint64_t boundary_cached[GRAPH_BOUNDARIES];
    uint64_t entry; /* bytes that a segment starting from it holds for it: gradients of the
                       boundary; 0 under equation (2) */
    uint64_t leave; /* bytes that a segment ending in it holds outside: the last two terms of
                       equation (2); 0 under the safe model */
    double time, boundary_spared[GRAPH_BOUNDARIES];
} graph_set;

/* Ordered by level, then size, then members; the empty set is the first, V the last. No set twice.
 */
typedef struct graph_sets {
    uint32_t n, words;
    size_t count;
    uint64_t *bits; /* count times words */
    graph_set *sets;
    uint32_t *boundary;
} graph_sets;

static inline const uint64_t *graph_sets_bits(const graph_sets *sets, size_t i)
{
    return sets->bits + i * sets->words;
}

/* Number of lower sets of the profile, or limit + 1 as soon as there are more. SIZE_MAX: out of
 * memory. */
size_t graph_sets_count(const remat_profile *profile, size_t limit);

/* An upper bound on the size of a family: exact count for GRAPH_FAMILY_EXACT (limit + 1 when past
 * it), 3 n + 2 at most for the others. */
size_t graph_sets_most(const remat_profile *profile, graph_lowerset_family family, size_t limit);

/* Bytes of a family of count sets. */
uint64_t graph_sets_bytes(uint32_t n, size_t count);

/* Builds a family of at most `most` sets (as counted before). REMAT_CANCELLED at the host's wish.
 * The caller clears it, not after failure. */
remat_status graph_sets_init(graph_sets *ret_sets, const graph_view *graph,
                             graph_lowerset_family family, size_t most, const remat_host *host,
                             remat_error *error);
void graph_sets_clear(graph_sets *sets);

#endif
