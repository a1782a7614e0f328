/* The persistent dynamic program with exact bytes: for every sub-chain (s,t) the step function
 * "least time in m bytes" as a list of breakpoints. It answers every budget. */
#ifndef REMAT_START_ROTOR_BREAKPOINTS_H
#define REMAT_START_ROTOR_BREAKPOINTS_H

#include "model/chain.h"

/* From bytes on (a_0 excluded) the sub-chain takes ticks. Along a list bytes increase and ticks
 * decrease, both strictly. */
typedef struct chain_breakpoint {
    uint64_t bytes;
    int64_t ticks;
} chain_breakpoint;

typedef struct chain_breakpoint_list {
    chain_breakpoint *points;
    size_t count;
} chain_breakpoint_list;

typedef struct chain_breakpoints chain_breakpoints;

typedef struct chain_breakpoints_limits {
    uint64_t bytes; /* of the lists; 0: none */
    double events;  /* merge steps; 0: none */
} chain_breakpoints_limits;

/* REMAT_TOO_LARGE when a limit is passed, REMAT_CANCELLED at the host's wish. inputs_only: without
 * C_1 (butt.c). */
remat_status chain_breakpoints_new(const chain_costs *chain, bool inputs_only,
                                   chain_breakpoints_limits limits, const remat_host *host,
                                   chain_breakpoints **ret, remat_error *error);
void chain_breakpoints_free(chain_breakpoints *breakpoints); /* accepts NULL */
uint64_t chain_breakpoints_bytes(const chain_breakpoints *breakpoints);

/* The list of the whole chain. */
chain_breakpoint_list chain_breakpoints_answer(const chain_breakpoints *breakpoints);

/* Appends a schedule of the whole chain in bytes; REMAT_CORRUPT when the lists contradict each
 * other. */
remat_status chain_breakpoints_trace(const chain_breakpoints *breakpoints, const chain_costs *chain,
                                     uint64_t bytes, remat_operations *operations,
                                     remat_error *error);

#endif
