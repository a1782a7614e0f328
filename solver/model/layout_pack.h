/* What the packer's files share: blocks, the moments at which they can meet, orders of them.
 *
 * A *block* is what has one offset: a row of items each of which overwrites the one before, mostly
 * a single item. A *section* is a moment that can be the fullest: one after a birth and before the
 * next death. What is alive at another moment is alive at the nearest section too, so two blocks
 * are in each other's way exactly where they share a section. */
#ifndef REMAT_MODEL_LAYOUT_PACK_H
#define REMAT_MODEL_LAYOUT_PACK_H

#include "model/layout.h"
#include "remat/solver.h"

enum { PACK_MANY = 800 }; /* blocks, of which one of the two searches finds little */

/* What a block takes from one section to another, both included. */
typedef struct pack_span {
    uint64_t size; /* rounded up */
    int64_t first, last;
} pack_span;

typedef struct pack_block {
    uint64_t size, bytes; /* of its largest item: rounded up, and not */
    uint64_t offset;
    double length, area, load; /* in time; size times length; largest load of its sections */
    double volume;             /* size times sections */
    uint32_t first, last;      /* sections */
    uint32_t first_span, n_spans;
    uint32_t head;    /* its first item */
    uint32_t arrives; /* its place in the order, from 1 */
} pack_block;

typedef struct packing {
    pack_block *blocks;
    pack_span *spans; /* those of one block side by side, in order */
    int64_t *moments; /* by section */
    uint64_t *load;   /* by section: sum of sizes */
    uint64_t peak;    /* the largest of them */
    uint64_t spare;   /* the largest rounding, which the highest block does not need */
    uint32_t n_blocks, n_spans, n_sections;
} packing;

/* By what blocks that could stand equally low are taken, first letter first, largest first: Area,
 * Total of the fullest section, Width in time, Size times sections; learned: where packings failed.
 */
typedef enum pack_order { PACK_A, PACK_TWA, PACK_TAW, PACK_SAT, PACK_LEARNED } pack_order;

/* Blocks, sections and loads of some items. Clear it, after a failure too. */
remat_status pack_new(const model_lives *lives, uint64_t alignment, packing *ret_packing);
void pack_clear(packing *packing);

/* No packing has a smaller arena: the peak, of which the highest block need not be rounded up. */
uint64_t pack_least(const packing *packing);

/* Sets where each block stands in an order. learned: by block, of PACK_LEARNED alone. room: for as
 * many as there are blocks. */
typedef struct pack_rank {
    double keys[4];
    uint32_t block;
} pack_rank;
void pack_sort(packing *packing, pack_order by, const double *learned, pack_rank *room);

/* Every block at an offset, by one pass without a step back, in about n times the root of n.
 * ret_offsets: by block. Fails with REMAT_NO_MEMORY and REMAT_CANCELLED only; host may be NULL. */
remat_status pack_dive(const packing *packing, const remat_host *host, uint64_t *ret_offsets,
                       uint64_t *ret_arena);

/* Searches for a packing within capacities, with what it learns between them. Borrows the packing,
 * whose order it changes; host may be NULL. */
typedef struct pack_search pack_search;
remat_status pack_search_new(packing *packing, const remat_host *host, pack_search **ret_search);
void pack_search_free(pack_search *search);

/* Orders in turns with limits that double, until one fits, one ended without, or *work is done, of
 * which it leaves what it did not need: blocks and sections looked at, two nanoseconds each. Writes
 * offsets only where it fits. Fails with REMAT_NO_MEMORY and REMAT_CANCELLED. */
remat_status pack_fit(pack_search *search, uint64_t capacity, uint64_t *work, uint64_t *ret_offsets,
                      bool *ret_found);

/* The same by runs of ejections, where blocks have few enough neighbours. Changes the order. */
remat_status pack_eject(packing *packing, uint64_t alignment, uint64_t capacity,
                        const remat_host *host, uint64_t work, uint64_t *ret_offsets,
                        bool *ret_found);

#endif
