/* Offsets: dynamic storage allocation, by ever dearer means until the arena is small enough.
 *
 * First fit in order of time (layout_online.c); one pass in each of three orders (layout_dive.c);
 * then, of what is not too large, a search for a packing within a capacity (layout_search.c): the
 * one asked for, where a second one follows (layout_eject.c), which of many blocks goes first and
 * mostly alone, or ever smaller ones, from the lower bound halfway up to what was found. */
#include "model/layout_pack.h"
#include "model/numbers.h"

#include <stdlib.h>

#define NONE REMAT_LAYOUT_NONE

/* Past so many, and so many pairs of a block and a section, a dive is all. */
enum { MOST_BLOCKS = 5000, MOST_INSIDE = 4000000, FEW_BLOCKS = 400 };

#define WORK_BELOW_PEAK UINT64_C(1000000) /* where only a fortunate choice of the highest helps */
#define WORK_OF_MANY (REMAT_LAYOUT_WORK / 16) /* of many blocks, where there are many lists */

typedef struct attempt {
    packing k;
    pack_search *search; /* NULL: not begun, or too large for it */
    uint64_t *offsets, *best;
    uint64_t arena; /* of the best ones */
    uint64_t work;  /* what is left of it */
    bool better;    /* than what there was */
    const remat_host *host;
} attempt;

/* The offsets that were just found. */
static void keep_better(attempt *a, uint64_t arena)
{
    if (arena >= a->arena)
        return;
    uint64_t *old = a->best;
    a->best = a->offsets;
    a->offsets = old;
    a->arena = arena;
    a->better = true;
}

/* In each order until enough is reached; of a list in passing in the first alone. */
static remat_status dive(attempt *a, uint64_t enough, const model_goal *goal)
{
    static const pack_order orders[] = {PACK_A, PACK_TWA, PACK_SAT};
    pack_rank *room = malloc(((size_t)a->k.n_blocks + 1) * sizeof *room);
    remat_status status = room ? REMAT_OK : REMAT_NO_MEMORY;
    const size_t dives = goal->decide && goal->work == 0 ? 1 : 3;
    for (size_t i = 0; i < dives && !status && a->arena > enough; i++) {
        uint64_t arena = 0;
        pack_sort(&a->k, orders[i], NULL, room);
        status = pack_dive(&a->k, a->host, a->offsets, &arena);
        if (!status)
            keep_better(a, arena);
    }
    free(room);
    return status;
}

/* ---- searching ---- */

static bool is_searched(const packing *k)
{
    uint64_t inside = 0;
    for (uint32_t i = 0; i < k->n_blocks; i++)
        inside += k->blocks[i].last - k->blocks[i].first + 1;
    return k->n_blocks <= MOST_BLOCKS && inside <= MOST_INSIDE;
}

static uint64_t end_of(const packing *k, const uint64_t *offsets)
{
    uint64_t arena = 0;
    for (uint32_t i = 0; i < k->n_blocks; i++) {
        uint64_t end = offsets[i] + k->blocks[i].bytes;
        arena = end > arena ? end : arena;
    }
    return arena;
}

/* One pass takes nine tenths of this; work that does not suffice for half of it is left undone. */
static remat_status fit(attempt *a, uint64_t capacity, uint64_t work, bool *ret_found)
{
    const uint64_t n = a->k.n_blocks, pass = n * (n + a->k.n_sections);
    uint64_t given = work < a->work ? work : a->work, left = given;
    *ret_found = false;
    if (pass / 2 > given) {
        a->work -= given;
        return REMAT_OK;
    }
    remat_status status = a->search ? REMAT_OK : pack_search_new(&a->k, a->host, &a->search);
    if (!status)
        status = pack_fit(a->search, capacity, &left, a->offsets, ret_found);
    a->work -= given - left;
    if (!status && *ret_found)
        keep_better(a, end_of(&a->k, a->offsets));
    return status;
}

static bool is_brief(const attempt *a, const model_goal *goal)
{
    return goal->one_of_many && a->k.n_blocks > PACK_MANY;
}

static remat_status eject(attempt *a, const model_goal *goal, bool *ret_found)
{
    const uint64_t most = is_brief(a, goal) ? WORK_OF_MANY : UINT64_MAX;
    const remat_status status = pack_eject(&a->k, goal->alignment, goal->capacity, a->host,
                                           model_smaller(goal->work, most), a->offsets, ret_found);
    if (!status && *ret_found)
        keep_better(a, end_of(&a->k, a->offsets));
    return status;
}

/* Within the capacity asked for, by each of the two searches, of which neither finds all that the
 * other does. */
static remat_status fit_either_way(attempt *a, const model_goal *goal, bool *ret_found)
{
    const bool many = a->k.n_blocks > PACK_MANY;
    a->work = goal->work;
    remat_status status = many ? eject(a, goal, ret_found) : REMAT_OK;
    if (!status && !*ret_found && !(many && (goal->decide || goal->one_of_many)))
        status = fit(a, goal->capacity, goal->work, ret_found);
    if (status || *ret_found || many || a->work > 0)
        return status; /* one that ended before its time knows that there is none */
    return eject(a, goal, ret_found);
}

/* As small an arena as the work allows, but none below enough is looked for: first the peak, then
 * halfway from where nothing was found to what is known. */
static remat_status shrink(attempt *a, uint64_t enough)
{
    uint64_t none = a->k.peak, share = a->work / 8;
    bool found = false;
    remat_status status = REMAT_OK;
    if (a->arena > none)
        status = fit(a, none, 3 * share, &found);
    while (!status && a->arena - 1 > none && a->arena > enough && a->work > 0 &&
           a->arena - none > a->arena >> 14) {
        uint64_t next = none + (a->arena - none) / 2;
        status = fit(a, next, share, &found);
        none = found ? none : next;
    }
    if (!status && a->arena <= a->k.peak && a->arena > enough)
        status = fit(a, enough, WORK_BELOW_PEAK, &found);
    return status;
}

static remat_status pack(attempt *a, const model_goal *goal)
{
    uint64_t least = pack_least(&a->k), enough = goal->capacity > least ? goal->capacity : least;
    bool found = false;
    remat_status status = a->arena > enough ? dive(a, enough, goal) : REMAT_OK;
    if (status || a->arena <= enough || goal->work == 0 || !is_searched(&a->k))
        return status;
    /* what fills its peak, rounded, is within less by chance only */
    if (goal->capacity >= least && !(is_brief(a, goal) && a->arena <= a->k.peak))
        status = fit_either_way(a, goal, &found);
    /* a smaller arena that is still too large is of use only where no other list will do */
    if (status || found || goal->decide || is_brief(a, goal))
        return status;
    a->work = goal->work;
    return shrink(a, enough);
}

static uint32_t count_blocks(const model_lives *lives)
{
    uint32_t n = lives->n;
    for (uint32_t i = 0; i < lives->n; i++)
        n -= lives->next[i] != NONE;
    return n;
}

/* Of a list in passing, which gets no work, only a small one is worth a dive. */
static bool is_dived(const model_lives *lives, const model_goal *goal)
{
    return !goal->decide || goal->work > 0 || count_blocks(lives) <= FEW_BLOCKS;
}

remat_status model_layout_pack(const model_lives *lives, const model_goal *goal,
                               uint64_t *ret_arena, uint64_t *ret_peak)
{
    attempt a = {.host = goal->host};
    const bool dived = is_dived(lives, goal);
    remat_status status = model_layout_pack_online(
        lives, goal->alignment, dived ? UINT64_MAX : goal->capacity, goal->host, &a.arena);
    *ret_arena = a.arena;
    if (status || !dived || (goal->decide && goal->work == 0 && a.arena <= goal->capacity))
        return status;
    status = pack_new(lives, goal->alignment, &a.k);
    size_t most = (size_t)a.k.n_blocks + 1;
    a.offsets = status ? NULL : malloc(most * sizeof *a.offsets);
    a.best = status ? NULL : malloc(most * sizeof *a.best);
    if (!a.offsets || !a.best)
        status = REMAT_NO_MEMORY;
    if (!status)
        status = pack(&a, goal);
    for (uint32_t b = 0; b < a.k.n_blocks && a.better && !status; b++)
        for (uint32_t i = a.k.blocks[b].head; i != NONE; i = lives->next[i])
            lives->items[i].offset = a.best[b];
    *ret_arena = a.arena;
    *ret_peak = a.k.peak;
    pack_search_free(a.search);
    free(a.offsets);
    free(a.best);
    pack_clear(&a.k);
    return status;
}
