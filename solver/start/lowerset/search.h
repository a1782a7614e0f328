/* Candidate plans: corners of the recurrence's frontier, and Chen's segments. */
#ifndef REMAT_START_LOWERSET_SEARCH_H
#define REMAT_START_LOWERSET_SEARCH_H

#include "start/lowerset/frontier.h"
#include "start/lowerset/plans.h"

enum {
    GRAPH_SEARCH_TIME = 1,   /* time-centric corners */
    GRAPH_SEARCH_MEMORY = 2, /* memory-centric corners */
    GRAPH_SEARCH_CHEN = 4,
    GRAPH_SEARCH_LEAN = 8 /* the same once more with lean boundaries too, where there can be any */
};

typedef struct graph_search {
    graph_lowerset_family family;
    unsigned candidates; /* GRAPH_SEARCH_... */
    size_t most_sets;    /* of the family */
    bool thinned;        /* lists: graph_frontier_rules */
} graph_search;

enum { GRAPH_SEARCH_STEPS = 160 }; /* at most, with lean boundaries as many again */

remat_estimate graph_search_estimate(const graph_search *search, const remat_profile *profile);

/* As remat_solver.solve. */
remat_status graph_search_solve(const graph_search *search, const remat_problem *problem,
                                const remat_host *host, const remat_sink *sink, remat_error *error);

/* Adds Chen's segments (chen_cuts.c) for a family of thresholds, every boundary of this kind. */
remat_status graph_chen_add(graph_plans *plans, const graph_view *graph, graph_boundary kind,
                            const remat_host *host, remat_error *error);

#endif
