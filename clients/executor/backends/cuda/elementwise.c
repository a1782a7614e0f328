/* Number by number: rectifiers, sums, joined channels, dropout. */
#include "call.h"

/* ---- rectifiers: what is saved is a bit for each number (Jain et al. 2018, Gist) ---- */

static kernel_cost relu_cost(const net_node *node, uint32_t alternative)
{
    (void)alternative;
    return (kernel_cost){.saved = (net_numbers(node->output) + 7) / 8};
}

static int relu_forward(const kernel_call *call)
{
    return cuda_launched(cuda_relu_forward(cuda_the_device.compute, call->inputs[0], call->output,
                                           call->save ? call->saved : NULL,
                                           net_numbers(call->node->output)));
}

static int relu_backward(const kernel_call *call)
{
    float *dx = call->input_gradients[0];
    return dx ? cuda_launched(
                    cuda_relu_backward(cuda_the_device.compute, call->saved, call->gradient, dx,
                                       net_numbers(call->node->output), call->accumulate[0]))
              : 0;
}

const kernel cuda_relu = {cuda_one_implementation, relu_cost, relu_forward, relu_backward};

static int gelu_forward(const kernel_call *call)
{
    return cuda_launched(cuda_gelu_forward(cuda_the_device.compute, call->inputs[0], call->output,
                                           net_numbers(call->node->output)));
}

static int gelu_backward(const kernel_call *call)
{
    float *dx = call->input_gradients[0];
    return dx ? cuda_launched(
                    cuda_gelu_backward(cuda_the_device.compute, call->inputs[0], call->gradient, dx,
                                       net_numbers(call->node->output), call->accumulate[0]))
              : 0;
}

const kernel cuda_gelu = {cuda_one_implementation, cuda_no_cost, gelu_forward, gelu_backward};

/* ---- sums ---- */

static int add_forward(const kernel_call *call)
{
    return cuda_launched(cuda_add_forward(cuda_the_device.compute, call->inputs[0], call->inputs[1],
                                          call->output, net_numbers(call->node->output),
                                          call->node->relu));
}

static int add_backward(const kernel_call *call)
{
    float *const *to = call->input_gradients;
    return to[0] || to[1] ? cuda_launched(cuda_add_backward(
                                cuda_the_device.compute, call->node->relu ? call->output : NULL,
                                call->gradient, to[0], to[1], net_numbers(call->node->output),
                                call->accumulate[0], call->accumulate[1]))
                          : 0;
}

const kernel cuda_add = {cuda_one_implementation, cuda_no_cost, add_forward, add_backward};

/* ---- joined channels: the images are rows ---- */

/* Input k, which stands at channel `at` of the output. */
static cuda_part part_of(const kernel_call *call, uint32_t k, size_t at, bool backward)
{
    const net_tensor x = call->node->inputs[k];
    const size_t plane = (size_t)x.h * x.w;
    /* a join only reads x */
    return (cuda_part){backward ? call->input_gradients[k] : (float *)(uintptr_t)call->inputs[k],
                       x.of * plane,
                       x.from * plane,
                       x.c * plane,
                       at * plane,
                       backward && call->accumulate[k]};
}

static int move_parts(const kernel_call *call, const cuda_parts *parts, bool backward)
{
    const net_tensor y = call->node->output;
    const size_t stride = (size_t)y.c * y.h * y.w;
    if (parts->n == 0)
        return 0;
    return cuda_launched(
        backward ? cuda_split(cuda_the_device.compute, parts, call->gradient, stride, y.n)
                 : cuda_join(cuda_the_device.compute, parts, call->output, stride, y.n));
}

static int concat(const kernel_call *call, bool backward)
{
    cuda_parts parts = {0};
    size_t at = 0; /* channels done */
    for (uint32_t k = 0; k < call->node->n_inputs; k++) {
        if (parts.n == CUDA_PARTS) {
            int code = move_parts(call, &parts, backward);
            if (code)
                return code;
            parts.n = 0;
        }
        if (!backward || call->input_gradients[k])
            parts.part[parts.n++] = part_of(call, k, at, backward);
        at += call->node->inputs[k].c;
    }
    return move_parts(call, &parts, backward);
}

static int concat_forward(const kernel_call *call)
{
    return concat(call, false);
}

static int concat_backward(const kernel_call *call)
{
    return concat(call, true);
}

const kernel cuda_concat = {cuda_one_implementation, cuda_no_cost, concat_forward, concat_backward};

/* ---- dropout: what is saved is the state of the generator ---- */

static kernel_cost dropout_cost(const net_node *node, uint32_t alternative)
{
    (void)node;
    (void)alternative;
    return (kernel_cost){.saved = 2 * sizeof(uint64_t)};
}

static int dropout_forward(const kernel_call *call)
{
    const size_t n = net_numbers(call->node->output);
    int code = cuda_launched(cuda_drop(cuda_the_device.compute, call->state, call->inputs[0],
                                       call->output, n, call->node->number, false));
    return code ? code
                : cuda_launched(cuda_advance(cuda_the_device.compute, call->state,
                                             call->save ? call->saved : NULL, n));
}

static int dropout_backward(const kernel_call *call)
{
    float *dx = call->input_gradients[0];
    return dx ? cuda_launched(cuda_drop(cuda_the_device.compute, call->saved, call->gradient, dx,
                                        net_numbers(call->node->output), call->node->number,
                                        call->accumulate[0]))
              : 0;
}

const kernel cuda_dropout = {cuda_one_implementation, dropout_cost, dropout_forward,
                             dropout_backward};
