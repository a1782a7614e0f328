/* lowerset-approx: the recurrence (frontier.c) over the pruned family {L^v}, or over that family
 * enriched with prefixes of topological orders (sets.c). */
#include "start/lowerset/search.h"

enum { FAMILY, CENTRIC };

static const char *const families[] = {"enriched", "paper", NULL};
static const char *const centrics[] = {"time", "memory", NULL};

static const remat_option options[] = {
    [FAMILY] = {.name = "family",
                .summary = "The ancestor sets of the paper alone, or enriched with prefixes of "
                           "topological orders.",
                .type = REMAT_OPTION_CHOICE,
                .choices = families},
    [CENTRIC] = {.name = "centric",
                 .summary = "Least overhead that fits (time) or largest (memory), which liveness "
                            "rewards where memory is short.",
                 .type = REMAT_OPTION_CHOICE,
                 .choices = centrics},
};

static graph_search choose(const remat_problem *problem)
{
    bool paper = problem->options.values[FAMILY] > 0, memory = problem->options.values[CENTRIC] > 0;
    graph_lowerset_family family = paper ? GRAPH_FAMILY_PAPER : GRAPH_FAMILY_ENRICHED;
    return (graph_search){.family = family,
                          .candidates = memory ? GRAPH_SEARCH_MEMORY : GRAPH_SEARCH_TIME,
                          .most_sets = graph_sets_most(problem->profile, family, 0),
                          .thinned = true};
}

static remat_status lowerset_approx_estimate(const remat_problem *problem,
                                             remat_estimate *ret_estimate, remat_error *error)
{
    (void)error;
    graph_search search = choose(problem);
    *ret_estimate = graph_search_estimate(&search, problem->profile);
    return REMAT_OK;
}

static remat_status lowerset_approx_solve(const remat_problem *problem, const remat_host *host,
                                          const remat_sink *sink, remat_error *error)
{
    graph_search search = choose(problem);
    return graph_search_solve(&search, problem, host, sink, error);
}

const remat_solver remat_solver_lowerset_approx = {
    .name = "lowerset-approx",
    .summary = "Sequences of ancestor sets and prefixes, by dynamic programming.",
    .source = "Kusumoto, Inoue, Watanabe, Akiba, Koyama: A graph theoretic framework of "
              "recomputation algorithms for memory-efficient backpropagation, 2019, section 4.3",
    .optimal_for = "",
    .accepts = REMAT_ACCEPTS_ANY_SHAPE | REMAT_BASELINE,
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .estimate = lowerset_approx_estimate,
    .class_name = GRAPH_PLANS_CLASS,
    .bounds_all = true,
    .solve = lowerset_approx_solve,
};
