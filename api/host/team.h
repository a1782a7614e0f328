/* A team of threads that lends parallel_for to solves. */
#ifndef REMAT_HOST_TEAM_H
#define REMAT_HOST_TEAM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct team team;

/* workers - 1 threads beside the caller, nice: out of the way of other threads. NULL: no threads to
 * be had; a NULL team runs everything on the calling thread. */
team *team_new(unsigned workers, bool nice);
void team_free(team *t); /* accepts NULL */
unsigned team_workers(const team *t);

/* remat_host's parallel_for; data is the team. One caller at a time has the threads: others run
 * alone, as worker 0. */
void team_parallel_for(void *data, size_t count,
                       void (*body)(void *context, size_t index, unsigned worker), void *context);

/* pthread_create with a stack of 1 MiB whatever the limit of the process's own is (ulimit -s),
 * which is what threads get otherwise. Solvers keep their depth on the heap: 28 KiB is the most
 * that was measured. Returns pthread_create's code. */
int team_start_thread(pthread_t *ret_thread, void *(*start)(void *data), void *data);

/* Takes the calling thread out of the way of others. */
void team_be_nice(void);

#endif
