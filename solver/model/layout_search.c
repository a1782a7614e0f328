/* Whether blocks fit within a capacity: a depth-first search, which says where it found room or
 * that it found none, and that proves nothing unless it ended within its limit.
 *
 * After MiniMalloc (Moffitt, ASPLOS 2023): every packing can be pushed down until each block stands
 * on the ground or on another one, and then be built in increasing order of (offset, place in an
 * order of blocks). So each step places a free block at the least offset that it can have, `low`,
 * not before the block placed last in that order. What cuts the search:
 *  - a section whose floor and what is still to come there pass the capacity. No free block can
 *    stand below the last one placed, nor in a section below the least low of its free blocks,
 *    which lifts floors (sections, weights);
 *  - a block is left for later only if some free block cannot fit below it: no low from `below` on,
 *    the least low + size of all;
 *  - a block that lifts no other in its place has none that could go under it: no alternatives;
 *  - where nothing free is both in a section and in the next one, what is up to there and what is
 *    behind it are problems of their own; one without a packing ends both.
 *
 * What differs: no dominance beyond these and no bound by single sections' orders (one saved 2 % of
 * the steps and took 7 times as long). A block may be a row of items of several sizes. The highest
 * block of a section is not rounded up: capacities are compared less `spare`. Limits count work,
 * blocks and sections looked at, as a step may try hundreds of places. */
#include "model/arrays.h"
#include "model/layout_pack.h"

#include <stdlib.h>
#include <string.h>

#define NONE REMAT_LAYOUT_NONE

/* What is searched alone: some members (free blocks, in no order) and the sections they are in. */
typedef struct part {
    uint32_t begin, end; /* of members */
    int64_t first, last; /* sections */
    uint64_t low;        /* of the block placed last */
    uint32_t arrives;
} part;

/* A part with its block placed last, and the runs of sections that this leaves, one after another.
 */
typedef struct level {
    part p, run;
    size_t before; /* changes, before the block */
    bool placed;
    bool lifts; /* the block does another */
} level;

typedef enum change_kind { FREE, LOW, FLOOR } change_kind;

/* What was before: a block free, its low, a section's floor. */
typedef struct change {
    uint64_t was;
    uint32_t index;
    change_kind what;
} change;

struct pack_search {
    packing *k;
    const remat_host *host;
    uint64_t capacity, work, limit, next_poll;
    uint64_t *floor, *rest;      /* by section: top of what is placed; bytes still to come */
    uint64_t *low;               /* by block: of a placed one its offset */
    uint32_t *members;           /* every block once */
    uint32_t *room;              /* to divide members in */
    uint32_t *witness;           /* by section: a free block whose low was its floor */
    uint32_t *crossing;          /* by section: free blocks that are in the next one, too */
    uint32_t *first_in, *inside; /* by section: its blocks */
    bool *placed;                /* by block */
    double *weight;   /* by block: how often of late a section that it is in overflowed */
    pack_rank *ranks; /* room to sort in */
    level *levels;    /* one more than blocks */
    change *changes;
    size_t n_changes, capacity_of_changes;
    bool failed; /* an allocation did, or the host cancelled: the search ends */
};

/* ---- changes ---- */

static void note(pack_search *s, change_kind what, uint32_t index, uint64_t was)
{
    if (!model_reserve(&s->changes, &s->capacity_of_changes, s->n_changes + 1,
                       sizeof *s->changes)) {
        s->failed = true;
        return;
    }
    s->changes[s->n_changes++] = (change){.was = was, .index = index, .what = what};
}

static void add_rest(pack_search *s, uint32_t block, bool comes)
{
    const pack_block *b = &s->k->blocks[block];
    for (uint32_t i = 0; i < b->n_spans; i++) {
        const pack_span *span = &s->k->spans[b->first_span + i];
        for (int64_t at = span->first; at <= span->last; at++)
            s->rest[at] += comes ? span->size : -span->size;
    }
    for (uint32_t at = b->first; at < b->last; at++)
        s->crossing[at] += comes ? 1U : -1U;
}

static void undo(pack_search *s, size_t back_to)
{
    while (s->n_changes > back_to) {
        const change *c = &s->changes[--s->n_changes];
        switch (c->what) {
        case FLOOR:
            s->floor[c->index] = c->was;
            break;
        case LOW:
            s->low[c->index] = c->was;
            break;
        case FREE:
            s->placed[c->index] = false;
            add_rest(s, c->index, true);
        }
    }
}

static void raise_floor(pack_search *s, int64_t section, uint64_t floor)
{
    note(s, FLOOR, (uint32_t)section, s->floor[section]);
    s->floor[section] = floor;
}

/* ---- one block placed ---- */

/* Lifts what shares a section of the span, which ends at top. */
static bool lift(pack_search *s, const part *p, const pack_span *span, uint64_t top)
{
    bool lifted = false;
    for (uint32_t i = p->begin; i < p->end; i++) {
        uint32_t other = s->members[i];
        const pack_block *b = &s->k->blocks[other];
        if (s->low[other] >= top || b->first > span->last || b->last < span->first)
            continue;
        note(s, LOW, other, s->low[other]);
        s->low[other] = top;
        lifted = true;
    }
    return lifted;
}

/* Of a part that it belongs to no more, at its low. Whether another block is lifted by it. */
static bool place(pack_search *s, const part *p, uint32_t block)
{
    const pack_block *b = &s->k->blocks[block];
    bool lifted = false;
    note(s, FREE, block, 0);
    s->placed[block] = true;
    add_rest(s, block, false);
    for (uint32_t i = 0; i < b->n_spans; i++) {
        const pack_span *span = &s->k->spans[b->first_span + i];
        uint64_t top = s->low[block] + span->size;
        for (int64_t at = span->first; at <= span->last; at++)
            raise_floor(s, at, top);
        lifted |= lift(s, p, span, top);
    }
    s->work += b->n_spans * (uint64_t)(p->end - p->begin);
    return lifted;
}

/* The least low of the free blocks of a section, unless one that was it before still is. */
static uint64_t least_low(pack_search *s, int64_t section)
{
    uint32_t witness = s->witness[section];
    if (!s->placed[witness] && s->low[witness] == s->floor[section])
        return s->floor[section];
    uint64_t least = UINT64_MAX;
    for (uint32_t i = s->first_in[section]; i < s->first_in[section + 1]; i++) {
        uint32_t block = s->inside[i];
        if (s->placed[block] || s->low[block] >= least)
            continue;
        least = s->low[block];
        s->witness[section] = block;
    }
    s->work += s->first_in[section + 1] - s->first_in[section];
    return least;
}

/* A section had no room for what was still to come there. */
static void blame(pack_search *s, int64_t section)
{
    for (uint32_t i = s->first_in[section]; i < s->first_in[section + 1]; i++)
        s->weight[s->inside[i]]++;
}

/* Floors rise to where something can stand; whether all that is to come still finds room. */
static bool has_room(pack_search *s, const part *p)
{
    for (int64_t at = p->first; at <= p->last; at++) {
        if (s->rest[at] == 0)
            continue;
        uint64_t least = least_low(s, at);
        if (least > s->floor[at])
            raise_floor(s, at, least);
        uint64_t from = least > p->low ? least : p->low;
        if (from + s->rest[at] > s->capacity + s->k->spare) {
            blame(s, at);
            return false;
        }
    }
    s->work += (uint64_t)(p->last - p->first) + 1;
    return true;
}

/* ---- the search ---- */

/* Free members up to end whose sections are up to last, brought to begin. Returns their end. */
static uint32_t divide(pack_search *s, uint32_t begin, uint32_t end, int64_t last)
{
    uint32_t middle = begin, behind = 0;
    for (uint32_t i = begin; i < end; i++) {
        uint32_t block = s->members[i];
        if (s->k->blocks[block].first <= last)
            s->members[middle++] = block;
        else
            s->room[behind++] = block;
    }
    memcpy(&s->members[middle], s->room, behind * sizeof *s->room);
    return middle;
}

/* The next run of sections that free blocks hold together; false where none are left. */
static bool next_run(pack_search *s, level *l)
{
    part *run = &l->run;
    const part *p = &l->p;
    if (run->end == p->end)
        return false;
    run->low = p->low;
    run->arrives = p->arrives;
    run->begin = run->end;
    run->first = run->last + 1;
    while (s->rest[run->first] == 0)
        run->first++;
    for (run->last = run->first; run->last < p->last && s->crossing[run->last] > 0;)
        run->last++;
    run->end = run->last < p->last ? divide(s, run->begin, p->end, run->last) : p->end;
    return true;
}

static bool comes_before(const pack_search *s, uint64_t low, uint32_t arrives, uint32_t other)
{
    return low < s->low[other] || (low == s->low[other] && arrives < s->k->blocks[other].arrives);
}

/* The next free block after the one placed last; NONE if there is none that nothing fits below. */
static uint32_t next_member(const pack_search *s, const part *p)
{
    uint64_t below = UINT64_MAX;
    uint32_t next = NONE;
    for (uint32_t i = p->begin; i < p->end; i++) {
        uint32_t block = s->members[i];
        const pack_block *b = &s->k->blocks[block];
        if (s->low[block] + b->size < below)
            below = s->low[block] + b->size;
        if (comes_before(s, p->low, p->arrives, block) &&
            (next == NONE || comes_before(s, s->low[block], b->arrives, s->members[next])))
            next = i;
    }
    return next != NONE && s->low[s->members[next]] < below ? next : NONE;
}

static bool goes_on(pack_search *s)
{
    if (s->work >= s->next_poll) {
        s->next_poll = s->work + 1000000;
        s->failed |= remat_host_cancelled(s->host);
    }
    return s->work < s->limit && !s->failed;
}

/* Places the next block of a part above which what is to come has room, in the place of the one
 * before it, without which there is no packing. False: the part has none. */
static bool place_next(pack_search *s, level *l)
{
    part *p = &l->p;
    for (;;) {
        if (l->placed) {
            undo(s, l->before);
            l->placed = false;
            if (!l->lifts)
                return false;
        }
        uint32_t at = goes_on(s) ? next_member(s, p) : NONE;
        if (at == NONE)
            return false;
        uint32_t block = s->members[at];
        const pack_block *b = &s->k->blocks[block];
        s->members[at] = s->members[p->begin];
        s->members[p->begin] = block;
        s->work += p->end - p->begin;
        p->low = s->low[block];
        p->arrives = b->arrives;
        part rest = *p;
        rest.begin++;
        l->before = s->n_changes;
        l->lifts = place(s, &rest, block);
        l->placed = true;
        l->run = (part){.end = rest.begin, .last = p->first - 1};
        if (p->low + b->bytes <= s->capacity && has_room(s, &rest))
            return true;
    }
}

/* Depth first. The levels are kept here and not on the stack, where tens of thousands of blocks
 * would overflow it. */
static bool pack_all(pack_search *s)
{
    size_t n = 1;
    s->levels[0] = (level){
        .p = {.end = s->k->n_blocks, .last = (int64_t)s->k->n_sections - 1},
        .run = {.last = -1},
    };
    while (n > 0) {
        level *top = &s->levels[n - 1];
        if (!next_run(s, top)) {
            n--; /* all of it is packed */
            continue;
        }
        s->levels[n++] = (level){.p = top->run};
        while (!place_next(s, &s->levels[n - 1]))
            if (--n == 1)
                return false;
    }
    return true;
}

/* ---- runs in turns ---- */

/* What came too late comes earlier the next time; what was learned fades. */
static void learn(pack_search *s)
{
    for (uint32_t i = 0; i < s->k->n_blocks; i++)
        s->weight[i] /= 2;
}

/* In one order, with at most so much work. Sets over where no other run would find anything more:
 * it was enough, so what was not found is not there; or the search failed. */
static bool run(pack_search *s, pack_order by, uint64_t work, uint64_t end, bool *over)
{
    packing *k = s->k;
    if (*over || s->work >= end)
        return false;
    s->limit = work < end - s->work ? s->work + work : end;
    pack_sort(k, by, s->weight, s->ranks);
    part all = {.end = k->n_blocks, .last = (int64_t)k->n_sections - 1};
    bool found = has_room(s, &all) && pack_all(s);
    *over = s->failed || s->work < s->limit;
    if (!found) {
        undo(s, 0);
        learn(s);
    }
    return found;
}

/* The learned order gets some times the work of each of the others, in runs of 1, 1, 2, 1, 1, 2, 4
 * ... dives (Luby, Sinclair, Zuckerman 1993; Knuth's way to count them): what one run takes is
 * spread so widely that neither many short ones nor few long ones do alone. */
enum { LEARNED_SHARE = 6 };

remat_status pack_fit(pack_search *s, uint64_t capacity, uint64_t *work, uint64_t *ret_offsets,
                      bool *ret_found)
{
    const packing *k = s->k;
    uint64_t dive = (uint64_t)k->n_blocks * (k->n_blocks + k->n_sections), end = s->work + *work;
    uint64_t turn = 1, dives = 1;
    bool over = false, found = false;
    s->capacity = capacity;
    for (uint64_t share = dive; !found && !over && s->work < end; share *= 2) {
        for (pack_order by = PACK_TWA; by <= PACK_SAT && !found; by++)
            found = run(s, by, share, end, &over);
        for (uint64_t rest = s->work + LEARNED_SHARE * share;
             !found && !over && s->work < rest && s->work < end;) {
            found = run(s, PACK_LEARNED, dive * dives, end, &over);
            bool longest = (turn & (0 - turn)) == dives;
            turn += longest;
            dives = longest ? 1 : 2 * dives;
        }
    }
    if (found) {
        memcpy(ret_offsets, s->low, k->n_blocks * sizeof *s->low);
        undo(s, 0);
    }
    *work = s->work < end ? end - s->work : 0;
    *ret_found = found;
    if (!s->failed)
        return REMAT_OK;
    return remat_host_cancelled(s->host) ? REMAT_CANCELLED : REMAT_NO_MEMORY;
}

static void fill_sections(pack_search *s)
{
    const packing *k = s->k;
    for (uint32_t i = 0; i < k->n_blocks; i++)
        for (uint32_t at = k->blocks[i].first; at <= k->blocks[i].last; at++) {
            s->first_in[at + 2]++;
            s->crossing[at] += at < k->blocks[i].last;
        }
    for (uint32_t at = 0; at < k->n_sections; at++)
        s->first_in[at + 2] += s->first_in[at + 1];
    for (uint32_t i = 0; i < k->n_blocks; i++) {
        s->members[i] = i;
        for (uint32_t at = k->blocks[i].first; at <= k->blocks[i].last; at++)
            s->inside[s->first_in[at + 1]++] = i;
    }
    memcpy(s->rest, k->load, k->n_sections * sizeof *s->rest);
}

remat_status pack_search_new(packing *k, const remat_host *host, pack_search **ret_search)
{
    size_t blocks = (size_t)k->n_blocks + 1, sections = (size_t)k->n_sections + 2, inside = 1;
    for (uint32_t i = 0; i < k->n_blocks; i++)
        inside += k->blocks[i].last - k->blocks[i].first + 1;
    pack_search *s = calloc(1, sizeof *s);
    if (!s)
        return REMAT_NO_MEMORY;
    *s = (pack_search){.k = k, .host = host};
    s->floor = calloc(2 * sections + blocks, sizeof *s->floor);
    s->weight = calloc(blocks, sizeof *s->weight);
    s->ranks = malloc(blocks * sizeof *s->ranks);
    s->levels = malloc(blocks * sizeof *s->levels);
    s->placed = calloc(blocks, sizeof *s->placed);
    s->members = calloc(2 * blocks + 3 * sections + 1 + inside, sizeof *s->members);
    if (!s->floor || !s->weight || !s->ranks || !s->levels || !s->placed || !s->members) {
        pack_search_free(s);
        return REMAT_NO_MEMORY;
    }
    s->rest = s->floor + sections;
    s->low = s->rest + sections;
    s->room = s->members + blocks;
    s->witness = s->room + blocks;
    s->crossing = s->witness + sections;
    s->first_in = s->crossing + sections;
    s->inside = s->first_in + sections + 1;
    fill_sections(s);
    *ret_search = s;
    return REMAT_OK;
}

void pack_search_free(pack_search *s)
{
    if (!s)
        return;
    free(s->floor);
    free(s->weight);
    free(s->ranks);
    free(s->levels);
    free(s->placed);
    free(s->members);
    free(s->changes);
    free(s);
}
