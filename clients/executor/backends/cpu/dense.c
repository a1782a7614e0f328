/* Linear layers, transposed convolutions, embeddings: products with tables. */
#include "cpu.h"

#include <string.h>

enum { ROWS = 64 }; /* of a shared gradient at a time */

/* ---- linear ---- */

typedef struct linear {
    size_t rows, in, out, stride, from; /* stride: from row to row of x */
    bool aside; /* the share of the gradient is computed aside, then added */
} linear;

static linear linear_of(const net_node *node)
{
    const net_tensor x = node->inputs[0];
    const size_t plane = (size_t)x.h * x.w;
    return (linear){.rows = x.n,
                    .in = x.c * plane,
                    .out = node->output.c,
                    .stride = x.of * plane,
                    .from = x.from * plane,
                    .aside = node->summed[0] || x.c != x.of};
}

static kernel_cost linear_cost(const net_node *node, uint32_t alternative)
{
    const linear l = linear_of(node);
    (void)alternative;
    size_t rows = l.rows < ROWS ? l.rows : ROWS;
    return (kernel_cost){.backward_workspace = l.aside ? rows * l.in * sizeof(float) : 0};
}

static int linear_forward(const kernel_call *call)
{
    const linear l = linear_of(call->node);
    const float *x = (const float *)call->inputs[0] + l.from;
    cpu_multiply((cpu_matrix){x, l.stride, false}, (cpu_matrix){call->weights[0], l.in, true},
                 l.rows, l.out, l.in, false, call->output, l.out);
    if (call->node->bias)
        for (size_t r = 0; r < l.rows; r++)
            cpu_add_to((float *)call->output + r * l.out, call->weights[1], l.out);
    return 0;
}

static void linear_share(const linear *l, const kernel_call *call)
{
    float *dx = call->input_gradients[0], *share = call->workspace;
    const cpu_matrix w = {call->weights[0], l->in, false};
    if (!l->aside) {
        cpu_multiply((cpu_matrix){call->gradient, l->out, false}, w, l->rows, l->in, l->out, false,
                     dx, l->in);
        return;
    }
    if (!call->accumulate[0])
        memset(dx, 0, l->rows * l->stride * sizeof *dx);
    for (size_t r = 0; r < l->rows; r += ROWS) {
        size_t rows = l->rows - r < ROWS ? l->rows - r : ROWS;
        cpu_multiply((cpu_matrix){call->gradient + r * l->out, l->out, false}, w, rows, l->in,
                     l->out, false, share, l->in);
        for (size_t i = 0; i < rows; i++)
            cpu_add_to(dx + (r + i) * l->stride + l->from, share + i * l->in, l->in);
    }
}

static int linear_backward(const kernel_call *call)
{
    const linear l = linear_of(call->node);
    const float *x = (const float *)call->inputs[0] + l.from;
    cpu_multiply((cpu_matrix){call->gradient, l.out, true}, (cpu_matrix){x, l.stride, false}, l.out,
                 l.in, l.rows, true, call->slopes[0], l.in);
    if (call->node->bias)
        for (size_t r = 0; r < l.rows; r++)
            cpu_add_to(call->slopes[1], call->gradient + r * l.out, l.out);
    if (call->input_gradients[0])
        linear_share(&l, call);
    return 0;
}

const kernel cpu_linear = {cpu_one_implementation, linear_cost, linear_forward, linear_backward};

/* ---- transposed convolution: the weights are [in][out][k][k] ---- */

typedef struct up_conv {
    cpu_windows windows; /* of the output, whose columns have the pixels of the input */
    size_t images, in, pixels, columns, image, plane;
    bool aside;
} up_conv;

static up_conv up_conv_of(const net_node *node)
{
    const net_tensor x = node->inputs[0], y = node->output;
    up_conv u = {.windows = {y.c, y.h, y.w, node->kernel, node->stride, 0, x.h, x.w},
                 .images = x.n,
                 .in = x.c,
                 .pixels = (size_t)x.h * x.w,
                 .columns = (size_t)y.c * node->kernel * node->kernel,
                 .plane = (size_t)y.h * y.w,
                 .aside = node->summed[0]};
    u.image = y.c * u.plane;
    return u;
}

static kernel_cost up_conv_cost(const net_node *node, uint32_t alternative)
{
    const up_conv u = up_conv_of(node);
    (void)alternative;
    uint64_t columns = u.columns * u.pixels * sizeof(float);
    return (kernel_cost){.forward_workspace = columns,
                         .save_workspace = columns,
                         .backward_workspace =
                             columns + (u.aside ? u.in * u.pixels * sizeof(float) : 0)};
}

static int up_conv_forward(const kernel_call *call)
{
    const up_conv u = up_conv_of(call->node);
    float *columns = call->workspace, *y = call->output;
    memset(y, 0, u.images * u.image * sizeof *y);
    for (size_t i = 0; i < u.images; i++) {
        const float *x = (const float *)call->inputs[0] + i * u.in * u.pixels;
        cpu_multiply((cpu_matrix){call->weights[0], u.columns, true},
                     (cpu_matrix){x, u.pixels, false}, u.columns, u.pixels, u.in, false, columns,
                     u.pixels);
        cpu_scatter(&u.windows, columns, 0, u.windows.out_h, u.pixels, y + i * u.image);
    }
    cpu_add_bias(y, call->weights[1], u.images, u.windows.c, u.plane);
    return 0;
}

static void up_conv_share(const up_conv *u, const kernel_call *call, size_t image,
                          const float *columns)
{
    float *dx = call->input_gradients[0] + image * u->in * u->pixels;
    float *share =
        u->aside && call->accumulate[0] ? (float *)call->workspace + u->columns * u->pixels : dx;
    cpu_multiply((cpu_matrix){call->weights[0], u->columns, false},
                 (cpu_matrix){columns, u->pixels, false}, u->in, u->pixels, u->columns, false,
                 share, u->pixels);
    if (share != dx)
        cpu_add_to(dx, share, u->in * u->pixels);
}

static int up_conv_backward(const kernel_call *call)
{
    const up_conv u = up_conv_of(call->node);
    float *columns = call->workspace;
    for (size_t i = 0; i < u.images; i++) {
        const float *x = (const float *)call->inputs[0] + i * u.in * u.pixels;
        cpu_gather(&u.windows, call->gradient + i * u.image, 0, u.windows.out_h, columns, u.pixels);
        cpu_multiply((cpu_matrix){x, u.pixels, false}, (cpu_matrix){columns, u.pixels, true}, u.in,
                     u.columns, u.pixels, true, call->slopes[0], u.columns);
        if (call->input_gradients[0])
            up_conv_share(&u, call, i, columns);
    }
    cpu_bias_gradient(call->gradient, call->slopes[1], u.images, u.windows.c, u.plane);
    return 0;
}

const kernel cpu_up_conv = {cpu_one_implementation, up_conv_cost, up_conv_forward,
                            up_conv_backward};

/* ---- embedding ---- */

static int embedding_forward(const kernel_call *call)
{
    const net_tensor y = call->node->output;
    const int32_t *ids = call->inputs[0];
    for (size_t r = 0; r < y.n; r++) {
        const float *row = call->weights[0] + (size_t)ids[r] * y.c;
        const float *position = call->weights[1] + r % call->node->time * y.c;
        for (size_t j = 0; j < y.c; j++)
            ((float *)call->output)[r * y.c + j] = row[j] + position[j];
    }
    return 0;
}

static int embedding_backward(const kernel_call *call)
{
    const net_tensor y = call->node->output;
    const int32_t *ids = call->inputs[0];
    for (size_t r = 0; r < y.n; r++) {
        cpu_add_to(call->slopes[0] + (size_t)ids[r] * y.c, call->gradient + r * y.c, y.c);
        cpu_add_to(call->slopes[1] + r % call->node->time * y.c, call->gradient + r * y.c, y.c);
    }
    return 0;
}

const kernel cpu_embedding = {cpu_one_implementation, cpu_no_cost, embedding_forward,
                              embedding_backward};
