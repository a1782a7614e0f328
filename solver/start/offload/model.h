/* The chain as the offloading programs see it (Beaumont, Eyraud-Dubois, Shilova, "Efficient
 * Combination of Rematerialization and Offloading for Training DNNs", 2021, and its appendix):
 * times of computations and transfers in one unit, memory needs in bytes.
 *
 * The papers count in bytes of one link; here both are times, since the two directions may differ:
 * x bytes take x * out_per_byte to leave and x * in_per_byte to come back. The unit is chosen so
 * that, where both directions have the same bandwidth and times and sizes are decimal numbers, all
 * are integers below 2^53 and the arithmetic of doubles is exact. Computations are rounded down to
 * it: what is moved meanwhile is never overstated, and a program's value stays a lower bound.
 *
 * Z_{i-1}, the input of stage i, is a_{i-1} (x = 0) or abar_{i-1} (x = 1). Of a_0 the graph inputs
 * that stage 1 alone reads can be moved; the others are resident. */
#ifndef REMAT_START_OFFLOAD_MODEL_H
#define REMAT_START_OFFLOAD_MODEL_H

#include "model/chain.h"

typedef struct offload_model {
    const chain_costs *chain;
    uint32_t n;
    uint64_t resident; /* bytes of graph inputs that stay */
    uint64_t movable;  /* and of those that may go */
    uint32_t n_movable;
    double units_per_time;
    double out_per_byte, in_per_byte; /* 0: in no time */
    double latency;                   /* added to each transfer */
    double *forward, *backward;       /* by stage, units */
    double *leaves; /* sum over stages 1 .. i of what their leaves take without idle time */
    double *rest;   /* by stage: u_f + u_b of it and all later ones */
    const remat_profile *profile;
    model_arena arena;
} offload_model;

/* Whether anything can be moved at all: both directions have a bandwidth. */
bool offload_possible(const remat_link *link);

/* grain: parts of a byte that times must resolve (the number of slots, or 1); bytes: the largest
 * size that will be converted; latency: counted, or left out as a lower bound must. The chain is
 * kept. The caller clears it, not after failure. */
remat_status offload_model_init(offload_model *ret_model, const remat_profile *profile,
                                const chain_costs *chain, const remat_link *link, uint32_t grain,
                                uint64_t bytes, bool latency, remat_error *error);
void offload_model_clear(offload_model *model);

/* Z_{i-1} in form x: bytes, and the time to send or fetch it. */
uint64_t offload_input_bytes(const offload_model *model, uint32_t i, int x);
double offload_send_time(const offload_model *model, uint32_t i, int x);
double offload_fetch_time(const offload_model *model, uint32_t i, int x);

/* M_all^i(j), M_B^i and M_ck/none^k(t) of a pass that started at stage s; the input of the stage
 * not counted. A direct leaf needs backward_bytes only (chain.h). */
static inline uint64_t offload_need_save(const chain_costs *chain, uint32_t i, uint32_t j)
{
    return chain->held[j] + chain->kept[i] + chain->save_workspace[i];
}

static inline uint64_t offload_need_backward(const chain_costs *chain, uint32_t i)
{
    return chain->kept[i] + chain->backward_bytes[i];
}

#endif
