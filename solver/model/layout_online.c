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

static int compare_ends(const void *a, const void *b)
{
    const row *p = *(row *const *)a, *q = *(row *const *)b;
    if (p->last != q->last)
        return p->last < q->last ? -1 : 1;
    return p->head < q->head ? -1 : 1;
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
        *one = (row){.first = lives->items[head].first, .head = head};
        for (uint32_t i = head; i != NONE; i = lives->next[i]) {
            uint64_t bytes = lives->items[i].bytes;
            one->bytes = bytes > one->bytes ? bytes : one->bytes;
            one->last = lives->items[i].last;
        }
        one->size = remat_layout_align(one->bytes, alignment);
    }
    return n;
}

/* by_end: the same rows in the order of their ends. */
static remat_status place(row *rows, row *const *by_end, size_t n, const remat_host *host, gaps *g,
                          uint64_t *ret_arena)
{
    size_t ended = 0;
    uint64_t arena = 0;
    g->items[0] = (gap){.offset = 0, .end = UINT64_MAX};
    g->n = 1;
    for (size_t i = 0; i < n; i++) {
        if (i % ROWS_OF_POLL == ROWS_OF_POLL - 1 && remat_host_cancelled(host))
            return REMAT_CANCELLED;
        for (; by_end[ended]->last < rows[i].first; ended++)
            give_back(g, by_end[ended]->offset, by_end[ended]->offset + by_end[ended]->size);
        rows[i].offset = take(g, rows[i].size);
        uint64_t end = rows[i].offset + rows[i].bytes;
        arena = end > arena ? end : arena;
    }
    *ret_arena = arena;
    return REMAT_OK;
}

remat_status model_layout_pack_online(const model_lives *lives, uint64_t alignment,
                                      const remat_host *host, uint64_t *ret_arena)
{
    size_t most = (size_t)lives->n + 1;
    bool *follows = calloc(most, sizeof *follows);
    row *rows = malloc(most * sizeof *rows), **by_end = malloc(most * sizeof *by_end);
    gaps g = {.items = malloc((most + 1) * sizeof *g.items)};
    remat_status status = follows && rows && by_end && g.items ? REMAT_OK : REMAT_NO_MEMORY;
    if (!status) {
        size_t n = find_rows(lives, alignment, follows, rows);
        for (size_t i = 0; i < n; i++)
            by_end[i] = &rows[i];
        qsort(by_end, n, sizeof *by_end, compare_ends);
        status = place(rows, by_end, n, host, &g, ret_arena);
        for (size_t i = 0; i < n && !status; i++)
            for (uint32_t item = rows[i].head; item != NONE; item = lives->next[item])
                lives->items[item].offset = rows[i].offset;
    }
    free(follows);
    free(rows);
    free(by_end);
    free(g.items);
    return status;
}
