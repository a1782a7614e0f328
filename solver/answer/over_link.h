/* Recomputation and offloading together, for an answer (search/mixed.h). */
#ifndef REMAT_ANSWER_OVER_LINK_H
#define REMAT_ANSWER_OVER_LINK_H

#include "answer/wish.h"
#include "remat/answer.h"

/* The best schedule there is for a wish, of which bounds and the series are found; portfolio.c. */
remat_status answer_schedule(const remat_portfolio *portfolio, const answer_wish *asked,
                             remat_schedule *ret_schedule, remat_error *error);

/* Searches over the link from a list (NULL: the best so far), or from the smallest there is where
 * none fits; then from the best of those that offload. *best becomes what is faster. Nothing found
 * is no failure. */
remat_status answer_mix(const remat_portfolio *portfolio, const answer_wish *wish,
                        const remat_schedule *from, remat_schedule *best, remat_error *error);

/* The same shortly, at the wish's budget alone: that a refusal says will do is found so. */
remat_status answer_mix_briefly(const remat_portfolio *portfolio, const answer_wish *wish,
                                remat_schedule *best, remat_error *error);

/* From the best list alone; again: it was searched over the link before. */
remat_status answer_mix_on(const answer_wish *wish, bool again, remat_schedule *best,
                           remat_error *error);

/* Its part of answer_searches_clear. */
void answer_mended_clear(answer_searches *searches);

/* Whether a second search of it is worth little: it ends near the first one, and the tables of such
 * a chain have taken a second. */
bool answer_is_long_chain(const answer_wish *wish, const remat_operations *list);

/* From it once more and slower, of a few nodes, where seeds end in different lists. */
remat_status answer_mix_patiently(const remat_portfolio *portfolio, const answer_wish *wish,
                                  remat_schedule *best, remat_error *error);

#endif
