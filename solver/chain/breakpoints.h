/* The persistent dynamic program with exact bytes: for every sub-chain (s,t) the step function
 * "least time in m bytes" as a list of breakpoints. It answers every budget. */
#ifndef REMAT_CHAIN_BREAKPOINTS_H
#define REMAT_CHAIN_BREAKPOINTS_H

#include "chain/chain.h"

/* From bytes on (a_0 excluded) the sub-chain takes ticks. Along a list bytes increase and ticks
 * decrease, both strictly. */
typedef struct remat_breakpoint {
    uint64_t bytes;
    int64_t ticks;
} remat_breakpoint;

typedef struct remat_breakpoint_list {
    remat_breakpoint *points;
    size_t count;
} remat_breakpoint_list;

typedef struct remat_breakpoints remat_breakpoints;

typedef struct remat_breakpoints_limits {
    uint64_t bytes; /* of the lists; 0: none */
    double events;  /* merge steps; 0: none */
} remat_breakpoints_limits;

/* REMAT_TOO_LARGE when a limit is passed, REMAT_CANCELLED at the host's wish. inputs_only: without
 * C_1 (butt.c). */
remat_status remat_breakpoints_new(const remat_chain *chain, bool inputs_only,
                                   remat_breakpoints_limits limits, const remat_host *host,
                                   remat_breakpoints **ret, remat_error *error);
void remat_breakpoints_free(remat_breakpoints *breakpoints); /* accepts NULL */
uint64_t remat_breakpoints_bytes(const remat_breakpoints *breakpoints);

/* The list of the whole chain. */
remat_breakpoint_list remat_breakpoints_answer(const remat_breakpoints *breakpoints);

/* Appends a schedule of the whole chain in bytes; REMAT_CORRUPT when the lists contradict each
 * other. */
remat_status remat_breakpoints_trace(const remat_breakpoints *breakpoints, const remat_chain *chain,
                                     uint64_t bytes, remat_operations *operations,
                                     remat_error *error);

#endif
