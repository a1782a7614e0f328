/* The refusal of a budget, and what it says would do. */
#ifndef REMAT_ANSWER_REFUSE_H
#define REMAT_ANSWER_REFUSE_H

#include "answer/wish.h"
#include "bound/moments.h"
#include "remat/answer.h"

/* Another budget than the least of the tables may do too: what is told is one that will do, and
 * below which none does. moments: of answer_find_bound. */
remat_status answer_refuse(const remat_portfolio *portfolio, const answer_wish *wish,
                           bound_moments *moments, uint64_t floor, remat_error *error);

#endif
