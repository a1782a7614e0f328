/* Runs one training step under a schedule, inside one block of memory.
 *
 * A *plan* is a schedule made ready for a profile: the operation list, replayed, and the offset of
 * every allocation, checked by the judge of layouts. A *runner* takes the arena once from a backend
 * and runs the plan's steps: every value lies at its planned offset, nothing is allocated while a
 * step runs. What a node computes is the caller's: two functions that get pointers to the node's
 * inputs, outputs and workspaces. Parameters and their gradients are the caller's as well.
 *
 * The order of the calls is that of the operation list: forwards more than once where the schedule
 * recomputes, backwards once each; of a joint graph forwards alone, each with all its results.
 * Copies to the host (O, P) and states (S, R) the runner does itself, with the backend's copies and
 * the caller's states.
 *
 * Not thread-safe: one runner, one thread. Several runners may share a plan and a profile. */
#ifndef REMAT_EXEC_H
#define REMAT_EXEC_H

#include "remat/layout.h"
#include "remat/simulate.h"

#include <jansson.h>

/* ---- plans ---- */

typedef struct remat_plan {
    const remat_profile *profile; /* the caller's; outlives the plan */
    remat_operations operations;
    remat_layout layout;
    double makespan; /* of the replay, link given or not; in the profile's unit */
    uint64_t peak;   /* bytes, replayed */
} remat_plan;

/* From an operation list; the offsets are found here. link: as in remat_simulate. REMAT_INVALID
 * names the first bad operation. The list is copied. Clear with remat_plan_clear. */
remat_status remat_plan_make(const remat_profile *profile, const remat_operations *operations,
                             const remat_link *link, uint64_t alignment, remat_plan *ret_plan,
                             remat_error *error);

/* Solved here: the fastest schedule of a solver whose arena fits budget. solver: its name; NULL:
 * of all, as auto does. REMAT_INFEASIBLE carries in error->number a budget that would do;
 * REMAT_INVALID: there is no such solver; REMAT_NOT_ACCEPTED: it does not take the profile. */
remat_status remat_plan_solve(const remat_profile *profile, const char *solver, uint64_t budget,
                              const remat_link *link, uint64_t alignment, remat_plan *ret_plan,
                              remat_error *error);

/* From the answer of POST /v1/schedules (or `remat solve -o`): its operations and, if it has them,
 * its allocations. REMAT_INVALID when it is truncated, not valid for this profile (another
 * network's, an older version's), or its addresses overlap: the message names operation, node and
 * number. */
remat_status remat_plan_read(const remat_profile *profile, const json_t *schedule,
                             remat_plan *ret_plan, remat_error *error);

void remat_plan_clear(remat_plan *plan);

/* ---- what the caller computes ---- */

/* One call of a node. Pointers are the device's; NULL for values of 0 bytes and, in a backward, for
 * those that the profile says it does not read. Inputs stand in the order of the profile's node. */
typedef struct remat_exec_call {
    uint32_t node;
    uint32_t alternative;      /* which implementation: see remat_implementation */
    bool save;                 /* forward: fill saved too */
    bool again;                /* forward: has run before in this step */
    const void *const *inputs; /* [n_inputs] */
    void *output;              /* forward: written; backward: read */
    void *const *outputs;      /* forward: written, [n_outputs of the node]; output is the first */
    void *saved;               /* forward: written with save; backward: read */
    void *gradient;            /* backward: of the output, read; of the loss: yours to set */
    void *const *input_gradients; /* backward, [n_inputs]: NULL: not wanted */
    const bool *accumulate;       /* backward, [n_inputs]: add to what is there, else overwrite */
    void *workspace;              /* of the profile's size for this call */
    uint64_t workspace_bytes;
} remat_exec_call;

/* 0: done; anything else ends the step, and remat_exec_step says which call it was. An in-place
 * node gets output == inputs[0] where the schedule lets it overwrite, and likewise
 * input_gradients[0] == gradient. */
typedef struct remat_exec_network {
    void *data;
    int (*forward)(void *data, const remat_exec_call *call);
    int (*backward)(void *data, const remat_exec_call *call); /* may be NULL for a joint graph */
    /* Of state k, to and from bytes of the arena; may be NULL without states. */
    int (*save_state)(void *data, uint32_t state, void *to);
    int (*restore_state)(void *data, uint32_t state, const void *from);
    const void *const *graph_inputs; /* [n_inputs of the profile]: copied into the arena at the
                                        start of each step */
} remat_exec_network;

/* ---- backends ---- */

/* Memory of a device and copies to the host. Functions return 0 when done. */
typedef struct remat_exec_backend {
    const char *name;
    void *data;
    void *(*allocate)(void *data, uint64_t bytes);      /* device; NULL: not enough */
    void (*release)(void *data, void *memory);          /* accepts NULL */
    void *(*allocate_host)(void *data, uint64_t bytes); /* pinned, where that exists */
    void (*release_host)(void *data, void *memory);
    /* Done on return, after what the compute stream did before. */
    int (*copy_in)(void *data, void *device, const void *host, uint64_t bytes);
    int (*copy_out)(void *data, void *host, const void *device, uint64_t bytes);
    /* On the copy streams. Each follows what the compute stream did before it. */
    int (*start_out)(void *data, void *host, const void *device, uint64_t bytes, uint32_t ticket);
    int (*start_in)(void *data, void *device, const void *host, uint64_t bytes, uint32_t ticket);
    int (*wait)(void *data, uint32_t ticket); /* the compute stream waits for the copy */
    int (*fill)(void *data, void *device, int byte, uint64_t bytes);
    int (*copy)(void *data, void *device, const void *from, uint64_t bytes); /* on the device */
    int (*finish)(void *data); /* everything is done on return */
    /* What the last failure was, after a colon; "" where nothing is known. NULL: nothing ever
     * is. */
    const char *(*fault)(void *data);
} remat_exec_backend;

/* What the device said of its last failure, after a colon, or "". */
const char *remat_exec_fault(const remat_exec_backend *backend);

/* The memory of this process; copies are done when they return. Static. */
const remat_exec_backend *remat_exec_memory_backend(void);

/* ---- running ---- */

typedef struct remat_runner remat_runner;

enum {
    REMAT_EXEC_POISON = 1, /* fill what is freed and what is new with 0xff bytes (NaN), so that
                              nothing dropped is read unseen */
    REMAT_EXEC_GUARD = 2   /* after every call check that all bytes of the arena that belong to
                                nothing, and some behind it, are untouched: copied out for that;
                                implies POISON */
};

/* Takes the arena and the host buffers. REMAT_TOO_LARGE: the device has not that much; the message
 * says how much was asked. The plan, the network and the backend outlive the runner. */
remat_status remat_runner_new(const remat_plan *plan, const remat_exec_network *network,
                              const remat_exec_backend *backend, unsigned flags,
                              remat_runner **ret_runner, remat_error *error);
void remat_runner_free(remat_runner *runner); /* accepts NULL */

uint64_t remat_runner_arena(const remat_runner *runner); /* bytes taken from the device */

/* One step. REMAT_INTERNAL: a call failed (its number is in the message, with operation and node),
 * or with GUARD wrote where it may not. Afterwards graph inputs' gradients can be read. */
remat_status remat_runner_step(remat_runner *runner, remat_error *error);

/* After a step: the gradient of a graph input, NULL if it has none; output number k of a joint
 * graph's profile, NULL if it has no bytes. */
const void *remat_runner_input_gradient(const remat_runner *runner, uint32_t input);
const void *remat_runner_output(const remat_runner *runner, uint32_t k);

#endif
