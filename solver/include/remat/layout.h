/* Layout: an address in one arena for every byte of a schedule.
 *
 * Every allocation of a valid operation list gets an offset such that no two that are alive at the
 * same operation overlap. The same value made again (recomputed, fetched back) is another
 * allocation with an address of its own.
 *
 * Lifetimes follow remat/simulate.h: an allocation lives from the operation that makes it to the
 * one that frees it, both included; a workspace during its one operation; what nothing frees to the
 * end of the list. Order in the list is all that counts, with copies to and from the host too: a
 * value being copied out ends only at a D, B or overwriting forward, and one being fetched only at
 * an operation that needs or drops it, and each of these makes the compute stream wait for the
 * copy; and no P writes its bytes before the compute stream has come to it. So whoever gets the
 * bytes next comes after the copy on the compute stream.
 *
 * In place: where F overwrites its first input, or B its gradient (remat/simulate.h says when),
 * successor and predecessor have the same offset and coexist at that one operation; before it only
 * the predecessor's bytes are taken, after it only the successor's. Along a row of in-place nodes
 * all have one offset.
 *
 * Of several micro-batches in flight (remat/simulate.h) what is held at the turn stands in a block
 * of held_arena bytes, and what has one offset with it; the arena begins with one such block for
 * each micro-batch, and the rest, which only the one that runs needs, stands behind them, or
 * in the block of its own micro-batch where it fits. Offsets in the block are those in the first.
 *
 * Allocations of 0 bytes have no place and are not listed. Late inputs of a joint graph are made by
 * the operation after the turn, before what it makes itself. */
#ifndef REMAT_LAYOUT_H
#define REMAT_LAYOUT_H

#include "remat/simulate.h"
#include "remat/solver.h"

#define REMAT_DEFAULT_ALIGNMENT 256u
#define REMAT_MAX_ALIGNMENT (UINT64_C(1) << 20)

typedef enum remat_allocation_kind {
    REMAT_ALLOCATION_INPUT,          /* graph input: resident, or fetched back by a P */
    REMAT_ALLOCATION_OUT,            /* output of a node */
    REMAT_ALLOCATION_SAVED,          /* its saved intermediates */
    REMAT_ALLOCATION_GRADIENT,       /* gradient of its output */
    REMAT_ALLOCATION_INPUT_GRADIENT, /* gradient of a graph input */
    REMAT_ALLOCATION_WORKSPACE,      /* of the F, A or B of a node */
    REMAT_ALLOCATION_STATE           /* saved version of a state; which one, the S says */
} remat_allocation_kind;

typedef struct remat_allocation {
    uint64_t bytes;      /* > 0, as in the profile: not rounded up */
    uint64_t offset;     /* a multiple of the alignment */
    int32_t first, last; /* operations of its life; first is the one that makes it, -1 for a graph
                            input that is there before the list starts */
    uint32_t index;      /* node; graph input; state */
    uint16_t result;     /* of REMAT_ALLOCATION_OUT: which result of the node */
    uint8_t kind;        /* remat_allocation_kind */
} remat_allocation;

/* Items stand in the order in which they are made: resident graph inputs, then operation by
 * operation; of one operation out (result by result), saved, gradients (the loss's own, then in the
 * order of the node's inputs), workspace. Owns items. */
typedef struct remat_layout {
    remat_allocation *items;
    size_t n;
    uint64_t alignment;
    uint64_t arena;        /* bytes of the block: the largest offset + bytes */
    uint64_t peak;         /* of the simulator: arena >= peak */
    uint32_t in_flight;    /* micro-batches; 0 or 1: one */
    uint64_t held_arena;   /* of several: bytes of the block of one of them, see above */
    uint64_t aligned_peak; /* the same with every size rounded up to the alignment: no layout has
                              arena <= aligned_peak - alignment */
} remat_layout;

/* Lays out a list. alignment: a power of two up to REMAT_MAX_ALIGNMENT. The list is replayed first:
 * REMAT_INVALID names the alignment, or the first bad operation; REMAT_TOO_LARGE a list past 2^30
 * allocations or operations. Deterministic: work is bounded by counting it. Thread-safe. 10,000
 * allocations take less than 0.2 s, and past 5,000 it is almost linear.
 *
 * The problem is dynamic storage allocation, strongly NP-hard (Garey & Johnson 1979, SR2); the
 * method is first fit in order of time, then skylines in three orders, then, up to 5,000
 * allocations, a search after MiniMalloc: heuristic. */
remat_status remat_layout_new(const remat_profile *profile, const remat_operations *operations,
                              uint64_t alignment, remat_layout *ret_layout, remat_error *error);

/* The same for whom an arena within the capacity will do: nothing below it is looked for, and all
 * the work goes to finding it. Where none is found, the arena is no larger than that of
 * remat_layout_new. The host, which may be NULL, is asked whether it cancels. */
remat_status remat_layout_within(const remat_profile *profile, const remat_operations *operations,
                                 uint64_t alignment, uint64_t capacity, const remat_host *host,
                                 remat_layout *ret_layout, remat_error *error);

/* The same for so many micro-batches in flight. */
remat_status remat_layout_in_flight(const remat_profile *profile,
                                    const remat_operations *operations, uint32_t in_flight,
                                    uint64_t alignment, uint64_t capacity, const remat_host *host,
                                    remat_layout *ret_layout, remat_error *error);

/* Offsets for buffers of other origin, in any order: of each item bytes (> 0, at most
 * REMAT_MAX_BYTES), first and last (both included) are given and the offset is written; arena, peak
 * and aligned_peak too. Of 100,000 it takes some seconds, of a million up to a minute.
 * capacity 0: as small an arena as is found. REMAT_INVALID names the alignment or the first item
 * that is not so ("buffers[3]"), REMAT_TOO_LARGE more than REMAT_MOST_BUFFERS of them or sizes that
 * add up to more than 2^62. REMAT_CANCELLED by the host. Nothing is written on failure but
 * offsets. */
#define REMAT_MOST_BUFFERS 1000000u
remat_status remat_layout_place(remat_layout *layout, uint64_t capacity, const remat_host *host,
                                remat_error *error);

/* The judge of such offsets, which shares no code with what found them: aligned, within the arena,
 * no two that are alive together overlap, and peak and aligned_peak are what the sizes add up to.
 * REMAT_INVALID names the first fault. n log n. Thread-safe. */
remat_status remat_layout_check_places(const remat_layout *layout, remat_error *error);

/* The allocations and their lives alone, as remat_layout_new lists them, for whom the places do not
 * matter or come from elsewhere: offsets, arena and aligned_peak are 0. Almost linear; the same
 * errors. Thread-safe. */
remat_status remat_layout_unplaced(const remat_profile *profile, const remat_operations *operations,
                                   uint64_t alignment, remat_layout *ret_layout,
                                   remat_error *error);

/* Frees the items and makes the layout empty. Accepts an empty one. */
void remat_layout_clear(remat_layout *layout);

/* The judge of layouts, which shares no code with remat_layout_new: replays the list, which
 * remat_simulate has found valid, and confirms that the items are exactly the allocations of the
 * list, in their order, with their bytes and lives, aligned, within the arena, sharing where in
 * place demands it and not overlapping anywhere else. REMAT_INVALID names the first fault: for two
 * that overlap their operations, ids and offsets. Thread-safe. */
remat_status remat_layout_check(const remat_profile *profile, const remat_operations *operations,
                                const remat_layout *layout, remat_error *error);

/* "input", "out", "saved", "grad", "input_grad", "workspace", "state". */
const char *remat_allocation_kind_name(remat_allocation_kind kind);

/* Id of the node, graph input or state that it belongs to. */
const char *remat_allocation_id(const remat_profile *profile, const remat_allocation *allocation);

#endif
