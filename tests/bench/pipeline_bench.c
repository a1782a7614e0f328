/* Pipelines of layers with two modes each, plain and made again, as Piper plans them (Tarnawski et
 * al., NeurIPS 2021), without data and tensor parallelism: a stage takes the time of its layers,
 * and of every edge that enters or leaves it twice its bytes over the bandwidth, there and back;
 * with n in flight sum A n + sum B bytes; a plan the time of its slowest stage.
 * tests/bench/piper_race runs both. bench-pipeline INPUT RANKS GIB [RANKS GIB ..] prints a line
 * each: ranks, GiB, time, processor seconds, ranks that are not empty. */
#include "bench.h"

#include "remat/pipeline.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NODES = 256, MOST_EDGES = 512, ORDERS = 32 };

static const double BANDWIDTH = 25.0 * (1 << 30); /* as in Piper's own runs */

typedef struct mode {
    double time, each, fixed; /* seconds or milliseconds; bytes A and B */
} mode;

typedef struct layers {
    uint32_t n, n_edges, micro_batches;
    mode modes[MOST_NODES][2];
    uint32_t from[MOST_EDGES], to[MOST_EDGES];
    double bytes[MOST_EDGES];
} layers;

/* Layers in an order that their edges allow, and what is known of them. */
typedef struct line {
    const layers *g;
    uint32_t most_ranks;
    double memory, limit; /* no stage of more time is in a plan that is better */
    bool exact;           /* lists of single layers, else all or none of a stage made again */
    uint32_t at[MOST_NODES], place[MOST_NODES];
    double least[MOST_NODES];
    double sends[MOST_NODES][MOST_NODES + 1]; /* seconds, by first and end */
    mode sums[MOST_NODES + 1][2];
    remat_stage_list *lists[MOST_NODES][MOST_NODES + 1];
} line;

static void fail(const char *what)
{
    fprintf(stderr, "bench-pipeline: %s\n", what);
    exit(1);
}

static void read_layers(const char *path, layers *g)
{
    json_t *json = json_load_file(path, 0, NULL);
    const json_t *nodes = json_object_get(json, "nodes"), *edges = json_object_get(json, "edges");
    g->n = (uint32_t)json_array_size(nodes);
    g->n_edges = (uint32_t)json_array_size(edges);
    g->micro_batches = (uint32_t)json_integer_value(json_object_get(json, "micro_batches"));
    if (g->n == 0 || g->n > MOST_NODES || g->n_edges > MOST_EDGES || g->micro_batches == 0)
        fail("no such layers");
    for (uint32_t v = 0; v < g->n; v++)
        for (size_t k = 0; k < 2; k++) {
            const json_t *row = json_array_get(nodes, v);
            g->modes[v][k] = (mode){json_number_value(json_array_get(row, 3 * k)),
                                    json_number_value(json_array_get(row, 3 * k + 1)),
                                    json_number_value(json_array_get(row, 3 * k + 2))};
        }
    for (uint32_t e = 0; e < g->n_edges; e++) {
        const json_t *row = json_array_get(edges, e);
        g->from[e] = (uint32_t)json_integer_value(json_array_get(row, 0));
        g->to[e] = (uint32_t)json_integer_value(json_array_get(row, 1));
        g->bytes[e] = json_number_value(json_array_get(row, 2));
        if (g->from[e] >= g->n || g->to[e] >= g->n)
            fail("an edge has no end");
    }
    json_decref(json);
}

/* ---- orders ---- */

enum { FIRST, LAST, ANY };

/* One after another, from the front or from the back, of those that may come: the one that became
 * so first, or last, or any. */
static void put_order(line *l, unsigned kind)
{
    const layers *g = l->g;
    const bool back = kind & 1;
    const unsigned which = kind / 2 < ANY ? kind / 2 : ANY;
    uint32_t seed = kind;
    uint32_t waits[MOST_NODES] = {0}, ready[MOST_NODES], first = 0, n = 0;
    for (uint32_t e = 0; e < g->n_edges; e++)
        waits[back ? g->from[e] : g->to[e]]++;
    for (uint32_t v = 0; v < g->n; v++)
        if (waits[v] == 0)
            ready[n++] = v;
    for (uint32_t i = 0; i < g->n; i++) {
        if (first == n)
            fail("the edges go in a circle");
        if (which == ANY) {
            seed = seed * 1664525 + 1013904223;
            const uint32_t k = first + (seed >> 8) % (n - first), swapped = ready[k];
            ready[k] = ready[first];
            ready[first] = swapped;
        }
        const uint32_t v = which == LAST ? ready[--n] : ready[first++];
        l->at[back ? g->n - 1 - i : i] = v;
        for (uint32_t e = 0; e < g->n_edges; e++)
            if ((back ? g->to[e] : g->from[e]) == v && --waits[back ? g->from[e] : g->to[e]] == 0)
                ready[n++] = back ? g->from[e] : g->to[e];
    }
    for (uint32_t i = 0; i < g->n; i++)
        l->place[l->at[i]] = i;
}

/* Entering or leaving the stages from each layer on, there and back. */
static void put_sums(line *l)
{
    const layers *g = l->g;
    double over[MOST_NODES + 1] = {0}; /* those that go over a cut */
    for (uint32_t e = 0; e < g->n_edges; e++)
        for (uint32_t i = l->place[g->from[e]] + 1; i <= l->place[g->to[e]]; i++)
            over[i] += 2 * g->bytes[e] / BANDWIDTH;
    for (uint32_t first = 0; first < g->n; first++)
        for (uint32_t end = first + 1; end <= g->n; end++)
            l->sends[first][end] = over[first] + over[end];
    for (uint32_t e = 0; e < g->n_edges; e++) /* over both cuts is past the stage */
        for (uint32_t i = l->place[g->from[e]] + 1; i <= l->place[g->to[e]]; i++)
            for (uint32_t end = i + 1; end <= l->place[g->to[e]]; end++)
                l->sends[i][end] -= 4 * g->bytes[e] / BANDWIDTH;
    for (uint32_t i = 0; i < g->n; i++) {
        const mode *m = g->modes[l->at[i]];
        l->least[i] = m[0].time;
        for (size_t k = 0; k < 2; k++)
            l->sums[i + 1][k] =
                (mode){l->sums[i][k].time + m[k].time, l->sums[i][k].each + m[k].each,
                       l->sums[i][k].fixed + m[k].fixed};
    }
}

/* ---- lists ---- */

static mode whole(const line *l, uint32_t first, uint32_t end, size_t k)
{
    const mode *a = &l->sums[first][k], *b = &l->sums[end][k];
    return (mode){b->time - a->time, b->each - a->each, b->fixed - a->fixed};
}

static remat_stage_list list_of(const line *l, uint32_t first, uint32_t end, const mode *m)
{
    const double held = fmax(0, ceil(m->each));
    return (remat_stage_list){.forward = m->time + l->sends[first][end],
                              .held = (uint64_t)held,
                              .peak = (uint64_t)(held + fmax(0, ceil(m->fixed)))};
}

typedef struct swap {
    double ratio, time, each, fixed, saves;
} swap;

static int by_ratio(const void *x, const void *y)
{
    const swap *a = x, *b = y;
    return (a->ratio > b->ratio) - (a->ratio < b->ratio);
}

/* With n in flight: those made again that save most for their time until it fits, and back again
 * whatever need not be, the dearest first. */
static bool some_again(const line *l, uint32_t first, uint32_t end, uint32_t n, mode *ret)
{
    swap swaps[MOST_NODES];
    uint32_t count = 0, used = 0;
    *ret = whole(l, first, end, 0);
    for (uint32_t i = first; i < end; i++) {
        const mode *m = l->g->modes[l->at[i]];
        swap s = {0, m[1].time - m[0].time, m[0].each - m[1].each, m[0].fixed - m[1].fixed, 0};
        s.saves = s.each * n + s.fixed;
        s.ratio = s.time / s.saves;
        if (s.saves > 0)
            swaps[count++] = s;
    }
    qsort(swaps, count, sizeof *swaps, by_ratio);
    double room = l->memory - 2 - (ret->each * n + ret->fixed); /* both are rounded up */
    for (; used < count && room < 0; used++)
        room += swaps[used].saves;
    for (uint32_t i = used; i-- > 0;)
        if (swaps[i].saves <= room)
            room -= swaps[i].saves;
        else
            *ret = (mode){ret->time + swaps[i].time, ret->each - swaps[i].each,
                          ret->fixed - swaps[i].fixed};
    return room >= 0;
}

static remat_status menu(void *data, uint32_t first, uint32_t end, remat_stage_menu *ret_menu,
                         remat_error *error)
{
    line *l = data;
    const mode plain = whole(l, first, end, 0), again = whole(l, first, end, 1);
    *ret_menu = (remat_stage_menu){.n_lists = 0};
    if (plain.time + l->sends[first][end] > l->limit || again.each + again.fixed > l->memory)
        return REMAT_OK;
    remat_stage_list *lists = realloc(l->lists[first][end], (l->most_ranks + 2) * sizeof *lists);
    if (!lists)
        return remat_fail_memory(error);
    ret_menu->lists = l->lists[first][end] = lists;
    lists[ret_menu->n_lists++] = list_of(l, first, end, &plain);
    if (!l->exact)
        lists[ret_menu->n_lists++] = list_of(l, first, end, &again);
    for (uint32_t n = 1; l->exact && n <= l->most_ranks; n++) {
        mode some;
        if (plain.each * n + plain.fixed <= l->memory)
            continue;
        if (!some_again(l, first, end, n, &some))
            break;
        const remat_stage_list list = list_of(l, first, end, &some);
        if (memcmp(&list, &lists[ret_menu->n_lists - 1], sizeof list) != 0)
            lists[ret_menu->n_lists++] = list;
    }
    return REMAT_OK;
}

/* ---- plans ---- */

static void plan(line *l, double *best, uint32_t *best_ranks)
{
    const layers *g = l->g;
    const remat_stage_host host = {.data = l, .menu = menu};
    const remat_pipeline_question q = {.pipeline = {.order = REMAT_1F1B,
                                                    .ranks = l->most_ranks,
                                                    .microbatches = l->most_ranks,
                                                    .chunks = 1,
                                                    .bandwidth = INFINITY},
                                       .memory = (uint64_t)l->memory,
                                       .n_units = g->n,
                                       .least = l->least};
    remat_pipeline_plan found;
    remat_error error;
    uint32_t ranks = 0;
    const remat_status status = remat_pipeline_plan_steady(&q, &host, &ranks, &found, &error);
    if (status && status != REMAT_INFEASIBLE)
        fail(error.message);
    if (!status && found.step < *best) {
        *best = found.step;
        *best_ranks = ranks;
    }
}

static bool is_known(const line *l, unsigned order)
{
    static uint32_t orders[ORDERS][MOST_NODES];
    memcpy(orders[order], l->at, sizeof l->at);
    for (unsigned i = 0; i < order; i++)
        if (memcmp(orders[i], l->at, sizeof l->at) == 0)
            return true;
    return false;
}

/* Each order with some of a stage made again; before the first plan is known, with all or nothing.
 */
static void try_order(line *l, unsigned order, double *best, uint32_t *ranks)
{
    put_order(l, order);
    if (is_known(l, order))
        return;
    put_sums(l);
    for (unsigned exact = *best < INFINITY; exact < 2; exact++) {
        l->exact = exact;
        l->limit = *best;
        plan(l, best, ranks);
    }
}

static void run(const layers *g, uint32_t most_ranks, const char *gib)
{
    const double start = bench_cpu_seconds();
    double best = INFINITY;
    uint32_t ranks = 0;
    for (unsigned i = 0; i < ORDERS; i++) {
        line *l = calloc(1, sizeof *l);
        if (!l)
            fail("out of memory");
        l->g = g;
        l->most_ranks = most_ranks < g->n ? most_ranks : g->n;
        l->most_ranks = l->most_ranks < g->micro_batches ? l->most_ranks : g->micro_batches;
        l->memory = atof(gib) * (1 << 30);
        try_order(l, i, &best, &ranks);
        for (uint32_t u = 0; u < g->n; u++)
            for (uint32_t end = 0; end <= g->n; end++)
                free(l->lists[u][end]);
        free(l);
    }
    printf("%u %s %.9g %.4f %u\n", most_ranks, gib, best, bench_cpu_seconds() - start, ranks);
}

int main(int argc, char **argv)
{
    static layers g;
    if (argc < 4 || argc % 2 != 0)
        fail("usage: bench-pipeline INPUT RANKS GIB [RANKS GIB ..]");
    read_layers(argv[1], &g);
    for (int i = 2; i + 1 < argc; i += 2)
        run(&g, (uint32_t)atoi(argv[i]), argv[i + 1]);
    return 0;
}
