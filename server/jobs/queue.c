#include "jobs/queue.h"

#include "host/team.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <utlist.h>

#define PATIENCE 10 /* times what a solve is expected to take */
#define UPDATES_PER_SECOND 1e9

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

static void wait_for_others(void *gate)
{
    uv_sem_wait(gate);
}

/* Whether as many threads can stand at once as the pool is about to start, with the stack of the
 * newer versions of libuv; older ones take RLIMIT_STACK, which is theirs where it is more. */
static remat_status try_threads(unsigned n, remat_error *error)
{
    enum { STACK = 8 << 20 };
    struct rlimit stack;
    bool more = getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur > STACK &&
                stack.rlim_cur != RLIM_INFINITY;
    uv_thread_options_t options = {.flags = UV_THREAD_HAS_STACK_SIZE,
                                   .stack_size = more ? (size_t)stack.rlim_cur : STACK};
    uv_thread_t *threads = calloc(n, sizeof *threads);
    uv_sem_t gate;
    if (!threads || uv_sem_init(&gate, 0)) {
        free(threads);
        return remat_fail_memory(error);
    }
    int failure = 0;
    unsigned started = 0;
    for (; started < n; started++)
        if ((failure = uv_thread_create_ex(&threads[started], &options, wait_for_others, &gate)))
            break;
    for (unsigned i = 0; i < started; i++)
        uv_sem_post(&gate);
    for (unsigned i = 0; i < started; i++)
        uv_thread_join(&threads[i]);
    uv_sem_destroy(&gate);
    free(threads);
    return failure ? remat_fail(error, REMAT_INVALID, "workers",
                                "of %u threads with stacks of %zu bytes the system gives %u: %s "
                                "(ulimit -v and -u, or a cgroup)",
                                n, options.stack_size, started, uv_strerror(failure))
                   : REMAT_OK;
}

static void no_work(uv_work_t *request)
{
    (void)request;
}

/* On a loop of its own, so that nothing is left of it: the threads then stand until the process
 * ends. */
static remat_status start_pool(remat_error *error)
{
    uv_loop_t loop;
    uv_work_t first;
    int failure = uv_loop_init(&loop);
    if (failure)
        return remat_fail(error, REMAT_INTERNAL, "workers", "the pool of threads: %s",
                          uv_strerror(failure));
    uv_queue_work(&loop, &first, no_work, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    return REMAT_OK;
}

remat_status queue_new(uv_loop_t *loop, unsigned heavy, unsigned heavy_limit, queue **ret_queue,
                       remat_error *error)
{
    unsigned threads = heavy + QUICK_THREADS + LIGHT_THREADS + LARGE_THREADS;
    char size[16];
    snprintf(size, sizeof size, "%u", threads);
    setenv("UV_THREADPOOL_SIZE", size, 1);
    remat_status status = try_threads(threads, error);
    if (!status)
        status = start_pool(error);
    if (status)
        return status;
    queue *q = *ret_queue = calloc(1, sizeof *q);
    if (!q)
        return remat_fail_memory(error);
    q->loop = loop;
    q->lanes[LANE_LIGHT] = (lane_state){.threads = LIGHT_THREADS, .limit = UINT32_MAX};
    q->lanes[LANE_LARGE] = (lane_state){.threads = LARGE_THREADS, .limit = UINT32_MAX};
    q->lanes[LANE_HEAVY] = (lane_state){.threads = heavy, .limit = heavy_limit};
    return REMAT_OK;
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

/* The first task that waits and may run; NULL: none. */
static task *next_task(const queue *q, const lane_state *lane)
{
    task *t = lane->waiting;
    if (lane->n_running < lane->threads || lane != &q->lanes[LANE_HEAVY])
        return lane->n_running < lane->threads ? t : NULL;
    if (lane->n_running >= lane->threads + QUICK_THREADS)
        return NULL;
    while (t && t->cost > QUICK_COST)
        t = t->next;
    return t;
}

static void start_waiting(queue *q, lane_state *lane)
{
    task *t;
    while ((t = next_task(q, lane)) != NULL) {
        DL_DELETE(lane->waiting, t);
        lane->n_waiting--;
        lane->n_running++;
        t->running = true;
        t->request.data = t;
        uv_queue_work(q->loop, &t->request, pool_work, pool_done);
    }
}

static int compare_due(const task *a, const task *b)
{
    /* An equal one goes behind: DL_INSERT_INORDER stops at the first element that is not less. */
    return a->due <= b->due ? -1 : 1;
}

bool queue_submit(queue *q, task *t)
{
    lane_state *lane = &q->lanes[t->lane];
    if (lane->n_waiting >= lane->limit)
        return false;
    t->queue = q;
    t->running = false;
    t->due = (double)uv_hrtime() / 1e9 + PATIENCE * t->cost / UPDATES_PER_SECOND;
    if (t->lane == LANE_HEAVY)
        DL_INSERT_INORDER(lane->waiting, t, compare_due);
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
