/* The forward-phase program over slots of memory: OC_x(i, free, sent, due), on top of the
 * backward-phase program. One table serves every budget that is a number of slots. */
#ifndef REMAT_START_OFFLOAD_FORWARD_H
#define REMAT_START_OFFLOAD_FORWARD_H

#include "start/offload/backward.h"
#include "start/offload/phases.h"

/* The most slots that can be unsent and due at (i, x) in any plan. */
typedef struct offload_reach {
    uint32_t unsent, due;
    bool any; /* plans come by at all */
} offload_reach;

typedef struct offload_forward {
    const offload_model *model;
    const offload_backward *backward;
    uint32_t n_slots;
    offload_slot_time out;
    offload_reach *reach; /* by i and x */
    size_t *first;        /* value by i, x and free */
    double *value;        /* time units by unsent and due, as far as they come up and fit */
} offload_forward;

/* REMAT_CANCELLED at the host's wish. The caller clears it, not after failure. */
remat_status offload_forward_init(offload_forward *ret_forward, const offload_backward *backward,
                                  const remat_host *host, remat_error *error);
void offload_forward_clear(offload_forward *forward);
uint64_t offload_forward_bytes(uint32_t n, uint32_t n_slots); /* memory it takes */

/* Least makespan in `slots` slots, in the model's units; INFINITY when nothing fits. */
double offload_forward_value(const offload_forward *forward, uint32_t slots);

/* OC_x(i, free, unsent, due) of a relaxed program, at most the exact value of any state that has no
 * more free slots and no less of the others. */
double offload_forward_bound(const offload_forward *forward, uint32_t i, int x, uint32_t free,
                             uint32_t unsent, uint32_t due);

/* The plan of a finite value. The caller clears it, not after failure. */
remat_status offload_forward_plan(const offload_forward *forward, uint32_t slots,
                                  offload_plan *ret_plan, remat_error *error);

#endif
