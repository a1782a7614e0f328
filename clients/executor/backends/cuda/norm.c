/* Normalisation over the batch and over rows. */
#include "call.h"

/* ---- channels ---- */

enum { CHUNK = 4096, CHANNEL_BLOCKS = 2048, MOST_CHUNKS = 256 };

cuda_channels cuda_channels_of(size_t images, size_t channels, size_t pixels)
{
    size_t chunks = (images * pixels + CHUNK - 1) / CHUNK, most = CHANNEL_BLOCKS / channels;
    most = most > MOST_CHUNKS ? MOST_CHUNKS : most < 1 ? 1 : most;
    return (cuda_channels){images, channels, pixels, chunks < most ? chunks : most};
}

size_t cuda_channels_room(cuda_channels g)
{
    return 2 * g.chunks * g.channels * sizeof(double);
}

/* ---- batch normalisation ---- */

static cuda_channels channels_of(const net_node *node)
{
    const net_tensor x = node->inputs[0];
    return cuda_channels_of(x.n, x.c, (size_t)x.h * x.w);
}

static kernel_cost batch_norm_cost(const net_node *node, uint32_t alternative)
{
    const uint64_t room = cuda_channels_room(channels_of(node));
    (void)alternative;
    return (kernel_cost){.saved = 2 * node->output.c * sizeof(float),
                         .forward_workspace = room,
                         .save_workspace = room,
                         .backward_workspace = room};
}

static cuda_batch_norm_call batch_norm_of(const kernel_call *call)
{
    return (cuda_batch_norm_call){.g = channels_of(call->node),
                                  .x = call->inputs[0],
                                  .scale = call->weights[0],
                                  .shift = call->weights[1],
                                  .statistics = call->state,
                                  .saved = call->saved,
                                  .relu = call->node->relu};
}

static int batch_norm_forward(const kernel_call *call)
{
    cuda_batch_norm_call c = batch_norm_of(call);
    c.saved = call->save ? call->saved : NULL;
    return cuda_launched(
        cuda_batch_norm_forward(cuda_the_device.compute, &c, call->workspace, call->output));
}

static int batch_norm_backward(const kernel_call *call)
{
    const cuda_batch_norm_call c = batch_norm_of(call);
    const cuda_norm_slopes slopes = {call->slopes[0], call->slopes[1]};
    return cuda_launched(cuda_batch_norm_backward(cuda_the_device.compute, &c, call->gradient,
                                                  call->workspace, slopes, call->input_gradients[0],
                                                  call->accumulate[0]));
}

const kernel cuda_batch_norm = {cuda_one_implementation, batch_norm_cost, batch_norm_forward,
                                batch_norm_backward};

/* ---- layer normalisation: moments are computed again in the backward ---- */

/* What the blocks leave, then room for the sums of its columns. */
static kernel_cost layer_norm_cost(const net_node *node, uint32_t alternative)
{
    const size_t parts = cuda_layer_norm_parts(node->output.n), n = node->output.c;
    (void)alternative;
    return (kernel_cost){.backward_workspace =
                             (parts * 2 * n + cuda_column_sums_room(parts, n)) * sizeof(float)};
}

static int layer_norm_forward(const kernel_call *call)
{
    return cuda_launched(cuda_layer_norm_forward(cuda_the_device.compute, call->inputs[0],
                                                 call->weights[0], call->weights[1], call->output,
                                                 call->node->output.n, call->node->output.c));
}

static int layer_norm_backward(const kernel_call *call)
{
    const cudaStream_t stream = cuda_the_device.compute;
    const size_t rows = call->node->output.n, n = call->node->output.c;
    const size_t parts = cuda_layer_norm_parts(rows);
    float *left = call->workspace, *room = left + parts * 2 * n;
    int code = cuda_launched(
        cuda_layer_norm_backward(stream, call->inputs[0], call->weights[0], call->gradient, left,
                                 call->input_gradients[0], rows, n, call->accumulate[0]));
    for (int k = 0; k < 2 && !code; k++)
        code = cuda_launched(
            cuda_column_sums(stream, left + (size_t)k * n, 2 * n, parts, n, room, call->slopes[k]));
    return code;
}

const kernel cuda_layer_norm = {cuda_one_implementation, layer_norm_cost, layer_norm_forward,
                                layer_norm_backward};
