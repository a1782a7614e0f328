/* Threads that lend parallel_for to a solve in this process. One thread, the one that made them,
 * calls. */
#include "cli.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define MAX_THREADS 63

struct workers {
    pthread_t threads[MAX_THREADS];
    unsigned n_threads;
    pthread_mutex_t lock;
    pthread_cond_t start, done;
    unsigned long round; /* counts the loops; a thread works once in each */
    unsigned busy;       /* threads that have not finished the round */
    bool stop;
    atomic_size_t next;
    size_t count;
    void (*body)(void *context, size_t index, unsigned worker);
    void *context;
};

typedef struct seat {
    struct workers *workers;
    unsigned number;
} seat;

static void run_round(struct workers *w, unsigned worker)
{
    for (size_t i; (i = atomic_fetch_add(&w->next, 1)) < w->count;)
        w->body(w->context, i, worker);
}

static void *work(void *context)
{
    seat *s = context;
    struct workers *w = s->workers;
    unsigned number = s->number;
    unsigned long round = 0;
    free(s);
    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (w->round == round && !w->stop)
            pthread_cond_wait(&w->start, &w->lock);
        if (w->stop)
            break;
        round = w->round;
        pthread_mutex_unlock(&w->lock);
        run_round(w, number);
        pthread_mutex_lock(&w->lock);
        if (--w->busy == 0)
            pthread_cond_signal(&w->done);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* One more thread, if it can be had. */
static bool add_thread(struct workers *w)
{
    seat *s = malloc(sizeof *s);
    if (!s)
        return false;
    *s = (seat){.workers = w, .number = w->n_threads + 1};
    if (pthread_create(&w->threads[w->n_threads], NULL, work, s)) {
        free(s);
        return false;
    }
    w->n_threads++;
    return true;
}

struct workers *workers_new(void)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    struct workers *w = processors > 1 ? calloc(1, sizeof *w) : NULL;
    if (!w)
        return NULL;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->start, NULL);
    pthread_cond_init(&w->done, NULL);
    while (w->n_threads < MAX_THREADS && w->n_threads + 1 < (unsigned long)processors &&
           add_thread(w))
        continue;
    return w;
}

void workers_free(struct workers *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_broadcast(&w->start);
    pthread_mutex_unlock(&w->lock);
    for (unsigned i = 0; i < w->n_threads; i++)
        pthread_join(w->threads[i], NULL);
    pthread_cond_destroy(&w->done);
    pthread_cond_destroy(&w->start);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

unsigned workers_count(const struct workers *w)
{
    return w ? w->n_threads + 1 : 1;
}

void workers_parallel_for(struct workers *w, size_t count,
                          void (*body)(void *context, size_t index, unsigned worker), void *context)
{
    pthread_mutex_lock(&w->lock);
    w->count = count;
    w->body = body;
    w->context = context;
    atomic_store(&w->next, 0);
    w->busy = w->n_threads;
    w->round++;
    pthread_cond_broadcast(&w->start);
    pthread_mutex_unlock(&w->lock);
    run_round(w, 0);
    pthread_mutex_lock(&w->lock);
    while (w->busy > 0)
        pthread_cond_wait(&w->done, &w->lock);
    pthread_mutex_unlock(&w->lock);
}
