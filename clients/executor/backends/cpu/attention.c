/* Self-attention, head by head; the probabilities are computed again in the backward. */
#include "cpu.h"

#include <math.h>
#include <string.h>

typedef struct attention {
    size_t batch, heads, time, width, head; /* head: columns of one */
    bool causal;
} attention;

static attention attention_of(const net_node *node)
{
    const size_t width = node->output.c;
    return (attention){node->inputs[0].n / node->time,
                       node->heads,
                       node->time,
                       width,
                       width / node->heads,
                       node->number > 0};
}

static kernel_cost cost(const net_node *node, uint32_t alternative)
{
    const attention a = attention_of(node);
    (void)alternative;
    uint64_t scores = a.time * a.time * sizeof(float);
    uint64_t share = node->summed[0] ? a.time * 3 * a.width * sizeof(float) : 0;
    return (kernel_cost){.forward_workspace = scores,
                         .save_workspace = scores,
                         .backward_workspace = 2 * scores + share};
}

/* softmax(Q K' / sqrt(head)), row by row. q: queries of one head; keys lie `width` behind them. */
static void probabilities(const attention *a, const float *q, float *p)
{
    const size_t stride = 3 * a->width;
    const float scale = 1 / sqrtf((float)a->head);
    cpu_multiply((cpu_matrix){q, stride, false}, (cpu_matrix){q + a->width, stride, true}, a->time,
                 a->time, a->head, false, p, a->time);
    for (size_t i = 0; i < a->time; i++) {
        float *row = p + i * a->time;
        size_t seen = a->causal ? i + 1 : a->time;
        for (size_t j = 0; j < seen; j++)
            row[j] *= scale;
        cpu_softmax(row, seen);
        memset(row + seen, 0, (a->time - seen) * sizeof *row);
    }
}

static int forward(const kernel_call *call)
{
    const attention a = attention_of(call->node);
    const size_t stride = 3 * a.width;
    float *p = call->workspace;
    for (size_t b = 0; b < a.batch; b++)
        for (size_t h = 0; h < a.heads; h++) {
            const float *q = (const float *)call->inputs[0] + b * a.time * stride + h * a.head;
            float *y = (float *)call->output + b * a.time * a.width + h * a.head;
            probabilities(&a, q, p);
            cpu_multiply((cpu_matrix){p, a.time, false},
                         (cpu_matrix){q + 2 * a.width, stride, false}, a.time, a.head, a.time,
                         false, y, a.width);
        }
    return 0;
}

/* Slopes of the scores, in place of those of the probabilities. */
static void score_slopes(const attention *a, const float *p, float *slopes)
{
    const float scale = 1 / sqrtf((float)a->head);
    for (size_t i = 0; i < a->time; i++) {
        const float *row = p + i * a->time;
        float *slope = slopes + i * a->time, mean = cpu_dot(row, slope, a->time);
        for (size_t j = 0; j < a->time; j++)
            slope[j] = row[j] * (slope[j] - mean) * scale;
    }
}

/* dq: where the slopes of queries, keys and values of one head go. */
static void head_backward(const attention *a, const float *q, const float *dy, float *p,
                          float *slopes, float *dq)
{
    const size_t stride = 3 * a->width, time = a->time;
    const cpu_matrix out = {dy, a->width, false};
    probabilities(a, q, p);
    cpu_multiply((cpu_matrix){p, time, true}, out, time, a->head, time, false, dq + 2 * a->width,
                 stride);
    cpu_multiply(out, (cpu_matrix){q + 2 * a->width, stride, true}, time, time, a->head, false,
                 slopes, time);
    score_slopes(a, p, slopes);
    cpu_multiply((cpu_matrix){slopes, time, false}, (cpu_matrix){q + a->width, stride, false}, time,
                 a->head, time, false, dq, stride);
    cpu_multiply((cpu_matrix){slopes, time, true}, (cpu_matrix){q, stride, false}, time, a->head,
                 time, false, dq + a->width, stride);
}

static int backward(const kernel_call *call)
{
    const attention a = attention_of(call->node);
    const size_t rows = a.time * 3 * a.width;
    float *p = call->workspace, *slopes = p + a.time * a.time, *aside = slopes + a.time * a.time;
    float *dx = call->input_gradients[0];
    bool adds = dx && call->accumulate[0];
    for (size_t b = 0; b < a.batch && dx; b++) {
        float *share = adds ? aside : dx + b * rows;
        for (size_t h = 0; h < a.heads; h++)
            head_backward(&a, (const float *)call->inputs[0] + b * rows + h * a.head,
                          call->gradient + b * a.time * a.width + h * a.head, p, slopes,
                          share + h * a.head);
        if (adds)
            cpu_add_to(dx + b * rows, share, rows);
    }
    return 0;
}

const kernel cpu_attention = {cpu_one_implementation, cost, forward, backward};
