/* Largest numbers and means of windows. */
#include "call.h"

static cuda_windows windows_of(const net_node *node)
{
    const net_tensor x = node->inputs[0], y = node->output;
    return (cuda_windows){(size_t)x.n * x.c, x.h,           x.w, node->kernel,
                          node->stride,      node->padding, y.h, y.w};
}

/* ---- largest: what is saved is its place in the window, a byte ---- */

static kernel_cost max_cost(const net_node *node, uint32_t alternative)
{
    (void)alternative;
    return (kernel_cost){.saved = net_numbers(node->output)};
}

static int max_forward(const kernel_call *call)
{
    return cuda_launched(cuda_max_pool_forward(cuda_the_device.compute, call->inputs[0],
                                               call->output, call->save ? call->saved : NULL,
                                               windows_of(call->node)));
}

static int max_backward(const kernel_call *call)
{
    float *dx = call->input_gradients[0];
    return dx ? cuda_launched(cuda_pool_backward(cuda_the_device.compute, call->gradient,
                                                 call->saved, dx, windows_of(call->node), 1,
                                                 call->accumulate[0]))
              : 0;
}

const kernel cuda_max_pool = {cuda_one_implementation, max_cost, max_forward, max_backward};

/* ---- means: no window leaves the image ---- */

static float mean_scale(const net_node *node)
{
    return 1 / ((float)node->kernel * (float)node->kernel);
}

static int average_forward(const kernel_call *call)
{
    return cuda_launched(cuda_average_pool_forward(cuda_the_device.compute, call->inputs[0],
                                                   call->output, windows_of(call->node),
                                                   mean_scale(call->node)));
}

static int average_backward(const kernel_call *call)
{
    float *dx = call->input_gradients[0];
    return dx ? cuda_launched(cuda_pool_backward(cuda_the_device.compute, call->gradient, NULL, dx,
                                                 windows_of(call->node), mean_scale(call->node),
                                                 call->accumulate[0]))
              : 0;
}

const kernel cuda_average_pool = {cuda_one_implementation, cuda_no_cost, average_forward,
                                  average_backward};
