/* One time step of an LSTM. Gates stand as input, forget, cell, output, each `width` wide. */
#include "cpu.h"

#include <math.h>
#include <string.h>

typedef struct cell {
    size_t batch, width, gates;
    const int32_t *ids;
    const float *previous; /* hidden, then cell state; NULL: zeros */
} cell;

static cell cell_of(const kernel_call *call)
{
    const net_node *node = call->node;
    const size_t batch = node->output.n, width = node->output.c / 2;
    const int32_t *ids = call->inputs[node->n_inputs - 1];
    return (cell){.batch = batch,
                  .width = width,
                  .gates = 4 * width,
                  .ids = ids + node->step * batch,
                  .previous = node->n_inputs == 2 ? call->inputs[0] : NULL};
}

static kernel_cost cost(const net_node *node, uint32_t alternative)
{
    (void)alternative;
    uint64_t gates = (uint64_t)node->output.n * 2 * node->output.c * sizeof(float);
    uint64_t share = node->n_inputs == 2 && node->summed[0] ? gates / 2 : 0;
    return (kernel_cost){
        .saved = gates, .forward_workspace = gates, .backward_workspace = gates + share};
}

static float logistic(float x)
{
    return 1 / (1 + expf(-x));
}

/* Gates of the whole batch, before their functions. */
static void gather_gates(const cell *c, const kernel_call *call, float *gates)
{
    for (size_t b = 0; b < c->batch; b++) {
        const float *row = call->weights[0] + (size_t)c->ids[b] * c->gates;
        for (size_t j = 0; j < c->gates; j++)
            gates[b * c->gates + j] = row[j] + call->weights[2][j];
    }
    if (c->previous)
        cpu_multiply((cpu_matrix){c->previous, 2 * c->width, false},
                     (cpu_matrix){call->weights[1], c->gates, false}, c->batch, c->gates, c->width,
                     true, gates, c->gates);
}

static int forward(const kernel_call *call)
{
    const cell c = cell_of(call);
    const size_t w = c.width;
    float *gates = call->save ? call->saved : call->workspace;
    gather_gates(&c, call, gates);
    for (size_t b = 0; b < c.batch; b++) {
        float *g = gates + b * c.gates, *y = (float *)call->output + b * 2 * w;
        const float *before = c.previous ? c.previous + b * 2 * w + w : NULL;
        for (size_t j = 0; j < w; j++) {
            g[j] = logistic(g[j]);
            g[w + j] = logistic(g[w + j]);
            g[2 * w + j] = tanhf(g[2 * w + j]);
            g[3 * w + j] = logistic(g[3 * w + j]);
            y[w + j] = g[j] * g[2 * w + j] + (before ? g[w + j] * before[j] : 0);
            y[j] = g[3 * w + j] * tanhf(y[w + j]);
        }
    }
    return 0;
}

/* Slopes of the gates before their functions, of one row; share: slope of the cell state before, or
 * NULL. */
static void gate_slopes(const cell *c, const kernel_call *call, size_t row, float *slopes,
                        float *share)
{
    const size_t w = c->width;
    const float *g = (const float *)call->saved + row * c->gates;
    const float *y = (const float *)call->output + row * 2 * w;
    const float *dy = call->gradient + row * 2 * w;
    const float *before = c->previous ? c->previous + row * 2 * w + w : NULL;
    for (size_t j = 0; j < w; j++) {
        float in = g[j], forget = g[w + j], value = g[2 * w + j], out = g[3 * w + j];
        float shown = tanhf(y[w + j]);
        float slope = dy[w + j] + dy[j] * out * (1 - shown * shown);
        slopes[j] = slope * value * in * (1 - in);
        slopes[w + j] = before ? slope * before[j] * forget * (1 - forget) : 0;
        slopes[2 * w + j] = slope * in * (1 - value * value);
        slopes[3 * w + j] = dy[j] * shown * out * (1 - out);
        if (share)
            share[j] = slope * forget;
    }
}

static int backward(const kernel_call *call)
{
    const cell c = cell_of(call);
    const size_t w = c.width;
    float *slopes = call->workspace, *aside = slopes + c.batch * c.gates;
    float *dx = c.previous ? call->input_gradients[0] : NULL;
    float *share = dx && call->accumulate[0] ? aside : dx;
    for (size_t b = 0; b < c.batch; b++) {
        gate_slopes(&c, call, b, slopes + b * c.gates, share ? share + b * 2 * w + w : NULL);
        cpu_add_to(call->slopes[0] + (size_t)c.ids[b] * c.gates, slopes + b * c.gates, c.gates);
        cpu_add_to(call->slopes[2], slopes + b * c.gates, c.gates);
    }
    const cpu_matrix gates = {slopes, c.gates, false};
    if (c.previous)
        cpu_multiply((cpu_matrix){c.previous, 2 * w, true}, gates, w, c.gates, c.batch, true,
                     call->slopes[1], c.gates);
    if (share)
        cpu_multiply(gates, (cpu_matrix){call->weights[1], c.gates, true}, c.batch, w, c.gates,
                     false, share, 2 * w);
    if (share != dx)
        cpu_add_to(dx, share, c.batch * 2 * w);
    return 0;
}

const kernel cpu_lstm = {cpu_one_implementation, cost, forward, backward};
