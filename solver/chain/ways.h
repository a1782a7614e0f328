/* The implementations of the stages of a chain, sifted. */
#ifndef REMAT_CHAIN_WAYS_H
#define REMAT_CHAIN_WAYS_H

#include "chain/chain.h"

/* Fills in stages[1..n] (zeroed, of the chain's arena) from the nodes and the chain's own numbers.
 * ticks turns a time into ticks. Fails with REMAT_NO_MEMORY only. */
remat_status chain_ways_find(const remat_profile *profile, chain_costs *chain,
                             chain_stage_ways *stages,
                             int64_t (*ticks)(const chain_costs *chain, double time));

#endif
