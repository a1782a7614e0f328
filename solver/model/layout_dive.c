/* One pass over all blocks: the one that can stand lowest is placed there and stays (the skyline
 * heuristic of strip packing; of two the one that comes first in the order).
 *
 * A block stands above all that is below it, so whatever waits and shares a section with a part of
 * it can stand no lower than that part's top: a placement raises the keys of those blocks to at
 * least a number. They are points (first section, last section), and who shares a section with a
 * part is a quarter of that plane: a k-d tree over them that keeps in every node the least key, who
 * comes first of those that have it, and the next larger key. A raise that stays below the latter
 * changes the former alone, and is handed down when somebody looks below ("segment tree beats"):
 * about the root of n nodes for each placement, however often keys rise. */
#include "model/layout_pack.h"

#include <stdlib.h>

#define NO_KEY UINT64_MAX
enum { PLACED_OF_POLL = 1024 };

typedef struct point {
    uint32_t first, last, block;
} point;

typedef struct crowd_node {
    uint64_t least, next; /* keys; NO_KEY: there is none */
    uint32_t arrives;     /* the first of those with the least */
    uint32_t first_from, first_to, last_from, last_to;
} crowd_node;

/* The blocks that wait. */
typedef struct crowd {
    const pack_block *blocks;
    point *points;
    crowd_node *nodes; /* the root at 1 */
    uint32_t *leaf;    /* by block: its node */
    uint32_t *arrival; /* by place in the order: block */
    uint32_t leaves;   /* a power of two */
} crowd;

/* ---- the tree ---- */

static int compare(uint32_t a, uint32_t b)
{
    return (a > b) - (a < b);
}

static int compare_firsts(const void *a, const void *b)
{
    return compare(((const point *)a)->first, ((const point *)b)->first);
}

static int compare_lasts(const void *a, const void *b)
{
    return compare(((const point *)a)->last, ((const point *)b)->last);
}

static void surround(crowd *c, uint32_t at)
{
    crowd_node *node = &c->nodes[at];
    const crowd_node *a = &c->nodes[2 * at], *b = a + 1;
    node->first_from = a->first_from < b->first_from ? a->first_from : b->first_from;
    node->first_to = a->first_to > b->first_to ? a->first_to : b->first_to;
    node->last_from = a->last_from < b->last_from ? a->last_from : b->last_from;
    node->last_to = a->last_to > b->last_to ? a->last_to : b->last_to;
}

/* From the nodes below. */
static void pull(crowd *c, uint32_t at)
{
    crowd_node *node = &c->nodes[at];
    const crowd_node *low = &c->nodes[2 * at], *high = low + 1;
    if (high->least < low->least || (high->least == low->least && high->arrives < low->arrives)) {
        low = high;
        high = &c->nodes[2 * at];
    }
    node->least = low->least;
    node->arrives = low->arrives;
    node->next = high->least > low->least ? high->least : high->next;
    node->next = low->next < node->next ? low->next : node->next;
}

/* Of the points from one on, below one node that has so many leaves. */
static void build(crowd *c, uint32_t n, uint32_t at, uint32_t from, uint32_t leaves, bool by_last)
{
    if (from >= n) {
        c->nodes[at] = (crowd_node){NO_KEY, NO_KEY, UINT32_MAX, UINT32_MAX, 0, UINT32_MAX, 0};
        return;
    }
    if (leaves == 1) {
        const point *p = &c->points[from];
        c->leaf[p->block] = at;
        c->nodes[at] = (crowd_node){
            0, NO_KEY, c->blocks[p->block].arrives, p->first, p->first, p->last, p->last};
        return;
    }
    qsort(&c->points[from], n - from < leaves ? n - from : leaves, sizeof *c->points,
          by_last ? compare_lasts : compare_firsts);
    build(c, n, 2 * at, from, leaves / 2, !by_last);
    build(c, n, 2 * at + 1, from + leaves / 2, leaves / 2, !by_last);
    surround(c, at);
    pull(c, at);
}

/* ---- keys ---- */

static void hand_down(crowd *c, uint32_t at)
{
    const uint64_t least = c->nodes[at].least;
    for (uint32_t i = 2 * at; i <= 2 * at + 1; i++)
        if (c->nodes[i].least < least)
            c->nodes[i].least = least;
}

/* The keys of the blocks that share one of these sections, to at least a floor. */
static void raise(crowd *c, uint32_t at, uint32_t first, uint32_t last, uint64_t floor)
{
    crowd_node *node = &c->nodes[at];
    if (node->least >= floor || node->first_from > last || node->last_to < first)
        return;
    if (node->next > floor && node->first_to <= last && node->last_from >= first) {
        node->least = floor;
        return;
    }
    hand_down(c, at);
    raise(c, 2 * at, first, last, floor);
    raise(c, 2 * at + 1, first, last, floor);
    pull(c, at);
}

static void take_out(crowd *c, uint32_t block)
{
    const uint32_t leaf = c->leaf[block];
    for (uint32_t above = c->leaves; above > 1; above /= 2)
        hand_down(c, leaf / above);
    c->nodes[leaf].least = NO_KEY;
    c->nodes[leaf].arrives = UINT32_MAX;
    for (uint32_t at = leaf / 2; at > 0; at /= 2)
        pull(c, at);
}

/* ---- the pass ---- */

static void place_next(crowd *c, const packing *k, uint64_t *offsets, uint64_t *arena)
{
    const uint64_t low = c->nodes[1].least;
    const uint32_t block = c->arrival[c->nodes[1].arrives];
    const pack_block *b = &k->blocks[block];
    offsets[block] = low;
    *arena = low + b->bytes > *arena ? low + b->bytes : *arena;
    take_out(c, block);
    for (uint32_t i = 0; i < b->n_spans; i++) {
        const pack_span *s = &k->spans[b->first_span + i];
        raise(c, 1, (uint32_t)s->first, (uint32_t)s->last, low + s->size);
    }
}

static void gather(crowd *c, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        c->points[i] = (point){c->blocks[i].first, c->blocks[i].last, i};
        c->arrival[c->blocks[i].arrives] = i;
    }
    build(c, n, 1, 0, c->leaves, false);
}

remat_status pack_dive(const packing *k, const remat_host *host, uint64_t *ret_offsets,
                       uint64_t *ret_arena)
{
    const uint32_t n = k->n_blocks;
    crowd c = {.blocks = k->blocks, .leaves = 1};
    while (c.leaves < n)
        c.leaves *= 2;
    c.points = malloc(((size_t)n + 1) * sizeof *c.points);
    c.nodes = malloc(2 * (size_t)c.leaves * sizeof *c.nodes);
    c.leaf = malloc(((size_t)n + 1) * sizeof *c.leaf);
    c.arrival = malloc(((size_t)n + 1) * sizeof *c.arrival);
    remat_status status = c.points && c.nodes && c.leaf && c.arrival ? REMAT_OK : REMAT_NO_MEMORY;
    *ret_arena = 0;
    if (!status)
        gather(&c, n);
    for (uint32_t placed = 0; placed < n && !status; placed++) {
        if (placed % PLACED_OF_POLL == 0 && remat_host_cancelled(host))
            status = REMAT_CANCELLED;
        else
            place_next(&c, k, ret_offsets, ret_arena);
    }
    free(c.points);
    free(c.nodes);
    free(c.leaf);
    free(c.arrival);
    return status;
}
