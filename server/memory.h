/* The memory that requests take: counted against one budget over all connections, and given back to
 * the system after large ones. What is counted: bodies as they arrive, decoded bodies, and what is
 * built of them. Functions are thread-safe where nothing else is said. */
#ifndef REMAT_SERVER_MEMORY_H
#define REMAT_SERVER_MEMORY_H

#include "jobs/queue.h"

#include <stdint.h>

typedef struct memory memory;

/* budget: bytes. Loop thread. NULL: out of memory. */
memory *memory_new(uv_loop_t *loop, queue *q, uint64_t budget);
void memory_free(memory *m); /* accepts NULL; loop thread; before the loop's last turn */

uint64_t memory_budget(const memory *m);

/* Who asks. Arriving bodies leave room for the work on those that are there, and large ones leave
 * room for small ones, so that nobody can keep others out by never finishing an upload. */
typedef enum memory_use { MEMORY_UPLOAD, MEMORY_SMALL_UPLOAD, MEMORY_WORK } memory_use;

/* Bytes more, if they fit the share of that use; they are given back with memory_give. */
bool memory_take(memory *m, memory_use use, uint64_t bytes);
void memory_give(memory *m, uint64_t bytes);

/* Much has been freed, or is about to be: within a second or two the system gets it back. */
void memory_stir(memory *m);
/* This thread has freed much of what it allocated: memory_stir reaches that too. */
void memory_settle(void);

#endif
