/* Whether blocks fit within a capacity, the other way: every block gets a place at once, and what
 * is in its way loses its own and waits for another (ejection chains; the weights of Nagata and
 * Braysy 2009).
 *
 * The block that lost its place last is next. Of the ends of its neighbours' places, the ground and
 * the top, it takes one where what it ejects weighs least: nothing, if it can be. A block that had
 * to eject weighs more from then on, so that what is hard to place stays and what is easy moves.
 * Weights are blurred by chance, halve now and then, and begin anew with every run. It knows no
 * "there is none", and is at its best where the depth-first search is at its worst: some hundred
 * blocks of which a few moments are full to a thousandth and all others are not. */
#include "model/layout_pack.h"
#include "model/numbers.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_PAIRS = 2000000,
    WEIGHT = 64,  /* of a block that never had to eject */
    FADES = 4096, /* steps until weights halve */
    BUCKETS = 512,
    STEPS_OF_RUN = 128, /* for each block */
    WORK_OF_STEP = 25,
    WORK_OF_NEIGHBOUR = 3
};

/* After one step for each block, and after three. Of lists of 800 to 2,800 blocks, 22 that it
 * placed had fewer than half left over by the latter, and of 223 that it did not place a handful
 * had; one was placed with four fifths left over. Of 19 others that it placed none had more than
 * 0.63 left over by the former, and of 243 that it did not place 100 had more than 0.7. */
#define MOST_WAITING_EARLY 0.7
#define MOST_WAITING_LATE 0.6

#define NO_PLACE UINT64_MAX

/* Another block that shares a section, and the largest sizes of both in such sections. */
typedef struct neighbour {
    uint32_t block;
    uint64_t below, above; /* of the block itself; of the other */
} neighbour;

/* Sections of a block, and its size if it is the same in all of them; else 0. */
typedef struct extent {
    uint32_t first, last;
    uint64_t size;
} extent;

typedef struct limit {
    uint64_t key; /* twice the offset, and one more where something begins to be in the way */
    uint64_t weight;
} limit;

typedef struct ejection {
    packing *k;
    uint64_t capacity, alignment, random;
    size_t *first; /* by block: of its neighbours */
    neighbour *neighbours;
    size_t n_pairs; /* of blocks that share a section, each twice, and a block with itself */
    extent *extents;
    uint64_t *offsets, *weight; /* by block; NO_PLACE while it waits */
    uint32_t *waiting;          /* a stack */
    uint32_t n_waiting;
    limit *unsorted, *limits; /* of what is in a block's way; in order */
    uint32_t n_limits, shift; /* of a key, to its bucket */
    pack_rank *ranks;
} ejection;

/* ---- who is in whose way ---- */

static bool meet(const packing *k, const pack_block *a, const pack_block *b, neighbour *n)
{
    n->below = n->above = 0;
    for (uint32_t i = a->first_span; i < a->first_span + a->n_spans; i++)
        for (uint32_t j = b->first_span; j < b->first_span + b->n_spans; j++) {
            const pack_span *s = &k->spans[i], *t = &k->spans[j];
            if (s->first > t->last || t->first > s->last)
                continue;
            n->below = s->size > n->below ? s->size : n->below;
            n->above = t->size > n->above ? t->size : n->above;
        }
    return n->below > 0 && n->above > 0;
}

/* Blocks up to end whose sections meet its own, itself among them, into waiting, which nothing does
 * yet. Returns how many. */
static uint32_t find_near(ejection *e, uint32_t block, uint32_t end)
{
    const extent own = e->extents[block];
    uint32_t n = 0;
    for (uint32_t i = 0; i < end; i++) {
        e->waiting[n] = i;
        n += (e->extents[i].first <= own.last) & (e->extents[i].last >= own.first);
    }
    return n;
}

/* None where they are too many. Blocks stand in the order in which they begin. begun, ended: by
 * section, how many begin up to it and how many end before it. */
static remat_status find_neighbours(ejection *e, uint32_t *begun, uint32_t *ended)
{
    const packing *k = e->k;
    for (uint32_t i = 0; i < k->n_blocks; i++) {
        const pack_block *b = &k->blocks[i];
        e->extents[i] =
            (extent){b->first, b->last, b->n_spans == 1 ? k->spans[b->first_span].size : 0};
        begun[b->first]++;
        ended[b->last + 1]++;
    }
    for (uint32_t at = 1; at < k->n_sections; at++) {
        begun[at] += begun[at - 1];
        ended[at] += ended[at - 1];
    }
    for (uint32_t i = 0; i < k->n_blocks; i++)
        e->n_pairs += begun[k->blocks[i].last] - ended[k->blocks[i].first];
    if (e->n_pairs > MOST_PAIRS)
        return REMAT_OK;
    e->neighbours = malloc(e->n_pairs * sizeof *e->neighbours);
    if (!e->neighbours)
        return REMAT_NO_MEMORY;
    size_t n = 0;
    for (uint32_t a = 0; a < k->n_blocks; a++) {
        const uint32_t near = find_near(e, a, begun[k->blocks[a].last]);
        e->first[a] = n;
        for (uint32_t i = 0; i < near; i++) {
            const uint32_t other = e->waiting[i];
            neighbour one = {other, e->extents[a].size, e->extents[other].size};
            const bool known = one.below > 0 && one.above > 0;
            if (other != a && (known || meet(k, &k->blocks[a], &k->blocks[other], &one)))
                e->neighbours[n++] = one;
        }
    }
    e->first[k->n_blocks] = n;
    return REMAT_OK;
}

/* ---- a step ---- */

static uint32_t bucket_of(const ejection *e, uint64_t key)
{
    return (uint32_t)(key >> e->shift);
}

/* By key: into buckets of it, after which none is far from its place. */
static void sort(ejection *e)
{
    limit *limits = e->limits;
    uint32_t begins[BUCKETS + 1] = {0};
    for (uint32_t i = 0; i < e->n_limits; i++)
        begins[bucket_of(e, e->unsorted[i].key) + 1]++;
    for (uint32_t i = 1; i < BUCKETS; i++)
        begins[i] += begins[i - 1];
    for (uint32_t i = 0; i < e->n_limits; i++)
        limits[begins[bucket_of(e, e->unsorted[i].key)]++] = e->unsorted[i];
    for (uint32_t i = 1; i < e->n_limits; i++) {
        const limit one = limits[i];
        uint32_t to = i;
        for (; to > 0 && limits[to - 1].key > one.key; to--)
            limits[to] = limits[to - 1];
        limits[to] = one;
    }
}

/* What is in the block's way up to an offset of top. Returns the weight of it at offset 0. */
static uint64_t gather(ejection *e, uint32_t block, uint64_t top)
{
    uint64_t ground = 0;
    uint32_t n = 0;
    for (size_t i = e->first[block]; i < e->first[block + 1]; i++) {
        const neighbour *other = &e->neighbours[i];
        const uint64_t offset = e->offsets[other->block];
        if (offset >= top + other->below) /* as that of one without a place is */
            continue;
        const uint64_t weight =
            e->weight[other->block] * (45 + model_random_below(&e->random, 39)) / 64;
        const bool stands = offset < other->below, ends = offset + other->above <= top;
        ground += stands ? weight : 0;
        e->unsorted[n] = (limit){2 * (offset - other->below) + 1, weight};
        n += !stands;
        e->unsorted[n] = (limit){2 * (offset + other->above), weight};
        n += ends;
    }
    e->n_limits = n;
    sort(e);
    return ground;
}

typedef struct choice {
    uint64_t at, weight;
    uint32_t as_good;
} choice;

static void weigh(ejection *e, choice *best, uint64_t at, uint64_t weight)
{
    if (weight > best->weight)
        return;
    best->as_good = weight < best->weight ? 1 : best->as_good + 1;
    if (best->as_good == 1 || model_random_below(&e->random, best->as_good) == 0)
        best->at = at;
    best->weight = weight;
}

/* The offset from 0 to top at which what is in the way weighs least: of the ends of all that, once
 * each, after what ends there and before what begins. */
static choice choose(ejection *e, uint64_t ground, uint64_t top)
{
    choice best = {.weight = UINT64_MAX};
    const limit *limits = e->limits, *end = limits + e->n_limits;
    uint64_t weight = ground, last = 0;
    weigh(e, &best, 0, weight);
    for (const limit *l = limits; l < end; l++) {
        const bool begins = l->key & 1;
        const uint64_t at = l->key / 2, here = weight - (begins ? 0 : l->weight);
        const bool seen = begins ? at == last : l + 1 < end && l[1].key == l->key;
        weight = begins ? weight + l->weight : here;
        if (here <= best.weight && !seen)
            weigh(e, &best, at, here);
        last = at;
    }
    if (last < top)
        weigh(e, &best, top, weight);
    return best;
}

/* Gives the block that waits on top a place. */
static uint64_t step(ejection *e)
{
    const uint32_t block = e->waiting[--e->n_waiting];
    const uint64_t top = (e->capacity - e->k->blocks[block].bytes) / e->alignment * e->alignment;
    const uint64_t ground = gather(e, block, top);
    const choice best = choose(e, ground, top);
    e->offsets[block] = best.at;
    for (size_t i = e->first[block]; i < e->first[block + 1] && best.weight > 0; i++) {
        const neighbour *n = &e->neighbours[i];
        const uint64_t other = e->offsets[n->block];
        if (best.at + n->below <= other || other + n->above <= best.at)
            continue;
        e->offsets[n->block] = NO_PLACE;
        e->waiting[e->n_waiting++] = n->block;
    }
    e->weight[block] += best.weight > 0 ? WEIGHT : 0;
    return WORK_OF_STEP + WORK_OF_NEIGHBOUR * (uint64_t)(e->first[block + 1] - e->first[block]);
}

/* ---- runs ---- */

static void begin_run(ejection *e)
{
    const uint32_t n = e->k->n_blocks;
    for (uint32_t i = 0; i < n; i++) {
        e->offsets[i] = NO_PLACE;
        e->weight[i] = WEIGHT;
        e->waiting[n - e->k->blocks[i].arrives] = i;
    }
    e->n_waiting = n;
}

static void fade(ejection *e)
{
    for (uint32_t i = 0; i < e->k->n_blocks; i++)
        e->weight[i] = WEIGHT + (e->weight[i] - WEIGHT) / 2;
}

/* Whether the fewest blocks that waited so far say that a run over many places no more. */
static bool is_vain(uint32_t n, uint64_t steps, uint32_t least)
{
    const uint64_t early = n, late = 3 * early;
    return n > PACK_MANY && ((steps == early && least > MOST_WAITING_EARLY * n) ||
                             (steps == late && least > MOST_WAITING_LATE * n));
}

static remat_status run(ejection *e, const remat_host *host, uint64_t *work)
{
    const uint32_t n = e->k->n_blocks;
    const uint64_t steps = STEPS_OF_RUN * (uint64_t)n;
    uint32_t least = n;
    begin_run(e);
    for (uint64_t i = 1; i <= steps && e->n_waiting > 0 && *work > 0; i++) {
        const uint64_t done = step(e);
        *work -= done < *work ? done : *work;
        least = e->n_waiting < least ? e->n_waiting : least;
        if (is_vain(n, i, least))
            *work = 0;
        if (i % FADES > 0)
            continue;
        fade(e);
        if (remat_host_cancelled(host))
            return REMAT_CANCELLED;
    }
    return REMAT_OK;
}

static bool allocate(ejection *e)
{
    const size_t n = (size_t)e->k->n_blocks + 1;
    e->first = malloc(n * sizeof *e->first);
    e->offsets = calloc(2 * n, sizeof *e->offsets);
    e->waiting = malloc(n * sizeof *e->waiting);
    e->unsorted = malloc(4 * n * sizeof *e->unsorted);
    e->ranks = malloc(n * sizeof *e->ranks);
    e->extents = malloc(n * sizeof *e->extents);
    if (!e->first || !e->offsets || !e->waiting || !e->unsorted || !e->ranks || !e->extents)
        return false;
    e->weight = e->offsets + n;
    e->limits = e->unsorted + 2 * n;
    return true;
}

static void clear(ejection *e)
{
    free(e->first);
    free(e->neighbours);
    free(e->offsets);
    free(e->waiting);
    free(e->unsorted);
    free(e->ranks);
    free(e->extents);
}

remat_status pack_eject(packing *k, uint64_t alignment, uint64_t capacity, const remat_host *host,
                        uint64_t work, uint64_t *ret_offsets, bool *ret_found)
{
    ejection e = {.k = k,
                  .capacity = capacity,
                  .alignment = alignment,
                  .random = UINT64_C(0x9E3779B97F4A7C15)};
    while ((2 * capacity + 1) >> e.shift >= BUCKETS)
        e.shift++;
    *ret_found = false;
    uint32_t *ends = calloc(2 * ((size_t)k->n_sections + 1), sizeof *ends);
    remat_status status = ends && allocate(&e) ? find_neighbours(&e, ends, ends + k->n_sections + 1)
                                               : REMAT_NO_MEMORY;
    free(ends);
    if (!status)
        pack_sort(k, PACK_TWA, NULL, e.ranks);
    while (!status && e.n_pairs <= MOST_PAIRS && !*ret_found && work > 0) {
        status = run(&e, host, &work);
        *ret_found = !status && e.n_waiting == 0;
    }
    if (*ret_found)
        memcpy(ret_offsets, e.offsets, k->n_blocks * sizeof *e.offsets);
    clear(&e);
    return status;
}
