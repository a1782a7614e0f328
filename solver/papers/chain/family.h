/* Lists that follow from one number each: a threshold, a number of snapshots, of slots. */
#ifndef REMAT_PAPERS_CHAIN_FAMILY_H
#define REMAT_PAPERS_CHAIN_FAMILY_H

#include "model/chain.h"

/* Appends the schedule of one parameter; context is what chain_family_offer was given. Runs on
 * several workers at once. */
typedef remat_status (*chain_family_emit)(const chain_costs *chain, const void *context,
                                          uint64_t parameter, remat_operations *operations,
                                          remat_error *error);

/* Constructs the schedule of each parameter, measures it in the chain's model and offers those that
 * no other beats there. */
remat_status chain_family_offer(const chain_costs *chain, chain_family_emit emit,
                                const void *context, const uint64_t *parameters,
                                size_t n_parameters, const remat_host *host, const remat_sink *sink,
                                remat_error *error);

/* Estimate for a family of n_parameters whose longest list has about n_operations. */
remat_estimate chain_family_estimate(uint32_t n, size_t n_parameters, double n_operations);

#endif
