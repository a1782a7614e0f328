/* The queue of Dijkstra's algorithm over states that are numbers: a binary heap that knows where
 * each state stands. */
#ifndef TESTS_PROPERTY_STATE_QUEUE_H
#define TESTS_PROPERTY_STATE_QUEUE_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

typedef struct state_queue {
    double *least; /* by state: the least time it was reached in */
    uint32_t *heap, *place;
    uint32_t size;
} state_queue;

static inline state_queue state_queue_new(uint32_t states)
{
    state_queue q = {.least = malloc(states * sizeof *q.least),
                     .heap = calloc(states, sizeof *q.heap),
                     .place = calloc(states, sizeof *q.place)};
    assert_true(q.least && q.heap && q.place);
    for (uint32_t s = 0; s < states; s++)
        q.least[s] = INFINITY;
    return q;
}

static inline void state_queue_free(state_queue *q)
{
    free(q->least);
    free(q->heap);
    free(q->place);
}

static inline void state_queue_sift_up(state_queue *q, uint32_t at)
{
    uint32_t state = q->heap[at];
    for (; at > 0 && q->least[q->heap[(at - 1) / 2]] > q->least[state]; at = (at - 1) / 2) {
        q->heap[at] = q->heap[(at - 1) / 2];
        q->place[q->heap[at]] = at;
    }
    q->heap[at] = state;
    q->place[state] = at;
}

/* The state of the least time, taken out. */
static inline uint32_t state_queue_take(state_queue *q)
{
    uint32_t first = q->heap[0], last = q->heap[--q->size], at = 0;
    for (uint32_t child; (child = 2 * at + 1) < q->size; at = child) {
        child += child + 1 < q->size && q->least[q->heap[child + 1]] < q->least[q->heap[child]];
        if (q->least[q->heap[child]] >= q->least[last])
            break;
        q->heap[at] = q->heap[child];
        q->place[q->heap[at]] = at;
    }
    q->heap[at] = last;
    q->place[last] = at;
    return first;
}

static inline void state_queue_reach(state_queue *q, uint32_t state, double time)
{
    if (time >= q->least[state])
        return;
    if (q->least[state] == INFINITY)
        q->place[q->heap[q->size] = state] = q->size, q->size++;
    q->least[state] = time;
    state_queue_sift_up(q, q->place[state]);
}

#endif
