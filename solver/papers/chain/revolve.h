/* Revolve's arithmetic, for its own file and for the tests. l stages are to be reversed with c >= 1
 * snapshots, the first of which holds the input of the first stage. */
#ifndef REMAT_PAPERS_CHAIN_REVOLVE_H
#define REMAT_PAPERS_CHAIN_REVOLVE_H

#include <stdint.h>

/* r: least with binom(c+r, c) >= l, which *ret_range is. */
uint64_t chain_revolve_repetitions(uint64_t l, uint64_t c, uint64_t *ret_range);
double chain_revolve_forwards(uint64_t l, uint64_t c);   /* forward steps, in closed form */
uint64_t chain_revolve_position(uint64_t l, uint64_t c); /* l >= 2: steps to the next snapshot */

#endif
