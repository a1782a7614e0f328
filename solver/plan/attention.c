/* Attention, and the losses that a model ends in. */
#include "plan/build.h"

#include <math.h>
#include <stdio.h>

/* ---- attention ---- */

/* Of the last node: keys and values, of so many bytes on each rank, come from every other rank that
 * has tokens of the same examples, back they go with their gradients; two blocks at a time are
 * there. Hidden behind the attention itself: ring attention, Liu et al. 2023. */
static void go_around(plan_builder *b, double bytes)
{
    const uint32_t ranks = b->settings->context;
    if (ranks <= 1 || b->error.status)
        return;
    remat_node_spec *node = &b->nodes[b->n_nodes - 1];
    const double once = 1e6 * remat_collective_seconds(b->settings->interconnect, REMAT_ALL_GATHER,
                                                       ranks, (uint32_t)b->cut, ranks * bytes);
    double *const times[] = {&node->forward_time.value, &node->backward_time.value};
    for (unsigned i = 0; i < 2; i++) {
        const double longer = (i + 1) * once - *times[i];
        if (longer > 0) {
            *times[i] += longer;
            b->sent[b->n_nodes - 1] += longer;
        }
    }
    plan_workspace(b, 2 * bytes, 4 * bytes);
}

/* How many rows of keys a row of queries sees, in the mean. */
static double seen(const plan_heads *h)
{
    const double window = h->window > 0 ? fmin(h->window, h->time) : h->time;
    return h->causal ? window - window * window / (2 * h->time) : h->time;
}

/* One kernel (Dao et al. 2022): of the scores one number a row is kept; the backward makes them
 * again, with five products for the forward's two. */
static plan_value fused_attention(plan_builder *b, const plan_value *qkv, unsigned n,
                                  const plan_heads *h)
{
    const double width = n == 1 ? qkv[0].width / 3 : qkv[0].width, rows = qkv[0].rows;
    const double out = h->value > 0 ? h->heads * h->value : width;
    const double own = rows * (width + out);
    const double others = n == 1 ? own : qkv[1].rows * qkv[1].width + qkv[2].rows * qkv[2].width;
    const double flops = 2 * own * seen(h);
    plan_value y =
        plan_node(b, "attention", "attention", qkv, n, rows, out, PLAN_INPUTS | PLAN_OUTPUT);
    plan_save(b, 4 * rows * h->heads);
    if (!b->error.status)
        b->kept[y.node] = true;
    plan_forward(b, REMAT_ATTENTION, flops, b->element * (own + others));
    plan_backward(b, REMAT_ATTENTION, 1, 2.5 * flops, b->element * (2 * own + 2 * others));
    go_around(b, b->element * others);
    return y;
}

/* A product of matrices for every head. */
static plan_value scores(plan_builder *b, const char *name, const plan_value *inputs, double rows,
                         double width, double flops)
{
    const double bytes = b->element * (rows * width + inputs[0].rows * inputs[0].width +
                                       inputs[1].rows * inputs[1].width);
    plan_value y = plan_node(b, name, "matmul", inputs, 2, rows, width, PLAN_INPUTS);
    plan_computes(b, REMAT_MATRIX, 2, flops, bytes);
    return y;
}

plan_value plan_cap(plan_builder *b, const char *name, plan_value x)
{
    char tanh[48];
    if (!plan_is_fused(b)) {
        snprintf(tanh, sizeof tanh, "%.32s_tanh", name);
        x = plan_pointwise(b, name, "div", &x, 1, 0, 2, 2);
        x = plan_pointwise(b, tanh, "tanh", &x, 1, PLAN_OUTPUT, 2, 3);
        snprintf(tanh, sizeof tanh, "%.32s_mul", name);
        return plan_pointwise(b, tanh, "mul", &x, 1, 0, 2, 2);
    }
    return plan_pointwise(b, name, "tanh", &x, 1, PLAN_OUTPUT, 2, 3);
}

static plan_value eager_attention(plan_builder *b, const plan_value qkv[3], const plan_heads *h)
{
    const double rows = qkv[0].rows * h->heads;
    const double flops = 2 * rows * h->time * h->head;
    plan_value x = scores(b, "scores", qkv, rows, h->time, flops);
    if (b->capped)
        x = plan_cap(b, "capped", x);
    x = plan_pointwise(b, "mask", "scale_mask", &x, 1, 0, 2, 2);
    const double scored = rows * h->time;
    plan_value p = plan_node(b, "softmax", "softmax", &x, 1, rows, h->time, PLAN_OUTPUT);
    p = plan_element(b, p, b->wide);
    plan_moves(b, REMAT_NORMALISATION, (x.element + b->wide) * scored,
               (x.element + 2 * b->wide) * scored);
    if (h->dropout)
        p = plan_dropout(b, "attention_dropout", p);
    if (p.element > b->element)
        p = plan_cast(b, "probabilities", p, b->element);
    const double out = h->value > 0 ? h->value : h->head;
    return scores(b, "attention", (const plan_value[]){p, qkv[2]}, qkv[0].rows, h->heads * out,
                  2 * rows * h->time * out);
}

plan_value plan_attention(plan_builder *b, plan_value q, plan_value k, plan_value v,
                          const plan_heads *h)
{
    const plan_value qkv[3] = {q, k, v};
    if (!b->settings->eager_attention)
        return fused_attention(b, qkv, 3, h);
    plan_value y = eager_attention(b, qkv, h);
    return plan_is_fused(b) ? y : plan_copy(b, "merge", y);
}

plan_value plan_attention_of_thirds(plan_builder *b, plan_value whole, const plan_heads *h)
{
    static const char *const names[] = {"q", "k", "v"};
    const double width = whole.width / 3, bytes = b->element * whole.rows * width;
    plan_value part[3];
    if (!b->settings->eager_attention) {
        plan_value y = fused_attention(b, &whole, 1, h);
        if (!plan_is_fused(b)) /* the gradients of the thirds are put side by side */
            plan_backward(b, REMAT_COPY, 1, 0, 6 * bytes);
        return y;
    }
    /* views of a third each, laid out by heads */
    for (unsigned i = 0; i < 3; i++) {
        part[i] = plan_node(b, names[i], "permute_copy", &whole, 1, whole.rows, width, 0);
        plan_moves(b, REMAT_COPY, 2 * bytes, 2 * bytes);
    }
    return plan_attention(b, part[0], part[1], part[2], h);
}

/* ---- what a model ends in ---- */

void plan_cross_entropy(plan_builder *b, plan_value logits)
{
    const double number = 4, bytes = number * logits.rows * logits.width;
    const double narrow = logits.element * logits.rows * logits.width;
    const plan_value labels = plan_input(b, "labels", logits.rows, 1, 8);
    plan_value x = logits;
    if (b->settings->kernels == REMAT_COMPILED_LOSS && b->cut <= 1) {
        /* of each row its largest and its sum are kept */
        plan_node(b, "loss", "cross_entropy", (const plan_value[]){logits, labels}, 2, 0, 1,
                  PLAN_INPUTS);
        plan_save(b, 2 * number * logits.rows);
        plan_moves(b, REMAT_NORMALISATION, narrow, 2 * narrow);
        return;
    }
    if (logits.element < number) {
        x = plan_cast(b, "float", logits, number);
        b->hole = narrow;
    }
    plan_value p =
        plan_node(b, "log_softmax", "log_softmax", &x, 1, logits.rows, logits.width, PLAN_OUTPUT);
    p = plan_element(b, p, number);
    if (logits.element < number) /* they are the model's result, held until it returns */
        plan_workspace(b, narrow, 0);
    plan_moves(b, REMAT_NORMALISATION, 2 * bytes, 3 * bytes);
    if (b->cut > 1) /* x - max beside it; back zeros and exponentials (DTensor's loss_parallel) */
        plan_workspace(b, bytes, 0);
    for (unsigned i = 0; i < 3; i++)
        plan_send(b, REMAT_ALL_REDUCE, false, number * logits.rows);
    const plan_value ends[] = {p, labels};
    plan_node(b, "loss", "nll_loss", ends, 2, 0, 1, PLAN_INPUTS);
    plan_forward(b, REMAT_GATHER, 0, number * logits.rows);
    plan_backward(b, REMAT_COPY, 1, 0, bytes);
    if (b->cut > 1)
        plan_workspace(b, 0, 2 * bytes);
}

/* As Liger's kernel does it (liger_kernel/ops/fused_linear_cross_entropy.py): so many rows at a
 * time that logits take about as much as x, with the gradients of x and of the weights made at once
 * and kept for the backward, which only scales them. Frozen weights have none. */
static void chunked_loss(plan_builder *b, const char *name, plan_value x, double features)
{
    const double pieces = ceil(features / x.width);
    const double rows = fmin(x.rows, exp2(ceil(log2(ceil(x.rows / pieces)))));
    const double logits = rows * features, weights = x.width * features;
    const bool frozen = plan_is_frozen(b);
    const double flops = 2 * rows * weights,
                 moved = b->element * (rows * x.width + weights + logits);
    const plan_value w = plan_weights(b, name, x.width, features);
    const plan_value ends[] = {x, plan_input(b, "labels", x.rows, 1, 8), w};
    plan_node(b, name, "linear_cross_entropy", ends, 2 + (w.rows > 0), 0, 1, 0);
    b->row = plan_row_of(b, x.width, features);
    for (double row = 0; row < x.rows && !b->error.status; row += rows) {
        for (unsigned i = frozen; i < 3; i++)
            plan_forward(b, REMAT_MATRIX, flops, moved);
        plan_forward(b, REMAT_NORMALISATION, 0, 2 * b->element * logits);
    }
    b->row = 0;
    plan_save(b, b->element * (x.rows * x.width + (frozen ? 0 : weights)));
    plan_workspace(b, (b->element + 4) * logits, 0);
    plan_backward(b, REMAT_POINTWISE, 1, 0, 2 * b->element * x.rows * x.width);
}

/* As torchtune has it (modules/transformer.py: chunked_output,
 * modules/loss/ce_chunked_output_loss.py): logits of all chunks are there in 16 bits before the
 * first one's loss, which is one kernel. Going back there are the gradients of a chunk, and those
 * of the weights beside their sum. */
static void loss_of_chunks(plan_builder *b, const char *name, plan_value x, double features)
{
    enum { CHUNKS = 8 }; /* num_output_chunks */
    const double weights = x.width * features, logits = x.rows / CHUNKS * features;
    const double read = x.rows / CHUNKS * x.width + weights, number = 4;
    const bool frozen = plan_is_frozen(b);
    const plan_value w = plan_weights(b, name, x.width, features);
    const plan_value ends[] = {x, plan_input(b, "labels", x.rows, 1, 8), w};
    plan_node(b, name, "linear_cross_entropy", ends, 2 + (w.rows > 0), 0, 1,
              frozen ? 0 : PLAN_INPUTS);
    b->row = plan_row_of(b, x.width, features);
    for (unsigned i = 0; i < CHUNKS; i++) {
        plan_computes(b, REMAT_MATRIX, frozen ? 1 : 2, 2 * logits * x.width,
                      b->element * (read + logits));
        plan_moves(b, REMAT_NORMALISATION, b->element * logits, 2 * b->element * logits);
        if (!frozen && i > 0)
            plan_backward(b, REMAT_POINTWISE, 1, 0, 3 * b->element * weights);
    }
    b->row = 0;
    plan_save(b, CHUNKS * b->element * logits + 2 * number * x.rows);
    plan_workspace(b, 0, b->element * (frozen ? logits : fmax(logits, weights)));
}

void plan_head(plan_builder *b, const char *name, plan_value x, plan_columns head)
{
    const remat_kernels kernels = b->settings->kernels;
    if ((kernels != REMAT_FUSED && kernels != REMAT_CHUNKED_LOSS) || b->cut > 1) {
        head.kept = true; /* as the loss is DTensor's, too */
        plan_value logits = plan_linear_columns(b, (plan_matrix){name, 0}, x, head);
        plan_cross_entropy(b, b->capped ? plan_cap(b, "cap", logits) : logits);
        return;
    }
    if (x.element > b->element)
        x = plan_cast(b, "head_cast", x, b->element);
    if (head.tied)
        plan_read_weights(b, 0);
    else
        plan_shard(b, head.features, x.width, head.all * x.width);
    (kernels == REMAT_FUSED ? chunked_loss : loss_of_chunks)(b, name, x, head.features);
}
