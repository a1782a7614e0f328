/* Launching kernels: the one place that knows whether a device or the emulation runs them.
 *
 *     CUDA_LAUNCH(kernel, blocks, threads, stream, arguments...)
 *
 * is 0 or the runtime's error as a number. Kernels use static shared memory, __syncthreads (which
 * all threads of a block reach together) and no other way for threads to meet. */
#ifndef REMAT_EXECUTOR_CUDA_LAUNCH_CUH
#define REMAT_EXECUTOR_CUDA_LAUNCH_CUH

#include <cuda_runtime.h>

#ifdef REMAT_CUDA_EMULATED

#define CUDA_LAUNCH(kernel, blocks, threads, stream, ...)                                          \
    ((int)emulated_launch_kernel(kernel, blocks, threads, stream, __VA_ARGS__))

#else

#define CUDA_LAUNCH(kernel, blocks, threads, stream, ...)                                          \
    (kernel<<<(unsigned)(blocks), (unsigned)(threads), 0, stream>>>(__VA_ARGS__),                  \
     (int)cudaGetLastError())

#endif

#endif
