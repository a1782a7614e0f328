/* The memory by slot of an operation list under search: bytes are added to ranges of slots, and
 * what that changes of the sum of max(0, memory - budget) over the slots, the excess, is told. The
 * inner loop of the search.
 *
 * Slots stand in blocks, and blocks in sections. A block that a range covers whole has the bytes
 * added to what is pending for all of its slots; where all its runs are below the budget, or all
 * above it, nothing more is done, and else its slots are looked at and left as they are. Only the
 * ends of a range are written. What a block is to its slots a section is to its blocks.
 *
 * All numbers are whole and all sums exact: sums of sizes stay below 2^51 (tasks.h). One thread at
 * a time. */
#ifndef REMAT_SEARCH_MEMORY_RANGE_H
#define REMAT_SEARCH_MEMORY_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is taken from the memory of a slot without a run: below INTERVAL_NO_RUN it has none. */
#define INTERVAL_EMPTY_SLOT 0x1p52
#define INTERVAL_NO_RUN (-0x1p51)

/* Adds delta to memory[0 .. n-1] and returns how much the sum of max(0, memory - budget) grew.
 * Every version gives the same sum. */
typedef double interval_range_add(double *memory, size_t n, double delta, double budget);

/* The same sum, nothing written. */
typedef double interval_range_probe(const double *memory, size_t n, double delta, double budget);

/* The same, and the lowest memory that is not below a floor (else INFINITY), and the highest. */
typedef double interval_range_scan(const double *memory, size_t n, double delta, double budget,
                                   double floor, double *ret_low, double *ret_high);

typedef struct interval_range_kernel {
    const char *name;
    interval_range_add *add;
    interval_range_probe *probe;
    interval_range_scan *scan;
} interval_range_kernel;

/* The versions that this processor runs, the plain one first and the fastest last; returns how
 * many. */
size_t interval_range_kernels(interval_range_kernel ret_kernels[3]);

/* Of slots; or of blocks: a section. */
typedef struct interval_block {
    double pending;   /* still to be added to each slot of it */
    double low, high; /* no run of it is below or above, what is pending for it left out */
    uint32_t n_runs;
    bool tight; /* low and high are the lowest and highest themselves */
} interval_block;

enum {
    INTERVAL_BLOCK_SHIFT = 7,
    INTERVAL_BLOCK = 1 << INTERVAL_BLOCK_SHIFT, /* slots of a block */
    INTERVAL_SECTION_SHIFT = INTERVAL_BLOCK_SHIFT + 5,
    INTERVAL_SECTION = 1 << INTERVAL_SECTION_SHIFT, /* slots of a section */
    INTERVAL_FEW_SLOTS = 2048                       /* below it blocks cost what they save */
};

/* The memory of a slot is slots[slot] and what is pending for its block and its section; few slots
 * have neither. */
typedef struct interval_memory {
    double *slots;
    interval_block *blocks, *sections;
    uint32_t n_blocks, capacity; /* capacity: in slots */
    interval_range_kernel kernel;
} interval_memory;

/* Makes room for n slots and one more, each without a run, of a zeroed struct or one in use; false
 * when memory is short: what was there stays. The caller then writes memory->slots[0 .. n - 1] and
 * calls _index. */
bool interval_memory_clear(interval_memory *memory, uint32_t n);

/* Takes what was written into the slots. */
void interval_memory_index(interval_memory *memory);
void interval_memory_free(interval_memory *memory);

static inline double interval_memory_at(const interval_memory *m, uint32_t slot)
{
    return m->n_blocks == 0 ? m->slots[slot]
                            : m->slots[slot] + m->blocks[slot >> INTERVAL_BLOCK_SHIFT].pending +
                                  m->sections[slot >> INTERVAL_SECTION_SHIFT].pending;
}

/* What the three functions below do where there are blocks. */
void interval_blocks_set(interval_memory *memory, uint32_t slot, double bytes);
double interval_blocks_add(interval_memory *memory, uint32_t low, uint32_t high, double delta,
                           double budget);
double interval_blocks_probe(interval_memory *memory, uint32_t low, uint32_t high, double delta,
                             double budget);

/* Writes one slot, a run there or not. */
static inline void interval_memory_set(interval_memory *m, uint32_t slot, double bytes)
{
    if (m->n_blocks == 0)
        m->slots[slot] = bytes;
    else
        interval_blocks_set(m, slot, bytes);
}

/* Adds delta to slots low .. high - 1; returns how much the excess grew. */
static inline double interval_memory_add(interval_memory *m, uint32_t low, uint32_t high,
                                         double delta, double budget)
{
    return m->n_blocks == 0 ? m->kernel.add(m->slots + low, high - low, delta, budget)
                            : interval_blocks_add(m, low, high, delta, budget);
}

/* How much it would grow. */
static inline double interval_memory_probe(interval_memory *m, uint32_t low, uint32_t high,
                                           double delta, double budget)
{
    return m->n_blocks == 0 ? m->kernel.probe(m->slots + low, high - low, delta, budget)
                            : interval_blocks_probe(m, low, high, delta, budget);
}

#endif
