/* Segments of a chain, shared by chen-sqrt and chen-greedy. */
#ifndef REMAT_PAPERS_CHAIN_CHEN_H
#define REMAT_PAPERS_CHAIN_CHEN_H

#include "model/chain.h"

/* Appends the schedule with segments that begin at stages starts[0] = 1 < starts[1] < ..: the
 * outputs at their ends are kept, every segment but the last is computed twice. */
remat_status chain_chen_segments(const chain_costs *chain, const uint32_t *starts, size_t count,
                                 remat_operations *operations);

#endif
