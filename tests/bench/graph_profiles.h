/* Graphs to measure on: files of clients/profiles and tests/data/paper, a chain, a GoogLeNet and an
 * LSTM. */
#ifndef TESTS_BENCH_GRAPH_PROFILES_H
#define TESTS_BENCH_GRAPH_PROFILES_H

#include "remat/profile.h"

/* The profile in a file; NULL after saying why. */
remat_profile *bench_graph_file(const char *path);

/* n nodes in a row with random sizes and times. */
remat_profile *bench_graph_chain(uint32_t n);

/* GoogLeNet's shape with the paper's costs: a stem, nine modules of four branches and a
 * concatenation, pooling and classifier; every convolution with normalisation, scale and relu, two
 * 3x3 for the 5x5 in five modules. About 27,000 lower sets. */
remat_profile *bench_graph_googlenet(void);

/* An LSTM of some steps, ten operations each, batch 64, hidden size 1024, with the paper's costs.
 */
remat_profile *bench_graph_lstm(uint32_t steps);

#endif
