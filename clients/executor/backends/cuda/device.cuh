/* What device code shares: places in a grid, numbers four at a time, sums of a block. Blocks have
 * CUDA_THREADS threads. */
#ifndef REMAT_EXECUTOR_CUDA_DEVICE_CUH
#define REMAT_EXECUTOR_CUDA_DEVICE_CUH

#include "kernels.h"
#include "launch.cuh"

enum {
    CUDA_THREADS = 256,
    CUDA_BLOCKS = 2048 /* enough for any device: threads go on to what lies a grid further */
};

/* Blocks for so many threads. */
static inline size_t cuda_blocks(size_t threads)
{
    size_t blocks = (threads + CUDA_THREADS - 1) / CUDA_THREADS;
    return blocks < CUDA_BLOCKS ? blocks : (size_t)CUDA_BLOCKS;
}

/* Blocks where each takes a row after the other. */
static inline size_t cuda_row_blocks(size_t rows)
{
    return rows < 2 * CUDA_BLOCKS ? rows : 2 * CUDA_BLOCKS;
}

static __device__ inline size_t grid_thread(void)
{
    return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ inline size_t grid_threads(void)
{
    return (size_t)gridDim.x * blockDim.x;
}

/* A place in rows of `width` numbers, moved on by the same distance each time: two divisions at
 * the start, none later. */
typedef struct walk {
    size_t row, column, rows_on, columns_on, width;
} walk;

static __device__ inline walk walk_from(size_t at, size_t step, size_t width)
{
    walk w;
    w.row = at / width;
    w.column = at % width;
    w.rows_on = step / width;
    w.columns_on = step % width;
    w.width = width;
    return w;
}

static __device__ inline void walk_on(walk *w)
{
    w->row += w->rows_on;
    w->column += w->columns_on;
    if (w->column >= w->width) {
        w->column -= w->width;
        w->row++;
    }
}

/* Quotients of numbers that mostly fit 32 bits, where division is several times as fast. */
static __device__ inline size_t divide(size_t a, unsigned b, unsigned *ret_rest)
{
    size_t quotient = a >> 32 ? a / b : (unsigned)a / b;
    *ret_rest = (unsigned)(a - quotient * b);
    return quotient;
}

/* One share of a gradient. The sum is rounded by itself: a fused multiply-add would let it depend
 * on which of two sharers comes first. */
static __device__ inline void put(float *to, size_t i, float share, bool accumulate)
{
    to[i] = accumulate ? __fadd_rn(to[i], share) : share;
}

/* ---- four at a time ---- */

/* Memory is fast enough only where threads move 16 bytes at a time. */
typedef struct alignas(16) four {
    float at[4];
} four;

/* For kernels written for either, where rows may not be multiples of four. */
typedef struct one {
    float at[1];
} one;

template <class unit> static __device__ inline void put_unit(unit *to, unit share, bool accumulate)
{
    if (accumulate)
        for (unsigned l = 0; l < sizeof(unit) / sizeof(float); l++)
            share.at[l] = __fadd_rn(to->at[l], share.at[l]);
    *to = share;
}

/* Numbers i .. i + 3 of n, 0 past the end; the first is at a multiple of 16 bytes. */
static __device__ inline four load_four(const float *x, size_t i, size_t n)
{
    if (i + 4 <= n)
        return *(const four *)(x + i);
    four v;
    for (unsigned l = 0; l < 4; l++)
        v.at[l] = i + l < n ? x[i + l] : 0;
    return v;
}

static __device__ inline void put_four(float *to, size_t i, size_t n, four share, bool accumulate)
{
    if (accumulate) {
        const four old = load_four(to, i, n);
        for (unsigned l = 0; l < 4; l++)
            share.at[l] = __fadd_rn(old.at[l], share.at[l]);
    }
    if (i + 4 <= n)
        *(four *)(to + i) = share;
    else
        for (unsigned l = 0; l < 4; l++)
            if (i + l < n)
                to[i + l] = share.at[l];
}

/* ---- sums of a block ---- */

/* Of the numbers of all threads, in one fixed order; every thread gets it. All threads call. */
static __device__ inline float block_sum(float x)
{
    __shared__ float all[CUDA_THREADS];
    __shared__ float some[16];
    float sum = 0;
    all[threadIdx.x] = x;
    __syncthreads();
    if (threadIdx.x < 16) {
        for (unsigned k = 0; k < CUDA_THREADS; k += 16)
            sum += all[threadIdx.x + k];
        some[threadIdx.x] = sum;
    }
    __syncthreads();
    sum = 0;
    for (unsigned k = 0; k < 16; k++)
        sum += some[k];
    return sum;
}

static __device__ inline double block_sum_double(double x)
{
    __shared__ double all[CUDA_THREADS];
    __shared__ double some[16];
    double sum = 0;
    all[threadIdx.x] = x;
    __syncthreads();
    if (threadIdx.x < 16) {
        for (unsigned k = 0; k < CUDA_THREADS; k += 16)
            sum += all[threadIdx.x + k];
        some[threadIdx.x] = sum;
    }
    __syncthreads();
    sum = 0;
    for (unsigned k = 0; k < 16; k++)
        sum += some[k];
    return sum;
}

static __device__ inline float block_max(float x)
{
    __shared__ float all[CUDA_THREADS];
    __shared__ float some[16];
    float most = x;
    all[threadIdx.x] = x;
    __syncthreads();
    if (threadIdx.x < 16) {
        for (unsigned k = 0; k < CUDA_THREADS; k += 16)
            most = fmaxf(most, all[threadIdx.x + k]);
        some[threadIdx.x] = most;
    }
    __syncthreads();
    for (unsigned k = 0; k < 16; k++)
        most = fmaxf(most, some[k]);
    return most;
}

#endif
