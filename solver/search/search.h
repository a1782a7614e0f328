/* What greedy, neighbourhoods and annealing share: random numbers, compound edits, the best list.
 */
#ifndef REMAT_SEARCH_SEARCH_H
#define REMAT_SEARCH_SEARCH_H

#include "remat/solver.h"
#include "search/timeline.h"

typedef struct interval_search {
    interval_timeline *timeline;
    uint64_t random;       /* state of the generator; never 0 */
    remat_operations best; /* fits the budget; empty while none was found */
    double best_time;      /* INFINITY while none was found */
    size_t best_runs;
    double price;  /* time that a byte past the budget during one run is worth */
    double dearer; /* a price up to which what was not made again since it was set would not be */
    double enough; /* annealing of joint graphs ends when the best list takes no more */
    double wanted; /* lists that fit and take less are shown to found, now and then */
    void (*found)(void *context);
    void *context;
    uint64_t moves;     /* proposed so far by annealing */
    uint64_t next_look; /* work at which one is shown again: found says */
    const remat_host *host;
} interval_search;

uint32_t interval_random(interval_search *search, uint32_t below);
double interval_random_unit(interval_search *search);        /* in (0, 1] */
double interval_random_exponential(interval_search *search); /* mean 1 */

/* Inserts a run of the task before another one, `most` at most with those that follow from it. What
 * it reads and is no longer there is either kept longer or made again too, before it, by what the
 * price says; noise in [0, 1] is the share of these decisions that chance takes. Returns the number
 * of runs inserted. */
unsigned interval_remake(interval_search *search, uint32_t task, uint32_t before, double noise,
                         unsigned most);
enum { INTERVAL_MOST_RUNS = 64 };

/* Removes a removable run and those before it that nobody reads any more. */
void interval_drop(interval_search *search, uint32_t run);

/* A run and another one before which it may stand instead; false where chance has picked none. */
bool interval_random_shift(interval_search *search, uint32_t *ret_run, uint32_t *ret_before);

void interval_forget_best(interval_search *search);

/* Takes the timeline as the best list if it fits the budget and is faster, or as fast with fewer
 * runs. */
void interval_keep_best(interval_search *search);

/* Evicts until the timeline fits the budget: of all gaps between two reads of a value, the one with
 * the least added time for each byte past the budget it removes; the keys are perturbed by up to
 * the factor 1 + noise. Then drops the runs that turn out not to be needed, dearest first, and
 * gives each of the others the fastest implementation that fits. */
void interval_greedy(interval_search *search, double noise);

/* Large neighbourhood search (Shaw 1998) from the best list: takes recomputations out, of a stretch
 * of the list, of some nodes, or a few anywhere, and lets greedy repair what is left, until that
 * much work is done. */
void interval_neighbourhoods(interval_search *search, uint64_t work);

/* Simulated annealing from the timeline as it is, until that much work is done, from one
 * temperature (a time) to another. */
void interval_anneal(interval_search *search, uint64_t work, double hot, double cold);

/* The same where a move costs little and any order is allowed: of joint graphs. The price of a byte
 * goes from one to another beside the temperature, so that order is found first and what is to be
 * made again last. */
typedef struct interval_ramp {
    double hot, cold;
    double cheap, dear;
    bool moves_only; /* no run is inserted or dropped */
} interval_ramp;
void interval_anneal_joint(interval_search *search, uint64_t work, const interval_ramp *ramp);

/* Moves runs until the list that the timeline holds, in which each runs once, has a peak as small
 * as is found, to about a thousandth; it is the best list then. No order has a peak below least. */
void interval_reorder(interval_search *search, double least, uint64_t work);

#endif
