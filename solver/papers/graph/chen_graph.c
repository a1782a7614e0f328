/* chen-graph: Chen's segments between articulation points; the method is at the head of
 * chen_cuts.c. */
#include "start/lowerset/search.h"

static const graph_search search = {.candidates = GRAPH_SEARCH_CHEN};

static remat_status chen_graph_estimate(const remat_problem *problem, remat_estimate *ret_estimate,
                                        remat_error *error)
{
    (void)error;
    *ret_estimate = graph_search_estimate(&search, problem->profile);
    return REMAT_OK;
}

static remat_status chen_graph_solve(const remat_problem *problem, const remat_host *host,
                                     const remat_sink *sink, remat_error *error)
{
    return graph_search_solve(&search, problem, host, sink, error);
}

const remat_solver remat_solver_chen_graph = {
    .name = "chen-graph",
    .summary = "Cuts a graph into segments at articulation points; searches the threshold.",
    .source = "Chen, Xu, Zhang, Guestrin: Training deep nets with sublinear memory cost, 2016, "
              "Algorithm 3; on graphs as Kusumoto et al., 2019, Appendix B",
    .optimal_for = "",
    .accepts = REMAT_ACCEPTS_ANY_SHAPE | REMAT_BASELINE,
    .estimate = chen_graph_estimate,
    .class_name = GRAPH_PLANS_CLASS,
    .bounds_all = true,
    .solve = chen_graph_solve,
};
