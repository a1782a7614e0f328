/* What is asked of the searches of an answer, and what is done with what they find. */
#ifndef REMAT_ANSWER_WISH_H
#define REMAT_ANSWER_WISH_H

#include "remat/improve.h"
#include "remat/table.h"

enum { ANSWER_NAMED_NODES = 24 }; /* up to so many a second more at most was seen */

/* The searches over the link for one answer: what each began with and found. {0} is none yet. */
typedef struct answer_mixed {
    struct answer_mix_made *items;
    size_t n, capacity;
} answer_mixed;

typedef struct answer_wish {
    const remat_problem *problem;
    uint64_t budget;
    uint32_t alignment;
    remat_effort effort;
    const remat_host *host;
    double bound;
    double over_link; /* no schedule takes less, with copies and without; 0: nothing is known */
    uint32_t series;  /* of the random numbers of remat_improve */
    answer_mixed *mixed;
} answer_wish;

bool answer_link_moves(const remat_link *link); /* NULL: it does not */

/* Whether the best takes no more than the bound; false where there is none. */
bool answer_reaches(const remat_schedule *best, double bound);

/* Whether a is faster; any is where there is no b. */
bool answer_faster(const remat_schedule *a, const remat_schedule *b);

/* The faster of two stays, as best. */
void answer_keep_faster(remat_schedule *other, remat_schedule *best);

/* A list that was found instead, which is empty then: judged, and laid out. REMAT_INFEASIBLE if its
 * arena does not fit. */
remat_status answer_take(const answer_wish *wish, remat_operations *list,
                         remat_schedule *ret_schedule, remat_error *error);

#endif
