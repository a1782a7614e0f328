/* The inner loop of the slot tables: one block of slots of one sub-chain,
 *
 *     V(s,t,m) = min( V(s+1,t, m - abar_s) + u_b,s ,
 *                     min over k of V(k,t, m - a_{k-1}) + V(s,k-1,m) - P )
 *
 * with V = C + P and P the forward ticks of the stages before s, so that a candidate costs one add
 * and one min. Costs are int32, sizes are slots; CHAIN_KERNEL_INFINITE marks the impossible and
 * survives every sum. Both operands of a position lie side by side with those of the next one: the
 * left parts as the table has them, the right parts in copies that are already shifted.
 *
 * Rows never increase with m. So the value before the block bounds the block from above, and the
 * last slot bounds it from below: ends_left and ends_right hold those of all k side by side, and a
 * position is looked at only if its sum there is below the best known value at the first slot.
 *
 * There are three versions, compiled from one text (kernel_body.h) for plain C, AVX2 and AVX-512. A
 * minimum of integers does not depend on the order: all give the same bits. */
#ifndef REMAT_START_ROTOR_KERNEL_H
#define REMAT_START_ROTOR_KERNEL_H

#include <stddef.h>
#include <stdint.h>

enum {
    CHAIN_KERNEL_INFINITE = 0x3f3f3f3f, /* bytes alike: memset may write it */
    CHAIN_KERNEL_BLOCK = 32,            /* slots */
    CHAIN_KERNEL_PAD = 16               /* entries that may be read past the end of ends_*; none
                                           of them is looked at */
};

/* BLOCK slots of a row that begin anywhere: from low[turn] to the end of that block, then high; and
 * the distances to those of the next sub-chain. */
typedef struct chain_kernel_view {
    const int32_t *low, *high;
    uint32_t turn, low_step, high_step;
} chain_kernel_view;

/* Slots from .. from + BLOCK - 1 of (s,t), of which `width`, a multiple of 8, exist. n_k positions
 * k = s+1 .. are open; index i is k = s + 1 + i. */
typedef struct chain_kernel_block {
    uint32_t from, width, n_k;
    const int32_t *left;                   /* [i * width]: V(s,k-1, from ..) */
    const int32_t *right;                  /* [i * BLOCK]: V(k,t, from - a_{k-1} ..) */
    const int32_t *ends_left, *ends_right; /* [i]: of these the last slot */
    const uint32_t *pass_from; /* [i]: least slot for the pass up to k-1; NULL: always */
    chain_kernel_view save;    /* V(s+1,t, from - abar_s ..) */
    uint32_t save_from;        /* least slot for C_1; UINT32_MAX: without it */
    int32_t save_cost;         /* u_b,s + P */
    int32_t before;  /* what V is at most in the whole block: V at from - 1, or infinite */
    uint32_t first;  /* least slot that is feasible */
    uint32_t likely; /* the position that is feasible at first, or else was least at from - 1;
                             then the one that is least in the last slot */
    int32_t prefix;  /* P */
    int32_t *out;    /* V(s,t, from ..) */
    int32_t *list;   /* scratch, n_k + CHAIN_KERNEL_PAD */
} chain_kernel_block;

/* Fills out and likely. */
typedef void chain_kernel(chain_kernel_block *block);

chain_kernel chain_kernel_plain, chain_kernel_avx2, chain_kernel_avx512;

typedef struct chain_kernel_version {
    const char *name;
    chain_kernel *run;
} chain_kernel_version;

/* The versions this processor can run, slowest first. */
size_t chain_kernel_versions(chain_kernel_version versions[3]);

#endif
