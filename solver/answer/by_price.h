/* A list to search on from, out of the bound: what runs again is what the cheapest cut says where a
 * byte that is held at the turn has a price. */
#ifndef REMAT_ANSWER_BY_PRICE_H
#define REMAT_ANSWER_BY_PRICE_H

#include "answer/wish.h"
#include "bound/moments.h"

/* The fastest such list within the budget, its layout included; the best one becomes it if it is
 * faster. None that fits is no failure. *ret_priced must be {0}. */
remat_status answer_by_price(const answer_wish *wish, bound_moments *moments,
                             answer_priced *ret_priced, remat_schedule *best, remat_error *error);

#endif
