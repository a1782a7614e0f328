/* From items to blocks and sections, and blocks in order. */
#include "model/layout_pack.h"

#include <stdlib.h>
#include <string.h>

#define NONE REMAT_LAYOUT_NONE

void pack_clear(packing *k)
{
    free(k->blocks);
    free(k->spans);
    free(k->moments);
    free(k->load);
    *k = (packing){0};
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- blocks, their spans in time ---- */

/* An item and the one that it overwrites are both there at one moment: it belongs to the larger. */
static void add_span(packing *k, pack_block *b, pack_span next)
{
    pack_span *before = b->n_spans > 0 ? &k->spans[k->n_spans - 1] : NULL;
    if (before && before->last >= next.first && before->size >= next.size)
        next.first = before->last + 1;
    else if (before && before->last >= next.first)
        before->last = next.first - 1;
    if (before && before->first > before->last) {
        *before = next;
    } else if (next.first <= next.last) {
        k->spans[k->n_spans++] = next;
        b->n_spans++;
    }
}

static void add_block(packing *k, const model_lives *lives, uint32_t head, uint64_t alignment)
{
    pack_block *b = &k->blocks[k->n_blocks++];
    *b = (pack_block){.head = head, .first_span = k->n_spans};
    for (uint32_t i = head; i != NONE; i = lives->next[i]) {
        const remat_allocation *item = &lives->items[i];
        uint64_t size = remat_layout_align(item->bytes, alignment);
        b->size = larger(b->size, size);
        b->bytes = larger(b->bytes, item->bytes);
        add_span(k, b, (pack_span){.size = size, .first = item->first, .last = item->last});
    }
    for (uint32_t i = 0; i < b->n_spans; i++) {
        const pack_span *s = &k->spans[b->first_span + i];
        b->length += (double)(s->last - s->first + 1);
        b->area += (double)s->size * (double)(s->last - s->first + 1);
    }
}

/* ---- sections ---- */

static int compare_moments(const void *a, const void *b)
{
    int64_t p = *(const int64_t *)a, q = *(const int64_t *)b;
    return (p > q) - (p < q);
}

/* Each section is a last moment of something that follows upon something's first: more is alive
 * then than at any moment since the section before. */
static bool find_moments(packing *k)
{
    size_t n = k->n_spans;
    int64_t *births = malloc((2 * n + 1) * sizeof *births), *deaths = births ? births + n : NULL;
    for (size_t i = 0; i < n && births; i++) {
        births[i] = k->spans[i].first;
        deaths[i] = k->spans[i].last;
    }
    if (births) {
        qsort(births, n, sizeof *births, compare_moments);
        qsort(deaths, n, sizeof *deaths, compare_moments);
    }
    for (size_t i = 0, death = 0; i < n && births; k->moments[k->n_sections++] = deaths[death]) {
        while (deaths[death] < births[i])
            death++;
        while (i < n && births[i] <= deaths[death])
            i++;
    }
    free(births);
    return births;
}

/* How many sections come before a moment. */
static int64_t sections_before(const packing *k, int64_t moment)
{
    int64_t low = 0, high = k->n_sections;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (k->moments[middle] < moment)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void place_in_sections(packing *k, pack_block *b)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < b->n_spans; i++) {
        pack_span s = k->spans[b->first_span + i];
        s.first = sections_before(k, s.first);
        s.last = sections_before(k, s.last + 1) - 1;
        k->load[s.first] += s.size;
        k->load[s.last + 1] -= s.size;
        b->volume += (double)s.size * (double)(s.last - s.first + 1);
        if (s.first <= s.last)
            k->spans[b->first_span + kept++] = s;
    }
    b->n_spans = kept;
    b->first = (uint32_t)k->spans[b->first_span].first;
    b->last = (uint32_t)k->spans[b->first_span + kept - 1].last;
}

/* A binary tree of maxima; leaves behind the inner nodes. */
static uint64_t fullest(const uint64_t *tree, uint32_t leaves, uint32_t first, uint32_t last)
{
    uint64_t most = 0;
    for (uint32_t i = first + leaves, end = last + leaves + 1; i < end; i /= 2, end /= 2) {
        if (i & 1)
            most = larger(most, tree[i++]);
        if (end & 1)
            most = larger(most, tree[--end]);
    }
    return most;
}

/* What starts and ends in each section is the difference of its load. tree: room for two numbers a
 * section. */
static void find_loads(packing *k, uint64_t *tree)
{
    for (uint32_t i = 0; i < k->n_blocks; i++) {
        place_in_sections(k, &k->blocks[i]);
        k->spare = larger(k->spare, k->blocks[i].size - k->blocks[i].bytes);
    }
    for (uint32_t at = 0; at < k->n_sections; at++) {
        k->load[at] += at > 0 ? k->load[at - 1] : 0;
        tree[k->n_sections + at] = k->load[at];
        k->peak = larger(k->peak, k->load[at]);
    }
    for (uint32_t i = k->n_sections; i-- > 1;)
        tree[i] = larger(tree[2 * i], tree[2 * i + 1]);
    for (uint32_t i = 0; i < k->n_blocks; i++)
        k->blocks[i].load =
            (double)fullest(tree, k->n_sections, k->blocks[i].first, k->blocks[i].last);
}

remat_status pack_new(const model_lives *lives, uint64_t alignment, packing *k)
{
    size_t most = (size_t)lives->n + 1;
    *k = (packing){.blocks = malloc(most * sizeof *k->blocks),
                   .spans = malloc(most * sizeof *k->spans),
                   .moments = malloc(most * sizeof *k->moments),
                   .load = calloc(most + 1, sizeof *k->load)};
    bool *follows = calloc(most, sizeof *follows);
    bool enough = k->blocks && k->spans && k->moments && k->load && follows;
    for (uint32_t i = 0; i < lives->n && enough; i++) {
        if (lives->next[i] != NONE)
            follows[lives->next[i]] = true;
        if (!follows[i])
            add_block(k, lives, i, alignment);
    }
    enough = enough && find_moments(k);
    uint64_t *tree = enough ? malloc((2 * (size_t)k->n_sections + 1) * sizeof *tree) : NULL;
    if (tree)
        find_loads(k, tree);
    free(tree);
    free(follows);
    enough = enough && tree;
    return enough ? REMAT_OK : REMAT_NO_MEMORY;
}

uint64_t pack_least(const packing *k)
{
    uint32_t at = 0;
    uint64_t spare = 0;
    while (at + 1 < k->n_sections && k->load[at] < k->peak)
        at++;
    for (uint32_t i = 0; i < k->n_blocks; i++) {
        const pack_block *b = &k->blocks[i];
        if (b->first <= at && at <= b->last)
            spare = larger(spare, b->size - b->bytes);
    }
    return k->peak - spare;
}

/* ---- orders ---- */

static int compare_ranks(const void *a, const void *b)
{
    const pack_rank *p = a, *q = b;
    for (int i = 0; i < 4; i++)
        if (p->keys[i] != q->keys[i])
            return p->keys[i] > q->keys[i] ? -1 : 1;
    return p->block < q->block ? -1 : 1;
}

static pack_rank rank_of(const pack_block *b, uint32_t index, pack_order by, double learned)
{
    switch (by) {
    case PACK_A:
        return (pack_rank){{b->area, b->length}, index};
    case PACK_TWA:
        return (pack_rank){{b->load, b->length, b->area}, index};
    case PACK_TAW:
        return (pack_rank){{b->load, b->area, b->length}, index};
    case PACK_SAT:
        return (pack_rank){{b->volume, b->area, b->load}, index};
    default:
        return (pack_rank){{learned, b->volume, b->area, b->load}, index};
    }
}

void pack_sort(packing *k, pack_order by, const double *learned, pack_rank *room)
{
    for (uint32_t i = 0; i < k->n_blocks; i++)
        room[i] = rank_of(&k->blocks[i], i, by, learned ? learned[i] : 0);
    qsort(room, k->n_blocks, sizeof *room, compare_ranks);
    for (uint32_t i = 0; i < k->n_blocks; i++)
        k->blocks[room[i].block].arrives = i + 1;
}
