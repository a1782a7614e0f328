/* Losses: means over rows. The device's number goes to the host behind the kernels. */
#include "call.h"

static int end_forward(const kernel_call *call, int code)
{
    code = cuda_launched(code);
    return code ? code : cuda_tell_loss(call->loss);
}

static kernel_cost sums_cost(const net_node *node, uint32_t alternative)
{
    const uint64_t room = CUDA_LOSS_BLOCKS * sizeof(double);
    (void)node;
    (void)alternative;
    return (kernel_cost){.forward_workspace = room, .save_workspace = room};
}

/* ---- cross-entropy: of every pixel, over channels ---- */

static int cross_entropy_forward(const kernel_call *call)
{
    const net_tensor x = call->node->inputs[0];
    const size_t pixels = (size_t)x.h * x.w;
    return end_forward(call, cuda_cross_entropy_forward(cuda_the_device.compute, call->inputs[0],
                                                        call->inputs[1], x.n * pixels, x.c, pixels,
                                                        call->workspace, cuda_the_device.loss));
}

static int cross_entropy_backward(const kernel_call *call)
{
    const net_tensor x = call->node->inputs[0];
    const size_t pixels = (size_t)x.h * x.w;
    float *dx = call->input_gradients[0];
    return dx ? cuda_launched(cuda_cross_entropy_backward(cuda_the_device.compute, call->inputs[0],
                                                          call->inputs[1], dx, x.n * pixels, x.c,
                                                          pixels, call->accumulate[0]))
              : 0;
}

const kernel cuda_cross_entropy = {cuda_one_implementation, sums_cost, cross_entropy_forward,
                                   cross_entropy_backward};

/* ---- triplet ---- */

static cuda_triplet_rows triplet_of(const kernel_call *call)
{
    const net_tensor x = call->node->inputs[0];
    return (cuda_triplet_rows){call->inputs[0],   call->inputs[1], call->inputs[2], x.n, x.c,
                               call->node->number};
}

static int triplet_forward(const kernel_call *call)
{
    return end_forward(call, cuda_triplet_forward(cuda_the_device.compute, triplet_of(call),
                                                  call->workspace, cuda_the_device.loss));
}

static int triplet_backward(const kernel_call *call)
{
    cuda_triplet_shares to;
    for (int k = 0; k < 3; k++) {
        to.dx[k] = call->input_gradients[k];
        to.accumulate[k] = call->accumulate[k];
    }
    return cuda_launched(cuda_triplet_backward(cuda_the_device.compute, triplet_of(call), to));
}

const kernel cuda_triplet = {cuda_one_implementation, sums_cost, triplet_forward, triplet_backward};

/* ---- contrastive ---- */

/* Bytes into the workspace: rows of length 1 of both sides and what they were divided by, scores,
 * logarithms of sums, what each row adds to the loss; in the backward the share. */
typedef struct contrast {
    size_t rows, n;
    uint64_t units[2], inverses[2], scores, logs, left, share, end;
} contrast;

static contrast contrast_of(const net_node *node)
{
    contrast c = {.rows = node->inputs[0].n, .n = node->inputs[0].c};
    const uint64_t unit = cuda_align(c.rows * c.n * sizeof(float));
    const uint64_t inverse = cuda_align(c.rows * sizeof(float));
    c.units[1] = unit;
    c.inverses[0] = 2 * unit;
    c.inverses[1] = c.inverses[0] + inverse;
    c.scores = c.inverses[1] + inverse;
    c.logs = c.scores + cuda_align(c.rows * c.rows * sizeof(float));
    c.left = c.logs + cuda_align(2 * c.rows * sizeof(double));
    c.share = c.left + cuda_align(c.rows * sizeof(double));
    c.end = c.share + unit;
    return c;
}

static kernel_cost contrastive_cost(const net_node *node, uint32_t alternative)
{
    const contrast c = contrast_of(node);
    (void)alternative;
    return (kernel_cost){
        .forward_workspace = c.share, .save_workspace = c.share, .backward_workspace = c.end};
}

static void *place(const kernel_call *call, uint64_t at)
{
    return (uint8_t *)call->workspace + at;
}

static int compare(const kernel_call *call, const contrast *c)
{
    const cudaStream_t stream = cuda_the_device.compute;
    int code = 0;
    for (int k = 0; k < 2 && !code; k++)
        code = cuda_launched(cuda_normalise(stream, call->inputs[k], place(call, c->units[k]),
                                            place(call, c->inverses[k]), c->rows, c->n));
    if (!code)
        code = cuda_multiply((cuda_matrix){place(call, c->units[0]), c->n, false},
                             (cuda_matrix){place(call, c->units[1]), c->n, true}, c->rows, c->rows,
                             c->n, false, place(call, c->scores), c->rows);
    return code ? code
                : cuda_launched(cuda_contrast_logs(stream, place(call, c->scores), c->rows,
                                                   call->node->number, place(call, c->logs),
                                                   place(call, c->left)));
}

static int contrastive_forward(const kernel_call *call)
{
    const contrast c = contrast_of(call->node);
    int code = compare(call, &c);
    return code ? code
                : end_forward(call, cuda_contrast_loss(cuda_the_device.compute, place(call, c.left),
                                                       c.rows, cuda_the_device.loss));
}

static int contrastive_share(const kernel_call *call, const contrast *c, int side)
{
    float *dx = call->input_gradients[side], *share = place(call, c->share);
    if (!dx)
        return 0;
    int code = cuda_multiply((cuda_matrix){place(call, c->scores), c->rows, side == 1},
                             (cuda_matrix){place(call, c->units[1 - side]), c->n, false}, c->rows,
                             c->n, c->rows, false, share, c->n);
    return code ? code
                : cuda_launched(cuda_contrast_share(cuda_the_device.compute,
                                                    place(call, c->units[side]),
                                                    place(call, c->inverses[side]), share, dx,
                                                    c->rows, c->n, call->accumulate[side]));
}

static int contrastive_backward(const kernel_call *call)
{
    const contrast c = contrast_of(call->node);
    int code = compare(call, &c);
    if (!code)
        code = cuda_launched(cuda_contrast_slopes(cuda_the_device.compute, place(call, c.scores),
                                                  c.rows, call->node->number, place(call, c.logs)));
    for (int side = 0; side < 2 && !code; side++)
        code = contrastive_share(call, &c, side);
    return code;
}

const kernel cuda_contrastive = {cuda_one_implementation, contrastive_cost, contrastive_forward,
                                 contrastive_backward};
