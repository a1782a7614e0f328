/* Planning a training step before a device is touched: what a model's step takes and how long it
 * will be, from shapes alone.
 *
 *     remat_network_graph *graph;
 *     remat_network_graph_new("gpt2", &settings, &device, &graph, &error);
 *     remat_step_bytes(graph->tensors, graph->n_tensors, &step, &device, &bytes, &error);
 *     // remat_step_room(&bytes, device.memory) is left for graph->spec (remat_profile_new)
 *
 * Times are a model, not a measurement: each kernel takes the larger of what its arithmetic and
 * what its traffic take at the part of the device's peaks that kernels of its class and size reach
 * (Williams, Waterman, Patterson 2009: Roofline), after its launch. Sizes are exact for the
 * operations described. Nothing here does I/O or keeps state; all of it may be called from any
 * thread. */
#ifndef REMAT_PLAN_H
#define REMAT_PLAN_H

#include "remat/profile.h"
#include "remat/simulate.h"

/* ---- devices ---- */

/* What numbers are and what products of matrices are made in. */
typedef enum remat_precision {
    REMAT_FLOAT32,
    REMAT_TF32, /* numbers in float32, products rounded to 10 bits */
    REMAT_BFLOAT16,
    REMAT_FLOAT16,
    REMAT_PRECISIONS,
    REMAT_FLOAT8 = REMAT_PRECISIONS, /* of products alone (remat_float8) */
    REMAT_RATES
} remat_precision;

/* Classes of kernels. The first three are bound by arithmetic where they are large, the others by
 * memory. */
typedef enum remat_kernel_class {
    REMAT_MATRIX,
    REMAT_CONVOLUTION,
    REMAT_ATTENTION, /* fused */
    REMAT_NORMALISATION,
    REMAT_POINTWISE,
    REMAT_POOLING,
    REMAT_GATHER,
    REMAT_COPY,
    REMAT_ACTIVATION, /* exponentials and random numbers: pointwise, but slow on processors */
    REMAT_KERNEL_CLASSES
} remat_kernel_class;

#define REMAT_MAX_EFFICIENCY_POINTS 16

/* The part of the peak that kernels of a class reach, by size: floating-point operations of the
 * first three classes, bytes read and written of the others. Between the points by straight lines
 * over the logarithms of both; beyond them as at the ends. No points: not known. */
typedef struct remat_efficiency {
    unsigned n;
    double size[REMAT_MAX_EFFICIENCY_POINTS];
    double fraction[REMAT_MAX_EFFICIENCY_POINTS]; /* in (0, 4]: above 1 where caches serve */
    double peak; /* that the sizes are for: on a device with k times the rate (or bandwidth) the
                    same fraction takes k times the size. 0: for the device as it is */
    double tf32; /* of the fraction, in REMAT_TF32; 0 is 1 */
} remat_efficiency;

/* Ways between ranks: what collectives reach, per rank each way (the bus bandwidth of nccl-tests,
 * doc/PERFORMANCE.md), and how long one of no bytes takes. */
typedef struct remat_interconnect {
    char name[64];
    double within, between; /* bytes per second, in a node and by one rank's way out of it */
    double within_latency;  /* seconds */
    double between_latency; /* the same, beside it, for each doubling of the nodes */
    uint32_t node;          /* ranks in a node, at least 1 */
} remat_interconnect;

/* Rates are per second. */
typedef struct remat_device {
    char name[64], title[128];
    uint64_t memory;         /* bytes */
    uint64_t context;        /* bytes that the runtime takes before anything else */
    uint64_t communicator;   /* and NCCL's beside, where there is more than one rank */
    uint64_t workspace;      /* what libraries of products work in, which the allocator hands out */
    double rounding;         /* what PyTorch's allocator hands out beyond what is asked, as a part
                                of it */
    double fragmentation[2]; /* what PyTorch's allocator reserves beyond what is asked, as a part
                                of it, at least the former: eager, compiled */
    double bandwidth;        /* bytes */
    double rate[REMAT_RATES]; /* floating-point operations; 0: has none of the precision */
    double link;              /* bytes to or from the host; 0: no way */
    double launch;            /* seconds from one kernel to the next */
    double host;  /* seconds that the host takes for an operation, forward or back, of modules run
                     one operation after the other: of a step at least so long */
    double again; /* the same of one that checkpointing runs again */
    double alignment[3]; /* what products reach whose rows are multiples of 2, 4, 8 bytes, and of no
                            more, of what those of 16 do; 0 is 1 */
    double several;      /* the part of its rates that compute has beside communication, on several
                            ranks; 0 is 1 */
    remat_interconnect interconnect; /* usual to others of its kind; node 0: not known */
    remat_efficiency forward[REMAT_KERNEL_CLASSES];
    remat_efficiency backward[REMAT_KERNEL_CLASSES]; /* without points: as forward */
} remat_device;

/* Whether every number makes sense: rates finite and > 0, fractions in (0, 4], sizes increasing,
 * and no point at which a larger kernel would take less time. REMAT_INVALID names the field in JSON
 * terms. */
remat_status remat_device_check(const remat_device *device, remat_error *error);

/* REMAT_INVALID: the device has none of the precision; it has ... */
remat_status remat_device_computes(const remat_device *device, remat_precision precision,
                                   remat_error *error);

/* One kernel. Of the classes bound by memory flops are not read. */
typedef struct remat_kernel {
    remat_kernel_class kind;
    remat_precision precision;
    bool backward;
    double flops, bytes;
    double row; /* of products: bytes that the rows of all matrices are multiples of; 0: 16 */
} remat_kernel;

/* Seconds; increasing in flops and bytes. The device was checked and has the precision. */
double remat_kernel_seconds(const remat_device *device, const remat_kernel *kernel);

const char *remat_precision_name(remat_precision precision);  /* "float32", .., "float8" */
const char *remat_kernel_class_name(remat_kernel_class kind); /* "matrix", .. */
uint64_t remat_precision_bytes(remat_precision precision);    /* of a number: 4, 2 or 1 */
/* Of those that numbers are in, without float8. */
remat_status remat_precision_find(const char *name, remat_precision *ret_precision,
                                  remat_error *error); /* REMAT_INVALID: known are .. */

/* ---- what ranks send one another ---- */

typedef enum remat_collective {
    REMAT_ALL_REDUCE,     /* takes S / B 2 (n - 1) / n of S bytes at bandwidth B */
    REMAT_ALL_GATHER,     /* these three S / B (n - 1) / n, S of all ranks together */
    REMAT_REDUCE_SCATTER, /* the same */
    REMAT_ALL_TO_ALL      /* the same; what leaves a node leaves it by each rank's own way */
} remat_collective;

/* Seconds of a collective of bytes among ranks that are stride apart: ranks 0 to stride - 1 begin
 * groups of their own. Groups within a node have B = within; rings over several nodes have the ways
 * out of all their ranks of a node, at most within. 0 among one rank. Increasing in bytes and
 * ranks, decreasing in bandwidths. */
double remat_collective_seconds(const remat_interconnect *way, remat_collective kind,
                                uint32_t ranks, uint32_t stride, double bytes);

/* Rates finite and at least 1, latencies from 0 to 1 second, a node of at least one rank.
 * REMAT_INVALID names the field. */
remat_status remat_interconnect_check(const remat_interconnect *way, remat_error *error);

/* ---- models ---- */

/* What is known of a model by name. */
typedef struct remat_network {
    const char *name, *title;
    uint64_t parameters;      /* as published */
    uint32_t sequence, image; /* usual: tokens, or height and width in pixels; 0: has none */
    uint32_t layers;          /* usual, of a transformer; 0: cannot be chosen */
} remat_network;

/* All of them; static. */
const remat_network *remat_networks(size_t *ret_count);
/* REMAT_INVALID: there is none; known are .. */
remat_status remat_network_find(const char *name, const remat_network **ret_model,
                                remat_error *error);

/* How a model's operations are put together. */
typedef enum remat_kernels {
    REMAT_EAGER,    /* one kernel an operation, as modules are written */
    REMAT_COMPILED, /* blocks by torch.compile: normalisation, rotary positions, SwiGLU and dropout
                       with its sum are one kernel each and keep their inputs alone, no copy between
                       products and attention */
    REMAT_COMPILED_LOSS, /* the loss too, where ranks do not share logits: of these and their
                            gradient nothing stands in float32 */
    REMAT_CHUNKED_LOSS,  /* the same, and logits are made in eight chunks that stay, of whose
                            gradients one stands at a time (torchtune) */
    REMAT_FUSED, /* as compiled, and logits are made in chunks whose gradients are made at once
                    (Liger) */
    REMAT_KERNEL_SETS
} remat_kernels;

const char *remat_kernels_name(remat_kernels kernels); /* "eager", .. */
remat_status remat_kernels_find(const char *name, remat_kernels *ret_kernels,
                                remat_error *error); /* REMAT_INVALID: known are .. */

typedef enum remat_choice { REMAT_AS_IT_IS, REMAT_YES, REMAT_NO } remat_choice;

#define REMAT_MOST_LAYERS 200

/* Sizes in place of a transformer's own; 0: as the model has it. */
typedef struct remat_network_sizes {
    uint32_t hidden, heads, kv_heads, head; /* head: columns of one; hidden / heads where it is not
                                               given and neither is the model's */
    uint32_t ffn, vocabulary, positions;
    uint32_t experts,
        experts_per_token; /* of Llamas: so many MLPs, of which each token takes some */
    remat_choice tied, qkv_bias, qk_norm; /* the last two of Llamas */
    /* what tables, and attention with MLPs, give is dropped, but of Llamas; and probabilities */
    remat_choice table_dropout, dropout, attention_dropout;
    remat_choice gelu_in_pieces; /* of GPT-2s, where kernels are not fused */
    /* of Llamas, too */
    uint32_t window;                     /* tokens that attention sees back */
    uint8_t windowed[REMAT_MOST_LAYERS]; /* by block, a remat_choice: has the window, sees all */
    uint32_t shared_experts;             /* beside, that every token takes */
    uint32_t dense_layers, dense_ffn;    /* first ones, with one MLP of so many columns */
    uint32_t q_rank, kv_rank;            /* columns that queries, and keys with values,
                                            are made of (DeepSeek-AI 2024); with them */
    uint32_t plain_head, rotated_head, value_head; /* columns of a head without positions, with
                                                      them, and of its values */
} remat_network_sizes;

/* How weights are held. */
typedef enum remat_base {
    REMAT_TRAINED,
    REMAT_FROZEN,     /* as the others, without gradient and states */
    REMAT_NF4,        /* frozen, in 4 bits with a float32 for each 64 (Dettmers et al. 2023) */
    REMAT_NF4_DOUBLE, /* the same with 8 bits for each 64 and a float32 for each 256 of those */
    REMAT_BASES
} remat_base;

const char *remat_base_name(remat_base base); /* "trained", "frozen", "nf4", "nf4-double" */
remat_status remat_base_find(const char *name, remat_base *ret_base,
                             remat_error *error); /* REMAT_INVALID: known are .., without trained */

/* Matrices of a block that can have adapters. */
enum {
    REMAT_ADAPT_QUERIES = 1,
    REMAT_ADAPT_KEYS = 2,
    REMAT_ADAPT_VALUES = 4,
    REMAT_ADAPT_OUTPUTS = 8, /* of attention */
    REMAT_ADAPT_MLP = 16,
    REMAT_ADAPT_ALL = 31
};

/* A name of one or several of them, by index: "q", "k", "v", "o", "mlp", "attention", "all-linear".
 * NULL: no more. */
const char *remat_target_name(size_t index, uint32_t *ret_targets);
remat_status remat_target_find(const char *name, uint32_t *ret_targets,
                               remat_error *error); /* REMAT_INVALID: known are .. */

/* Low-rank adapters (Hu et al. 2021): all of the model is frozen, and beside some of the matrices
 * of its blocks, of i columns and o rows, a product with r x i and one with o x r are trained.
 * Inputs that only the gradient of a frozen matrix would need are not kept. Where queries, keys and
 * values are of one matrix it has one adapter. */
typedef struct remat_lora {
    uint32_t rank;    /* 1 to 65536; 0: there are none and everything is trained */
    uint32_t targets; /* at least one */
    bool dropout;     /* of what goes into each, which keeps what is left and its mask */
    remat_base base;  /* of the blocks' matrices; those of 4 bits are made whole one at a time, when
                         they are used, and forward and back */
} remat_lora;

/* Products of the blocks' matrices in 8 bits: the three of each, forward and back, of numbers that
 * are scaled by one factor a tensor. Weights stay in 16 bits, with what is beside them, but where
 * it says else; tables, norms, routers, the last product and matrices of which a side is no
 * multiple of 16 are as without. */
typedef enum remat_float8 {
    REMAT_FLOAT8_NONE,
    REMAT_FLOAT8_TORCHAO, /* torchao's Float8Linear, dynamic scales: inputs are kept as they are;
                             they, weights and gradients are cast anew each time */
    REMAT_FLOAT8_TORCHAO_GATHER, /* and zero3 gathers what was cast
                                    (enable_fsdp_float8_all_gather) */
    REMAT_FLOAT8_TE, /* Transformer Engine's Linear, delayed scales: inputs are kept in 8 bits, and
                        of weights a copy by rows and one by columns */
    REMAT_FLOAT8_TE_WEIGHTS, /* and in their place: weights are those two (fp8_model_init,
                                Megatron's
                                --fp8-param-gather) */
    REMAT_FLOAT8_KINDS
} remat_float8;

const char *remat_float8_name(remat_float8 kind); /* "none", "torchao", "torchao-gather", .. */
remat_status remat_float8_find(const char *name, remat_float8 *ret_kind,
                               remat_error *error); /* REMAT_INVALID: known are .. */

/* How many rows the experts of a rank take, of the tokens that chose some of them each. */
typedef struct remat_routing {
    double capacity; /* each expert has so many times an even share of the choices of each rank,
                        rounded up: what is more is dropped, what is less is filled up (Fedus et al.
                        2021). 0.01 to 1000; 0: none is dropped */
    bool worst;      /* of those, all go to the rank that is planned; else as many to each expert */
} remat_routing;

typedef struct remat_network_settings {
    const char *called;               /* in place of the model's name; NULL: that */
    remat_network_sizes sizes;        /* of transformers */
    uint64_t batch;                   /* examples of a step: 1 to 2^20 */
    uint32_t sequence, image, layers; /* 0: the usual */
    remat_precision precision;
    bool eager_attention; /* scores are written out; else fused (Dao et al. 2022) */
    bool autocast; /* torch.autocast of a float32 model: products in 16 bits of cast inputs; sums of
                      residuals, normalisation and softmax in float32 */
    remat_kernels kernels;
    remat_float8 float8;   /* of transformers in bfloat16, without autocast and adapters */
    remat_lora lora;       /* of transformers, without autocast */
    remat_routing routing; /* of models with experts */
    bool channels_last; /* images lie so that convolutions are products of matrices as they are */
    /* Ranks among which a model is cut; 0 is 1. Of transformers only. */
    uint32_t tensor;  /* matrices by columns, then rows: Shoeybi et al. 2019 */
    uint32_t context; /* tokens; keys and values go around: Liu et al. 2023 */
    uint32_t
        expert; /* experts; each of these ranks has examples of its own: Lepikhin et al. 2020 */
    bool sequence_parallel; /* and what lies between the matrices by tokens: Korthikanti et al. 2022
                             */
    const remat_interconnect *interconnect; /* of these ranks; NULL where all are 1 */
    bool weights; /* each unit's stand in the graph as an input of no bytes, and autocast's copies
                     as nodes, which stay as long as they are read (remat_step_settings.in_graph) */
    double gradient; /* then: bytes of the gradient of one weight on this rank, which comes as the
                        backward goes and stays to its end; 0: it is there before */
} remat_network_settings;

/* A parameter tensor: rows x columns numbers, a vector has one row. unit: see below. parts: so many
 * data-parallel ranks hold other experts each, so that fewer have the same; 0 is 1. */
typedef struct remat_tensor {
    uint64_t rows, columns;
    uint32_t unit, parts;
    remat_base base;
    bool float8; /* its products are in 8 bits */
} remat_tensor;

/* A model of some size on some device. Nodes and tensors belong to units: the blocks that
 * per-block checkpointing runs again and that sharding gathers; unit 0 is what comes before the
 * first block, the last one what comes after the last. */
typedef struct remat_network_graph {
    remat_profile_spec spec; /* forward graph, times in us */
    const uint32_t *unit;    /* by node, not decreasing */
    uint32_t n_units;
    const remat_tensor *tensors; /* of one rank */
    size_t n_tensors;
    uint64_t parameters; /* numbers in the tensors of all ranks among which the model is cut */
    uint64_t trained;    /* of these: have a gradient */
    const bool *kept;    /* by node: whose results REMAT_WAY_SELECTIVE_OP keeps */
    const double *sent;  /* by node: us of forward_time and backward_time that are waited for what
                            ranks send */
    uint64_t hole; /* bytes that PyTorch's allocator cannot give out again until the step's peak is
                      over: where logits in 16 bits were, which no tensor in float32 fits into */
    double host, again; /* us that the host takes for the step, and for its forward once more; the
                           device waits where it takes longer than the nodes */
    void *memory;       /* its own */
} remat_network_graph;

/* The device was checked. REMAT_INVALID names the setting: an unknown model, a size out of range, a
 * precision the device has not; REMAT_TOO_LARGE: sizes past 2^53 bytes. The caller frees. */
remat_status remat_network_graph_new(const char *name, const remat_network_settings *settings,
                                     const remat_device *device, remat_network_graph **ret_graph,
                                     remat_error *error);
void remat_network_graph_free(remat_network_graph *graph); /* accepts NULL */

/* ---- steps by units ---- */

/* The list that goes through the units forward and, one after the other, back. Of unit u it keeps
 * what later units read, and of the values and saved values that its backward needs those whose
 * recomputation takes more than threshold[u] of time per byte; before its backward the others are
 * made again. A threshold of INFINITY is per-block checkpointing as it is used today (Chen et al.
 * 2016), one below 0 keeps everything. What units below `offloaded` keep goes to the host and comes
 * back while the unit computes that is before the one that reads it. profile: of the graph's spec.
 * No D but those of copies (remat_liveness); *ret_list must be empty and is the caller's to clear.
 */
remat_status remat_unit_list(const remat_profile *profile, const uint32_t *unit,
                             const double *threshold, uint32_t offloaded,
                             remat_operations *ret_list, remat_error *error);
/* The same; kept: by node, whose output stays whatever the threshold; NULL: none. */
remat_status remat_unit_list_keeping(const remat_profile *profile, const uint32_t *unit,
                                     const double *threshold, const bool *kept, uint32_t offloaded,
                                     remat_operations *ret_list, remat_error *error);

/* Ways through a step that a plan compares. */
typedef enum remat_way {
    REMAT_WAY_STORE_ALL,
    REMAT_WAY_BLOCKS,       /* per-block checkpointing */
    REMAT_WAY_REMAT,        /* thresholds by unit, as large as they must be */
    REMAT_WAY_SELECTIVE_OP, /* per-block checkpointing that keeps what attention and every other
                               product of a block give, the first included: as torchtitan has it */
    REMAT_WAY_OFFLOADED,    /* per-block checkpointing, what blocks begin with at the host */
    REMAT_WAYS
} remat_way;

typedef struct remat_way_result {
    bool fits;       /* its replayed peak is within the budget; then */
    double makespan; /* in the profile's time unit */
    uint64_t peak;   /* of the fastest found; where none fits, the least found */
    size_t again;    /* forwards that run again */
} remat_way_result;

/* kept: of the graph, for REMAT_WAY_SELECTIVE_OP. The fastest step of this way within budget, by
 * replay of some dozen lists. link NULL: nothing is offloaded; else also with as many units
 * offloaded as are needed, of REMAT_WAY_OFFLOADED, which needs one, all. Takes some milliseconds
 * where a solver takes seconds: for tables over many batches. */
remat_status remat_way_solve(const remat_profile *profile, const uint32_t *unit, const bool *kept,
                             remat_way way, const remat_link *link, uint64_t budget,
                             remat_way_result *ret_result, remat_error *error);
const char *remat_way_name(remat_way way); /* "store-all", "blocks", "remat", .. */

/* ---- the whole step ---- */

typedef enum remat_optimizer {
    REMAT_SGD,
    REMAT_MOMENTUM,
    REMAT_ADAM,
    REMAT_ADAMW,
    REMAT_ADAFACTOR, /* Shazeer, Stern 2018, without first moment */
    REMAT_ADAM8BIT,  /* Dettmers et al. 2022, in blocks of 256; below 4,096 numbers in 32 bits */
    REMAT_OPTIMIZERS
} remat_optimizer;

typedef enum remat_parallel {
    REMAT_SINGLE,
    REMAT_DDP,   /* Li et al. 2020 */
    REMAT_ZERO1, /* Rajbhandari et al. 2020: states sharded; */
    REMAT_ZERO2, /* gradients too; */
    REMAT_ZERO3, /* weights too, which is FSDP (Zhao et al. 2023) */
    REMAT_PARALLELS
} remat_parallel;

typedef struct remat_step_settings {
    remat_optimizer optimizer;
    remat_precision precision;
    bool no_master; /* 16-bit weights without a copy in float32, states in 16 bits as well */
    bool autocast;  /* weights and gradients in float32, copies of the weights in 16 bits beside */
    remat_float8 float8; /* of bfloat16, without autocast */
    bool in_backward; /* each weight is updated once its gradient is there, which is freed: of one
                         rank, or of zero3, where gradients are not summed over micro-batches */
    remat_parallel parallel;
    uint32_t ranks;       /* among which it shares; at least 1 */
    uint32_t replicas;    /* of these, each with all shards: hybrid sharding; 0 is 1 */
    uint32_t model_ranks; /* among which each of them cuts the model; 0 is 1 */
    uint32_t stages;      /* of a pipeline, each of so many ranks, which are next to one another;
                             0 is 1. Where there are several, gradients are summed whole over
                             micro-batches, whatever is sharded, and weights of zero3 are gathered
                             once a step and kept to its end (torchtitan's fully_shard with
                             reshard_after_forward false; torch.distributed.pipelining syncs with
                             the last backward) */
    bool bucket_view;     /* of DDP: gradients lie in their buckets */
    bool no_prefetch;     /* of ZeRO-3: one unit is gathered at a time, not two */
    bool compiled;        /* by torch.compile: the allocator is asked less often */
    bool in_graph;        /* autocast's copies are nodes of the graph (remat_network_settings), and
                             gradients inputs of it, unless */
    bool keep_gradients;  /* they stay from one backward to the next */
} remat_step_settings;

/* Bytes of one rank. */
typedef struct remat_step_table {
    uint64_t weights, master_weights, gradients, states;
    uint64_t summed;    /* of the gradients those of several stages that are whole */
    uint64_t cached;    /* autocast's copies */
    uint64_t float8;    /* Transformer Engine's copies and what it knows of former steps */
    uint64_t buckets;   /* DDP's copies of gradients in buckets of 25 MiB (as much as the gradients
                           unless bucket_view); from ZeRO-2 on the gradient of the largest unit */
    uint64_t gathered;  /* ZeRO-3: the largest unit, with prefetch twice */
    uint64_t allocated; /* sum of all these that are not in the graph */
    uint64_t context,
        communicator; /* of the device; the second where there is more than one rank */
    uint64_t
        rounding;       /* the least that PyTorch's caching allocator takes beyond those sizes: 512
                           bytes each, blocks of 2 MiB for tensors to 1 MiB and 20 MiB below 10 MiB */
    uint64_t hole;      /* the graph's, where the caller puts it: the least beyond those, too */
    uint64_t workspace; /* of the device */
    double fragmentation;    /* of the device, as the step runs */
    double handed;           /* its rounding */
    uint64_t update_traffic; /* bytes that the optimizer reads and writes in a step */
} remat_step_table;

/* The three numbers that are called a step's memory. */
typedef struct remat_memory {
    uint64_t allocated; /* in tensors: torch.cuda.max_memory_allocated */
    uint64_t reserved;  /* by the allocator, gaps included: torch.cuda.max_memory_reserved */
    uint64_t driver;    /* and by context and NCCL: nvidia-smi; what has to fit the device */
} remat_memory;

/* Of a rank whose activations take so many bytes. */
remat_memory remat_step_memory(const remat_step_table *table, uint64_t activations);

/* The most activations with which remat_step_memory's driver is within memory; 0: there are none.
 */
uint64_t remat_step_room(const remat_step_table *table, uint64_t memory);

/* Bytes that the gradient of one weight takes on one rank as the backward goes. */
double remat_step_gradient(const remat_step_settings *settings);

/* All ranks of a step. */
uint64_t remat_step_ranks(const remat_step_settings *settings);

/* REMAT_INVALID: ranks out of range (1 to 2^20), ranks without a way to use them, a precision
 * without master weights to leave out; REMAT_TOO_LARGE past 2^53. */
remat_status remat_step_bytes(const remat_tensor *tensors, size_t n_tensors,
                              const remat_step_settings *settings, const remat_device *device,
                              remat_step_table *ret_table, remat_error *error);

/* What a unit has and how long it runs. */
typedef struct remat_unit_load {
    double parameters; /* numbers of this rank, before they are sharded, but those in 4 bits */
    double forward, backward; /* seconds */
    double frozen;            /* of the parameters: have no gradient */
    double packed;            /* bytes of those in 4 bits */
    double float8;            /* of the parameters: are read in 8 bits */
} remat_unit_load;

/* One more tensor of the unit. */
void remat_unit_load_add(remat_unit_load *load, const remat_tensor *tensor);
/* Of every unit of a graph; loads: room for n_units. */
void remat_unit_loads(const remat_network_graph *graph, remat_unit_load *loads);

typedef struct remat_exchange {
    double sent;    /* seconds that the way between ranks is busy for weights and gradients */
    double exposed; /* of these what the step is longer for: compute does not hide it */
} remat_exchange;

/* What goes between data-parallel ranks in a step, played on two streams: compute, and one way on
 * which one collective runs after the other.
 *
 * ddp, zero1, zero2: the gradient of a unit goes out once its backward is over, behind compute of
 * the units before it. zero1 and zero2 gather the updated weights after the step, behind nothing.
 * zero3: a unit is gathered while the one before it runs (without prefetch: once that is over),
 * forward and again for its backward, and its gradient goes out behind the next backward; the first
 * and the last unit are gathered once and kept. Gradients go in float32 where there are master
 * weights of zero3, else as they are. Of replicas each then sums its shards of the gradients. Of
 * several stages the loads are one stage's, of one micro-batch: the first forward, behind which
 * weights are gathered, and the last backward, behind which gradients go out.
 *
 * Nothing is slower for running beside something else. backward_stretch: how much longer the
 * backward is than the loads say, for what is computed again. */
remat_exchange remat_step_exchange(const remat_unit_load *loads, uint32_t n_units,
                                   const remat_step_settings *settings,
                                   const remat_interconnect *way, double backward_stretch);

const char *remat_optimizer_name(remat_optimizer optimizer); /* "adamw", .. */
const char *remat_parallel_name(remat_parallel parallel);    /* "none", "ddp", "zero1", .. */
remat_status remat_optimizer_find(const char *name, remat_optimizer *ret_optimizer,
                                  remat_error *error); /* REMAT_INVALID: known are .. */
remat_status remat_parallel_find(const char *name, remat_parallel *ret_parallel,
                                 remat_error *error); /* the same; "fsdp" is zero3 */

#endif
