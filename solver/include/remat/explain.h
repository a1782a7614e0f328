/* Why a schedule is as it is: the facts behind the words, read off a replay of its list. What
 * the solvers gave is no matter of the list: remat_schedule.least and next, and the tables,
 * tell that. */
#ifndef REMAT_EXPLAIN_H
#define REMAT_EXPLAIN_H

#include "remat/answer.h"
#include "remat/layout.h"

/* Of all nodes that run more than once the one that is worth most to move instead: the least
 * time on the link for each unit of forward time saved. What would move is its saved
 * intermediates, or its output where it has none. */
typedef struct remat_detour {
    uint32_t node; /* n_nodes: nothing runs twice */
    uint64_t bytes;
    double out, back, again; /* times: a copy each way, and of its runs beyond the first */
} remat_detour;

typedef struct remat_explanation {
    remat_simulation simulation;
    double *recomputed;        /* by node: forward time beyond its first run */
    remat_allocation *at_peak; /* what makes the peak, largest first: its bytes add up to it. Of two
                                   that share their place the larger one */
    size_t n_at_peak;
    remat_floor floor;
    remat_detour detour; /* with a link */
    double until;        /* with a link: when what is to be gone at the peak of any schedule must be
                               out: the start of the loss's backward; of a joint graph the peak's */
    size_t n_moved;      /* copies to the host */
} remat_explanation;

/* Replays the list. link may be NULL. An invalid list gives its simulation and nothing else. Frees
 * nothing on failure that it did not make; clear with remat_explanation_clear. Thread-safe. */
remat_status remat_explain(const remat_profile *profile, const remat_operations *operations,
                           const remat_link *link, remat_explanation *ret_explanation,
                           remat_error *error);
void remat_explanation_clear(remat_explanation *explanation); /* accepts {0} */

#endif
