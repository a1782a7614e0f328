/* What join is never worse than: schedules of other methods, added to its steps. */
#ifndef REMAT_JOIN_OTHERS_H
#define REMAT_JOIN_OTHERS_H

#include "join/steps.h"

/* The steps of lowerset-approx. */
remat_status remat_join_add_lower_sets(const remat_problem *problem, remat_join_steps *steps,
                                       const remat_host *host, remat_error *error);

/* The steps of rotor on the sequentialised join: the chain of the nodes in the order of the
 * profile, whose stage hands on every output that a later node reads. */
remat_status remat_join_add_sequential(const remat_problem *problem, remat_join_steps *steps,
                                       const remat_host *host, remat_error *error);

/* Of both, each with a table of its own. */
remat_status remat_join_others_estimate(const remat_problem *problem, remat_estimate *ret_estimate,
                                        remat_error *error);

#endif
