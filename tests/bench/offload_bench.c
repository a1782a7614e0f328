/* bench-offload: times of pofo's programs on random chains, and makespans of the solvers that
 * offload on the bundled chains. Writes Markdown to standard output:
 *
 *   ninja -C build tests/bench/bench-offload
 *   build/tests/bench/bench-offload > tests/bench/offload_results.md
 *
 * Times are wall times on two workers (label search: one), the median of three runs. */
#include "bench.h"
#include "chains.h"
#include "graph_profiles.h"

#include "remat/table.h"
#include "start/offload/forward.h"
#include "start/offload/labels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUNS = 3, SEEDS = 10, SLOTS = 50 };
#define PCIE_BYTES_PER_SECOND 12e9 /* PCIe 3.0 x16, what a copy reaches, each way at once */

static double milliseconds(void)
{
    return 1e3 * bench_wall_seconds();
}

/* ---- times ---- */

/* A link that moves everything once each way in the time of one step. */
static remat_link balanced_link(const remat_profile *profile)
{
    double bytes = 0;
    for (uint32_t v = 0; v < profile->n_nodes; v++)
        bytes += (double)(profile->nodes[v].output_bytes + profile->nodes[v].saved_bytes);
    double bandwidth = bytes / (profile->forward_time + profile->backward_time);
    return (remat_link){.to_host = bandwidth, .to_device = bandwidth};
}

static void check(remat_status status, const remat_error *error)
{
    if (!status)
        return;
    fprintf(stderr, "%s: %s\n", remat_status_name(status), error->message);
    exit(1);
}

/* A program over 50 slots of budget bytes. */
typedef struct program {
    offload_model model;
    offload_backward backward;
    offload_forward forward;
} program;

static void solve_program(program *p, const remat_profile *profile, const chain_costs *chain,
                          const remat_link *link, uint64_t budget, bool relaxed)
{
    remat_error error;
    check(offload_model_init(&p->model, profile, chain, link, SLOTS, budget, true, &error), &error);
    check(offload_backward_init(&p->backward, &p->model, budget, SLOTS, relaxed, bench_host(2),
                                &error),
          &error);
    check(offload_forward_init(&p->forward, &p->backward, bench_host(2), &error), &error);
}

static void clear_program(program *p)
{
    offload_forward_clear(&p->forward);
    offload_backward_clear(&p->backward);
    offload_model_clear(&p->model);
}

/* Milliseconds of both programs over slots, by the clock and of the processor, and their memory. */
static double slots_time(const remat_profile *profile, const remat_link *link, uint64_t budget,
                         double *ret_cpu, uint64_t *ret_bytes)
{
    remat_error error;
    chain_costs *chain;
    program p;
    clock_t cpu = clock();
    double start = milliseconds();
    check(chain_new(profile, &chain, &error), &error);
    solve_program(&p, profile, chain, link, budget, false);
    double end = milliseconds();
    *ret_cpu = (double)(clock() - cpu) * 1e3 / CLOCKS_PER_SEC;
    *ret_bytes = offload_backward_bytes(chain->n, SLOTS) + offload_forward_bytes(chain->n, SLOTS);
    clear_program(&p);
    chain_free(chain);
    return end - start;
}

static double pofo_time(const remat_profile *profile, const remat_link *link, uint64_t budget,
                        double slots)
{
    const remat_solver *pofo = remat_solver_find("pofo");
    remat_problem problem = {.profile = profile,
                             .link = link,
                             .options = remat_options_default(pofo),
                             .max_budget = budget};
    remat_error error;
    remat_table *table;
    problem.options.values[0] = slots;
    double start = milliseconds();
    check(remat_tabulate(pofo, &problem, bench_host(2), &table, &error), &error);
    double end = milliseconds();
    remat_table_free(table);
    return end - start;
}

static void print_slots_times(void)
{
    static const struct {
        uint32_t n;
        double limit;
    } rows[] = {{20, 0}, {50, 500}, {100, 3000}};
    printf("## Both programs over %d slots, random chains\n\n"
           "Budget: half of storing everything. Solve: the whole of pofo, rotor, baselines and "
           "placing included. The "
           "machine is shared: processor time, halved for two workers, is what two idle cores "
           "take.\n\n"
           "| stages | tables, processor ms / 2 | tables, ms | limit, ms | memory, MB | solve at "
           "%d slots, ms | solve at "
           "default slots, ms |\n| ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
           SLOTS, SLOTS);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        remat_profile *profile = bench_random_chain(rows[r].n, 1);
        remat_link link = balanced_link(profile);
        uint64_t peak, bytes = 0;
        double tables[RUNS], cpu[RUNS], solve[RUNS], by_default[RUNS];
        check(remat_store_all_peak(profile, &peak, NULL), &(remat_error){0});
        for (int run = 0; run < RUNS; run++) {
            tables[run] = slots_time(profile, &link, peak / 2, &cpu[run], &bytes);
            solve[run] = pofo_time(profile, &link, peak / 2, SLOTS);
            by_default[run] = pofo_time(profile, &link, peak / 2, 0);
        }
        printf("| %u | %.0f | %.0f |", rows[r].n, bench_median(cpu, RUNS) / 2,
               bench_median(tables, RUNS));
        if (rows[r].limit > 0)
            printf(" %.0f |", rows[r].limit);
        else
            printf(" |");
        printf(" %.0f | %.0f | %.0f |\n", (double)bytes / 1e6, bench_median(solve, RUNS),
               bench_median(by_default, RUNS));
        fflush(stdout);
        remat_profile_free(profile);
    }
}

/* One search at half of storing everything, bounded by the programs over slots as in pofo. */
static double labels_time(uint32_t n, uint64_t seed, offload_labels_result *ret_result)
{
    remat_profile *profile = bench_random_chain(n, seed);
    remat_link link = balanced_link(profile);
    remat_error error;
    chain_costs *chain;
    offload_model model;
    program above, below;
    uint64_t peak;
    check(remat_store_all_peak(profile, &peak, &error), &error);
    uint64_t budget = peak / 2;
    check(chain_new(profile, &chain, &error), &error);
    check(offload_model_init(&model, profile, chain, &link, 1, budget, false, &error), &error);
    solve_program(&above, profile, chain, &link, budget, false);
    double start = milliseconds();
    solve_program(&below, profile, chain, &link, budget, true);
    double bound = offload_forward_value(&above.forward, SLOTS) / above.model.units_per_time;
    check(offload_labels_search(&model, &below.forward, budget, bound, OFFLOAD_LABEL_WORK, NULL,
                                ret_result, &error),
          &error);
    double end = milliseconds();
    offload_plan_clear(&ret_result->plan);
    clear_program(&above);
    clear_program(&below);
    offload_model_clear(&model);
    chain_free(chain);
    remat_profile_free(profile);
    return end - start;
}

static void print_label_times(void)
{
    printf(
        "\n## Label search, %d random chains of each length\n\n"
        "Exact bytes at half of storing everything, with the work that pofo allows (a search past "
        "it is given up, and the plan over slots stays); makespan bounded by the program over 50 "
        "slots; the time of the relaxed program (two cores) included. Limit 1000 ms up to 20 "
        "stages.\n\n"
        "| stages | finished | median, ms | slowest, ms | most labels | most work |\n"
        "| ---: | ---: | ---: | ---: | ---: | ---: |\n",
        SEEDS);
    for (uint32_t n = 8; n <= 24; n += 4) {
        double times[SEEDS], work = 0;
        uint64_t labels = 0;
        int finished = 0;
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            offload_labels_result result;
            times[seed] = labels_time(n, seed + 1, &result);
            finished += result.finished;
            labels = result.labels > labels ? result.labels : labels;
            work = fmax(work, result.work);
        }
        double middle = bench_median(times, SEEDS);
        printf("| %u | %d of %d | %.1f | %.0f | %llu | %.2g |\n", n, finished, SEEDS, middle,
               times[SEEDS - 1], (unsigned long long)labels, work);
        fflush(stdout);
    }
}

/* ---- makespans ---- */

static const char *const contestants[] = {"rotor", "offload-all", "offload-conv", "offload-greedy",
                                          "pofo"};
enum { CONTESTANTS = sizeof contestants / sizeof *contestants, PERCENTS = 4 };

/* Row of one budget; returns whether pofo is no slower than the others. */
static bool print_budget(remat_table *const *tables, double store_all, uint64_t budget)
{
    double best = INFINITY, last = INFINITY;
    for (size_t s = 0; s < CONTESTANTS; s++) {
        size_t count;
        const remat_point *frontier = remat_table_frontier(tables[s], &count);
        ptrdiff_t at = remat_table_point(tables[s], budget);
        last = at < 0 ? INFINITY : frontier[at].makespan;
        if (s + 1 < CONTESTANTS)
            best = fmin(best, last);
        if (at < 0)
            printf(" - |");
        else
            printf(" %+.1f %% |", 100 * (last / store_all - 1));
    }
    return last <= best * (1 + 1e-9);
}

static int print_chain(const char *name)
{
    static const uint64_t percents[PERCENTS] = {30, 40, 50, 60};
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.json", BENCH_PROFILES, name);
    remat_profile *profile = bench_graph_file(path);
    if (!profile)
        exit(1);
    double bandwidth = PCIE_BYTES_PER_SECOND * remat_time_unit_seconds(profile->time_unit);
    remat_link link = {.to_host = bandwidth, .to_device = bandwidth};
    remat_error error;
    remat_table *tables[CONTESTANTS];
    uint64_t peak;
    double time = 0;
    int worse = 0;
    check(remat_store_all_peak(profile, &peak, &error), &error);
    for (size_t s = 0; s < CONTESTANTS; s++) {
        const remat_solver *solver = remat_solver_find(contestants[s]);
        const remat_problem problem = {.profile = profile,
                                       .link = &link,
                                       .options = remat_options_default(solver),
                                       .max_budget = peak};
        time = milliseconds();
        check(remat_tabulate(solver, &problem, bench_host(2), &tables[s], &error), &error);
        time = milliseconds() - time;
    }
    for (size_t k = 0; k < PERCENTS; k++) {
        printf("| %s | %u | %llu %% |", name, profile->n_nodes, (unsigned long long)percents[k]);
        worse += !print_budget(tables, remat_store_all_makespan(profile), peak / 100 * percents[k]);
        if (k == 0)
            printf(" %.0f |\n", time);
        else
            printf(" |\n");
    }
    fflush(stdout);
    for (size_t s = 0; s < CONTESTANTS; s++)
        remat_table_free(tables[s]);
    remat_profile_free(profile);
    return worse;
}

static int print_makespans(void)
{
    static const char *const names[] = {"gpt.chain",       "gpt.cpu.chain",      "lstm100.chain",
                                        "resnet50.chain",  "resnet50.cpu.chain", "vgg19.chain",
                                        "vgg19.cpu.chain", "vit-b16.chain"};
    int worse = 0;
    printf("\n## Overhead over storing everything, bundled chains, PCIe 3.0 x16\n\n"
           "%.0f GB/s each way, both ways at once; budgets in percent of the store-all peak; "
           "`-`: no schedule. One table of each solver, made for 100 %%, serves the four budgets. "
           "The last column is the time of pofo's, verification included.\n\n"
           "| chain | stages | budget | rotor | offload-all | offload-conv | offload-greedy | "
           "**pofo** | ms |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
           PCIE_BYTES_PER_SECOND / 1e9);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        worse += print_chain(names[i]);
    printf("\nBudgets at which pofo is slower than another column: %d (limit 0).\n", worse);
    return worse;
}

/* With an argument only one of the parts: slots, labels or chains. */
int main(int argc, char **argv)
{
    char date[32];
    const char *part = argc > 1 ? argv[1] : "";
    time_t now = time(NULL);
    strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
    printf("# Offloading\n\nWritten by tests/bench/offload_bench.c on %s; CPU: %s, two cores.\n\n",
           date, bench_cpu_name());
    if (!*part || strcmp(part, "slots") == 0)
        print_slots_times();
    if (!*part || strcmp(part, "labels") == 0)
        print_label_times();
    return (!*part || strcmp(part, "chains") == 0) && print_makespans() > 0;
}
