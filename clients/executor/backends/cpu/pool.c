/* Largest numbers and means of windows. */
#include "cpu.h"

#include <string.h>

/* Planes of images and windows in them. */
typedef struct pool {
    cpu_windows windows;
    size_t planes, in, out;
    bool aside; /* the share of the gradient is computed aside, then added */
} pool;

static pool pool_of(const net_node *node)
{
    const net_tensor x = node->inputs[0], y = node->output;
    return (pool){.windows = {1, x.h, x.w, node->kernel, node->stride, node->padding, y.h, y.w},
                  .planes = (size_t)x.n * x.c,
                  .in = (size_t)x.h * x.w,
                  .out = (size_t)y.h * y.w,
                  .aside = node->summed[0]};
}

static kernel_cost cost(const net_node *node, uint32_t alternative)
{
    const pool p = pool_of(node);
    (void)alternative;
    return (kernel_cost){.backward_workspace = p.aside ? p.in * sizeof(float) : 0};
}

/* The part of a window within the image. */
typedef struct frame {
    size_t top, bottom, left, right;
} frame;

static frame frame_of(const cpu_windows *g, size_t y, size_t x)
{
    size_t top = y * g->stride, left = x * g->stride;
    size_t bottom = top + g->kernel - g->padding, right = left + g->kernel - g->padding;
    return (frame){.top = top > g->padding ? top - g->padding : 0,
                   .bottom = bottom < g->h ? bottom : g->h,
                   .left = left > g->padding ? left - g->padding : 0,
                   .right = right < g->w ? right : g->w};
}

/* Puts the share of every plane together, by windows. saved: of the plane, or NULL. */
static void each_share(const pool *p, const kernel_call *call,
                       void (*add)(const pool *p, const uint8_t *saved, const float *dy,
                                   float *share))
{
    float *dx = call->input_gradients[0];
    for (size_t i = 0; i < p->planes && dx; i++) {
        float *to = dx + i * p->in;
        float *share = p->aside && call->accumulate[0] ? call->workspace : to;
        const uint8_t *saved = call->saved ? (const uint8_t *)call->saved + i * p->out : NULL;
        memset(share, 0, p->in * sizeof *share);
        add(p, saved, call->gradient + i * p->out, share);
        if (share != to)
            cpu_add_to(to, share, p->in);
    }
}

/* ---- largest: what is saved is its place in the window, a byte ---- */

static kernel_cost max_cost(const net_node *node, uint32_t alternative)
{
    const pool p = pool_of(node);
    kernel_cost max = cost(node, alternative);
    max.saved = p.planes * p.out;
    return max;
}

/* Where the first largest number of a window is. */
static size_t largest(const cpu_windows *g, const float *x, size_t row, size_t column)
{
    const frame f = frame_of(g, row, column);
    size_t best = f.top * g->w + f.left;
    for (size_t i = f.top; i < f.bottom; i++)
        for (size_t j = f.left; j < f.right; j++)
            if (x[i * g->w + j] > x[best])
                best = i * g->w + j;
    return best;
}

/* Between a number's place in its window and in the plane. */
static size_t plane_place(const cpu_windows *g, size_t row, size_t column, uint8_t place)
{
    return (row * g->stride + place / g->kernel - g->padding) * g->w + column * g->stride +
           place % g->kernel - g->padding;
}

static uint8_t window_place(const cpu_windows *g, size_t row, size_t column, size_t at)
{
    size_t y = at / g->w + g->padding - row * g->stride;
    return (uint8_t)(y * g->kernel + at % g->w + g->padding - column * g->stride);
}

static int max_forward(const kernel_call *call)
{
    const pool p = pool_of(call->node);
    const cpu_windows *g = &p.windows;
    float *y = call->output;
    uint8_t *saved = call->saved;
    for (size_t i = 0; i < p.planes; i++) {
        const float *x = (const float *)call->inputs[0] + i * p.in;
        for (size_t row = 0; row < g->out_h; row++)
            for (size_t column = 0; column < g->out_w; column++) {
                size_t at = largest(g, x, row, column);
                *y++ = x[at];
                if (call->save)
                    *saved++ = window_place(g, row, column, at);
            }
    }
    return 0;
}

static void max_add(const pool *p, const uint8_t *saved, const float *dy, float *share)
{
    const cpu_windows *g = &p->windows;
    for (size_t row = 0; row < g->out_h; row++)
        for (size_t column = 0; column < g->out_w; column++)
            share[plane_place(g, row, column, *saved++)] += *dy++;
}

static int max_backward(const kernel_call *call)
{
    const pool p = pool_of(call->node);
    each_share(&p, call, max_add);
    return 0;
}

const kernel cpu_max_pool = {cpu_one_implementation, max_cost, max_forward, max_backward};

/* ---- means: no window leaves the image ---- */

static int average_forward(const kernel_call *call)
{
    const pool p = pool_of(call->node);
    const cpu_windows *g = &p.windows;
    const float scale = 1 / ((float)g->kernel * (float)g->kernel);
    float *y = call->output;
    for (size_t i = 0; i < p.planes; i++)
        for (size_t row = 0; row < g->out_h; row++)
            for (size_t column = 0; column < g->out_w; column++) {
                const frame f = frame_of(g, row, column);
                float sum = 0;
                for (size_t k = f.top; k < f.bottom; k++)
                    sum += cpu_sum((const float *)call->inputs[0] + i * p.in + k * g->w + f.left,
                                   g->kernel);
                *y++ = sum * scale;
            }
    return 0;
}

static void average_add(const pool *p, const uint8_t *saved, const float *dy, float *share)
{
    (void)saved;
    const cpu_windows *g = &p->windows;
    const float scale = 1 / ((float)g->kernel * (float)g->kernel);
    for (size_t row = 0; row < g->out_h; row++)
        for (size_t column = 0; column < g->out_w; column++) {
            const frame f = frame_of(g, row, column);
            for (size_t i = f.top; i < f.bottom; i++)
                for (size_t j = f.left; j < f.right; j++)
                    share[i * g->w + j] += dy[row * g->out_w + column] * scale;
        }
}

static int average_backward(const kernel_call *call)
{
    const pool p = pool_of(call->node);
    each_share(&p, call, average_add);
    return 0;
}

const kernel cpu_average_pool = {cpu_one_implementation, cost, average_forward, average_backward};
