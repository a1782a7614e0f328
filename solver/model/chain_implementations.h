/* The implementations of the stages of a chain, sifted. */
#ifndef REMAT_MODEL_CHAIN_IMPLEMENTATIONS_H
#define REMAT_MODEL_CHAIN_IMPLEMENTATIONS_H

#include "model/chain.h"

/* Fills in chain->stages[1..n], which are zeroed, from the nodes and the chain's own numbers. Fails
 * with REMAT_NO_MEMORY only. */
remat_status chain_implementations_find(const remat_profile *profile, chain_costs *chain);

#endif
