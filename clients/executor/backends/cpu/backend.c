/* The CPU backend: one thread, but for the products of matrices where more are asked for. */
#include "cpu.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* What this process has computed: other programs do not count. */
static double process_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double wall_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int mark_process(kernel_mark *mark)
{
    mark->seconds = process_clock();
    return 0;
}

static int mark_wall(kernel_mark *mark)
{
    mark->seconds = wall_clock();
    return 0;
}

static int between(const kernel_mark *from, const kernel_mark *to, double *ret_seconds)
{
    *ret_seconds = to->seconds - from->seconds;
    return 0;
}

static void unmark(kernel_mark *mark)
{
    (void)mark;
}

static int update(float *weights, float *velocity, const float *slopes, size_t count,
                  uint32_t lanes, float rate, float momentum)
{
    for (size_t i = 0; i < count; i++) {
        float slope = slopes[i];
        for (uint32_t lane = 1; lane < lanes; lane++)
            slope += slopes[lane * count + i];
        velocity[i] = momentum * velocity[i] + slope;
        weights[i] -= rate * velocity[i];
    }
    return 0;
}

/* The model name in /proc/cpuinfo. */
static void describe(char *text, size_t size)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(text, size, "CPU");
    while (file && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(text, size, "%s", colon + 2);
        break;
    }
    if (file)
        fclose(file);
}

static const kernel *const kernels[NET_KINDS] = {[NET_CONV] = &cpu_conv,
                                                 [NET_UP_CONV] = &cpu_up_conv,
                                                 [NET_LINEAR] = &cpu_linear,
                                                 [NET_BATCH_NORM] = &cpu_batch_norm,
                                                 [NET_LAYER_NORM] = &cpu_layer_norm,
                                                 [NET_RELU] = &cpu_relu,
                                                 [NET_GELU] = &cpu_gelu,
                                                 [NET_MAX_POOL] = &cpu_max_pool,
                                                 [NET_AVERAGE_POOL] = &cpu_average_pool,
                                                 [NET_ADD] = &cpu_add,
                                                 [NET_CONCAT] = &cpu_concat,
                                                 [NET_EMBEDDING] = &cpu_embedding,
                                                 [NET_ATTENTION] = &cpu_attention,
                                                 [NET_DROPOUT] = &cpu_dropout,
                                                 [NET_LSTM] = &cpu_lstm,
                                                 [NET_CROSS_ENTROPY] = &cpu_cross_entropy,
                                                 [NET_TRIPLET] = &cpu_triplet,
                                                 [NET_CONTRASTIVE] = &cpu_contrastive};

remat_status cpu_backend(uint32_t threads, kernel_backend *ret_backend, remat_error *error)
{
    const uint32_t got = cpu_multiply_threads(threads);
    if (got != threads)
        return remat_fail(error, REMAT_TOO_LARGE, "threads",
                          "threads is %u; OpenBLAS multiplies with %u at most here", threads, got);
    *ret_backend = (kernel_backend){.name = "cpu",
                                    .memory = remat_exec_memory_backend(),
                                    .kernels = kernels,
                                    .mark = threads == 1 ? mark_process : mark_wall,
                                    .between = between,
                                    .clock = threads == 1 ? "cpu" : "wall",
                                    .unmark = unmark,
                                    .update = update,
                                    .describe = describe};
    return REMAT_OK;
}
