/* Device code as C++: what nvcc would provide, for kernels that run as fibers on the host. The
 * threads of a block run one after the other up to the next __syncthreads; blocks run one after the
 * other; in which order, the seed says. */
#ifndef EMULATED_CUDA_RUNTIME_H
#define EMULATED_CUDA_RUNTIME_H

#include "cuda_runtime_api.h"

#include <math.h>
#include <stdint.h>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
/* All of it lies in one section, which becomes garbage before each block. */
#define __shared__ static __attribute__((section("emulated_shared")))

typedef struct emulated_index {
    unsigned x, y, z;
} emulated_index;

extern "C" {
extern emulated_index threadIdx, blockIdx, blockDim, gridDim;

void emulated_barrier(void);
/* Queues a kernel: run(closure), with the size bytes of the closure copied. pointers: those among
 * its arguments; each must be NULL or of the device. */
cudaError_t emulated_launch(unsigned blocks, unsigned threads, cudaStream_t stream,
                            void (*run)(void *closure), const void *closure, size_t size,
                            const void *const *pointers, size_t n_pointers);
}

#define __syncthreads() emulated_barrier()

static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((uint64_t)a * b >> 32);
}

static inline float __fadd_rn(float a, float b)
{
    return a + b;
}

static inline float rsqrtf(float x)
{
    return 1 / sqrtf(x);
}

/* ---- launching ---- */

template <class T> struct emulated_same {
    typedef T type;
};

template <class T> static inline const void *emulated_pointer(T)
{
    return nullptr;
}

template <class T> static inline const void *emulated_pointer(T *pointer)
{
    return pointer;
}

/* Arguments become the parameters' types and values now; the kernel runs later. */
template <class... P>
static inline cudaError_t emulated_launch_kernel(void (*kernel)(P...), size_t blocks,
                                                 size_t threads, cudaStream_t stream,
                                                 typename emulated_same<P>::type... arguments)
{
    auto body = [=] { kernel(arguments...); };
    typedef decltype(body) closure;
    static_assert(__is_trivially_copyable(closure), "kernels take plain values");
    const void *pointers[] = {emulated_pointer(arguments)..., nullptr};
    return emulated_launch((unsigned)blocks, (unsigned)threads, stream,
                           [](void *own) { (*(closure *)own)(); }, &body, sizeof body, pointers,
                           sizeof...(P));
}

#endif
