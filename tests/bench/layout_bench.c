/* bench-layout: arenas of schedules of every bundled profile beside their peaks, and the time that
 * layouts and their judge take. Writes Markdown to standard output:
 *
 *   ninja -C build tests/bench/bench-layout && build/tests/bench/bench-layout >
 * tests/bench/layout_results.md
 *
 *   build/tests/bench/bench-layout --instance FILE.csv CAPACITY
 *
 * prints a line of an instance of others (data/layout): name, buffers, capacity (0: as small as is
 * found), arena, seconds.
 *
 * Times are processor time of one thread, medians of five runs. */
#include "bench.h"
#include "graph_profiles.h"
#include "instance.h"

#include "remat/layout.h"
#include "remat/table.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BUDGETS = 20, RUNS = 5, MOST_PROFILES = 64, ALIGNMENT = REMAT_DEFAULT_ALIGNMENT };

static double milliseconds(void)
{
    return 1e3 * bench_cpu_seconds();
}

static void must(remat_status status, const remat_error *error)
{
    if (!status)
        return;
    fprintf(stderr, "%s: %s\n", error->field, error->message);
    exit(1);
}

/* ---- one schedule ---- */

typedef struct measured {
    double to_peak, to_aligned; /* arena / peak, in bytes and in aligned bytes */
    double make, check;         /* ms */
    size_t n;
} measured;

static measured measure(const remat_profile *profile, const remat_operations *operations,
                        uint64_t alignment)
{
    double make[RUNS], check[RUNS];
    measured result = {0};
    for (int run = 0; run < RUNS; run++) {
        remat_layout layout;
        remat_error error = {0};
        double start = milliseconds();
        must(remat_layout_new(profile, operations, alignment, &layout, &error), &error);
        double middle = milliseconds();
        must(remat_layout_check(profile, operations, &layout, &error), &error);
        make[run] = middle - start;
        check[run] = milliseconds() - middle;
        result.n = layout.n;
        result.to_peak = (double)layout.arena / (double)layout.peak;
        result.to_aligned = (double)layout.arena / (double)layout.aligned_peak;
        remat_layout_clear(&layout);
    }
    result.make = bench_median(make, RUNS);
    result.check = bench_median(check, RUNS);
    return result;
}

/* ---- every bundled profile, twenty budgets ---- */

static remat_problem problem_of(const remat_profile *profile, const remat_solver *solver)
{
    return (remat_problem){.profile = profile,
                           .options = remat_options_default(solver),
                           .max_budget = REMAT_MAX_BYTES};
}

/* The quick solvers of auto: what the exact ones add is time, not another kind of list. */
static size_t tabulate(const remat_profile *profile, remat_table *tables[4])
{
    static const char *const names[4] = {"rotor", "equiv-chain", "lowerset-approx", "lowerset"};
    size_t n = 0;
    for (size_t i = 0; i < 4; i++) {
        const remat_solver *solver = remat_solver_find(names[i]);
        remat_problem problem = problem_of(profile, solver);
        remat_error error = {0};
        if (remat_solver_accepts(solver, &problem, NULL))
            continue;
        must(remat_tabulate(solver, &problem, NULL, &tables[n++], &error), &error);
    }
    return n;
}

static measured at_budget(const remat_profile *profile, remat_table *const *tables, size_t n,
                          uint64_t budget, uint64_t alignment)
{
    uint64_t least;
    remat_error error = {0};
    remat_schedule schedule;
    const remat_table *table =
        tables[remat_best_table((const remat_table *const *)tables, n, budget, &least)];
    remat_problem problem = problem_of(profile, remat_table_solver(table));
    must(remat_table_schedule(table, &problem, budget, &schedule, &error), &error);
    measured result = measure(profile, &schedule.operations, alignment);
    remat_schedule_clear(&schedule);
    return result;
}

static void measure_profile(const remat_profile *profile, uint64_t alignment,
                            measured rows[BUDGETS])
{
    remat_table *tables[4];
    uint64_t all, least;
    remat_error error = {0};
    size_t n = tabulate(profile, tables);
    must(remat_store_all_peak(profile, &all, &error), &error);
    (void)remat_best_table((const remat_table *const *)tables, n, all, &least);
    for (uint64_t i = 0; i < BUDGETS; i++)
        rows[i] =
            at_budget(profile, tables, n, least + (all - least) * i / (BUDGETS - 1), alignment);
    for (size_t i = 0; i < n; i++)
        remat_table_free(tables[i]);
}

/* Of one member of each row, a double at offset: its median and its worst. */
static void print_column(const measured *rows, size_t n, size_t offset, const char *format)
{
    double *values = calloc(n, sizeof *values);
    if (!values)
        exit(1);
    for (size_t i = 0; i < n; i++)
        memcpy(&values[i], (const char *)&rows[i] + offset, sizeof *values);
    double middle = bench_median(values, n);
    printf(format, middle);
    printf(format, values[n - 1]);
    free(values);
}

static void print_row(const char *name, const measured *rows, size_t n)
{
    size_t most = 0;
    for (size_t i = 0; i < n; i++)
        most = rows[i].n > most ? rows[i].n : most;
    printf("| %s | %zu |", name, most);
    print_column(rows, n, offsetof(measured, to_peak), " %.4f |");
    print_column(rows, n, offsetof(measured, to_aligned), " %.4f |");
    print_column(rows, n, offsetof(measured, make), " %.2f |");
    print_column(rows, n, offsetof(measured, check), " %.2f |");
    printf("\n");
    fflush(stdout);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

static size_t list_profiles(char names[MOST_PROFILES][256])
{
    size_t n = 0;
    DIR *folder = opendir(BENCH_PROFILES);
    for (struct dirent *entry; folder && n < MOST_PROFILES && (entry = readdir(folder));)
        if (strstr(entry->d_name, ".json"))
            snprintf(names[n++], 256, "%.255s", entry->d_name);
    if (folder)
        closedir(folder);
    qsort(names, n, 256, compare_names);
    return n;
}

static void print_profiles(void)
{
    static char names[MOST_PROFILES][256];
    static measured rows[MOST_PROFILES * BUDGETS];
    size_t n = list_profiles(names);
    printf(
        "## Bundled profiles, %d budgets each from the least to the store-all peak\n\n"
        "Required over all: arena / peak at most 1.02 in the median, 1.10 at worst. Aligned: the "
        "peak with every size rounded up to %d bytes.\n\n"
        "| profile | allocations, most | arena / peak, median | worst | arena / aligned peak, "
        "median | worst | layout ms, median | worst | check ms, median | worst |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
        BUDGETS, ALIGNMENT);
    for (size_t i = 0; i < n; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%.255s", BENCH_PROFILES, names[i]);
        remat_profile *profile = bench_graph_file(path);
        if (!profile)
            exit(1);
        measured *own = &rows[i * BUDGETS];
        measure_profile(profile, ALIGNMENT, own);
        print_row(names[i], own, BUDGETS);
        if (own[0].to_peak > 1.1 * own[0].to_aligned) { /* a toy: rounding alone is too much */
            measure_profile(profile, 1, own);
            print_row("the same, alignment 1", own, BUDGETS);
        }
        remat_profile_free(profile);
    }
    print_row("**all**", rows, n * BUDGETS);
    printf("\nWhere rounding alone takes more than 1.10, all counts the row of alignment 1.\n");
}

/* ---- long lists ---- */

static void print_long(const char *name, remat_profile *profile, const char *solver_name)
{
    const remat_solver *solver = remat_solver_find(solver_name);
    remat_problem problem = problem_of(profile, solver);
    remat_table *table = NULL;
    remat_schedule schedule;
    remat_error error = {0};
    size_t n;
    must(remat_tabulate(solver, &problem, NULL, &table, &error), &error);
    uint64_t least = remat_table_frontier(table, &n)[0].peak;
    must(remat_table_schedule(table, &problem, least, &schedule, &error), &error);
    measured m = measure(profile, &schedule.operations, ALIGNMENT);
    printf("| %s, %s | %zu | %.4f | %.4f | %.1f | %.1f |\n", name, solver_name, m.n, m.to_peak,
           m.to_aligned, m.make, m.check);
    fflush(stdout);
    remat_schedule_clear(&schedule);
    remat_table_free(table);
    remat_profile_free(profile);
}

static void print_longs(void)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/lstm100.chain.json", BENCH_PROFILES);
    printf(
        "\n## Long lists\n\nRequired of 10,000 allocations: layout under 200 ms, check about "
        "100 ms. Past 20,000 there is no search. Each schedule is the one of least peak.\n\n"
        "| schedule | allocations | arena / peak | arena / aligned peak | layout ms | check ms |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: |\n");
    print_long("lstm100.chain", bench_graph_file(path), "rotor");
    print_long("chain of 3500, random sizes", bench_graph_chain(3500), "chen-sqrt");
    print_long("chain of 5000, random sizes", bench_graph_chain(5000), "store-all");
    print_long("LSTM of 500 steps", bench_graph_lstm(500), "store-all");
    print_long("LSTM of 350 steps", bench_graph_lstm(350), "chen-graph");
    print_long("chain of 15000, random sizes", bench_graph_chain(15000), "chen-sqrt");
    print_long("chain of 50000, random sizes", bench_graph_chain(50000), "store-all");
    print_long("LSTM of 5000 steps", bench_graph_lstm(5000), "store-all");
}

static int print_instance(const char *path, const char *capacity)
{
    char *end;
    remat_error error = {0};
    const char *slash = strrchr(path, '/');
    const uint64_t most = strtoull(capacity, &end, 10);
    if (*end || end == capacity) {
        fprintf(stderr, "bench-layout: the capacity \"%s\" is no number\n", capacity);
        return 2;
    }
    remat_layout layout = instance_read(path);
    const double start = bench_cpu_seconds();
    must(remat_layout_place(&layout, most, NULL, &error), &error);
    const double seconds = bench_cpu_seconds() - start;
    must(remat_layout_check_places(&layout, &error), &error);
    printf("%s %zu %llu %llu %.3f\n", slash ? slash + 1 : path, layout.n, (unsigned long long)most,
           (unsigned long long)layout.arena, seconds);
    remat_layout_clear(&layout);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "--instance") == 0)
        return print_instance(argv[2], argv[3]);
    char date[32];
    time_t now = time(NULL);
    strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
    printf(
        "# Layouts\n\nWritten by tests/bench/layout_bench.c on %s; CPU: %s. Processor time of one "
        "thread, medians of %d runs.\n\n",
        date, bench_cpu_name(), RUNS);
    print_profiles();
    print_longs();
    return 0;
}
