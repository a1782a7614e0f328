/* What follows from a network once it is whole: offsets, shared gradients, costs by formula. */
#include "net.h"

#include <stdlib.h>
#include <string.h>

/* ---- facts of kinds ---- */

static const struct {
    const char *name;
    bool inputs, output, in_place; /* read by the backward; forward may overwrite its first input */
} facts[NET_KINDS] = {
    [NET_CONV] = {"conv2d", true, false, false},
    [NET_UP_CONV] = {"conv_transpose2d", true, false, false},
    [NET_LINEAR] = {"linear", true, false, false},
    [NET_BATCH_NORM] = {"batch_norm", true, false, true},
    [NET_LAYER_NORM] = {"layer_norm", true, false, true},
    [NET_RELU] = {"relu", false, false, true},
    [NET_GELU] = {"gelu", true, false, true},
    [NET_MAX_POOL] = {"max_pool2d", false, false, false},
    [NET_AVERAGE_POOL] = {"avg_pool2d", false, false, false},
    [NET_ADD] = {"add", false, false, true},
    [NET_CONCAT] = {"concat", false, false, false},
    [NET_EMBEDDING] = {"embedding", true, false, false},
    [NET_ATTENTION] = {"attention", true, false, false},
    [NET_DROPOUT] = {"dropout", false, false, true},
    [NET_LSTM] = {"lstm_cell", true, true, false},
    [NET_CROSS_ENTROPY] = {"cross_entropy", true, false, false},
    [NET_TRIPLET] = {"triplet_loss", true, false, false},
    [NET_CONTRASTIVE] = {"contrastive_loss", true, false, false},
};

const char *net_kind_name(net_kind kind)
{
    return facts[kind].name;
}

bool net_uses_inputs(const net_node *node)
{
    return facts[node->kind].inputs;
}

bool net_uses_output(const net_node *node)
{
    return facts[node->kind].output || (node->kind == NET_ADD && node->relu);
}

/* A convolution takes in whole images before it puts out one of the same shape. */
bool net_in_place(const net_node *node)
{
    const net_tensor x = node->inputs[0], y = node->output;
    return facts[node->kind].in_place || (node->kind == NET_CONV && node->kernel > 1 &&
                                          x.of == y.c && x.c == y.c && x.h == y.h && x.w == y.w);
}

size_t net_numbers(net_tensor x)
{
    return (size_t)x.n * x.c * x.h * x.w;
}

uint64_t net_input_bytes(const net_input *in)
{
    return (uint64_t)in->n * in->c * in->h * in->w * sizeof(float);
}

static bool is_loss(net_kind kind)
{
    return kind == NET_CROSS_ENTROPY || kind == NET_TRIPLET || kind == NET_CONTRASTIVE;
}

uint64_t net_output_bytes(const net_node *node)
{
    return is_loss(node->kind) ? 0 : net_numbers(node->output) * sizeof(float);
}

double net_forward_work(const net_node *node)
{
    const net_tensor x = node->inputs[0], y = node->output;
    double k = (double)node->kernel * node->kernel, out = (double)net_numbers(y);
    switch (node->kind) {
    case NET_CONV:
        return out * k * x.c / node->groups;
    case NET_UP_CONV:
        return (double)net_numbers(x) * k * y.c;
    case NET_LINEAR:
        return out * x.c * x.h * x.w;
    case NET_ATTENTION:
        return 2 * out * node->time;
    case NET_LSTM:
        return (double)y.n * y.c * y.c;
    case NET_MAX_POOL:
    case NET_AVERAGE_POOL:
        return out * k;
    case NET_CONTRASTIVE:
        return (double)x.n * x.n * x.c;
    case NET_BATCH_NORM:
    case NET_LAYER_NORM:
    case NET_RELU:
    case NET_GELU:
    case NET_ADD:
    case NET_CONCAT:
    case NET_EMBEDDING:
    case NET_DROPOUT:
    case NET_CROSS_ENTROPY:
    case NET_TRIPLET:
    case NET_KINDS:
        break;
    }
    return 4 * (double)net_numbers(x);
}

/* ---- who adds to a gradient ---- */

/* reaches[u * n + v]: v depends on u. */
static bool *dependencies(const net_graph *net)
{
    size_t n = net->n_nodes;
    bool *reaches = calloc(n * n, sizeof *reaches);
    for (size_t v = 0; reaches && v < n; v++)
        for (uint32_t i = 0; i < net->nodes[v].n_inputs; i++) {
            uint32_t from = net->nodes[v].inputs[i].value;
            if (from & NET_INPUT)
                continue;
            reaches[from * n + v] = true;
            for (size_t u = 0; u < from; u++)
                reaches[u * n + v] |= reaches[u * n + from];
        }
    return reaches;
}

static bool overlap(net_tensor a, net_tensor b)
{
    return a.from < b.from + b.c && b.from < a.from + a.c;
}

/* One reading of a value. */
typedef struct use {
    uint32_t node;
    net_tensor part;
} use;

/* The readers of a value, at most `room`; how many there are. */
static uint32_t readers(const net_graph *net, uint32_t value, use *uses)
{
    uint32_t n = 0;
    for (uint32_t v = 0; v < net->n_nodes; v++)
        for (uint32_t i = 0; i < net->nodes[v].n_inputs; i++)
            if (net->nodes[v].inputs[i].value == value)
                uses[n++] = (use){v, net->nodes[v].inputs[i]};
    return n;
}

static remat_status check_value(net_graph *net, uint32_t value, const bool *reaches, use *uses)
{
    uint32_t n = readers(net, value, uses);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = i + 1; j < n; j++) {
            const net_node *a = &net->nodes[uses[i].node], *b = &net->nodes[uses[j].node];
            if (a == b)
                return remat_fail(&net->error, REMAT_INVALID, NULL,
                                  "\"%s\" reads \"%s\" twice; a node may read a value once", a->id,
                                  net->nodes[value].id);
            if (n > 2 && overlap(uses[i].part, uses[j].part) &&
                !reaches[(size_t)uses[i].node * net->n_nodes + uses[j].node])
                return remat_fail(&net->error, REMAT_INVALID, NULL,
                                  "the gradient of \"%s\" would depend on the schedule: \"%s\", "
                                  "\"%s\" and others add to it in any order",
                                  net->nodes[value].id, a->id, b->id);
        }
    for (uint32_t i = 0; i < n && n > 1; i++)
        for (uint32_t k = 0; k < net->nodes[uses[i].node].n_inputs; k++)
            if (net->nodes[uses[i].node].inputs[k].value == value)
                net->nodes[uses[i].node].summed[k] = true;
    return REMAT_OK;
}

static remat_status check_sums(net_graph *net)
{
    bool *reaches = dependencies(net);
    size_t edges = 1;
    for (uint32_t v = 0; v < net->n_nodes; v++)
        edges += net->nodes[v].n_inputs;
    use *uses = malloc(edges * sizeof *uses);
    remat_status status = reaches && uses ? REMAT_OK : remat_fail_memory(&net->error);
    for (uint32_t v = 0; v < net->n_nodes && !status; v++)
        status = check_value(net, v, reaches, uses);
    free(reaches);
    free(uses);
    return status;
}

/* ---- the end ---- */

/* Libraries of devices choose their kernels by alignment: parameters begin at multiples of 256
 * bytes, their further lanes where they fall. */
static size_t aligned(size_t count)
{
    enum { GRAIN = 256 / sizeof(float) };
    return (count + GRAIN - 1) / GRAIN * GRAIN;
}

static void place_parameters(net_graph *net)
{
    for (uint32_t i = 0; i < net->n_parameters; i++) {
        net_parameter *p = &net->parameters[i];
        p->offset = net->weights;
        p->slope = net->slopes;
        p->gradient = net->n_gradients;
        net->weights += aligned(p->count);
        net->slopes += aligned(p->count * p->lanes);
        net->n_gradients += p->lanes;
    }
}

remat_status net_finish(net_graph *net, remat_error *error)
{
    remat_status status = net->error.status;
    if (!status && (net->n_nodes == 0 || !is_loss(net->nodes[net->n_nodes - 1].kind)))
        status = remat_fail(&net->error, REMAT_INVALID, NULL, "the last node is not a loss");
    if (!status)
        status = check_sums(net);
    if (!status) {
        place_parameters(net);
        return REMAT_OK;
    }
    if (error)
        *error = net->error;
    net_clear(net);
    return status;
}
