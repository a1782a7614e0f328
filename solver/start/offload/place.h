/* From a plan to an operation list: where the copies start and the copied bytes are freed.
 *
 * The programs move bytes one by one; the operation list moves whole values. O stands right after
 * the forward that makes a value (in the order of production, which the link keeps). D stands as
 * late as memory allows in the forward phase, where it waits for the copy; what is left is dropped
 * before the backward of the loss. Then, values in the order of their first reader, P stands at the
 * earliest position from which the value fits until that reader. Works for every shape of graph.
 *
 * Memory is what the simulator says of the plan without transfers, so liveness is counted. */
#ifndef REMAT_START_OFFLOAD_PLACE_H
#define REMAT_START_OFFLOAD_PLACE_H

#include "remat/simulate.h"
#include "remat/solver.h"

/* A value that goes to the host and comes back. Positions are indices in the list. */
typedef struct offload_span {
    remat_operation value; /* kind O */
    uint64_t bytes;
    uint32_t made;   /* O goes after it; NOWHERE: a graph input, O goes first */
    uint32_t read;   /* last reader before the backward of the loss; `made` if none */
    uint32_t wanted; /* first reader after it */
} offload_span;

/* The list without transfers, with D in place, and the values that may be moved. */
typedef struct offload_placing {
    remat_operations base;
    uint64_t *during;    /* by position: bytes at its peak */
    double *at;          /* by position: its start when nothing is moved */
    uint32_t turn;       /* position of the backward of the loss */
    offload_span *spans; /* in order of production */
    uint32_t n_spans;
    uint32_t *order; /* of the spans by first reader */
} offload_placing;

/* compute is passed through liveness and the states pass. moved is by place: out(v) is v, saved(v)
 * n + v, graph input k 2n + k; NULL: everything. Values of no bytes, or that nothing reads after
 * the backward of the loss began, make no span. The caller clears it, not after failure. */
remat_status offload_placing_init(offload_placing *ret_placing, const remat_profile *profile,
                                  const remat_operations *compute, const bool *moved,
                                  remat_error *error);
void offload_placing_clear(offload_placing *placing);

/* Appends the list that moves the spans chosen (by span; NULL: all) within budget bytes.
 * REMAT_INFEASIBLE, without a message, when they do not suffice. */
remat_status offload_place(const offload_placing *placing, const bool *chosen, uint64_t budget,
                           remat_operations *operations);

#endif
