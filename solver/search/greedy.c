/* The online greedy of DTR (Kirisame et al., 2021) with the whole step in sight. */
#include "model/arrays.h"
#include "remat/improve.h"
#include "search/search.h"

#include <math.h>

#define NONE INTERVAL_NONE

enum { WAYS = 1u << 31 }; /* added to the number of a way */

/* Of large graphs: twice the work for each pair of nodes that was seen where a list came of it. One
 * that has none takes ten times as much. */
enum { WORK_OF_PAIR = 150 };

/* A value is away until this reader: it is made again just before it. value NONE: what the node of
 * this backward saves; WAYS + k: the reader itself runs its implementation k. key: least added time
 * for each byte past the budget removed; it only grows as others are evicted, so a candidate is
 * looked at again only when it has come to the front (lazy evaluation, Minoux 1978). */
typedef struct gap {
    double key;
    uint32_t reader, stamp, value;
} gap;

typedef struct gaps {
    gap *items;
    size_t n, capacity;
} gaps;

static bool front(const gap *a, const gap *b)
{
    if (a->key != b->key)
        return a->key < b->key;
    if (a->stamp != b->stamp)
        return a->stamp < b->stamp;
    return a->value < b->value;
}

static bool push(gaps *g, gap one)
{
    if (!model_reserve(&g->items, &g->capacity, g->n + 1, sizeof one))
        return false;
    size_t at = g->n++;
    for (; at > 0 && front(&one, &g->items[(at - 1) / 2]); at = (at - 1) / 2)
        g->items[at] = g->items[(at - 1) / 2];
    g->items[at] = one;
    return true;
}

static gap pop(gaps *g)
{
    gap first = g->items[0], last = g->items[--g->n];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < g->n; at = child) {
        child += child + 1 < g->n && front(&g->items[child + 1], &g->items[child]);
        if (!front(&g->items[child], &last))
            break;
        g->items[at] = g->items[child];
    }
    if (g->n > 0)
        g->items[at] = last;
    return first;
}

/* The way of a run that counts: of an A its backward's. */
static double bound_of_way(interval_timeline *t, uint32_t reader, uint32_t way)
{
    const interval_run *r = &t->runs[reader];
    const interval_way *ways = interval_ways(t->tasks, r->task);
    double bytes = ways[r->way].workspace - ways[way].workspace;
    double relief = interval_relief(t, r->slot, r->slot + 1, bytes);
    double time = ways[way].time - ways[r->way].time;
    return relief > 0 ? (time > 0 ? time : 0) / relief : INFINITY;
}

/* The task to run again and the least time for each byte it can remove; INFINITY if it removes
 * nothing. */
static double bound_of(interval_timeline *t, uint32_t reader, uint32_t value, uint32_t *ret)
{
    const interval_tasks *tasks = t->tasks;
    uint32_t slot = t->runs[reader].slot, from, task;
    double bytes;
    if (value != NONE && value >= WAYS)
        return bound_of_way(t, reader, value - WAYS);
    if (value == NONE) {
        task = interval_partner(tasks, t->runs[reader].task);
        bytes = t->spans[tasks->n_nodes + task].bytes;
        from = t->runs[t->tail[task]].slot + 1;
    } else {
        task = tasks->maker[value];
        bytes = tasks->bytes[value];
        from =
            t->runs[interval_last_read(t, interval_serving(t, task, slot), value, slot)].slot + 1;
    }
    *ret = task;
    if (from >= slot || bytes == 0 || tasks->once[task])
        return INFINITY;
    double relief = interval_relief(t, from, slot, bytes);
    double time = interval_ways(tasks, task)->time;
    return relief > 0 ? time / relief : INFINITY;
}

static bool push_gap(interval_search *s, gaps *g, uint32_t reader, uint32_t value, double noise)
{
    uint32_t task = NONE;
    double key = bound_of(s->timeline, reader, value, &task);
    if (!(key < INFINITY))
        return true;
    if (noise > 0)
        key *= 1 + noise * interval_random_unit(s);
    return push(g, (gap){key, reader, s->timeline->runs[reader].stamp, value});
}

static bool push_reader(interval_search *s, gaps *g, uint32_t reader, double noise)
{
    const interval_timeline *t = s->timeline;
    const interval_tasks *tasks = t->tasks;
    uint32_t task = t->runs[reader].task;
    for (uint32_t i = tasks->reads.first[task]; i < tasks->reads.first[task + 1]; i++)
        if (!push_gap(s, g, reader, tasks->reads.items[i], noise))
            return false;
    uint32_t ways = interval_n_ways(tasks, task);
    for (uint32_t way = 0; ways > 1 && way < ways; way++)
        if (!push_gap(s, g, reader, WAYS + way, noise))
            return false;
    bool saved = interval_is_backward(tasks, task) && t->spans[task].start != NONE;
    return !saved || push_gap(s, g, reader, NONE, noise);
}

/* Time for each byte past the budget that making the task again before the reader removes, done. */
static double try(interval_search *s, uint32_t task, const gap *one, double price)
{
    interval_timeline *t = s->timeline;
    double time = t->time, excess = t->excess;
    s->price = price;
    s->dearer = INFINITY;
    if (one->value != NONE && one->value >= WAYS)
        interval_set_way(t, one->reader, (uint16_t)(one->value - WAYS));
    else
        interval_remake(s, task, one->reader, 0, INTERVAL_MOST_RUNS);
    return t->excess < excess ? (t->time - time) / (excess - t->excess) : INFINITY;
}

static bool push_new(interval_search *s, gaps *g, double noise)
{
    interval_timeline *t = s->timeline;
    for (size_t i = 0; i < t->n_edits; i++)
        if (t->edits[i].kind == INTERVAL_PLACE && !push_reader(s, g, t->edits[i].index, noise))
            return false;
    return true;
}

/* Evicts the gap if it is still the best, or puts it back. */
static bool evict(interval_search *s, gaps *g, gap one, double noise)
{
    interval_timeline *t = s->timeline;
    uint32_t task = NONE;
    double bound = bound_of(t, one.reader, one.value, &task);
    if (!(bound < INFINITY))
        return true;
    double slack = g->n > 0 ? 1.05 * g->items[0].key : INFINITY;
    if (bound > slack)
        return push(g, (gap){bound, one.reader, one.stamp, one.value});
    const double prices[] = {0, one.key, 4 * one.key}; /* keep what is read, or make it again too */
    double best = INFINITY;
    int pick = 0, tried = 0;
    for (int k = 0; k < 3; k++) {
        if (k > 0 && prices[k] < s->dearer * (1 - 1e-9))
            continue; /* nothing would be different */
        if (k > 0)
            interval_undo(t);
        double ratio = try(s, task, &one, prices[k]);
        tried = k;
        pick = ratio < best ? k : pick;
        best = ratio < best ? ratio : best;
    }
    if (!(best < INFINITY) || best > slack || pick != tried)
        interval_undo(t);
    if (!(best < INFINITY))
        return true;
    if (best > slack)
        return push(g, (gap){best, one.reader, one.stamp, one.value});
    if (pick != tried)
        try(s, task, &one, prices[pick]);
    bool pushed = push_new(s, g, noise) && push_reader(s, g, one.reader, noise);
    interval_commit(t);
    return pushed;
}

static int by_time(const void *a, const void *b)
{
    const interval_run *const *p = a, *const *q = b;
    if ((*p)->time != (*q)->time)
        return (*p)->time > (*q)->time ? -1 : 1;
    return (*p)->stamp < (*q)->stamp ? -1 : 1;
}

/* Drops every run that the budget can do without. */
static void prune(interval_search *s)
{
    interval_timeline *t = s->timeline;
    uint32_t n = 0;
    const interval_run **runs = malloc(t->n_live * sizeof *runs);
    uint32_t *stamps = malloc(t->n_live * sizeof *stamps);
    if (!runs || !stamps) {
        t->failed = true;
        free(runs);
        free(stamps);
        return;
    }
    for (uint32_t i = 0; i < t->n_live; i++) {
        const interval_run *r = &t->runs[t->live[i]];
        if (t->head[r->task] != t->tail[r->task]) /* the only one stays */
            runs[n++] = r;
    }
    qsort(runs, n, sizeof *runs, by_time);
    for (uint32_t i = 0; i < n; i++)
        stamps[i] = runs[i]->stamp;
    for (uint32_t i = 0; i < n && !t->failed; i++) {
        uint32_t run = (uint32_t)(runs[i] - t->runs);
        bool there = t->run_at[runs[i]->slot] == run && runs[i]->stamp == stamps[i];
        if (!there || !interval_removable(t, run))
            continue;
        double excess = t->excess;
        interval_drop(s, run);
        if (t->excess > excess)
            interval_undo(t);
        else
            interval_commit(t);
    }
    free(runs);
    free(stamps);
}

/* Every run takes the fastest implementation that the budget allows. */
static void hasten(interval_search *s)
{
    interval_timeline *t = s->timeline;
    for (uint32_t i = 0; i < t->n_live && !t->failed; i++) {
        uint32_t run = t->live[i], task = t->runs[run].task;
        uint32_t ways = interval_n_ways(t->tasks, task);
        for (uint16_t way = 0; ways > 1 && way < ways && !t->failed; way++) {
            double time = t->time, excess = t->excess;
            interval_set_way(t, run, way);
            if (t->excess > excess || t->time >= time)
                interval_undo(t);
            else
                interval_commit(t);
        }
    }
}

void interval_greedy(interval_search *s, double noise)
{
    interval_timeline *t = s->timeline;
    gaps g = {0};
    double before;
    const uint64_t n = t->tasks->n_nodes;
    const uint64_t end = n > REMAT_LARGE_NODES ? t->work + WORK_OF_PAIR * n * n : UINT64_MAX;
    do {
        before = t->excess;
        t->work += t->n_live;
        g.n = 0;
        for (uint32_t slot = 0; slot < t->n_slots && !t->failed; slot++)
            if (t->run_at[slot] != NONE && !push_reader(s, &g, t->run_at[slot], noise))
                t->failed = true;
        while (t->excess > 0 && g.n > 0 && t->work < end && !t->failed &&
               !remat_host_cancelled(s->host)) {
            gap one = pop(&g);
            if (t->runs[one.reader].stamp == one.stamp && !evict(s, &g, one, noise))
                t->failed = true;
        }
    } while (t->excess > 0 && t->excess < before && t->work < end && !t->failed);
    free(g.items);
    if (!t->failed)
        prune(s);
    if (t->tasks->profile->n_alternatives > 0)
        hasten(s);
    interval_keep_best(s);
}
