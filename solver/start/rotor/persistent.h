/* Persistent schedules, for rotor and for butt: exact breakpoints where they are few, slots of
 * memory otherwise, with a bound from below in either case. The first functions fit the members of
 * remat_solver that they are named after; options are chain_persistent_options. */
#ifndef REMAT_START_ROTOR_PERSISTENT_H
#define REMAT_START_ROTOR_PERSISTENT_H

#include "model/chain.h"

enum { CHAIN_PERSISTENT_OPTIONS = 2 };
extern const remat_option chain_persistent_options[CHAIN_PERSISTENT_OPTIONS];

remat_status chain_persistent_estimate(const remat_problem *problem, remat_estimate *ret_estimate,
                                       remat_error *error);
/* Whether the table of the problem chooses among alternatives by itself. */
bool chain_persistent_chooses(const remat_problem *problem);

remat_status chain_persistent_solve(const remat_problem *problem, bool inputs_only,
                                    const remat_host *host, const remat_sink *sink,
                                    remat_error *error);

/* ---- the same in parts, for pofo ---- */

typedef struct chain_persistent chain_persistent;

/* sink hears what it holds and whether it binds the table to the problem's budget. */
remat_status chain_persistent_new(const remat_problem *problem, bool inputs_only,
                                  const remat_host *host, const remat_sink *sink,
                                  chain_persistent **ret_persistent, remat_error *error);
void chain_persistent_free(chain_persistent *persistent); /* accepts NULL */
uint64_t chain_persistent_bytes(const chain_persistent *persistent);

/* Least predicted makespan of a list whose nominal budget is within budget; INFINITY: there is
 * none. */
double chain_persistent_best(const chain_persistent *persistent, uint64_t budget);
remat_status chain_persistent_offer(const chain_persistent *persistent, const remat_sink *sink,
                                    remat_error *error);
remat_status chain_persistent_offer_bounds(const chain_persistent *persistent,
                                           const remat_sink *sink, remat_error *error);

#endif
