/* Networks, described once: nodes with their shapes, parameters and states, in the order of the
 * forward pass. What a node computes is a backend's (backend.h); what it costs is measured
 * (model_profile.c); which networks there are says networks.h.
 *
 *     net_tensor x = net_image(net, "image", 8, 3, 224, 224);
 *     x = net_relu(net, net_conv(net, x, 64, 7, 2, 3, 1, true));
 *     net_cross_entropy(net, net_linear(net, x, 10, true), net_ids(net, "label", 8, 10));
 *
 * Values are float32. Images are [n][c][h][w]; a sequence is a matrix of n = batch x time rows and
 * c columns (h = w = 1). A builder that cannot do what is asked remembers the first fault, does
 * nothing from then on, and net_finish says what it was: builders need no check in between.
 *
 * Sums. A gradient that several nodes add to is the same under every schedule, to the last bit:
 * each of them computes its share whole and adds it once, and of more than two readers of a value
 * no two may change places in the backward (addition commutes; it does not associate), unless they
 * read disjoint channels. net_finish refuses a network that is not so. Parameters that are used
 * again keep a gradient for each *lane*, and lanes are summed in their order after the step.
 *
 * Not thread-safe while it is built; read-only afterwards. */
#ifndef REMAT_EXECUTOR_NET_H
#define REMAT_EXECUTOR_NET_H

#include "remat/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum net_kind {
    NET_CONV,
    NET_UP_CONV, /* transposed convolution */
    NET_LINEAR,
    NET_BATCH_NORM,
    NET_LAYER_NORM,
    NET_RELU,
    NET_GELU,
    NET_MAX_POOL,
    NET_AVERAGE_POOL,
    NET_ADD,
    NET_CONCAT,
    NET_EMBEDDING,
    NET_ATTENTION,
    NET_DROPOUT,
    NET_LSTM,
    NET_CROSS_ENTROPY,
    NET_TRIPLET,
    NET_CONTRASTIVE,
    NET_KINDS
} net_kind;

#define NET_INPUT UINT32_C(0x80000000) /* in net_tensor.value: graph input, not node */
#define NET_NONE UINT32_MAX

/* A value, or a range of its channels: from .. from + c of `of`. */
typedef struct net_tensor {
    uint32_t value;
    uint32_t n, c, h, w;
    uint32_t from, of;
} net_tensor;

typedef struct net_node {
    net_kind kind;
    char id[48];
    net_tensor *inputs;
    bool *summed; /* by input: others add to its gradient too */
    uint32_t n_inputs;
    net_tensor output;
    uint32_t kernel, stride, padding, groups; /* convolutions and pools */
    uint32_t time, heads, step;               /* attention, embedding; step: of the LSTM */
    bool relu;                                /* behind batch normalisation or sum */
    bool bias;                                /* of convolutions and linear */
    float number;                             /* dropout: probability; triplet: margin;
                                                 contrastive: temperature */
    uint32_t parameters[4], n_parameters;     /* indices */
    uint32_t lane;                            /* of their gradients */
    uint32_t state;                           /* read and written by forward; NET_NONE: none */
} net_node;

typedef struct net_parameter {
    size_t count;          /* numbers */
    size_t offset;         /* among all parameters */
    size_t slope;          /* of its first lane among all gradients */
    uint32_t lanes;        /* gradients */
    uint32_t gradient;     /* its first lane among all gradients */
    float mean, deviation; /* at the start: normal */
} net_parameter;

typedef enum net_input_kind { NET_IMAGE, NET_IDS } net_input_kind;

typedef struct net_input {
    char id[48];
    net_input_kind kind;
    uint32_t n, c, h, w;
    uint32_t range; /* of ids: 0 .. range - 1 */
    uint32_t first; /* of the batch's rows */
} net_input;

typedef struct net_state {
    char id[48];
    uint64_t bytes;
    net_kind kind; /* NET_DROPOUT: a generator; NET_BATCH_NORM: means, then variances */
} net_state;

typedef struct net_graph {
    char name[96];
    net_node *nodes;
    net_input *inputs;
    net_state *states;
    net_parameter *parameters;
    uint32_t n_nodes, n_inputs, n_states, n_parameters;
    uint32_t node_room, input_room, state_room, parameter_room;
    size_t weights, slopes; /* room for all parameters, for all gradients of them: numbers */
    uint32_t n_gradients;   /* lanes of all parameters */
    uint32_t generator;     /* state of the dropouts; NET_NONE: none */
    uint32_t next, lane;    /* parameter that is asked for next; lane of what is made */
    char scope[32];
    remat_error error;
} net_graph;

/* ---- building ---- */

/* {0}-initialised memory becomes a network without nodes. */
void net_begin(net_graph *net, const char *name);
/* Says the first fault: REMAT_INVALID, REMAT_TOO_LARGE or REMAT_NO_MEMORY. The last node is the
 * loss. On failure the network is cleared. */
remat_status net_finish(net_graph *net, remat_error *error);
void net_clear(net_graph *net); /* accepts {0} */

/* Stands before the ids of the nodes that follow, with a dot; "" for none. */
void net_scope(net_graph *net, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The nodes that follow use the parameters made since `mark` (net_mark), in their order; their
 * gradients go to a lane: one for each use, but uses that depend on one another may share one. */
uint32_t net_mark(const net_graph *net);
void net_reuse(net_graph *net, uint32_t mark, uint32_t lane);

net_tensor net_image(net_graph *net, const char *id, uint32_t n, uint32_t c, uint32_t h,
                     uint32_t w);
/* Square images first .. first + n - 1 of a batch; part 0 is called "image", part k "image.k". */
net_tensor net_image_part(net_graph *net, uint32_t part, uint32_t first, uint32_t n, uint32_t c,
                          uint32_t size);
/* n whole numbers in 0 .. range - 1: tokens or labels. */
net_tensor net_ids(net_graph *net, const char *id, uint32_t n, uint32_t range);

/* Channels from .. from + c. Convolutions, linear and concat read such a part, others the whole. */
net_tensor net_slice(net_graph *net, net_tensor x, uint32_t from, uint32_t c);

/* The same numbers as n longer rows. */
net_tensor net_rows(net_graph *net, net_tensor x, uint32_t n);

/* Square kernels, stride and padding. Grouped: Xie et al. 2017. */
net_tensor net_conv(net_graph *net, net_tensor x, uint32_t channels, uint32_t kernel,
                    uint32_t stride, uint32_t padding, uint32_t groups, bool bias);
/* The adjoint of net_conv, with bias: h' = (h - 1) stride + kernel. */
net_tensor net_up_conv(net_graph *net, net_tensor x, uint32_t channels, uint32_t kernel,
                       uint32_t stride);
/* Of c x h x w numbers of each of n rows. */
net_tensor net_linear(net_graph *net, net_tensor x, uint32_t features, bool bias);
/* Ioffe, Szegedy 2015; with statistics kept for use after training as a state. */
net_tensor net_batch_norm(net_graph *net, net_tensor x, bool relu);
net_tensor net_layer_norm(net_graph *net, net_tensor x); /* Ba, Kiros, Hinton 2016; over c */
net_tensor net_relu(net_graph *net, net_tensor x);
net_tensor net_gelu(net_graph *net, net_tensor x); /* Hendrycks, Gimpel 2016: the form with tanh */
net_tensor net_max_pool(net_graph *net, net_tensor x, uint32_t kernel, uint32_t stride,
                        uint32_t padding);
net_tensor net_average_pool(net_graph *net, net_tensor x, uint32_t kernel, uint32_t stride);
net_tensor net_global_pool(net_graph *net, net_tensor x); /* mean of h x w */
net_tensor net_add(net_graph *net, net_tensor a, net_tensor b, bool relu);
net_tensor net_concat(net_graph *net, const net_tensor *parts, uint32_t n_parts); /* of channels */
/* Parts of a batch, one after the other. */
net_tensor net_stack(net_graph *net, const net_tensor *parts, uint32_t n_parts);
/* Rows of a table by id, plus rows of a table of positions: ids stand as [batch][time]. */
net_tensor net_embedding(net_graph *net, net_tensor ids, uint32_t width, uint32_t time);
/* Causal self-attention (Vaswani et al. 2017) of queries, keys and values side by side: c = 3
 * width. Softmax of scores is computed again in the backward. */
net_tensor net_attention(net_graph *net, net_tensor x, uint32_t heads, uint32_t time, bool causal);
/* Srivastava et al. 2014; masks from a counter-based generator (Salmon et al. 2011: Philox), whose
 * counter is a state. */
net_tensor net_dropout(net_graph *net, net_tensor x, float probability);
/* One time step (Hochreiter, Schmidhuber 1997; forget gate: Gers et al. 2000). previous: hidden and
 * cell state side by side, value NET_NONE at the first step; ids: [time][batch], whose row `step`
 * is read.
 * The result has c = 2 width: hidden, then cell. */
net_tensor net_lstm(net_graph *net, net_tensor previous, net_tensor ids, uint32_t width,
                    uint32_t batch, uint32_t step);

/* Losses: the last node. Means over rows. */
/* Over channels; one label for each pixel of each image. */
void net_cross_entropy(net_graph *net, net_tensor logits, net_tensor labels);
/* max(0, |a - p|^2 - |a - n|^2 + margin): Schroff et al. 2015. */
void net_triplet(net_graph *net, net_tensor anchor, net_tensor positive, net_tensor negative,
                 float margin);
/* Symmetric cross-entropy of cosine similarities: Radford et al. 2021. */
void net_contrastive(net_graph *net, net_tensor a, net_tensor b, float temperature);

/* ---- asking ---- */

const char *net_kind_name(net_kind kind); /* "conv2d" */
bool net_uses_inputs(const net_node *node);
bool net_uses_output(const net_node *node);
bool net_in_place(const net_node *node);

size_t net_numbers(net_tensor x);              /* n c h w of the view */
uint64_t net_input_bytes(const net_input *in); /* float32 or int32 */
uint64_t net_output_bytes(const net_node *node);
double net_forward_work(const net_node *node); /* multiply-adds, roughly */

#endif
