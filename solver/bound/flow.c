#include "bound/flow.h"

#include <math.h>
#include <string.h>

#define UNREACHED UINT32_MAX

bool bound_flow_new(bound_flow *f, uint32_t n_nodes, model_arena *arena)
{
    *f = (bound_flow){.n_nodes = n_nodes, .source = n_nodes - 2, .sink = n_nodes - 1};
    f->first = model_arena_array(arena, (size_t)n_nodes + 1, sizeof *f->first);
    f->level = model_arena_array(arena, n_nodes, sizeof *f->level);
    f->current = model_arena_array(arena, n_nodes, sizeof *f->current);
    f->queue = model_arena_array(arena, n_nodes, sizeof *f->queue);
    f->path = model_arena_array(arena, n_nodes, sizeof *f->path);
    return f->first && f->level && f->current && f->queue && f->path;
}

uint32_t bound_flow_join(bound_flow *f, uint32_t from, uint32_t to)
{
    if (!f->arcs) {
        f->first[from + 1]++;
        f->first[to + 1]++;
        f->n_arcs += 2;
        return 0;
    }
    uint32_t a = f->current[from]++, b = f->current[to]++;
    f->arcs[a] = (bound_arc){.to = to, .reverse = b};
    f->arcs[b] = (bound_arc){.to = from, .reverse = a};
    return a;
}

bool bound_flow_open(bound_flow *f, model_arena *arena)
{
    for (uint32_t v = 0; v < f->n_nodes; v++)
        f->first[v + 1] += f->first[v];
    memcpy(f->current, f->first, f->n_nodes * sizeof *f->current);
    f->arcs = model_arena_array(arena, f->n_arcs, sizeof *f->arcs);
    return f->arcs;
}

/* Breadth first from the source; true if the sink is reached. */
static bool find_levels(bound_flow *f, double smallest)
{
    for (uint32_t v = 0; v < f->n_nodes; v++)
        f->level[v] = UNREACHED;
    uint32_t head = 0, tail = 0;
    f->queue[tail++] = f->source;
    f->level[f->source] = 0;
    while (head < tail) {
        uint32_t v = f->queue[head++];
        for (uint32_t a = f->first[v]; a < f->first[v + 1]; a++) {
            uint32_t to = f->arcs[a].to;
            if (f->arcs[a].left <= smallest || f->level[to] != UNREACHED)
                continue;
            f->level[to] = f->level[v] + 1;
            f->queue[tail++] = to;
        }
    }
    return f->level[f->sink] != UNREACHED;
}

/* Sends what the path of n arcs can carry; returns that. */
static double augment(bound_flow *f, uint32_t n)
{
    double least = INFINITY;
    for (uint32_t i = 0; i < n; i++)
        least = fmin(least, f->arcs[f->path[i]].left);
    for (uint32_t i = 0; i < n; i++) {
        bound_arc *arc = &f->arcs[f->path[i]];
        arc->left -= least;
        f->arcs[arc->reverse].left += least;
    }
    return least;
}

/* The first arc of the path that is full now: from its tail the search goes on. */
static uint32_t first_full(const bound_flow *f, uint32_t n, double smallest)
{
    for (uint32_t i = 0; i < n; i++)
        if (f->arcs[f->path[i]].left <= smallest)
            return i;
    return n;
}

/* Paths of shortest length until none is left; depth first, without recursion. */
static double block(bound_flow *f, double smallest)
{
    double sum = 0;
    uint32_t n = 0, v = f->source;
    for (uint32_t i = 0; i < f->n_nodes; i++)
        f->current[i] = f->first[i];
    for (;;) {
        if (v == f->sink) {
            sum += augment(f, n);
            n = first_full(f, n, smallest);
            v = f->arcs[f->arcs[f->path[n]].reverse].to;
            continue;
        }
        uint32_t a = f->current[v];
        while (a < f->first[v + 1] &&
               (f->arcs[a].left <= smallest || f->level[f->arcs[a].to] != f->level[v] + 1))
            a++;
        f->current[v] = a;
        if (a < f->first[v + 1]) {
            f->path[n++] = a;
            v = f->arcs[a].to;
        } else if (n == 0) {
            return sum;
        } else { /* a dead end: back, and never here again */
            v = f->arcs[f->arcs[f->path[--n]].reverse].to;
            f->current[v]++;
        }
    }
}

double bound_flow_run(bound_flow *f, double smallest)
{
    double sum = 0;
    while (find_levels(f, smallest))
        sum += block(f, smallest);
    return sum;
}
