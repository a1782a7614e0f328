/* One time step of an LSTM. Gates stand as input, forget, cell, output, each `width` wide. */
#include "call.h"

static cuda_cell cell_of(const kernel_call *call)
{
    const net_node *node = call->node;
    const size_t batch = node->output.n;
    const int32_t *ids = call->inputs[node->n_inputs - 1];
    return (cuda_cell){.batch = batch,
                       .width = node->output.c / 2,
                       .ids = ids + node->step * batch,
                       .previous = node->n_inputs == 2 ? call->inputs[0] : NULL};
}

static size_t gates_of(const net_node *node)
{
    return 2 * (size_t)node->output.c;
}

/* The workspace of the backward: slopes of the gates, room for the sums of its columns, the share
 * where others add to the gradient too. */
static uint64_t share_at(const net_node *node)
{
    const size_t batch = node->output.n, gates = gates_of(node);
    return cuda_align((batch * gates + cuda_column_sums_room(batch, gates)) * sizeof(float));
}

static kernel_cost cost(const net_node *node, uint32_t alternative)
{
    const uint64_t gates = node->output.n * gates_of(node) * sizeof(float);
    const uint64_t share = node->n_inputs == 2 && node->summed[0] ? gates / 2 : 0;
    (void)alternative;
    return (kernel_cost){
        .saved = gates, .forward_workspace = gates, .backward_workspace = share_at(node) + share};
}

static int forward(const kernel_call *call)
{
    const cuda_cell c = cell_of(call);
    const size_t w = c.width;
    float *gates = call->save ? call->saved : call->workspace;
    int code = 0;
    if (c.previous)
        code = cuda_multiply((cuda_matrix){c.previous, 2 * w, false},
                             (cuda_matrix){call->weights[1], 4 * w, false}, c.batch, 4 * w, w,
                             false, gates, 4 * w);
    return code ? code
                : cuda_launched(cuda_lstm_forward(cuda_the_device.compute, c, call->weights[0],
                                                  call->weights[2], gates, call->output,
                                                  call->save));
}

/* From the slopes of the gates to those of the parameters. */
static int parameter_slopes(const cuda_cell *c, const kernel_call *call, const float *slopes)
{
    const cudaStream_t stream = cuda_the_device.compute;
    const size_t w = c->width, gates = 4 * w;
    float *room = (float *)call->workspace + c->batch * gates;
    int code =
        cuda_launched(cuda_add_by_id(stream, c->ids, slopes, c->batch, gates, call->slopes[0]));
    if (!code)
        code = cuda_launched(
            cuda_column_sums(stream, slopes, gates, c->batch, gates, room, call->slopes[2]));
    if (code || !c->previous)
        return code;
    return cuda_multiply((cuda_matrix){c->previous, 2 * w, true},
                         (cuda_matrix){slopes, gates, false}, w, gates, c->batch, true,
                         call->slopes[1], gates);
}

static int backward(const kernel_call *call)
{
    const cudaStream_t stream = cuda_the_device.compute;
    const cuda_cell c = cell_of(call);
    const size_t w = c.width;
    float *slopes = call->workspace, *dx = c.previous ? call->input_gradients[0] : NULL;
    float *share = dx;
    if (dx && call->accumulate[0])
        share = (float *)((uint8_t *)call->workspace + share_at(call->node));
    int code = cuda_launched(
        cuda_lstm_slopes(stream, c, call->saved, call->output, call->gradient, slopes, share));
    if (!code)
        code = parameter_slopes(&c, call, slopes);
    if (!code && share)
        code = cuda_multiply((cuda_matrix){slopes, 4 * w, false},
                             (cuda_matrix){call->weights[1], 4 * w, true}, c.batch, w, 4 * w, false,
                             share, 2 * w);
    return code || share == dx
               ? code
               : cuda_launched(cuda_put_share(stream, dx, 2 * w, 0, share, 2 * w, c.batch, true));
}

const kernel cuda_lstm = {cuda_one_implementation, cost, forward, backward};
