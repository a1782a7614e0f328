/* Offsets: dynamic storage allocation by first fit, with a search for a good order.
 *
 * A *block* is what must have one offset: a row of items each of which overwrites the one before;
 * mostly a single item. Blocks are placed one after the other, each at the lowest offset where none
 * of its items meets an item placed before. The result depends on the order only, and some order
 * gives an optimum (that of an optimum's offsets). Tried are: longest life first, largest size
 * times life, largest size, earliest start, latest end. Then the best of them is changed step by
 * step: a block that reaches the top, or one that lives beside it, moves to an earlier place at
 * random (fixed seed), now and then to any place; the change is kept where the arena did not grow.
 * The search stops when the arena is the lower bound, or after a bounded number of comparisons. */
#include "model/arrays.h"
#include "model/layout.h"

#include <stdlib.h>
#include <string.h>

#define NONE REMAT_LAYOUT_NONE

/* Comparisons of two items; about two nanoseconds each. */
#define WORK_BELOW_TARGET UINT64_C(1000000)

/* One move in so many may go backwards in the order, so that the search cannot be caught. */
#define BACKWARD 8

typedef struct piece {
    uint64_t offset, size; /* size: rounded up */
    int32_t first, last;
} piece;

typedef struct block {
    uint32_t first_piece, n_pieces; /* in packing.pieces */
    uint64_t size;                  /* of its largest piece */
    uint64_t bytes;                 /* the same, not rounded up */
    int32_t first, last;
    uint32_t head; /* its first item */
} block;

typedef struct ranked {
    double key; /* largest first */
    uint32_t index;
} ranked;

typedef struct packing {
    bool exact;    /* the arena ends with the bytes of the highest block, not with its rounding */
    piece *pieces; /* those of one block side by side */
    block *blocks;
    piece *placed; /* by offset */
    ranked *ranks;
    uint32_t *order, *trial;  /* by position: the best order so far; the one being tried */
    uint64_t *best, *offsets; /* by block: what they gave */
    uint32_t n_pieces, n_blocks, n_placed;
    uint64_t arena, work, random;
} packing;

/* ---- setting up ---- */

static bool allocate(packing *k, uint32_t n)
{
    k->pieces = malloc(((size_t)n + 1) * sizeof *k->pieces);
    k->blocks = malloc(((size_t)n + 1) * sizeof *k->blocks);
    k->placed = malloc(((size_t)n + 1) * sizeof *k->placed);
    k->ranks = malloc(((size_t)n + 1) * sizeof *k->ranks);
    k->order = malloc(((size_t)n + 1) * sizeof *k->order);
    k->trial = malloc(((size_t)n + 1) * sizeof *k->trial);
    k->offsets = malloc(((size_t)n + 1) * sizeof *k->offsets);
    k->best = malloc(((size_t)n + 1) * sizeof *k->best);
    return k->pieces && k->blocks && k->placed && k->ranks && k->order && k->trial && k->offsets &&
           k->best;
}

static void release(packing *k)
{
    free(k->pieces);
    free(k->blocks);
    free(k->placed);
    free(k->ranks);
    free(k->order);
    free(k->trial);
    free(k->offsets);
    free(k->best);
}

static void add_block(packing *k, const model_lives *lives, uint32_t head, uint64_t alignment)
{
    block *b = &k->blocks[k->n_blocks++];
    *b = (block){.first_piece = k->n_pieces, .first = lives->items[head].first, .head = head};
    for (uint32_t i = head; i != NONE; i = lives->next[i]) {
        const remat_allocation *item = &lives->items[i];
        uint64_t size = remat_layout_align(item->bytes, alignment);
        k->pieces[k->n_pieces++] = (piece){.size = size, .first = item->first, .last = item->last};
        b->n_pieces++;
        b->size = size > b->size ? size : b->size;
        b->bytes = item->bytes > b->bytes ? item->bytes : b->bytes;
        b->last = item->last;
    }
}

/* ---- placing ---- */

/* Lowest offset from `from` on where the piece meets nothing placed. */
static uint64_t lowest(packing *k, const piece *p, uint64_t from)
{
    uint32_t i = 0;
    for (; i < k->n_placed && k->placed[i].offset < from + p->size; i++) {
        const piece *other = &k->placed[i];
        if (other->first <= p->last && p->first <= other->last &&
            other->offset + other->size > from)
            from = other->offset + other->size;
    }
    k->work += i + 1;
    return from;
}

static void insert(packing *k, const piece *p)
{
    size_t at =
        model_count_below(k->placed, k->n_placed, sizeof *p, offsetof(piece, offset), p->offset);
    memmove(&k->placed[at + 1], &k->placed[at], (k->n_placed - at) * sizeof *p);
    k->placed[at] = *p;
    k->n_placed++;
}

static uint64_t extent(const packing *k, uint32_t index)
{
    return k->exact ? k->blocks[index].bytes : k->blocks[index].size;
}

/* Places a block; returns its end. */
static uint64_t place(packing *k, uint32_t index)
{
    const block *b = &k->blocks[index];
    piece *pieces = &k->pieces[b->first_piece];
    uint64_t offset = 0, before;
    do {
        before = offset;
        for (uint32_t i = 0; i < b->n_pieces; i++)
            offset = lowest(k, &pieces[i], offset);
    } while (offset != before && b->n_pieces > 1);
    for (uint32_t i = 0; i < b->n_pieces; i++) {
        pieces[i].offset = offset;
        insert(k, &pieces[i]);
    }
    k->offsets[index] = offset;
    return offset + extent(k, index);
}

/* Places all in the order on trial. Returns the arena, or, as soon as a block ends above limit, a
 * number above it. */
static uint64_t place_all(packing *k, uint64_t limit)
{
    uint64_t arena = 0;
    k->n_placed = 0;
    for (uint32_t i = 0; i < k->n_blocks && arena <= limit; i++) {
        uint64_t end = place(k, k->trial[i]);
        arena = end > arena ? end : arena;
    }
    return arena;
}

static void keep(packing *k, uint64_t arena)
{
    k->arena = arena;
    memcpy(k->order, k->trial, k->n_blocks * sizeof *k->order);
    memcpy(k->best, k->offsets, k->n_blocks * sizeof *k->best);
}

/* ---- orders to begin with ---- */

typedef enum criterion { BY_LIFE, BY_AREA, BY_SIZE, BY_START, BY_END, BY_ROUNDING } criterion;

static int compare_ranks(const void *a, const void *b)
{
    const ranked *p = a, *q = b;
    if (p->key != q->key)
        return p->key > q->key ? -1 : 1;
    return p->index < q->index ? -1 : 1;
}

static double key_of(const block *b, criterion by)
{
    double life = (double)b->last - b->first + 1, size = (double)b->size;
    switch (by) {
    case BY_SIZE:
        return size;
    case BY_LIFE:
        return life;
    case BY_AREA:
        return life * size;
    case BY_START:
        return -(double)b->first;
    case BY_ROUNDING:
        return b->size == b->bytes ? life : life - INT32_MAX;
    default:
        return b->last;
    }
}

static void try_order(packing *k, criterion by)
{
    for (uint32_t i = 0; i < k->n_blocks; i++)
        k->ranks[i] = (ranked){.key = key_of(&k->blocks[i], by), .index = i};
    qsort(k->ranks, k->n_blocks, sizeof *k->ranks, compare_ranks);
    for (uint32_t i = 0; i < k->n_blocks; i++)
        k->trial[i] = k->ranks[i].index;
    uint64_t arena = place_all(k, k->arena - 1);
    if (arena < k->arena)
        keep(k, arena);
}

/* ---- the search ---- */

/* The same numbers on every machine (splitmix64). */
static uint32_t roll(packing *k, uint32_t bound)
{
    uint64_t z = (k->random += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((z ^ (z >> 31)) % bound);
}

/* Position in the order of one of the blocks that reach the top, each as likely. */
static uint32_t pick_top(packing *k)
{
    uint32_t n = 0, picked = 0;
    for (uint32_t i = 0; i < k->n_blocks; i++) {
        uint32_t b = k->order[i];
        if (k->best[b] + extent(k, b) == k->arena && roll(k, ++n) == 0)
            picked = i;
    }
    return picked;
}

/* Position of one of the blocks that live beside the one at a position; itself if there is none. */
static uint32_t pick_beside(packing *k, uint32_t position)
{
    const block *one = &k->blocks[k->order[position]];
    uint32_t n = 0, picked = position;
    for (uint32_t i = 0; i < k->n_blocks; i++) {
        const block *b = &k->blocks[k->order[i]];
        if (i != position && b->first <= one->last && one->first <= b->last && roll(k, ++n) == 0)
            picked = i;
    }
    return picked;
}

/* Takes the block at one position of the order to another. */
static void move(packing *k, uint32_t from, uint32_t to)
{
    memcpy(k->trial, k->order, k->n_blocks * sizeof *k->trial);
    if (to < from)
        memmove(&k->trial[to + 1], &k->trial[to], (from - to) * sizeof *k->trial);
    else
        memmove(&k->trial[from], &k->trial[from + 1], (to - from) * sizeof *k->trial);
    k->trial[to] = k->order[from];
}

static void improve(packing *k)
{
    uint32_t from = pick_top(k);
    if (from == 0 || roll(k, 2) == 0)
        from = pick_beside(k, from);
    bool back = from == 0 || roll(k, BACKWARD) == 0;
    move(k, from, roll(k, back ? k->n_blocks : from));
    uint64_t arena = place_all(k, k->arena);
    if (arena <= k->arena)
        keep(k, arena);
    k->work += 4 * (uint64_t)k->n_blocks;
}

/* The highest block need not be rounded up: for a short while, orders that put others there. */
static void look_below_target(packing *k, uint64_t least)
{
    uint64_t enough = k->work + WORK_BELOW_TARGET;
    k->exact = true;
    memcpy(k->trial, k->order, k->n_blocks * sizeof *k->trial);
    keep(k, place_all(k, UINT64_MAX));
    if (k->arena > least)
        try_order(k, BY_ROUNDING);
    while (k->arena > least && k->work < enough)
        improve(k);
}

/* ---- all of it ---- */

/* An item that overwrites another comes after it, and heads no block: order serves as the mark. */
static void make_blocks(packing *k, const model_lives *lives, uint64_t alignment)
{
    memset(k->order, 0, lives->n * sizeof *k->order);
    for (uint32_t i = 0; i < lives->n; i++) {
        if (lives->next[i] != NONE)
            k->order[lives->next[i]] = 1;
        if (!k->order[i])
            add_block(k, lives, i, alignment);
    }
}

remat_status model_layout_pack(const model_lives *lives, uint64_t alignment, uint64_t target,
                               uint64_t least, uint64_t arena, uint64_t work)
{
    packing k = {.arena = UINT64_MAX};
    remat_status status = allocate(&k, lives->n) ? REMAT_OK : REMAT_NO_MEMORY;
    if (!status) {
        make_blocks(&k, lives, alignment);
        for (criterion by = 0; by < BY_ROUNDING && k.arena > target && k.work < work; by++)
            try_order(&k, by);
        while (k.arena > target && k.work < work)
            improve(&k);
        if (k.arena > least)
            look_below_target(&k, least);
        for (uint32_t b = 0; b < k.n_blocks && k.arena < arena; b++)
            for (uint32_t i = k.blocks[b].head; i != NONE; i = lives->next[i])
                lives->items[i].offset = k.best[b];
    }
    release(&k);
    return status;
}
