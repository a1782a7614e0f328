/* Products with weights, which ranks may share: whole or cut, of experts, in 8 bits, and with
 * adapters beside them; and tables of rows. */
#include "plan/build.h"

#include <math.h>
#include <stdio.h>

/* Its weights. */
static remat_base base_of(const plan_builder *b, plan_matrix m)
{
    if (!plan_is_frozen(b))
        return REMAT_TRAINED;
    return m.targets ? b->settings->lora.base : REMAT_FROZEN;
}

/* Of the last node: matrices of so many weights in 4 bits are made whole, one after the other,
 * forward and back. */
static void unpack(plan_builder *b, remat_base base, double count, double matrices)
{
    const double whole = b->element * count, moved = whole + plan_base_bytes(base, count, 0);
    if (base < REMAT_NF4)
        return;
    for (double i = 0; i < matrices; i++)
        plan_moves(b, REMAT_POINTWISE, moved, moved);
    plan_workspace(b, whole, whole);
}

/* ---- products in 8 bits ---- */

static bool in_float8(const plan_builder *b, plan_matrix m, double width, double features)
{
    enum { MULTIPLE = 16 }; /* that both libraries, and cuBLASLt, ask for */
    return b->settings->float8 && m.targets && fmod(width, MULTIPLE) == 0 &&
           fmod(features, MULTIPLE) == 0;
}

/* Bytes of a number of x as ranks send it. */
static double sent_number(const plan_builder *b, plan_matrix m, double width, double features)
{
    return in_float8(b, m, width, features) ? 1 : b->element;
}

/* Of the last node: its input, weights and the gradient of its result are cast, of so many numbers
 * each; the input once for all that read it. torchao: one pass for the largest, one that writes
 * both layouts, of weights one each way (torchao/testing/float8/roofline_utils.py, tensorwise). Of
 * Transformer Engine the scale is known: one pass writes both. */
static void cast_to_float8(plan_builder *b, bool first, double input, double weights, double output)
{
    const remat_float8 kind = b->settings->float8;
    const double number = b->element;
    const bool looks = kind < REMAT_FLOAT8_TE;
    const bool gathered = kind == REMAT_FLOAT8_TORCHAO_GATHER || kind == REMAT_FLOAT8_TE_WEIGHTS;
    for (unsigned i = 0; first && i < 1u + looks; i++)
        plan_forward(b, REMAT_POINTWISE, 0,
                     looks && i == 0 ? number * input : (number + 2) * input);
    for (unsigned i = 0; i < 1u + looks; i++)
        plan_backward(b, REMAT_POINTWISE, 1, 0,
                      looks && i == 0 ? number * output : (number + 2) * output);
    if (gathered) { /* by columns */
        plan_backward(b, REMAT_COPY, 1, 0, 2 * weights);
        return;
    }
    if (looks)
        plan_forward(b, REMAT_POINTWISE, 0, number * weights);
    plan_forward(b, REMAT_POINTWISE, 0, (number + (looks ? 1 : 2)) * weights);
    if (looks)
        plan_backward(b, REMAT_POINTWISE, 1, 0, (number + 1) * weights);
}

/* So many of them, each of rows of x. */
static plan_value product_in_float8(plan_builder *b, plan_matrix m, plan_value x, double rows,
                                    double features, double kept, double times)
{
    const bool keeps_input = b->settings->float8 < REMAT_FLOAT8_TE, first = b->cast != x.node;
    const double input = rows * x.width, weights = x.width * features, output = rows * features;
    const double here = x.rows * x.width; /* of these, cast before they are gathered */
    const double flops = 2 * input * features;
    plan_value y =
        plan_node(b, m.name, "linear_float8", &x, 1, kept, features, keeps_input ? PLAN_INPUTS : 0);
    b->float8 = true;
    for (double i = 0; i < times; i++) {
        plan_forward(b, REMAT_MATRIX, flops, input + weights + b->element * output);
        plan_backward(b, REMAT_MATRIX, 1, flops, output + weights + b->element * input);
        plan_backward(b, REMAT_MATRIX, 1, flops, output + input + b->element * weights);
    }
    b->float8 = false;
    cast_to_float8(b, first, here, times * weights, kept * features);
    b->cast = x.node;
    if (!keeps_input && first)
        plan_save(b, here);
    plan_workspace(b, (first ? here : 0) + (keeps_input ? weights : 0),
                   2 * kept * features + (keeps_input ? here + weights : 0));
    if (!b->error.status) {
        b->tensors[b->n_tensors - 1].float8 = true;
        b->kept[y.node] = b->products++ % 2 == 0;
    }
    return y;
}

/* Of so many rows of x, all ranks' where they are cut; the result has `kept` of them. Of frozen
 * weights the backward is the input's gradient alone. */
static plan_value product(plan_builder *b, plan_matrix m, plan_value x, double rows,
                          double features, double kept, remat_base base)
{
    const char *name = m.name;
    if (in_float8(b, m, x.width, features))
        return product_in_float8(b, m, x, rows, features, kept, 1);
    const bool trained = base == REMAT_TRAINED;
    const double flops = 2 * rows * x.width * features;
    const double bytes = b->element * (rows * x.width + x.width * features + rows * features);
    char cast[48];
    snprintf(cast, sizeof cast, "%.32s_cast", name);
    const plan_value w = plan_weights(b, name, x.width, features);
    const uint32_t read = b->read;
    b->read = 0;
    if (x.element > b->element && !(x.node & UINT32_C(0x80000000)))
        x = plan_cast(b, cast, x, b->element);
    b->read = read;
    plan_value y = plan_node(b, name, "linear", (const plan_value[]){x, w}, 1 + (w.rows > 0), kept,
                             features, trained ? PLAN_INPUTS : 0);
    b->row = plan_row_of(b, x.width, features);
    plan_computes(b, REMAT_MATRIX, trained ? 2 : 1, flops, bytes);
    b->row = 0;
    unpack(b, base, x.width * features, 1);
    if (!b->error.status)
        b->kept[y.node] = b->products++ % 2 == 0;
    return y;
}

static void add_bias(plan_builder *b, double rows, double features, double all)
{
    plan_shard(b, 1, features, all);
    b->read = 0;                                   /* with the weights, which the product reads */
    if (b->wide > b->element && !plan_is_fused(b)) /* autocast's copy of it */
        plan_moves(b, REMAT_POINTWISE, (b->wide + b->element) * features,
                   (b->wide + b->element) * features);
    if (!plan_is_frozen(b))
        plan_backward(b, plan_is_fused(b) ? REMAT_POINTWISE : REMAT_NORMALISATION, 1, 0,
                      b->element * rows * features);
}

/* Of each of this rank's experts, with as many rows. */
static plan_value expert_product(plan_builder *b, plan_matrix m, plan_value x, double features,
                                 double experts, remat_base base)
{
    const char *name = m.name;
    const double ranks = b->settings->expert > 1 ? b->settings->expert : 1;
    const double own = experts / ranks, rows = x.rows / own;
    const bool trained = base == REMAT_TRAINED;
    const double flops = 2 * rows * x.width * features;
    const double bytes = b->element * (rows * x.width + x.width * features + rows * features);
    plan_shard_of(b, own * features, x.width, experts * features * x.width, base);
    if (!b->error.status)
        b->tensors[b->n_tensors - 1].parts = b->settings->expert;
    if (in_float8(b, m, x.width, features))
        return product_in_float8(b, m, x, rows, features, x.rows, own);
    const plan_value w = plan_weights(b, name, x.width, own * features);
    plan_value y = plan_node(b, name, "linear", (const plan_value[]){x, w}, 1 + (w.rows > 0),
                             x.rows, features, trained ? PLAN_INPUTS : 0);
    for (double i = 0; i < own; i++)
        plan_computes(b, REMAT_MATRIX, trained ? 2 : 1, flops, bytes);
    unpack(b, base, x.width * features, own);
    if (!b->error.status)
        b->kept[y.node] = b->products++ % 2 == 0;
    return y;
}

/* ---- adapters ---- */

/* What one stands beside: a product with all rows of x. */
typedef struct adapter {
    double rows, inputs, outputs; /* the last two of all ranks */
    double experts;               /* 0: one matrix */
    bool sums;                    /* over ranks */
} adapter;

static void collect(plan_builder *b, double rows, double width, double number);

/* The two products; names: of each. */
static plan_value adapt_narrow(plan_builder *b, char names[2][48], plan_value x, double width,
                               const adapter *a)
{
    const double rank = b->settings->lora.rank;
    if (a->experts > 0) {
        x = expert_product(b, (plan_matrix){names[0], 0}, x, rank, a->experts, REMAT_TRAINED);
        return expert_product(b, (plan_matrix){names[1], 0}, x, width, a->experts, REMAT_TRAINED);
    }
    plan_shard_of(b, rank, x.width, rank * a->inputs, REMAT_TRAINED);
    x = product(b, (plan_matrix){names[0], 0}, x, a->rows, rank,
                a->sums ? a->rows / b->parts : a->rows, REMAT_TRAINED);
    if (a->sums)
        collect(b, a->rows, rank, b->element);
    plan_shard_of(b, width, rank, rank * a->outputs, REMAT_TRAINED);
    return product(b, (plan_matrix){names[1], 0}, x, x.rows, width, x.rows, REMAT_TRAINED);
}

/* y, and beside it what the adapter gives, where the matrix has one. */
static plan_value adapt(plan_builder *b, plan_matrix m, plan_value x, plan_value y, adapter a)
{
    char dropped[48], scaled[48], sum[48], narrow[2][48];
    const remat_lora *lora = &b->settings->lora;
    if (lora->rank == 0 || !(m.targets & lora->targets))
        return y;
    snprintf(dropped, sizeof dropped, "%.32s_dropped", m.name);
    snprintf(narrow[0], sizeof narrow[0], "%.32s_lora_a", m.name);
    snprintf(narrow[1], sizeof narrow[1], "%.32s_lora_b", m.name);
    snprintf(scaled, sizeof scaled, "%.32s_scaled", m.name);
    snprintf(sum, sizeof sum, "%.32s_sum", m.name);
    if (lora->dropout)
        x = plan_dropout(b, dropped, x);
    plan_value z = adapt_narrow(b, narrow, x, y.width, &a);
    if (!plan_is_fused(b)) {
        z = plan_pointwise(b, scaled, "mul", &z, 1, 0, 2, 2);
        return plan_add(b, sum, y, z);
    }
    return plan_pointwise(b, sum, "scaled_add", (const plan_value[]){y, z}, 2, 0, 3, 2);
}

/* ---- matrices ---- */

plan_value plan_linear(plan_builder *b, plan_matrix m, plan_value x, double features, bool bias)
{
    const remat_base base = base_of(b, m);
    plan_shard_of(b, features, x.width, features * x.width, base);
    plan_value y = product(b, m, x, x.rows, features, x.rows, base);
    if (bias)
        add_bias(b, x.rows, features, features);
    return adapt(b, m, x, y, (adapter){.rows = x.rows, .inputs = x.width, .outputs = features});
}

plan_value plan_linear_experts(plan_builder *b, plan_matrix m, plan_value x, double features,
                               double experts)
{
    const plan_value y = expert_product(b, m, x, features, experts, base_of(b, m));
    return adapt(b, m, x, y, (adapter){.experts = experts});
}

/* Of rows that are cut all are gathered, and again for the gradient of the weights unless they
 * stay. PyTorch gathers and scatters along the second dimension by way of a copy of the whole
 * (_functional_collectives.py: all_gather_tensor, reduce_scatter_tensor). What is scattered is the
 * sum of the gradients of all that read x: before its copy there are it and the one at hand. */
plan_value plan_linear_columns(plan_builder *b, plan_matrix m, plan_value x, plan_columns c)
{
    const double rows = x.rows * b->parts, bytes = b->element * rows * x.width;
    const double gathered = sent_number(b, m, x.width, c.features) * rows * x.width;
    const remat_base base = base_of(b, m);
    if (c.tied)
        plan_read_weights(b, 0);
    else
        plan_shard_of(b, c.features, x.width, c.all * x.width, base);
    plan_value y = product(b, m, x, rows, c.features, rows, base);
    if (c.bias)
        add_bias(b, rows, c.features, c.all);
    if (b->parts > 1) {
        plan_workspace(b, c.first && !c.kept ? 2 * gathered : gathered,
                       (c.first ? 2 * bytes : bytes) + (c.kept ? 0 : gathered));
        if (c.kept)
            plan_save(b, gathered);
    }
    if (c.first && b->parts > 1) {
        plan_send(b, REMAT_ALL_GATHER, false, gathered);
        if (!c.kept)
            plan_send(b, REMAT_ALL_GATHER, true, gathered);
        plan_send(b, REMAT_REDUCE_SCATTER, true, bytes);
    } else if (c.first) {
        plan_send(b, REMAT_ALL_REDUCE, true, bytes);
    }
    return adapt(b, m, x, y, (adapter){.rows = rows, .inputs = x.width, .outputs = c.all});
}

/* Of the last node, whose result is a sum over ranks; number: bytes of its gradient's as they are
 * gathered. */
static void collect(plan_builder *b, double rows, double width, double number)
{
    const double bytes = b->element * rows * width, gathered = number * rows * width;
    if (b->parts > 1) {
        plan_workspace(b, 2 * bytes, 2 * gathered);
        plan_send(b, REMAT_REDUCE_SCATTER, false, bytes);
        plan_send(b, REMAT_ALL_GATHER, true, gathered);
    } else {
        plan_send(b, REMAT_ALL_REDUCE, false, bytes);
    }
}

plan_value plan_linear_rows(plan_builder *b, plan_matrix m, plan_value x, double all,
                            double features, bool bias)
{
    const remat_base base = base_of(b, m);
    plan_shard_of(b, features, x.width, all * features, base);
    plan_value y = product(b, m, x, x.rows, features, x.rows / b->parts, base);
    if (bias)
        add_bias(b, y.rows, features, features);
    collect(b, x.rows, features, sent_number(b, m, x.width, features));
    return adapt(b, m, x, y,
                 (adapter){.rows = x.rows, .inputs = all, .outputs = features, .sums = true});
}

/* The gradient of the whole table is written. */
plan_value plan_embedding(plan_builder *b, const char *name, plan_value ids, double rows,
                          double width)
{
    return plan_embedding_rows(b, name, ids, rows, rows, width);
}

plan_value plan_embedding_rows(plan_builder *b, const char *name, plan_value ids, double rows,
                               double all, double width)
{
    const double bytes = 2 * b->wide * ids.rows * width;
    plan_shard(b, rows, width, all * width);
    plan_value y =
        plan_node(b, name, "embedding", &ids, 1, ids.rows / b->parts, width, PLAN_INPUTS);
    y = plan_element(b, y, b->wide);
    plan_forward(b, REMAT_GATHER, 0, bytes);
    if (!plan_is_frozen(b)) {
        plan_backward(b, REMAT_GATHER, 1, 0, bytes);
        plan_backward(b, REMAT_COPY, 1, 0, b->element * rows * width);
    }
    if (rows < all)
        collect(b, ids.rows, width, b->element);
    return y;
}
