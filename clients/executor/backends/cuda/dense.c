/* Linear layers and embeddings. */
#include "call.h"

/* ---- linear ---- */

typedef struct linear {
    size_t rows, in, out, stride, from; /* stride: from row to row of x */
    size_t piece;                       /* rows of a share put together aside */
} linear;

static linear linear_of(const net_node *node)
{
    const net_tensor x = node->inputs[0];
    const size_t plane = (size_t)x.h * x.w;
    linear l = {.rows = x.n,
                .in = x.c * plane,
                .out = node->output.c,
                .stride = x.of * plane,
                .from = x.from * plane,
                .piece = x.n};
    if (node->summed[0] || x.c != x.of) {
        /* whole multiples of 64 rows begin at multiples of 256 bytes */
        const size_t rows = CUDA_PIECE / (l.in * sizeof(float)) / 64 * 64;
        l.piece = rows < 64 ? 64 : rows;
        l.piece = l.piece < l.rows ? l.piece : l.rows;
    }
    return l;
}

static kernel_cost linear_cost(const net_node *node, uint32_t alternative)
{
    const linear l = linear_of(node);
    (void)alternative;
    const bool aside = node->summed[0] || l.in != l.stride;
    const uint64_t share = aside ? l.piece * l.in : 0;
    const uint64_t sums = node->bias ? cuda_column_sums_room(l.rows, l.out) : 0;
    return (kernel_cost){.backward_workspace = cuda_most(share, sums) * sizeof(float)};
}

static int linear_forward(const kernel_call *call)
{
    const linear l = linear_of(call->node);
    const float *x = (const float *)call->inputs[0] + l.from;
    int code = cuda_multiply((cuda_matrix){x, l.stride, false},
                             (cuda_matrix){call->weights[0], l.in, true}, l.rows, l.out, l.in,
                             false, call->output, l.out);
    if (code || !call->node->bias)
        return code;
    return cuda_launched(
        cuda_add_bias(cuda_the_device.compute, call->output, call->weights[1], l.rows, l.out));
}

/* Rows from `first` on. In pieces whether it is added or not: products of other shapes may round in
 * other ways. */
static int linear_share(const linear *l, const kernel_call *call, size_t first)
{
    const size_t rows = l->rows - first < l->piece ? l->rows - first : l->piece;
    const bool aside = call->accumulate[0] || l->in != l->stride;
    float *dx = call->input_gradients[0] + first * l->stride;
    float *share = aside ? call->workspace : dx;
    int code = cuda_multiply((cuda_matrix){call->gradient + first * l->out, l->out, false},
                             (cuda_matrix){call->weights[0], l->in, false}, rows, l->in, l->out,
                             false, share, l->in);
    return code || !aside
               ? code
               : cuda_launched(cuda_put_share(cuda_the_device.compute, dx, l->stride, l->from,
                                              share, l->in, rows, call->accumulate[0]));
}

static int linear_backward(const kernel_call *call)
{
    const linear l = linear_of(call->node);
    const float *x = (const float *)call->inputs[0] + l.from;
    int code =
        cuda_multiply((cuda_matrix){call->gradient, l.out, true}, (cuda_matrix){x, l.stride, false},
                      l.out, l.in, l.rows, true, call->slopes[0], l.in);
    if (!code && call->node->bias)
        code = cuda_launched(cuda_column_sums(cuda_the_device.compute, call->gradient, l.out,
                                              l.rows, l.out, call->workspace, call->slopes[1]));
    for (size_t first = 0; first < l.rows && call->input_gradients[0] && !code; first += l.piece)
        code = linear_share(&l, call, first);
    return code;
}

const kernel cuda_linear = {cuda_one_implementation, linear_cost, linear_forward, linear_backward};

/* ---- embedding ---- */

static kernel_cost embedding_cost(const net_node *node, uint32_t alternative)
{
    const net_tensor y = node->output;
    (void)alternative;
    return (kernel_cost){.backward_workspace =
                             cuda_column_sums_room(y.n / node->time, (size_t)node->time * y.c) *
                             sizeof(float)};
}

static int embedding_forward(const kernel_call *call)
{
    const net_tensor y = call->node->output;
    return cuda_launched(cuda_embedding_forward(cuda_the_device.compute, call->inputs[0],
                                                call->weights[0], call->weights[1], call->output,
                                                y.n, y.c, call->node->time));
}

/* The rows of a sequence side by side are a row of the table of positions; the last sequence may be
 * a part of one. */
static int add_positions(const kernel_call *call)
{
    const net_tensor y = call->node->output;
    const size_t time = call->node->time, whole = y.n / time, rest = y.n % time;
    int code = 0;
    if (whole > 0)
        code = cuda_launched(cuda_column_sums(cuda_the_device.compute, call->gradient, time * y.c,
                                              whole, time * y.c, call->workspace, call->slopes[1]));
    if (code || rest == 0)
        return code;
    return cuda_launched(cuda_column_sums(cuda_the_device.compute,
                                          call->gradient + whole * time * y.c, rest * y.c, 1,
                                          rest * y.c, NULL, call->slopes[1]));
}

static int embedding_backward(const kernel_call *call)
{
    const net_tensor y = call->node->output;
    int code = cuda_launched(cuda_add_by_id(cuda_the_device.compute, call->inputs[0],
                                            call->gradient, y.n, y.c, call->slopes[0]));
    return code ? code : add_positions(call);
}

const kernel cuda_embedding = {cuda_one_implementation, embedding_cost, embedding_forward,
                               embedding_backward};
