/* The implementations of the stages of a chain, sifted. */
#ifndef REMAT_CHAIN_WAYS_H
#define REMAT_CHAIN_WAYS_H

#include "chain/chain.h"

/* Fills in stages[1..n] (zeroed, of the chain's arena) from the nodes and the chain's own numbers.
 * ticks turns a time into ticks. Fails with REMAT_NO_MEMORY only. */
remat_status remat_ways_find(const remat_profile *profile, remat_chain *chain,
                             remat_stage_ways *stages,
                             int64_t (*ticks)(const remat_chain *chain, double time));

#endif
