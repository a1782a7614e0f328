#include "start/rotor/kernel.h"

size_t chain_kernel_versions(chain_kernel_version versions[3])
{
    size_t count = 0;
    versions[count++] = (chain_kernel_version){"plain", chain_kernel_plain};
#ifdef __x86_64__
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") &&
        __builtin_cpu_supports("popcnt"))
        versions[count++] = (chain_kernel_version){"avx2", chain_kernel_avx2};
    if (__builtin_cpu_supports("avx512f"))
        versions[count++] = (chain_kernel_version){"avx512", chain_kernel_avx512};
#endif
    return count;
}
