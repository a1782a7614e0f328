/* A profile may have as many branches as nodes, and its estimate has to be cheap: a merge takes
 * the logarithm of their number. */
#include "papers/join/groups.h"

static uint32_t shorter(const join_groups *g, uint32_t a, uint32_t b)
{
    if (g->length[a] != g->length[b])
        return g->length[a] < g->length[b] ? a : b;
    return a < b ? a : b;
}

static void set_length(join_groups *g, uint32_t number, uint32_t length)
{
    g->length[number] = length;
    for (uint32_t n = (g->leaves + number) / 2; n > 0; n /= 2)
        g->least[n] = shorter(g, g->least[2 * n], g->least[2 * n + 1]);
}

remat_status join_groups_init(const join_costs *join, join_groups *ret_groups)
{
    join_groups g = {.n = join->k, .k = join->k, .leaves = 2};
    while (g.leaves < join->k)
        g.leaves *= 2;
    g.number = model_arena_array(&g.arena, g.leaves, sizeof *g.number);
    g.length = model_arena_array(&g.arena, g.leaves, sizeof *g.length);
    g.first = model_arena_array(&g.arena, g.leaves, sizeof *g.first);
    g.parent = model_arena_array(&g.arena, g.leaves, sizeof *g.parent);
    g.least = model_arena_array(&g.arena, g.leaves, 2 * sizeof *g.least);
    if (!g.number || !g.length || !g.first || !g.parent || !g.least) {
        model_arena_clear(&g.arena);
        return REMAT_NO_MEMORY;
    }
    for (uint32_t i = 0; i < g.leaves; i++) {
        g.least[g.leaves + i] = g.number[i] = g.first[i] = g.parent[i] = i;
        g.length[i] = i < g.k ? join->branches[i].length : JOIN_NONE;
    }
    for (uint32_t n = g.leaves; n-- > 1;)
        g.least[n] = shorter(&g, g.least[2 * n], g.least[2 * n + 1]);
    *ret_groups = g;
    return REMAT_OK;
}

void join_groups_clear(join_groups *groups)
{
    model_arena_clear(&groups->arena);
    *groups = (join_groups){0};
}

void join_groups_merge(join_groups *g)
{
    uint32_t a = g->least[1], last = --g->n;
    set_length(g, a, JOIN_NONE);
    g->parent[g->first[a]] = g->first[g->least[1]];
    if (a == last)
        return;
    g->first[a] = g->first[last];
    set_length(g, a, g->length[last]);
    set_length(g, last, JOIN_NONE);
}

static uint32_t stands_for(const join_groups *g, uint32_t branch)
{
    while (g->parent[branch] != branch)
        branch = g->parent[branch] = g->parent[g->parent[branch]];
    return branch;
}

void join_groups_number(join_groups *g)
{
    for (uint32_t i = 0; i < g->n; i++)
        g->number[g->first[i]] = i;
    for (uint32_t j = 0; j < g->k; j++)
        g->number[j] = g->number[stands_for(g, j)];
}

double join_groups_places(join_groups *g)
{
    double places = 0;
    join_groups_number(g);
    for (uint32_t j = 0; j < g->k; j++)
        places += g->length[g->number[j]] + 1.0;
    return places;
}
