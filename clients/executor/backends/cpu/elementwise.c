/* Number by number: rectifiers, sums, joined channels, dropout. */
#include "cpu.h"

#include <math.h>
#include <string.h>

/* ---- rectifiers ---- */

/* What is saved is a bit for each number, whether it was let through: Jain et al. 2018, Gist. */
static kernel_cost relu_cost(const net_node *node, uint32_t alternative)
{
    (void)alternative;
    return (kernel_cost){.saved = (net_numbers(node->output) + 7) / 8};
}

static uint8_t positive_bits(const float *x, size_t n)
{
    unsigned bits = 0;
    for (size_t l = 0; l < n; l++)
        bits |= (x[l] > 0 ? 1u : 0u) << l;
    return (uint8_t)bits;
}

static int relu_forward(const kernel_call *call)
{
    const float *x = call->inputs[0];
    float *y = call->output;
    uint8_t *saved = call->saved;
    size_t n = net_numbers(call->node->output);
    for (size_t i = 0; i < n && call->save; i += 8)
        saved[i / 8] = positive_bits(x + i, n - i < 8 ? n - i : 8);
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] > 0 ? x[i] : 0;
    return 0;
}

static int relu_backward(const kernel_call *call)
{
    const uint8_t *saved = call->saved;
    const float *dy = call->gradient;
    float *dx = call->input_gradients[0];
    size_t n = net_numbers(call->node->output);
    for (size_t i = 0; i < n && dx; i += 8)
        for (size_t l = 0; l < 8 && i + l < n; l++)
            cpu_put(dx, i + l, saved[i / 8] >> l & 1 ? dy[i + l] : 0, call->accumulate[0]);
    return 0;
}

const kernel cpu_relu = {cpu_one_implementation, relu_cost, relu_forward, relu_backward};

/* x times the logistic function of 2u, which is (1 + tanh u) / 2. */
static float gelu_logistic(float x)
{
    return 1 / (1 + expf(-2 * 0.7978845608f * (x + 0.044715f * x * x * x)));
}

static int gelu_forward(const kernel_call *call)
{
    const float *x = call->inputs[0];
    float *y = call->output;
    size_t n = net_numbers(call->node->output);
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * gelu_logistic(x[i]);
    return 0;
}

static int gelu_backward(const kernel_call *call)
{
    const float *x = call->inputs[0], *dy = call->gradient;
    float *dx = call->input_gradients[0];
    size_t n = net_numbers(call->node->output);
    for (size_t i = 0; i < n && dx; i++) {
        float s = gelu_logistic(x[i]), inner = 1 + 3 * 0.044715f * x[i] * x[i];
        cpu_put(dx, i, dy[i] * (s + x[i] * s * (1 - s) * 2 * 0.7978845608f * inner),
                call->accumulate[0]);
    }
    return 0;
}

const kernel cpu_gelu = {cpu_one_implementation, cpu_no_cost, gelu_forward, gelu_backward};

/* ---- sums ---- */

static int add_forward(const kernel_call *call)
{
    const float *a = call->inputs[0], *b = call->inputs[1];
    float *y = call->output;
    size_t n = net_numbers(call->node->output);
    for (size_t i = 0; i < n; i++) {
        float sum = a[i] + b[i];
        y[i] = call->node->relu && sum <= 0 ? 0 : sum;
    }
    return 0;
}

/* The second gradient first: the first may lie where the slope lies. */
static int add_backward(const kernel_call *call)
{
    const float *y = call->output, *dy = call->gradient;
    size_t n = net_numbers(call->node->output);
    for (uint32_t k = 2; k-- > 0;) {
        float *to = call->input_gradients[k];
        for (size_t i = 0; i < n && to; i++)
            cpu_put(to, i, call->node->relu && y[i] <= 0 ? 0 : dy[i], call->accumulate[k]);
    }
    return 0;
}

const kernel cpu_add = {cpu_one_implementation, cpu_no_cost, add_forward, add_backward};

/* ---- joined channels ---- */

static int concat_forward(const kernel_call *call)
{
    const net_tensor y = call->node->output;
    const size_t plane = (size_t)y.h * y.w;
    size_t at = 0; /* channels done */
    for (uint32_t k = 0; k < call->node->n_inputs; k++) {
        const net_tensor x = call->node->inputs[k];
        const float *from = (const float *)call->inputs[k] + x.from * plane;
        for (size_t i = 0; i < y.n; i++)
            memcpy((float *)call->output + (i * y.c + at) * plane, from + i * x.of * plane,
                   x.c * plane * sizeof *from);
        at += x.c;
    }
    return 0;
}

static void concat_share(const float *dy, size_t dy_stride, net_tensor x, float *dx,
                         bool accumulate)
{
    const size_t plane = (size_t)x.h * x.w;
    if (x.c != x.of && !accumulate) {
        memset(dx, 0, (size_t)x.n * x.of * plane * sizeof *dx);
        accumulate = true;
    }
    for (size_t i = 0; i < x.n; i++) {
        float *to = dx + (i * x.of + x.from) * plane;
        for (size_t p = 0; p < x.c * plane; p++)
            cpu_put(to, p, dy[i * dy_stride + p], accumulate);
    }
}

static int concat_backward(const kernel_call *call)
{
    const net_tensor y = call->node->output;
    const size_t plane = (size_t)y.h * y.w;
    size_t at = 0;
    for (uint32_t k = 0; k < call->node->n_inputs; k++) {
        const net_tensor x = call->node->inputs[k];
        if (call->input_gradients[k])
            concat_share(call->gradient + at * plane, y.c * plane, x, call->input_gradients[k],
                         call->accumulate[k]);
        at += x.c;
    }
    return 0;
}

const kernel cpu_concat = {cpu_one_implementation, cpu_no_cost, concat_forward, concat_backward};

/* ---- dropout ---- */

/* The state of the generator, and what a forward saves of it: 16 bytes. */
typedef struct generator {
    uint64_t seed, counter; /* counter: blocks of four numbers drawn */
} generator;

/* Philox4x32-10: Salmon, Moraes, Dror, Shaw 2011, Parallel random numbers: as easy as 1, 2, 3. */
static void philox(uint64_t seed, uint64_t counter, uint32_t ret_numbers[4])
{
    uint32_t c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0};
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = UINT64_C(0xD2511F53) * c[0], p1 = UINT64_C(0xCD9E8D57) * c[2];
        const uint32_t next[4] = {(uint32_t)(p1 >> 32) ^ c[1] ^ k0, (uint32_t)p1,
                                  (uint32_t)(p0 >> 32) ^ c[3] ^ k1, (uint32_t)p0};
        memcpy(c, next, sizeof c);
        k0 += UINT32_C(0x9E3779B9);
        k1 += UINT32_C(0xBB67AE85);
    }
    memcpy(ret_numbers, c, sizeof c);
}

/* Runs over numbers and puts x times 0 or 1 / (1 - p). */
static void drop(const net_node *node, const generator *g, const float *x, float *to,
                 bool accumulate)
{
    size_t n = net_numbers(node->output);
    const uint32_t least = (uint32_t)((double)node->number * 4294967296.0);
    const float scale = 1 / (1 - node->number);
    for (size_t i = 0; i < n; i += 4) {
        uint32_t numbers[4];
        philox(g->seed, g->counter + i / 4, numbers);
        for (size_t l = 0; l < 4 && i + l < n; l++)
            cpu_put(to, i + l, numbers[l] < least ? 0 : x[i + l] * scale, accumulate);
    }
}

static kernel_cost dropout_cost(const net_node *node, uint32_t alternative)
{
    (void)node;
    (void)alternative;
    return (kernel_cost){.saved = sizeof(generator)};
}

static int dropout_forward(const kernel_call *call)
{
    generator *g = call->state;
    if (call->save)
        memcpy(call->saved, g, sizeof *g);
    drop(call->node, g, call->inputs[0], call->output, false);
    g->counter += (net_numbers(call->node->output) + 3) / 4;
    return 0;
}

static int dropout_backward(const kernel_call *call)
{
    generator g;
    memcpy(&g, call->saved, sizeof g);
    if (call->input_gradients[0])
        drop(call->node, &g, call->gradient, call->input_gradients[0], call->accumulate[0]);
    return 0;
}

const kernel cpu_dropout = {cpu_one_implementation, dropout_cost, dropout_forward,
                            dropout_backward};
