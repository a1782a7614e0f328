#include "plan/build.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES_OF_A_UNIT = 96, TENSORS_OF_A_UNIT = 32, UNITS_BESIDE = 64 };

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
    b->cast = UINT32_MAX;
    b->cut = settings->tensor > 1 ? settings->tensor : 1;
    b->parts = settings->sequence_parallel ? b->cut : 1;
    b->input_room = layers + UNITS_BESIDE;
    b->inputs = model_arena_array(&b->arena, b->input_room, sizeof *b->inputs);
    b->weights = model_arena_array(&b->arena, b->input_room, sizeof *b->weights);
    b->tensors = model_arena_array(&b->arena, b->tensor_room, sizeof *b->tensors);
    if (b->nodes && b->unit && b->readers && b->numbers && b->sent && b->kept && b->inputs &&
        b->weights && b->tensors)
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
            b->operations++;
        }
}

/* What the gradients of each unit's weights take on this rank. */
static void charge_gradients(plan_builder *b)
{
    for (size_t i = 0; i < b->n_tensors; i++) {
        const remat_tensor *t = &b->tensors[i];
        if (t->base != REMAT_TRAINED)
            continue;
        const double bytes = fmin(b->wide, b->settings->gradient * (t->parts > 1 ? t->parts : 1));
        if (b->weights[t->unit] > 0)
            b->inputs[b->weights[t->unit] - 1].gradient_bytes.value +=
                bytes * (double)t->rows * (double)t->columns;
    }
    for (size_t k = 0; k < b->n_inputs; k++)
        b->inputs[k].gradient_bytes.value = ceil(b->inputs[k].gradient_bytes.value);
}

/* Nanoseconds are enough, and keep documents short. */
static void round_times(plan_builder *b)
{
    for (size_t v = 0; v < b->n_nodes; v++) {
        remat_node_spec *node = &b->nodes[v];
        node->forward_time.value = floor(node->forward_time.value * 1e3 + 0.5) / 1e3;
        node->backward_time.value = floor(node->backward_time.value * 1e3 + 0.5) / 1e3;
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
    charge_gradients(b);
    round_times(b);
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
    g->trained = b->trained;
    g->sent = b->sent;
    g->hole = (uint64_t)b->hole;
    g->kept = b->kept;
    /* Graphs of compiled blocks are launched as a whole. */
    g->host = plan_is_fused(b) ? 0 : 1e6 * b->device->host * b->operations;
    g->again = plan_is_fused(b) ? 0 : 1e6 * b->device->again * b->forward_operations;
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
    const uint32_t index = (uint32_t)b->n_inputs++; /* a handful beside the units' weights */
    b->inputs[index] = (remat_input_spec){.id = id, .bytes = bytes_of(b, rows * width * element)};
    return (plan_value){
        .node = index | UINT32_C(0x80000000), .rows = rows, .width = width, .element = element};
}

/* The graph input as autocast finds it. */
plan_value plan_image(plan_builder *b, const char *id, double rows, double width)
{
    const plan_value x = plan_input(b, id, rows, width, b->wide);
    return b->wide > b->element ? plan_cast(b, "image_cast", x, b->element) : x;
}

void plan_tensor(plan_builder *b, double rows, double columns)
{
    plan_shard(b, rows, columns, rows * columns);
}

static void add_shard(plan_builder *b, double rows, double columns, double whole, remat_base base)
{
    if (b->n_tensors == b->tensor_room) {
        fault(b);
        return;
    }
    b->tensors[b->n_tensors++] = (remat_tensor){
        .rows = (uint64_t)rows, .columns = (uint64_t)columns, .unit = b->at, .base = base};
    b->parameters += (uint64_t)whole;
    b->trained += base == REMAT_TRAINED ? (uint64_t)whole : 0;
    plan_read_weights(b, b->at);
}

/* The graph input that stands for the weights of a unit, counted from 1. */
static uint32_t weights_of(plan_builder *b, uint32_t unit)
{
    char id[24];
    if (b->weights[unit] > 0)
        return b->weights[unit];
    snprintf(id, sizeof id, "weights%u", unit);
    const char *copy = model_arena_string(&b->arena, id);
    if (!copy || b->n_inputs == b->input_room) {
        fault(b);
        return 0;
    }
    b->inputs[b->n_inputs++] =
        (remat_input_spec){.id = copy, .bytes = {0, true}, .gradient_bytes = {0, true}};
    b->weights[unit] = (uint32_t)b->n_inputs;
    return b->weights[unit];
}

void plan_read_weights(plan_builder *b, uint32_t unit)
{
    b->read = b->settings->weights && !b->error.status ? weights_of(b, unit) : 0;
}

void plan_constant(plan_builder *b, double rows, double columns)
{
    add_shard(b, rows, columns, rows * columns, REMAT_FROZEN);
}

void plan_shard(plan_builder *b, double rows, double columns, double whole)
{
    add_shard(b, rows, columns, whole, plan_is_frozen(b) ? REMAT_FROZEN : REMAT_TRAINED);
}

static const char *id_of(const plan_builder *b, plan_value x)
{
    return x.node & UINT32_C(0x80000000) ? b->inputs[x.node & ~UINT32_C(0x80000000)].id
                                         : b->nodes[x.node].id;
}

static const char **read_inputs(plan_builder *b, const plan_value *inputs, unsigned n)
{
    const char **ids = model_arena_array(&b->arena, n + 1, sizeof *ids);
    if (ids && b->read)
        ids[n] = b->inputs[b->read - 1].id;
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
                                    .n_inputs = n_inputs + (b->read > 0),
                                    .forward_time = {0, true},
                                    .backward_time = {0, true},
                                    .output_bytes = bytes_of(b, rows * width * b->element),
                                    .backward_uses_inputs = (flags & PLAN_INPUTS) != 0,
                                    .backward_uses_output = (flags & PLAN_OUTPUT) != 0,
                                    .in_place = (flags & PLAN_IN_PLACE) != 0};
    b->read = 0;
    return (plan_value){.node = v, .rows = rows, .width = width, .element = b->element};
}

static bool is_same(const remat_kernel *a, const remat_kernel *b)
{
    return a->kind == b->kind && a->precision == b->precision && a->backward == b->backward &&
           a->flops == b->flops && a->bytes == b->bytes && a->row == b->row;
}

static double microseconds(plan_builder *b, remat_kernel_class kind, bool backward, double flops,
                           double bytes)
{
    const remat_precision precision = b->float8 ? REMAT_FLOAT8 : b->precision;
    const remat_kernel kernel = {kind, precision, backward, flops, bytes, b->row};
    const double key = fmod(flops + 3 * bytes + 7 * (double)kind + 31 * backward, 61);
    plan_known *known = &b->known[key >= 0 ? (unsigned)key : 0];
    if (known->seconds == 0 || !is_same(&known->kernel, &kernel))
        *known = (plan_known){kernel, remat_kernel_seconds(b->device, &kernel)};
    return 1e6 * known->seconds;
}

void plan_forward(plan_builder *b, remat_kernel_class kind, double flops, double bytes)
{
    if (b->error.status)
        return;
    b->operations++;
    b->forward_operations++;
    b->nodes[b->n_nodes - 1].forward_time.value += microseconds(b, kind, false, flops, bytes);
}

void plan_backward(plan_builder *b, remat_kernel_class kind, unsigned times, double flops,
                   double bytes)
{
    if (b->error.status)
        return;
    b->operations += times;
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

bool plan_is_frozen(const plan_builder *b)
{
    return b->settings->lora.rank > 0;
}

void plan_workspace(plan_builder *b, double forward, double backward)
{
    if (b->error.status)
        return;
    remat_node_spec *node = &b->nodes[b->n_nodes - 1];
    node->forward_workspace_bytes = bytes_of(b, node->forward_workspace_bytes.value + forward);
    node->backward_workspace_bytes = bytes_of(b, node->backward_workspace_bytes.value + backward);
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

double plan_row_of(const plan_builder *b, double width, double features)
{
    double row = 16;
    while (row > 1 && (fmod(b->element * width, row) != 0 || fmod(b->element * features, row) != 0))
        row /= 2;
    return row;
}

plan_value plan_weights(plan_builder *b, const char *name, double rows, double columns)
{
    char id[48];
    if (!b->settings->autocast || b->read == 0)
        return none;
    snprintf(id, sizeof id, "%.32s_weights", name);
    plan_value w = plan_node(b, id, PLAN_AUTOCAST, NULL, 0, rows, columns, 0);
    plan_moves(b, REMAT_POINTWISE, (b->wide + b->element) * rows * columns,
               (b->wide + b->element) * rows * columns);
    return w;
}

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
    add_shard(b, own * features, x.width, experts * features * x.width, base);
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
    add_shard(b, rank, x.width, rank * a->inputs, REMAT_TRAINED);
    x = product(b, (plan_matrix){names[0], 0}, x, a->rows, rank,
                a->sums ? a->rows / b->parts : a->rows, REMAT_TRAINED);
    if (a->sums)
        collect(b, a->rows, rank, b->element);
    add_shard(b, width, rank, rank * a->outputs, REMAT_TRAINED);
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
    add_shard(b, features, x.width, features * x.width, base);
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
        add_shard(b, c.features, x.width, c.all * x.width, base);
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
    add_shard(b, features, x.width, all * features, base);
    plan_value y = product(b, m, x, x.rows, features, x.rows / b->parts, base);
    if (bias)
        add_bias(b, y.rows, features, features);
    collect(b, x.rows, features, sent_number(b, m, x.width, features));
    return adapt(b, m, x, y,
                 (adapter){.rows = x.rows, .inputs = all, .outputs = features, .sums = true});
}

plan_value plan_layer_norm(plan_builder *b, const char *name, plan_value x)
{
    plan_tensor(b, 1, x.width);
    if (!b->plain)
        plan_tensor(b, 1, x.width);
    return plan_bare_norm(b, name, x, NULL, 0);
}

plan_value plan_bare_norm(plan_builder *b, const char *name, plan_value x, const plan_value *by,
                          unsigned n)
{
    const double from = x.element * x.rows * x.width, to = b->wide * x.rows * x.width;
    const plan_value inputs[] = {x, n ? *by : x};
    plan_value y = plan_node(b, name, "layer_norm", inputs, 1 + n, x.rows, x.width, PLAN_INPUTS);
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
    const double narrow = fmin(x.element, y.element), wide = fmax(x.element, y.element);
    plan_value z = plan_pointwise(b, name, "add", (const plan_value[]){x, y}, 2, 0, 3, 0);
    if (narrow < wide && !plan_is_fused(b))
        plan_backward(b, REMAT_POINTWISE, 1, 0, (narrow + wide) * x.rows * x.width);
    return z;
}

/* Which numbers are dropped is found again from the seed. */
plan_value plan_dropout_add(plan_builder *b, const char *dropout, const char *add, plan_value y,
                            plan_value x)
{
    if (b->undropped)
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

plan_value plan_concat(plan_builder *b, const char *name, const plan_value *inputs,
                       unsigned n_inputs, double width)
{
    const double bytes = b->element * inputs[0].rows * width;
    plan_value y = plan_node(b, name, "concat", inputs, n_inputs, inputs[0].rows, width, 0);
    plan_moves(b, REMAT_COPY, 2 * bytes, 2 * bytes);
    return y;
}

plan_value plan_columns_of(plan_value x, double width)
{
    x.width = width;
    return x;
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
    plan_forward(b, REMAT_GATHER, 0, bytes);
    if (!plan_is_frozen(b)) {
        plan_backward(b, REMAT_GATHER, 1, 0, bytes);
        plan_backward(b, REMAT_COPY, 1, 0, b->element * rows * width);
    }
    if (rows < all)
        collect(b, ids.rows, width, b->element);
    return y;
}
