/* Products of matrices by cuBLAS, whose matrices stand column by column: a row-major matrix is
 * its transpose there, and C' = op(B)' op(A)'. */
#include "call.h"

#include <limits.h>

static cublasOperation_t operation(cuda_matrix a)
{
    return a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

static bool countable(size_t m, size_t n, size_t k, size_t stride)
{
    return m <= INT_MAX && n <= INT_MAX && k <= INT_MAX && stride <= INT_MAX;
}

int cuda_multiply(cuda_matrix a, cuda_matrix b, size_t m, size_t n, size_t k, bool add, float *c,
                  size_t stride)
{
    const float one = 1, kept = add ? 1 : 0;
    if (!countable(m, n, k, stride) || !countable(0, 0, a.stride, b.stride))
        return cuda_check_blas(CUBLAS_STATUS_INVALID_VALUE);
    return cuda_check_blas(cublasSgemm(cuda_the_device.blas, operation(b), operation(a), (int)n,
                                       (int)m, (int)k, &one, b.at, (int)b.stride, a.at,
                                       (int)a.stride, &kept, c, (int)stride));
}

int cuda_multiply_batch(cuda_matrix a, cuda_matrix b, size_t m, size_t n, size_t k, float *c,
                        size_t stride, cuda_batch batch)
{
    const float one = 1, none = 0;
    if (!countable(m, n, k, stride) || !countable(batch.count, 0, a.stride, b.stride))
        return cuda_check_blas(CUBLAS_STATUS_INVALID_VALUE);
    return cuda_check_blas(cublasSgemmStridedBatched(
        cuda_the_device.blas, operation(b), operation(a), (int)n, (int)m, (int)k, &one, b.at,
        (int)b.stride, (long long)batch.b, a.at, (int)a.stride, (long long)batch.a, &none, c,
        (int)stride, (long long)batch.c, (int)batch.count));
}

/* ---- kernels without choices ---- */

const char *cuda_one_implementation(const net_node *node, uint32_t alternative)
{
    (void)node;
    return alternative == 0 ? "plain" : NULL;
}

kernel_cost cuda_no_cost(const net_node *node, uint32_t alternative)
{
    (void)node;
    (void)alternative;
    return (kernel_cost){0};
}
