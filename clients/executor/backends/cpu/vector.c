/* Sums over rows of numbers, windows of images, what kernels without choices say of themselves. */
#include "cpu.h"

#include <math.h>
#include <string.h>

enum { LANES = 16 };

static float fold(const float lanes[LANES])
{
    float sum = 0;
    for (int l = 0; l < LANES; l++)
        sum += lanes[l];
    return sum;
}

float cpu_sum(const float *x, size_t n)
{
    float lanes[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lanes[l] += x[i + l];
    for (size_t l = 0; i + l < n; l++)
        lanes[l] += x[i + l];
    return fold(lanes);
}

float cpu_dot(const float *x, const float *y, size_t n)
{
    float lanes[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lanes[l] += x[i + l] * y[i + l];
    for (size_t l = 0; i + l < n; l++)
        lanes[l] += x[i + l] * y[i + l];
    return fold(lanes);
}

float cpu_square_distance(const float *x, float from, size_t n)
{
    float lanes[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lanes[l] += (x[i + l] - from) * (x[i + l] - from);
    for (size_t l = 0; i + l < n; l++)
        lanes[l] += (x[i + l] - from) * (x[i + l] - from);
    return fold(lanes);
}

void cpu_add_to(float *to, const float *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] += from[i];
}

double cpu_softmax(float *x, size_t n)
{
    float largest = x[0];
    for (size_t i = 1; i < n; i++)
        largest = x[i] > largest ? x[i] : largest;
    for (size_t i = 0; i < n; i++)
        x[i] = expf(x[i] - largest);
    float sum = cpu_sum(x, n);
    for (size_t i = 0; i < n; i++)
        x[i] /= sum;
    return log((double)sum) + (double)largest;
}

/* ---- windows ---- */

/* The outputs ret_from .. ret_to - 1 of a row have their kx-th column within the image. */
static void find_inside(const cpu_windows *g, size_t kx, size_t *ret_from, size_t *ret_to)
{
    size_t from = kx < g->padding ? (g->padding - kx + g->stride - 1) / g->stride : 0;
    size_t end = g->w + g->padding > kx ? (g->w + g->padding - kx - 1) / g->stride + 1 : 0;
    *ret_to = end < g->out_w ? end : g->out_w;
    *ret_from = from < *ret_to ? from : *ret_to;
}

static void gather_row(const cpu_windows *g, const float *row, size_t kx, float *to)
{
    size_t from, end;
    find_inside(g, kx, &from, &end);
    memset(to, 0, g->out_w * sizeof *to);
    if (g->stride == 1 && end > from)
        memcpy(to + from, row + from + kx - g->padding, (end - from) * sizeof *to);
    else
        for (size_t x = from; x < end; x++)
            to[x] = row[x * g->stride + kx - g->padding];
}

/* Whether row y of the output sees, at ky, a row of the image: which. */
static bool row_of(const cpu_windows *g, size_t y, size_t ky, size_t *ret_row)
{
    size_t at = y * g->stride + ky;
    *ret_row = at - g->padding;
    return at >= g->padding && at - g->padding < g->h;
}

void cpu_gather(const cpu_windows *g, const float *image, size_t row, size_t rows, float *columns,
                size_t stride)
{
    size_t from;
    for (size_t c = 0; c < g->c; c++, image += g->h * g->w)
        for (size_t ky = 0; ky < g->kernel; ky++)
            for (size_t kx = 0; kx < g->kernel; kx++, columns += stride)
                for (size_t y = 0; y < rows; y++) {
                    float *to = columns + y * g->out_w;
                    if (row_of(g, row + y, ky, &from))
                        gather_row(g, image + from * g->w, kx, to);
                    else
                        memset(to, 0, g->out_w * sizeof *to);
                }
}

void cpu_scatter(const cpu_windows *g, const float *columns, size_t row, size_t rows, size_t stride,
                 float *image)
{
    size_t from, end, at;
    for (size_t c = 0; c < g->c; c++, image += g->h * g->w)
        for (size_t ky = 0; ky < g->kernel; ky++)
            for (size_t kx = 0; kx < g->kernel; kx++, columns += stride) {
                find_inside(g, kx, &from, &end);
                for (size_t y = 0; y < rows; y++)
                    if (row_of(g, row + y, ky, &at))
                        for (size_t x = from; x < end; x++)
                            image[at * g->w + x * g->stride + kx - g->padding] +=
                                columns[y * g->out_w + x];
            }
}

/* ---- biases ---- */

void cpu_add_bias(float *y, const float *bias, size_t images, size_t channels, size_t pixels)
{
    for (size_t i = 0; i < images * channels; i++)
        for (size_t p = 0; p < pixels; p++)
            y[i * pixels + p] += bias[i % channels];
}

void cpu_bias_gradient(const float *dy, float *slope, size_t images, size_t channels, size_t pixels)
{
    for (size_t i = 0; i < images * channels; i++)
        slope[i % channels] += cpu_sum(dy + i * pixels, pixels);
}

/* ---- kernels without choices ---- */

const char *cpu_one_implementation(const net_node *node, uint32_t alternative)
{
    (void)node;
    return alternative == 0 ? "plain" : NULL;
}

kernel_cost cpu_no_cost(const net_node *node, uint32_t alternative)
{
    (void)node;
    (void)alternative;
    return (kernel_cost){0};
}
