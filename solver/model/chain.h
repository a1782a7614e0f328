/* The chain view of a profile: what every solver for chains computes with. Stages are numbered 1..n
 * as in the papers (stage i is node i-1, stage n is the loss); index 0 of an array is the graph's
 * input.
 *
 * Model (Beaumont, Eyraud-Dubois, Herrmann, Joly, Shilova, "Optimal checkpointing for heterogeneous
 * chains"): a_i output of stage i, abar_i output and saved values, delta_i gradient of the output,
 * o_f / o_s / o_b workspaces of F, F_all and B, u_f / u_b times. Refinements that the paper lacks:
 *
 *  - The gradient of the loss is alive from the start of its backward only, so delta_n counts in
 *    the test of B^n and nowhere else.
 *  - Gradients of graph inputs are kept to the end of the step. With e_i the bytes of those whose
 *    first backward is B^i (stage i is their last consumer) and E_t the sum of e_i over i > t,
 *    every test that holds delta_t holds delta_t + E_t. The papers' delta_0 is e_1.
 *  - A stage with no saved values whose backward does not read its output runs its backward from
 *    the stage's input alone ("direct"): the leaf of the recurrences costs no forward there. The
 *    loss is never direct, so that every stage runs forward at least once.
 *
 * Times are integers, called ticks, so that sums do not depend on their order: equal multisets of
 * operations compare equal and integer times give integer makespans. */
#ifndef REMAT_MODEL_CHAIN_H
#define REMAT_MODEL_CHAIN_H

#include "model/arena.h"
#include "model/numbers.h"
#include "remat/solver.h"

/* One implementation of a stage. */
typedef struct chain_implementation {
    uint64_t kept, forward_workspace, save_workspace;
    uint64_t backward_bytes;   /* with its workspace, as chain_costs has it */
    int64_t forward, backward; /* ticks */
    bool keeps;                /* it saves bytes */
} chain_implementation;

/* Running a stage forward in a pass, or its backward directly: number of the implementation. */
typedef struct chain_single {
    uint64_t bytes; /* of the pass: workspace; of the direct backward: all it needs */
    int64_t ticks;
    uint32_t implementation;
} chain_single;

/* F_all with one implementation and the B that reads what it kept with another, which is the same
 * one unless nothing is kept. */
typedef struct chain_double {
    uint64_t kept, save_workspace, backward_bytes;
    int64_t ticks; /* of both */
    uint32_t forward, backward;
} chain_double;

/* The implementations of a stage that none of the others beats in every respect. passes and directs
 * increase in bytes and decrease in ticks. */
typedef struct chain_stage {
    const chain_implementation
        *implementations; /* [0] is the node's own, as in the arrays of chain_costs */
    const chain_single *passes, *directs;
    const chain_double *saves;
    uint32_t n_implementations, n_passes, n_directs, n_saves;
    bool reads_input_only; /* the backward, where nothing is saved, and the stage is not the loss */
} chain_stage;

typedef struct chain_costs {
    uint32_t n;
    bool chooses; /* some stage has several implementations; what follows knows the nodes' own ones
                     only */
    uint64_t input_bytes;             /* a_0, resident */
    double ticks_per_time;            /* a power of ten or of two */
    bool exact_ticks;                 /* no time was rounded; else all were rounded down */
    uint64_t *output;                 /* a_i; index 0 is a_0 */
    uint64_t *kept;                   /* abar_i */
    uint64_t *forward_workspace;      /* o_f,i */
    uint64_t *save_workspace;         /* o_s,i */
    uint64_t *held;                   /* delta_t + E_t; 0 at t = n; E_0 at t = 0 */
    uint64_t *backward_bytes;         /* delta_i + delta_{i-1} + E_{i-1} + o_b,i */
    int64_t *forward, *backward;      /* u_f,i and u_b,i in ticks */
    int64_t *forward_sum, *total_sum; /* over 1..i of u_f, and of u_f + u_b */
    bool *direct;
    chain_stage *stages; /* all implementations */
    model_arena arena;
} chain_costs;

/* The profile is a chain (the solver's accepts says so). The caller frees. */
remat_status chain_new(const remat_profile *profile, chain_costs **ret_chain, remat_error *error);

void chain_free(chain_costs *chain); /* accepts NULL */
/* Memory of a chain of n stages with so many alternatives in all, about. */
uint64_t chain_bytes(uint32_t n, uint32_t n_alternatives);

/* A time in ticks; back again. */
int64_t chain_ticks(const chain_costs *chain, double time);

static inline double chain_time(const chain_costs *chain, int64_t ticks)
{
    return (double)ticks / chain->ticks_per_time;
}

/* The same from above, for a whole schedule: where times were rounded down, each of its operations
 * (at most n (n + 1) / 2 forwards and n backwards) takes less than a tick more. */
static inline double chain_makespan(const chain_costs *chain, int64_t ticks)
{
    int64_t n = chain->n, most = n * (n + 3) / 2;
    return chain_time(chain, chain->exact_ticks ? ticks : ticks + most);
}

/* m_all(s,t): bytes for F_all^s while delta_t is held, and for B^s. */
static inline uint64_t chain_need_all(const chain_costs *chain, uint32_t s, uint32_t t)
{
    return chain->kept[s] +
           model_larger(chain->held[t] + chain->save_workspace[s], chain->backward_bytes[s]);
}

/* m_fwd(s,k,t) without its workspace: bytes for F^k in a pass that started at stage s, while
 * delta_t is held. */
static inline uint64_t chain_need_pass(const chain_costs *chain, uint32_t s, uint32_t k, uint32_t t)
{
    return chain->held[t] + chain->output[k] + (k > s ? chain->output[k - 1] : 0);
}

static inline uint64_t chain_need_forward(const chain_costs *chain, uint32_t s, uint32_t k,
                                          uint32_t t)
{
    return chain_need_pass(chain, s, k, t) + chain->forward_workspace[k];
}

/* m_all(s,t) for one of several implementations. */
static inline uint64_t chain_need_save(const chain_costs *chain, const chain_double *save,
                                       uint32_t t)
{
    return save->kept + model_larger(chain->held[t] + save->save_workspace, save->backward_bytes);
}

/* The sub-chain of one stage: bytes and ticks. */
static inline uint64_t chain_leaf_bytes(const chain_costs *chain, uint32_t s)
{
    return chain->direct[s] ? chain->backward_bytes[s] : chain_need_all(chain, s, s);
}

static inline int64_t chain_leaf_ticks(const chain_costs *chain, uint32_t s)
{
    return chain->backward[s] + (chain->direct[s] ? 0 : chain->forward[s]);
}

/* The number of sub-chains, and of (s,t) in the order (1,1) (1,2) .. (2,2) .. . */
static inline size_t chain_cells(uint32_t n)
{
    return (size_t)n * ((size_t)n + 1) / 2;
}

static inline size_t chain_cell(uint32_t n, uint32_t s, uint32_t t)
{
    return (size_t)(s - 1) * (2 * (size_t)n - s + 2) / 2 + (t - s);
}

/* ---- operations; plain says that the input of the stage is stored alone and dies with its
 * backward ---- */

/* F_ck^s, F_none^{s+1} .. F_none^last. */
remat_status chain_emit_pass(uint32_t s, uint32_t last, remat_operations *operations);
/* F_all^s, by one of its implementations. */
remat_status chain_emit_save(uint32_t s, uint32_t implementation, remat_operations *operations);
/* B^s after F_all^s. */
remat_status chain_emit_backward(uint32_t s, uint32_t implementation, bool plain,
                                 remat_operations *operations);
/* The direct B^s: after no F_all^s. */
remat_status chain_emit_direct(uint32_t s, uint32_t implementation, bool plain,
                               remat_operations *operations);
/* F_all^s, B^s; or the direct B^s; by their own implementations. */
remat_status chain_emit_leaf(const chain_costs *chain, uint32_t s, bool plain,
                             remat_operations *operations);

/* Stages s .. t in so much room (bytes, slots), or the backward of stage s by an implementation,
 * which closes what an F_all^s has opened. */
typedef struct chain_task {
    uint64_t room;
    uint32_t s, t, implementation;
    bool plain, closes;
} chain_task;

/* What is left to do, the next at the end. At most n + 2 stand there. */
typedef struct chain_stack {
    chain_task *tasks;
    size_t depth;
} chain_stack;

/* Emits the beginning of a task and pushes what is to follow it, the first last. */
typedef remat_status chain_step(const void *context, chain_task at, chain_stack *stack,
                                remat_operations *operations);

static inline void chain_push(chain_stack *stack, chain_task task)
{
    stack->tasks[stack->depth++] = task;
}

/* Emits stages 1 .. n, step by step, until nothing is left or a step fails. */
remat_status chain_emit_tasks(const chain_costs *chain, uint64_t room, chain_step *step,
                              const void *context, remat_operations *operations);

/* Bytes (a_0 included) and ticks that the model counts for a list of F, A, B and D, with the
 * implementations that it names. */
void chain_measure(const chain_costs *chain, const remat_operations *operations,
                   uint64_t *ret_bytes, int64_t *ret_ticks);

/* The same as what a solver says of a list that it offers. */
void chain_model(const chain_costs *chain, const remat_operations *operations,
                 remat_model *ret_model);

#endif
