/* One block of slots of one tile of sub-chains: s descends, t ascends, so that (s,t) finds the left
 * parts (s,k-1) and the right parts (k,t) done. */
#include "start/rotor/slots_solve.h"

#include <stdlib.h>
#include <string.h>

enum { INFINITE = CHAIN_SLOTS_INFINITE, BLOCK = CHAIN_SLOTS_BLOCK, TILE = CHAIN_SLOTS_TILE };

struct chain_slots_worker {
    int32_t *list;
    uint32_t *late; /* with each_pass: one cell's least slots for the pass up to k-1 */
    remat_status status;
};

/* ---- workers ---- */

chain_slots_worker *chain_slots_workers_new(const chain_slots_solve *r)
{
    size_t length = (size_t)r->chain->n + CHAIN_KERNEL_PAD;
    chain_slots_worker *workers = calloc(r->n_workers, sizeof *workers);
    for (unsigned i = 0; workers && i < r->n_workers; i++) {
        chain_slots_worker *w = &workers[i];
        w->list = calloc(length, sizeof *w->list);
        w->late = r->each_pass ? calloc(length, sizeof *w->late) : NULL;
        if (!w->list || (r->each_pass && !w->late)) {
            chain_slots_workers_free(workers, r->n_workers);
            return NULL;
        }
    }
    return workers;
}

void chain_slots_workers_free(chain_slots_worker *workers, unsigned n_workers)
{
    for (unsigned i = 0; workers && i < n_workers; i++) {
        free(workers[i].list);
        free(workers[i].late);
    }
    free(workers);
}

remat_status chain_slots_workers_status(const chain_slots_solve *r)
{
    for (unsigned i = 0; i < r->n_workers; i++)
        if (r->workers[i].status)
            return r->workers[i].status;
    return REMAT_OK;
}

uint64_t chain_slots_worker_bytes(uint32_t n)
{
    return sizeof(chain_slots_worker) + 2 * ((uint64_t)n + CHAIN_KERNEL_PAD) * sizeof(int32_t);
}

/* ---- places and tests ---- */

static size_t column_start(uint32_t t)
{
    return (size_t)t * (t - 1) / 2;
}

static size_t left_start(const chain_slots_solve *r, uint32_t s)
{
    return chain_cell(r->chain->n, s, s) + (size_t)(s - 1) * CHAIN_KERNEL_PAD;
}

/* V(s,t) when nothing is computed twice. */
static int32_t saturated(const chain_slots_solve *r, uint32_t s, uint32_t t)
{
    const chain_slots_stage *before_t = &r->stages[t - 1], *before_s = &r->stages[s - 1];
    return before_t->total_sum - before_s->total_sum + r->stages[t].leaf + before_s->forward_sum;
}

/* late[i] := least slots for the pass up to s + i; returns how many of them are below `end`. The
 * kernel looks CHAIN_KERNEL_PAD further. */
static uint32_t test_each_pass(const chain_slots_solve *r, uint32_t s, uint32_t t, uint32_t end,
                               uint32_t *late)
{
    uint64_t most = 0;
    uint32_t slot = 0, count = 0;
    while (count < t - s && slot < end) {
        uint64_t need = chain_need_forward(r->chain, s, s + count, t);
        if (count == 0 || need > most) {
            most = need;
            slot = chain_slots_round(r, need);
        }
        late[count] = slot;
        count += slot < end;
    }
    for (uint32_t i = 0; i < CHAIN_KERNEL_PAD; i++)
        late[count + i] = end;
    return count;
}

/* ---- the first feasible slot ---- */

static int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static int32_t first_of_passes(const chain_slots_solve *r, chain_slots_worker *w, uint32_t s,
                               uint32_t t)
{
    const int32_t *left = r->first + chain_cell(r->chain->n, s, s);
    const int32_t *right = r->first_right + column_start(t) + s;
    uint32_t none = r->slots->n_slots + 1, n_k = t - s;
    int32_t best = (int32_t)none;
    if (!r->each_pass) {
        for (uint32_t k = 0; k < n_k; k++) {
            int32_t first = larger(left[k], right[k]);
            best = first < best ? first : best;
        }
        return best;
    }
    n_k = test_each_pass(r, s, t, none, w->late);
    for (uint32_t k = 0; k < n_k; k++) {
        int32_t first = larger(larger(left[k], right[k]), (int32_t)w->late[k]);
        best = first < best ? first : best;
    }
    return best;
}

/* The least slot where some candidate is feasible, for the row and for its shifted copy. */
static void keep_first(const chain_slots_solve *r, chain_slots_worker *w, uint32_t s, uint32_t t)
{
    uint32_t n = r->chain->n;
    size_t cell = chain_cell(n, s, t);
    int32_t none = (int32_t)r->slots->n_slots + 1, first = 0;
    if (t > s) {
        first = first_of_passes(r, w, s, t);
        if (!r->slots->inputs_only) {
            int32_t inner = r->first[chain_cell(n, s + 1, t)];
            int32_t save =
                larger(inner + (int32_t)r->stages[s].save_shift, (int32_t)r->save_from[cell]);
            first = save < first ? save : first;
        }
    }
    first = larger(first, (int32_t)r->pass_from[cell]);
    int32_t shifted = first + (int32_t)r->stages[s - 1].shift;
    r->first[cell] = first < none ? first : none;
    r->first_right[column_start(t) + s - 1] = shifted < none ? shifted : none;
}

/* A position feasible at the first slot, or UINT32_MAX. */
static uint32_t position_at_first(const chain_slots_solve *r, const chain_kernel_block *b,
                                  uint32_t s, uint32_t t)
{
    const int32_t *left = r->first + chain_cell(r->chain->n, s, s);
    const int32_t *right = r->first_right + column_start(t) + s;
    int32_t first = (int32_t)b->first;
    for (uint32_t k = 0; k < b->n_k; k++)
        if (left[k] <= first && right[k] <= first && (!b->pass_from || b->pass_from[k] <= b->first))
            return k;
    return UINT32_MAX;
}

/* ---- rows ---- */

/* The current block of a row, shifted, from sub-chain number `cell` on. */
static chain_kernel_view view_row(const chain_slots_solve *r, size_t cell, uint32_t shift)
{
    const chain_slots *slots = r->slots;
    ptrdiff_t from = (ptrdiff_t)(r->block * BLOCK) - (ptrdiff_t)shift;
    chain_kernel_view row = {.low = slots->impossible, .high = slots->impossible};
    if (from <= -BLOCK)
        return row;
    uint32_t above = (uint32_t)(from + BLOCK) / BLOCK;
    row.turn = (uint32_t)(from + BLOCK) % BLOCK;
    if (above > 0) {
        row.low = chain_slots_block(slots, cell, above - 1);
        row.low_step = chain_slots_width(slots, above - 1);
    }
    if (row.turn > 0) {
        row.high = chain_slots_block(slots, cell, above);
        row.high_step = chain_slots_width(slots, above);
    }
    return row;
}

static void view_next(chain_kernel_view *view)
{
    view->low += view->low_step;
    view->high += view->high_step;
}

/* Fills in what (s,t) has of its own and runs the kernel. */
static void solve_cell(const chain_slots_solve *r, chain_slots_worker *w, chain_kernel_block *b,
                       uint32_t s, uint32_t t)
{
    size_t cell = chain_cell(r->chain->n, s, t), column = column_start(t) + s;
    int32_t *end = r->ends_left + left_start(r, s) + (t - s), most = saturated(r, s, t);
    uint32_t until = b->from + BLOCK;
    b->before = s == t ? most : *end;
    b->first = (uint32_t)r->first[cell] < until ? (uint32_t)r->first[cell] : until;
    b->likely = r->likely[cell];
    b->save_from = UINT32_MAX;
    b->n_k = 0;
    if (b->first < until && b->before != most) {
        b->right = r->right + column * BLOCK;
        b->ends_right = r->ends_right + column;
        b->n_k = r->each_pass ? test_each_pass(r, s, t, until, w->late) : t - s;
        if (b->first > b->from)
            b->likely = position_at_first(r, b, s, t);
        if (!r->slots->inputs_only)
            b->save_from = r->save_from[cell];
    }
    r->kernel(b);
    r->likely[cell] = b->likely;
    *end = b->out[b->width - 1];
}

/* (s,t0) .. (s,t1-1). */
static void solve_row(const chain_slots_solve *r, chain_slots_worker *w, uint32_t s, uint32_t t0,
                      uint32_t t1)
{
    const chain_slots *slots = r->slots;
    const chain_slots_stage *stage = &r->stages[s];
    uint32_t n = slots->n, next = t0 > s ? t0 : s + 1;
    chain_kernel_block b = {.from = r->block * BLOCK, .width = chain_slots_width(slots, r->block)};
    b.left = chain_slots_block(slots, chain_cell(n, s, s), r->block);
    b.out = chain_slots_block(slots, chain_cell(n, s, t0), r->block);
    b.ends_left = r->ends_left + left_start(r, s);
    b.pass_from = r->each_pass ? w->late : NULL;
    b.prefix = stage[-1].forward_sum;
    b.save_cost = stage->backward + b.prefix;
    b.list = w->list;
    if (next < t1)
        b.save = view_row(r, chain_cell(n, s + 1, next), stage->save_shift);
    for (uint32_t t = t0; t < t1; t++) {
        if (r->block == 0)
            keep_first(r, w, s, t);
        solve_cell(r, w, &b, s, t);
        if (t > s)
            view_next(&b.save);
        b.out += b.width;
    }
}

/* The shifted copies of (s,t0) .. (s,t1-1): all at once, when the stores they read have settled. */
static void shift_row(const chain_slots_solve *r, uint32_t s, uint32_t t0, uint32_t t1)
{
    int32_t width = (int32_t)chain_slots_width(r->slots, r->block);
    chain_kernel_view own = view_row(r, chain_cell(r->slots->n, s, t0), r->stages[s - 1].shift);
    int32_t turn = BLOCK - (int32_t)own.turn, lower = turn < width ? turn : width;
    for (uint32_t t = t0; t < t1; t++) {
        size_t column = column_start(t) + s - 1;
        int32_t *shifted = r->right + column * BLOCK;
        /* no more than its own entries: beside them another worker may be writing */
        memcpy(shifted, own.low + own.turn, (size_t)lower * sizeof *shifted);
        if (width > turn)
            memcpy(shifted + turn, own.high, (size_t)(width - turn) * sizeof *shifted);
        for (int32_t i = width; i < BLOCK; i++)
            shifted[i] = CHAIN_KERNEL_INFINITE;
        r->ends_right[column] = shifted[width - 1];
        view_next(&own);
    }
}

/* ---- tiles ---- */

void chain_slots_solve_tile(void *context, size_t index, unsigned worker_index)
{
    chain_slots_solve *r = context;
    chain_slots_worker *w = &r->workers[worker_index];
    if (w->status)
        return;
    uint32_t end = r->chain->n + 1;
    uint32_t s0 = (uint32_t)index * TILE + 1, s1 = s0 + TILE < end ? s0 + TILE : end;
    uint32_t t0 = s0 + r->diagonal * TILE, t1 = t0 + TILE < end ? t0 + TILE : end;
    for (uint32_t s = s1; s-- > s0;) {
        /* so often because the first touch of fresh memory can take milliseconds a row */
        if (remat_host_cancelled(r->host)) {
            w->status = REMAT_CANCELLED;
            return;
        }
        uint32_t start = t0 > s ? t0 : s;
        solve_row(r, w, s, start, t1);
        shift_row(r, s, start, t1);
    }
}
