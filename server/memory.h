/* The memory that requests and solves take: counted against one budget, and given back to the
 * system after large ones. What is counted: bodies as they arrive, decoded bodies, and what is
 * built of them; of a solve its tables, its profile and its answer, by what is expected of them.
 * Functions are thread-safe where nothing else is said. */
#ifndef REMAT_SERVER_MEMORY_H
#define REMAT_SERVER_MEMORY_H

#include "jobs/queue.h"

#include <stdint.h>

typedef struct memory memory;

/* bodies, solves: bytes. What requests leave of the former solves may take as well, up to half of
 * it; and the work on bodies some of the latter. Loop thread. NULL: out of memory. */
memory *memory_new(uv_loop_t *loop, queue *q, uint64_t bodies, uint64_t solves);
void memory_free(memory *m); /* accepts NULL; loop thread; before the loop's last turn */

/* Who asks. Arriving bodies leave room for the work on those that are there, and large ones leave
 * room for small ones, so that nobody can keep others out by never finishing an upload; solves
 * leave room for all of them. */
typedef enum memory_use {
    MEMORY_UPLOAD,
    MEMORY_SMALL_UPLOAD,
    MEMORY_WORK,
    MEMORY_SOLVE,
    MEMORY_LOAD, /* for a moment: what is read to become something smaller */
    MEMORY_USES
} memory_use;

/* What that use may have at most. */
uint64_t memory_share(const memory *m, memory_use use);

/* Bytes more, if they fit the share of that use; they are given back with memory_give. */
bool memory_take(memory *m, memory_use use, uint64_t bytes);
/* The same, waiting until they fit; bytes is at most the share. Who waits longest, and has for two
 * seconds, is served before all other solves. False: it was cancelled first,
 * which is asked for some ten times a second. No loop thread. */
bool memory_wait(memory *m, memory_use use, uint64_t bytes, bool (*cancelled)(void *data),
                 void *data);
void memory_give(memory *m, memory_use use, uint64_t bytes);

/* Much has been freed, or is about to be: within a second or two the system gets it back. */
void memory_stir(memory *m);
/* This thread has freed very much, which others may be about to take: the system gets it back now.
 */
void memory_return(void);
/* This thread has freed much of what it allocated: memory_stir reaches that too. */
void memory_settle(void);

#endif
