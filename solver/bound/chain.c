/* The moments of a chain (bound/moments.h) without relaxing the capacity: a knapsack along the
 * chain, exact but for rounding. Where stages are few and large, as the blocks of a transformer,
 * what is held is whole stages, and the price of a byte says nothing of that.
 *
 * The stages before b are taken from left to right. Each is nothing (y1 = y2 = 0), held (y1 = 1) or
 * run later (y1 = y2 = 1), and a stage that runs later needs the one before held or run later. Of
 * the ways to reach each of the three, those stay of which no other takes as few bytes and as
 * little time (Nemhauser, Ullmann 1969). One pass serves every moment. */
#include "bound/private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_POINTS = 4096, POINTS_OF_MOMENT = 8 };

typedef struct point {
    double bytes, time; /* held, and run later */
} point;

/* By ascending bytes and descending time. */
typedef struct front {
    point *items;
    uint32_t n;
} front;

typedef struct fronts {
    front nothing, held, later;
} fronts;

typedef struct knapsack {
    const bound_moments *m;
    double budget;
    uint32_t most;       /* points of a front */
    fronts stages, next; /* up to a stage, and to the one after it */
    front any, there;    /* merged: whatever the stage is; held or run later */
} knapsack;

/* The points of both that no other dominates. Past the most, pairs become one point that is better
 * than either: the bound stays one. */
static void merge(const knapsack *k, const front *a, const front *b, front *to)
{
    uint32_t i = 0, j = 0, n = 0;
    while (i < a->n || j < b->n) {
        bool left = j == b->n || (i < a->n && a->items[i].bytes <= b->items[j].bytes);
        point p = left ? a->items[i++] : b->items[j++];
        if (n > 0 && p.time >= to->items[n - 1].time)
            continue;
        n -= n > 0 && p.bytes == to->items[n - 1].bytes;
        to->items[n++] = p;
    }
    to->n = n;
    if (n <= k->most)
        return;
    for (to->n = 0; 2 * to->n + 1 < n; to->n++)
        to->items[to->n] = (point){to->items[2 * to->n].bytes, to->items[2 * to->n + 1].time};
    if (n % 2)
        to->items[to->n++] = to->items[n - 1];
}

/* The front with so much added, without what passes the budget. */
static void add(const knapsack *k, const front *from, double bytes, double time, front *to)
{
    for (to->n = 0; to->n < from->n && from->items[to->n].bytes + bytes <= k->budget; to->n++)
        to->items[to->n] =
            (point){from->items[to->n].bytes + bytes, from->items[to->n].time + time};
}

/* Stage v behind those before it. needed: a later backward reads its output; read: the backward of
 * the moment does. */
static void extend(knapsack *k, uint32_t v, bool needed, bool read)
{
    const bound_moments *m = k->m;
    add(k, &k->any, m->saved[v], 0, &k->next.nothing);
    if (needed || read)
        k->next.nothing.n = 0;
    add(k, &k->any, m->saved[v] + m->out[v], 0, &k->next.held);
    add(k, v == 0 ? &k->any : &k->there, read ? m->out[v] : 0, m->time[v], &k->next.later);
}

static void go_on(knapsack *k)
{
    fronts old = k->stages;
    k->stages = k->next;
    k->next = old;
    merge(k, &k->stages.held, &k->stages.later, &k->there);
    merge(k, &k->there, &k->stages.nothing, &k->any);
}

/* Least time within the capacity over the three fronts. */
static double least_time(const fronts *f, double capacity)
{
    const front *all[] = {&f->nothing, &f->held, &f->later};
    double least = INFINITY;
    for (int i = 0; i < 3; i++)
        for (uint32_t j = 0; j < all[i]->n && all[i]->items[j].bytes <= capacity; j++)
            least = fmin(least, all[i]->items[j].time);
    return least;
}

/* The moment of B b, or of the last forward of b, behind the stages before b - 1. */
static double one_moment(knapsack *k, bound_moments *m, uint32_t b, bool forward, uint64_t budget)
{
    bound_look_at(m, b, forward, budget);
    bool read = m->role[b] & BOUND_READ;
    extend(k, b - 1, m->role[b - 1] & BOUND_NEEDED, m->role[b - 1] & BOUND_READ);
    double capacity = m->capacity - (read ? m->out[b] : 0);
    return least_time(&k->next, capacity) - BOUND_MARGIN * m->total;
}

static double all_moments(knapsack *k, bound_moments *m, uint64_t budget)
{
    const remat_node *nodes = m->profile->nodes;
    double bound = 0;
    k->any.items[0] = (point){0, 0};
    k->any.n = 1;
    for (uint32_t b = 1; b < m->n && bound < INFINITY; b++) {
        bound = fmax(bound, one_moment(k, m, b, false, budget));
        bound = fmax(bound, one_moment(k, m, b, true, budget));
        extend(k, b - 1, nodes[b - 1].backward_uses_output || nodes[b].backward_uses_inputs, false);
        go_on(k);
    }
    return bound;
}

double bound_chain(bound_moments *m, uint64_t budget, uint32_t moments)
{
    uint32_t most =
        moments < MOST_POINTS / POINTS_OF_MOMENT ? POINTS_OF_MOMENT * moments : MOST_POINTS;
    knapsack k = {.m = m, .budget = (double)budget, .most = most};
    front *all[] = {&k.stages.nothing, &k.stages.held, &k.stages.later, &k.next.nothing,
                    &k.next.held,      &k.next.later,  &k.there,        &k.any};
    enum { FRONTS = sizeof all / sizeof *all };
    point *points = malloc(FRONTS * 3 * (size_t)most * sizeof *points); /* merged before thinned */
    if (!points)
        return 0;
    for (uint32_t i = 0; i < FRONTS; i++)
        all[i]->items = points + i * 3 * (size_t)most;
    double bound = all_moments(&k, m, budget);
    free(points);
    return bound;
}
