/* What join is never worse than: schedules of other methods, offered among its own. */
#ifndef REMAT_PAPERS_JOIN_OTHERS_H
#define REMAT_PAPERS_JOIN_OTHERS_H

#include "papers/join/branches.h"

/* The lists of lowerset-approx. */
remat_status join_offer_lower_sets(const remat_problem *problem, const remat_sink *sink,
                                   const remat_host *host, remat_error *error);

/* The lists of rotor on the sequentialised join: the chain of the nodes in the order of the
 * profile, whose stage hands on every output that a later node reads. */
remat_status join_offer_sequential(const remat_problem *problem, const remat_sink *sink,
                                   const remat_host *host, remat_error *error);

/* Of both, one after the other. */
remat_status join_others_estimate(const remat_problem *problem, remat_estimate *ret_estimate,
                                  remat_error *error);

#endif
