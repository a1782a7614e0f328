/* The recurrence of breakpoints.c over slots. Every test and every shift is rounded as a whole
 * (tighter than rounding each size). Where o_s >= o_f for every stage, the test of the whole pass
 * up to t-1 gives the same values as testing each pass and is done once
 * per row; otherwise each position k carries its own test.
 *
 * Order: tiles of TILE x TILE sub-chains; the tiles of one diagonal do not depend on each other and
 * are shared among the host's workers. Inside a tile blocks of slots ascend, then s descends, t
 * ascends: the value in m slots needs values in m or fewer. For the same reason whole rounds of few
 * blocks go through all tiles before the next, so that what is read again and again stays in the
 * last cache. */
#include "chain/slots.h"

#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

enum {
    TILE = 16,
    INFINITE = REMAT_KERNEL_INFINITE,
    BLOCK = REMAT_KERNEL_BLOCK,
    HUGE_PAGE = 1 << 21,
    CACHE_BYTES = 8 << 20
};

struct remat_slots {
    uint32_t n, n_slots;
    size_t stride; /* slots of a row in memory, a multiple of 8 */
    uint64_t unit;
    int64_t divisor; /* ticks per unit of cost */
    bool inputs_only;
    int32_t *values; /* BLOCK entries that candidates may read and ignore, then the rows of (1,1)
                        (1,2) .. (2,2) .. */
    int32_t **rows;  /* [s]: row of (s,s) */
    uint64_t looked_at;
};

static size_t n_cells(uint32_t n)
{
    return (size_t)n * ((size_t)n + 1) / 2;
}

static size_t stride_of(uint32_t n_slots)
{
    size_t stride = ((size_t)n_slots + 8) & ~(size_t)7;
    return stride < BLOCK ? BLOCK : stride;
}

static uint64_t values_bytes(uint32_t n, uint32_t n_slots)
{
    return ((uint64_t)n_cells(n) * stride_of(n_slots) + BLOCK) * sizeof(int32_t);
}

uint64_t remat_slots_table_bytes(uint32_t n, uint32_t n_slots)
{
    return sizeof(remat_slots) + values_bytes(n, n_slots) + ((uint64_t)n + 2) * sizeof(int32_t *);
}

uint64_t remat_slots_bytes(const remat_slots *slots)
{
    return remat_slots_table_bytes(slots->n, slots->n_slots);
}

uint64_t remat_slots_looked_at(const remat_slots *slots)
{
    return slots->looked_at;
}

uint64_t remat_slots_unit(const remat_slots *slots)
{
    return slots->unit;
}

uint32_t remat_slots_count(const remat_slots *slots)
{
    return slots->n_slots;
}

int64_t remat_slots_divisor(const remat_slots *slots)
{
    return slots->divisor;
}

static int32_t *row_of(const remat_slots *slots, uint32_t s, uint32_t t)
{
    return slots->rows[s] + (size_t)(t - s) * slots->stride;
}

const int32_t *remat_slots_answer(const remat_slots *slots)
{
    return row_of(slots, 1, slots->n);
}

/* ---- memory ---- */

/* Large tables in huge pages where the system has them: the rows are walked across. */
static void *allocate_values(uint64_t bytes)
{
    if (bytes > SIZE_MAX - HUGE_PAGE)
        return NULL;
    if (bytes < 2 * HUGE_PAGE)
        return malloc((size_t)bytes);
    size_t rounded = ((size_t)bytes + HUGE_PAGE - 1) & ~(size_t)(HUGE_PAGE - 1);
    void *values = aligned_alloc(HUGE_PAGE, rounded);
#ifdef MADV_HUGEPAGE
    if (values)
        (void)madvise(values, rounded, MADV_HUGEPAGE); /* advice: nothing depends on it */
#endif
    return values;
}

static remat_slots *slots_allocate(uint32_t n, uint32_t n_slots)
{
    remat_slots *slots = calloc(1, sizeof *slots);
    if (!slots)
        return NULL;
    slots->n = n;
    slots->n_slots = n_slots;
    slots->stride = stride_of(n_slots);
    slots->rows = calloc((size_t)n + 2, sizeof *slots->rows);
    slots->values = allocate_values(values_bytes(n, n_slots));
    if (!slots->rows || !slots->values) {
        remat_slots_free(slots);
        return NULL;
    }
    for (uint32_t m = 0; m < BLOCK; m++)
        slots->values[m] = INFINITE;
    int32_t *row = slots->values + BLOCK;
    for (uint32_t s = 1; s <= n; s++) {
        slots->rows[s] = row;
        row += (size_t)(n - s + 1) * slots->stride;
    }
    return slots;
}

void remat_slots_free(remat_slots *slots)
{
    if (!slots)
        return;
    free(slots->values);
    free(slots->rows);
    free(slots);
}

/* ---- rounding ---- */

/* One solve. Arrays are indexed by stage. ends_*: see kernel.h, one triangle per block of slots. */
typedef struct solve {
    remat_slots *slots;
    const remat_chain *chain;
    const remat_host *host;
    remat_kernel *kernel;
    bool round_up, each_pass; /* each_pass: test every k on its own */
    uint32_t n_blocks, diagonal;
    uint32_t block_from, block_until; /* of the round under way */
    uint32_t *shift, *save_shift, largest_shift;
    int32_t *forward, *backward, *forward_sum, *total_sum;
    uint32_t *pass_slot; /* per sub-chain: slots for its whole pass */
    uint32_t *save_slot; /* and for C_1; both laid out as one block of ends_right */
    int32_t *ends_left, *ends_right;
    int32_t *first_left, *first_right; /* least feasible slots, laid out as one block of ends_* */
    size_t *left_start;                /* [s]: of row s in a triangle of ends_left */
    size_t left_size, right_size;
    struct tile_worker *workers;
} solve;

static uint32_t slots_for(const solve *r, uint64_t bytes)
{
    uint64_t unit = r->slots->unit;
    uint64_t count = bytes / unit + (r->round_up && bytes % unit != 0);
    return count > r->slots->n_slots ? r->slots->n_slots + 1 : (uint32_t)count;
}

static size_t column_start(uint32_t t)
{
    return (size_t)t * (t - 1) / 2;
}

static void round_stages(solve *r)
{
    const remat_chain *chain = r->chain;
    int64_t divisor = r->slots->divisor;
    for (uint32_t i = 0; i <= chain->n; i++) {
        r->shift[i] = slots_for(r, chain->output[i]);
        if (i == 0)
            continue;
        if (i < chain->n && r->shift[i] > r->largest_shift)
            r->largest_shift = r->shift[i];
        r->save_shift[i] = slots_for(r, chain->kept[i]);
        r->forward[i] = (int32_t)(chain->forward[i] / divisor);
        r->backward[i] = (int32_t)(chain->backward[i] / divisor);
        r->forward_sum[i] = r->forward_sum[i - 1] + r->forward[i];
        r->total_sum[i] = r->total_sum[i - 1] + r->forward[i] + r->backward[i];
        r->each_pass |= chain->save_workspace[i] < chain->forward_workspace[i];
    }
}

/* pass_slot of (s,t): slots for F^s .. F^{t-1} while delta_t is held; for s = t those of the leaf.
 */
static void round_passes(solve *r)
{
    const remat_chain *chain = r->chain;
    for (uint32_t s = 1; s <= chain->n; s++) {
        uint64_t without_gradient = 0;
        r->pass_slot[column_start(s) + s - 1] = slots_for(r, remat_chain_leaf_bytes(chain, s));
        for (uint32_t t = s + 1; t <= chain->n; t++) {
            uint64_t need = remat_chain_need_forward(chain, s, t - 1, t) - chain->held[t];
            without_gradient = remat_larger(without_gradient, need);
            r->pass_slot[column_start(t) + s - 1] = slots_for(r, without_gradient + chain->held[t]);
            r->save_slot[column_start(t) + s - 1] = slots_for(r, remat_chain_need_all(chain, s, t));
        }
    }
}

/* Costs must fit: a value and two prefixes stay below INFINITE. */
static int64_t choose_divisor(const remat_chain *chain)
{
    int64_t most = 2 * chain->forward_sum[chain->n];
    for (uint32_t i = 1; i <= chain->n; i++)
        most += chain->forward[i] * (int64_t)(chain->n - i + 1) + chain->backward[i];
    return most / (INFINITE - 1) + 1;
}

/* ---- one tile ---- */

typedef struct tile_worker {
    remat_kernel_cell cells[TILE][TILE];
    uint32_t row_from[TILE][TILE]; /* slots for the leaf, or for the whole pass */
    int32_t saturated[TILE][TILE]; /* V when nothing is computed twice */
    int32_t *sums, *list;
    ptrdiff_t *right; /* TILE lists of n + 1: [k] of V(k,t, 0 - a_{k-1}) from the table's start */
    uint32_t *pass_from; /* TILE * TILE lists, with each_pass only */
    uint64_t looked_at;
    remat_status status;
} tile_worker;

static void each_pass_from(const solve *r, uint32_t s, uint32_t t, uint32_t *pass_from)
{
    uint64_t need = 0;
    for (uint32_t k = s + 1; k <= t; k++) {
        need = remat_larger(need, remat_chain_need_forward(r->chain, s, k - 1, t));
        pass_from[k - s - 1] = slots_for(r, need);
    }
}

static void prepare_cell(const solve *r, tile_worker *w, uint32_t i, uint32_t j, uint32_t s,
                         uint32_t t)
{
    const remat_chain *chain = r->chain;
    remat_kernel_cell *cell = &w->cells[i][j];
    int32_t prefix = r->forward_sum[s - 1];
    *cell = (remat_kernel_cell){.s = s,
                                .t = t,
                                .stride = r->slots->stride,
                                .out = row_of(r->slots, s, t),
                                .left = r->slots->rows[s],
                                .table = r->slots->values,
                                .right = w->right + (size_t)j * (chain->n + 1) + s + 1,
                                .shift = r->shift + s,
                                .largest_shift = r->largest_shift,
                                .prefix = prefix,
                                .sums = w->sums,
                                .list = w->list};
    if (s == t) {
        int32_t cost = r->backward[s] + (chain->direct[s] ? 0 : r->forward[s]);
        w->saturated[i][j] = cost + prefix;
        w->row_from[i][j] = r->pass_slot[column_start(t) + s - 1];
        return;
    }
    int32_t last = r->backward[t] + (chain->direct[t] ? 0 : r->forward[t]);
    w->saturated[i][j] = r->total_sum[t - 1] - r->total_sum[s - 1] + last + prefix;
    w->row_from[i][j] = r->each_pass ? 0 : r->pass_slot[column_start(t) + s - 1];
    if (!r->slots->inputs_only) {
        cell->save_row = row_of(r->slots, s + 1, t);
        cell->save_shift = r->save_shift[s];
        cell->save_from = r->save_slot[column_start(t) + s - 1];
        cell->save_cost = r->backward[s] + prefix;
    }
    if (r->each_pass) {
        uint32_t *list = w->pass_from + (size_t)(i * TILE + j) * r->chain->n;
        each_pass_from(r, s, t, list);
        cell->pass_from = list;
    }
}

static void prepare_column(const solve *r, tile_worker *w, uint32_t j, uint32_t s0, uint32_t t)
{
    ptrdiff_t *right = w->right + (size_t)j * (r->chain->n + 1);
    for (uint32_t k = s0 + 1; k <= t; k++)
        right[k] = row_of(r->slots, k, t) - r->slots->values - (ptrdiff_t)r->shift[k - 1];
}

static void fill(int32_t *row, uint32_t from, uint32_t until, int32_t value)
{
    for (uint32_t m = from; m < until; m++)
        row[m] = value;
}

/* The least slot where some candidate of the cell is feasible, and which. */
static void find_first(const solve *r, tile_worker *w, uint32_t i, uint32_t j)
{
    remat_kernel_cell *cell = &w->cells[i][j];
    uint32_t s = cell->s, t = cell->t, row_from = w->row_from[i][j];
    const int32_t *left = r->first_left + r->left_start[s];
    const int32_t *right = r->first_right + column_start(t) + s;
    int32_t none = (int32_t)r->slots->n_slots + 1, best = none;
    for (uint32_t k = 0; k < t - s; k++) {
        int32_t first = left[k] > right[k] ? left[k] : right[k];
        if (cell->pass_from && (int32_t)cell->pass_from[k] > first)
            first = (int32_t)cell->pass_from[k];
        if (first < best) {
            best = first;
            cell->first_index = k;
        }
    }
    if (cell->save_row) {
        int32_t inner = r->first_left[r->left_start[s + 1] + t - s - 1] + (int32_t)cell->save_shift;
        int32_t first = inner > (int32_t)cell->save_from ? inner : (int32_t)cell->save_from;
        if (first < best) {
            best = first;
            cell->first_index = UINT32_MAX;
        }
    }
    cell->first = (uint32_t)best > row_from ? (uint32_t)best : row_from;
}

static void keep_first(const solve *r, const remat_kernel_cell *cell)
{
    uint32_t none = r->slots->n_slots + 1, first = cell->first < none ? cell->first : none;
    uint32_t shifted = first + r->shift[cell->s - 1];
    r->first_left[r->left_start[cell->s] + cell->t - cell->s] = (int32_t)first;
    r->first_right[column_start(cell->t) + cell->s - 1] =
        (int32_t)(shifted < none ? shifted : none);
}

/* Found in the first round and kept; found again for its index in the round it falls in. */
static void prepare_first(const solve *r, tile_worker *w, uint32_t i, uint32_t j)
{
    remat_kernel_cell *cell = &w->cells[i][j];
    if (r->block_from > 0)
        cell->first = (uint32_t)r->first_left[r->left_start[cell->s] + cell->t - cell->s];
    if (r->block_from > 0 && cell->first < r->block_from * BLOCK)
        return;
    if (cell->s == cell->t)
        cell->first = w->row_from[i][j];
    else
        find_first(r, w, i, j);
    if (r->block_from == 0)
        keep_first(r, cell);
}

static uint32_t open_positions(const remat_kernel_cell *cell, uint32_t end)
{
    uint32_t count = cell->t - cell->s;
    while (cell->pass_from && count > 0 && cell->pass_from[count - 1] > end)
        count--;
    return count;
}

static void solve_block(const solve *r, tile_worker *w, uint32_t i, uint32_t j, uint32_t block)
{
    const remat_kernel_cell *cell = &w->cells[i][j];
    uint32_t s = cell->s, t = cell->t;
    size_t last_start = r->slots->stride - BLOCK;
    uint32_t from = block * BLOCK < last_start ? block * BLOCK : (uint32_t)last_start;
    uint32_t end = from + BLOCK - 1;
    int32_t *row = row_of(r->slots, s, t), saturated = w->saturated[i][j];
    int32_t *left = r->ends_left + block * r->left_size + r->left_start[s];
    int32_t *right = r->ends_right + block * r->right_size + column_start(t);
    if (cell->first > end) {
        fill(row, from, end + 1, INFINITE);
    } else if (s == t || (from > 0 && row[from - 1] == saturated)) {
        uint32_t start = cell->first > from ? cell->first : from;
        fill(row, from, start, INFINITE);
        fill(row, start, end + 1, saturated);
    } else {
        w->looked_at += r->kernel(cell, from, open_positions(cell, end), left, right + s);
        if (cell->first > from)
            fill(row, from, cell->first, INFINITE);
    }
    left[t - s] = row[end];
    right[s - 1] = r->shift[s - 1] <= end ? row[end - r->shift[s - 1]] : INFINITE;
}

static void solve_tile(void *context, size_t index, unsigned worker_index)
{
    solve *r = context;
    tile_worker *w = &r->workers[worker_index];
    if (w->status)
        return;
    if (remat_host_cancelled(r->host)) {
        w->status = REMAT_CANCELLED;
        return;
    }
    uint32_t n = r->chain->n;
    uint32_t s0 = (uint32_t)index * TILE + 1, t0 = s0 + r->diagonal * TILE;
    uint32_t n_s = n - s0 + 1 < TILE ? n - s0 + 1 : TILE,
             n_t = n - t0 + 1 < TILE ? n - t0 + 1 : TILE;
    for (uint32_t j = 0; j < n_t; j++)
        prepare_column(r, w, j, s0, t0 + j);
    for (uint32_t i = 0; i < n_s; i++)
        for (uint32_t j = 0; j < n_t; j++)
            if (s0 + i <= t0 + j)
                prepare_cell(r, w, i, j, s0 + i, t0 + j);
    for (uint32_t i = n_s; i-- > 0;)
        for (uint32_t j = 0; j < n_t; j++)
            if (s0 + i <= t0 + j)
                prepare_first(r, w, i, j);
    for (uint32_t block = r->block_from; block < r->block_until; block++)
        for (uint32_t i = n_s; i-- > 0;) {
            /* so often because the first touch of fresh memory can take milliseconds a row */
            if (remat_host_cancelled(r->host)) {
                w->status = REMAT_CANCELLED;
                return;
            }
            for (uint32_t j = 0; j < n_t; j++)
                if (s0 + i <= t0 + j)
                    solve_block(r, w, i, j, block);
        }
}

/* ---- the solve ---- */

static size_t left_size_of(uint32_t n)
{
    return n_cells(n) + ((size_t)n + 1) * REMAT_KERNEL_PAD;
}

static size_t right_size_of(uint32_t n)
{
    return n_cells(n) + REMAT_KERNEL_PAD;
}

static uint32_t n_blocks_of(uint32_t n_slots)
{
    return (uint32_t)((stride_of(n_slots) + BLOCK - 1) / BLOCK);
}

uint64_t remat_slots_peak_bytes(uint32_t n, uint32_t n_slots, unsigned n_workers)
{
    uint64_t ends = ((uint64_t)n_blocks_of(n_slots) + 1) * (left_size_of(n) + right_size_of(n)) *
                    sizeof(int32_t);
    uint64_t stages = ((uint64_t)n + 1) * (6 * sizeof(int32_t) + sizeof(size_t));
    uint64_t of_worker = sizeof(tile_worker) +
                         2 * ((uint64_t)n + REMAT_KERNEL_PAD) * sizeof(int32_t) +
                         ((uint64_t)n + 1) * TILE * sizeof(ptrdiff_t);
    return remat_slots_table_bytes(n, n_slots) + ends + stages + n_cells(n) * 2 * sizeof(uint32_t) +
           n_workers * of_worker;
}

static bool allocate_stages(solve *r)
{
    size_t length = (size_t)r->chain->n + 1;
    r->shift = calloc(length, sizeof *r->shift);
    r->save_shift = calloc(length, sizeof *r->save_shift);
    r->forward = calloc(length, sizeof *r->forward);
    r->backward = calloc(length, sizeof *r->backward);
    r->forward_sum = calloc(length, sizeof *r->forward_sum);
    r->total_sum = calloc(length, sizeof *r->total_sum);
    r->left_start = calloc(length, sizeof *r->left_start);
    r->pass_slot = calloc(n_cells(r->chain->n), sizeof *r->pass_slot);
    r->save_slot = calloc(n_cells(r->chain->n), sizeof *r->save_slot);
    return r->save_slot && r->shift && r->save_shift && r->forward && r->backward &&
           r->forward_sum && r->total_sum && r->left_start && r->pass_slot;
}

static bool allocate_ends(solve *r)
{
    uint32_t n = r->chain->n;
    r->left_size = left_size_of(n);
    r->right_size = right_size_of(n);
    size_t left = r->n_blocks * r->left_size, right = r->n_blocks * r->right_size;
    r->ends_left = malloc(left * sizeof *r->ends_left);
    r->ends_right = malloc(right * sizeof *r->ends_right);
    if (!r->ends_left || !r->ends_right)
        return false;
    r->first_left = calloc(r->left_size, sizeof *r->first_left);
    r->first_right = calloc(r->right_size, sizeof *r->first_right);
    if (!r->first_left || !r->first_right)
        return false;
    memset(r->ends_left, 0x3f, left * sizeof *r->ends_left);
    memset(r->ends_right, 0x3f, right * sizeof *r->ends_right);
    size_t start = 0;
    for (uint32_t s = 1; s <= n; s++) {
        r->left_start[s] = start;
        start += (size_t)(n - s + 1) + REMAT_KERNEL_PAD;
    }
    return true;
}

static bool allocate_workers(solve *r, unsigned n_workers)
{
    uint32_t n = r->chain->n;
    r->workers = calloc(n_workers, sizeof *r->workers);
    if (!r->workers)
        return false;
    for (unsigned i = 0; i < n_workers; i++) {
        r->workers[i].sums = calloc((size_t)n + REMAT_KERNEL_PAD, sizeof(int32_t));
        r->workers[i].list = calloc((size_t)n + REMAT_KERNEL_PAD, sizeof(int32_t));
        r->workers[i].right = calloc(((size_t)n + 1) * TILE, sizeof(ptrdiff_t));
        if (!r->workers[i].sums || !r->workers[i].list || !r->workers[i].right)
            return false;
        if (r->each_pass) {
            r->workers[i].pass_from = calloc((size_t)n * TILE * TILE, sizeof(uint32_t));
            if (!r->workers[i].pass_from)
                return false;
        }
    }
    return true;
}

static void free_scratch(solve *r, unsigned n_workers)
{
    for (unsigned i = 0; r->workers && i < n_workers; i++) {
        free(r->workers[i].sums);
        free(r->workers[i].list);
        free(r->workers[i].right);
        free(r->workers[i].pass_from);
    }
    free(r->workers);
    free(r->ends_left);
    free(r->ends_right);
    free(r->first_left);
    free(r->first_right);
    free(r->shift);
    free(r->save_shift);
    free(r->forward);
    free(r->backward);
    free(r->forward_sum);
    free(r->total_sum);
    free(r->left_start);
    free(r->pass_slot);
    free(r->save_slot);
}

static remat_status run_diagonals(solve *r, unsigned n_workers)
{
    uint32_t n_tiles = (r->chain->n + TILE - 1) / TILE;
    for (uint32_t d = 0; d < n_tiles; d++) {
        r->diagonal = d;
        remat_host_parallel_for(r->host, n_tiles - d, solve_tile, r);
        for (unsigned i = 0; i < n_workers; i++)
            if (r->workers[i].status)
                return r->workers[i].status;
    }
    return REMAT_OK;
}

/* As many blocks of slots at a time as the last cache holds of all sub-chains. With each_pass the
 * lists of tests are made once, so all blocks go in one round. */
static uint32_t blocks_of_a_round(const solve *r)
{
    size_t of_block = n_cells(r->chain->n) * BLOCK * sizeof(int32_t);
    size_t blocks = r->each_pass ? r->n_blocks : CACHE_BYTES / of_block;
    return blocks < 1 ? 1 : blocks < r->n_blocks ? (uint32_t)blocks : r->n_blocks;
}

static remat_status run_rounds(solve *r, unsigned n_workers)
{
    uint32_t round = blocks_of_a_round(r);
    while (r->block_from < r->n_blocks) {
        r->block_until = r->block_from + round < r->n_blocks ? r->block_from + round : r->n_blocks;
        remat_status status = run_diagonals(r, n_workers);
        if (status)
            return status;
        r->block_from = r->block_until;
        remat_host_progress(r->host, (double)r->block_from / r->n_blocks);
    }
    for (unsigned i = 0; i < n_workers; i++)
        r->slots->looked_at += r->workers[i].looked_at;
    return REMAT_OK;
}

static remat_status run_solve(solve *r, unsigned n_workers)
{
    if (!allocate_stages(r))
        return REMAT_NO_MEMORY;
    r->slots->divisor = choose_divisor(r->chain);
    round_stages(r);
    round_passes(r);
    if (!allocate_ends(r) || !allocate_workers(r, n_workers))
        return REMAT_NO_MEMORY;
    return run_rounds(r, n_workers);
}

remat_status remat_slots_new(const remat_chain *chain, const remat_slots_setting *setting,
                             const remat_host *host, remat_slots **ret, remat_error *error)
{
    unsigned n_workers = remat_host_workers(host);
    uint64_t peak = remat_slots_peak_bytes(chain->n, setting->n_slots, n_workers);
    if (host && host->memory_limit && peak > host->memory_limit)
        return remat_fail(error, REMAT_TOO_LARGE, "slots",
                          "%u stages with %u slots need %llu bytes, the limit is %llu", chain->n,
                          setting->n_slots, (unsigned long long)peak,
                          (unsigned long long)host->memory_limit);
    remat_slots *slots = slots_allocate(chain->n, setting->n_slots);
    if (!slots)
        return remat_fail_memory(error);
    slots->unit = setting->unit;
    slots->inputs_only = setting->inputs_only;
    remat_kernel_version versions[3];
    size_t n_versions = remat_kernel_versions(versions);
    solve r = {.slots = slots,
               .chain = chain,
               .host = host,
               .kernel = setting->kernel ? setting->kernel : versions[n_versions - 1].run,
               .round_up = setting->round_up,
               .n_blocks = n_blocks_of(setting->n_slots)};
    remat_status status = run_solve(&r, n_workers);
    free_scratch(&r, n_workers);
    if (status) {
        remat_slots_free(slots);
        return status == REMAT_CANCELLED ? remat_fail(error, status, NULL, "cancelled")
                                         : remat_fail_memory(error);
    }
    *ret = slots;
    return REMAT_OK;
}

/* ---- trace ---- */

/* A sub-chain to be emitted, or the backward that closes a C_1. */
typedef struct task {
    uint64_t bytes;
    uint32_t s, t;
    bool plain, closes;
} task;

/* V of (s,t) in bytes, INFINITE when they are fewer than used. */
static int32_t value_within(const remat_slots *slots, uint32_t s, uint32_t t, uint64_t bytes,
                            uint64_t used)
{
    if (bytes < used)
        return INFINITE;
    uint64_t slot = (bytes - used) / slots->unit;
    return row_of(slots, s, t)[slot < slots->n_slots ? slot : slots->n_slots];
}

typedef struct tracer {
    const remat_slots *slots;
    const remat_chain *chain;
    const int32_t *prefix; /* forward costs of stages 1..i */
    task *stack;
    size_t depth;
} tracer;

static int32_t cost_of(const tracer *r, int64_t ticks)
{
    return (int32_t)(ticks / r->slots->divisor);
}

static bool is_save(const tracer *r, const task *at, int32_t value)
{
    uint32_t s = at->s;
    if (r->slots->inputs_only || at->bytes < remat_chain_need_all(r->chain, s, at->t))
        return false;
    int32_t inner = value_within(r->slots, s + 1, at->t, at->bytes, r->chain->kept[s]);
    return inner < INFINITE && inner + cost_of(r, r->chain->backward[s]) <= value;
}

/* A k of C_2 that costs at most value, or 0. */
static uint32_t find_pass(const tracer *r, const task *at, int32_t value)
{
    const remat_chain *chain = r->chain;
    uint32_t s = at->s, t = at->t;
    for (uint32_t k = s + 1; k <= t; k++) {
        if (remat_chain_need_forward(chain, s, k - 1, t) > at->bytes)
            return 0;
        int32_t left = value_within(r->slots, s, k - 1, at->bytes, 0);
        if (left >= INFINITE)
            continue;
        int32_t right = value_within(r->slots, k, t, at->bytes, chain->output[k - 1]);
        if (right < INFINITE && left + right - r->prefix[s - 1] <= value)
            return k;
    }
    return 0;
}

static remat_status trace_task(tracer *r, task at, remat_operations *operations)
{
    if (at.closes)
        return remat_chain_emit_backward(at.s, at.plain, operations);
    int32_t value = value_within(r->slots, at.s, at.t, at.bytes, 0);
    if (value >= INFINITE)
        return REMAT_CORRUPT;
    if (at.s == at.t)
        return remat_chain_emit_leaf(r->chain, at.s, at.plain, operations);
    if (is_save(r, &at, value)) {
        r->stack[r->depth++] = (task){.s = at.s, .plain = at.plain, .closes = true};
        r->stack[r->depth++] =
            (task){.bytes = at.bytes - r->chain->kept[at.s], .s = at.s + 1, .t = at.t};
        return remat_chain_emit_save(at.s, operations);
    }
    uint32_t k = find_pass(r, &at, value);
    if (k == 0)
        return REMAT_CORRUPT;
    r->stack[r->depth++] = (task){.bytes = at.bytes, .s = at.s, .t = k - 1, .plain = at.plain};
    r->stack[r->depth++] =
        (task){.bytes = at.bytes - r->chain->output[k - 1], .s = k, .t = at.t, .plain = true};
    return remat_chain_emit_pass(at.s, k - 1, operations);
}

remat_status remat_slots_trace(const remat_slots *slots, const remat_chain *chain, uint32_t slot,
                               remat_operations *operations, remat_error *error)
{
    tracer r = {.slots = slots, .chain = chain};
    int32_t *prefix = calloc((size_t)chain->n + 1, sizeof *prefix);
    r.stack = malloc(((size_t)chain->n + 2) * sizeof *r.stack);
    remat_status status = prefix && r.stack ? REMAT_OK : REMAT_NO_MEMORY;
    if (!status) {
        for (uint32_t i = 1; i <= chain->n; i++)
            prefix[i] = prefix[i - 1] + cost_of(&r, chain->forward[i]);
        r.prefix = prefix;
        r.stack[r.depth++] =
            (task){.bytes = slot * slots->unit, .s = 1, .t = chain->n, .plain = true};
    }
    while (r.depth > 0 && !status) {
        task at = r.stack[--r.depth];
        status = trace_task(&r, at, operations);
    }
    free(prefix);
    free(r.stack);
    if (status == REMAT_CORRUPT)
        return remat_fail(error, status, NULL, "the table has no schedule in %u slots", slot);
    return status ? remat_fail_memory(error) : REMAT_OK;
}

/* ---- bytes on disk ---- */

remat_status remat_slots_save(const remat_slots *slots, remat_buffer *buffer, remat_error *error)
{
    remat_status status = remat_buffer_put_u32(buffer, slots->n);
    if (!status)
        status = remat_buffer_put_u32(buffer, slots->n_slots);
    if (!status)
        status = remat_buffer_put_u64(buffer, slots->unit);
    if (!status)
        status = remat_buffer_put_u64(buffer, (uint64_t)slots->divisor);
    for (size_t c = 0; c < n_cells(slots->n) && !status; c++) {
        const int32_t *row = slots->rows[1] + c * slots->stride;
        for (uint32_t m = 0; m <= slots->n_slots && !status; m++)
            status = remat_buffer_put_u32(buffer, (uint32_t)row[m]);
    }
    return status ? remat_fail_memory(error) : REMAT_OK;
}

/* Rows never increase and stay between 0 and INFINITE. */
static bool read_rows(remat_reader *reader, remat_slots *slots)
{
    for (size_t c = 0; c < n_cells(slots->n); c++) {
        int32_t *row = slots->rows[1] + c * slots->stride;
        uint32_t before = INFINITE;
        for (uint32_t m = 0; m <= slots->n_slots; m++) {
            uint32_t value = remat_reader_u32(reader);
            if (value > before)
                return false;
            before = value;
            row[m] = (int32_t)value;
        }
    }
    return !reader->failed;
}

remat_status remat_slots_load(const remat_chain *chain, bool inputs_only, remat_reader *reader,
                              remat_slots **ret, remat_error *error)
{
    uint32_t n = remat_reader_u32(reader), n_slots = remat_reader_u32(reader);
    uint64_t unit = remat_reader_u64(reader), divisor = remat_reader_u64(reader);
    uint64_t values = (reader->length - reader->position) / sizeof(uint32_t);
    if (reader->failed || n != chain->n || unit == 0 || unit > REMAT_MAX_BYTES ||
        divisor != (uint64_t)choose_divisor(chain) || n_slots >= values ||
        n_cells(n) > values / ((uint64_t)n_slots + 1))
        return remat_fail(error, REMAT_CORRUPT, NULL, "the table is not one of %u stages",
                          chain->n);
    remat_slots *slots = slots_allocate(n, n_slots);
    if (!slots)
        return remat_fail_memory(error);
    slots->unit = unit;
    slots->divisor = (int64_t)divisor;
    slots->inputs_only = inputs_only;
    if (!read_rows(reader, slots)) {
        remat_slots_free(slots);
        return remat_fail(error, REMAT_CORRUPT, NULL, "a row of the table is damaged");
    }
    *ret = slots;
    return REMAT_OK;
}
