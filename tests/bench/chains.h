/* Chains to measure on: seeded heterogeneous ones, the real ones of clients/profiles and a
 * ResNet-152 made of ResNet-50's blocks. */
#ifndef TESTS_BENCH_CHAINS_H
#define TESTS_BENCH_CHAINS_H

#include "remat/profile.h"

/* n stages with random sizes and times, the same for the same seed. NULL on failure. */
remat_profile *bench_random_chain(uint32_t n, uint64_t seed);

/* clients/profiles/NAME.chain.json; where repeat is true ResNet-50 becomes ResNet-152: 4 more
 * copies of layer2_1 and 30 of layer3_1. jitter > 0 multiplies every time by a random 1 +- jitter,
 * as measured times differ from block to block. NULL on failure. */
remat_profile *bench_real_chain(const char *name, int repeat, double jitter);

uint64_t bench_random(uint64_t *state);

#endif
