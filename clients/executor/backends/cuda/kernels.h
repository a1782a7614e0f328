/* Private to the CUDA backend: device code as C sees it, and what the kernels' files share.
 *
 * Functions with a stream enqueue one kernel or two and return 0 or the runtime's error. Values,
 * gradients, what is saved and workspaces begin at multiples of 256 bytes; parameters anywhere.
 * Matrices are row-major; dx gets a share of a gradient, added where `accumulate` says so.
 *
 * Every sum has one order, whatever the device: grids follow from shapes alone, and no kernel adds
 * by atomics. So the same call gives the same bits. */
#ifndef REMAT_EXECUTOR_CUDA_KERNELS_H
#define REMAT_EXECUTOR_CUDA_KERNELS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- number by number: n of them ---- */

/* bits: of numbers that were let through, (n + 7) / 8 bytes; NULL: not saved. */
int cuda_relu_forward(cudaStream_t stream, const float *x, float *y, uint8_t *bits, size_t n);
int cuda_relu_backward(cudaStream_t stream, const uint8_t *bits, const float *dy, float *dx,
                       size_t n, bool accumulate);
int cuda_gelu_forward(cudaStream_t stream, const float *x, float *y, size_t n);
int cuda_gelu_backward(cudaStream_t stream, const float *x, const float *dy, float *dx, size_t n,
                       bool accumulate);
int cuda_add_forward(cudaStream_t stream, const float *a, const float *b, float *y, size_t n,
                     bool relu);
/* y: NULL without rectifier. da may be dy; da, db: NULL: not wanted. */
int cuda_add_backward(cudaStream_t stream, const float *y, const float *dy, float *da, float *db,
                      size_t n, bool add_to_a, bool add_to_b);

/* With the masks that follow from a generator: uint64_t seed, counter. It is only read. */
int cuda_drop(cudaStream_t stream, const void *generator, const float *x, float *to, size_t n,
              float probability, bool accumulate);
/* Moves the generator past the masks of n numbers; saved: gets it as it was, or NULL. */
int cuda_advance(cudaStream_t stream, void *generator, void *saved, size_t n);

/* Momentum, as kernel_backend.update. */
int cuda_update(cudaStream_t stream, float *weights, float *velocity, const float *slopes,
                size_t count, uint32_t lanes, float rate, float momentum);

/* ---- rows ---- */

int cuda_add_bias(cudaStream_t stream, float *y, const float *bias, size_t rows, size_t columns);

/* Adds to `to` the sum of the rows of x, which are `stride` apart. room: so many numbers. */
size_t cuda_column_sums_room(size_t rows, size_t columns);
int cuda_column_sums(cudaStream_t stream, const float *x, size_t stride, size_t rows,
                     size_t columns, float *room, float *to);

/* Numbers from .. from + count - 1 of rows of x that are `stride` long, and where they stand in the
 * joined rows. accumulate: of a split. */
typedef struct cuda_part {
    float *x;
    size_t stride, from, count, at;
    bool accumulate;
} cuda_part;

enum { CUDA_PARTS = 32 }; /* of one launch: they travel as its argument */

typedef struct cuda_parts {
    uint32_t n;
    cuda_part part[CUDA_PARTS];
} cuda_parts;

/* Between the parts and the joined rows, which are `stride` apart. A split writes 0 to the rest of
 * the rows of x, unless it adds. */
int cuda_join(cudaStream_t stream, const cuda_parts *parts, float *y, size_t stride, size_t rows);
int cuda_split(cudaStream_t stream, const cuda_parts *parts, const float *y, size_t stride,
               size_t rows);
/* A share, of rows of `count` numbers, into a part of a gradient. */
int cuda_put_share(cudaStream_t stream, float *dx, size_t stride, size_t from, const float *share,
                   size_t count, size_t rows, bool accumulate);

/* ---- channels of [images][channels][pixels] ---- */

typedef struct cuda_channels {
    size_t images, channels, pixels;
    size_t chunks; /* of a channel, for as many blocks */
} cuda_channels;

cuda_channels cuda_channels_of(size_t images, size_t channels, size_t pixels);
/* Bytes of `left` below. */
size_t cuda_channels_room(cuda_channels g);

int cuda_add_channel_bias(cudaStream_t stream, float *y, const float *bias, cuda_channels g);
/* Adds to slope[channel] its sum. */
int cuda_channel_sums(cudaStream_t stream, const float *dy, cuda_channels g, double *left,
                      float *slope);

/* ---- normalisation ---- */

#define CUDA_NORM_EPSILON 1e-5f

typedef struct cuda_batch_norm_call {
    cuda_channels g;
    const float *x, *scale, *shift;
    float *statistics; /* forward: kept for use after training: means, then variances */
    float *saved;      /* means, then inverse deviations; forward: NULL: not saved */
    bool relu;
} cuda_batch_norm_call;

typedef struct cuda_norm_slopes {
    float *scale, *shift;
} cuda_norm_slopes;

int cuda_batch_norm_forward(cudaStream_t stream, const cuda_batch_norm_call *call, double *left,
                            float *y);
/* dx may be dy; NULL: not wanted. */
int cuda_batch_norm_backward(cudaStream_t stream, const cuda_batch_norm_call *call, const float *dy,
                             double *left, cuda_norm_slopes slopes, float *dx, bool accumulate);

int cuda_layer_norm_forward(cudaStream_t stream, const float *x, const float *scale,
                            const float *shift, float *y, size_t rows, size_t n);
/* Rows of 2 n numbers in `left`: the columns' sums are slopes of scale, then of shift. */
static inline size_t cuda_layer_norm_parts(size_t rows)
{
    return rows < 512 ? rows : 512;
}
int cuda_layer_norm_backward(cudaStream_t stream, const float *x, const float *scale,
                             const float *dy, float *left, float *dx, size_t rows, size_t n,
                             bool accumulate);

/* ---- windows of planes ---- */

typedef struct cuda_windows {
    size_t planes;
    unsigned h, w, kernel, stride, padding, out_h, out_w;
} cuda_windows;

/* places: of the largest number in each window, up to 16 x 16; NULL: not saved. */
int cuda_max_pool_forward(cudaStream_t stream, const float *x, float *y, uint8_t *places,
                          cuda_windows g);
int cuda_average_pool_forward(cudaStream_t stream, const float *x, float *y, cuda_windows g,
                              float scale);
/* places: NULL: of means. */
int cuda_pool_backward(cudaStream_t stream, const float *dy, const uint8_t *places, float *dx,
                       cuda_windows g, float scale, bool accumulate);

/* ---- sequences ---- */

/* rows x time scores in place. causal: row r sees r % time + 1 of them. */
int cuda_softmax(cudaStream_t stream, float *scores, size_t rows, size_t time, float scale,
                 bool causal);
/* From slopes of probabilities to those of scores, in place. */
int cuda_softmax_slopes(cudaStream_t stream, const float *probabilities, float *slopes, size_t rows,
                        size_t time, float scale);

int cuda_embedding_forward(cudaStream_t stream, const int32_t *ids, const float *table,
                           const float *positions, float *y, size_t rows, size_t columns,
                           size_t time);
/* table[ids[row]] += dy[row], in the order of the rows. */
int cuda_add_by_id(cudaStream_t stream, const int32_t *ids, const float *dy, size_t rows,
                   size_t columns, float *table);

typedef struct cuda_cell {
    size_t batch, width;
    const int32_t *ids;
    const float *previous; /* [batch][2 width]: hidden, then cell state; NULL: zeros */
} cuda_cell;

int cuda_lstm_forward(cudaStream_t stream, cuda_cell cell, const float *table, const float *bias,
                      float *gates, float *y, bool save);
int cuda_lstm_slopes(cudaStream_t stream, cuda_cell cell, const float *gates, const float *y,
                     const float *dy, float *slopes, float *share);

/* ---- losses: *loss is the device's; left: room for CUDA_LOSS_BLOCKS sums ---- */

enum { CUDA_LOSS_BLOCKS = 1024 };

int cuda_cross_entropy_forward(cudaStream_t stream, const float *x, const int32_t *labels,
                               size_t rows, size_t n, size_t pixels, double *left, double *loss);
int cuda_cross_entropy_backward(cudaStream_t stream, const float *x, const int32_t *labels,
                                float *dx, size_t rows, size_t n, size_t pixels, bool accumulate);

typedef struct cuda_triplet_rows {
    const float *anchor, *positive, *negative;
    size_t rows, n;
    float margin;
} cuda_triplet_rows;

typedef struct cuda_triplet_shares {
    float *dx[3]; /* NULL: not wanted */
    bool accumulate[3];
} cuda_triplet_shares;

int cuda_triplet_forward(cudaStream_t stream, cuda_triplet_rows t, double *left, double *loss);
int cuda_triplet_backward(cudaStream_t stream, cuda_triplet_rows t, cuda_triplet_shares to);

/* unit: rows of length 1; inverse: [rows], one over their lengths. */
int cuda_normalise(cudaStream_t stream, const float *x, float *unit, float *inverse, size_t rows,
                   size_t n);
/* Of a square of n x n scores: logs: [2 n], of rows, then of columns; left: [n]. */
int cuda_contrast_logs(cudaStream_t stream, const float *scores, size_t n, float temperature,
                       double *logs, double *left);
int cuda_contrast_loss(cudaStream_t stream, const double *left, size_t n, double *loss);
int cuda_contrast_slopes(cudaStream_t stream, float *scores, size_t n, float temperature,
                         const double *logs);
int cuda_contrast_share(cudaStream_t stream, const float *unit, const float *inverse,
                        const float *slopes, float *dx, size_t rows, size_t n, bool accumulate);

/* ---- on the host ---- */

/* Descriptors of convolutions are made once for each shape and kept: call before cuDNN closes. */
void cuda_conv_forget(void);

#ifdef __cplusplus
}
#endif

#endif
