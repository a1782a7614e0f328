/* Private to the CUDA backend: what the C files of its kernels share. */
#ifndef REMAT_EXECUTOR_CUDA_CALL_H
#define REMAT_EXECUTOR_CUDA_CALL_H

#include "cuda.h"
#include "kernels.h"

/* What is put together aside goes in pieces of about so many bytes at most. Under the emulation
 * few: tests see several pieces. */
#ifdef REMAT_CUDA_EMULATED
enum { CUDA_PIECE = 1 << 14 };
#else
enum { CUDA_PIECE = 1 << 26 };
#endif

/* Parts of a workspace begin at multiples of 256 bytes, as all values do: then the libraries, which
 * choose by alignment, compute the same bits there and in place. */
static inline uint64_t cuda_align(uint64_t bytes)
{
    return (bytes + 255) & ~UINT64_C(255);
}

static inline uint64_t cuda_most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The number of a launcher. */
static inline int cuda_launched(int code)
{
    return cuda_check((cudaError_t)code);
}

/* C = op(A) op(B), or C += op(A) op(B); row-major, op(A) is m x k, op(B) k x n; transposed: stored
 * as k x m, n x k. */
typedef struct cuda_matrix {
    const float *at;
    size_t stride; /* numbers from row to row as stored */
    bool transposed;
} cuda_matrix;

int cuda_multiply(cuda_matrix a, cuda_matrix b, size_t m, size_t n, size_t k, bool add, float *c,
                  size_t stride);

/* Many products of one shape; numbers from one A, B or C to the next. */
typedef struct cuda_batch {
    size_t count, a, b, c;
} cuda_batch;

int cuda_multiply_batch(cuda_matrix a, cuda_matrix b, size_t m, size_t n, size_t k, float *c,
                        size_t stride, cuda_batch batch);

/* ---- kernels without choices ---- */

const char *cuda_one_implementation(const net_node *node, uint32_t alternative);
kernel_cost cuda_no_cost(const net_node *node, uint32_t alternative);

#endif
