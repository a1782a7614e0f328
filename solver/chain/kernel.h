/* The inner loop of the slot tables: one block of slots of one sub-chain,
 *
 *     V(s,t,m) = min( V(s+1,t, m - abar_s) + u_b,s ,  min over k of V(k,t, m - a_{k-1}) +
 * V(s,k-1,m) - P )
 *
 * with V = C + P and P the forward ticks of the stages before s, so that a candidate costs one add
 * and one min. Costs are int32, sizes are slots; REMAT_KERNEL_INFINITE marks the impossible and
 * survives every sum. Rows never increase with m, so the last slot of a block bounds the whole
 * block from below: ends_left and ends_right hold those values for all k side by side, already
 * shifted, and a checkpoint position is looked at only if its sum there is below the best known
 * value at the block's first slot.
 *
 * There are three versions, compiled from one text (kernel_body.h) for plain C, AVX2 and AVX-512. A
 * minimum of integers does not depend on the order: all give the same bits. */
#ifndef REMAT_CHAIN_KERNEL_H
#define REMAT_CHAIN_KERNEL_H

#include <stddef.h>
#include <stdint.h>

enum {
    REMAT_KERNEL_INFINITE = 0x3f3f3f3f, /* bytes alike: memset may write it */
    REMAT_KERNEL_BLOCK = 32,            /* slots */
    REMAT_KERNEL_PAD = 16               /* entries that may be read past the end of ends_*; in
                                           ends_left they must be infinite */
};

typedef struct remat_kernel_cell {
    uint32_t s, t;
    size_t stride;             /* from a row to the next */
    int32_t *out;              /* row of (s,t) */
    const int32_t *left;       /* row of (s,s): that of (s,k-1) lies k-1-s rows behind */
    const int32_t *table;      /* all rows */
    const ptrdiff_t *right;    /* [k - s - 1]: of V(k,t, 0 - a_{k-1}) from table */
    const uint32_t *shift;     /* [k - s - 1]: slots of a_{k-1} */
    uint32_t largest_shift;    /* of all k */
    const uint32_t *pass_from; /* [k - s - 1]: least slot for the pass up to k-1; NULL: always */
    const int32_t *save_row;   /* row of (s+1,t); NULL: without C_1 */
    uint32_t save_shift, save_from; /* slots of abar_s; least slot for C_1 */
    int32_t save_cost;              /* u_b,s + P */
    uint32_t first;                 /* least slot that can be feasible, at most the block's last */
    uint32_t first_index; /* k - s - 1 of the position feasible there; UINT32_MAX: none is */
    int32_t prefix;       /* P */
    int32_t *sums, *list; /* scratch, t - s + REMAT_KERNEL_PAD each */
} remat_kernel_cell;

/* Fills slots from .. from + REMAT_KERNEL_BLOCK - 1 of the row of (s,t). n_k positions k = s+1 ..
 * are open; ends_left[i] and ends_right[i] belong to k = s + 1 + i. Returns the positions looked
 * at. */
typedef uint32_t remat_kernel(const remat_kernel_cell *cell, uint32_t from, uint32_t n_k,
                              const int32_t *ends_left, const int32_t *ends_right);

remat_kernel remat_kernel_plain, remat_kernel_avx2, remat_kernel_avx512;

typedef struct remat_kernel_version {
    const char *name;
    remat_kernel *run;
} remat_kernel_version;

/* The versions this processor can run, slowest first. */
size_t remat_kernel_versions(remat_kernel_version versions[3]);

#endif
