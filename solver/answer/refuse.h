/* The refusal of a budget, and what it says would do. */
#ifndef REMAT_ANSWER_REFUSE_H
#define REMAT_ANSWER_REFUSE_H

#include "answer/wish.h"
#include "remat/answer.h"

/* Another budget than the least of the tables may do too: what is told is one that will do, and
 * below which none does. */
remat_status answer_refuse(const remat_portfolio *portfolio, const answer_wish *wish,
                           uint64_t floor, remat_error *error);

#endif
