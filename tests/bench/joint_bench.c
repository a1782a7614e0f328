/* bench-joint: what interval reaches on joint graphs: random layered ones, and files. Writes
 * Markdown to standard output:
 *
 *   ninja -C build tests/bench/bench-joint && build/tests/bench/bench-joint >
 * tests/bench/joint_results.md build/tests/bench/bench-joint --effort quick --percents 90,80
 * --nodes 250 [PROFILE...]
 *
 * Overheads and gaps are functions of the question and the same on every machine; seconds are wall
 * time of one run with two workers. No layout: the budget is about the peak, as in the literature.
 */
#include "bench.h"
#include "graph_profiles.h"

#include "remat/answer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PERCENTS = 16 };

typedef struct plan {
    double percents[MOST_PERCENTS];
    size_t n_percents;
    uint32_t nodes[MOST_PERCENTS];
    size_t n_nodes;
    uint32_t width; /* of layers; 0: see there */
    remat_effort effort;
    bool given, free;
} plan;

/* ---- random layered graphs ---- */

static uint64_t roll(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint32_t below(uint64_t *state, uint32_t bound)
{
    return (uint32_t)(roll(state) % bound);
}

/* So many nodes in a layer, 0: as many as layers. An edge to a node of an earlier layer is there
 * with a probability that halves with the distance and gives sqrt(n) / 5 of them on the mean; each
 * node of a later layer has one at least. Sizes and times are whole numbers up to 100; what nobody
 * reads is an output, of no bytes once it is made, as `remat profile import` has it. */
static remat_profile *layered(uint32_t n, uint32_t width, uint64_t seed)
{
    remat_node_spec *nodes = calloc(n, sizeof *nodes);
    char(*ids)[12] = calloc(n, sizeof *ids);
    const char **inputs = calloc((size_t)n * n, sizeof *inputs), **ends = calloc(n, sizeof *ends);
    bool *read = calloc(n, sizeof *read);
    uint32_t layers = width > 0 ? n / width : (uint32_t)sqrt(n);
    uint32_t likely = (uint32_t)((1u << 24) / 10 * sqrt(n) * layers / n);
    if (!nodes || !ids || !inputs || !ends || !read)
        exit(1);
    for (uint32_t v = 0; v < n; v++) {
        uint32_t layer = v * layers / n,
                 first = (uint32_t)((layer * (uint64_t)n + layers - 1) / layers);
        const char **own = inputs + (size_t)v * n;
        size_t count = 0;
        snprintf(ids[v], sizeof ids[v], "n%u", v);
        for (uint32_t u = 0; u < first; u++) {
            uint32_t distance = layer - u * layers / n;
            if (distance > 20 || below(&seed, 1u << 24) >= likely >> (distance - 1))
                continue;
            own[count++] = ids[u];
            read[u] = true;
        }
        if (count == 0 && layer > 0) {
            uint32_t u = first - 1 - below(&seed, n / layers);
            own[count++] = ids[u];
            read[u] = true;
        }
        nodes[v] = (remat_node_spec){.id = ids[v],
                                     .inputs = own,
                                     .n_inputs = count,
                                     .forward_time = {1 + below(&seed, 100), true},
                                     .output_bytes = {1 + below(&seed, 100), true}};
    }
    size_t n_ends = 0;
    for (uint32_t v = 0; v < n; v++)
        if (!read[v]) {
            ends[n_ends++] = ids[v];
            nodes[v].forward_workspace_bytes = nodes[v].output_bytes;
            nodes[v].output_bytes.value = 0;
        }
    char name[32];
    snprintf(name, sizeof name, "layered-%u", n);
    const remat_profile_spec spec = {.format = "remat-profile/1",
                                     .name = name,
                                     .graph = "joint",
                                     .time_unit = "units",
                                     .nodes = nodes,
                                     .n_nodes = n,
                                     .outputs = ends,
                                     .n_outputs = n_ends};
    remat_profile *profile = NULL;
    remat_error error;
    if (remat_profile_new(&spec, &profile, &error)) {
        fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
    free(nodes);
    free(ids);
    free(inputs);
    free(ends);
    free(read);
    return profile;
}

/* ---- questions ---- */

static void ask(const plan *asked, const remat_profile *profile, bool given, double percent)
{
    const remat_solver *interval = remat_solver_find("interval");
    const remat_host *host = bench_host(2);
    uint64_t store_all;
    remat_portfolio portfolio = {.n = 0};
    remat_schedule schedule = {0};
    remat_error error = {0};
    if (remat_store_all_peak(profile, &store_all, &error))
        exit(1);
    uint64_t budget = (uint64_t)floor(percent / 100 * (double)store_all);
    remat_problem problem = {.profile = profile, .max_budget = budget};
    problem.options = remat_options_default(interval);
    if (given && remat_options_set(interval, &problem.options, "order", 0, "given", &error))
        exit(1);
    double start = bench_cpu_seconds();
    remat_status status =
        remat_portfolio_gather(interval, &problem, host, NULL, &portfolio, &error);
    if (!status)
        status = remat_portfolio_schedule(&portfolio, &problem, budget, 0, asked->effort, host,
                                          &schedule, &error);
    double seconds = bench_cpu_seconds() - start;
    if (status == REMAT_INFEASIBLE)
        printf(" none; ; %.0f |", seconds);
    else if (status)
        fprintf(stderr, "%s\n", error.message);
    else
        printf(" %.2f; %.2f; %.0f |",
               100 * (schedule.simulation.makespan / remat_store_all_makespan(profile) - 1),
               100 * (schedule.lower_bound / remat_store_all_makespan(profile) - 1), seconds);
    fflush(stdout);
    remat_schedule_clear(&schedule);
    remat_portfolio_release(&portfolio);
}

static void rows(const plan *asked, const remat_profile *profile)
{
    for (int given = 0; given < 2; given++) {
        if (!(given ? asked->given : asked->free))
            continue;
        printf("| %s | %u | %u | %s |", profile->name, profile->n_nodes, profile->n_edges,
               given ? "given" : "free");
        for (size_t i = 0; i < asked->n_percents; i++)
            ask(asked, profile, given, asked->percents[i]);
        printf("\n");
    }
}

/* ---- the command line ---- */

static size_t read_numbers(const char *text, double *numbers)
{
    size_t n = 0;
    for (char *end; n < MOST_PERCENTS && *text; text = *end == ',' ? end + 1 : end, n++) {
        numbers[n] = strtod(text, &end);
        if (end == text)
            exit(2);
    }
    return n;
}

static int read_arguments(plan *asked, int argc, char **argv)
{
    int i = 1;
    for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
        double numbers[MOST_PERCENTS];
        if (strcmp(argv[i], "--effort") == 0)
            asked->effort = strcmp(argv[i + 1], "quick") == 0 ? REMAT_QUICK : REMAT_THOROUGH;
        else if (strcmp(argv[i], "--order") == 0)
            *(strcmp(argv[i + 1], "free") == 0 ? &asked->given : &asked->free) = false;
        else if (strcmp(argv[i], "--percents") == 0)
            asked->n_percents = read_numbers(argv[i + 1], asked->percents);
        else if (strcmp(argv[i], "--width") == 0)
            asked->width = (uint32_t)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--nodes") == 0) {
            asked->n_nodes = read_numbers(argv[i + 1], numbers);
            for (size_t k = 0; k < asked->n_nodes; k++)
                asked->nodes[k] = (uint32_t)numbers[k];
        } else {
            exit(2);
        }
    }
    return i;
}

int main(int argc, char **argv)
{
    plan asked = {.percents = {90, 80, 60, 50},
                  .n_percents = 4,
                  .nodes = {250, 500, 1000},
                  .n_nodes = 3,
                  .effort = REMAT_THOROUGH,
                  .given = true,
                  .free = true};
    int at = read_arguments(&asked, argc, argv);
    printf("# Joint graphs\n\n`bench-joint` on %s, two workers, `--effort %s` of `interval`, no "
           "layout.\n\nOverhead over the sum of all times; what is proven of it (both in %%); "
           "seconds of processor time. Budgets in "
           "%% of the peak of the order given.\n\n| graph | nodes | edges | order |",
           bench_cpu_name(), remat_effort_name(asked.effort));
    for (size_t i = 0; i < asked.n_percents; i++)
        printf(" %g %% |", asked.percents[i]);
    printf("\n| --- | ---: | ---: | --- |");
    for (size_t i = 0; i < asked.n_percents; i++)
        printf(" --- |");
    printf("\n");
    for (size_t i = 0; i < asked.n_nodes; i++) {
        remat_profile *profile = layered(asked.nodes[i], asked.width, asked.nodes[i]);
        rows(&asked, profile);
        remat_profile_free(profile);
    }
    for (; at < argc; at++) {
        remat_profile *profile = bench_graph_file(argv[at]);
        if (!profile)
            return 1;
        rows(&asked, profile);
        remat_profile_free(profile);
    }
    return 0;
}
