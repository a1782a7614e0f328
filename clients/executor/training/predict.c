/* What the nodes of a network will take on a CPU, from shapes and what was measured of the kernels'
 * classes: each kernel of backends/cpu is the sum of the loops it runs, which are products of
 * matrices, passes over memory and functions number by number. */
#include "training.h"

/* Seconds of loops on a device. */
typedef struct timing {
    const remat_device *device;
    bool backward;
    double seconds;
} timing;

enum { NUMBER = sizeof(float) };

static void passes(timing *c, remat_kernel_class kind, double times, double bytes)
{
    const remat_kernel loop = {.kind = kind, .backward = c->backward, .bytes = bytes};
    if (bytes > 0)
        c->seconds += times * remat_kernel_seconds(c->device, &loop);
}

/* Loops that the backward runs as the forward does. */
static void plain(timing *c, remat_kernel_class kind, double times, double bytes)
{
    const remat_kernel loop = {.kind = kind, .bytes = bytes};
    c->seconds += times * remat_kernel_seconds(c->device, &loop);
}

/* m x k by k x n; kind: REMAT_MATRIX, or REMAT_CONVOLUTION for those of images. The left matrix is
 * packed for each product, which is what a product with few columns takes. */
static void product(timing *c, remat_kernel_class kind, double times, double m, double n, double k)
{
    const remat_kernel loop = {
        .kind = kind, .flops = 2 * m * n * k, .bytes = NUMBER * (m * n + m * k + n * k)};
    if (loop.flops == 0)
        return;
    c->seconds += times * remat_kernel_seconds(c->device, &loop);
    plain(c, REMAT_GATHER, times, 2 * NUMBER * m * k);
}

static double numbers(net_tensor x)
{
    return (double)net_numbers(x);
}

static bool has_gradient(const net_node *node)
{
    return !(node->inputs[0].value & NET_INPUT);
}

/* ---- kinds ---- */

/* Image by image: columns, product; backward both products and the columns' way back. */
static void conv(timing *c, const net_node *node)
{
    const net_tensor x = node->inputs[0], y = node->output;
    const double calls = (double)x.n * node->groups, outer = (double)y.c / node->groups;
    const double inner = (double)x.c / node->groups * node->kernel * node->kernel;
    const double pixels = (double)y.h * y.w, columns = NUMBER * inner * pixels;
    const bool gathers = node->kernel > 1 || node->stride > 1;
    if (gathers)
        plain(c, REMAT_GATHER, calls, 2 * columns);
    product(c, REMAT_CONVOLUTION, calls, outer, pixels, inner);
    if (!c->backward || !has_gradient(node))
        return;
    product(c, REMAT_CONVOLUTION, calls, inner, pixels, outer);
    if (gathers)
        passes(c, REMAT_GATHER, calls, 3 * columns);
    if (node->summed[0])
        passes(c, REMAT_POINTWISE, x.n, 3 * NUMBER * numbers(x) / x.n);
}

static void up_conv(timing *c, const net_node *node)
{
    const net_tensor x = node->inputs[0], y = node->output;
    const double outer = (double)y.c * node->kernel * node->kernel, pixels = (double)x.h * x.w;
    const double columns = NUMBER * outer * pixels;
    product(c, REMAT_CONVOLUTION, (double)x.n * (c->backward ? 2 : 1), outer, pixels, x.c);
    passes(c, REMAT_GATHER, x.n, (c->backward ? 2 : 3) * columns);
    passes(c, REMAT_COPY, 1, 2 * NUMBER * numbers(y));
}

static void linear(timing *c, const net_node *node)
{
    const net_tensor x = node->inputs[0];
    const double in = (double)x.c * x.h * x.w;
    const double times = !c->backward ? 1 : has_gradient(node) ? 2 : 1;
    product(c, REMAT_MATRIX, times, x.n, node->output.c, in);
    if (node->bias)
        passes(c, REMAT_COPY, 1, 2 * NUMBER * numbers(node->output));
}

/* Head by head: scores and their softmax, which the backward makes again. */
static void attention(timing *c, const net_node *node)
{
    const double width = node->output.c, heads = node->heads, time = node->time;
    const double calls = (double)node->inputs[0].n / time * heads;
    const double seen = NUMBER * time * time * (node->number > 0 ? 0.5 : 1);
    product(c, REMAT_MATRIX, calls * (c->backward ? 5 : 2), time, time, width / heads);
    passes(c, REMAT_ACTIVATION, calls, 2 * seen);
    if (c->backward)
        plain(c, REMAT_POINTWISE, calls, 3 * NUMBER * time * time);
}

/* Gates of a step: a product with the state before, then four functions of each. */
static void lstm(timing *c, const net_node *node)
{
    const double batch = node->output.n, width = (double)node->output.c / 2;
    if (node->n_inputs == 2)
        product(c, REMAT_MATRIX, c->backward ? 2 : 1, batch, 4 * width, width);
    passes(c, REMAT_COPY, 1, 2 * NUMBER * 4 * batch * width);
    passes(c, REMAT_ACTIVATION, 1, 2 * NUMBER * (c->backward ? 2 : 7) * batch * width);
}

static void add_seconds(timing *c, const net_node *node)
{
    const net_tensor x = node->inputs[0], y = node->output;
    const double in = NUMBER * numbers(x), out = NUMBER * numbers(y);
    switch (node->kind) {
    case NET_CONV:
        conv(c, node);
        break;
    case NET_UP_CONV:
        up_conv(c, node);
        break;
    case NET_LINEAR:
        linear(c, node);
        break;
    case NET_ATTENTION:
        attention(c, node);
        break;
    case NET_LSTM:
        lstm(c, node);
        break;
    case NET_BATCH_NORM:
    case NET_LAYER_NORM:
        passes(c, REMAT_NORMALISATION, 1, (c->backward ? 5 : 4) * in);
        break;
    case NET_GELU:
    case NET_DROPOUT:
        passes(c, REMAT_ACTIVATION, 1, 2 * in);
        break;
    case NET_RELU:
        passes(c, REMAT_POINTWISE, 1, 2 * in);
        break;
    case NET_ADD: /* behind a rectifier its backward picks, and is as slow as that of one */
        if (c->backward && !node->relu)
            plain(c, REMAT_POINTWISE, 1, 4 * in);
        else
            passes(c, REMAT_POINTWISE, 1, (c->backward ? 4 : 3) * in);
        break;
    case NET_CONCAT:
    case NET_EMBEDDING:
        passes(c, REMAT_COPY, 1, 2 * out);
        break;
    case NET_MAX_POOL:
    case NET_AVERAGE_POOL:
        passes(c, REMAT_POOLING, 1, in + out * node->kernel * node->kernel);
        break;
    case NET_CROSS_ENTROPY:
    case NET_CONTRASTIVE:
        passes(c, REMAT_ACTIVATION, 1, 2 * in);
        break;
    case NET_TRIPLET:
        passes(c, REMAT_POINTWISE, 1, 3 * in);
        break;
    case NET_KINDS:
        break;
    }
}

static double seconds_of(const remat_device *device, const net_node *node, bool backward)
{
    timing c = {.device = device, .backward = backward};
    add_seconds(&c, node);
    return c.seconds;
}

void training_predict(const net_graph *net, const remat_device *device, node_times *ret_times)
{
    for (uint32_t v = 0; v < net->n_nodes; v++) {
        const double forward = seconds_of(device, &net->nodes[v], false);
        const double backward = seconds_of(device, &net->nodes[v], true);
        for (uint32_t a = 0; a < MODEL_ALTERNATIVES; a++) {
            ret_times[v].forward[a] = forward;
            ret_times[v].backward[a] = backward;
        }
    }
}
