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

void plan_shard_of(plan_builder *b, double rows, double columns, double whole, remat_base base)
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
    plan_shard_of(b, rows, columns, rows * columns, REMAT_FROZEN);
}

void plan_shard(plan_builder *b, double rows, double columns, double whole)
{
    plan_shard_of(b, rows, columns, whole, plan_is_frozen(b) ? REMAT_FROZEN : REMAT_TRAINED);
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
