/* What is asked of the searches of an answer, and what is done with what they find. */
#ifndef REMAT_ANSWER_WISH_H
#define REMAT_ANSWER_WISH_H

#include "remat/improve.h"
#include "remat/table.h"

enum {
    ANSWER_LINKED_NODES = 250, /* of more a second search over the link found little */
    ANSWER_NAMED_NODES = 24,   /* up to so many a second more at most was seen */
    ANSWER_SOME_NODES = 400    /* a quick search of so many takes a second or two */
};

/* The searches for one answer: what each was asked and found, and of those over the link with all
 * their mending (answer/over_link.c). {0} is none yet. */
typedef struct answer_searches {
    struct answer_searched *items;
    struct answer_mended *mended;
    size_t n, capacity, n_mended, capacity_of_mended;
} answer_searches;

/* A list to search on from that no table has (answer/by_price.h). */
typedef struct answer_priced {
    remat_operations list;
    double makespan;
    bool fastest; /* of those of the tables too */
} answer_priced;

typedef struct answer_wish {
    const remat_problem *problem;
    uint64_t budget;
    uint32_t alignment;
    remat_effort effort;
    const remat_host *host;
    double bound;
    double over_link; /* no schedule takes less, with copies and without; 0: nothing is known */
    uint32_t series;  /* of the random numbers of remat_improve */
    answer_searches *searches;
    const answer_priced *priced; /* NULL: none */
    bool moves_alone;            /* over a link: not all of the search without it, too */
    bool given;    /* every solver that is asked keeps the order of a joint graph's nodes */
    double raised; /* what others proved of the same question, where that took work; 0: nothing */
    double taken;  /* the makespan of what others found, which is to be beaten; 0: nothing */
} answer_wish;

/* What a search is asked beside a wish's effort and series. */
typedef struct answer_search {
    const remat_operations *start; /* NULL: from nothing */
    uint64_t budget;
    const uint64_t *pads; /* of remat_mix */
    double bound;
    bool over_link; /* remat_mix; else remat_improve */
    bool given;
} answer_search;

/* Several ways lead to the same search, and it is made once, but with pads. Statuses and *ret_list
 * are those of remat_improve and remat_mix. */
remat_status answer_search_once(const answer_wish *wish, const answer_search *search,
                                remat_operations *ret_list, remat_error *error);

void answer_searches_clear(answer_searches *searches);

bool answer_link_moves(const remat_link *link); /* NULL: it does not */

/* Whether the best takes no more than the bound; false where there is none. */
bool answer_reaches(const remat_schedule *best, double bound);

/* Whether a list of that makespan is so slow beside what others found that no mending of it, nor
 * another search from it, leads below that. */
bool answer_is_hopeless(const answer_wish *wish, double makespan);

/* Whether a is faster; any is where there is no b. */
bool answer_faster(const remat_schedule *a, const remat_schedule *b);

/* The faster of two stays, as best. */
void answer_keep_faster(remat_schedule *other, remat_schedule *best);

/* A list that was found instead, which is empty then: judged, and laid out as it was (NULL, or
 * without items: with all work). REMAT_INFEASIBLE if its arena does not fit. */
remat_status answer_take(const answer_wish *wish, remat_operations *list,
                         const remat_layout *layout, remat_schedule *ret_schedule,
                         remat_error *error);

#endif
