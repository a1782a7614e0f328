#include "memory.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <utlist.h>

enum {
    LOOK_MILLISECONDS = 1000,
    WAIT_NANOSECONDS = 100000000,
    PATIENCE_SECONDS = 2,
    STIRRING = 1 << 20,
    MAPPED_FROM = 1 << 18,
    CONSOLIDATED_FROM = 1 << 17
};

/* A thread that waits, on its stack. */
typedef struct waiter {
    uint64_t since; /* uv_hrtime */
    struct waiter *prev, *next;
} waiter;

struct memory {
    queue *queue;
    uv_timer_t timer;
    task trim;
    bool trimming, closed; /* loop thread */
    atomic_bool stirred;
    uv_mutex_t lock; /* of used */
    uv_cond_t given;
    waiter *waiters;              /* longest first; with the lock */
    uint64_t bodies, solves;      /* used */
    uint64_t whole;               /* of both together */
    uint64_t shares[MEMORY_USES]; /* of bodies, or of solves */
};

static void trim_work(task *t)
{
    (void)t;
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

/* Once no thread trims for it any more. */
static void release(memory *m)
{
    if (!m->closed || m->trimming)
        return;
    uv_cond_destroy(&m->given);
    uv_mutex_destroy(&m->lock);
    free(m);
}

static void trim_done(task *t)
{
    memory *m = (memory *)((char *)t - offsetof(memory, trim));
    m->trimming = false;
    release(m);
}

/* The kernel takes milliseconds to take large memory back, so a pool thread does it. */
static void on_look(uv_timer_t *timer)
{
    memory *m = timer->data;
    if (m->trimming || !atomic_exchange(&m->stirred, false))
        return;
    m->trim = (task){.work = trim_work, .done = trim_done, .lane = LANE_LIGHT};
    m->trimming = queue_submit(m->queue, &m->trim);
}

memory *memory_new(uv_loop_t *loop, queue *q, uint64_t bodies, uint64_t solves)
{
#ifdef __GLIBC__
    /* Else the threshold follows what was freed, and tables come to lie among small things that
     * stay. */
    mallopt(M_MMAP_THRESHOLD, MAPPED_FROM);
#endif
    memory *m = calloc(1, sizeof *m);
    if (!m || uv_mutex_init(&m->lock)) {
        free(m);
        return NULL;
    }
    uv_cond_init(&m->given);
    m->queue = q;
    m->whole = bodies + solves;
    m->shares[MEMORY_UPLOAD] = bodies / 2;
    m->shares[MEMORY_SMALL_UPLOAD] = bodies / 4 * 3;
    m->shares[MEMORY_WORK] = bodies + (solves / 2 < bodies / 6 ? solves / 2 : bodies / 6);
    m->shares[MEMORY_SOLVE] = solves + bodies / 2;
    m->shares[MEMORY_LOAD] = solves + bodies / 6 * 5;
    uv_timer_init(loop, &m->timer);
    m->timer.data = m;
    uv_timer_start(&m->timer, on_look, LOOK_MILLISECONDS, LOOK_MILLISECONDS);
    return m;
}

static void on_closed(uv_handle_t *handle)
{
    memory *m = handle->data;
    m->closed = true;
    release(m);
}

void memory_free(memory *m)
{
    if (m)
        uv_close((uv_handle_t *)&m->timer, on_closed);
}

uint64_t memory_share(const memory *m, memory_use use)
{
    return m->shares[use];
}

static uint64_t *used_by(memory *m, memory_use use)
{
    return use >= MEMORY_SOLVE ? &m->solves : &m->bodies;
}

/* Who has waited for long keeps other solves from what is free, or small ones would keep a large
 * one waiting for ever. */
static bool is_kept(const memory *m, memory_use use, const waiter *self)
{
    return use == MEMORY_SOLVE && m->waiters && m->waiters != self &&
           uv_hrtime() - m->waiters->since > PATIENCE_SECONDS * UINT64_C(1000000000);
}

/* With the lock; self: NULL, nobody waits. */
static bool take(memory *m, memory_use use, uint64_t bytes, const waiter *self)
{
    uint64_t *used = used_by(m, use), share = m->shares[use];
    if (is_kept(m, use, self))
        return false;
    if (*used > share || bytes > share - *used || bytes > m->whole - m->bodies - m->solves)
        return false;
    *used += bytes;
    return true;
}

bool memory_take(memory *m, memory_use use, uint64_t bytes)
{
    uv_mutex_lock(&m->lock);
    bool taken = take(m, use, bytes, NULL);
    uv_mutex_unlock(&m->lock);
    return taken;
}

bool memory_wait(memory *m, memory_use use, uint64_t bytes, bool (*cancelled)(void *data),
                 void *data)
{
    bool taken;
    waiter self = {.since = uv_hrtime()};
    uv_mutex_lock(&m->lock);
    DL_APPEND(m->waiters, &self);
    while (!(taken = take(m, use, bytes, &self)) && !cancelled(data))
        uv_cond_timedwait(&m->given, &m->lock, WAIT_NANOSECONDS);
    DL_DELETE(m->waiters, &self);
    uv_cond_broadcast(&m->given);
    uv_mutex_unlock(&m->lock);
    return taken;
}

void memory_give(memory *m, memory_use use, uint64_t bytes)
{
    if (bytes == 0)
        return;
    uv_mutex_lock(&m->lock);
    *used_by(m, use) -= bytes;
    uv_cond_broadcast(&m->given);
    uv_mutex_unlock(&m->lock);
    if (bytes >= STIRRING)
        memory_stir(m);
}

/* malloc_trim leaves the top of every arena but the first: a chunk of the size at which glibc
 * consolidates takes it back when it is freed. */
void memory_settle(void)
{
#ifdef __GLIBC__
    void *volatile chunk = malloc(CONSOLIDATED_FROM);
    free(chunk);
#endif
}

void memory_return(void)
{
    memory_settle();
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

void memory_stir(memory *m)
{
    atomic_store(&m->stirred, true);
}
