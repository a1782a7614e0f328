/* Offsets to begin with: first fit in order of time over a list of gaps, as an allocator would
 * while the step runs. Almost linear, where placing in other orders is quadratic; optimal where all
 * sizes are equal (greedy colouring of intervals in order of their start). */
#include "model/arrays.h"
#include "model/layout.h"

#include <stdlib.h>
#include <string.h>

#define NONE REMAT_LAYOUT_NONE

enum { ROWS_OF_POLL = 1024 }; /* each may walk past all gaps */

/* A row of items that have one offset, taken as one of the largest size for all their lives. */
typedef struct row {
    uint64_t size, bytes, offset; /* size: bytes, rounded up */
    int32_t first, last;
    uint32_t head;
    uint32_t ended;   /* the first of those that have ended once this one begins */
    uint32_t sibling; /* the next of those that end with it */
} row;

typedef struct gap {
    uint64_t offset, end;
} gap;

/* Gaps in the order of their offsets, none beside another; the last has no end. */
typedef struct gaps {
    gap *items;
    size_t n;
} gaps;

static uint64_t take(gaps *g, uint64_t size)
{
    size_t i = 0;
    while (g->items[i].end - g->items[i].offset < size)
        i++;
    gap *one = &g->items[i];
    uint64_t offset = one->offset;
    one->offset += size;
    if (one->offset == one->end) {
        g->n--;
        memmove(one, one + 1, (g->n - i) * sizeof *one);
    }
    return offset;
}

static void give_back(gaps *g, uint64_t offset, uint64_t end)
{
    size_t behind = model_count_below(g->items, g->n, sizeof(gap), offsetof(gap, offset), offset);
    gap *after = &g->items[behind]; /* there is one */
    bool joins_before = behind > 0 && after[-1].end == offset, joins_after = after->offset == end;
    if (joins_before && joins_after) {
        after[-1].end = after->end;
        g->n--;
        memmove(after, after + 1, (g->n - behind) * sizeof *after);
    } else if (joins_before) {
        after[-1].end = end;
    } else if (joins_after) {
        after->offset = offset;
    } else {
        memmove(after + 1, after, (g->n - behind) * sizeof *after);
        *after = (gap){.offset = offset, .end = end};
        g->n++;
    }
}

/* In the order in which they are made, as the items are. Marks items that head none in follows. */
static size_t find_rows(const model_lives *lives, uint64_t alignment, bool *follows, row *rows)
{
    size_t n = 0;
    for (uint32_t head = 0; head < lives->n; head++) {
        if (lives->next[head] != NONE)
            follows[lives->next[head]] = true;
        if (follows[head])
            continue;
        row *one = &rows[n++];
        *one = (row){.first = lives->items[head].first, .head = head, .ended = NONE};
        for (uint32_t i = head; i != NONE; i = lives->next[i]) {
            uint64_t bytes = lives->items[i].bytes;
            one->bytes = bytes > one->bytes ? bytes : one->bytes;
            one->last = lives->items[i].last;
        }
        one->size = remat_layout_align(one->bytes, alignment);
    }
    return n;
}

/* Each is handed to the first row that begins after its end. */
static void find_ends(row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t low = i + 1, high = n;
        while (low < high) {
            size_t middle = low + (high - low) / 2;
            if (rows[middle].first <= rows[i].last)
                low = middle + 1;
            else
                high = middle;
        }
        if (low == n)
            continue;
        rows[i].sibling = rows[low].ended;
        rows[low].ended = (uint32_t)i;
    }
}

/* Ends early once an arena is too large. */
static remat_status place(row *rows, size_t n, uint64_t most, const remat_host *host, gaps *g,
                          uint64_t *ret_arena)
{
    uint64_t arena = 0;
    g->items[0] = (gap){.offset = 0, .end = UINT64_MAX};
    g->n = 1;
    for (size_t i = 0; i < n && arena <= most; i++) {
        if (i % ROWS_OF_POLL == ROWS_OF_POLL - 1 && remat_host_cancelled(host))
            return REMAT_CANCELLED;
        for (uint32_t e = rows[i].ended; e != NONE; e = rows[e].sibling)
            give_back(g, rows[e].offset, rows[e].offset + rows[e].size);
        rows[i].offset = take(g, rows[i].size);
        uint64_t end = rows[i].offset + rows[i].bytes;
        arena = end > arena ? end : arena;
    }
    *ret_arena = arena;
    return REMAT_OK;
}

remat_status model_layout_pack_online(const model_lives *lives, uint64_t alignment, uint64_t most,
                                      const remat_host *host, uint64_t *ret_arena)
{
    size_t room = (size_t)lives->n + 1;
    bool *follows = calloc(room, sizeof *follows);
    row *rows = malloc(room * sizeof *rows);
    gaps g = {.items = malloc((room + 1) * sizeof *g.items)};
    remat_status status = follows && rows && g.items ? REMAT_OK : REMAT_NO_MEMORY;
    if (!status) {
        size_t n = find_rows(lives, alignment, follows, rows);
        find_ends(rows, n);
        status = place(rows, n, most, host, &g, ret_arena);
        for (size_t i = 0; i < n && !status && *ret_arena <= most; i++)
            for (uint32_t item = rows[i].head; item != NONE; item = lives->next[item])
                lives->items[item].offset = rows[i].offset;
    }
    free(follows);
    free(rows);
    free(g.items);
    return status;
}
