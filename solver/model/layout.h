/* What the parts of remat_layout_new hand to each other. The judge of layouts uses none of it. */
#ifndef REMAT_MODEL_LAYOUT_H
#define REMAT_MODEL_LAYOUT_H

#include "remat/layout.h"
#include "remat/solver.h"

#define REMAT_LAYOUT_NONE UINT32_MAX

/* Of a layout that is handed out: blocks and sections looked at, about two nanoseconds each. */
#define REMAT_LAYOUT_WORK UINT64_C(60000000)

/* The allocations of a list, without offsets. Both arrays are one malloc each; the caller frees. */
typedef struct model_lives {
    remat_allocation *items;
    uint32_t *next; /* by item: the one that overwrites it in place, or REMAT_LAYOUT_NONE */
    uint32_t n;
} model_lives;

/* Of a valid list. Fails with REMAT_NO_MEMORY or REMAT_TOO_LARGE. */
remat_status model_layout_lives(const remat_profile *profile, const remat_operations *operations,
                                model_lives *ret_lives, remat_error *error);

/* Writes every item's offset; *ret_arena: end of the highest. Ends early, without offsets, once an
 * arena passes `most`. Items stand in the order in which they are made. Almost linear. Fails with
 * REMAT_NO_MEMORY and REMAT_CANCELLED only; host may be NULL. */
remat_status model_layout_pack_online(const model_lives *lives, uint64_t alignment, uint64_t most,
                                      const remat_host *host, uint64_t *ret_arena);

/* What is asked of a packing. */
typedef struct model_goal {
    uint64_t alignment;
    uint64_t capacity; /* an arena within it will do; 0: as small a one as is found */
    uint64_t work;     /* of each search: two for the capacity, one for a small arena */
    bool decide;       /* nothing is looked for but whether the capacity is enough */
    bool one_of_many;  /* lists: of many blocks only what mostly finds room is tried */
    const remat_host *host;
    uint32_t in_flight; /* micro-batches; 0 or 1: no turn matters */
    size_t turn;        /* of the list, by the simulator */
} model_goal;

/* Writes every item's offset. *ret_arena: end of the highest; *ret_peak: of sizes rounded up. A
 * decision without work may write neither offsets nor the peak. What is found to fit with some work
 * is found with more, whether or not it is a decision. Fails with REMAT_NO_MEMORY and
 * REMAT_CANCELLED only. */
remat_status model_layout_pack(const model_lives *lives, const model_goal *goal,
                               uint64_t *ret_arena, uint64_t *ret_peak);

/* The same of several in flight. What is held at the turn, and what shares its place, stands in a
 * block of *ret_held_arena bytes, from offset 0; so many such blocks come first, and the rest
 * stands behind them. */
remat_status model_layout_pack_in_flight(const model_lives *lives, const model_goal *goal,
                                         uint64_t *ret_held_arena, uint64_t *ret_arena,
                                         uint64_t *ret_peak);

/* Whether a valid list's layout is within the goal's capacity, which is a decision: for whom a list
 * is one of many. *ret_arena: one that was found. Where it is not within the capacity, over, unless
 * it is NULL or the goal has no work, gets by operation how far the highest of what lives then
 * stands above it, if it does; with several in flight, by how much the arena is too large. */
remat_status model_layout_arena(const remat_profile *profile, const remat_operations *operations,
                                const model_goal *goal, uint64_t *ret_arena, uint64_t *over,
                                remat_error *error);

/* The same of a layout of a list of that length; over: zeros. */
void model_layout_over(const remat_layout *layout, uint64_t capacity, size_t length,
                       uint64_t *over);

/* remat_layout_in_flight for a goal, whose turn it finds. */
remat_status model_layout_new(const remat_profile *profile, const remat_operations *operations,
                              const model_goal *asked, remat_layout *ret_layout,
                              remat_error *error);

static inline uint64_t remat_layout_align(uint64_t bytes, uint64_t alignment)
{
    return (bytes + alignment - 1) & ~(alignment - 1);
}

#endif
