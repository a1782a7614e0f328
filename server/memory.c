#include "memory.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>

enum {
    LOOK_MILLISECONDS = 1000,
    STIRRING = 1 << 20,
    MAPPED_FROM = 1 << 18,
    CONSOLIDATED_FROM = 1 << 17
};

struct memory {
    queue *queue;
    uv_timer_t timer;
    task trim;
    bool trimming; /* loop thread */
    atomic_bool stirred;
    atomic_uint_fast64_t used;
    uint64_t shares[3]; /* by memory_use */
};

static void trim_work(task *t)
{
    (void)t;
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

static void trim_done(task *t)
{
    memory *m = (memory *)((char *)t - offsetof(memory, trim));
    m->trimming = false;
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

memory *memory_new(uv_loop_t *loop, queue *q, uint64_t budget)
{
#ifdef __GLIBC__
    /* Else the threshold follows what was freed, and tables come to lie among small things that
     * stay. */
    mallopt(M_MMAP_THRESHOLD, MAPPED_FROM);
#endif
    memory *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->queue = q;
    m->shares[MEMORY_UPLOAD] = budget / 2;
    m->shares[MEMORY_SMALL_UPLOAD] = budget / 4 * 3;
    m->shares[MEMORY_WORK] = budget;
    uv_timer_init(loop, &m->timer);
    m->timer.data = m;
    uv_timer_start(&m->timer, on_look, LOOK_MILLISECONDS, LOOK_MILLISECONDS);
    return m;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void memory_free(memory *m)
{
    if (m)
        uv_close((uv_handle_t *)&m->timer, on_closed);
}

uint64_t memory_budget(const memory *m)
{
    return m->shares[MEMORY_WORK];
}

bool memory_take(memory *m, memory_use use, uint64_t bytes)
{
    uint64_t used = atomic_load(&m->used), share = m->shares[use];
    do {
        if (used > share || bytes > share - used)
            return false;
    } while (!atomic_compare_exchange_weak(&m->used, &used, used + bytes));
    return true;
}

void memory_give(memory *m, uint64_t bytes)
{
    atomic_fetch_sub(&m->used, bytes);
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

void memory_stir(memory *m)
{
    atomic_store(&m->stirred, true);
}
