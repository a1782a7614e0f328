/* Largest numbers and means of windows. Backwards gather: a thread for each number of the input
 * adds the windows that see it, in their order. */
#include "device.cuh"

/* The part of a window within the image. */
typedef struct frame {
    unsigned top, bottom, left, right;
} frame;

static __device__ inline unsigned bound(unsigned at, unsigned padding, unsigned size)
{
    const unsigned inside = at > padding ? at - padding : 0;
    return inside < size ? inside : size;
}

static __device__ inline frame frame_of(cuda_windows g, unsigned row, unsigned column)
{
    frame f;
    f.top = bound(row * g.stride, g.padding, g.h);
    f.bottom = bound(row * g.stride + g.kernel, g.padding, g.h);
    f.left = bound(column * g.stride, g.padding, g.w);
    f.right = bound(column * g.stride + g.kernel, g.padding, g.w);
    return f;
}

/* From the number of an output or input to its plane, row and column. */
static __device__ inline size_t locate(size_t i, unsigned h, unsigned w, unsigned *ret_row,
                                       unsigned *ret_column)
{
    return divide(divide(i, w, ret_column), h, ret_row);
}

/* ---- largest: what is saved is its place in the window, a byte ---- */

static __global__ void max_pool_forward(const float *x, float *y, uint8_t *places, cuda_windows g)
{
    const size_t n = g.planes * g.out_h * g.out_w;
    for (size_t i = grid_thread(); i < n; i += grid_threads()) {
        unsigned row, column;
        const size_t plane = locate(i, g.out_h, g.out_w, &row, &column);
        const float *image = x + plane * g.h * g.w;
        const frame f = frame_of(g, row, column);
        unsigned at_row = f.top, at_column = f.left;
        float most = image[(size_t)f.top * g.w + f.left];
        for (unsigned k = f.top; k < f.bottom; k++)
            for (unsigned l = f.left; l < f.right; l++)
                if (image[(size_t)k * g.w + l] > most) {
                    most = image[(size_t)k * g.w + l];
                    at_row = k;
                    at_column = l;
                }
        y[i] = most;
        if (places)
            places[i] = (uint8_t)((at_row + g.padding - row * g.stride) * g.kernel + at_column +
                                  g.padding - column * g.stride);
    }
}

extern "C" int cuda_max_pool_forward(cudaStream_t stream, const float *x, float *y, uint8_t *places,
                                     cuda_windows g)
{
    return CUDA_LAUNCH(max_pool_forward, cuda_blocks(g.planes * g.out_h * g.out_w), CUDA_THREADS,
                       stream, x, y, places, g);
}

/* Windows from .. end - 1 of one direction see the number `at`. */
static __device__ inline unsigned first_window(cuda_windows g, unsigned at)
{
    const unsigned reach = at + g.padding;
    return reach < g.kernel ? 0 : (reach - g.kernel) / g.stride + 1;
}

static __device__ inline unsigned end_window(cuda_windows g, unsigned at, unsigned windows)
{
    const unsigned end = (at + g.padding) / g.stride + 1;
    return end < windows ? end : windows;
}

/* The share of a number from the windows that see it: with places, from those it was largest in. */
static __device__ inline float share_of(cuda_windows g, const float *dy, const uint8_t *places,
                                        unsigned row, unsigned column)
{
    const unsigned bottom = end_window(g, row, g.out_h), right = end_window(g, column, g.out_w);
    float share = 0;
    for (unsigned k = first_window(g, row); k < bottom; k++)
        for (unsigned l = first_window(g, column); l < right; l++) {
            const unsigned place =
                (row + g.padding - k * g.stride) * g.kernel + column + g.padding - l * g.stride;
            if (!places || places[(size_t)k * g.out_w + l] == place)
                share += dy[(size_t)k * g.out_w + l];
        }
    return share;
}

/* places: NULL for means. */
static __global__ void pool_backward(const float *dy, const uint8_t *places, float *dx,
                                     cuda_windows g, float scale, bool accumulate)
{
    const size_t n = g.planes * g.h * g.w, out = (size_t)g.out_h * g.out_w;
    for (size_t i = grid_thread(); i < n; i += grid_threads()) {
        unsigned row, column;
        const size_t plane = locate(i, g.h, g.w, &row, &column);
        const uint8_t *own = places ? places + plane * out : nullptr;
        put(dx, i, share_of(g, dy + plane * out, own, row, column) * scale, accumulate);
    }
}

extern "C" int cuda_pool_backward(cudaStream_t stream, const float *dy, const uint8_t *places,
                                  float *dx, cuda_windows g, float scale, bool accumulate)
{
    return CUDA_LAUNCH(pool_backward, cuda_blocks(g.planes * g.h * g.w), CUDA_THREADS, stream, dy,
                       places, dx, g, scale, accumulate);
}

/* ---- means ---- */

static __global__ void average_pool_forward(const float *x, float *y, cuda_windows g, float scale)
{
    const size_t n = g.planes * g.out_h * g.out_w;
    for (size_t i = grid_thread(); i < n; i += grid_threads()) {
        unsigned row, column;
        const size_t plane = locate(i, g.out_h, g.out_w, &row, &column);
        const frame f = frame_of(g, row, column);
        float sum = 0;
        for (unsigned k = f.top; k < f.bottom; k++)
            for (unsigned l = f.left; l < f.right; l++)
                sum += x[(plane * g.h + k) * g.w + l];
        y[i] = sum * scale;
    }
}

extern "C" int cuda_average_pool_forward(cudaStream_t stream, const float *x, float *y,
                                         cuda_windows g, float scale)
{
    return CUDA_LAUNCH(average_pool_forward, cuda_blocks(g.planes * g.out_h * g.out_w),
                       CUDA_THREADS, stream, x, y, g, scale);
}
