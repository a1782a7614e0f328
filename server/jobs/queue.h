/* Tasks for the libuv worker pool, in three lanes. Light tasks (parsing, look-ups, encoding) always
 * find a thread; large ones (parsing of large bodies) have one of their own, so that light ones
 * need not wait for them; heavy ones (solves) have as many threads as the configuration says, and
 * wait, bounded, in order of when they are due: their arrival and ten times what they are expected
 * to take, so that small ones pass large ones and none waits for ever. Cheap solves have one thread
 * more, so that they need not wait until a long one ends. libuv's own queue never holds more than
 * the pool has threads.
 *
 * Everything here is called on the loop thread; only a task's work runs on the pool. */
#ifndef REMAT_SERVER_QUEUE_H
#define REMAT_SERVER_QUEUE_H

#include "remat/status.h"

#include <stdbool.h>
#include <uv.h>

typedef enum lane_kind { LANE_LIGHT, LANE_LARGE, LANE_HEAVY, LANES } lane_kind;

typedef struct task {
    void (*work)(struct task *task); /* on a pool thread */
    void (*done)(struct task *task); /* on the loop thread afterwards; may free the task */
    lane_kind lane;
    double cost; /* of heavy tasks: expected inner updates */
    /* The queue's own. */
    double due; /* seconds */
    struct queue *queue;
    struct task *prev, *next;
    uv_work_t request;
    bool running;
} task;

typedef struct queue queue;

enum { LIGHT_THREADS = 2, LARGE_THREADS = 1, QUICK_THREADS = 1 };

/* Inner updates of a solve that counts as cheap: some tens of milliseconds. */
#define QUICK_COST 1e8

/* libuv gives the threads of its pool the stack that the process's own thread may have (ulimit -s;
 * 8 MiB from 1.45 on). Raises that to 1 MiB where it is less; REMAT_INVALID: it may not be raised
 * to the 256 KiB that is three times what was measured. Call before the pool starts. */
remat_status queue_take_stack(remat_error *error);

/* Call before the process first uses libuv's pool, which it starts: its size becomes heavy +
 * QUICK_THREADS + LIGHT_THREADS + LARGE_THREADS. REMAT_INVALID: the system does not give as many
 * threads (ulimit -v, ulimit -u, pids.max of a cgroup); libuv itself would abort. REMAT_NO_MEMORY.
 */
remat_status queue_new(uv_loop_t *loop, unsigned heavy, unsigned heavy_limit, queue **ret_queue,
                       remat_error *error);
void queue_free(queue *q); /* nothing may be queued or running */

/* false: the heavy lane is full; the task was not taken. */
bool queue_submit(queue *q, task *t);

/* Takes a waiting task back; false when it is running (or done). Its done is not called. */
bool queue_withdraw(queue *q, task *t);

/* Waiting heavy tasks before this one; 0 when it runs. */
unsigned queue_position(const queue *q, const task *t);

typedef struct queue_counts {
    unsigned light_waiting, light_running; /* of both short lanes */
    unsigned heavy_waiting, heavy_running;
} queue_counts;

queue_counts queue_count(const queue *q);

#endif
