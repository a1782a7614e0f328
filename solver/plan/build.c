#include "plan/build.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES_OF_A_UNIT = 64, TENSORS_OF_A_UNIT = 32, UNITS_BESIDE = 64 };

static const plan_value none = {.node = UINT32_MAX};

static void fault(plan_builder *b)
{
    if (!b->error.status)
        (void)remat_fail_memory(&b->error);
}

remat_status plan_begin(plan_builder *b, const remat_network_settings *settings,
                        const remat_device *device, uint32_t layers, remat_error *error)
{
    *b = (plan_builder){.device = device, .settings = settings, .precision = settings->precision};
    b->element = (double)remat_precision_bytes(b->precision);
    b->node_room = (size_t)NODES_OF_A_UNIT * (layers + UNITS_BESIDE);
    b->tensor_room = (size_t)TENSORS_OF_A_UNIT * (layers + UNITS_BESIDE);
    b->nodes = model_arena_array(&b->arena, b->node_room, sizeof *b->nodes);
    b->unit = model_arena_array(&b->arena, b->node_room, sizeof *b->unit);
    b->readers = model_arena_array(&b->arena, b->node_room, sizeof *b->readers);
    b->numbers = model_arena_array(&b->arena, b->node_room, sizeof *b->numbers);
    b->sent = model_arena_array(&b->arena, b->node_room, sizeof *b->sent);
    b->kept = model_arena_array(&b->arena, b->node_room, sizeof *b->kept);
    b->wide = settings->autocast ? 4 : b->element;
    b->cut = settings->tensor > 1 ? settings->tensor : 1;
    b->parts = settings->sequence_parallel ? b->cut : 1;
    b->inputs = model_arena_array(&b->arena, 4, sizeof *b->inputs);
    b->tensors = model_arena_array(&b->arena, b->tensor_room, sizeof *b->tensors);
    if (b->nodes && b->unit && b->readers && b->numbers && b->sent && b->kept && b->inputs &&
        b->tensors)
        return REMAT_OK;
    model_arena_clear(&b->arena);
    return remat_fail_memory(error);
}

/* Whoever reads a value adds its share to the gradient: each but the first is one more pass over
 * three values of that size. */
static void charge_sums(plan_builder *b)
{
    for (size_t v = 0; v < b->n_nodes; v++)
        for (uint32_t i = 1; i < b->readers[v]; i++) {
            const double bytes = 3 * b->nodes[v].output_bytes.value;
            const remat_kernel kernel = {.kind = REMAT_POINTWISE, .backward = true, .bytes = bytes};
            b->nodes[v].backward_time.value += 1e6 * remat_kernel_seconds(b->device, &kernel);
        }
}

remat_status plan_finish(plan_builder *b, const char *name, remat_network_graph **ret_graph,
                         remat_error *error)
{
    remat_network_graph *g = b->error.status ? NULL : calloc(1, sizeof *g);
    char *copy = g ? model_arena_string(&b->arena, name) : NULL;
    if (!copy) {
        fault(b);
        if (error)
            *error = b->error;
        free(g);
        model_arena_clear(&b->arena);
        return b->error.status;
    }
    charge_sums(b);
    g->spec = (remat_profile_spec){.format = "remat-profile/1",
                                   .name = copy,
                                   .time_unit = "us",
                                   .inputs = b->inputs,
                                   .n_inputs = b->n_inputs,
                                   .nodes = b->nodes,
                                   .n_nodes = b->n_nodes};
    g->unit = b->unit;
    g->n_units = b->at + 1;
    g->tensors = b->tensors;
    g->n_tensors = b->n_tensors;
    g->parameters = b->parameters;
    g->sent = b->sent;
    g->kept = b->kept;
    g->memory = b->arena.blocks;
    *ret_graph = g;
    return REMAT_OK;
}

void remat_network_graph_free(remat_network_graph *graph)
{
    if (!graph)
        return;
    model_arena arena = {graph->memory};
    model_arena_clear(&arena);
    free(graph);
}

/* ---- pieces ---- */

void plan_unit(plan_builder *b, const char *format, uint32_t index)
{
    if (b->n_nodes > 0)
        b->at++;
    b->products = 0;
    snprintf(b->scope, sizeof b->scope, "%s%u.", format, index);
    if (!format[0])
        b->scope[0] = '\0';
}

static remat_number bytes_of(plan_builder *b, double bytes)
{
    if (bytes >= (double)REMAT_MAX_BYTES && !b->error.status)
        (void)remat_fail(&b->error, REMAT_TOO_LARGE, "batch",
                         "at batch %llu a value of \"%s\" takes %.3g bytes, which is past 2^53",
                         (unsigned long long)b->settings->batch, b->name ? b->name : "the input",
                         bytes);
    return (remat_number){bytes, true};
}

plan_value plan_input(plan_builder *b, const char *id, double rows, double width, double element)
{
    const uint32_t index = (uint32_t)b->n_inputs++;
    b->inputs[index] = (remat_input_spec){.id = id, .bytes = bytes_of(b, rows * width * element)};
    return (plan_value){
        .node = index | UINT32_C(0x80000000), .rows = rows, .width = width, .element = element};
}

void plan_tensor(plan_builder *b, double rows, double columns)
{
    plan_shard(b, rows, columns, rows * columns);
}

void plan_shard(plan_builder *b, double rows, double columns, double whole)
{
    if (b->n_tensors == b->tensor_room) {
        fault(b);
        return;
    }
    b->tensors[b->n_tensors++] = (remat_tensor){(uint64_t)rows, (uint64_t)columns, b->at, 0};
    b->parameters += (uint64_t)whole;
}

static const char *id_of(const plan_builder *b, plan_value x)
{
    return x.node & UINT32_C(0x80000000) ? b->inputs[x.node & ~UINT32_C(0x80000000)].id
                                         : b->nodes[x.node].id;
}

static const char **read_inputs(plan_builder *b, const plan_value *inputs, unsigned n)
{
    const char **ids = model_arena_array(&b->arena, n, sizeof *ids);
    for (unsigned i = 0; ids && i < n; i++) {
        ids[i] = id_of(b, inputs[i]);
        if (inputs[i].node < b->n_nodes)
            b->readers[inputs[i].node]++;
    }
    return ids;
}

plan_value plan_node(plan_builder *b, const char *name, const char *op, const plan_value *inputs,
                     unsigned n_inputs, double rows, double width, unsigned flags)
{
    char text[64];
    snprintf(text, sizeof text, "%s%s", b->scope, name);
    if (b->n_nodes == b->node_room)
        fault(b);
    for (unsigned i = 0; i < n_inputs; i++)
        if (inputs[i].node == UINT32_MAX)
            fault(b);
    char *id = b->error.status ? NULL : model_arena_string(&b->arena, text);
    b->name = id;
    const char **ids = id ? read_inputs(b, inputs, n_inputs) : NULL;
    if (!ids) {
        fault(b);
        return none;
    }
    const uint32_t v = (uint32_t)b->n_nodes++;
    b->unit[v] = b->at;
    b->numbers[v] = rows * width;
    b->nodes[v] = (remat_node_spec){.id = id,
                                    .op = op,
                                    .inputs = ids,
                                    .n_inputs = n_inputs,
                                    .forward_time = {0, true},
                                    .backward_time = {0, true},
                                    .output_bytes = bytes_of(b, rows * width * b->element),
                                    .backward_uses_inputs = (flags & PLAN_INPUTS) != 0,
                                    .backward_uses_output = (flags & PLAN_OUTPUT) != 0,
                                    .in_place = (flags & PLAN_IN_PLACE) != 0};
    return (plan_value){.node = v, .rows = rows, .width = width, .element = b->element};
}

static double microseconds(const plan_builder *b, remat_kernel_class kind, bool backward,
                           double flops, double bytes)
{
    const remat_kernel kernel = {kind, b->precision, backward, flops, bytes};
    return 1e6 * remat_kernel_seconds(b->device, &kernel);
}

void plan_forward(plan_builder *b, remat_kernel_class kind, double flops, double bytes)
{
    if (!b->error.status)
        b->nodes[b->n_nodes - 1].forward_time.value += microseconds(b, kind, false, flops, bytes);
}

void plan_backward(plan_builder *b, remat_kernel_class kind, unsigned times, double flops,
                   double bytes)
{
    if (!b->error.status)
        b->nodes[b->n_nodes - 1].backward_time.value +=
            times * microseconds(b, kind, true, flops, bytes);
}

void plan_moves(plan_builder *b, remat_kernel_class kind, double forward_bytes,
                double backward_bytes)
{
    plan_forward(b, kind, 0, forward_bytes);
    plan_backward(b, kind, 1, 0, backward_bytes);
}

void plan_computes(plan_builder *b, remat_kernel_class kind, unsigned times, double flops,
                   double bytes)
{
    plan_forward(b, kind, flops, bytes);
    plan_backward(b, kind, times, flops, bytes);
}

void plan_save(plan_builder *b, double bytes)
{
    if (!b->error.status)
        b->nodes[b->n_nodes - 1].saved_bytes = bytes_of(b, bytes);
}

plan_value plan_element(plan_builder *b, plan_value y, double bytes)
{
    y.element = bytes;
    if (!b->error.status)
        b->nodes[b->n_nodes - 1].output_bytes = bytes_of(b, b->numbers[b->n_nodes - 1] * bytes);
    return y;
}

bool plan_is_fused(const plan_builder *b)
{
    return b->settings->kernels != REMAT_EAGER;
}

void plan_workspace(plan_builder *b, double forward, double backward)
{
    if (b->error.status)
        return;
    remat_node_spec *node = &b->nodes[b->n_nodes - 1];
    node->forward_workspace_bytes = bytes_of(b, forward);
    node->backward_workspace_bytes = bytes_of(b, backward);
}

void plan_send(plan_builder *b, remat_collective kind, bool backward, double bytes)
{
    if (b->error.status || b->cut <= 1)
        return;
    const double us =
        1e6 * remat_collective_seconds(b->settings->interconnect, kind, (uint32_t)b->cut, 1, bytes);
    remat_node_spec *node = &b->nodes[b->n_nodes - 1];
    *(backward ? &node->backward_time.value : &node->forward_time.value) += us;
    b->sent[b->n_nodes - 1] += us;
}

void plan_send_experts(plan_builder *b, double bytes)
{
    const uint32_t ranks = b->settings->expert;
    if (b->error.status || ranks <= 1)
        return;
    const double us = 1e6 * remat_collective_seconds(b->settings->interconnect, REMAT_ALL_TO_ALL,
                                                     ranks, 1, bytes);
    b->nodes[b->n_nodes - 1].forward_time.value += us;
    b->nodes[b->n_nodes - 1].backward_time.value += us;
    b->sent[b->n_nodes - 1] += 2 * us;
}

/* ---- shared operations ---- */

/* Of so many rows of x, all ranks' where they are cut; the result has `kept` of them. */
static plan_value product(plan_builder *b, const char *name, plan_value x, double rows,
                          double features, double kept)
{
    const double flops = 2 * rows * x.width * features;
    const double bytes = b->element * (rows * x.width + x.width * features + rows * features);
    char cast[48];
    snprintf(cast, sizeof cast, "%.32s_cast", name);
    if (x.element > b->element && !(x.node & UINT32_C(0x80000000)))
        x = plan_cast(b, cast, x, b->element);
    plan_value y = plan_node(b, name, "linear", &x, 1, kept, features, PLAN_INPUTS);
    plan_computes(b, REMAT_MATRIX, 2, flops, bytes); /* of the input and of the weights */
    if (!b->error.status)
        b->kept[y.node] = b->products++ % 2 == 0;
    return y;
}

static void add_bias(plan_builder *b, double rows, double features, double all)
{
    plan_shard(b, 1, features, all);
    plan_backward(b, REMAT_POINTWISE, 1, 0, b->element * rows * features);
}

plan_value plan_linear(plan_builder *b, const char *name, plan_value x, double features, bool bias)
{
    plan_tensor(b, features, x.width);
    plan_value y = product(b, name, x, x.rows, features, x.rows);
    if (bias)
        add_bias(b, x.rows, features, features);
    return y;
}

plan_value plan_linear_experts(plan_builder *b, const char *name, plan_value x, double features,
                               double experts)
{
    const double ranks = b->settings->expert > 1 ? b->settings->expert : 1;
    const double own = experts / ranks, rows = x.rows / own;
    const double flops = 2 * rows * x.width * features;
    const double bytes = b->element * (rows * x.width + x.width * features + rows * features);
    plan_shard(b, own * features, x.width, experts * features * x.width);
    if (!b->error.status)
        b->tensors[b->n_tensors - 1].parts = b->settings->expert;
    plan_value y = plan_node(b, name, "linear", &x, 1, x.rows, features, PLAN_INPUTS);
    for (double i = 0; i < own; i++)
        plan_computes(b, REMAT_MATRIX, 2, flops, bytes);
    if (!b->error.status)
        b->kept[y.node] = b->products++ % 2 == 0;
    return y;
}

/* Of rows that are cut all are gathered, and again for the gradient of the weights. */
plan_value plan_linear_columns(plan_builder *b, const char *name, plan_value x, plan_columns c)
{
    const double rows = x.rows * b->parts, bytes = b->element * rows * x.width;
    if (!c.tied)
        plan_shard(b, c.features, x.width, c.all * x.width);
    plan_value y = product(b, name, x, rows, c.features, rows);
    if (c.bias)
        add_bias(b, rows, c.features, c.all);
    if (b->parts > 1)
        plan_workspace(b, bytes, 2 * bytes);
    if (c.first && b->parts > 1) {
        plan_send(b, REMAT_ALL_GATHER, false, bytes);
        plan_send(b, REMAT_ALL_GATHER, true, bytes);
        plan_send(b, REMAT_REDUCE_SCATTER, true, bytes);
    } else if (c.first) {
        plan_send(b, REMAT_ALL_REDUCE, true, bytes);
    }
    return y;
}

/* Of the last node, whose result is a sum over ranks. */
static void collect(plan_builder *b, double rows, double width)
{
    const double bytes = b->element * rows * width;
    if (b->parts > 1) {
        plan_workspace(b, bytes, bytes);
        plan_send(b, REMAT_REDUCE_SCATTER, false, bytes);
        plan_send(b, REMAT_ALL_GATHER, true, bytes);
    } else {
        plan_send(b, REMAT_ALL_REDUCE, false, bytes);
    }
}

plan_value plan_linear_rows(plan_builder *b, const char *name, plan_value x, double all,
                            double features, bool bias)
{
    plan_shard(b, features, x.width, all * features);
    plan_value y = product(b, name, x, x.rows, features, x.rows / b->parts);
    if (bias)
        add_bias(b, y.rows, features, features);
    collect(b, x.rows, features);
    return y;
}

plan_value plan_layer_norm(plan_builder *b, const char *name, plan_value x)
{
    const double from = x.element * x.rows * x.width, to = b->wide * x.rows * x.width;
    plan_tensor(b, 1, x.width);
    if (!b->plain)
        plan_tensor(b, 1, x.width);
    plan_value y = plan_node(b, name, "layer_norm", &x, 1, x.rows, x.width, PLAN_INPUTS);
    y = plan_element(b, y, b->wide);
    plan_save(b, 8 * x.rows); /* mean and deviation, in float32 */
    plan_moves(b, REMAT_NORMALISATION, from + to, 2 * from + to);
    return y;
}

plan_value plan_pointwise(plan_builder *b, const char *name, const char *op,
                          const plan_value *inputs, unsigned n_inputs, unsigned flags,
                          double forward_passes, double backward_passes)
{
    double element = 0;
    for (unsigned i = 0; i < n_inputs; i++)
        element = inputs[i].element > element ? inputs[i].element : element;
    const double bytes = element * inputs[0].rows * inputs[0].width;
    plan_value y = plan_node(b, name, op, inputs, n_inputs, inputs[0].rows, inputs[0].width, flags);
    y = plan_element(b, y, element);
    y.channels = inputs[0].channels;
    y.height = inputs[0].height;
    y.wide = inputs[0].wide;
    plan_forward(b, REMAT_POINTWISE, 0, forward_passes * bytes);
    if (backward_passes > 0)
        plan_backward(b, REMAT_POINTWISE, 1, 0, backward_passes * bytes);
    return y;
}

/* The mask is kept, a byte for each number. */
plan_value plan_dropout(plan_builder *b, const char *name, plan_value x)
{
    const double mask = 1 / x.element;
    plan_value y = plan_pointwise(b, name, "dropout", &x, 1, 0, 2 + mask, 2 + mask);
    plan_save(b, x.rows * x.width);
    return y;
}

/* Both inputs get the gradient as it is. */
plan_value plan_add(plan_builder *b, const char *name, plan_value x, plan_value y)
{
    return plan_pointwise(b, name, "add", (const plan_value[]){x, y}, 2, 0, 3, 0);
}

/* Which numbers are dropped is found again from the seed. */
plan_value plan_dropout_add(plan_builder *b, const char *dropout, const char *add, plan_value y,
                            plan_value x)
{
    if (b->plain)
        return plan_add(b, add, y, x);
    if (!plan_is_fused(b))
        return plan_add(b, add, plan_dropout(b, dropout, y), x);
    return plan_pointwise(b, add, "dropout_add", (const plan_value[]){y, x}, 2, 0, 3, 2);
}

plan_value plan_copy(plan_builder *b, const char *name, plan_value x)
{
    const double bytes = x.element * x.rows * x.width;
    plan_value y = plan_node(b, name, "copy", &x, 1, x.rows, x.width, 0);
    y = plan_element(b, y, x.element);
    plan_moves(b, REMAT_COPY, 2 * bytes, 2 * bytes);
    return y;
}

plan_value plan_cast(plan_builder *b, const char *name, plan_value x, double to)
{
    const double moved = x.rows * x.width * (x.element + to);
    plan_value y = plan_node(b, name, "cast", &x, 1, x.rows, x.width, 0);
    plan_moves(b, REMAT_POINTWISE, moved, moved);
    return plan_element(b, y, to);
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
    plan_moves(b, REMAT_GATHER, bytes, bytes);
    plan_backward(b, REMAT_COPY, 1, 0, b->element * rows * width);
    if (rows < all)
        collect(b, ids.rows, width);
    return y;
}

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

/* One kernel (Dao et al. 2022): of the scores one number a row is kept; the backward makes them
 * again, with five products for the forward's two. */
static plan_value fused_attention(plan_builder *b, const plan_value *qkv, unsigned n,
                                  const plan_heads *h)
{
    const double width = n == 1 ? qkv[0].width / 3 : qkv[0].width, rows = qkv[0].rows;
    const double own = rows * width, others = n == 1 ? own : qkv[1].rows * qkv[1].width;
    const double flops = 4 * own * h->time * (h->causal ? 0.5 : 1);
    plan_value y =
        plan_node(b, "attention", "attention", qkv, n, rows, width, PLAN_INPUTS | PLAN_OUTPUT);
    plan_save(b, 4 * rows * h->heads);
    if (!b->error.status)
        b->kept[y.node] = true;
    plan_forward(b, REMAT_ATTENTION, flops, b->element * (2 * own + 2 * others));
    plan_backward(b, REMAT_ATTENTION, 1, 2.5 * flops, b->element * (4 * own + 4 * others));
    go_around(b, 2 * b->element * others);
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

static plan_value eager_attention(plan_builder *b, const plan_value qkv[3], const plan_heads *h)
{
    const double rows = qkv[0].rows * h->heads;
    const double flops = 2 * rows * h->time * h->head;
    plan_value x = scores(b, "scores", qkv, rows, h->time, flops);
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
    return scores(b, "attention", (const plan_value[]){p, qkv[2]}, qkv[0].rows, qkv[0].width,
                  flops);
}

plan_value plan_attention(plan_builder *b, plan_value q, plan_value k, plan_value v,
                          const plan_heads *h)
{
    const plan_value qkv[3] = {q, k, v};
    plan_value y =
        b->settings->eager_attention ? eager_attention(b, qkv, h) : fused_attention(b, qkv, 3, h);
    return plan_is_fused(b) ? y : plan_copy(b, "merge", y);
}

plan_value plan_attention_of_thirds(plan_builder *b, plan_value whole, const plan_heads *h)
{
    static const char *const names[] = {"q", "k", "v"};
    const double width = whole.width / 3, bytes = b->element * whole.rows * width;
    plan_value part[3];
    if (plan_is_fused(b) && !b->settings->eager_attention)
        return fused_attention(b, &whole, 1, h);
    /* views of a third each, laid out by heads */
    for (unsigned i = 0; i < 3; i++) {
        part[i] = plan_node(b, names[i], "permute_copy", &whole, 1, whole.rows, width, 0);
        plan_moves(b, REMAT_COPY, 2 * bytes, 2 * bytes);
    }
    return plan_attention(b, part[0], part[1], part[2], h);
}

void plan_cross_entropy(plan_builder *b, plan_value logits)
{
    const double number = 4, bytes = number * logits.rows * logits.width;
    plan_value x = logits;
    if (logits.element < number)
        x = plan_cast(b, "float", logits, number);
    plan_value p =
        plan_node(b, "log_softmax", "log_softmax", &x, 1, logits.rows, logits.width, PLAN_OUTPUT);
    p = plan_element(b, p, number);
    plan_moves(b, REMAT_NORMALISATION, 2 * bytes, 3 * bytes);
    for (unsigned i = 0; i < 3; i++)
        plan_send(b, REMAT_ALL_REDUCE, false, number * logits.rows);
    const plan_value ends[] = {p, plan_input(b, "labels", logits.rows, 1, 8)};
    plan_node(b, "loss", "nll_loss", ends, 2, 0, 1, PLAN_INPUTS);
    plan_forward(b, REMAT_GATHER, 0, number * logits.rows);
    plan_backward(b, REMAT_COPY, 1, 0, bytes);
}

/* As Liger's kernel does it (liger_kernel/ops/fused_linear_cross_entropy.py): so many rows at a
 * time that logits take about as much as x, with the gradients of x and of the weights made at once
 * and kept for the backward, which only scales them. */
static void chunked_loss(plan_builder *b, const char *name, plan_value x, double features)
{
    const double pieces = ceil(features / x.width);
    const double rows = fmin(x.rows, exp2(ceil(log2(ceil(x.rows / pieces)))));
    const double logits = rows * features, weights = x.width * features;
    const double flops = 2 * rows * weights,
                 moved = b->element * (rows * x.width + weights + logits);
    const plan_value ends[] = {x, plan_input(b, "labels", x.rows, 1, 8)};
    plan_node(b, name, "linear_cross_entropy", ends, 2, 0, 1, 0);
    for (double row = 0; row < x.rows && !b->error.status; row += rows) {
        for (unsigned i = 0; i < 3; i++)
            plan_forward(b, REMAT_MATRIX, flops, moved);
        plan_forward(b, REMAT_NORMALISATION, 0, 2 * b->element * logits);
    }
    plan_save(b, b->element * (x.rows * x.width + weights));
    plan_workspace(b, (b->element + 4) * logits, 0);
    plan_backward(b, REMAT_POINTWISE, 1, 0, 2 * b->element * x.rows * x.width);
}

void plan_head(plan_builder *b, const char *name, plan_value x, plan_columns head)
{
    if (b->settings->kernels != REMAT_FUSED || b->cut > 1) {
        plan_cross_entropy(b, plan_linear_columns(b, name, x, head));
        return;
    }
    if (!head.tied)
        plan_shard(b, head.features, x.width, head.all * x.width);
    if (x.element > b->element)
        x = plan_cast(b, "head_cast", x, b->element);
    chunked_loss(b, name, x, head.features);
}
