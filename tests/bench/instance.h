/* Allocation instances as google/minimalloc writes them: lines of id, lower, upper (exclusive) and
 * size under a line that names the columns. */
#ifndef TESTS_BENCH_INSTANCE_H
#define TESTS_BENCH_INSTANCE_H

#include "remat/layout.h"

/* Reads a file; what is not such a file ends the program with a message. Alignment 1; clear it. */
remat_layout instance_read(const char *path);

/* n buffers of random sizes and lives, of which a few dozen are alive at once. */
remat_layout instance_random(uint32_t n, uint64_t seed);

#endif
