/* Persistent schedules, for rotor and for butt: exact breakpoints where they are few, slots of
 * memory otherwise, with a bound from below in either case. The first functions fit the members of
 * remat_solver that they are named after; options are remat_persistent_options. */
#ifndef REMAT_CHAIN_PERSISTENT_H
#define REMAT_CHAIN_PERSISTENT_H

#include "chain/chain.h"

enum { REMAT_PERSISTENT_OPTIONS = 2 };
extern const remat_option remat_persistent_options[REMAT_PERSISTENT_OPTIONS];

remat_status remat_persistent_estimate(const remat_problem *problem, remat_estimate *ret_estimate,
                                       remat_error *error);
/* Whether the table of the problem chooses among alternatives by itself. */
bool remat_persistent_chooses(const remat_problem *problem);

remat_status remat_persistent_solve(const remat_problem *problem, bool inputs_only,
                                    const remat_host *host, const remat_sink *sink,
                                    remat_error *error);

/* ---- the same in parts, for pofo ---- */

typedef struct remat_persistent remat_persistent;

/* sink hears what it holds and whether it binds the table to the problem's budget. */
remat_status remat_persistent_new(const remat_problem *problem, bool inputs_only,
                                  const remat_host *host, const remat_sink *sink,
                                  remat_persistent **ret_persistent, remat_error *error);
void remat_persistent_free(remat_persistent *persistent); /* accepts NULL */
uint64_t remat_persistent_bytes(const remat_persistent *persistent);

/* Least predicted makespan of a list whose nominal budget is within budget; INFINITY: there is
 * none. */
double remat_persistent_best(const remat_persistent *persistent, uint64_t budget);
remat_status remat_persistent_offer(const remat_persistent *persistent, const remat_sink *sink,
                                    remat_error *error);
remat_status remat_persistent_offer_bounds(const remat_persistent *persistent,
                                           const remat_sink *sink, remat_error *error);

#endif
