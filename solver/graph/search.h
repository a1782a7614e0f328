/* Candidate plans: corners of the recurrence's frontier, and Chen's segments. */
#ifndef REMAT_GRAPH_SEARCH_H
#define REMAT_GRAPH_SEARCH_H

#include "graph/frontier.h"
#include "graph/plans.h"

enum {
    REMAT_SEARCH_TIME = 1,   /* time-centric corners */
    REMAT_SEARCH_MEMORY = 2, /* memory-centric corners */
    REMAT_SEARCH_CHEN = 4,
    REMAT_SEARCH_LEAN = 8 /* the same once more with lean boundaries too, where there can be any */
};

typedef struct remat_search {
    remat_lowerset_family family;
    unsigned candidates; /* REMAT_SEARCH_... */
    size_t most_sets;    /* of the family */
    bool thinned;        /* lists: remat_frontier_rules */
} remat_search;

enum { REMAT_SEARCH_STEPS = 160 }; /* at most, with lean boundaries as many again */

remat_estimate remat_search_estimate(const remat_search *search, const remat_profile *profile);

/* As remat_solver.solve. */
remat_status remat_search_solve(const remat_search *search, const remat_problem *problem,
                                const remat_host *host, const remat_sink *sink, remat_error *error);

/* Adds Chen's segments (chen_cuts.c) for a family of thresholds, every boundary of this kind. */
remat_status remat_chen_add(graph_plans *plans, const remat_graph *graph, remat_boundary kind,
                            const remat_host *host, remat_error *error);

#endif
