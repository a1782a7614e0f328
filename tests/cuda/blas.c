/* cuBLAS: products of matrices by loops, column by column, summed in order of k. */
#include "emulated.h"

#include <cublas_v2.h>
#include <stdlib.h>
#include <string.h>

struct cublasContext {
    cudaStream_t stream;
    void *workspace;
    size_t workspace_bytes;
};

typedef struct product {
    bool a_transposed, b_transposed;
    size_t m, n, k, lda, ldb, ldc;
    size_t stride_a, stride_b, stride_c, batch;
    float alpha, beta;
    const float *a, *b;
    float *c;
    void *workspace;
    size_t workspace_bytes;
} product;

const char *cublasGetStatusString(cublasStatus_t status)
{
    switch (status) {
    case CUBLAS_STATUS_SUCCESS:
        return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
        return "the library was not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED:
        return "the resource allocation failed";
    case CUBLAS_STATUS_INVALID_VALUE:
        return "an invalid value was used as an argument";
    case CUBLAS_STATUS_EXECUTION_FAILED:
        return "the function failed to launch on the GPU";
    }
    return "unknown status";
}

cublasStatus_t cublasCreate(cublasHandle_t *handle)
{
    if (emulated_fault())
        return CUBLAS_STATUS_NOT_INITIALIZED;
    *handle = calloc(1, sizeof **handle);
    emulated_count(*handle != NULL);
    return *handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle)
{
    free(handle);
    emulated_count(-1);
    return emulated_fault() ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

/* The library gives up the workspace that was set, as the real one does. */
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream)
{
    if (emulated_fault())
        return CUBLAS_STATUS_EXECUTION_FAILED;
    handle->stream = stream;
    handle->workspace = NULL;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void *workspace,
                                  size_t workspaceSizeInBytes)
{
    if (emulated_fault())
        return CUBLAS_STATUS_EXECUTION_FAILED;
    if (!emulated_on_device(workspace, workspaceSizeInBytes) || (uintptr_t)workspace % 256 != 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    handle->workspace = workspace;
    handle->workspace_bytes = workspaceSizeInBytes;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode)
{
    (void)handle;
    if (emulated_fault())
        return CUBLAS_STATUS_EXECUTION_FAILED;
    return mode == CUBLAS_PEDANTIC_MATH || mode == CUBLAS_DEFAULT_MATH
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_INVALID_VALUE;
}

/* ---- products ---- */

static float b_at(const product *p, const float *b, size_t i, size_t j)
{
    return p->b_transposed ? b[i * p->ldb + j] : b[j * p->ldb + i];
}

/* One column of C; sum: [m]. */
static void multiply_column(const product *p, const float *a, const float *b, size_t j, float *sum)
{
    if (p->a_transposed) {
        for (size_t i = 0; i < p->m; i++) {
            float one = 0;
            for (size_t l = 0; l < p->k; l++)
                one += a[i * p->lda + l] * b_at(p, b, l, j);
            sum[i] = one;
        }
        return;
    }
    memset(sum, 0, p->m * sizeof *sum);
    for (size_t l = 0; l < p->k; l++) {
        const float factor = b_at(p, b, l, j);
        for (size_t i = 0; i < p->m; i++)
            sum[i] += a[l * p->lda + i] * factor;
    }
}

static void run_product(void *data)
{
    const product *p = data;
    float *sum = malloc(p->m * sizeof *sum);
    if (!sum)
        emulated_die("out of memory");
    if (p->workspace)
        memset(p->workspace, EMULATED_GARBAGE, p->workspace_bytes);
    for (size_t i = 0; i < p->batch; i++)
        for (size_t j = 0; j < p->n; j++) {
            float *c = p->c + i * p->stride_c + j * p->ldc;
            multiply_column(p, p->a + i * p->stride_a, p->b + i * p->stride_b, j, sum);
            for (size_t row = 0; row < p->m; row++)
                c[row] = p->alpha * sum[row] + (p->beta == 0 ? 0 : p->beta * c[row]);
        }
    free(sum);
}

/* Bytes from the first to the last number of a batch of matrices. */
static size_t extent(size_t rows, size_t columns, size_t ld, size_t stride, size_t batch)
{
    return ((batch - 1) * stride + (columns - 1) * ld + rows) * sizeof(float);
}

static bool meet(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    return (uintptr_t)a < (uintptr_t)b + b_bytes && (uintptr_t)b < (uintptr_t)a + a_bytes;
}

static bool acceptable(const product *p)
{
    const size_t a_rows = p->a_transposed ? p->k : p->m, a_columns = p->a_transposed ? p->m : p->k;
    const size_t b_rows = p->b_transposed ? p->n : p->k, b_columns = p->b_transposed ? p->k : p->n;
    if (p->lda < a_rows || p->ldb < b_rows || p->ldc < p->m)
        return false;
    const size_t a = extent(a_rows, a_columns, p->lda, p->stride_a, p->batch);
    const size_t b = extent(b_rows, b_columns, p->ldb, p->stride_b, p->batch);
    const size_t c = extent(p->m, p->n, p->ldc, p->stride_c, p->batch);
    /* strided operands may lie between one another's columns: single products are checked */
    bool interleaved = p->batch > 1 || p->ldc > p->m;
    return emulated_on_device(p->a, a) && emulated_on_device(p->b, b) &&
           emulated_on_device(p->c, c) &&
           (interleaved || (!meet(p->a, a, p->c, c) && !meet(p->b, b, p->c, c)));
}

cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t transa,
                                         cublasOperation_t transb, int m, int n, int k,
                                         const float *alpha, const float *A, int lda,
                                         long long int strideA, const float *B, int ldb,
                                         long long int strideB, const float *beta, float *C,
                                         int ldc, long long int strideC, int batchCount)
{
    if (emulated_fault())
        return CUBLAS_STATUS_EXECUTION_FAILED;
    if (m <= 0 || n <= 0 || k <= 0 || lda <= 0 || ldb <= 0 || ldc <= 0 || batchCount <= 0 ||
        strideA < 0 || strideB < 0 || strideC < 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    const product p = {.a_transposed = transa == CUBLAS_OP_T,
                       .b_transposed = transb == CUBLAS_OP_T,
                       .m = (size_t)m,
                       .n = (size_t)n,
                       .k = (size_t)k,
                       .lda = (size_t)lda,
                       .ldb = (size_t)ldb,
                       .ldc = (size_t)ldc,
                       .stride_a = (size_t)strideA,
                       .stride_b = (size_t)strideB,
                       .stride_c = (size_t)strideC,
                       .batch = (size_t)batchCount,
                       .alpha = *alpha,
                       .beta = *beta,
                       .a = A,
                       .b = B,
                       .c = C,
                       .workspace = handle->workspace,
                       .workspace_bytes = handle->workspace_bytes};
    if (!acceptable(&p))
        return CUBLAS_STATUS_INVALID_VALUE;
    emulated_queue(handle->stream, run_product, &p, sizeof p);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t transa,
                           cublasOperation_t transb, int m, int n, int k, const float *alpha,
                           const float *A, int lda, const float *B, int ldb, const float *beta,
                           float *C, int ldc)
{
    return cublasSgemmStridedBatched(handle, transa, transb, m, n, k, alpha, A, lda, 0, B, ldb, 0,
                                     beta, C, ldc, 0, 1);
}
