#include "jobs/team.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <uv.h>

enum { NICENESS = 10 };

typedef struct member {
    team *team;
    uv_thread_t thread;
    unsigned worker;
} member;

struct team {
    uv_mutex_t busy; /* held by the caller whose loop is running */
    uv_mutex_t lock;
    uv_cond_t start, finished;
    unsigned generation; /* of the loop that members should run */
    unsigned running;    /* members still at it */
    bool stop;
    size_t count;
    atomic_size_t next;
    void (*body)(void *context, size_t index, unsigned worker);
    void *context;
    unsigned workers;
    member members[];
};

void team_be_nice(void)
{
    static _Thread_local bool done;
    if (!done)
        setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICENESS);
    done = true;
}

static void take_indices(team *t, unsigned worker)
{
    for (;;) {
        size_t index = atomic_fetch_add(&t->next, 1);
        if (index >= t->count)
            return;
        t->body(t->context, index, worker);
    }
}

static void member_main(void *data)
{
    member *m = data;
    team *t = m->team;
    unsigned seen = 0;
    team_be_nice();
    uv_mutex_lock(&t->lock);
    for (;;) {
        while (t->generation == seen && !t->stop)
            uv_cond_wait(&t->start, &t->lock);
        if (t->stop)
            break;
        seen = t->generation;
        uv_mutex_unlock(&t->lock);
        take_indices(t, m->worker);
        uv_mutex_lock(&t->lock);
        if (--t->running == 0)
            uv_cond_signal(&t->finished);
    }
    uv_mutex_unlock(&t->lock);
}

team *team_new(unsigned workers)
{
    if (workers < 2)
        return NULL;
    team *t = calloc(1, sizeof *t + (workers - 1) * sizeof *t->members);
    if (!t)
        return NULL;
    uv_mutex_init(&t->busy);
    uv_mutex_init(&t->lock);
    uv_cond_init(&t->start);
    uv_cond_init(&t->finished);
    t->workers = 1;
    for (unsigned i = 0; i + 1 < workers; i++) {
        t->members[i] = (member){.team = t, .worker = i + 1};
        if (uv_thread_create(&t->members[i].thread, member_main, &t->members[i]) != 0)
            break;
        t->workers++;
    }
    return t;
}

void team_free(team *t)
{
    if (!t)
        return;
    uv_mutex_lock(&t->lock);
    t->stop = true;
    uv_cond_broadcast(&t->start);
    uv_mutex_unlock(&t->lock);
    for (unsigned i = 0; i + 1 < t->workers; i++)
        uv_thread_join(&t->members[i].thread);
    uv_cond_destroy(&t->start);
    uv_cond_destroy(&t->finished);
    uv_mutex_destroy(&t->lock);
    uv_mutex_destroy(&t->busy);
    free(t);
}

unsigned team_workers(const team *t)
{
    return t ? t->workers : 1;
}

void team_parallel_for(void *data, size_t count,
                       void (*body)(void *context, size_t index, unsigned worker), void *context)
{
    team *t = data;
    if (!t || count < 2 || uv_mutex_trylock(&t->busy) != 0) {
        for (size_t i = 0; i < count; i++)
            body(context, i, 0);
        return;
    }
    uv_mutex_lock(&t->lock);
    t->count = count;
    t->body = body;
    t->context = context;
    atomic_store(&t->next, 0);
    t->running = t->workers - 1;
    t->generation++;
    uv_cond_broadcast(&t->start);
    uv_mutex_unlock(&t->lock);
    take_indices(t, 0);
    uv_mutex_lock(&t->lock);
    while (t->running > 0)
        uv_cond_wait(&t->finished, &t->lock);
    uv_mutex_unlock(&t->lock);
    uv_mutex_unlock(&t->busy);
}
