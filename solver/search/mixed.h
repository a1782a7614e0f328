/* Recomputation and offloading together, on any graph: a list under edits in which values go to the
 * host and come back.
 *
 * Nobody moves whole values and makes others again in one search; what each does alone is published
 * (papers/vdnn.c, start/offload/pofo.c). Moves and evaluation are this project's own. */
#ifndef REMAT_SEARCH_MIXED_H
#define REMAT_SEARCH_MIXED_H

#include "remat/improve.h"

/* Searches on from a valid list, with or without O and P, for one that is faster over the link and
 * fits budget bytes, counted at multiples of alignment (0: as they are) and with so much more
 * during each task (NULL: nothing), a forward or, n_nodes behind it, a backward: with that a list
 * is mended that hardly differs from one that fits, in half the work. given: the first runs of a
 * joint graph stay in the order of the list. *ret_list, which must be
 * empty and is the caller's to clear, stays empty where none was found; else it has its D, S and R
 * and is for the judge to confirm: states and addresses are not counted here. It stops at
 * lower_bound. Effort is counted in items passed over: one question, one answer, for any number of
 * workers. REMAT_CANCELLED, REMAT_NO_MEMORY. */
remat_status remat_mix(const remat_profile *profile, const remat_link *link,
                       const remat_operations *start, uint64_t budget, const uint64_t *pads,
                       bool given, uint32_t alignment, remat_effort effort, double lower_bound,
                       const remat_host *host, remat_operations *ret_list, remat_error *error);

#endif
