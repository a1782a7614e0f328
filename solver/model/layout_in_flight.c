/* Offsets for several micro-batches in flight: a block of what is held at the turn, to be repeated,
 * and the rest beside it. All that is held is alive at the turn at once, so the block is a stack in
 * the order of making: no packing of it is smaller, rounding and rows of in-place nodes aside. What
 * is made last is mostly gone first, so the block empties from its top; what fits where it is empty
 * is put there, largest first, and only what is left stands behind the blocks. */
#include "model/layout_pack.h"

#include <stdlib.h>
#include <string.h>

#define NONE REMAT_LAYOUT_NONE

enum { MOST_FILLED = 4000 }; /* rows; of more the block stays as it is */

/* A row as a rectangle: a place for its largest item, from its first to its last moment. */
typedef struct row {
    uint64_t size, offset;
    int32_t first, last;
    uint32_t head;
} row;

typedef struct split {
    const model_lives *lives;
    const model_goal *goal;
    bool *inside;       /* by item: in the block */
    uint32_t *place;    /* by item that is not: where it stands in rest; NONE: no head of a row */
    uint32_t *original; /* by item of rest */
    model_lives rest;
    uint64_t block, held; /* bytes of the block; of what is held alone, rounded up */
    row *filled;          /* rows in the block, by offset */
    row *others;          /* those that are not, as long as nobody has tried them */
    uint32_t n_filled, n_others;
} split;

static bool is_held(const split *s, uint32_t i)
{
    const remat_allocation *a = &s->lives->items[i];
    return a->first < (int64_t)s->goal->turn && a->last >= (int64_t)s->goal->turn;
}

static void put_inside(split *s, const row *one)
{
    for (uint32_t i = one->head; i != NONE; i = s->lives->next[i]) {
        s->inside[i] = true;
        s->lives->items[i].offset = one->offset;
    }
}

/* A row has one offset: where one of its items is held all of it stands in the block. */
static void split_row(split *s, uint32_t head)
{
    const model_lives *l = s->lives;
    const uint64_t alignment = s->goal->alignment;
    row one = {.offset = s->block, .first = l->items[head].first, .head = head};
    bool held = false;
    for (uint32_t i = head; i != NONE; i = l->next[i]) {
        const uint64_t bytes = remat_layout_align(l->items[i].bytes, alignment);
        one.size = bytes > one.size ? bytes : one.size;
        one.last = l->items[i].last;
        s->held += is_held(s, i) ? bytes : 0;
        held |= is_held(s, i);
    }
    if (!held) {
        s->others[s->n_others++] = one;
        return;
    }
    put_inside(s, &one);
    s->filled[s->n_filled++] = one;
    s->block += one.size;
}

static int by_size(const void *left, const void *right)
{
    const row *a = left, *b = right;
    if (a->size != b->size)
        return a->size > b->size ? -1 : 1;
    return a->head < b->head ? -1 : a->head > b->head;
}

/* Puts the row as low in the block as it fits, if it does. */
static void try_inside(split *s, row *one)
{
    uint32_t at = 0;
    for (uint32_t k = 0; k < s->n_filled && s->filled[k].offset < one->offset + one->size; k++) {
        const row *other = &s->filled[k];
        const bool meets = other->first <= one->last && one->first <= other->last;
        if (meets && other->offset + other->size > one->offset)
            one->offset = other->offset + other->size;
    }
    if (one->offset + one->size > s->block)
        return;
    while (at < s->n_filled && s->filled[at].offset <= one->offset)
        at++;
    memmove(s->filled + at + 1, s->filled + at, (s->n_filled++ - at) * sizeof *s->filled);
    s->filled[at] = *one;
    put_inside(s, one);
}

static void fill(split *s)
{
    if (s->n_others > 0)
        qsort(s->others, s->n_others, sizeof *s->others, by_size);
    for (uint32_t i = 0; i < s->n_others; i++) {
        s->others[i].offset = 0;
        try_inside(s, &s->others[i]);
    }
}

static void split_rows(split *s)
{
    const model_lives *l = s->lives;
    for (uint32_t i = 0; i < l->n; i++) /* for now: whether something stands before it in a row */
        if (l->next[i] != NONE)
            s->place[l->next[i]] = 0;
    for (uint32_t i = 0; i < l->n; i++)
        if (s->place[i] == NONE)
            split_row(s, i);
    if (s->n_filled + s->n_others <= MOST_FILLED)
        fill(s);
    for (uint32_t i = 0; i < l->n; i++)
        if (!s->inside[i]) {
            s->original[s->rest.n] = i;
            s->place[i] = s->rest.n++;
        }
    for (uint32_t k = 0; k < s->rest.n; k++) {
        const uint32_t i = s->original[k];
        s->rest.items[k] = l->items[i];
        s->rest.next[k] = l->next[i] == NONE ? NONE : s->place[l->next[i]];
    }
}

/* Rounded up, of all in flight. */
static remat_status find_peak(const split *s, uint64_t *ret_peak)
{
    packing k;
    remat_status status = pack_new(s->lives, s->goal->alignment, &k);
    *ret_peak = k.peak + (s->goal->in_flight - 1) * s->held;
    pack_clear(&k);
    return status;
}

static remat_status pack_rest(split *s, uint64_t *ret_arena, uint64_t *ret_peak)
{
    const uint64_t blocks = s->goal->in_flight * s->block;
    model_goal goal = *s->goal;
    uint64_t arena = 0, ignored;
    goal.capacity = goal.capacity > blocks ? goal.capacity - blocks : goal.capacity > 0;
    remat_status status = model_layout_pack(&s->rest, &goal, &arena, &ignored);
    for (uint32_t k = 0; k < s->rest.n && !status; k++)
        s->lives->items[s->original[k]].offset = blocks + s->rest.items[k].offset;
    *ret_arena = blocks + arena;
    return status || (goal.decide && goal.work == 0) ? status : find_peak(s, ret_peak);
}

remat_status model_layout_pack_in_flight(const model_lives *lives, const model_goal *goal,
                                         uint64_t *ret_held_arena, uint64_t *ret_arena,
                                         uint64_t *ret_peak)
{
    const size_t most = (size_t)lives->n + 1;
    split s = {
        .lives = lives,
        .goal = goal,
        .inside = calloc(most, sizeof *s.inside),
        .place = malloc(most * sizeof *s.place),
        .original = malloc(most * sizeof *s.original),
        .filled = malloc(most * sizeof *s.filled),
        .others = malloc(most * sizeof *s.others),
        .rest = {malloc(most * sizeof *s.rest.items), malloc(most * sizeof *s.rest.next), 0}};
    remat_status status = REMAT_NO_MEMORY;
    if (s.inside && s.place && s.original && s.filled && s.others && s.rest.items && s.rest.next) {
        memset(s.place, 0xff, most * sizeof *s.place);
        split_rows(&s);
        status = pack_rest(&s, ret_arena, ret_peak);
        *ret_held_arena = s.block;
    }
    free(s.inside);
    free(s.place);
    free(s.original);
    free(s.filled);
    free(s.others);
    free(s.rest.items);
    free(s.rest.next);
    return status;
}
