/* What the files of the runner share: run.c runs steps, runner.c takes and gives back memory. */
#ifndef REMAT_EXECUTOR_RUNNER_H
#define REMAT_EXECUTOR_RUNNER_H

#include "remat_exec.h"

enum { RUNNER_GUARD_BYTES = 4096 }; /* behind the arena, with REMAT_EXEC_GUARD */

/* Slots of what can be alive: out(v) is v, saved(v) is n + v, gradients follow by value (nodes,
 * then graph inputs), then the graph inputs themselves, then the further results of a joint
 * graph. */
struct remat_runner {
    const remat_plan *plan;
    const remat_exec_network *network;
    const remat_exec_backend *backend;
    unsigned flags;
    uint8_t *arena;
    uint8_t *watched; /* with REMAT_EXEC_GUARD: bytes of the arena, on the host */
    uint32_t n, first_gradient, first_input, first_result, n_slots;
    uint32_t *alive;              /* by slot: item of the layout, or NONE */
    uint32_t *ending;             /* items in the order of their last operations */
    uint32_t *by_offset;          /* items in the order of their offsets: for the guard */
    void **host;                  /* by slot: where its copy goes; NULL: never copied */
    uint32_t *leaving, *arriving; /* by slot: ticket of a copy nobody has waited for, or NONE */
    uint32_t *version_items;      /* saved versions of states that are alive: item .. */
    uint32_t *version_operations; /* .. and the S that made it */
    uint32_t n_versions;
    bool *ran; /* by node: forward has run */
    const void **inputs;
    void **gradients, **outputs;
    bool *accumulate;
    /* where the step is */
    size_t at;
    uint32_t begun, ended; /* items that have been made, endings that have been done */
    uint32_t ticket;
};

/* Bytes of the arena and what is watched behind it. */
uint64_t runner_bytes(const remat_runner *r);
uint32_t runner_slot_of_target(const remat_runner *r, const remat_operation *operation);
/* Id of the node, graph input or state of an operation. */
const char *runner_name_of(const remat_runner *r, const remat_operation *operation);

#endif
