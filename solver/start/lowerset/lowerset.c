/* lowerset: the paper's recipe as the default for graphs.
 *
 * Kusumoto et al. 2019, section 5: time-centric first and, where nothing fits, memory-centric. Here
 * both, and Chen's segments, are candidates of one table and the replay of each decides: the least
 * true peak is now one's, now another's (specification, 9). The family is that of all lower sets
 * where they are few, else the enriched pruned one; graphs of very many nodes get Chen's segments
 * alone, so that there is always an answer.
 *
 * Beyond the paper, whose nodes have an output and nothing else: of a node that also saves values
 * for its backward a boundary may keep the output alone (graph_boundary). Where the nodes are whole
 * blocks of a network, as the layers of a transformer, nearly all memory is saved values. */
#include "start/lowerset/search.h"

enum { EXACT_SETS = 600, MOST_NODES = 4000 };

/* most_sets SIZE_MAX: out of memory. */
static graph_search choose(const remat_problem *problem)
{
    const remat_profile *profile = problem->profile;
    graph_search search = {.family = GRAPH_FAMILY_EXACT,
                           .candidates = GRAPH_SEARCH_CHEN | GRAPH_SEARCH_LEAN,
                           .thinned = true};
    if (profile->n_nodes > MOST_NODES)
        return search;
    search.candidates |= GRAPH_SEARCH_TIME | GRAPH_SEARCH_MEMORY;
    search.most_sets = graph_sets_most(profile, GRAPH_FAMILY_EXACT, EXACT_SETS);
    if (search.most_sets <= EXACT_SETS || search.most_sets == SIZE_MAX)
        return search;
    search.family = GRAPH_FAMILY_ENRICHED;
    search.most_sets = graph_sets_most(profile, GRAPH_FAMILY_ENRICHED, 0);
    return search;
}

static remat_status lowerset_estimate(const remat_problem *problem, remat_estimate *ret_estimate,
                                      remat_error *error)
{
    graph_search search = choose(problem);
    if (search.most_sets == SIZE_MAX)
        return remat_fail_memory(error);
    *ret_estimate = graph_search_estimate(&search, problem->profile);
    return REMAT_OK;
}

static remat_status lowerset_solve(const remat_problem *problem, const remat_host *host,
                                   const remat_sink *sink, remat_error *error)
{
    graph_search search = choose(problem);
    if (search.most_sets == SIZE_MAX)
        return remat_fail_memory(error);
    return graph_search_solve(&search, problem, host, sink, error);
}

const remat_solver remat_solver_lowerset = {
    .name = "lowerset",
    .summary = "Sequences of lower sets of any graph: time-centric, memory-centric and Chen's "
               "segments, with what boundaries save or with their outputs alone, the best by "
               "replay.",
    .source = "Kusumoto, Inoue, Watanabe, Akiba, Koyama: A graph theoretic framework of "
              "recomputation algorithms for memory-efficient backpropagation, 2019",
    .optimal_for = "",
    .accepts = REMAT_ACCEPTS_ANY_SHAPE,
    .estimate = lowerset_estimate,
    .class_name = GRAPH_PLANS_CLASS,
    .bounds_all = true,
    .solve = lowerset_solve,
};
