/* The implementations of the stages of a chain, sifted. */
#ifndef REMAT_CHAIN_WAYS_H
#define REMAT_CHAIN_WAYS_H

#include "chain/chain.h"

/* Fills in chain->stages[1..n], which are zeroed, from the nodes and the chain's own numbers. Fails
 * with REMAT_NO_MEMORY only. */
remat_status chain_ways_find(const remat_profile *profile, chain_costs *chain);

#endif
