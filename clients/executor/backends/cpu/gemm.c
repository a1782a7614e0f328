/* Products of matrices: OpenBLAS, or loops where it is not there. */
#include "cpu.h"

#include <string.h>

#ifdef REMAT_OPENBLAS

#include <cblas.h>

uint32_t cpu_multiply_threads(uint32_t threads)
{
    openblas_set_num_threads((int)threads);
    return (uint32_t)openblas_get_num_threads();
}

void cpu_multiply(cpu_matrix a, cpu_matrix b, size_t m, size_t n, size_t k, bool add, float *c,
                  size_t stride)
{
    cblas_sgemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans,
                b.transposed ? CblasTrans : CblasNoTrans, (blasint)m, (blasint)n, (blasint)k, 1.0f,
                a.at, (blasint)a.stride, b.at, (blasint)b.stride, add ? 1.0f : 0.0f, c,
                (blasint)stride);
}

#else

enum { ROWS = 4, COLUMNS = 512 }; /* of C at a time: they stay in the first cache */

void cpu_multiply_threads(uint32_t threads)
{
    (void)threads;
}

static float element(cpu_matrix a, size_t row, size_t column)
{
    return a.transposed ? a.at[column * a.stride + row] : a.at[row * a.stride + column];
}

static void add_block(cpu_matrix a, const float *b, size_t b_stride, size_t row, size_t rows,
                      size_t columns, size_t k, float *c, size_t stride)
{
    for (size_t p = 0; p < k; p++)
        for (size_t i = 0; i < rows; i++) {
            float factor = element(a, row + i, p);
            for (size_t j = 0; j < columns; j++)
                c[(row + i) * stride + j] += factor * b[p * b_stride + j];
        }
}

void cpu_multiply(cpu_matrix a, cpu_matrix b, size_t m, size_t n, size_t k, bool add, float *c,
                  size_t stride)
{
    for (size_t i = 0; i < m && !add; i++)
        memset(c + i * stride, 0, n * sizeof *c);
    if (b.transposed) {
        for (size_t i = 0; i < m; i++)
            for (size_t j = 0; j < n; j++)
                c[i * stride + j] += cpu_dot(a.at + i * a.stride, b.at + j * b.stride, k);
        return;
    }
    for (size_t j = 0; j < n; j += COLUMNS)
        for (size_t i = 0; i < m; i += ROWS)
            add_block(a, b.at + j, b.stride, i, m - i < ROWS ? m - i : ROWS,
                      n - j < COLUMNS ? n - j : COLUMNS, k, c + j, stride);
}

#endif
