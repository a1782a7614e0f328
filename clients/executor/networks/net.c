/* Building networks: shapes, parameters, states. */
#include "net.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_NUMBERS (UINT64_C(1) << 40) /* of one value */
#define MOST_OF_ONE (UINT64_C(1) << 31)  /* of one example of it: what BLAS can count */

static const net_tensor no_tensor = {.value = NET_NONE};

/* ---- failing and growing ---- */

static bool failed(const net_graph *net)
{
    return net->error.status != REMAT_OK;
}

static bool grow(net_graph *net, void **items, uint32_t n, uint32_t *room, size_t size)
{
    if (n < *room)
        return true;
    uint32_t more = *room ? 2 * *room : 32;
    void *grown = realloc(*items, more * size);
    if (!grown) {
        (void)remat_fail_memory(&net->error);
        return false;
    }
    *items = grown;
    *room = more;
    return true;
}

/* ---- parts ---- */

void net_begin(net_graph *net, const char *name)
{
    *net = (net_graph){.generator = NET_NONE};
    snprintf(net->name, sizeof net->name, "%s", name);
}

void net_clear(net_graph *net)
{
    for (uint32_t v = 0; v < net->n_nodes; v++) {
        free(net->nodes[v].inputs);
        free(net->nodes[v].summed);
    }
    free(net->nodes);
    free(net->inputs);
    free(net->states);
    free(net->parameters);
    *net = (net_graph){0};
}

void net_scope(net_graph *net, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(net->scope, sizeof net->scope, format, arguments);
    va_end(arguments);
}

uint32_t net_mark(const net_graph *net)
{
    return net->next;
}

void net_reuse(net_graph *net, uint32_t mark, uint32_t lane)
{
    net->next = mark;
    net->lane = lane;
}

/* The next parameter of a node: a new one, or one that is used again. */
static void parameter(net_graph *net, net_node *node, size_t count, float mean, float deviation)
{
    if (net->next == net->n_parameters) {
        if (!grow(net, (void **)&net->parameters, net->n_parameters, &net->parameter_room,
                  sizeof *net->parameters))
            return;
        net->parameters[net->n_parameters++] =
            (net_parameter){.count = count, .lanes = 1, .mean = mean, .deviation = deviation};
    }
    net_parameter *used = &net->parameters[net->next];
    if (used->count != count)
        (void)remat_fail(&net->error, REMAT_INVALID, node->id,
                         "\"%s\" wants a parameter of %zu numbers where %zu are shared", node->id,
                         count, used->count);
    used->lanes = net->lane >= used->lanes ? net->lane + 1 : used->lanes;
    node->parameters[node->n_parameters++] = net->next++;
}

static uint32_t state(net_graph *net, net_kind kind, const char *id, uint64_t bytes)
{
    if (!grow(net, (void **)&net->states, net->n_states, &net->state_room, sizeof *net->states))
        return NET_NONE;
    net_state *made = &net->states[net->n_states];
    *made = (net_state){.kind = kind, .bytes = bytes};
    snprintf(made->id, sizeof made->id, "%s", id);
    return net->n_states++;
}

static net_tensor input(net_graph *net, const char *id, net_input_kind kind,
                        const uint32_t shape[4], uint32_t range)
{
    if (failed(net) ||
        !grow(net, (void **)&net->inputs, net->n_inputs, &net->input_room, sizeof *net->inputs))
        return no_tensor;
    net_input *made = &net->inputs[net->n_inputs];
    *made = (net_input){
        .kind = kind, .n = shape[0], .c = shape[1], .h = shape[2], .w = shape[3], .range = range};
    snprintf(made->id, sizeof made->id, "%s", id);
    return (net_tensor){.value = NET_INPUT | net->n_inputs++,
                        .n = shape[0],
                        .c = shape[1],
                        .h = shape[2],
                        .w = shape[3],
                        .of = shape[1]};
}

net_tensor net_image(net_graph *net, const char *id, uint32_t n, uint32_t c, uint32_t h, uint32_t w)
{
    return input(net, id, NET_IMAGE, (const uint32_t[4]){n, c, h, w}, 0);
}

net_tensor net_image_part(net_graph *net, uint32_t part, uint32_t first, uint32_t n, uint32_t c,
                          uint32_t size)
{
    char id[24] = "image";
    if (part > 0)
        snprintf(id, sizeof id, "image.%u", part);
    net_tensor x = net_image(net, id, n, c, size, size);
    if (!failed(net))
        net->inputs[net->n_inputs - 1].first = first;
    return x;
}

net_tensor net_ids(net_graph *net, const char *id, uint32_t n, uint32_t range)
{
    return input(net, id, NET_IDS, (const uint32_t[4]){n, 1, 1, 1}, range);
}

net_tensor net_slice(net_graph *net, net_tensor x, uint32_t from, uint32_t c)
{
    if (!failed(net) && (from > x.c || c > x.c - from || c == 0))
        (void)remat_fail(&net->error, REMAT_INVALID, NULL, "channels %u to %u of %u do not exist",
                         from, from + c, x.c);
    x.from += from;
    x.c = c;
    return x;
}

net_tensor net_rows(net_graph *net, net_tensor x, uint32_t n)
{
    if (!failed(net) && (x.h != 1 || x.w != 1 || x.c != x.of || n == 0 || x.n % n))
        (void)remat_fail(&net->error, REMAT_INVALID, NULL, "%u rows cannot be seen as %u", x.n, n);
    if (failed(net))
        return no_tensor;
    x.c = x.of = x.c * (x.n / n);
    x.n = n;
    return x;
}

/* Whether a node reads parts of values as well. */
static bool reads_parts(net_kind kind)
{
    return kind == NET_CONV || kind == NET_LINEAR || kind == NET_CONCAT;
}

static bool check_shapes(net_graph *net, net_node *node)
{
    const net_tensor y = node->output;
    uint64_t plane = (uint64_t)y.h * y.w;
    uint64_t one = plane < MOST_OF_ONE ? plane * y.c : plane;
    uint64_t numbers = one < MOST_OF_ONE ? one * y.n : MOST_NUMBERS;
    if (numbers == 0)
        (void)remat_fail(&net->error, REMAT_INVALID, "image",
                         "\"%s\" would have no output: the batch or the image is too small for "
                         "this network",
                         node->id);
    else if (numbers >= MOST_NUMBERS)
        (void)remat_fail(&net->error, REMAT_TOO_LARGE, "batch",
                         "the output of \"%s\" would have more than 2^40 numbers, or 2^31 of one "
                         "example",
                         node->id);
    for (uint32_t i = 0; i < node->n_inputs && !failed(net); i++)
        if (node->inputs[i].c != node->inputs[i].of && !reads_parts(node->kind))
            (void)remat_fail(&net->error, REMAT_INVALID, NULL, "\"%s\" cannot read part of a value",
                             node->id);
    return !failed(net);
}

/* A node with its inputs; its output has the shape of the first one. NULL: a fault. */
static net_node *node(net_graph *net, net_kind kind, const net_tensor *inputs, uint32_t n_inputs)
{
    if (failed(net) ||
        !grow(net, (void **)&net->nodes, net->n_nodes, &net->node_room, sizeof *net->nodes))
        return NULL;
    net_node *made = &net->nodes[net->n_nodes];
    *made = (net_node){.kind = kind,
                       .inputs = malloc(n_inputs * sizeof *inputs),
                       .summed = calloc(n_inputs, sizeof *made->summed),
                       .n_inputs = n_inputs,
                       .groups = 1,
                       .output = inputs[0],
                       .lane = net->lane,
                       .state = NET_NONE};
    snprintf(made->id, sizeof made->id, "%s%s%s.%u", net->scope, net->scope[0] ? "." : "",
             net_kind_name(kind), net->n_nodes);
    if (!made->inputs || !made->summed) {
        free(made->inputs);
        free(made->summed);
        (void)remat_fail_memory(&net->error);
        return NULL;
    }
    memcpy(made->inputs, inputs, n_inputs * sizeof *inputs);
    made->output.value = net->n_nodes++;
    made->output.from = 0;
    made->output.of = made->output.c;
    return made;
}

static net_tensor done(net_graph *net, net_node *made)
{
    if (!made || failed(net))
        return no_tensor;
    made->output.of = made->output.c;
    return check_shapes(net, made) ? made->output : no_tensor;
}

/* ---- kinds ---- */

static uint32_t windows(uint32_t size, uint32_t kernel, uint32_t stride, uint32_t padding)
{
    uint64_t padded = (uint64_t)size + 2 * padding;
    return padded < kernel ? 0 : (uint32_t)((padded - kernel) / stride + 1);
}

static void window(net_node *made, uint32_t kernel, uint32_t stride, uint32_t padding)
{
    made->kernel = kernel;
    made->stride = stride;
    made->padding = padding;
    made->output.h = windows(made->inputs[0].h, kernel, stride, padding);
    made->output.w = windows(made->inputs[0].w, kernel, stride, padding);
}

net_tensor net_conv(net_graph *net, net_tensor x, uint32_t channels, uint32_t kernel,
                    uint32_t stride, uint32_t padding, uint32_t groups, bool bias)
{
    net_node *made = node(net, NET_CONV, &x, 1);
    if (!made)
        return no_tensor;
    if (x.c % groups || channels % groups)
        (void)remat_fail(&net->error, REMAT_INVALID, NULL,
                         "\"%s\": %u and %u channels do not fall into %u groups", made->id, x.c,
                         channels, groups);
    size_t inner = (size_t)(x.c / groups) * kernel * kernel;
    window(made, kernel, stride, padding);
    made->groups = groups;
    made->bias = bias;
    made->output.c = channels;
    /* He et al. 2015, for rectifiers */
    parameter(net, made, channels * inner, 0, sqrtf(2.0f / (float)inner));
    if (bias)
        parameter(net, made, channels, 0, 0);
    return done(net, made);
}

net_tensor net_up_conv(net_graph *net, net_tensor x, uint32_t channels, uint32_t kernel,
                       uint32_t stride)
{
    net_node *made = node(net, NET_UP_CONV, &x, 1);
    if (!made)
        return no_tensor;
    size_t inner = (size_t)channels * kernel * kernel;
    made->kernel = kernel;
    made->stride = stride;
    made->bias = true;
    made->output.c = channels;
    made->output.h = (x.h - 1) * stride + kernel;
    made->output.w = (x.w - 1) * stride + kernel;
    parameter(net, made, x.c * inner, 0, sqrtf(1.0f / (float)x.c));
    parameter(net, made, channels, 0, 0);
    return done(net, made);
}

net_tensor net_linear(net_graph *net, net_tensor x, uint32_t features, bool bias)
{
    net_node *made = node(net, NET_LINEAR, &x, 1);
    if (!made)
        return no_tensor;
    size_t inner = (size_t)x.c * x.h * x.w;
    made->bias = bias;
    made->output.c = features;
    made->output.h = made->output.w = 1;
    parameter(net, made, features * inner, 0, sqrtf(1.0f / (float)inner));
    if (bias)
        parameter(net, made, features, 0, 0);
    return done(net, made);
}

net_tensor net_batch_norm(net_graph *net, net_tensor x, bool relu)
{
    net_node *made = node(net, NET_BATCH_NORM, &x, 1);
    if (!made)
        return no_tensor;
    made->relu = relu;
    made->state = state(net, NET_BATCH_NORM, made->id, 2 * x.c * sizeof(float));
    parameter(net, made, x.c, 1, 0);
    parameter(net, made, x.c, 0, 0);
    return done(net, made);
}

net_tensor net_layer_norm(net_graph *net, net_tensor x)
{
    net_node *made = node(net, NET_LAYER_NORM, &x, 1);
    if (!made)
        return no_tensor;
    parameter(net, made, x.c, 1, 0);
    parameter(net, made, x.c, 0, 0);
    return done(net, made);
}

net_tensor net_relu(net_graph *net, net_tensor x)
{
    return done(net, node(net, NET_RELU, &x, 1));
}

net_tensor net_gelu(net_graph *net, net_tensor x)
{
    return done(net, node(net, NET_GELU, &x, 1));
}

net_tensor net_max_pool(net_graph *net, net_tensor x, uint32_t kernel, uint32_t stride,
                        uint32_t padding)
{
    net_node *made = node(net, NET_MAX_POOL, &x, 1);
    if (made && (kernel > 16 || padding >= kernel))
        (void)remat_fail(&net->error, REMAT_INVALID, NULL,
                         "\"%s\": windows of %u with padding %u; up to 16, padded by less",
                         made->id, kernel, padding);
    if (made)
        window(made, kernel, stride, padding);
    return done(net, made);
}

net_tensor net_average_pool(net_graph *net, net_tensor x, uint32_t kernel, uint32_t stride)
{
    net_node *made = node(net, NET_AVERAGE_POOL, &x, 1);
    if (made)
        window(made, kernel, stride, 0);
    return done(net, made);
}

net_tensor net_global_pool(net_graph *net, net_tensor x)
{
    net_node *made = node(net, NET_AVERAGE_POOL, &x, 1);
    if (made && x.h != x.w)
        (void)remat_fail(&net->error, REMAT_INVALID, NULL, "\"%s\" pools squares, not %u x %u",
                         made->id, x.h, x.w);
    if (made)
        window(made, x.h, 1, 0);
    return done(net, made);
}

net_tensor net_add(net_graph *net, net_tensor a, net_tensor b, bool relu)
{
    net_node *made = node(net, NET_ADD, (const net_tensor[2]){a, b}, 2);
    if (!made)
        return no_tensor;
    made->relu = relu;
    if (a.n != b.n || a.c != b.c || a.h != b.h || a.w != b.w || a.value == b.value)
        (void)remat_fail(&net->error, REMAT_INVALID, NULL,
                         "\"%s\" needs two values of one shape, not [%u %u %u %u] and [%u %u %u "
                         "%u]",
                         made->id, a.n, a.c, a.h, a.w, b.n, b.c, b.h, b.w);
    return done(net, made);
}

net_tensor net_concat(net_graph *net, const net_tensor *parts, uint32_t n_parts)
{
    net_node *made = node(net, NET_CONCAT, parts, n_parts);
    if (!made)
        return no_tensor;
    for (uint32_t i = 1; i < n_parts; i++) {
        made->output.c += parts[i].c;
        if (parts[i].n != parts[0].n || parts[i].h != parts[0].h || parts[i].w != parts[0].w)
            (void)remat_fail(&net->error, REMAT_INVALID, NULL,
                             "\"%s\": part %u has another shape than the first", made->id, i);
    }
    return done(net, made);
}

/* Rows that follow one another are the channels of a single row that do. */
net_tensor net_stack(net_graph *net, const net_tensor *parts, uint32_t n_parts)
{
    net_tensor *rows = malloc(n_parts * sizeof *rows), whole = parts[0];
    if (!rows)
        (void)remat_fail_memory(&net->error);
    whole.n = 0;
    for (uint32_t i = 0; i < n_parts && !failed(net); i++) {
        const net_tensor x = parts[i];
        const size_t numbers = net_numbers(x);
        if (x.c != whole.c || x.h != whole.h || x.w != whole.w || x.c != x.of)
            (void)remat_fail(&net->error, REMAT_INVALID, NULL,
                             "part %u of a batch has another shape than the first", i);
        if (numbers > INT32_MAX)
            (void)remat_fail(&net->error, REMAT_TOO_LARGE, "batch",
                             "part %u of the batch has 2^31 numbers or more", i);
        rows[i] = (net_tensor){.value = x.value, .n = 1, .c = (uint32_t)numbers, .h = 1, .w = 1};
        rows[i].of = rows[i].c;
        whole.n += x.n;
    }
    if (!failed(net))
        whole.value = net_concat(net, rows, n_parts).value;
    free(rows);
    return failed(net) ? no_tensor : whole;
}

net_tensor net_embedding(net_graph *net, net_tensor ids, uint32_t width, uint32_t time)
{
    net_node *made = node(net, NET_EMBEDDING, &ids, 1);
    if (!made)
        return no_tensor;
    made->time = time;
    made->output.c = width;
    parameter(net, made, (size_t)net->inputs[ids.value & ~NET_INPUT].range * width, 0, 0.1f);
    parameter(net, made, (size_t)time * width, 0, 0.1f);
    return done(net, made);
}

net_tensor net_attention(net_graph *net, net_tensor x, uint32_t heads, uint32_t time, bool causal)
{
    net_node *made = node(net, NET_ATTENTION, &x, 1);
    if (!made)
        return no_tensor;
    made->heads = heads;
    made->time = time;
    made->number = causal ? 1.0f : 0.0f;
    made->output.c = x.c / 3;
    if (heads == 0 || x.c % (3 * heads) || time == 0 || x.n % time)
        (void)remat_fail(&net->error, REMAT_INVALID, NULL,
                         "\"%s\": %u columns and %u rows are not 3 x %u heads over times of %u",
                         made->id, x.c, x.n, heads, time);
    return done(net, made);
}

net_tensor net_dropout(net_graph *net, net_tensor x, float probability)
{
    net_node *made = node(net, NET_DROPOUT, &x, 1);
    if (!made)
        return no_tensor;
    if (net->generator == NET_NONE)
        net->generator = state(net, NET_DROPOUT, "generator", 2 * sizeof(uint64_t));
    made->state = net->generator;
    made->number = probability;
    return done(net, made);
}

net_tensor net_lstm(net_graph *net, net_tensor previous, net_tensor ids, uint32_t width,
                    uint32_t batch, uint32_t step)
{
    bool first = previous.value == NET_NONE && step == 0;
    net_node *made =
        node(net, NET_LSTM, (const net_tensor[2]){first ? ids : previous, ids}, first ? 1 : 2);
    if (!made)
        return no_tensor;
    made->step = step;
    made->output = (net_tensor){.value = made->output.value, batch, 2 * width, 1, 1, .from = 0};
    if (ids.n < (uint64_t)(step + 1) * batch)
        (void)remat_fail(&net->error, REMAT_INVALID, NULL,
                         "\"%s\" is at step %u of %u ids in batches of %u", made->id, step, ids.n,
                         batch);
    parameter(net, made, (size_t)net->inputs[ids.value & ~NET_INPUT].range * 4 * width, 0, 0.1f);
    parameter(net, made, (size_t)width * 4 * width, 0, sqrtf(1.0f / (float)width));
    parameter(net, made, (size_t)4 * width, 0, 0);
    return done(net, made);
}

/* ---- losses ---- */

static void loss(net_graph *net, net_kind kind, const net_tensor *inputs, uint32_t n_inputs,
                 float number)
{
    net_node *made = node(net, kind, inputs, n_inputs);
    if (!made)
        return;
    made->number = number;
    made->output = (net_tensor){.value = made->output.value, 1, 1, 1, 1, .from = 0};
    const net_tensor x = inputs[0];
    for (uint32_t i = 1; i < n_inputs; i++) {
        bool fits = kind == NET_CROSS_ENTROPY ? inputs[i].n == (uint64_t)x.n * x.h * x.w
                                              : inputs[i].n == x.n && inputs[i].c == x.c &&
                                                    inputs[i].h * inputs[i].w == 1;
        if (!fits)
            (void)remat_fail(&net->error, REMAT_INVALID, NULL,
                             "\"%s\" cannot compare [%u %u %u %u] and [%u %u %u %u]", made->id, x.n,
                             x.c, x.h, x.w, inputs[i].n, inputs[i].c, inputs[i].h, inputs[i].w);
    }
    (void)done(net, made);
}

void net_cross_entropy(net_graph *net, net_tensor logits, net_tensor labels)
{
    loss(net, NET_CROSS_ENTROPY, (const net_tensor[2]){logits, labels}, 2, 0);
}

void net_triplet(net_graph *net, net_tensor anchor, net_tensor positive, net_tensor negative,
                 float margin)
{
    loss(net, NET_TRIPLET, (const net_tensor[3]){anchor, positive, negative}, 3, margin);
}

void net_contrastive(net_graph *net, net_tensor a, net_tensor b, float temperature)
{
    loss(net, NET_CONTRASTIVE, (const net_tensor[2]){a, b}, 2, temperature);
}
