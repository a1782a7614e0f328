/* bench-chain [--quick]: the chain solvers beside a plain triple loop, in process CPU time (best of
 * three; one thread). Seeded heterogeneous chains, slots over half of what storing everything
 * keeps; then the real chains, exactly. tests/bench/chain_results.txt is the output on a named CPU. */
#include "chains.h"
#include "plain_loop.h"

#include "chain/breakpoints.h"
#include "chain/slots.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double peak_rss_mb(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1024;
}

static void print_cpu(void)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "model name", 10) == 0) {
            printf("CPU%s", strchr(line, ':'));
            break;
        }
    if (file)
        fclose(file);
    remat_kernel_version versions[3];
    size_t count = remat_kernel_versions(versions);
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

static int rounded(uint64_t bytes, const remat_slots_setting *setting)
{
    uint64_t count = (bytes + setting->unit - 1) / setting->unit;
    return count > setting->n_slots ? (int)setting->n_slots + 1 : (int)count;
}

static double plain_seconds(const remat_chain *chain, const remat_slots_setting *setting,
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
            all[s * side + t] = rounded(remat_chain_need_all(chain, s, t), setting);
            if (t == s)
                continue;
            uint64_t need = remat_chain_need_forward(chain, s, t - 1, t) - chain->held[t];
            most = remat_larger(most, need);
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
    double start = cpu_seconds();
    int failed = plain_loop_int32(&plain, answer);
    double seconds = cpu_seconds() - start;
    free(output);
    free(kept);
    free(all);
    free(pass);
    free(forward);
    free(backward);
    return failed ? -1 : seconds;
}

/* ---- seeded chains ---- */

static double solve_seconds(const remat_chain *chain, const remat_slots_setting *setting,
                            remat_slots **ret)
{
    double best = 1e300;
    remat_error error = {0};
    for (int round = 0; round < 3; round++) {
        remat_slots *slots = NULL;
        double start = cpu_seconds();
        if (remat_slots_new(chain, setting, NULL, &slots, &error)) {
            fprintf(stderr, "%s\n", error.message);
            exit(1);
        }
        double seconds = cpu_seconds() - start;
        best = seconds < best ? seconds : best;
        remat_slots_free(*ret);
        *ret = slots;
    }
    return best;
}

static double trace_seconds(const remat_chain *chain, const remat_slots *slots)
{
    remat_operations operations = {0};
    remat_error error;
    int count = 0;
    double start = cpu_seconds();
    for (uint32_t m = 0; m <= remat_slots_count(slots); m++) {
        operations.length = 0;
        if (remat_slots_answer(slots)[m] < REMAT_KERNEL_INFINITE &&
            remat_slots_trace(slots, chain, m, &operations, &error) == REMAT_OK)
            count++;
    }
    double seconds = cpu_seconds() - start;
    remat_operations_clear(&operations);
    return count ? seconds / count : 0;
}

static void bench_seeded(uint32_t n, uint32_t n_slots, int with_plain)
{
    remat_profile *profile = must(bench_random_chain(n, 7));
    remat_chain *chain = NULL;
    remat_error error;
    if (remat_chain_new(profile, &chain, &error))
        exit(1);
    uint64_t bytes = 0;
    for (uint32_t i = 1; i <= n; i++)
        bytes += chain->kept[i];
    remat_slots_setting setting = {
        .unit = bytes / 2 / n_slots + 1, .n_slots = n_slots, .round_up = true};
    remat_slots *slots = NULL;
    double seconds = solve_seconds(chain, &setting, &slots);
    double updates = (double)n * n * n / 6 * n_slots;
    double ideal = 4.0 * n_slots * n * n / 2;
    printf("%5u x %-5u %9.4f s %7.2f G/s  table %8.1f MB (%+.1f %%)  trace %6.1f us  rss %6.0f MB",
           n, n_slots, seconds, updates / seconds / 1e9, (double)remat_slots_bytes(slots) / 1e6,
           ((double)remat_slots_bytes(slots) / ideal - 1) * 100, trace_seconds(chain, slots) * 1e6,
           peak_rss_mb());
    if (with_plain) {
        int32_t *answer = must(calloc((size_t)n_slots + 1, sizeof *answer));
        double plain = plain_seconds(chain, &setting, remat_slots_divisor(slots), answer);
        int same = memcmp(answer, remat_slots_answer(slots), (n_slots + 1) * sizeof *answer) == 0;
        printf("  plain %8.3f s  ratio %5.1f  %s", plain, plain / seconds,
               same ? "same values" : "VALUES DIFFER");
        free(answer);
    }
    printf("\n");
    fflush(stdout);
    remat_slots_free(slots);
    remat_chain_free(chain);
    remat_profile_free(profile);
}

/* ---- real chains ---- */

static void bench_exact(const char *label, remat_profile *profile)
{
    remat_chain *chain = NULL;
    remat_error error = {0};
    if (!profile || remat_chain_new(profile, &chain, &error))
        exit(1);
    double best = 1e300;
    remat_breakpoints *table = NULL;
    for (int round = 0; round < 3; round++) {
        remat_breakpoints_free(table);
        table = NULL;
        double start = cpu_seconds();
        if (remat_breakpoints_new(chain, false, (remat_breakpoints_limits){0}, NULL, &table,
                                  &error))
            exit(1);
        double seconds = cpu_seconds() - start;
        best = seconds < best ? seconds : best;
    }
    remat_breakpoint_list answer = remat_breakpoints_answer(table);
    remat_operations operations = {0};
    double start = cpu_seconds();
    for (size_t i = 0; i < answer.count; i++) {
        operations.length = 0;
        if (remat_breakpoints_trace(table, chain, answer.points[i].bytes, &operations, &error))
            exit(1);
    }
    double traced = (cpu_seconds() - start) / (double)answer.count;
    printf("%-22s %4u stages %9.3f ms  %5zu steps  table %7.2f MB  trace %5.1f us\n", label,
           chain->n, best * 1e3, answer.count, (double)remat_breakpoints_bytes(table) / 1e6,
           traced * 1e6);
    fflush(stdout);
    remat_operations_clear(&operations);
    remat_breakpoints_free(table);
    remat_chain_free(chain);
    remat_profile_free(profile);
}

/* ---- every solver ---- */

static void bench_solvers(remat_profile *profile)
{
    size_t count;
    const remat_solver *const *solvers = remat_solvers(&count);
    for (size_t i = 0; i < count; i++) {
        remat_problem problem = {.profile = profile,
                                 .options = remat_options_default(solvers[i]),
                                 .max_budget = UINT64_C(4) << 30};
        remat_error error = {0};
        void *table = NULL;
        if (remat_solver_accepts(solvers[i], &problem, &error) || !(solvers[i]->accepts & 1))
            continue;
        double start = cpu_seconds();
        if (solvers[i]->tabulate(&problem, NULL, &table, &error) == REMAT_OK)
            printf("%-22s %9.3f ms  %5zu steps\n", solvers[i]->name, (cpu_seconds() - start) * 1e3,
                   solvers[i]->n_steps(table));
        solvers[i]->table_free(table);
    }
}

int main(int argc, char **argv)
{
    int quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    print_cpu();
    printf("\nslots: stages x slots, seconds of the kernel, updates n^3/6 x slots per second\n");
    bench_seeded(50, 100, 1);
    bench_seeded(100, 500, 1);
    bench_seeded(200, 500, 1);
    bench_seeded(339, 100, !quick);
    bench_seeded(339, 500, !quick);
    if (!quick) {
        bench_seeded(339, 4000, 0);
        bench_seeded(500, 1000, 1);
        bench_seeded(1000, 500, 0);
    }
    printf("\nexact breakpoints (all budgets)\n");
    static const char *const names[] = {"resnet50", "gpt",          "vgg19",   "vit-b16",
                                        "lstm100",  "resnet50.cpu", "gpt.cpu", "vgg19.cpu"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        bench_exact(names[i], bench_real_chain(names[i], 0, 0));
    bench_exact("resnet152", bench_real_chain("resnet50", 1, 0));
    bench_exact("resnet152, jitter 2 %", bench_real_chain("resnet50", 1, 0.02));
    bench_exact("random 50", bench_random_chain(50, 1));
    bench_exact("random 100", bench_random_chain(100, 1));
    printf("\nevery chain solver, resnet152, tabulate\n");
    remat_profile *profile = bench_real_chain("resnet50", 1, 0);
    bench_solvers(must(profile));
    remat_profile_free(profile);
    return 0;
}
