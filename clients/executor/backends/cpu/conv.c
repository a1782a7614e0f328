/* Convolution by products of matrices, the image laid out in columns: of an image at a time; of
 * some of its rows at a time, in less workspace; of the whole batch, in more, with larger
 * matrices. */
#include "cpu.h"

#include <string.h>

typedef enum method { BY_IMAGE, BY_ROWS, BY_BATCH, METHODS } method;

enum { STRIP = 128 }; /* pixels of the rows taken at a time, or a few more */

typedef struct geometry {
    cpu_windows windows;          /* of one group of channels */
    size_t images, groups, chunk; /* chunk: images at a time */
    size_t rows;                  /* of the output at a time */
    size_t in, out;      /* numbers of one image, of those channels that are read; written */
    size_t stride, from; /* of images in x, numbers; first number read */
    size_t inner, outer, pixels; /* the product of a group: outer x inner by inner x pixels */
    bool pointwise;              /* the image is its own columns */
    bool aside;                  /* the share of the gradient is computed aside, then added */
    bool copied;                 /* the image is read from a copy: its rows may be overwritten */
} geometry;

static bool is_pointwise(const net_node *node)
{
    return node->kernel == 1 && node->stride == 1 && node->padding == 0;
}

/* METHODS: there is no such alternative. */
static method method_of(const net_node *node, uint32_t alternative)
{
    const uint32_t pixels = node->output.h * node->output.w;
    const bool offered[METHODS] = {[BY_IMAGE] = true,
                                   [BY_ROWS] = !is_pointwise(node) && pixels >= 4 * STRIP,
                                   [BY_BATCH] = !is_pointwise(node) && node->groups == 1 &&
                                                node->output.n > 1 && pixels <= 4 * STRIP};
    uint32_t how = 0;
    while (how < METHODS && !(offered[how] && alternative-- == 0))
        how++;
    return (method)how;
}

static geometry geometry_of(const net_node *node, method how)
{
    const net_tensor x = node->inputs[0], y = node->output;
    const size_t plane = (size_t)x.h * x.w, k = node->kernel, groups = node->groups;
    geometry g = {.windows = {x.c / groups, x.h, x.w, k, node->stride, node->padding, y.h, y.w},
                  .images = x.n,
                  .groups = groups,
                  .chunk = how == BY_BATCH ? x.n : 1,
                  .rows = how == BY_ROWS ? (STRIP + y.w - 1) / y.w : y.h,
                  .in = x.c * plane,
                  .stride = x.of * plane,
                  .from = x.from * plane,
                  .inner = x.c / groups * k * k,
                  .outer = y.c / groups,
                  .pixels = (size_t)y.h * y.w,
                  .pointwise = is_pointwise(node),
                  .aside = node->summed[0] || x.c != x.of || (how == BY_ROWS && net_in_place(node)),
                  .copied = how == BY_ROWS && net_in_place(node)};
    g.out = y.c * g.pixels;
    return g;
}

static const char *implementation(const net_node *node, uint32_t alternative)
{
    static const char *const names[METHODS + 1] = {"im2col", "im2col-rows", "im2col-batch", NULL};
    return names[method_of(node, alternative)];
}

static kernel_cost cost(const net_node *node, uint32_t alternative)
{
    const method how = method_of(node, alternative);
    const geometry g = geometry_of(node, how);
    size_t width = g.chunk * g.rows * g.windows.out_w;
    size_t columns = g.pointwise ? 0 : g.inner * width;
    size_t outputs = how == BY_BATCH ? g.outer * width : 0;
    size_t share = g.aside ? g.in : 0;
    size_t forward = columns + outputs + (g.copied ? g.in : 0);
    return (kernel_cost){.forward_workspace = forward * sizeof(float),
                         .save_workspace = forward * sizeof(float),
                         .backward_workspace = (columns + outputs + share) * sizeof(float)};
}

/* ---- by products, image by image ---- */

/* A group's rows of the output of one image, and what goes with them. */
typedef struct strip {
    size_t image, group, row, rows;
    size_t width, at; /* pixels: how many, the first */
} strip;

static strip strip_of(const geometry *g, size_t image, size_t group, size_t row)
{
    size_t rows = g->windows.out_h - row < g->rows ? g->windows.out_h - row : g->rows;
    return (strip){.image = image,
                   .group = group,
                   .row = row,
                   .rows = rows,
                   .width = rows * g->windows.out_w,
                   .at = row * g->windows.out_w};
}

/* The columns of a strip of an image. */
static cpu_matrix gather(const geometry *g, const float *image, const strip *s, float *columns)
{
    const float *x = image + s->group * (g->in / g->groups);
    if (g->pointwise)
        return (cpu_matrix){x + s->at, g->pixels, false};
    cpu_gather(&g->windows, x, s->row, s->rows, columns, s->width);
    return (cpu_matrix){columns, s->width, false};
}

static const float *image_of(const geometry *g, const kernel_call *call, size_t image)
{
    return (const float *)call->inputs[0] + image * g->stride + g->from;
}

/* Behind the columns in the workspace. */
static float *room_aside(const geometry *g, const kernel_call *call)
{
    return (float *)call->workspace + (g->pointwise ? 0 : g->inner * g->rows * g->windows.out_w);
}

static void strip_forward(const geometry *g, const kernel_call *call, const strip *s,
                          const float *image)
{
    const float *w = call->weights[0] + s->group * g->outer * g->inner;
    float *y = (float *)call->output + s->image * g->out + s->group * g->outer * g->pixels + s->at;
    cpu_multiply((cpu_matrix){w, g->inner, false}, gather(g, image, s, call->workspace), g->outer,
                 s->width, g->inner, false, y, g->pixels);
}

static void by_image_forward(const geometry *g, const kernel_call *call)
{
    for (size_t image = 0; image < g->images; image++) {
        const float *x = image_of(g, call, image);
        if (g->copied)
            x = memcpy(room_aside(g, call), x, g->in * sizeof *x);
        for (size_t group = 0; group < g->groups; group++)
            for (size_t row = 0; row < g->windows.out_h; row += g->rows) {
                const strip s = strip_of(g, image, group, row);
                strip_forward(g, call, &s, x);
            }
    }
}

/* Where the share of one image's gradient is put together. */
static float *share_of(const geometry *g, const kernel_call *call, size_t image, float *aside)
{
    return g->aside ? aside : call->input_gradients[0] + image * g->in;
}

static void end_share(const geometry *g, const kernel_call *call, size_t image, const float *share)
{
    float *dx = call->input_gradients[0];
    if (!g->aside)
        return;
    if (!call->accumulate[0])
        memset(dx + image * g->stride, 0, g->stride * sizeof *dx);
    cpu_add_to(dx + image * g->stride + g->from, share, g->in);
}

/* share: of the image, or NULL; may lie where dy lies. The columns of the gradient take the place
 * of those of x. */
static void strip_backward(const geometry *g, const kernel_call *call, const strip *s, float *share)
{
    const size_t weights = s->group * g->outer * g->inner, part = g->in / g->groups;
    const float *w = call->weights[0] + weights;
    const float *slope = call->gradient + s->image * g->out + s->group * g->outer * g->pixels;
    const cpu_matrix dy = {slope + s->at, g->pixels, false};
    float *columns = call->workspace;
    cpu_matrix x = gather(g, image_of(g, call, s->image), s, columns);
    x.transposed = true;
    cpu_multiply(dy, x, g->outer, g->inner, s->width, true, call->slopes[0] + weights, g->inner);
    if (!share)
        return;
    float *to = share + s->group * part;
    cpu_multiply((cpu_matrix){w, g->inner, true}, dy, g->inner, s->width, g->outer, false,
                 g->pointwise ? to + s->at : columns, g->pointwise ? g->pixels : s->width);
    if (g->pointwise)
        return;
    if (s->row == 0)
        memset(to, 0, part * sizeof *to);
    cpu_scatter(&g->windows, columns, s->row, s->rows, s->width, to);
}

static void by_image_backward(const geometry *g, const kernel_call *call)
{
    for (size_t image = 0; image < g->images; image++) {
        float *share = NULL;
        if (call->input_gradients[0])
            share = share_of(g, call, image, room_aside(g, call));
        for (size_t group = 0; group < g->groups; group++)
            for (size_t row = 0; row < g->windows.out_h; row += g->rows) {
                const strip s = strip_of(g, image, group, row);
                strip_backward(g, call, &s, share);
            }
        if (share)
            end_share(g, call, image, share);
    }
}

/* ---- by products, the whole batch at once: there is one group ---- */

static float *gather_batch(const geometry *g, const kernel_call *call)
{
    float *columns = call->workspace;
    for (size_t i = 0; i < g->images; i++)
        cpu_gather(&g->windows, image_of(g, call, i), 0, g->windows.out_h, columns + i * g->pixels,
                   g->images * g->pixels);
    return columns;
}

static void by_batch_forward(const geometry *g, const kernel_call *call)
{
    const size_t width = g->images * g->pixels;
    float *columns = gather_batch(g, call), *outputs = columns + g->inner * width;
    cpu_multiply((cpu_matrix){call->weights[0], g->inner, false},
                 (cpu_matrix){columns, width, false}, g->outer, width, g->inner, false, outputs,
                 width);
    for (size_t i = 0; i < g->images; i++)
        for (size_t m = 0; m < g->outer; m++)
            memcpy((float *)call->output + i * g->out + m * g->pixels,
                   outputs + (m * g->images + i) * g->pixels, g->pixels * sizeof(float));
}

static void by_batch_backward(const geometry *g, const kernel_call *call)
{
    const size_t width = g->images * g->pixels;
    float *columns = gather_batch(g, call), *dy = columns + g->inner * width;
    float *aside = dy + g->outer * width;
    for (size_t i = 0; i < g->images; i++)
        for (size_t m = 0; m < g->outer; m++)
            memcpy(dy + (m * g->images + i) * g->pixels,
                   call->gradient + i * g->out + m * g->pixels, g->pixels * sizeof *dy);
    cpu_multiply((cpu_matrix){dy, width, false}, (cpu_matrix){columns, width, true}, g->outer,
                 g->inner, width, true, call->slopes[0], g->inner);
    if (!call->input_gradients[0])
        return;
    cpu_multiply((cpu_matrix){call->weights[0], g->inner, true}, (cpu_matrix){dy, width, false},
                 g->inner, width, g->outer, false, columns, width);
    for (size_t i = 0; i < g->images; i++) {
        float *share = share_of(g, call, i, aside);
        memset(share, 0, g->in * sizeof *share);
        cpu_scatter(&g->windows, columns + i * g->pixels, 0, g->windows.out_h, width, share);
        end_share(g, call, i, share);
    }
}

/* ---- the kernel ---- */

static int forward(const kernel_call *call)
{
    const method how = method_of(call->node, call->alternative);
    const geometry g = geometry_of(call->node, how);
    if (how == BY_BATCH)
        by_batch_forward(&g, call);
    else
        by_image_forward(&g, call);
    if (call->node->bias)
        cpu_add_bias(call->output, call->weights[1], g.images, g.groups * g.outer, g.pixels);
    return 0;
}

static int backward(const kernel_call *call)
{
    const method how = method_of(call->node, call->alternative);
    const geometry g = geometry_of(call->node, how);
    if (call->node->bias) /* first: dx may lie where dy lies */
        cpu_bias_gradient(call->gradient, call->slopes[1], g.images, g.groups * g.outer, g.pixels);
    if (how == BY_BATCH)
        by_batch_backward(&g, call);
    else
        by_image_backward(&g, call);
    return 0;
}

const kernel cpu_conv = {implementation, cost, forward, backward};
