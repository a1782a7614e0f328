/* bench-chain [--quick]: the chain solvers beside a plain triple loop, in process CPU time (best of
 * five; one thread) and in wall time with two workers. Seeded heterogeneous chains, slots over half
 * of what storing everything keeps; then the real chains, exactly; the curve; the estimates.
 * tests/bench/chain_results.txt is the output on a named CPU. */
#include "bench.h"
#include "chains.h"
#include "plain_loop.h"

#include "remat/table.h"
#include "start/rotor/breakpoints.h"
#include "start/rotor/slots.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double peak_rss_mb(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss * 1024 / 1e6;
}

static void print_cpu(void)
{
    printf("CPU: %s\n", bench_cpu_name());
    chain_kernel_version versions[3];
    size_t count = chain_kernel_versions(versions);
    printf("kernels:");
    for (size_t i = 0; i < count; i++)
        printf(" %s", versions[i].name);
    printf("\n");
}

static void *must(void *allocated)
{
    if (!allocated) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return allocated;
}

/* ---- the plain loop ---- */

static int rounded(uint64_t bytes, const chain_slots_setting *setting)
{
    uint64_t count = (bytes + setting->unit - 1) / setting->unit;
    return count > setting->n_slots ? (int)setting->n_slots + 1 : (int)count;
}

static double plain_seconds(const chain_costs *chain, const chain_slots_setting *setting,
                            int64_t divisor, int32_t *answer)
{
    size_t n = chain->n, side = n + 1;
    int *output = must(calloc(side, sizeof *output)), *kept = must(calloc(side, sizeof *kept));
    int *all = must(calloc(side * side, sizeof *all)),
        *pass = must(calloc(side * side, sizeof *pass));
    int32_t *forward = must(calloc(side, sizeof *forward));
    int32_t *backward = must(calloc(side, sizeof *backward));
    for (uint32_t s = 1; s <= n; s++) {
        uint64_t most = 0;
        output[s] = rounded(chain->output[s], setting);
        kept[s] = rounded(chain->kept[s], setting);
        forward[s] = (int32_t)(chain->forward[s] / divisor);
        backward[s] = (int32_t)(chain->backward[s] / divisor);
        for (uint32_t t = s; t <= n; t++) {
            all[s * side + t] = rounded(chain_need_all(chain, s, t), setting);
            if (t == s)
                continue;
            uint64_t need = chain_need_forward(chain, s, t - 1, t) - chain->held[t];
            most = model_larger(most, need);
            pass[s * side + t] = rounded(most + chain->held[t], setting);
        }
    }
    plain_chain plain = {.n = (int)n,
                         .n_slots = (int)setting->n_slots,
                         .output = output,
                         .kept = kept,
                         .need_all = all,
                         .need_pass = pass,
                         .forward = forward,
                         .backward = backward};
    double start = bench_cpu_seconds();
    int failed = plain_loop_int32(&plain, answer);
    double seconds = bench_cpu_seconds() - start;
    free(output);
    free(kept);
    free(all);
    free(pass);
    free(forward);
    free(backward);
    return failed ? -1 : seconds;
}

/* ---- two workers ---- */

/* One thread beside the caller's; both take indices until there are no more. They wait for each
 * other awake: a solve has thousands of such meetings. */
typedef struct pair {
    void (*body)(void *context, size_t index, unsigned worker);
    void *context;
    size_t count;
    atomic_size_t next;
    atomic_uint round, done; /* done: by the other thread */
    atomic_bool stop;
} pair;

static void take_indices(pair *p, unsigned worker)
{
    for (size_t i = atomic_fetch_add(&p->next, 1); i < p->count; i = atomic_fetch_add(&p->next, 1))
        p->body(p->context, i, worker);
}

static void *other_worker(void *data)
{
    pair *p = data;
    for (unsigned seen = 0;; atomic_store(&p->done, ++seen)) {
        while (atomic_load(&p->round) == seen) {
            if (atomic_load(&p->stop))
                return NULL;
            sched_yield();
        }
        take_indices(p, 1);
    }
}

static void on_both(void *data, size_t count,
                    void (*body)(void *context, size_t index, unsigned worker), void *context)
{
    pair *p = data;
    p->body = body;
    p->context = context;
    p->count = count;
    atomic_store(&p->next, 0);
    unsigned round = atomic_fetch_add(&p->round, 1) + 1;
    take_indices(p, 0);
    while (atomic_load(&p->done) != round)
        sched_yield();
}

/* ---- seeded chains ---- */

enum { ROUNDS = 5 };
#define MOST_TABLE_BYTES 2.2e9
#define MOST_PLAIN_UPDATES 2.1e10 /* the plain loop is left out beyond: minutes */

/* The best of some rounds by a clock. Each table is freed before the next is made, so that all but
 * the first find memory that the machine has already touched. */
static double solve_seconds(const chain_costs *chain, const chain_slots_setting *setting,
                            const remat_host *host, double (*clock_of)(void), chain_slots **ret)
{
    double best = 1e300;
    remat_error error = {0};
    for (int round = 0; round < ROUNDS; round++) {
        chain_slots_free(*ret);
        *ret = NULL;
        double start = clock_of();
        if (chain_slots_new(chain, setting, host, ret, &error)) {
            fprintf(stderr, "%s\n", error.message);
            exit(1);
        }
        double seconds = clock_of() - start;
        best = seconds < best ? seconds : best;
    }
    return best;
}

static double solve_on_two(const chain_costs *chain, const chain_slots_setting *setting,
                           chain_slots **ret)
{
    pair p = {.count = 0};
    remat_host host = {.data = &p, .parallel_for = on_both, .workers = 2};
    pthread_t thread;
    if (pthread_create(&thread, NULL, other_worker, &p))
        exit(1);
    double seconds = solve_seconds(chain, setting, &host, bench_wall_seconds, ret);
    atomic_store(&p.stop, true);
    pthread_join(thread, NULL);
    return seconds;
}

static double trace_seconds(const chain_costs *chain, const chain_slots *slots)
{
    remat_operations operations = {0};
    remat_error error;
    int count = 0;
    double start = bench_cpu_seconds();
    for (uint32_t m = 0; m <= chain_slots_count(slots); m++) {
        operations.length = 0;
        if (chain_slots_answer(slots)[m] < CHAIN_KERNEL_INFINITE &&
            chain_slots_trace(slots, chain, m, &operations, &error) == REMAT_OK)
            count++;
    }
    double seconds = bench_cpu_seconds() - start;
    remat_operations_clear(&operations);
    return count ? seconds / count : 0;
}

/* What the figures are aimed at; 0: nothing is said of this size. */
static void print_ratios(uint32_t n, uint32_t n_slots, double one, double two)
{
    int large = (n == 339 && n_slots == 500) || (n == 500 && n_slots == 1000);
    int small = n == 50 && n_slots == 100;
    printf("  ratio %5.1f", one);
    if (large || small)
        printf(" (aim %d)", large ? 30 : 10);
    printf(", on two %5.1f", two);
    if (large)
        printf(" (aim 60)");
}

static void bench_seeded(uint32_t n, uint32_t n_slots)
{
    double updates = (double)n * n * n / 6 * n_slots;
    if ((double)chain_slots_peak_bytes(n, n_slots, 2) > MOST_TABLE_BYTES) {
        printf("%5u x %-5u left out: %.0f MB\n", n, n_slots,
               (double)chain_slots_peak_bytes(n, n_slots, 2) / 1e6);
        return;
    }
    remat_profile *profile = must(bench_random_chain(n, 7));
    chain_costs *chain = NULL;
    remat_error error;
    if (chain_new(profile, &chain, &error))
        exit(1);
    uint64_t bytes = 0;
    for (uint32_t i = 1; i <= n; i++)
        bytes += chain->kept[i];
    chain_slots_setting setting = {
        .unit = bytes / 2 / n_slots + 1, .n_slots = n_slots, .round_up = true};
    chain_slots *slots = NULL;
    double two = solve_on_two(chain, &setting, &slots);
    double seconds = solve_seconds(chain, &setting, NULL, bench_cpu_seconds, &slots);
    double ideal = 4.0 * n_slots * n * n / 2;
    printf("%5u x %-5u %8.4f s %6.2f G/s  two %8.4f s  table %7.1f MB (%+.1f %%)  trace %5.1f us",
           n, n_slots, seconds, updates / seconds / 1e9, two,
           (double)chain_slots_bytes(slots) / 1e6,
           ((double)chain_slots_bytes(slots) / ideal - 1) * 100, trace_seconds(chain, slots) * 1e6);
    if (updates <= MOST_PLAIN_UPDATES) {
        int32_t *answer = must(calloc((size_t)n_slots + 1, sizeof *answer));
        double plain = plain_seconds(chain, &setting, chain_slots_divisor(slots), answer);
        int same = memcmp(answer, chain_slots_answer(slots), (n_slots + 1) * sizeof *answer) == 0;
        printf("  plain %7.3f s", plain);
        print_ratios(n, n_slots, plain / seconds, plain / two);
        printf("  %s", same ? "same values" : "VALUES DIFFER");
        free(answer);
    }
    printf("\n");
    fflush(stdout);
    chain_slots_free(slots);
    chain_free(chain);
    remat_profile_free(profile);
}

/* ---- real chains ---- */

static void bench_exact(const char *label, remat_profile *profile)
{
    chain_costs *chain = NULL;
    remat_error error = {0};
    if (!profile || chain_new(profile, &chain, &error))
        exit(1);
    double best = 1e300;
    chain_breakpoints *table = NULL;
    for (int round = 0; round < 3; round++) {
        chain_breakpoints_free(table);
        table = NULL;
        double start = bench_cpu_seconds();
        if (chain_breakpoints_new(chain, false, (chain_breakpoints_limits){0}, NULL, &table,
                                  &error))
            exit(1);
        double seconds = bench_cpu_seconds() - start;
        best = seconds < best ? seconds : best;
    }
    chain_breakpoint_list answer = chain_breakpoints_answer(table);
    remat_operations operations = {0};
    double start = bench_cpu_seconds();
    for (size_t i = 0; i < answer.count; i++) {
        operations.length = 0;
        if (chain_breakpoints_trace(table, chain, answer.points[i].bytes, &operations, &error))
            exit(1);
    }
    double traced = (bench_cpu_seconds() - start) / (double)answer.count;
    printf("%-22s %4u stages %9.3f ms  %5zu steps  table %7.2f MB  trace %5.1f us\n", label,
           chain->n, best * 1e3, answer.count, (double)chain_breakpoints_bytes(table) / 1e6,
           traced * 1e6);
    fflush(stdout);
    remat_operations_clear(&operations);
    chain_breakpoints_free(table);
    chain_free(chain);
    remat_profile_free(profile);
}

/* ---- every solver ---- */

#define STOP_SECONDS 10

static bool is_late(void *data)
{
    return bench_cpu_seconds() > *(double *)data;
}

static remat_problem problem_of(const remat_solver *solver, const remat_profile *profile,
                                double fraction)
{
    remat_error error;
    uint64_t all;
    if (remat_store_all_peak(profile, &all, &error))
        exit(1);
    return (remat_problem){.profile = profile,
                           .options = remat_options_default(solver),
                           .max_budget = (uint64_t)((double)all * fraction)};
}

static void bench_solvers(const char *label, remat_profile *profile)
{
    size_t count;
    const remat_solver *const *solvers = remat_solvers(&count);
    must(profile);
    printf("\nevery chain solver, %s, up to half of storing everything, stopped after %d s\n",
           label, STOP_SECONDS);
    for (size_t i = 0; i < count; i++) {
        remat_problem problem = problem_of(solvers[i], profile, 0.5);
        remat_error error = {0};
        remat_table *table = NULL;
        if (!(solvers[i]->accepts & REMAT_ACCEPTS_CHAIN) ||
            remat_solver_accepts(solvers[i], &problem, &error))
            continue;
        double start = bench_cpu_seconds(), until = start + STOP_SECONDS;
        remat_host host = {.data = &until, .cancelled = is_late};
        remat_status status = remat_tabulate(solvers[i], &problem, &host, &table, &error);
        double seconds = bench_cpu_seconds() - start;
        printf("%-22s %9.3f ms  ", solvers[i]->name, seconds * 1e3);
        size_t points = 0;
        if (!status)
            remat_table_frontier(table, &points);
        if (status)
            printf("%s\n", error.message);
        else
            printf("%5zu points, %8llu bytes\n", points,
                   (unsigned long long)remat_table_bytes(table));
        fflush(stdout);
        remat_table_free(table);
    }
    remat_profile_free(profile);
}

/* ---- the curve and the estimate ---- */

/* At least: the few ms of one curve are too short to tell 1.2 from 1.5. */
enum { CURVE_BUDGETS = 200, CURVE_MILLISECONDS = 500 };

/* One solve is a table and one schedule; a curve is the same table and a point of its frontier for
 * each budget. */
static void bench_curve(const char *label, remat_profile *profile, double slots)
{
    const remat_solver *rotor = remat_solver_find("rotor");
    remat_problem problem = problem_of(rotor, must(profile), 1);
    problem.options.values[0] = slots;
    double solve = 1e300, curve = 1e300, spent = 0;
    size_t points = 0;
    remat_error error = {0};
    for (int round = 0; round < ROUNDS || spent * 1e3 < CURVE_MILLISECONDS; round++) {
        remat_table *table = NULL;
        remat_schedule schedule;
        double start = bench_cpu_seconds();
        if (remat_tabulate(rotor, &problem, NULL, &table, &error))
            exit(1);
        double tabulated = bench_cpu_seconds() - start;
        remat_table_frontier(table, &points);
        ptrdiff_t served = 0;
        for (uint64_t i = 1; i <= CURVE_BUDGETS; i++)
            served += remat_table_point(table, problem.max_budget / CURVE_BUDGETS * i) >= 0;
        double seconds = bench_cpu_seconds() - start;
        curve = served > 0 && seconds < curve ? seconds : curve;
        start = bench_cpu_seconds();
        if (remat_table_schedule(table, &problem, problem.max_budget / 2, &schedule, &error))
            exit(1);
        tabulated += bench_cpu_seconds() - start;
        solve = tabulated < solve ? tabulated : solve;
        spent += seconds;
        remat_schedule_clear(&schedule);
        remat_table_free(table);
    }
    printf("%-22s solve %9.3f ms, curve of %d budgets %9.3f ms (%zu points): %.2f (aim 1.50)\n",
           label, solve * 1e3, CURVE_BUDGETS, curve * 1e3, points, curve / solve);
    fflush(stdout);
    remat_profile_free(profile);
}

/* The solve runs in a process of its own, whose peak is compared with what it began with. */
static void bench_estimate(const char *label, remat_profile *profile, double slots)
{
    const remat_solver *rotor = remat_solver_find("rotor");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        remat_problem problem = problem_of(rotor, must(profile), 0.5);
        problem.options.values[0] = slots;
        remat_estimate estimate;
        remat_error error = {0};
        remat_table *table = NULL;
        double before = peak_rss_mb(), start = bench_cpu_seconds();
        if (rotor->estimate(&problem, &estimate, &error) ||
            remat_tabulate(rotor, &problem, NULL, &table, &error))
            _exit(1);
        double peak = peak_rss_mb() - before, said = (double)estimate.table_bytes / 1e6;
        size_t points;
        ptrdiff_t at = remat_table_point(table, problem.max_budget);
        double made = at < 0 ? INFINITY : remat_table_frontier(table, &points)[at].makespan;
        double bound =
            remat_table_lower_bound(table, problem.profile, problem.max_budget, INFINITY);
        printf("%-22s %7.3f s  gap %.2f %% (aim 1)  estimate %7.1f MB, peak %7.1f MB: %+.1f %%\n",
               label, bench_cpu_seconds() - start, (made / bound - 1) * 100, said, peak,
               (said / peak - 1) * 100);
        fflush(stdout);
        _exit(0);
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) < 0 || status)
        printf("%-22s failed\n", label);
    remat_profile_free(profile);
}

/* ---- all ---- */

static void bench_grid(int quick)
{
    static const uint32_t lengths[] = {50, 100, 200, 339, 500, 1000};
    static const uint32_t counts[] = {100, 500, 1000, 2000, 4000};
    printf("\nslots: stages x slots, CPU seconds of one worker, updates n^3/6 x slots per second, "
           "wall "
           "seconds of two\n");
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (size_t j = 0; j < sizeof counts / sizeof *counts; j++)
            if (!quick || lengths[i] * counts[j] <= 200 * 500)
                bench_seeded(lengths[i], counts[j]);
}

static void bench_real(void)
{
    static const char *const names[] = {"resnet50", "gpt",          "vgg19",   "vit-b16",
                                        "lstm100",  "resnet50.cpu", "gpt.cpu", "vgg19.cpu"};
    printf("\nexact breakpoints (all budgets)\n");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        bench_exact(names[i], bench_real_chain(names[i], 0, 0));
    bench_exact("resnet152", bench_real_chain("resnet50", 1, 0));
    bench_exact("resnet152, jitter 2 %", bench_real_chain("resnet50", 1, 0.02));
    bench_exact("random 50", bench_random_chain(50, 1));
    bench_exact("random 100", bench_random_chain(100, 1));
}

/* First of all, while this process is small. */
static void bench_estimates(int quick)
{
    printf("\nestimates (rotor, up to half of storing everything)\n");
    bench_estimate("resnet152", bench_real_chain("resnet50", 1, 0), 0);
    bench_estimate("random 100", bench_random_chain(100, 1), 0);
    bench_estimate("random 200", bench_random_chain(200, 7), 0);
    bench_estimate("random 200, 500 slots", bench_random_chain(200, 7), 500);
    bench_estimate("random 339, 500 slots", bench_random_chain(339, 7), 500);
    if (!quick)
        bench_estimate("random 339", bench_random_chain(339, 7), 0);
}

int main(int argc, char **argv)
{
    int quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    print_cpu();
    bench_estimates(quick);
    bench_grid(quick);
    bench_real();
    bench_solvers("resnet152", bench_real_chain("resnet50", 1, 0));
    bench_solvers("random 100", bench_random_chain(100, 1));
    if (!quick)
        bench_solvers("random 339", bench_random_chain(339, 7));
    printf("\nthe trade-off curve (rotor)\n");
    bench_curve("resnet152", bench_real_chain("resnet50", 1, 0), 0);
    bench_curve("random 339, 500 slots", bench_random_chain(339, 7), 500);
    return 0;
}
