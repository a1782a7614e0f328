/* A network on a device: its parameters, states and inputs, the step that the runner calls, and
 * what its nodes cost. */
#ifndef REMAT_EXECUTOR_MODEL_H
#define REMAT_EXECUTOR_MODEL_H

#include "backend.h"

/* ---- costs ---- */

enum { MODEL_ALTERNATIVES = 4, MODEL_SAMPLES = 32 };

/* Seconds of one call, by node and implementation. */
typedef struct node_times {
    double forward[MODEL_ALTERNATIVES], backward[MODEL_ALTERNATIVES];
} node_times;

/* A remat-profile/1 document of the network; times in microseconds. times: [n_nodes]; NULL: a rough
 * guess from operations and bytes. chosen: by node, the implementation that stands for it, without
 * alternatives; NULL: the first, the others being alternatives in their order. Returns NULL when
 * out of memory; the caller owns the document. */
json_t *model_profile(const net_graph *net, const kernel_backend *backend, const node_times *times,
                      const uint32_t *chosen);

/* How many implementations the backend has of a node. */
uint32_t model_implementations(const kernel_backend *backend, const net_node *node);

/* ---- running ---- */

/* Seconds of the last calls of each node; n counts all. */
typedef struct node_samples {
    double forward[MODEL_SAMPLES], backward[MODEL_SAMPLES];
    uint32_t n_forward, n_backward;
} node_samples;

/* A call of a step, between two moments of the device. */
typedef struct timed_call {
    kernel_mark from, to;
    uint32_t node;
    bool backward;
} timed_call;

/* Times the calls of a step where they happen, so that the device waits for none of them. */
typedef struct model_timing {
    node_samples *samples; /* by node */
    timed_call *calls;
    uint32_t n_calls, room;
    double given; /* model_clock when the host had given the device its last call */
    double total; /* seconds of the calls of the step that was collected last */
} model_timing;

/* Seconds on the wall, from some moment on. */
double model_clock(void);

typedef struct model {
    const net_graph *net;
    const kernel_backend *backend;
    float *weights, *velocity, *slopes; /* of the device */
    void **states;                      /* of the device */
    void **inputs;                      /* of the host */
    bool *used;                         /* by parameter and lane: its gradient has begun */
    const uint32_t *chosen;             /* implementation by node; NULL: what the schedule says */
    model_timing *timing;               /* NULL: nothing is timed */
    remat_exec_network calls;           /* for remat_runner_new */
    double *loss;                       /* of the last step; of the host */
} model;

/* Takes parameters, gradients, momenta and states from the device. REMAT_TOO_LARGE says how many
 * bytes it did not have. The network and the backend outlive it; it stays where it is. */
remat_status model_init(model *model, const net_graph *net, const kernel_backend *backend,
                        remat_error *error);
void model_clear(model *model); /* accepts {0} */

/* Parameters as seed wants them; momenta and statistics as at the start. */
remat_status model_reset(model *model, uint64_t seed, remat_error *error);

/* Before each step: gradients start anew. */
void model_begin(model *model);
/* After it: w = w - rate v with v = momentum v + gradient. */
remat_status model_update(model *model, float rate, float momentum, remat_error *error);

/* After a step that was timed: its calls become samples. 0, or what the device returned. */
int model_collect(model *model);

/* Bytes of parameters, gradients and momenta: outside of the arena. */
uint64_t model_bytes(const net_graph *net);

/* ---- data ---- */

/* What the inputs get: text, for networks on sequences, of bytes; without it, made up. */
typedef struct training_text {
    uint8_t *bytes;
    size_t length;
} training_text;

/* Fills the host's inputs for a step. The same step and seed give the same data. */
void model_fill(model *model, const training_text *text, uint64_t seed, uint64_t step);

/* Counter-based: the n-th number of a seed, uniform in 64 bits (Steele et al. 2014: SplitMix). */
uint64_t model_random(uint64_t seed, uint64_t n);

#endif
