#include "jobs/queue.h"

#include "host/team.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <utlist.h>

typedef struct lane_state {
    task *waiting;
    unsigned n_waiting, n_running, threads, limit;
} lane_state;

struct queue {
    uv_loop_t *loop;
    lane_state lanes[LANES];
};

remat_status queue_take_stack(remat_error *error)
{
    enum { WANTED = 1 << 20, NEEDED = 1 << 18 };
    struct rlimit stack;
    if (getrlimit(RLIMIT_STACK, &stack) || stack.rlim_cur >= WANTED) /* RLIM_INFINITY is more */
        return REMAT_OK;
    stack.rlim_cur = stack.rlim_max < WANTED ? stack.rlim_max : WANTED;
    if (stack.rlim_cur < NEEDED)
        return remat_fail(error, REMAT_INVALID, "stack",
                          "the stack of a thread may take %llu bytes (ulimit -s); it needs %d",
                          (unsigned long long)stack.rlim_cur, NEEDED);
    return setrlimit(RLIMIT_STACK, &stack)
               ? remat_fail(error, REMAT_INTERNAL, "stack", "the stack cannot be raised: %s",
                            strerror(errno))
               : REMAT_OK;
}

queue *queue_new(uv_loop_t *loop, unsigned heavy, unsigned heavy_limit)
{
    queue *q = calloc(1, sizeof *q);
    char size[16];
    if (!q)
        return NULL;
    snprintf(size, sizeof size, "%u", heavy + QUICK_THREADS + LIGHT_THREADS + LARGE_THREADS);
    setenv("UV_THREADPOOL_SIZE", size, 1);
    q->loop = loop;
    q->lanes[LANE_LIGHT] = (lane_state){.threads = LIGHT_THREADS, .limit = UINT32_MAX};
    q->lanes[LANE_LARGE] = (lane_state){.threads = LARGE_THREADS, .limit = UINT32_MAX};
    q->lanes[LANE_HEAVY] = (lane_state){.threads = heavy, .limit = heavy_limit};
    return q;
}

void queue_free(queue *q)
{
    free(q);
}

static void pool_work(uv_work_t *request)
{
    task *t = request->data;
    team_be_nice();
    t->work(t);
}

static void start_waiting(queue *q, lane_state *lane);

static void pool_done(uv_work_t *request, int status)
{
    task *t = request->data;
    queue *q = t->queue;
    lane_state *lane = &q->lanes[t->lane];
    (void)status;
    lane->n_running--;
    t->running = false;
    t->done(t);
    start_waiting(q, lane);
}

/* Whether the first task that waits may run: the cheapest, where cost counts. */
static bool may_start(const queue *q, const lane_state *lane)
{
    if (!lane->waiting)
        return false;
    bool quick = lane == &q->lanes[LANE_HEAVY] && lane->waiting->cost <= QUICK_COST;
    return lane->n_running < lane->threads + (quick ? (unsigned)QUICK_THREADS : 0u);
}

static void start_waiting(queue *q, lane_state *lane)
{
    while (may_start(q, lane)) {
        task *t = lane->waiting;
        DL_DELETE(lane->waiting, t);
        lane->n_waiting--;
        lane->n_running++;
        t->running = true;
        t->request.data = t;
        uv_queue_work(q->loop, &t->request, pool_work, pool_done);
    }
}

static int compare_cost(const task *a, const task *b)
{
    /* An equal one goes behind: DL_INSERT_INORDER stops at the first element that is not less. */
    return a->cost <= b->cost ? -1 : 1;
}

bool queue_submit(queue *q, task *t)
{
    lane_state *lane = &q->lanes[t->lane];
    if (lane->n_waiting >= lane->limit)
        return false;
    t->queue = q;
    t->running = false;
    if (t->lane == LANE_HEAVY)
        DL_INSERT_INORDER(lane->waiting, t, compare_cost);
    else
        DL_APPEND(lane->waiting, t);
    lane->n_waiting++;
    start_waiting(q, lane);
    return true;
}

bool queue_withdraw(queue *q, task *t)
{
    lane_state *lane = &q->lanes[t->lane];
    task *found;
    DL_FOREACH(lane->waiting, found)
    {
        if (found != t)
            continue;
        DL_DELETE(lane->waiting, t);
        lane->n_waiting--;
        return true;
    }
    return false;
}

unsigned queue_position(const queue *q, const task *t)
{
    unsigned position = 0;
    const task *other;
    if (t->running)
        return 0;
    DL_FOREACH(q->lanes[t->lane].waiting, other)
    {
        if (other == t)
            return position + 1;
        position++;
    }
    return 0;
}

queue_counts queue_count(const queue *q)
{
    const lane_state *light = &q->lanes[LANE_LIGHT], *large = &q->lanes[LANE_LARGE],
                     *heavy = &q->lanes[LANE_HEAVY];
    return (queue_counts){light->n_waiting + large->n_waiting, light->n_running + large->n_running,
                          heavy->n_waiting, heavy->n_running};
}
