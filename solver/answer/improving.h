/* Searching on, without a link, from what tables and prices gave. Of each search *best becomes the
 * result if that is faster, and nothing found is no failure. */
#ifndef REMAT_ANSWER_IMPROVING_H
#define REMAT_ANSWER_IMPROVING_H

#include "answer/wish.h"
#include "remat/answer.h"

/* Of which any order is searched in brief: of a larger one that takes seconds. */
bool answer_is_small_joint(const remat_profile *profile);

/* From a list, or from nothing (NULL), unless the bound is reached. */
remat_status answer_improve_list(const answer_wish *wish, const remat_operations *start, bool given,
                                 remat_schedule *best, remat_error *error);

/* From each table of those that are improved when they are named, so that auto is never slower than
 * they are; then from the best list of the others that does not offload. In brief the first search
 * that there is a list after is the last: others end in the same list, as a rule; and a small
 * joint graph is searched in any order alone. In one part of the progress. */
remat_status answer_improve(const remat_portfolio *portfolio, const answer_wish *whole,
                            remat_effort effort, double begin, double share, remat_schedule *best,
                            remat_error *error);

/* Once more, from it and from nothing, where what was found is far from the bound, or nothing was.
 */
remat_status answer_improve_patiently(const answer_wish *whole, double begin, double share,
                                      remat_schedule *best, remat_error *error);

/* Tiny graphs are searched exactly: within the work that this may take there is nothing left to
 * improve, and what none can serve is known. A list whose layout does not fit is left. */
remat_status answer_find_exactly(answer_wish *wish, remat_schedule *best, remat_error *error);

#endif
