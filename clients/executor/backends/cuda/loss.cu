/* Losses: means over rows. Each block leaves the sum over its rows; one block adds those up. */
#include "device.cuh"

#include <math.h>

/* ---- the end of every loss ---- */

static __global__ void mean_loss(const double *left, size_t n, double count, double *loss)
{
    double own = 0;
    for (size_t k = threadIdx.x; k < n; k += CUDA_THREADS)
        own += left[k];
    const double sum = block_sum_double(own);
    if (threadIdx.x == 0)
        *loss = sum / count;
}

static int end_loss(cudaStream_t stream, int code, const double *left, size_t n, double count,
                    double *loss)
{
    return code ? code : CUDA_LAUNCH(mean_loss, 1, CUDA_THREADS, stream, left, n, count, loss);
}

static size_t loss_blocks(size_t blocks)
{
    return blocks < CUDA_LOSS_BLOCKS ? blocks : (size_t)CUDA_LOSS_BLOCKS;
}

/* ---- cross-entropy of rows that stand one behind the other: a block for a row ---- */

static __device__ inline void row_softmax(const float *x, size_t n, float *ret_most, float *ret_sum)
{
    float most = x[0], sum = 0;
    for (size_t j = threadIdx.x; j < n; j += CUDA_THREADS)
        most = fmaxf(most, x[j]);
    most = block_max(most);
    for (size_t j = threadIdx.x; j < n; j += CUDA_THREADS)
        sum += expf(x[j] - most);
    *ret_most = most;
    *ret_sum = block_sum(sum);
}

static __global__ void cross_entropy_rows(const float *x, const int32_t *labels, size_t rows,
                                          size_t n, double *left)
{
    double total = 0;
    for (size_t r = blockIdx.x; r < rows; r += gridDim.x) {
        float most, sum;
        row_softmax(x + r * n, n, &most, &sum);
        if (threadIdx.x == 0)
            total += log((double)sum) + (double)most - (double)x[r * n + (size_t)labels[r]];
    }
    if (threadIdx.x == 0)
        left[blockIdx.x] = total;
}

static __global__ void cross_entropy_rows_backward(const float *x, const int32_t *labels, float *dx,
                                                   size_t rows, size_t n, bool accumulate)
{
    for (size_t r = blockIdx.x; r < rows; r += gridDim.x) {
        float most, sum;
        row_softmax(x + r * n, n, &most, &sum);
        for (size_t j = threadIdx.x; j < n; j += CUDA_THREADS) {
            const float p = expf(x[r * n + j] - most) / sum;
            put(dx + r * n, j, (p - (j == (size_t)labels[r] ? 1 : 0)) / (float)rows, accumulate);
        }
    }
}

/* ---- cross-entropy of pixels, whose numbers are a plane apart: a thread for a pixel ---- */

static __device__ inline const float *pixel_of(const float *x, size_t r, size_t n, size_t pixels)
{
    return x + r / pixels * n * pixels + r % pixels;
}

static __device__ inline void pixel_softmax(const float *x, size_t n, size_t pixels,
                                            float *ret_most, float *ret_sum)
{
    float most = x[0], sum = 0;
    for (size_t j = 1; j < n; j++)
        most = fmaxf(most, x[j * pixels]);
    for (size_t j = 0; j < n; j++)
        sum += expf(x[j * pixels] - most);
    *ret_most = most;
    *ret_sum = sum;
}

static __global__ void cross_entropy_pixels(const float *x, const int32_t *labels, size_t rows,
                                            size_t n, size_t pixels, double *left)
{
    double total = 0;
    for (size_t r = grid_thread(); r < rows; r += grid_threads()) {
        const float *own = pixel_of(x, r, n, pixels);
        float most, sum;
        pixel_softmax(own, n, pixels, &most, &sum);
        total += log((double)sum) + (double)most - (double)own[(size_t)labels[r] * pixels];
    }
    total = block_sum_double(total);
    if (threadIdx.x == 0)
        left[blockIdx.x] = total;
}

static __global__ void cross_entropy_pixels_backward(const float *x, const int32_t *labels,
                                                     float *dx, size_t rows, size_t n,
                                                     size_t pixels, bool accumulate)
{
    for (size_t r = grid_thread(); r < rows; r += grid_threads()) {
        const float *own = pixel_of(x, r, n, pixels);
        float *to = dx + (own - x), most, sum;
        pixel_softmax(own, n, pixels, &most, &sum);
        for (size_t j = 0; j < n; j++) {
            const float p = expf(own[j * pixels] - most) / sum;
            put(to, j * pixels, (p - (j == (size_t)labels[r] ? 1 : 0)) / (float)rows, accumulate);
        }
    }
}

extern "C" int cuda_cross_entropy_forward(cudaStream_t stream, const float *x,
                                          const int32_t *labels, size_t rows, size_t n,
                                          size_t pixels, double *left, double *loss)
{
    const size_t blocks = loss_blocks(pixels == 1 ? rows : cuda_blocks(rows));
    int code = pixels == 1 ? CUDA_LAUNCH(cross_entropy_rows, blocks, CUDA_THREADS, stream, x,
                                         labels, rows, n, left)
                           : CUDA_LAUNCH(cross_entropy_pixels, blocks, CUDA_THREADS, stream, x,
                                         labels, rows, n, pixels, left);
    return end_loss(stream, code, left, blocks, (double)rows, loss);
}

extern "C" int cuda_cross_entropy_backward(cudaStream_t stream, const float *x,
                                           const int32_t *labels, float *dx, size_t rows, size_t n,
                                           size_t pixels, bool accumulate)
{
    return pixels == 1 ? CUDA_LAUNCH(cross_entropy_rows_backward, cuda_row_blocks(rows),
                                     CUDA_THREADS, stream, x, labels, dx, rows, n, accumulate)
                       : CUDA_LAUNCH(cross_entropy_pixels_backward, cuda_blocks(rows), CUDA_THREADS,
                                     stream, x, labels, dx, rows, n, pixels, accumulate);
}

/* ---- triplet ---- */

/* How far the row is from where it costs nothing; at most 0: nothing. */
static __device__ inline float triplet_excess(cuda_triplet_rows t, size_t row)
{
    float own = 0;
    for (size_t i = row * t.n + threadIdx.x; i < (row + 1) * t.n; i += CUDA_THREADS) {
        const float near = t.anchor[i] - t.positive[i], far = t.anchor[i] - t.negative[i];
        own += near * near - far * far;
    }
    return block_sum(own) + t.margin;
}

static __global__ void triplet_forward(cuda_triplet_rows t, double *left)
{
    double total = 0;
    for (size_t r = blockIdx.x; r < t.rows; r += gridDim.x) {
        const float excess = triplet_excess(t, r);
        total += excess > 0 ? (double)excess : 0;
    }
    if (threadIdx.x == 0)
        left[blockIdx.x] = total;
}

extern "C" int cuda_triplet_forward(cudaStream_t stream, cuda_triplet_rows t, double *left,
                                    double *loss)
{
    const size_t blocks = loss_blocks(t.rows);
    int code = CUDA_LAUNCH(triplet_forward, blocks, CUDA_THREADS, stream, t, left);
    return end_loss(stream, code, left, blocks, (double)t.rows, loss);
}

static __global__ void triplet_backward(cuda_triplet_rows t, cuda_triplet_shares to)
{
    for (size_t r = blockIdx.x; r < t.rows; r += gridDim.x) {
        const float scale = triplet_excess(t, r) > 0 ? 2 / (float)t.rows : 0;
        for (size_t i = r * t.n + threadIdx.x; i < (r + 1) * t.n; i += CUDA_THREADS) {
            const float a = t.anchor[i], p = t.positive[i], q = t.negative[i];
            if (to.dx[0])
                put(to.dx[0], i, scale * (q - p), to.accumulate[0]);
            if (to.dx[1])
                put(to.dx[1], i, scale * (p - a), to.accumulate[1]);
            if (to.dx[2])
                put(to.dx[2], i, scale * (a - q), to.accumulate[2]);
        }
    }
}

extern "C" int cuda_triplet_backward(cudaStream_t stream, cuda_triplet_rows t,
                                     cuda_triplet_shares to)
{
    return CUDA_LAUNCH(triplet_backward, cuda_row_blocks(t.rows), CUDA_THREADS, stream, t, to);
}

/* ---- contrastive ---- */

/* Rows of length 1, and one over the lengths they had. */
static __global__ void normalise(const float *x, float *unit, float *inverse, size_t rows, size_t n)
{
    for (size_t r = blockIdx.x; r < rows; r += gridDim.x) {
        float squares = 0;
        for (size_t i = r * n + threadIdx.x; i < (r + 1) * n; i += CUDA_THREADS)
            squares += x[i] * x[i];
        const float scale = 1 / (sqrtf(block_sum(squares)) + 1e-12f);
        for (size_t i = r * n + threadIdx.x; i < (r + 1) * n; i += CUDA_THREADS)
            unit[i] = x[i] * scale;
        if (threadIdx.x == 0)
            inverse[r] = scale;
    }
}

extern "C" int cuda_normalise(cudaStream_t stream, const float *x, float *unit, float *inverse,
                              size_t rows, size_t n)
{
    return CUDA_LAUNCH(normalise, cuda_row_blocks(rows), CUDA_THREADS, stream, x, unit, inverse,
                       rows, n);
}

/* log of the sum of exponentials of n numbers over the temperature, `step` apart. */
static __device__ inline double log_sum(const float *x, size_t n, size_t step, float temperature)
{
    float most = x[0] / temperature, sum = 0;
    for (size_t j = threadIdx.x; j < n; j += CUDA_THREADS)
        most = fmaxf(most, x[j * step] / temperature);
    most = block_max(most);
    for (size_t j = threadIdx.x; j < n; j += CUDA_THREADS)
        sum += expf(x[j * step] / temperature - most);
    return log((double)block_sum(sum)) + (double)most;
}

/* Of row and column r of the square of scores; left: what row r adds to the loss. */
static __global__ void contrast_logs(const float *scores, size_t n, float temperature, double *logs,
                                     double *left)
{
    for (size_t r = blockIdx.x; r < n; r += gridDim.x) {
        const double row = log_sum(scores + r * n, n, 1, temperature);
        const double column = log_sum(scores + r, n, n, temperature);
        if (threadIdx.x > 0)
            continue;
        logs[r] = row;
        logs[n + r] = column;
        left[r] = row + column - 2 * (double)(scores[r * n + r] / temperature);
    }
}

extern "C" int cuda_contrast_logs(cudaStream_t stream, const float *scores, size_t n,
                                  float temperature, double *logs, double *left)
{
    return CUDA_LAUNCH(contrast_logs, cuda_row_blocks(n), CUDA_THREADS, stream, scores, n,
                       temperature, logs, left);
}

extern "C" int cuda_contrast_loss(cudaStream_t stream, const double *left, size_t n, double *loss)
{
    return end_loss(stream, 0, left, n, 2 * (double)n, loss);
}

/* Slopes of the similarities in place of the scores. */
static __global__ void contrast_slopes(float *scores, size_t n, float temperature,
                                       const double *logs)
{
    const float scale = 1 / (2 * (float)n * temperature);
    walk w = walk_from(grid_thread(), grid_threads(), n);
    for (; w.row < n; walk_on(&w)) {
        const size_t i = w.row * n + w.column;
        const double score = (double)(scores[i] / temperature);
        const float p =
            expf((float)(score - logs[w.row])) + expf((float)(score - logs[n + w.column]));
        scores[i] = (p - (w.row == w.column ? 2 : 0)) * scale;
    }
}

extern "C" int cuda_contrast_slopes(cudaStream_t stream, float *scores, size_t n, float temperature,
                                    const double *logs)
{
    return CUDA_LAUNCH(contrast_slopes, cuda_blocks(n * n), CUDA_THREADS, stream, scores, n,
                       temperature, logs);
}

/* From the slope of a row of length 1 to that of the row: what lies along it does not count. */
static __global__ void contrast_share(const float *unit, const float *inverse, const float *slopes,
                                      float *dx, size_t rows, size_t n, bool accumulate)
{
    for (size_t r = blockIdx.x; r < rows; r += gridDim.x) {
        float product = 0;
        for (size_t i = r * n + threadIdx.x; i < (r + 1) * n; i += CUDA_THREADS)
            product += unit[i] * slopes[i];
        const float along = block_sum(product);
        for (size_t i = r * n + threadIdx.x; i < (r + 1) * n; i += CUDA_THREADS)
            put(dx, i, inverse[r] * (slopes[i] - along * unit[i]), accumulate);
    }
}

extern "C" int cuda_contrast_share(cudaStream_t stream, const float *unit, const float *inverse,
                                   const float *slopes, float *dx, size_t rows, size_t n,
                                   bool accumulate)
{
    return CUDA_LAUNCH(contrast_share, cuda_row_blocks(rows), CUDA_THREADS, stream, unit, inverse,
                       slopes, dx, rows, n, accumulate);
}
