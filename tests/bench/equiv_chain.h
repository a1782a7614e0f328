/* The report's baseline for joins in pebbles, to compare with. */
#ifndef BENCH_EQUIV_CHAIN_H
#define BENCH_EQUIV_CHAIN_H

#include "papers/pebble/pebble.h"

/* EQUIV-CHAIN: forwards (of single steps) when the values at the same distance from the turn are
 * treated as one, each group taking k slots. Infinite when no such schedule exists or memory is
 * out. */
remat_status equiv_chain(const remat_pebble_join *join, uint32_t slots, uint32_t *ret_forwards,
                         remat_error *error);

#endif
