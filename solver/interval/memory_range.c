#include "interval/memory_range.h"

#define LANES 8

/* Eight sums at once, which the compiler puts into vectors; WRITE is what becomes of memory[at]. */
#define SUM_OF_RANGE(WRITE)                                                                        \
    double sums[LANES] = {0};                                                                      \
    size_t i = 0;                                                                                  \
    for (; i + LANES <= n; i += LANES)                                                             \
        for (size_t k = 0; k < LANES; k++) {                                                       \
            double before = memory[i + k] - budget, after = before + delta;                        \
            WRITE(memory[i + k]);                                                                  \
            sums[k] += (after > 0 ? after : 0) - (before > 0 ? before : 0);                        \
        }                                                                                          \
    for (; i < n; i++) {                                                                           \
        double before = memory[i] - budget, after = before + delta;                                \
        WRITE(memory[i]);                                                                          \
        sums[0] += (after > 0 ? after : 0) - (before > 0 ? before : 0);                            \
    }                                                                                              \
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]))

#define ADDED(slot) (slot) += delta
#define LEFT_ALONE(slot) (void)(slot)

#define KERNEL(NAME, TARGET)                                                                       \
    TARGET static double add_##NAME(double *memory, size_t n, double delta, double budget)         \
    {                                                                                              \
        SUM_OF_RANGE(ADDED);                                                                       \
    }                                                                                              \
    TARGET static double probe_##NAME(const double *memory, size_t n, double delta, double budget) \
    {                                                                                              \
        SUM_OF_RANGE(LEFT_ALONE);                                                                  \
    }

KERNEL(plain, )
#ifdef __x86_64__
KERNEL(avx2, __attribute__((target("avx2"))))
KERNEL(avx512, __attribute__((target("avx512f"))))
#endif

size_t interval_range_kernels(interval_range_kernel ret_kernels[3])
{
    size_t n = 0;
    ret_kernels[n++] = (interval_range_kernel){"plain", add_plain, probe_plain};
#ifdef __x86_64__
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2"))
        ret_kernels[n++] = (interval_range_kernel){"avx2", add_avx2, probe_avx2};
    if (__builtin_cpu_supports("avx512f"))
        ret_kernels[n++] = (interval_range_kernel){"avx512", add_avx512, probe_avx512};
#endif
    return n;
}
