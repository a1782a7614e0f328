/* The profile: the graph of one training step with its costs (format remat-profile/1).
 *
 * A forward graph holds the forward of every node; its backward is made by us, one B per node. A
 * joint graph holds every operation of the step, backward ones too: a node of it runs as F alone,
 * may have several results, and the profile says which of them must be there at the end. Inside it
 * is a profile whose nodes have no backward: forward_time is the node's time,
 * forward_workspace_bytes its workspace.
 *
 * A remat_profile_spec is what somebody claims; remat_profile_new checks every claim once and
 * builds a remat_profile, which every other function trusts. A profile never changes after it was
 * made and may be read by any number of threads.
 *
 * Values. Index w < n_nodes is the output of node w, or of several results the first; index
 * n_nodes + k is graph input k; index n_nodes + n_inputs + j is results[j], a further result of a
 * node of a joint graph. Nodes stand in the topological order of the specification; of a forward
 * graph the last one is the loss. Bytes are uint64_t below 2^53, times are double in the profile's
 * own unit, finite and >= 0. */
#ifndef REMAT_PROFILE_H
#define REMAT_PROFILE_H

#include "remat/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REMAT_MAX_BYTES (UINT64_C(1) << 53) /* sizes and their sums stay below this */
#define REMAT_MAX_NODES 1000000u
#define REMAT_MAX_ID_CHARACTERS 200u
#define REMAT_MAX_ALTERNATIVES 64u /* of one node */
#define REMAT_MAX_OUTPUTS 65535u   /* of one node of a joint graph */

/* ---- the claim ---- */

/* An optional number: value counts only when given. */
typedef struct remat_number {
    double value;
    bool given;
} remat_number;

/* Another implementation of a node; numbers that are not given are the node's own. Where only
 * forward_workspace_bytes is given, and neither the node nor the alternative gives
 * save_workspace_bytes, the latter is the same. */
typedef struct remat_alternative_spec {
    const char *name;
    remat_number forward_time, backward_time;
    remat_number saved_bytes;
    remat_number forward_workspace_bytes, backward_workspace_bytes, save_workspace_bytes;
} remat_alternative_spec;

/* Of a joint graph: forward_time is its `time`, forward_workspace_bytes its `workspace_bytes`, and
 * what speaks of a backward, of saved values or of gradients must not be given. */
typedef struct remat_node_spec {
    const char *id;
    const char *op;            /* NULL: none */
    const char *const *inputs; /* ids of earlier nodes or of graph inputs; of a joint graph also
                                  "id:k", result k of a node */
    size_t n_inputs;
    remat_number forward_time;                                 /* required */
    remat_number backward_time;                                /* default 2 x forward_time */
    remat_number output_bytes;                                 /* required */
    remat_number saved_bytes;                                  /* default 0 */
    remat_number gradient_bytes;                               /* default output_bytes */
    remat_number forward_workspace_bytes;                      /* default 0 */
    remat_number backward_workspace_bytes;                     /* default 0 */
    remat_number save_workspace_bytes;                         /* default forward_workspace_bytes */
    bool backward_uses_inputs, backward_uses_output, in_place; /* no default here */
    const char *const *reads, *const *writes;                  /* ids of states */
    size_t n_reads, n_writes;
    const remat_alternative_spec *alternatives;
    size_t n_alternatives;
    const remat_number *outputs; /* joint: bytes of each result, in place of output_bytes */
    size_t n_outputs;            /* 0: output_bytes is given */
    bool has_outputs;            /* outputs counts, even if empty */
    const char *recompute;       /* "free" or "never"; NULL: free */
    bool keep;
} remat_node_spec;

typedef struct remat_input_spec {
    const char *id;
    remat_number bytes;          /* required */
    remat_number gradient_bytes; /* default 0 */
    bool late;                   /* of a joint graph: there from the turn on (remat/simulate.h) */
} remat_input_spec;

typedef struct remat_state_spec {
    const char *id;
    remat_number bytes; /* required */
} remat_state_spec;

typedef struct remat_profile_spec {
    const char *format;    /* must be "remat-profile/1" */
    const char *name;      /* 1 to 200 characters */
    const char *time_unit; /* NULL: us */
    const char *graph;     /* "forward" or "joint"; NULL: forward */
    const remat_input_spec *inputs;
    size_t n_inputs;
    const remat_state_spec *states;
    size_t n_states;
    const remat_node_spec *nodes;
    size_t n_nodes;
    const char *const *outputs; /* joint: what must be there at the end, as in inputs of a node */
    size_t n_outputs;
    bool held_elsewhere; /* joint: others hold inputs and outputs too, so that these are not copied
                  to the host */
} remat_profile_spec;

/* ---- the checked profile ---- */

typedef enum remat_time_unit {
    REMAT_SECONDS,
    REMAT_MILLISECONDS,
    REMAT_MICROSECONDS,
    REMAT_NANOSECONDS,
    REMAT_UNITS
} remat_time_unit;

typedef enum remat_kind {
    REMAT_CHAIN, /* every node has at most one node input and at most one consumer */
    REMAT_JOIN,  /* disjoint chains whose ends are the inputs of the loss */
    REMAT_GRAPH  /* any other DAG with one sink */
} remat_kind;

/* What one implementation of a node costs. */
typedef struct remat_alternative {
    const char *name; /* "" for the node's own one */
    double forward_time, backward_time;
    uint64_t saved_bytes;
    uint64_t forward_workspace_bytes, backward_workspace_bytes, save_workspace_bytes;
} remat_alternative;

typedef struct remat_node {
    const char *id;
    const char *op; /* "" when none was given */
    double forward_time, backward_time;
    uint64_t output_bytes, saved_bytes, gradient_bytes;
    uint64_t forward_workspace_bytes, backward_workspace_bytes, save_workspace_bytes;
    const uint32_t *inputs;         /* values, each once, in the order given */
    const uint32_t *consumers;      /* nodes that read any result, increasing */
    const uint32_t *reads, *writes; /* states, each once */
    const remat_alternative *alternatives;
    uint32_t n_inputs, n_consumers, n_reads, n_writes, n_alternatives;
    uint32_t n_outputs;    /* results, at least 1; output_bytes is of result 0 */
    uint32_t first_result; /* value of result 1; those of the others follow */
    bool backward_uses_inputs, backward_uses_output, in_place;
    bool late; /* it reads an input that is late, or depends on a node that does */
    bool once; /* pinned: its forward runs exactly once */
    bool keep; /* pinned: so does it, and its results stay from then to their last use; implies
                  once */
} remat_node;

/* Result number > 0 of a node. */
typedef struct remat_result {
    uint64_t bytes;
    uint32_t node, number;
} remat_result;

typedef struct remat_input {
    const char *id;
    uint64_t bytes, gradient_bytes;
    const uint32_t *consumers; /* nodes, increasing */
    uint32_t n_consumers;
    bool late; /* it comes at the turn: a gradient that the next rank of a pipeline sends */
} remat_input;

typedef struct remat_state {
    const char *id;
    uint64_t bytes;
    uint32_t n_writers; /* version n_writers is the one a plain forward pass leaves */
} remat_state;

typedef struct remat_profile {
    const char *name;
    remat_time_unit time_unit;
    const remat_node *nodes;
    const remat_input *inputs;
    const remat_state *states;
    const remat_result *results; /* of nodes with several, in the order of nodes */
    const uint32_t *outputs;     /* joint: values that must be there at the end */
    uint32_t n_nodes, n_inputs, n_states, n_results, n_outputs;
    bool joint;
    bool held_elsewhere;     /* inputs and outputs stay where they are: no O of one */
    uint32_t n_edges;        /* results of nodes that nodes read */
    uint32_t n_pinned;       /* nodes that run once */
    uint32_t n_alternatives; /* of all nodes */
    remat_kind kind;
    bool homogeneous;     /* see remat_profile_not_homogeneous */
    uint64_t input_bytes; /* sum over the graph inputs: resident through the step */
    uint64_t late_bytes;  /* of these the late ones: resident from the turn on */
    uint32_t n_late;
    double forward_time, backward_time; /* sums over the nodes' own implementations */
    uint32_t not_chain; /* first node that breaks the chain / the join, n_nodes when none does */
    uint32_t not_join;
    uint32_t not_homogeneous;
} remat_profile;

/* Checks spec and builds the profile, which keeps no pointer into it. REMAT_INVALID names the field
 * in JSON terms ("nodes[3].forward_time") and the node by its id. Homogeneous means: apart from the
 * loss, all forward times, all backward times, all output sizes and all gradient sizes are equal,
 * and no node (the loss included) has saved bytes or a workspace. The caller frees. */
remat_status remat_profile_new(const remat_profile_spec *spec, remat_profile **ret_profile,
                               remat_error *error);

/* Nodes first to end - 1 of a forward profile as one of its own, which borrows texts and
 * alternatives: `profile` must outlive it. What the node before them sends is graph input 0, with
 * its gradient; the graph inputs and states that they touch follow in their order. REMAT_INVALID:
 * they are no such run, or another value is read across its ends. The caller frees. */
remat_status remat_profile_cut(const remat_profile *profile, uint32_t first, uint32_t end,
                               remat_profile **ret_cut, remat_error *error);

/* Accepts NULL. */
void remat_profile_free(remat_profile *profile);

/* The value that is result k of node v. */
static inline uint32_t remat_result_value(const remat_profile *profile, uint32_t v, uint32_t k)
{
    return k == 0 ? v : profile->nodes[v].first_result + k - 1;
}

/* Whether a value is made by a node. */
static inline bool remat_is_result(const remat_profile *profile, uint32_t value)
{
    return value < profile->n_nodes || value >= profile->n_nodes + profile->n_inputs;
}

/* The node that makes the value; which of its results it is. */
static inline uint32_t remat_value_node(const remat_profile *profile, uint32_t value)
{
    return value < profile->n_nodes
               ? value
               : profile->results[value - profile->n_nodes - profile->n_inputs].node;
}

static inline uint32_t remat_value_number(const remat_profile *profile, uint32_t value)
{
    return value < profile->n_nodes
               ? 0
               : profile->results[value - profile->n_nodes - profile->n_inputs].number;
}

static inline uint32_t remat_n_values(const remat_profile *profile)
{
    return profile->n_nodes + profile->n_inputs + profile->n_results;
}

/* Of a result or a graph input. */
static inline uint64_t remat_value_bytes(const remat_profile *profile, uint32_t value)
{
    uint32_t n = profile->n_nodes, m = profile->n_inputs;
    return value < n       ? profile->nodes[value].output_bytes
           : value < n + m ? profile->inputs[value - n].bytes
                           : profile->results[value - n - m].bytes;
}

/* Of the gradient of a node's output or of a graph input. */
static inline uint64_t remat_gradient_bytes(const remat_profile *profile, uint32_t value)
{
    uint32_t n = profile->n_nodes;
    return value < n ? profile->nodes[value].gradient_bytes
                     : profile->inputs[value - n].gradient_bytes;
}

/* Whether the backward of the node or of one that reads it reads its output. */
static inline bool remat_output_is_needed(const remat_profile *profile, uint32_t v)
{
    const remat_node *node = &profile->nodes[v];
    bool needed = node->backward_uses_output;
    for (uint32_t i = 0; i < node->n_consumers && !needed; i++)
        needed = profile->nodes[node->consumers[i]].backward_uses_inputs;
    return needed;
}

/* Implementation 0 of a node is its own, implementation k > 0 is alternatives[k - 1]. */
static inline remat_alternative remat_implementation(const remat_node *node, uint32_t k)
{
    if (k > 0)
        return node->alternatives[k - 1];
    return (remat_alternative){.name = "",
                               .forward_time = node->forward_time,
                               .backward_time = node->backward_time,
                               .saved_bytes = node->saved_bytes,
                               .forward_workspace_bytes = node->forward_workspace_bytes,
                               .backward_workspace_bytes = node->backward_workspace_bytes,
                               .save_workspace_bytes = node->save_workspace_bytes};
}

/* The canonical encoding: every fact that can change an answer and nothing else (no name, no
 * source), in one order, little endian. write gets it piece by piece; its digest is the profile's
 * identity. */
void remat_profile_encode(const remat_profile *profile,
                          void (*write)(void *context, const void *bytes, size_t length),
                          void *context);

const char *remat_kind_name(remat_kind kind);           /* "chain", "join", "graph" */
const char *remat_time_unit_name(remat_time_unit unit); /* "s", "ms", "us", "ns", "units" */
double remat_time_unit_seconds(remat_time_unit unit);   /* 0 for units */

/* Id of a value: a node's or a graph input's; of a further result its node's. */
const char *remat_value_id(const remat_profile *profile, uint32_t value);

#endif
