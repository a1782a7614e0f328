/* Tiny graphs, exactly: A* (Hart, Nilsson & Raphael 1968) over what is alive and what is done.
 *
 * A state says which values are alive, which backwards are done and which of the nodes that count
 * have run. A run leads from one state to the next; values are dropped where the run would not fit
 * otherwise, no more of them than it takes, in every way. What no run to come can use is dropped at
 * once. The time still to come is at least that of the backwards to come, and one forward of every
 * node that has to run again: what a backward to come, or such a node, reads that is not there.
 *
 * Alternatives, pins, what lies in place and joint graphs are in it; states with versions, late
 * inputs, several micro-batches in flight and the link are not. It shares no code with the other
 * searches, nor with the exhaustive search of the tests. */
#ifndef REMAT_SEARCH_EXACT_H
#define REMAT_SEARCH_EXACT_H

#include "remat/schedule.h"
#include "remat/solver.h"

/* What is found in so much work, which is counted in states. list: the runs of the fastest schedule
 * within the budget, of those the one with the fewest; empty where there is none, or where the work
 * did not do. bound: no schedule takes less time; INFINITY: none fits. */
typedef struct search_exact_found {
    remat_operations list;
    double bound;
} search_exact_found;

/* given: first runs keep the order of a joint graph's nodes. bound is 0 and list empty where the
 * profile is none of those that are looked at. The caller clears ret_found->list. */
remat_status search_exactly(const remat_profile *profile, uint64_t budget, bool given,
                            const remat_host *host, search_exact_found *ret_found,
                            remat_error *error);

#endif
