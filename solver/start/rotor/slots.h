/* The persistent dynamic program over slots of memory: sizes are rounded to multiples of a unit,
 * costs to int32. Only values are kept, as a triangle of rows; decisions are found again at trace
 * time.
 *
 * Rounded up, every schedule traced out of the table fits its slots in true bytes. Rounded down,
 * the values bound from below what any schedule of the class can do. The table of a smaller budget
 * is a prefix of every row of a larger one with the same unit, so one table serves all budgets. */
#ifndef REMAT_START_ROTOR_SLOTS_H
#define REMAT_START_ROTOR_SLOTS_H

#include "model/chain.h"
#include "start/rotor/kernel.h"

typedef struct chain_slots_setting {
    uint64_t unit;    /* bytes of a slot, at least 1 */
    uint32_t n_slots; /* rows hold 0 .. n_slots slots */
    bool round_up;
    bool inputs_only;     /* without C_1 (butt.c) */
    chain_kernel *kernel; /* NULL: the fastest there is */
} chain_slots_setting;

typedef struct chain_slots chain_slots;

remat_status chain_slots_new(const chain_costs *chain, const chain_slots_setting *setting,
                             const remat_host *host, chain_slots **ret, remat_error *error);
void chain_slots_free(chain_slots *slots); /* accepts NULL */

/* Memory while solving n stages, and of the finished table. */
uint64_t chain_slots_peak_bytes(uint32_t n, uint32_t n_slots, unsigned n_workers);
uint64_t chain_slots_bytes(const chain_slots *slots);

uint64_t chain_slots_unit(const chain_slots *slots);
uint32_t chain_slots_count(const chain_slots *slots);

/* Values of the whole chain for 0 .. n_slots slots beyond a_0, CHAIN_KERNEL_INFINITE where nothing
 * fits, in costs of chain_slots_divisor ticks each. */
const int32_t *chain_slots_answer(const chain_slots *slots);
int64_t chain_slots_divisor(const chain_slots *slots);

/* Appends a schedule that takes at most `slot` slots and costs at most the answer there (the bytes
 * lost to rounding are given back at every level). REMAT_CORRUPT when the values contradict each
 * other. */
remat_status chain_slots_trace(const chain_slots *slots, const chain_costs *chain, uint32_t slot,
                               remat_operations *operations, remat_error *error);

#endif
