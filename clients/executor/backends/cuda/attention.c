/* Self-attention: products of all heads of some sequences at a time; the probabilities are computed
 * again in the backward. */
#include "call.h"

#include <math.h>

typedef struct attention {
    size_t batch, heads, time, width, head; /* head: columns of one */
    size_t stride;                          /* of queries, keys and values: 3 width */
    size_t sequences, heads_at_once;        /* scores put together at a time */
    float scale;
    bool causal;
} attention;

static size_t at_most(size_t n, size_t most)
{
    return n < most ? n : most;
}

static attention attention_of(const net_node *node)
{
    attention a = {.batch = node->inputs[0].n / node->time,
                   .heads = node->heads,
                   .time = node->time,
                   .width = node->output.c,
                   .head = node->output.c / node->heads,
                   .stride = 3 * (size_t)node->output.c,
                   .causal = node->number > 0};
    const size_t squares = CUDA_PIECE / sizeof(float) / (a.time * a.time);
    a.scale = 1 / sqrtf((float)a.head);
    a.sequences = squares / a.heads < 1 ? 1 : at_most(squares / a.heads, a.batch);
    a.heads_at_once = squares < 1 ? 1 : at_most(squares, a.heads);
    return a;
}

static uint64_t scores_bytes(const attention *a)
{
    return cuda_align(a->sequences * a->heads_at_once * a->time * a->time * sizeof(float));
}

static kernel_cost cost(const net_node *node, uint32_t alternative)
{
    const attention a = attention_of(node);
    (void)alternative;
    const uint64_t scores = scores_bytes(&a);
    const uint64_t share = node->summed[0] ? a.sequences * a.time * a.stride * sizeof(float) : 0;
    return (kernel_cost){.forward_workspace = scores,
                         .save_workspace = scores,
                         .backward_workspace = 2 * scores + share};
}

/* Some of the same products: numbers from one's x or dx, y or dy, scores to the next one's. */
typedef struct series {
    size_t count, x, y, scores;
} series;

/* Some heads of some sequences, from the first of either on. Scores stand as
 * [sequences][heads][time][time]. A call of the library takes what there are more of. */
typedef struct piece {
    size_t sequence, sequences, head, heads;
    series calls, batch;
    size_t x, y; /* of the first */
} piece;

static piece piece_at(const attention *a, size_t sequence, size_t head)
{
    const size_t square = a->time * a->time, wide = a->time * a->stride;
    const size_t narrow = a->time * a->width;
    piece p = {.sequence = sequence, .head = head};
    p.sequences = at_most(a->batch - sequence, a->sequences);
    p.heads = at_most(a->heads - head, a->heads_at_once);
    p.x = sequence * wide + head * a->head;
    p.y = sequence * narrow + head * a->head;
    const series sequences = {p.sequences, wide, narrow, p.heads * square};
    const series heads = {p.heads, a->head, a->head, square};
    p.calls = p.sequences < p.heads ? sequences : heads;
    p.batch = p.sequences < p.heads ? heads : sequences;
    return p;
}

static size_t rows_of(const attention *a, const piece *p)
{
    return p->sequences * p->heads * a->time;
}

/* softmax(Q K' / sqrt(head)), row by row. */
static int probabilities(const attention *a, const piece *p, const float *x, float *scores)
{
    const series *b = &p->batch;
    int code = 0;
    for (size_t k = 0; k < p->calls.count && !code; k++) {
        const float *q = x + p->x + k * p->calls.x;
        code = cuda_multiply_batch((cuda_matrix){q, a->stride, false},
                                   (cuda_matrix){q + a->width, a->stride, true}, a->time, a->time,
                                   a->head, scores + k * p->calls.scores, a->time,
                                   (cuda_batch){b->count, b->x, b->x, b->scores});
    }
    return code ? code
                : cuda_launched(cuda_softmax(cuda_the_device.compute, scores, rows_of(a, p),
                                             a->time, a->scale, a->causal));
}

static int piece_forward(const attention *a, const piece *p, const kernel_call *call)
{
    const series *b = &p->batch;
    const float *values = (const float *)call->inputs[0] + p->x + 2 * a->width;
    float *scores = call->workspace, *y = (float *)call->output + p->y;
    int code = probabilities(a, p, call->inputs[0], scores);
    for (size_t k = 0; k < p->calls.count && !code; k++)
        code = cuda_multiply_batch((cuda_matrix){scores + k * p->calls.scores, a->time, false},
                                   (cuda_matrix){values + k * p->calls.x, a->stride, false},
                                   a->time, a->head, a->time, y + k * p->calls.y, a->width,
                                   (cuda_batch){b->count, b->scores, b->x, b->y});
    return code;
}

static int forward(const kernel_call *call)
{
    const attention a = attention_of(call->node);
    int code = 0;
    for (size_t s = 0; s < a.batch && !code; s += a.sequences)
        for (size_t h = 0; h < a.heads && !code; h += a.heads_at_once) {
            const piece p = piece_at(&a, s, h);
            code = piece_forward(&a, &p, call);
        }
    return code;
}

/* Slopes of the values and of the probabilities, of one call: q, dy, dq begin at its columns. */
static int value_slopes(const attention *a, const series *b, const float *q, const float *dy,
                        const float *scores, float *slopes, float *dq)
{
    const cuda_matrix out = {dy, a->width, false};
    int code = cuda_multiply_batch((cuda_matrix){scores, a->time, true}, out, a->time, a->head,
                                   a->time, dq + 2 * a->width, a->stride,
                                   (cuda_batch){b->count, b->scores, b->y, b->x});
    return code ? code
                : cuda_multiply_batch(out, (cuda_matrix){q + 2 * a->width, a->stride, true},
                                      a->time, a->time, a->head, slopes, a->time,
                                      (cuda_batch){b->count, b->y, b->x, b->scores});
}

/* Slopes of the queries and keys, from those of the scores. */
static int query_slopes(const attention *a, const series *b, const float *q, const float *slopes,
                        float *dq)
{
    const cuda_batch batch = {b->count, b->scores, b->x, b->x};
    int code = cuda_multiply_batch((cuda_matrix){slopes, a->time, false},
                                   (cuda_matrix){q + a->width, a->stride, false}, a->time, a->head,
                                   a->time, dq, a->stride, batch);
    return code ? code
                : cuda_multiply_batch((cuda_matrix){slopes, a->time, true},
                                      (cuda_matrix){q, a->stride, false}, a->time, a->head, a->time,
                                      dq + a->width, a->stride, batch);
}

/* share: of the sequences of the piece. */
static int piece_backward(const attention *a, const piece *p, const kernel_call *call, float *share)
{
    const series *c = &p->calls;
    const float *q = (const float *)call->inputs[0] + p->x, *dy = call->gradient + p->y;
    float *scores = call->workspace, *dq = share + p->head * a->head;
    float *slopes = (float *)((uint8_t *)call->workspace + scores_bytes(a));
    int code = probabilities(a, p, call->inputs[0], scores);
    for (size_t k = 0; k < c->count && !code; k++)
        code = value_slopes(a, &p->batch, q + k * c->x, dy + k * c->y, scores + k * c->scores,
                            slopes + k * c->scores, dq + k * c->x);
    if (!code)
        code = cuda_launched(cuda_softmax_slopes(cuda_the_device.compute, scores, slopes,
                                                 rows_of(a, p), a->time, a->scale));
    for (size_t k = 0; k < c->count && !code; k++)
        code = query_slopes(a, &p->batch, q + k * c->x, slopes + k * c->scores, dq + k * c->x);
    return code;
}

/* Where others add to the gradient too, a share is always put together aside: so that products are
 * aligned alike. */
static int backward(const kernel_call *call)
{
    const attention a = attention_of(call->node);
    const bool aside = call->node->summed[0];
    const size_t wide = a.time * a.stride;
    float *room = (float *)((uint8_t *)call->workspace + 2 * scores_bytes(&a));
    int code = 0;
    for (size_t s = 0; s < a.batch && call->input_gradients[0] && !code; s += a.sequences) {
        float *dx = call->input_gradients[0] + s * wide;
        piece p = {0};
        for (size_t h = 0; h < a.heads && !code; h += a.heads_at_once) {
            p = piece_at(&a, s, h);
            code = piece_backward(&a, &p, call, aside ? room : dx);
        }
        if (aside && !code)
            code = cuda_launched(cuda_put_share(cuda_the_device.compute, dx, wide, 0, room, wide,
                                                p.sequences, call->accumulate[0]));
    }
    return code;
}

const kernel cuda_attention = {cuda_one_implementation, cost, forward, backward};
