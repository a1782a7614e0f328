#include "host/team.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NICENESS = 10, STACK = 1 << 20 };

typedef struct member {
    team *team;
    pthread_t thread;
    unsigned worker;
} member;

struct team {
    pthread_mutex_t busy; /* held by the caller whose loop is running */
    pthread_mutex_t lock;
    pthread_cond_t start, finished;
    unsigned generation; /* of the loop that members should run */
    unsigned running;    /* members still at it */
    bool stop, nice;
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

int team_start_thread(pthread_t *ret_thread, void *(*start)(void *data), void *data)
{
    pthread_attr_t attributes;
    int code = pthread_attr_init(&attributes);
    if (code)
        return code;
    code = pthread_attr_setstacksize(&attributes, STACK);
    if (!code)
        code = pthread_create(ret_thread, &attributes, start, data);
    pthread_attr_destroy(&attributes);
    return code;
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

static void *member_main(void *data)
{
    member *m = data;
    team *t = m->team;
    unsigned seen = 0;
    if (t->nice)
        team_be_nice();
    pthread_mutex_lock(&t->lock);
    for (;;) {
        while (t->generation == seen && !t->stop)
            pthread_cond_wait(&t->start, &t->lock);
        if (t->stop)
            break;
        seen = t->generation;
        pthread_mutex_unlock(&t->lock);
        take_indices(t, m->worker);
        pthread_mutex_lock(&t->lock);
        if (--t->running == 0)
            pthread_cond_signal(&t->finished);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

team *team_new(unsigned workers, bool nice)
{
    if (workers < 2)
        return NULL;
    team *t = calloc(1, sizeof *t + (workers - 1) * sizeof *t->members);
    if (!t)
        return NULL;
    pthread_mutex_init(&t->busy, NULL);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->start, NULL);
    pthread_cond_init(&t->finished, NULL);
    t->workers = 1;
    t->nice = nice;
    for (unsigned i = 0; i + 1 < workers; i++) {
        t->members[i] = (member){.team = t, .worker = i + 1};
        if (team_start_thread(&t->members[i].thread, member_main, &t->members[i]) != 0)
            break;
        t->workers++;
    }
    return t;
}

void team_free(team *t)
{
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    t->stop = true;
    pthread_cond_broadcast(&t->start);
    pthread_mutex_unlock(&t->lock);
    for (unsigned i = 0; i + 1 < t->workers; i++)
        pthread_join(t->members[i].thread, NULL);
    pthread_cond_destroy(&t->start);
    pthread_cond_destroy(&t->finished);
    pthread_mutex_destroy(&t->lock);
    pthread_mutex_destroy(&t->busy);
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
    if (!t || count < 2 || pthread_mutex_trylock(&t->busy) != 0) {
        for (size_t i = 0; i < count; i++)
            body(context, i, 0);
        return;
    }
    pthread_mutex_lock(&t->lock);
    t->count = count;
    t->body = body;
    t->context = context;
    atomic_store(&t->next, 0);
    t->running = t->workers - 1;
    t->generation++;
    pthread_cond_broadcast(&t->start);
    pthread_mutex_unlock(&t->lock);
    take_indices(t, 0);
    pthread_mutex_lock(&t->lock);
    while (t->running > 0)
        pthread_cond_wait(&t->finished, &t->lock);
    pthread_mutex_unlock(&t->lock);
    pthread_mutex_unlock(&t->busy);
}
