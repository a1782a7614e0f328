/* Rows of scores: probabilities and their slopes. A block for a row, whose later readings are from
 * the cache. */
#include "device.cuh"

/* Row r is at time r % time, and with `causal` sees what is not later. Moves 8 bytes a score. */
static __global__ void softmax(float *scores, size_t rows, size_t time, float scale, bool causal)
{
    for (size_t r = blockIdx.x; r < rows; r += gridDim.x) {
        float *row = scores + r * time;
        const size_t seen = causal ? r % time + 1 : time;
        float most = row[0] * scale, sum = 0;
        for (size_t j = threadIdx.x; j < seen; j += CUDA_THREADS)
            most = fmaxf(most, row[j] * scale);
        most = block_max(most);
        for (size_t j = threadIdx.x; j < seen; j += CUDA_THREADS) {
            row[j] = expf(row[j] * scale - most);
            sum += row[j];
        }
        sum = block_sum(sum);
        for (size_t j = threadIdx.x; j < time; j += CUDA_THREADS)
            row[j] = j < seen ? row[j] / sum : 0;
    }
}

extern "C" int cuda_softmax(cudaStream_t stream, float *scores, size_t rows, size_t time,
                            float scale, bool causal)
{
    return CUDA_LAUNCH(softmax, cuda_row_blocks(rows), CUDA_THREADS, stream, scores, rows, time,
                       scale, causal);
}

/* Slopes of the scores, in place of those of the probabilities. Moves 12 bytes a score. */
static __global__ void softmax_slopes(const float *probabilities, float *slopes, size_t rows,
                                      size_t time, float scale)
{
    for (size_t r = blockIdx.x; r < rows; r += gridDim.x) {
        const float *p = probabilities + r * time;
        float *slope = slopes + r * time, product = 0;
        for (size_t j = threadIdx.x; j < time; j += CUDA_THREADS)
            product += p[j] * slope[j];
        const float mean = block_sum(product);
        for (size_t j = threadIdx.x; j < time; j += CUDA_THREADS)
            slope[j] = p[j] * (slope[j] - mean) * scale;
    }
}

extern "C" int cuda_softmax_slopes(cudaStream_t stream, const float *probabilities, float *slopes,
                                   size_t rows, size_t time, float scale)
{
    return CUDA_LAUNCH(softmax_slopes, cuda_row_blocks(rows), CUDA_THREADS, stream, probabilities,
                       slopes, rows, time, scale);
}
