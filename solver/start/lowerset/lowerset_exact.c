/* lowerset-exact: the recurrence (frontier.c) over all lower sets. Every step is optimal for its
 * nominal budget under the safe model (graph.h). A graph with more lower sets than the option
 * allows is refused by the estimate, before anything is allocated. */
#include "start/lowerset/search.h"

enum { CENTRIC, MOST_SETS };

/* Real times make few partial plans comparable: as many of them to a set as were seen on
 * networks. */
#define FRONT_POINTS 1000

static const char *const centrics[] = {"time", "memory", NULL};

static const remat_option options[] = {
    [CENTRIC] = {.name = "centric",
                 .summary = "Least overhead that fits (time) or largest (memory), which liveness "
                            "rewards where memory is short.",
                 .type = REMAT_OPTION_CHOICE,
                 .choices = centrics},
    [MOST_SETS] = {.name = "max_lower_sets",
                   .summary = "Graphs with more lower sets are refused.",
                   .type = REMAT_OPTION_INTEGER,
                   .minimum = 2,
                   .maximum = 10000000,
                   .default_value = 50000},
};

static graph_search choose(const remat_problem *problem)
{
    bool memory = problem->options.values[CENTRIC] > 0;
    size_t limit = (size_t)problem->options.values[MOST_SETS];
    return (graph_search){.family = GRAPH_FAMILY_EXACT,
                          .candidates = memory ? GRAPH_SEARCH_MEMORY : GRAPH_SEARCH_TIME,
                          .most_sets =
                              graph_sets_most(problem->profile, GRAPH_FAMILY_EXACT, limit)};
}

static remat_status refuse(const remat_problem *problem, const graph_search *search,
                           remat_error *error)
{
    size_t limit = (size_t)problem->options.values[MOST_SETS];
    if (search->most_sets == SIZE_MAX)
        return remat_fail_memory(error);
    if (search->most_sets <= limit)
        return REMAT_OK;
    return remat_fail(
        error, REMAT_TOO_LARGE, "options.max_lower_sets",
        "\"%.200s\" has more than %zu lower sets; their table would need more than "
        "%llu bytes; lowerset-approx and lowerset take a family of at most %zu",
        problem->profile->name, limit,
        (unsigned long long)graph_search_estimate(search, problem->profile).table_bytes,
        graph_sets_most(problem->profile, GRAPH_FAMILY_ENRICHED, 0));
}

static remat_status lowerset_exact_estimate(const remat_problem *problem,
                                            remat_estimate *ret_estimate, remat_error *error)
{
    graph_search search = choose(problem);
    remat_status status = refuse(problem, &search, error);
    if (status)
        return status;
    *ret_estimate = graph_search_estimate(&search, problem->profile);
    ret_estimate->updates *= FRONT_POINTS;
    return REMAT_OK;
}

static remat_status lowerset_exact_solve(const remat_problem *problem, const remat_host *host,
                                         const remat_sink *sink, remat_error *error)
{
    graph_search search = choose(problem);
    remat_status status = refuse(problem, &search, error);
    return status ? status : graph_search_solve(&search, problem, host, sink, error);
}

const remat_solver remat_solver_lowerset_exact = {
    .name = "lowerset-exact",
    .summary = "The best increasing sequence of lower sets, by dynamic programming over all of "
               "them.",
    .source = "Kusumoto, Inoue, Watanabe, Akiba, Koyama: A graph theoretic framework of "
              "recomputation algorithms for memory-efficient backpropagation, 2019",
    .optimal_for = "canonical strategies of a graph, before liveness",
    .accepts = REMAT_ACCEPTS_ANY_SHAPE | REMAT_BASELINE,
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .estimate = lowerset_exact_estimate,
    .class_name = GRAPH_PLANS_CLASS,
    .bounds_all = true,
    .solve = lowerset_exact_solve,
};
