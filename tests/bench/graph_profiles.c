#include "graph_profiles.h"

#include "api.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

remat_profile *bench_graph_file(const char *path)
{
    json_error_t fault;
    remat_error error = {0};
    remat_profile *profile = NULL;
    json_t *json = json_load_file(path, 0, &fault);
    if (!json)
        fprintf(stderr, "%s: %s\n", path, fault.text);
    else if (remat_profile_decode(json, "", &profile, &error))
        fprintf(stderr, "%s: %s: %s\n", path, error.field, error.message);
    json_decref(json);
    return profile;
}

/* ---- building ---- */

enum { MOST_INPUTS = 4, ID = 24 };

typedef struct builder {
    uint32_t n, capacity;
    remat_node_spec *nodes;
    char (*ids)[ID];
    const char *(*inputs)[MOST_INPUTS];
} builder;

static builder builder_new(uint32_t capacity)
{
    builder b = {.capacity = capacity,
                 .nodes = calloc(capacity, sizeof *b.nodes),
                 .ids = calloc(capacity, sizeof *b.ids),
                 .inputs = calloc(capacity, sizeof *b.inputs)};
    if (!b.nodes || !b.ids || !b.inputs)
        abort();
    return b;
}

/* Adds a node and returns its index. inputs: indices of nodes, -1 for the graph input. */
static int add(builder *b, const char *op, double time, double bytes, bool uses_inputs,
               bool uses_output, int n_inputs, ...)
{
    uint32_t v = b->n++;
    if (v >= b->capacity)
        abort();
    va_list list;
    va_start(list, n_inputs);
    for (int i = 0; i < n_inputs; i++) {
        int input = va_arg(list, int);
        b->inputs[v][i] = input < 0 ? "x" : b->ids[input];
    }
    va_end(list);
    snprintf(b->ids[v], ID, "%s_%u", op, v);
    b->nodes[v] = (remat_node_spec){.id = b->ids[v],
                                    .inputs = b->inputs[v],
                                    .n_inputs = (size_t)n_inputs,
                                    .forward_time = {.value = time, .given = true},
                                    .output_bytes = {.value = bytes, .given = true},
                                    .backward_uses_inputs = uses_inputs,
                                    .backward_uses_output = uses_output};
    return (int)v;
}

static remat_profile *finish(builder *b, const char *name)
{
    remat_input_spec input = {.id = "x", .bytes = {.given = true}};
    remat_profile_spec spec = {.format = "remat-profile/1",
                               .name = name,
                               .time_unit = "units",
                               .inputs = &input,
                               .n_inputs = 1,
                               .nodes = b->nodes,
                               .n_nodes = b->n};
    remat_profile *profile = NULL;
    remat_error error = {0};
    if (remat_profile_new(&spec, &profile, &error))
        fprintf(stderr, "%s: %s: %s\n", name, error.field, error.message);
    free(b->nodes);
    free(b->ids);
    free(b->inputs);
    return profile;
}

remat_profile *bench_graph_chain(uint32_t n)
{
    builder b = builder_new(n);
    uint64_t seed = 1;
    for (uint32_t v = 0; v < n; v++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        double time = (double)(1 + (seed >> 33) % 1000) / 7;
        double bytes = (double)(1 + (seed >> 43) % 1000) * 1048576;
        (void)add(&b, "stage", time, v + 1 < n ? bytes : 4, true, true, 1, (int)v - 1);
    }
    return finish(&b, "chain");
}

/* ---- GoogLeNet ---- */

/* Convolution, normalisation, scale and relu, as in Caffe. */
static int convolution(builder *b, double bytes, int input)
{
    int made = add(b, "conv", 10, bytes, true, false, 1, input);
    made = add(b, "norm", 1, bytes, true, false, 1, made);
    made = add(b, "scale", 1, bytes, true, false, 1, made);
    return add(b, "relu", 1, bytes, false, true, 1, made);
}

static int inception(builder *b, int input, double side, const int channels[6], bool twice)
{
    const double image = 64 * 4 * side * side;
    int one = convolution(b, image * channels[0], input);
    int three = convolution(b, image * channels[2], convolution(b, image * channels[1], input));
    int five = convolution(b, image * channels[4], convolution(b, image * channels[3], input));
    if (twice) /* Inception v2: two 3x3 for the 5x5 */
        five = convolution(b, image * channels[4], five);
    int pool = add(b, "pool", 1, image * channels[0], true, false, 1, input);
    pool = convolution(b, image * channels[5], pool);
    return add(b, "concat", 1, image * (channels[0] + channels[2] + channels[4] + channels[5]),
               false, false, 4, one, three, five, pool);
}

remat_profile *bench_graph_googlenet(void)
{
    static const int modules[9][6] = {{64, 96, 128, 16, 32, 32},     {128, 128, 192, 32, 96, 64},
                                      {192, 96, 208, 16, 48, 64},    {160, 112, 224, 24, 64, 64},
                                      {128, 128, 256, 24, 64, 64},   {112, 144, 288, 32, 64, 64},
                                      {256, 160, 320, 32, 128, 128}, {256, 160, 320, 32, 128, 128},
                                      {384, 192, 384, 48, 128, 128}};
    const double image = 64 * 4;
    builder b = builder_new(600);
    int at = convolution(&b, image * 64 * 112 * 112, -1);
    at = add(&b, "pool", 1, image * 64 * 56 * 56, true, false, 1, at);
    at = convolution(&b, image * 64 * 56 * 56, at);
    at = convolution(&b, image * 192 * 56 * 56, at);
    at = add(&b, "pool", 1, image * 192 * 28 * 28, true, false, 1, at);
    for (int m = 0; m < 9; m++) {
        double side = m < 2 ? 28 : m < 7 ? 14 : 7;
        at = inception(&b, at, side, modules[m], m % 2 == 0);
        if (m == 1 || m == 6)
            at = add(&b, "pool", 1, b.nodes[at].output_bytes.value / 4, true, false, 1, at);
    }
    at = add(&b, "pool", 1, image * 1024, false, false, 1, at);
    at = add(&b, "linear", 10, image * 1000, true, false, 1, at);
    (void)add(&b, "loss", 1, 4, true, false, 1, at);
    return finish(&b, "googlenet");
}

/* ---- LSTM ---- */

remat_profile *bench_graph_lstm(uint32_t steps)
{
    const double state = 64 * 1024 * 4;
    builder b = builder_new(steps * 10 + 2);
    int h = -1, c = -1;
    for (uint32_t t = 0; t < steps; t++) {
        int gates = add(&b, "gates", 10, 4 * state, true, false, 1, h);
        int forget = add(&b, "forget", 1, state, false, true, 1, gates);
        int kept = c < 0 ? add(&b, "keep", 1, state, true, false, 1, forget)
                         : add(&b, "keep", 1, state, true, false, 2, forget, c);
        int in = add(&b, "in", 1, state, false, true, 1, gates);
        int cell = add(&b, "cell", 1, state, false, true, 1, gates);
        int added = add(&b, "new", 1, state, true, false, 2, in, cell);
        c = add(&b, "c", 1, state, false, false, 2, kept, added);
        int out = add(&b, "out", 1, state, false, true, 1, gates);
        int tanh = add(&b, "tanh", 1, state, false, true, 1, c);
        h = add(&b, "h", 1, state, true, false, 2, out, tanh);
    }
    int linear = add(&b, "linear", 10, 64 * 10 * 4, true, false, 1, h);
    (void)add(&b, "loss", 1, 4, true, false, 1, linear);
    return finish(&b, "lstm");
}
