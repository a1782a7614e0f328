/* Bounds for what a portfolio answers; those of a curve are in remat/answer.h. */
#ifndef REMAT_ANSWER_BOUNDS_H
#define REMAT_ANSWER_BOUNDS_H

#include "bound/moments.h"
#include "remat/answer.h"

/* The largest bound at one budget that holds for every schedule without O and P, with the problem's
 * micro-batches in flight. What is improved is worth more moments than what a table gives at once.
 * *ret_moments, which is the caller's, is what they were looked at with: NULL of too many nodes. */
remat_status answer_find_bound(const remat_portfolio *portfolio, const remat_problem *problem,
                               uint64_t budget, double *ret_bound, bound_moments **ret_moments,
                               remat_error *error);

/* The same over the problem's link, of every schedule; INFINITY: none fits. *ret_room: bytes below
 * which none does, with O and P or without; 0: too many nodes to look. ret_bound may be NULL. */
remat_status answer_find_link_bound(const remat_problem *problem, uint64_t budget,
                                    double *ret_bound, uint64_t *ret_room, remat_error *error);

#endif
