/* What the parts of remat_layout_new hand to each other. The judge of layouts uses none of it. */
#ifndef REMAT_MODEL_LAYOUT_H
#define REMAT_MODEL_LAYOUT_H

#include "remat/layout.h"

#define REMAT_LAYOUT_NONE UINT32_MAX

/* Of remat_layout_new: comparisons of two items, about two nanoseconds each. */
#define REMAT_LAYOUT_WORK UINT64_C(20000000)

/* The allocations of a list, without offsets. Both arrays are one malloc each; the caller frees. */
typedef struct model_lives {
    remat_allocation *items;
    uint32_t *next; /* by item: the one that overwrites it in place, or REMAT_LAYOUT_NONE */
    uint32_t n;
} model_lives;

/* Of a valid list. Fails with REMAT_NO_MEMORY or REMAT_TOO_LARGE. */
remat_status model_layout_lives(const remat_profile *profile, const remat_operations *operations,
                                model_lives *ret_lives, remat_error *error);

/* Writes every item's offset; *ret_arena: end of the highest. Almost linear.
 * Fails with REMAT_NO_MEMORY only. */
remat_status model_layout_pack_online(const model_lives *lives, uint64_t alignment,
                                      uint64_t *ret_arena);

/* Writes better offsets if it finds an arena below the one there is. Stops at least; between target
 * (the peak of rounded sizes) and least, which only a fortunate choice of the highest reaches, it
 * looks for a short while. Quadratic in the number of items; work: comparisons of two items, at
 * most. Fails with REMAT_NO_MEMORY only. */
remat_status model_layout_pack(const model_lives *lives, uint64_t alignment, uint64_t target,
                               uint64_t least, uint64_t arena, uint64_t work);

/* An arena that remat_layout_new does not pass for a valid list, found with so much work, at most
 * REMAT_LAYOUT_WORK, and looked for no further than enough: for whom a list is one of many.
 * Every size counts rounded up, the highest too: with more work other blocks may come to lie
 * there. */
remat_status model_layout_arena(const remat_profile *profile, const remat_operations *operations,
                                uint64_t alignment, uint64_t enough, uint64_t work,
                                uint64_t *ret_arena, remat_error *error);

static inline uint64_t remat_layout_align(uint64_t bytes, uint64_t alignment)
{
    return (bytes + alignment - 1) & ~(alignment - 1);
}

#endif
