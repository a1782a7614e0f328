/* Tables read by ids, and the cell of an LSTM. */
#include "device.cuh"

/* ---- embedding ---- */

static __global__ void embedding(const int32_t *ids, const float *table, const float *positions,
                                 float *y, size_t rows, size_t columns, size_t time)
{
    walk w = walk_from(grid_thread(), grid_threads(), columns);
    for (; w.row < rows; walk_on(&w))
        y[w.row * columns + w.column] = table[(size_t)ids[w.row] * columns + w.column] +
                                        positions[w.row % time * columns + w.column];
}

extern "C" int cuda_embedding_forward(cudaStream_t stream, const int32_t *ids, const float *table,
                                      const float *positions, float *y, size_t rows, size_t columns,
                                      size_t time)
{
    return CUDA_LAUNCH(embedding, cuda_blocks(rows * columns), CUDA_THREADS, stream, ids, table,
                       positions, y, rows, columns, time);
}

/* Whether a row before this one has its id. All threads call. */
static __device__ inline bool id_before(const int32_t *ids, size_t row)
{
    float found = 0;
    for (size_t k = threadIdx.x; k < row; k += CUDA_THREADS)
        found = ids[k] == ids[row] ? 1 : found;
    return block_max(found) > 0;
}

/* Adds the rows of dy to the rows of a table by their ids, in the order of the rows and without
 * atomics: the block of the first row with an id takes all of them. */
static __global__ void add_by_id(const int32_t *ids, const float *dy, size_t rows, size_t columns,
                                 float *table)
{
    __shared__ bool same[CUDA_THREADS];
    const size_t pieces = (columns + CUDA_THREADS - 1) / CUDA_THREADS;
    for (size_t unit = blockIdx.x; unit < rows * pieces; unit += gridDim.x) {
        const size_t row = unit / pieces, column = unit % pieces * CUDA_THREADS + threadIdx.x;
        float sum = 0;
        if (id_before(ids, row))
            continue;
        for (size_t from = row; from < rows; from += CUDA_THREADS) {
            __syncthreads();
            same[threadIdx.x] = from + threadIdx.x < rows && ids[from + threadIdx.x] == ids[row];
            __syncthreads();
            for (size_t k = 0; k < CUDA_THREADS && column < columns; k++)
                if (same[k])
                    sum += dy[(from + k) * columns + column];
        }
        if (column < columns)
            table[(size_t)ids[row] * columns + column] += sum;
    }
}

extern "C" int cuda_add_by_id(cudaStream_t stream, const int32_t *ids, const float *dy, size_t rows,
                              size_t columns, float *table)
{
    const size_t pieces = (columns + CUDA_THREADS - 1) / CUDA_THREADS;
    return CUDA_LAUNCH(add_by_id, cuda_row_blocks(rows * pieces), CUDA_THREADS, stream, ids, dy,
                       rows, columns, table);
}

/* ---- LSTM: gates stand as input, forget, cell, output, each `width` wide ---- */

static __device__ inline float logistic(float x)
{
    return 1 / (1 + expf(-x));
}

/* gates: the product of the hidden state before, where there is one; with save the values of the
 * gates take its place. */
static __global__ void lstm_forward(cuda_cell c, const float *table, const float *bias,
                                    float *gates, float *y, bool save)
{
    const size_t w = c.width;
    walk at = walk_from(grid_thread(), grid_threads(), w);
    for (; at.row < c.batch; walk_on(&at)) {
        const float *row = table + (size_t)c.ids[at.row] * 4 * w;
        float *own = gates + at.row * 4 * w, *to = y + at.row * 2 * w, v[4];
        for (unsigned k = 0; k < 4; k++) {
            const size_t j = k * w + at.column;
            v[k] = row[j] + bias[j];
            v[k] = c.previous ? own[j] + v[k] : v[k];
            v[k] = k == 2 ? tanhf(v[k]) : logistic(v[k]);
            if (save)
                own[j] = v[k];
        }
        float state = v[0] * v[2];
        if (c.previous)
            state += v[1] * c.previous[at.row * 2 * w + w + at.column];
        to[w + at.column] = state;
        to[at.column] = v[3] * tanhf(state);
    }
}

extern "C" int cuda_lstm_forward(cudaStream_t stream, cuda_cell c, const float *table,
                                 const float *bias, float *gates, float *y, bool save)
{
    return CUDA_LAUNCH(lstm_forward, cuda_blocks(c.batch * c.width), CUDA_THREADS, stream, c, table,
                       bias, gates, y, save);
}

/* Slopes of the gates before their functions; share: rows of 2 width, whose second half gets the
 * slope of the cell state before, or NULL. */
static __global__ void lstm_slopes(cuda_cell c, const float *gates, const float *y, const float *dy,
                                   float *slopes, float *share)
{
    const size_t w = c.width;
    walk at = walk_from(grid_thread(), grid_threads(), w);
    for (; at.row < c.batch; walk_on(&at)) {
        const float *g = gates + at.row * 4 * w + at.column;
        const size_t hidden = at.row * 2 * w + at.column, cell = hidden + w;
        const float in = g[0], forget = g[w], value = g[2 * w], out = g[3 * w];
        const float shown = tanhf(y[cell]), dh = dy[hidden];
        const float slope = dy[cell] + dh * out * (1 - shown * shown);
        float *to = slopes + at.row * 4 * w + at.column;
        to[0] = slope * value * in * (1 - in);
        to[w] = c.previous ? slope * c.previous[cell] * forget * (1 - forget) : 0;
        to[2 * w] = slope * in * (1 - value * value);
        to[3 * w] = dh * shown * out * (1 - out);
        if (share)
            share[cell] = slope * forget;
    }
}

extern "C" int cuda_lstm_slopes(cudaStream_t stream, cuda_cell c, const float *gates,
                                const float *y, const float *dy, float *slopes, float *share)
{
    return CUDA_LAUNCH(lstm_slopes, cuda_blocks(c.batch * c.width), CUDA_THREADS, stream, c, gates,
                       y, dy, slopes, share);
}
