/* The improver: from any operation list to one at the quality of an integer program.
 *
 * A solver's table answers every budget with what its recurrence can say; most recurrences run
 * whole segments again, and each node once. The improver belongs to one budget. It takes a list
 * that fits it (or none: then it evicts from storing everything) and searches among all lists in
 * which any value is dropped and made again at any time, any number of times, and operations stand
 * in any order that the graph allows: retention intervals (Bartan et al., MOCCASIN, 2023) under
 * greedy eviction, large neighbourhoods and simulated annealing.
 *
 * It never returns a slower list than it was given, nor one above the budget, arena included. Where
 * the list given moves values to the host it is left alone; the search then starts from storing
 * everything and wins only if it is faster without the link. Over a link the answer goes on to
 * search/mixed.h, where values move and are made again in one search.
 *
 * Effort is counted in slots of the list that edits pass over, never in seconds: the same question
 * has the same answer on every machine, for any number of workers. */
#ifndef REMAT_IMPROVE_H
#define REMAT_IMPROVE_H

#include "remat/solver.h"

typedef enum remat_effort {
    REMAT_QUICK,    /* auto, which improves twice: about a second for 250 nodes on two cores */
    REMAT_THOROUGH, /* some seconds to a minute; of joint graphs either takes some times as long */
    REMAT_PATIENT,  /* not asked for: what auto adds to quick where that leaves a gap. Slower
                       descents,   about twice its work; of joint graphs as thorough */
    REMAT_BRIEF,    /* not asked for: half of quick, for what is searched over a link then */
    REMAT_FINISH,   /* not asked for: from a list alone, for one that is near to the best already */
    REMAT_SLOW      /* not asked for: few but slow descents, after brief, where that ends far up */
} remat_effort;

/* Past so many nodes a list is left as it is; past REMAT_LARGE_NODES of a joint graph, and of one
 * in which many read the same. */
#define REMAT_IMPROVED_NODES 100000u
/* From here on all spare themselves: fewer budgets, no neighbourhoods, no patience, nothing over a
 * link, and bounds of what is searched alone. */
#define REMAT_LARGE_NODES 10000u

/* How many that is of this graph. */
uint32_t remat_improved_nodes(const remat_profile *profile);

/* The memory that a search of the graph takes at most, about, bytes. */
uint64_t remat_improve_bytes(const remat_profile *profile);

/* Whether a solver with these options keeps the order of a joint graph's nodes. */
bool remat_keeps_order(const remat_solver *solver, const remat_options *options);

/* Makes these options such; false if the solver has none. */
bool remat_keep_order(const remat_solver *solver, remat_options *options);

/* "quick", "thorough", "patient". */
const char *remat_effort_name(remat_effort effort);

/* start: a valid list, or NULL; one that is not within the budget is a beginning only. budget:
 * bytes, graph inputs included, for so many micro-batches in flight (remat/simulate.h; 1 where
 * there is no pipeline). alignment: of the layout that has to fit too, with which a start within
 * the budget fits; 0 for no layout. given: the first runs of a joint graph keep the order of its
 * nodes, as those of start do. lower_bound: on the makespan of any schedule within the budget; the
 * search ends when it is reached (0: unknown). series: of random numbers; what a search makes from
 * storing everything is the same in each. *ret_list, which must be empty and is the caller's to
 * clear, is a valid list with its D, S and R. REMAT_INFEASIBLE when nothing was found that fits,
 * which proves nothing; REMAT_CANCELLED; REMAT_TOO_LARGE for sizes that add up to 2^51 bytes or too
 * many nodes, and no start. Thread-safe.
 */
remat_status remat_improve(const remat_profile *profile, const remat_operations *start,
                           uint64_t budget, uint32_t in_flight, uint32_t alignment, bool given,
                           remat_effort effort, uint32_t series, double lower_bound,
                           const remat_host *host, remat_operations *ret_list, remat_error *error);

#endif
