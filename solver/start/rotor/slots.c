/* The recurrence of breakpoints.c over slots. Every test and every shift is rounded as a whole
 * (tighter than rounding each size). Where o_s >= o_f for every stage, the test of the whole pass
 * up to t-1 gives the same values as testing each pass and is done once per row; otherwise each
 * position k carries its own test.
 *
 * Order: the value in m slots needs values in m or fewer, so one block of slots of all sub-chains
 * is solved after the other, tile by tile (slots_tile.c); the tiles of one diagonal do not depend
 * on each other and are shared among the host's workers. */
#include "start/rotor/slots_solve.h"

#include "model/arena.h"

#include <stdlib.h>
#include <string.h>

enum {
    INFINITE = CHAIN_SLOTS_INFINITE,
    BLOCK = CHAIN_SLOTS_BLOCK,
    PAD = 2 * BLOCK, /* entries that views may read beyond both ends of the values */
    PIECE = 1 << 18, /* entries */
};

uint64_t chain_slots_unit(const chain_slots *slots)
{
    return slots->unit;
}

uint32_t chain_slots_count(const chain_slots *slots)
{
    return slots->n_slots;
}

int64_t chain_slots_divisor(const chain_slots *slots)
{
    return slots->divisor;
}

const int32_t *chain_slots_answer(const chain_slots *slots)
{
    return slots->answer;
}

/* ---- the table's memory ---- */

/* Slots 0 .. n_slots in eights. */
static uint64_t stored_slots(uint32_t n_slots)
{
    return ((uint64_t)n_slots + 8) & ~UINT64_C(7);
}

static uint32_t n_blocks_of(uint32_t n_slots)
{
    return n_slots / BLOCK + 1;
}

static uint64_t memory_bytes(uint32_t n, uint32_t n_slots)
{
    return (chain_cells(n) * stored_slots(n_slots) + 3 * PAD) * sizeof(int32_t);
}

static uint64_t table_bytes(uint32_t n, uint32_t n_slots)
{
    return sizeof(chain_slots) + memory_bytes(n, n_slots) +
           ((uint64_t)n_slots + 1) * sizeof(int32_t);
}

uint64_t chain_slots_bytes(const chain_slots *slots)
{
    return table_bytes(slots->n, slots->n_slots);
}

static chain_slots *slots_allocate(uint32_t n, uint32_t n_slots)
{
    chain_slots *slots = calloc(1, sizeof *slots);
    if (!slots)
        return NULL;
    slots->n = n;
    slots->n_slots = n_slots;
    slots->n_blocks = n_blocks_of(n_slots);
    slots->last_width = (uint32_t)(stored_slots(n_slots) - (uint64_t)(slots->n_blocks - 1) * BLOCK);
    slots->memory = model_new_table(memory_bytes(n, n_slots));
    slots->answer = malloc(((size_t)n_slots + 1) * sizeof *slots->answer);
    if (!slots->memory || !slots->answer) {
        chain_slots_free(slots);
        return NULL;
    }
    memset(slots->memory, 0x3f, 2 * PAD * sizeof *slots->memory);
    slots->impossible = slots->memory + BLOCK;
    slots->values = slots->memory + 2 * PAD;
    return slots;
}

static void copy_answer(chain_slots *slots)
{
    for (uint32_t m = 0; m <= slots->n_slots; m++)
        slots->answer[m] = chain_slots_value(slots, slots->n - 1, m);
}

void chain_slots_free(chain_slots *slots)
{
    if (!slots)
        return;
    free(slots->memory);
    free(slots->answer);
    free(slots);
}

/* ---- rounding ---- */

/* Ticks per unit of cost, so that a value and two prefixes stay below INFINITE. */
static int64_t choose_divisor(const chain_costs *chain)
{
    int64_t most = 2 * chain->forward_sum[chain->n];
    for (uint32_t i = 1; i <= chain->n; i++)
        most += chain->forward[i] * (int64_t)(chain->n - i + 1) + chain->backward[i];
    return most / (INFINITE - 1) + 1;
}

uint32_t chain_slots_round(const chain_slots_solve *r, uint64_t bytes)
{
    uint64_t unit = r->slots->unit;
    uint64_t count = bytes / unit + (r->round_up && bytes % unit != 0);
    return count > r->slots->n_slots ? r->slots->n_slots + 1 : (uint32_t)count;
}

static void round_stages(chain_slots_solve *r)
{
    const chain_costs *chain = r->chain;
    int64_t divisor = r->slots->divisor;
    for (uint32_t i = 0; i <= chain->n; i++) {
        chain_slots_stage *stage = &r->stages[i];
        stage->shift = chain_slots_round(r, chain->output[i]);
        if (i == 0)
            continue;
        const chain_slots_stage *before = stage - 1;
        stage->save_shift = chain_slots_round(r, chain->kept[i]);
        int32_t forward = (int32_t)(chain->forward[i] / divisor);
        stage->backward = (int32_t)(chain->backward[i] / divisor);
        stage->leaf = stage->backward + (chain->direct[i] ? 0 : forward);
        stage->forward_sum = before->forward_sum + forward;
        stage->total_sum = before->total_sum + forward + stage->backward;
        r->each_pass |= chain->save_workspace[i] < chain->forward_workspace[i];
    }
}

/* The tests of (s,t): F^s .. F^{t-1} while delta_t is held, or the leaf; and C_1. */
static void round_tests(chain_slots_solve *r)
{
    const chain_costs *chain = r->chain;
    size_t cell = 0;
    for (uint32_t s = 1; s <= chain->n; s++) {
        uint64_t without_gradient = 0;
        r->pass_from[cell++] = chain_slots_round(r, chain_leaf_bytes(chain, s));
        for (uint32_t t = s + 1; t <= chain->n; t++, cell++) {
            uint64_t need = chain_need_forward(chain, s, t - 1, t) - chain->held[t];
            without_gradient = model_larger(without_gradient, need);
            r->pass_from[cell] =
                r->each_pass ? 0 : chain_slots_round(r, without_gradient + chain->held[t]);
            r->save_from[cell] = chain_slots_round(r, chain_need_all(chain, s, t));
        }
    }
}

/* ---- the solve ---- */

static size_t right_size_of(uint32_t n)
{
    return chain_cells(n) + CHAIN_KERNEL_PAD;
}

static size_t left_size_of(uint32_t n)
{
    return chain_cells(n) + ((size_t)n + 1) * CHAIN_KERNEL_PAD;
}

uint64_t chain_slots_peak_bytes(uint32_t n, uint32_t n_slots, unsigned n_workers)
{
    uint64_t of_block = (uint64_t)right_size_of(n) * (BLOCK + 2) * sizeof(int32_t) +
                        left_size_of(n) * sizeof(int32_t);
    uint64_t tests = 3 * (uint64_t)chain_cells(n) * sizeof(uint32_t);
    return table_bytes(n, n_slots) + of_block + tests +
           ((uint64_t)n + 1) * sizeof(chain_slots_stage) + n_workers * chain_slots_worker_bytes(n);
}

static bool allocate_solve(chain_slots_solve *r)
{
    uint32_t n = r->chain->n;
    size_t cells = chain_cells(n), left = left_size_of(n), right = right_size_of(n);
    r->stages = calloc((size_t)n + 1, sizeof *r->stages);
    r->pass_from = calloc(cells, sizeof *r->pass_from);
    r->save_from = calloc(cells, sizeof *r->save_from);
    r->likely = calloc(cells, sizeof *r->likely);
    r->first = calloc(cells, sizeof *r->first);
    r->first_right = calloc(right, sizeof *r->first_right);
    r->ends_left = malloc(left * sizeof *r->ends_left);
    r->ends_right = malloc(right * sizeof *r->ends_right);
    r->right = model_new_table(right * BLOCK * sizeof *r->right);
    if (!r->stages || !r->pass_from || !r->save_from || !r->first || !r->likely ||
        !r->first_right || !r->ends_left || !r->ends_right || !r->right)
        return false;
    memset(r->ends_left, 0x3f, left * sizeof *r->ends_left);
    memset(r->ends_right, 0x3f, right * sizeof *r->ends_right);
    return true;
}

static void free_solve(chain_slots_solve *r)
{
    chain_slots_workers_free(r->workers, r->n_workers);
    free(r->stages);
    free(r->pass_from);
    free(r->save_from);
    free(r->first);
    free(r->likely);
    free(r->first_right);
    free(r->ends_left);
    free(r->ends_right);
    free(r->right);
}

/* A kernel adds up what it finds between the rows of a narrow block, and drops it: no row may be
 * without a value. In pieces, because the first touch of fresh memory takes long. */
static remat_status prepare_narrow_block(const chain_slots_solve *r)
{
    if (r->slots->last_width == BLOCK)
        return REMAT_OK;
    int32_t *values = chain_slots_block(r->slots, 0, r->slots->n_blocks - 1);
    size_t length = chain_cells(r->chain->n) * r->slots->last_width + PAD, piece;
    for (size_t at = 0; at < length; at += piece) {
        if (remat_host_cancelled(r->host))
            return REMAT_CANCELLED;
        piece = length - at < PIECE ? length - at : PIECE;
        memset(values + at, 0x3f, piece * sizeof *values);
    }
    return REMAT_OK;
}

static remat_status run_blocks(chain_slots_solve *r)
{
    uint32_t n_tiles = (r->chain->n + CHAIN_SLOTS_TILE - 1) / CHAIN_SLOTS_TILE;
    for (r->block = 0; r->block < r->slots->n_blocks; r->block++) {
        for (r->diagonal = 0; r->diagonal < n_tiles; r->diagonal++) {
            remat_host_parallel_for(r->host, n_tiles - r->diagonal, chain_slots_solve_tile, r);
            remat_status status = chain_slots_workers_status(r);
            if (status)
                return status;
        }
        remat_host_progress(r->host, (double)(r->block + 1) / r->slots->n_blocks);
    }
    copy_answer(r->slots);
    return REMAT_OK;
}

static remat_status run_solve(chain_slots_solve *r)
{
    if (!allocate_solve(r))
        return REMAT_NO_MEMORY;
    if (remat_host_cancelled(
            r->host)) /* the first touch of so much memory may take as long as a tile */
        return REMAT_CANCELLED;
    r->slots->divisor = choose_divisor(r->chain);
    round_stages(r);
    round_tests(r);
    r->workers = chain_slots_workers_new(r);
    if (!r->workers)
        return REMAT_NO_MEMORY;
    remat_status status = prepare_narrow_block(r);
    return status ? status : run_blocks(r);
}

remat_status chain_slots_new(const chain_costs *chain, const chain_slots_setting *setting,
                             const remat_host *host, chain_slots **ret, remat_error *error)
{
    unsigned n_workers = remat_host_workers(host);
    uint64_t peak = chain_slots_peak_bytes(chain->n, setting->n_slots, n_workers);
    if (host && host->memory_limit && peak > host->memory_limit)
        return remat_fail(error, REMAT_TOO_LARGE, "slots",
                          "%u stages with %u slots need %llu bytes, the limit is %llu", chain->n,
                          setting->n_slots, (unsigned long long)peak,
                          (unsigned long long)host->memory_limit);
    chain_slots *slots = slots_allocate(chain->n, setting->n_slots);
    if (!slots)
        return remat_fail_memory(error);
    slots->unit = setting->unit;
    slots->inputs_only = setting->inputs_only;
    chain_kernel_version versions[3];
    size_t n_versions = chain_kernel_versions(versions);
    chain_slots_solve r = {.slots = slots,
                           .chain = chain,
                           .host = host,
                           .kernel =
                               setting->kernel ? setting->kernel : versions[n_versions - 1].run,
                           .round_up = setting->round_up,
                           .n_workers = n_workers};
    remat_status status = run_solve(&r);
    free_solve(&r);
    if (status) {
        chain_slots_free(slots);
        return status == REMAT_CANCELLED ? remat_fail(error, status, NULL, "cancelled")
                                         : remat_fail_memory(error);
    }
    *ret = slots;
    return REMAT_OK;
}
