/* Building the graph of a model, operation by operation, with what each costs on a device. Private
 * to solver/plan.
 *
 * A builder that cannot do what is asked remembers the first fault and goes on; plan_finish says
 * what it was. Numbers of values are doubles, exact up to 2^53, past which building fails. */
#ifndef REMAT_PLAN_BUILD_H
#define REMAT_PLAN_BUILD_H

#include "model/arena.h"
#include "remat/plan.h"

/* A result of a node, or graph input with the highest bit of node. Images: channels x height x
 * width of each of batch; matrices: rows of `width` columns. */
typedef struct plan_value {
    uint32_t node;
    double rows, width;
    double element;                /* bytes of a number */
    double channels, height, wide; /* of images; rows x width = batch x channels x height x wide */
} plan_value;

/* Kernels that were timed: blocks have the same ones again and again. */
enum { PLAN_KNOWN_KERNELS = 64 };

typedef struct plan_known {
    remat_kernel kernel;
    double seconds; /* 0: none is known */
} plan_known;

typedef struct plan_builder {
    model_arena arena;
    const remat_device *device;
    const remat_network_settings *settings;
    remat_precision precision;
    double element; /* bytes of a number */
    bool plain;     /* norms without a shift */
    bool undropped; /* plan_dropout_add only adds */
    bool late_cast; /* norms by rows are weighed in float32 */
    bool capped;    /* scores of attention and logits go through tanh */
    double wide;    /* and of one that autocast keeps in float32 */
    remat_node_spec *nodes;
    uint32_t *unit, *readers; /* by node; readers: how many */
    double *numbers;          /* by node: of its result */
    bool *kept;               /* by node: selective-op checkpointing keeps its result */
    double operations, forward_operations; /* that the host runs, one after the other; forward */
    double row;                            /* of the kernels that follow (remat_kernel) */
    plan_known known[PLAN_KNOWN_KERNELS];
    bool float8;   /* these are products in 8 bits */
    uint32_t cast; /* the node whose result was cast to 8 bits last */
    double *sent;  /* by node: us in its times that ranks wait for one another */
    double cut;    /* ranks that share matrices */
    double parts;  /* of these, among which rows between matrices are cut */
    remat_input_spec *inputs;
    uint32_t *weights; /* by unit: the input that stands for its weights, from 1; 0: none yet */
    uint32_t read;     /* of these what the next node reads, from 1; 0: none */
    remat_tensor *tensors;
    size_t n_nodes, n_inputs, n_tensors, node_room, tensor_room, input_room;
    uint64_t parameters, trained;
    double hole;       /* remat_network_graph */
    uint32_t at;       /* the unit of what follows */
    uint32_t products; /* in it */
    char scope[32];
    const char *name; /* of the node at hand; NULL before the first */
    remat_error error;
} plan_builder;

/* What a node is beside its costs. */
enum { PLAN_INPUTS = 1, PLAN_OUTPUT = 2, PLAN_IN_PLACE = 4 }; /* its backward reads ..; in place */

remat_status plan_begin(plan_builder *b, const remat_network_settings *settings,
                        const remat_device *device, uint32_t layers, remat_error *error);
/* Takes over what was built; what the builder holds is freed where it fails. */
remat_status plan_finish(plan_builder *b, const char *name, remat_network_graph **ret_graph,
                         remat_error *error);

/* The names of what follows begin so; one more unit begins. */
void plan_unit(plan_builder *b, const char *format, uint32_t index);

plan_value plan_input(plan_builder *b, const char *id, double rows, double width, double element);
/* The input of a network on images, as its first product reads it. */
plan_value plan_image(plan_builder *b, const char *id, double rows, double width);
/* A parameter tensor; a vector has one row. The next node has it. */
void plan_tensor(plan_builder *b, double rows, double columns);
/* One that is never trained. */
void plan_constant(plan_builder *b, double rows, double columns);
/* One of as many as make `whole` numbers together. */
void plan_shard(plan_builder *b, double rows, double columns, double whole);
/* The same of weights of that kind. */
void plan_shard_of(plan_builder *b, double rows, double columns, double whole, remat_base base);
/* The next node's weights are the unit's; where the settings say so its backward makes their
 * gradients. */
void plan_read_weights(plan_builder *b, uint32_t unit);
/* What a product reads in their place: autocast's copy of so many, or nothing (rows is 0). Copies
 * stay until the forward is over, whatever reads them. */
#define PLAN_AUTOCAST "autocast"
plan_value plan_weights(plan_builder *b, const char *name, double rows, double columns);
/* What the rows of matrices so wide are multiples of, in bytes: b->row of a product. */
double plan_row_of(const plan_builder *b, double width, double features);
/* What the last node waits for among the ranks that share experts: bytes of theirs all to all. */
void plan_send_experts(plan_builder *b, double bytes);

/* A node with a result of that shape; flags as above. Its times are 0 until kernels are added. */
plan_value plan_node(plan_builder *b, const char *name, const char *op, const plan_value *inputs,
                     unsigned n_inputs, double rows, double width, unsigned flags);
/* Kernels of the last node: forward once; backward so many times. */
void plan_forward(plan_builder *b, remat_kernel_class kind, double flops, double bytes);
void plan_backward(plan_builder *b, remat_kernel_class kind, unsigned times, double flops,
                   double bytes);
/* The same kernels both ways: of so many bytes each; backward so many times. */
void plan_moves(plan_builder *b, remat_kernel_class kind, double forward_bytes,
                double backward_bytes);
void plan_computes(plan_builder *b, remat_kernel_class kind, unsigned times, double flops,
                   double bytes);
/* Of the last node: bytes kept for the backward; bytes of a number of its result, which is y. */
void plan_save(plan_builder *b, double bytes);
plan_value plan_element(plan_builder *b, plan_value y, double bytes);

/* What the last node waits for: a collective among the ranks that share matrices. */
void plan_send(plan_builder *b, remat_collective kind, bool backward, double bytes);
/* Of the last node: more bytes beside its values. */
void plan_workspace(plan_builder *b, double forward, double backward);

/* ---- operations that models share ---- */

/* Weights that are read by a product: what it is called, and which of a block's matrices it is
 * (REMAT_ADAPT_..); 0: of no block, without an adapter. */
typedef struct plan_matrix {
    const char *name;
    uint32_t targets;
} plan_matrix;

plan_value plan_linear(plan_builder *b, plan_matrix m, plan_value x, double features, bool bias);
/* Of a pair of products the columns of the first and the rows of the second are shared among ranks
 * (Shoeybi et al. 2019). features: of this rank, of `all`. first: of several that read x; it
 * gathers x and sums its gradient. tied: with weights that another layer has. kept: what was
 * gathered stays for the backward, as DTensor has it. */
typedef struct plan_columns {
    double features, all;
    bool bias, first, tied, kept;
} plan_columns;
plan_value plan_linear_columns(plan_builder *b, plan_matrix m, plan_value x, plan_columns c);
/* x: as wide as this rank's rows are many, of `all`; ranks sum the result. */
plan_value plan_linear_rows(plan_builder *b, plan_matrix m, plan_value x, double all,
                            double features, bool bias);
/* A product with the weights of one of so many experts for each row, rows spread evenly; ranks that
 * share experts have some of them each. */
plan_value plan_linear_experts(plan_builder *b, plan_matrix m, plan_value x, double features,
                               double experts);
plan_value plan_layer_norm(plan_builder *b, const char *name, plan_value x);
/* The same without weights. by: what scales and shifts its rows in the same kernel, of as many
 * values; n: there is one. */
plan_value plan_bare_norm(plan_builder *b, const char *name, plan_value x, const plan_value *by,
                          unsigned n);
/* Number by number; passes: how many values of its size are read and written, forward and back. */
plan_value plan_pointwise(plan_builder *b, const char *name, const char *op,
                          const plan_value *inputs, unsigned n_inputs, unsigned flags,
                          double forward_passes, double backward_passes);
plan_value plan_dropout(plan_builder *b, const char *name, plan_value x);
plan_value plan_add(plan_builder *b, const char *name, plan_value x, plan_value y);
/* Dropout of y, then its sum with x; one kernel where kernels are fused. */
plan_value plan_dropout_add(plan_builder *b, const char *dropout, const char *add, plan_value y,
                            plan_value x);
plan_value plan_copy(plan_builder *b, const char *name, plan_value x);
plan_value plan_embedding(plan_builder *b, const char *name, plan_value ids, double rows,
                          double width);
/* The same of a table whose rows are shared: `rows` of `all`. */
plan_value plan_embedding_rows(plan_builder *b, const char *name, plan_value ids, double rows,
                               double all, double width);
/* The same numbers in so many bytes each. */
plan_value plan_cast(plan_builder *b, const char *name, plan_value x, double to);
/* Self-attention of q, k and v, whose rows are this rank's of batch x time; out has q's shape. */
typedef struct plan_heads {
    double time, heads, head; /* time: of all ranks; heads: of this one; head: columns of one */
    double value;             /* columns of one of v and of out; 0: as of the others */
    double window;            /* of causal ones, a row sees so many; 0: all before it */
    bool causal, dropout;
} plan_heads;
/* c tanh(x / c). */
plan_value plan_cap(plan_builder *b, const char *name, plan_value x);
plan_value plan_attention(plan_builder *b, plan_value q, plan_value k, plan_value v,
                          const plan_heads *heads);
/* The same of a product that gave a third of its columns to each. */
plan_value plan_attention_of_thirds(plan_builder *b, plan_value whole, const plan_heads *heads);
bool plan_is_fused(const plan_builder *b);
/* The model's own weights have no gradient. */
bool plan_is_frozen(const plan_builder *b);
/* Logits in float32, their log-softmax and its mean: the end. Ranks that share the columns tell
 * each other the largest, the sum and the right one of each row. */
void plan_cross_entropy(plan_builder *b, plan_value logits);
/* Of a last product and cross-entropy. */
void plan_head(plan_builder *b, const char *name, plan_value x, plan_columns head);

/* Of so many numbers; element: bytes of one that is not in 4 bits. */
double plan_base_bytes(remat_base base, double count, double element);

/* The columns of several values beside one another. */
plan_value plan_concat(plan_builder *b, const char *name, const plan_value *inputs,
                       unsigned n_inputs, double width);
/* The same rows, of which width columns are read. */
plan_value plan_columns_of(plan_value x, double width);

/* ---- families ---- */

typedef struct plan_transformer {
    double width, mlp, heads, groups, vocabulary, positions; /* groups: heads of keys and values */
    bool tied;
    bool plain;  /* of GPT-2's: no biases */
    bool bloom;  /* of GPT-2's: a norm behind the table, slopes for positions */
    bool pieces; /* of GPT-2's: gelu by several operations */
    bool drops_tables, drops, drops_attention; /* what tables, attention and MLPs give; where scores
                                                  are written out, probabilities */
    /* of Llamas */
    double head; /* columns of one; 0: width / heads */
    bool qkv_bias, qk_norm;
    double experts, chosen;  /* MLPs, and how many of them a token takes; 0: there is one */
    bool gemma;              /* the table is scaled, norms are weighed in float32, MLPs by gelu */
    bool after_norms;        /* of what attention and MLP give */
    bool capped;             /* scores and logits go through tanh */
    double window;           /* tokens that attention sees back; 0: all */
    double global_every;     /* but every so many blocks, where it sees all; 0: nowhere */
    const uint8_t *windowed; /* in place of that: remat_network_sizes; NULL: not said */
    /* of DeepSeeks */
    double shared;              /* experts that every token takes beside */
    double dense, dense_mlp;    /* blocks at the front that have one MLP, of so many columns */
    double query_rank, kv_rank; /* columns that queries, and keys with values, come from; the second
                                   0: not so */
    double plain_head, rotated_head, value_head; /* columns of a head of queries and keys without
                                                    positions, with them, of values */
} plan_transformer;

/* What of it one rank has. */
typedef struct plan_share {
    double mlp, heads, groups, vocabulary;
    double inner, shared; /* columns of the queries, and of the keys, of this rank */
    double head;          /* of one head */
} plan_share;

void plan_gpt2(plan_builder *b, const plan_transformer *t, uint32_t layers);
void plan_llama(plan_builder *b, const plan_transformer *t, uint32_t layers);
void plan_bert(plan_builder *b, const plan_transformer *t, uint32_t layers);
/* positions: height and width of a patch. */
void plan_vit(plan_builder *b, const plan_transformer *t, uint32_t layers);
/* The same; of latents, an eighth of the image each way. */
void plan_dit(plan_builder *b, const plan_transformer *t, uint32_t layers);
/* blocks: of each of four stages; bottleneck or basic ones. */
void plan_resnet(plan_builder *b, const uint32_t blocks[4], bool bottleneck);
void plan_unet(plan_builder *b);

#endif
