/* Layer normalisation: a block for a row, whose second reading is from the cache. */
#include "device.cuh"

static __device__ inline void row_moments(const float *x, size_t n, float *ret_mean,
                                          float *ret_inverse)
{
    float sum = 0, squares = 0;
    for (size_t j = threadIdx.x; j < n; j += CUDA_THREADS)
        sum += x[j];
    const float mean = block_sum(sum) / (float)n;
    for (size_t j = threadIdx.x; j < n; j += CUDA_THREADS)
        squares += (x[j] - mean) * (x[j] - mean);
    *ret_mean = mean;
    *ret_inverse = 1 / sqrtf(block_sum(squares) / (float)n + CUDA_NORM_EPSILON);
}

/* Moves 8 bytes a number. y may be x. */
static __global__ void layer_norm_forward(const float *x, const float *scale, const float *shift,
                                          float *y, size_t rows, size_t n)
{
    for (size_t r = blockIdx.x; r < rows; r += gridDim.x) {
        float mean, inverse;
        row_moments(x + r * n, n, &mean, &inverse);
        for (size_t j = threadIdx.x; j < n; j += CUDA_THREADS)
            y[r * n + j] = scale[j] * ((x[r * n + j] - mean) * inverse) + shift[j];
    }
}

extern "C" int cuda_layer_norm_forward(cudaStream_t stream, const float *x, const float *scale,
                                       const float *shift, float *y, size_t rows, size_t n)
{
    return CUDA_LAUNCH(layer_norm_forward, cuda_row_blocks(rows), CUDA_THREADS, stream, x, scale,
                       shift, y, rows, n);
}

/* Each block keeps the sums over its rows, of dy times normalised x and of dy, in a row of `left`
 * of its own: 2 n numbers, which stay in the cache. Moves 12 bytes a number. dx: dy or NULL too. */
static __global__ void layer_norm_backward(const float *x, const float *scale, const float *dy,
                                           float *left, float *dx, size_t rows, size_t n,
                                           bool accumulate)
{
    float *products = left + blockIdx.x * 2 * n, *slopes = products + n;
    for (size_t r = blockIdx.x; r < rows; r += gridDim.x) {
        const float *own = x + r * n, *d = dy + r * n;
        float mean, inverse, sum = 0, product = 0;
        row_moments(own, n, &mean, &inverse);
        for (size_t j = threadIdx.x; j < n; j += CUDA_THREADS) {
            const float unit = (own[j] - mean) * inverse;
            sum += d[j] * scale[j];
            product += d[j] * scale[j] * unit;
            put(products, j, d[j] * unit, r != blockIdx.x);
            put(slopes, j, d[j], r != blockIdx.x);
        }
        const float by_one = block_sum(sum) / (float)n, by_x = block_sum(product) / (float)n;
        for (size_t j = threadIdx.x; j < n && dx; j += CUDA_THREADS) {
            const float unit = (own[j] - mean) * inverse;
            put(dx + r * n, j, inverse * (d[j] * scale[j] - by_one - unit * by_x), accumulate);
        }
    }
}

extern "C" int cuda_layer_norm_backward(cudaStream_t stream, const float *x, const float *scale,
                                        const float *dy, float *left, float *dx, size_t rows,
                                        size_t n, bool accumulate)
{
    return CUDA_LAUNCH(layer_norm_backward, cuda_layer_norm_parts(rows), CUDA_THREADS, stream, x,
                       scale, dy, left, dx, rows, n, accumulate);
}
