/* One pass over all blocks: the one that can stand lowest is placed there and stays (the skyline
 * heuristic of strip packing; of two the one that comes first in the order). The floor of a section
 * only rises, so a tree of maxima says how low a block can stand, and a heap whose keys are looked
 * up again when they come to its top says which is next: n log n, and once more for each time that
 * a block's floor has risen meanwhile. Of many lives within one another that is every time: a dive
 * ends without a packing after some hundred looks for each block. */
#include "model/layout_pack.h"

#include <stdlib.h>

enum { LOOKS_OF_BLOCK = 400, MOST_LOOKS = 8000000, LOOKS_OF_POLL = 4096 };

typedef struct waiting {
    uint64_t low;
    uint32_t arrives, block;
} waiting;

typedef struct dive {
    const packing *k;
    pack_floors floors;
    waiting *heap; /* from 1 */
    uint32_t n_waiting;
    uint64_t looks; /* that are left */
} dive;

/* ---- floors ---- */

bool pack_floors_new(pack_floors *ret_floors, uint32_t n_sections)
{
    ret_floors->leaves = n_sections;
    ret_floors->highest = calloc(4 * (size_t)n_sections + 1, sizeof *ret_floors->highest);
    ret_floors->all = ret_floors->highest ? ret_floors->highest + 2 * n_sections : NULL;
    return ret_floors->highest;
}

static void keep_larger(uint64_t *a, uint64_t b)
{
    *a = *a > b ? *a : b;
}

void pack_raise(pack_floors *f, uint32_t first, uint32_t last, uint64_t floor)
{
    uint32_t low = first + f->leaves, high = last + f->leaves;
    for (uint32_t i = low, k = high + 1; i < k; i = (i + 1) / 2, k /= 2) {
        if (i & 1)
            f->highest[i] = f->all[i] = floor;
        if (k & 1)
            f->highest[k - 1] = f->all[k - 1] = floor;
    }
    for (; low > 1; low /= 2, high /= 2) {
        keep_larger(&f->highest[low / 2], floor);
        keep_larger(&f->highest[high / 2], floor);
    }
}

uint64_t pack_highest(const pack_floors *f, uint32_t first, uint32_t last)
{
    uint64_t highest = 0;
    uint32_t low = first + f->leaves, high = last + f->leaves;
    for (uint32_t i = low, k = high + 1; i < k; i = (i + 1) / 2, k /= 2) {
        keep_larger(&highest, i & 1 ? f->highest[i] : 0);
        keep_larger(&highest, k & 1 ? f->highest[k - 1] : 0);
    }
    for (; high > 0; low /= 2, high /= 2) {
        keep_larger(&highest, f->all[low]);
        keep_larger(&highest, f->all[high]);
    }
    return highest;
}

/* ---- who is next ---- */

static bool before(const waiting *a, const waiting *b)
{
    return a->low < b->low || (a->low == b->low && a->arrives < b->arrives);
}

static void sink(dive *d, uint32_t at, waiting one)
{
    for (uint32_t child; (child = 2 * at) <= d->n_waiting; at = child) {
        if (child < d->n_waiting && before(&d->heap[child + 1], &d->heap[child]))
            child++;
        if (!before(&d->heap[child], &one))
            break;
        d->heap[at] = d->heap[child];
    }
    d->heap[at] = one;
}

/* The one on top stands there, or waits again where its floor has risen. */
static void place_next(dive *d, uint64_t *offsets, uint64_t *arena)
{
    waiting one = d->heap[1];
    const pack_block *b = &d->k->blocks[one.block];
    uint64_t low = pack_highest(&d->floors, b->first, b->last);
    if (low > one.low) {
        one.low = low;
        sink(d, 1, one);
        d->looks--;
        return;
    }
    offsets[one.block] = low;
    *arena = low + b->bytes > *arena ? low + b->bytes : *arena;
    for (uint32_t i = 0; i < b->n_spans; i++) {
        const pack_span *s = &d->k->spans[b->first_span + i];
        pack_raise(&d->floors, (uint32_t)s->first, (uint32_t)s->last, low + s->size);
    }
    sink(d, 1, d->heap[d->n_waiting--]);
}

/* Until all are placed, or there are no looks left. False: cancelled. */
static bool place_all(dive *d, const remat_host *host, uint64_t *offsets, uint64_t *arena)
{
    for (uint64_t i = 0; d->n_waiting > 0 && d->looks > 0; i++) {
        if (i % LOOKS_OF_POLL == 0 && remat_host_cancelled(host))
            return false;
        place_next(d, offsets, arena);
    }
    if (d->n_waiting > 0)
        *arena = UINT64_MAX;
    return true;
}

remat_status pack_dive(const packing *k, const remat_host *host, uint64_t *ret_offsets,
                       uint64_t *ret_arena)
{
    dive d = {.k = k,
              .n_waiting = k->n_blocks,
              .looks = (uint64_t)LOOKS_OF_BLOCK * k->n_blocks,
              .heap = malloc(((size_t)k->n_blocks + 2) * sizeof *d.heap)};
    const bool enough = pack_floors_new(&d.floors, k->n_sections) && d.heap;
    bool ended = true;
    d.looks = d.looks < MOST_LOOKS ? d.looks : MOST_LOOKS;
    if (enough) {
        for (uint32_t i = 0; i < k->n_blocks; i++)
            d.heap[k->blocks[i].arrives] = (waiting){.arrives = k->blocks[i].arrives, .block = i};
        *ret_arena = 0;
        ended = place_all(&d, host, ret_offsets, ret_arena);
    }
    free(d.floors.highest);
    free(d.heap);
    return !enough ? REMAT_NO_MEMORY : ended ? REMAT_OK : REMAT_CANCELLED;
}
