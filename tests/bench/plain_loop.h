/* The recurrence as the public tools write it: one loop inside the other over a table [m][i][l]
 * (memory, first stage, length), every position tried. It is what the solver is measured against,
 * and what its values are compared with. */
#ifndef TESTS_BENCH_PLAIN_LOOP_H
#define TESTS_BENCH_PLAIN_LOOP_H

#include <stdint.h>

/* Sizes in slots, costs as integers; arrays are indexed by stage, 0 is the chain's input. */
typedef struct plain_chain {
    int n, n_slots;
    const int *output, *kept;          /* a_i, abar_i */
    const int *need_all;               /* [s * (n+1) + t] */
    const int *need_pass;              /* [s * (n+1) + t]: F^s .. F^{t-1} under delta_t */
    const int32_t *forward, *backward; /* u_f,i, u_b,i */
    const int64_t *forward_sum;
} plain_chain;

enum { PLAIN_INFINITE = 0x3f3f3f3f };

/* C(1,n,m) for m = 0 .. n_slots into answer. 0 on success, -1 without memory. */
int plain_loop_int32(const plain_chain *chain, int32_t *answer);
int plain_loop_double(const plain_chain *chain, int32_t *answer);

#endif
