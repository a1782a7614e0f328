/* How a slot table lies in memory; shared by slots.c, slots_tile.c, slots_trace.c.
 *
 * Slots come in blocks. A block holds its slots of all sub-chains, (1,1) (1,2) .. (2,2) .., BLOCK
 * entries each; in the last block as many, in eights, as there are. A solve works through one block
 * of all sub-chains after the other, so what it reads again and again lies together. */
#ifndef REMAT_START_ROTOR_SLOTS_TABLE_H
#define REMAT_START_ROTOR_SLOTS_TABLE_H

#include "start/rotor/slots.h"

enum { CHAIN_SLOTS_INFINITE = CHAIN_KERNEL_INFINITE, CHAIN_SLOTS_BLOCK = CHAIN_KERNEL_BLOCK };

struct chain_slots {
    uint32_t n, n_slots, n_blocks;
    uint32_t last_width; /* slots that the last block holds, a multiple of 8 */
    uint64_t unit;
    int64_t divisor; /* ticks per unit of cost */
    bool inputs_only;
    int32_t *memory;     /* owns what the next two point into */
    int32_t *impossible; /* BLOCK infinite entries, readable as a kernel's view */
    int32_t *values;
    int32_t *answer; /* row of (1,n), slot after slot */
};

static inline uint32_t chain_slots_width(const chain_slots *slots, uint32_t block)
{
    return block + 1 < slots->n_blocks ? CHAIN_SLOTS_BLOCK : slots->last_width;
}

/* The slots of a block of sub-chain number `cell`. */
static inline int32_t *chain_slots_block(const chain_slots *slots, size_t cell, uint32_t block)
{
    return slots->values + block * chain_cells(slots->n) * CHAIN_SLOTS_BLOCK +
           cell * chain_slots_width(slots, block);
}

static inline int32_t *chain_slots_place(const chain_slots *slots, size_t cell, uint32_t slot)
{
    return chain_slots_block(slots, cell, slot / CHAIN_SLOTS_BLOCK) + slot % CHAIN_SLOTS_BLOCK;
}

static inline int32_t chain_slots_value(const chain_slots *slots, size_t cell, uint32_t slot)
{
    return *chain_slots_place(slots, cell, slot);
}

#endif
