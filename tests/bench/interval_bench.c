/* bench-interval: what the improver reaches and proves on the bundled profiles, and how many edits
 * it makes in a second. Writes Markdown to standard output:
 *
 *   ninja -C build tests/bench/bench-interval
 *   build/tests/bench/bench-interval > tests/bench/interval_results.md
 *
 * Overheads and gaps are functions of the question and the same on every machine; seconds are
 * processor time of one run with two workers, the tables of auto included. */
#include "bench.h"
#include "graph_profiles.h"

#include "model/lists.h"
#include "remat/answer.h"
#include "search/search.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FILES = 64 };

typedef struct outcome {
    double overhead, gap, seconds; /* gap INFINITY: no schedule */
} outcome;

static outcome ask(const remat_profile *profile, uint64_t store_all, double percent,
                   remat_effort effort)
{
    const remat_host *host = bench_host(2);
    uint64_t budget = (uint64_t)floor(percent / 100 * (double)store_all);
    const remat_problem problem = {.profile = profile, .max_budget = budget};
    remat_portfolio portfolio = {.n = 0};
    remat_schedule schedule = {0};
    remat_error error = {0};
    outcome result = {.gap = INFINITY};
    double start = bench_cpu_seconds(); /* of both workers: what other work does not change */
    uint32_t alignment = store_all >= 65536 ? REMAT_DEFAULT_ALIGNMENT : 1;
    if (!remat_portfolio_gather(NULL, &problem, host, NULL, &portfolio, &error) &&
        !remat_portfolio_schedule(&portfolio, &problem, budget, alignment, effort, host, &schedule,
                                  &error)) {
        double makespan = schedule.simulation.makespan;
        result.overhead = makespan / remat_store_all_makespan(profile) - 1;
        result.gap = makespan / schedule.lower_bound - 1;
    }
    result.seconds = bench_cpu_seconds() - start;
    remat_schedule_clear(&schedule);
    remat_portfolio_release(&portfolio);
    return result;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static size_t list_files(char *names[MOST_FILES])
{
    size_t n = 0;
    DIR *folder = opendir(BENCH_PROFILES);
    for (struct dirent *entry; folder && n < MOST_FILES && (entry = readdir(folder));) {
        size_t length = strlen(entry->d_name);
        if (length > 5 && strcmp(entry->d_name + length - 5, ".json") == 0)
            names[n++] = strdup(entry->d_name);
    }
    if (folder)
        closedir(folder);
    qsort(names, n, sizeof *names, by_name);
    return n;
}

static remat_profile *open_profile(const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, BENCH_PROFILES "/%s", name);
    return bench_graph_file(path);
}

static void print_outcome(const outcome *o)
{
    if (o->gap < INFINITY)
        printf(" %.2f; %.2f; %.1f |", 100 * o->overhead, 100 * o->gap, o->seconds);
    else
        printf(" none; ; %.1f |", o->seconds);
}

static void gaps(remat_effort effort)
{
    static const double percents[] = {40, 50, 60, 80};
    char *names[MOST_FILES];
    double all[4 * MOST_FILES];
    size_t n = list_files(names), n_all = 0;
    printf("\n## %s\n\nOverhead over storing everything; proven gap (both in %%); seconds of "
           "processor time, of which two idle cores take about half as many.\n\n"
           "| profile | 40 %% | 50 %% | 60 %% | 80 %% |\n| --- | --- | --- | --- | --- |\n",
           remat_effort_name(effort));
    for (size_t i = 0; i < n; i++) {
        remat_profile *profile = open_profile(names[i]);
        uint64_t store_all;
        if (!profile || remat_store_all_peak(profile, &store_all, NULL))
            continue;
        printf("| %.*s |", (int)strlen(names[i]) - 5, names[i]);
        for (size_t k = 0; k < 4; k++) {
            outcome o = ask(profile, store_all, percents[k], effort);
            print_outcome(&o);
            if (o.gap < INFINITY)
                all[n_all++] = 100 * o.gap;
        }
        printf("\n");
        fflush(stdout);
        remat_profile_free(profile);
        free(names[i]);
    }
    double median = bench_median(all, n_all); /* sorts */
    printf("\nOf %zu answers the gap is %.2f %% at the median, %.2f %% at the 90th percentile, "
           "%.2f %% "
           "at most.\n",
           n_all, median, all[n_all * 9 / 10], all[n_all - 1]);
}

/* One search at half the memory that storing everything takes, begun by greedy. */
typedef struct lone_search {
    remat_profile *profile;
    interval_tasks *tasks;
    interval_search search;
    double mean; /* time of a run */
} lone_search;

static lone_search open_search(remat_profile *profile)
{
    lone_search l = {.profile = profile,
                     .search = {.random = 1, .best_time = INFINITY, .best_runs = SIZE_MAX}};
    remat_operations list = {0};
    uint64_t store_all;
    if (!profile || remat_store_all_peak(profile, &store_all, NULL) ||
        interval_tasks_new(profile, 1, false, 1, &l.tasks, NULL) ||
        model_store_everything(profile, &list) ||
        interval_timeline_new(l.tasks, &list, (double)store_all / 2, &l.search.timeline, NULL))
        exit(1);
    remat_operations_clear(&list);
    interval_greedy(&l.search, 0);
    l.search.price = 1e-9;
    l.mean = l.tasks->total_time / (3.0 * profile->n_nodes);
    return l;
}

static void close_search(lone_search *l)
{
    interval_timeline_free(l->search.timeline);
    interval_tasks_free(l->tasks);
    remat_operations_clear(&l->search.best);
    remat_profile_free(l->profile);
}

/* Moves of annealing in a second: each is proposed, weighed and taken or undone. */
static void moves(remat_profile *profile)
{
    lone_search l = open_search(profile);
    double start = bench_cpu_seconds();
    interval_anneal(&l.search, UINT64_C(100000000), 0.1 * l.mean, 0.003 * l.mean);
    printf("| %u | %u | %.0f |\n", profile->n_nodes, l.search.timeline->n_live,
           (double)l.search.moves / (bench_cpu_seconds() - start));
    close_search(&l);
}

/* The overhead of the best list of one search after some seconds: rounds of annealing and
 * neighbourhoods, as a chain of the improver goes, without layout. */
static void course(const char *name)
{
    static const double seconds[] = {0, 0.1, 0.3, 1, 3, 10};
    const size_t n = sizeof seconds / sizeof *seconds;
    double start = bench_cpu_seconds();
    lone_search l = open_search(open_profile(name));
    interval_search *s = &l.search;
    const double everything = remat_store_all_makespan(l.profile);
    const uint64_t work = UINT64_C(15000) * l.profile->n_nodes;
    printf("| %.*s |", (int)strlen(name) - 5, name);
    for (size_t k = 0; k < n;) {
        if (bench_cpu_seconds() - start >= seconds[k]) {
            printf(" %.2f |", 100 * (s->best_time / everything - 1));
            k++;
            continue;
        }
        if (s->best.length > 0 && interval_timeline_load(s->timeline, &s->best, NULL))
            exit(1);
        interval_anneal(s, work, 0.1 * l.mean, 0.003 * l.mean);
        interval_neighbourhoods(s, work);
    }
    printf("\n");
    fflush(stdout);
    close_search(&l);
}

int main(void)
{
    printf(
        "# The improver\n\n`bench-interval` on %s, two workers. `--effort quick` and `thorough` of "
        "`auto`, layout included.\n",
        bench_cpu_name());
    gaps(REMAT_QUICK);
    gaps(REMAT_THOROUGH);
    printf("\n## Moves\n\nOf annealing at half the memory, one thread; wanted: 1,000,000 at 250 "
           "nodes.\n\n| nodes | runs | moves a second |\n| ---: | ---: | ---: |\n");
    moves(open_profile("gpt.flops.json"));
    moves(bench_graph_lstm(100));
    moves(bench_graph_lstm(500));
    printf("\n## Best overhead over seconds\n\nIn %%, at half the memory without layout: one "
           "search on "
           "one thread, from greedy on (the first column).\n\n| profile | greedy | 0.1 s | 0.3 s | "
           "1 s "
           "| 3 s | 10 s |\n| --- | --- | --- | --- | --- | --- | --- |\n");
    static const char *const six[] = {
        "gpt.flops.json",  "resnet50.flops.json", "siamese-resnet18.flops.json",
        "unet.flops.json", "vgg19.flops.json",    "vit-b16.flops.json"};
    for (size_t i = 0; i < sizeof six / sizeof *six; i++)
        course(six[i]);
    return 0;
}
