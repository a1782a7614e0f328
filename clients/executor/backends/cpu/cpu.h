/* Private to the CPU backend: what its kernels share. */
#ifndef REMAT_EXECUTOR_CPU_H
#define REMAT_EXECUTOR_CPU_H

#include "backend.h"

extern const kernel cpu_conv, cpu_up_conv, cpu_linear, cpu_batch_norm, cpu_layer_norm, cpu_relu,
    cpu_gelu, cpu_max_pool, cpu_average_pool, cpu_add, cpu_concat, cpu_embedding, cpu_attention,
    cpu_dropout, cpu_lstm, cpu_cross_entropy, cpu_triplet, cpu_contrastive;

/* C = op(A) op(B), or C += op(A) op(B); row-major, op(A) is m x k, op(B) k x n; transposed: stored
 * as k x m, n x k. Not both are transposed. */
typedef struct cpu_matrix {
    const float *at;
    size_t stride; /* numbers from row to row as stored */
    bool transposed;
} cpu_matrix;

void cpu_multiply(cpu_matrix a, cpu_matrix b, size_t m, size_t n, size_t k, bool add, float *c,
                  size_t stride);
/* Before the first product. Returns how many it has: a library is made for so many at most. */
uint32_t cpu_multiply_threads(uint32_t threads);

/* Sums in one fixed order of 16 interleaved parts, so that compilers may use vectors. */
float cpu_sum(const float *x, size_t n);
float cpu_dot(const float *x, const float *y, size_t n);
float cpu_square_distance(const float *x, float from, size_t n); /* sum of (x - from)^2 */

void cpu_add_to(float *to, const float *from, size_t n);

/* exp(x - largest) / sum, in place; returns log(sum) + largest. */
double cpu_softmax(float *x, size_t n);

/* Windows of an image of c planes. */
typedef struct cpu_windows {
    size_t c, h, w, kernel, stride, padding, out_h, out_w;
} cpu_windows;

/* For rows row .. row + rows - 1 of the output: line (c, ky, kx) of `columns` gets that number of
 * every window, 0 outside of the image. stride: from line to line. */
void cpu_gather(const cpu_windows *g, const float *image, size_t row, size_t rows, float *columns,
                size_t stride);
/* The adjoint: adds columns to the image. */
void cpu_scatter(const cpu_windows *g, const float *columns, size_t row, size_t rows, size_t stride,
                 float *image);

/* [images][channels][pixels]. */
void cpu_add_bias(float *y, const float *bias, size_t images, size_t channels, size_t pixels);
void cpu_bias_gradient(const float *dy, float *slope, size_t images, size_t channels,
                       size_t pixels);

/* The implementation of kernels that have one. */
const char *cpu_one_implementation(const net_node *node, uint32_t alternative);
kernel_cost cpu_no_cost(const net_node *node, uint32_t alternative);

/* One share of a gradient; loops over it vectorise either way. */
static inline void cpu_put(float *to, size_t i, float share, bool accumulate)
{
    to[i] = accumulate ? to[i] + share : share;
}

#endif
