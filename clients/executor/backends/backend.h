/* What computes the nodes of a network: the memory of a device and two functions of each kind.
 *
 * A kernel gets pointers of the device and enqueues or does its work; it allocates nothing: all
 * room beyond operands is the workspace that its cost names. The same call with the same operands
 * gives the same bits, always: recomputation relies on it.
 *
 * Gradients. Into an input's gradient a kernel writes its share, or with `accumulate` adds it: the
 * share is computed whole, then added with one rounding, so that two sharers may come in any order.
 * A sharer that reads part of the channels writes zero to the others first, unless it accumulates.
 * Parameters' gradients are always added to: the caller clears them before the first use. */
#ifndef REMAT_EXECUTOR_BACKEND_H
#define REMAT_EXECUTOR_BACKEND_H

#include "net.h"
#include "remat_exec.h"

typedef struct kernel_call {
    const net_node *node;
    uint32_t alternative; /* which of the kernel's implementations */
    bool save;
    const void *const *inputs;
    void *output; /* may be inputs[0] where the node is in place */
    void *saved;
    const float *gradient;
    float *const
        *input_gradients; /* may be gradient where the node is in place; NULL: not wanted */
    const bool *accumulate;
    const float *weights[4]; /* the node's parameters */
    float *slopes[4];        /* and their gradients */
    void *state;             /* of the node: its bytes */
    void *workspace;
    double *loss; /* of a loss: on the host, pinned where that exists; valid after finish */
} kernel_call;

/* Bytes. */
typedef struct kernel_cost {
    uint64_t saved, forward_workspace, save_workspace, backward_workspace;
} kernel_cost;

typedef struct kernel {
    /* Name of an implementation, NULL past the last one; number 0 is the node's own. */
    const char *(*implementation)(const net_node *node, uint32_t alternative);
    kernel_cost (*cost)(const net_node *node, uint32_t alternative);
    int (*forward)(const kernel_call *call);
    int (*backward)(const kernel_call *call);
} kernel;

/* A moment: when what was enqueued before it has been done. {0} at first; may be set again. */
typedef struct kernel_mark {
    double seconds;
    void *event;
} kernel_mark;

typedef struct kernel_backend {
    const char *name;
    const remat_exec_backend *memory;
    const kernel *const *kernels; /* [NET_KINDS] */
    /* Marks wait for nothing; between: seconds of this device's work alone where that can be known,
     * when both moments have passed (after finish). On a CPU with one thread: what the process has
     * computed. */
    int (*mark)(kernel_mark *mark);
    int (*between)(const kernel_mark *from, const kernel_mark *to, double *ret_seconds);
    const char *clock;                 /* what between counts: "cpu", "wall" or "device" */
    void (*unmark)(kernel_mark *mark); /* accepts {0} */
    /* Bytes that nobody has taken from the device, libraries and other processes included. NULL:
     * not known. */
    int (*left)(uint64_t *ret_bytes);
    /* Momentum: v = momentum v + sum of the lanes of the gradient; w = w - rate v. */
    int (*update)(float *weights, float *velocity, const float *slopes, size_t count,
                  uint32_t lanes, float rate, float momentum);
    /* Name of the processor. */
    void (*describe)(char *text, size_t size);
    void (*close)(void); /* gives the device back; NULL: nothing to give */
} kernel_backend;

/* By name: "cpu" or "cuda"; threads: of matrix products on the CPU. REMAT_TOO_LARGE: products
 * cannot have so many. REMAT_NOT_FOUND: this build has none of the name, or there is no device: the
 * message says what is missing. The one device of cuda is open until close. Not thread-safe. */
remat_status backend_find(const char *name, uint32_t threads, kernel_backend *ret_backend,
                          remat_error *error);

/* ---- what backend_find finds ---- */

remat_status cpu_backend(uint32_t threads, kernel_backend *ret_backend, remat_error *error);
remat_status cuda_backend(kernel_backend *ret_backend, remat_error *error); /* with REMAT_CUDA */

#endif
