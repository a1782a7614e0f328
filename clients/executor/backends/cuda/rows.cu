/* Rows of numbers: biases, sums of columns, parts of rows joined and split. */
#include "device.cuh"

/* ---- biases ---- */

/* Moves 8 bytes a number. */
static __global__ void add_bias(float *y, const float *bias, size_t rows, size_t columns)
{
    const size_t n = rows * columns;
    walk w = walk_from(4 * grid_thread(), 4 * grid_threads(), columns);
    for (size_t i = 4 * grid_thread(); i < n; i += 4 * grid_threads(), walk_on(&w)) {
        four v = load_four(y, i, n);
        size_t column = w.column;
        for (unsigned l = 0; l < 4; l++) {
            v.at[l] += bias[column];
            column = column + 1 < columns ? column + 1 : 0;
        }
        put_four(y, i, n, v, false);
    }
}

extern "C" int cuda_add_bias(cudaStream_t stream, float *y, const float *bias, size_t rows,
                             size_t columns)
{
    return CUDA_LAUNCH(add_bias, cuda_blocks((rows * columns + 3) / 4), CUDA_THREADS, stream, y,
                       bias, rows, columns);
}

/* ---- sums of columns ---- */

enum { TILE = 32, LINES = CUDA_THREADS / TILE }; /* columns of a block, rows it takes at a time */

/* Each block sums a chunk of rows of a tile of columns. */
static __global__ void column_sums(const float *x, size_t stride, size_t rows, size_t columns,
                                   size_t chunk, float *to, bool accumulate)
{
    __shared__ float sums[CUDA_THREADS];
    const size_t tiles = (columns + TILE - 1) / TILE, part = blockIdx.x / tiles;
    const size_t column = blockIdx.x % tiles * TILE + threadIdx.x % TILE;
    const size_t end = (part + 1) * chunk < rows ? (part + 1) * chunk : rows;
    float sum = 0;
    for (size_t r = part * chunk + threadIdx.x / TILE; r < end && column < columns; r += LINES)
        sum += x[r * stride + column];
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x >= TILE || column >= columns)
        return;
    for (unsigned line = 1; line < LINES; line++)
        sum += sums[line * TILE + threadIdx.x];
    put(to + part * columns, column, sum, accumulate);
}

/* A few hundred blocks in all, each with rows enough. */
static size_t column_chunks(size_t rows, size_t columns)
{
    const size_t tiles = (columns + TILE - 1) / TILE;
    size_t chunks = (rows + 63) / 64, most = tiles < 512 ? 1024 / tiles : 1;
    most = most < 256 ? most : 256;
    return chunks < most ? chunks : most;
}

extern "C" size_t cuda_column_sums_room(size_t rows, size_t columns)
{
    const size_t chunks = column_chunks(rows, columns);
    return chunks > 1 ? chunks * columns : 0;
}

extern "C" int cuda_column_sums(cudaStream_t stream, const float *x, size_t stride, size_t rows,
                                size_t columns, float *room, float *to)
{
    const size_t tiles = (columns + TILE - 1) / TILE, chunks = column_chunks(rows, columns);
    const size_t chunk = (rows + chunks - 1) / chunks;
    if (chunks == 1)
        return CUDA_LAUNCH(column_sums, tiles, CUDA_THREADS, stream, x, stride, rows, columns, rows,
                           to, true);
    int code = CUDA_LAUNCH(column_sums, tiles * chunks, CUDA_THREADS, stream, x, stride, rows,
                           columns, chunk, room, false);
    return code ? code
                : CUDA_LAUNCH(column_sums, tiles, CUDA_THREADS, stream, room, columns, chunks,
                              columns, chunks, to, true);
}

/* ---- parts of rows ---- */

/* Blocks take turns among the parts. Numbers of a part are units. Moves 8 bytes a number. */
template <class unit>
static __global__ void join(cuda_parts parts, unit *y, size_t stride, size_t rows)
{
    const cuda_part p = parts.part[blockIdx.x % parts.n];
    const unit *x = (const unit *)p.x;
    const size_t first = blockIdx.x / parts.n * CUDA_THREADS + threadIdx.x;
    walk w = walk_from(first, gridDim.x / parts.n * CUDA_THREADS, p.count);
    for (; w.row < rows; walk_on(&w))
        y[w.row * stride + p.at + w.column] = x[w.row * p.stride + p.from + w.column];
}

/* Where nothing is added to, the rest of the part's rows becomes 0. */
template <class unit>
static __global__ void split(cuda_parts parts, const unit *y, size_t stride, size_t rows)
{
    const cuda_part p = parts.part[blockIdx.x % parts.n];
    unit *x = (unit *)p.x;
    const size_t first = blockIdx.x / parts.n * CUDA_THREADS + threadIdx.x;
    const size_t skipped = p.accumulate ? p.from : 0, width = p.accumulate ? p.count : p.stride;
    walk w = walk_from(first, gridDim.x / parts.n * CUDA_THREADS, width);
    for (; w.row < rows; walk_on(&w)) {
        const size_t column = w.column + skipped;
        unit share = {{0}};
        if (column >= p.from && column - p.from < p.count)
            share = y[w.row * stride + p.at + column - p.from];
        put_unit(x + w.row * p.stride + column, share, p.accumulate);
    }
}

/* Whether all rows and parts are multiples of four; if so, counted in fours. */
static bool in_fours(cuda_parts *parts, size_t *stride)
{
    size_t all = *stride;
    for (uint32_t k = 0; k < parts->n; k++) {
        const cuda_part *p = &parts->part[k];
        all |= p->stride | p->from | p->count | p->at;
    }
    if (all % 4 != 0)
        return false;
    for (uint32_t k = 0; k < parts->n; k++) {
        cuda_part *p = &parts->part[k];
        p->stride /= 4;
        p->from /= 4;
        p->count /= 4;
        p->at /= 4;
    }
    *stride /= 4;
    return true;
}

/* Enough for the widest part. */
static size_t part_blocks(const cuda_parts *parts, size_t rows, bool whole)
{
    size_t most = 1;
    for (uint32_t k = 0; k < parts->n; k++) {
        const size_t width = whole ? parts->part[k].stride : parts->part[k].count;
        most = width > most ? width : most;
    }
    return cuda_blocks(most * rows) * parts->n;
}

extern "C" int cuda_join(cudaStream_t stream, const cuda_parts *parts, float *y, size_t stride,
                         size_t rows)
{
    cuda_parts own = *parts;
    const bool fours = in_fours(&own, &stride);
    const size_t blocks = part_blocks(&own, rows, false);
    return fours
               ? CUDA_LAUNCH(join<four>, blocks, CUDA_THREADS, stream, own, (four *)y, stride, rows)
               : CUDA_LAUNCH(join<one>, blocks, CUDA_THREADS, stream, own, (one *)y, stride, rows);
}

extern "C" int cuda_split(cudaStream_t stream, const cuda_parts *parts, const float *y,
                          size_t stride, size_t rows)
{
    cuda_parts own = *parts;
    const bool fours = in_fours(&own, &stride);
    const size_t blocks = part_blocks(&own, rows, true);
    return fours ? CUDA_LAUNCH(split<four>, blocks, CUDA_THREADS, stream, own, (const four *)y,
                               stride, rows)
                 : CUDA_LAUNCH(split<one>, blocks, CUDA_THREADS, stream, own, (const one *)y,
                               stride, rows);
}

extern "C" int cuda_put_share(cudaStream_t stream, float *dx, size_t stride, size_t from,
                              const float *share, size_t count, size_t rows, bool accumulate)
{
    const cuda_parts parts = {1, {{dx, stride, from, count, 0, accumulate}}};
    return cuda_split(stream, &parts, share, count, rows);
}
