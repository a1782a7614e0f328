/* C_A (appendix of the paper, B.2; notation of the specification):
 *
 *   leaf    F_all^i, B^i              idle so that M_all and M_B fit beside what arrives
 *   case 1  F_all^i, (i+1, j), B^i    idle eps_F after the forward, eps_B after the backward
 *   case 2  F_ck^i, F_none .. i', then (i'+1, j), then (i, i'); idle eps after the pass
 *
 * with the idle times of Lemma 1 (prefetching: as late as possible, idle after the operations; the
 * printed proof says "before"). Corrected: the sum in eps of case 2 runs from l = k+1 to i', the
 * distance to the end of the pass; its memory tests are those of stages i .. i' only. A stage that
 * is `direct` (chain.h) has a leaf without forward.
 *
 * Rounding: what is stored and what is due is rounded up to slots, once per new state; times,
 * needs and idle times are exact. Relaxed, states are rounded down
 * instead: every value is at most that of the true states, for C_A does not decrease in them. */
#include "start/offload/backward.h"

#include <math.h>
#include <stdlib.h>

enum { FREES_A_BLOCK = 8 };

offload_slot_time offload_slot_time_of(const offload_backward *backward, double per_byte)
{
    double slot = (double)backward->bytes * per_byte / backward->n_slots;
    return (offload_slot_time){.slot = slot,
                               .inverse = slot > 0 ? 1 / slot : 0,
                               .most = slot * (backward->n_slots + 1),
                               .down = backward->relaxed};
}

uint64_t offload_backward_bytes(uint32_t n, uint32_t n_slots)
{
    uint64_t pairs = (uint64_t)n * (n + 1) / 2, side = (uint64_t)n_slots + 1;
    return pairs * side * (side * (sizeof(double) + sizeof(uint16_t)) + sizeof(uint16_t));
}

/* What of a pass from i on, with gradient j alive, does not depend on memory: by last stage k. */
typedef struct pass {
    uint32_t slots; /* needed by every forward so far */
    double peak;    /* most that a forward needs less what arrives after it, as fetching time */
    double time;    /* of the forwards */
} pass;

static void next_stage(const offload_backward *b, uint32_t i, uint32_t k, uint32_t j, pass *p)
{
    uint64_t need = chain_need_forward(b->model->chain, i, k, j);
    uint32_t slots = offload_backward_slots(b, need);
    double time = b->model->forward[k], peak = (double)need * b->model->in_per_byte;
    p->slots = slots > p->slots ? slots : p->slots;
    p->peak = k == i ? peak : offload_longer(p->peak - time, peak);
    p->time += time;
}

uint32_t offload_first_above(const double *values, uint32_t count, double least)
{
    uint32_t low = 0, high = count;
    if (count == 0 || values[0] > least)
        return 0;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (values[middle] > least)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* ---- the cases: candidates for every due, kept in best where they are less ---- */

static void leaf(const offload_backward *b, uint32_t i, uint32_t free, double *best)
{
    const offload_model *m = b->model;
    const chain_costs *chain = m->chain;
    double room = free * b->in.slot, time = m->backward[i], save = 0;
    uint64_t back = chain->backward_bytes[i];
    if (!chain->direct[i]) {
        uint64_t need = offload_need_save(chain, i, i);
        back = offload_need_backward(chain, i);
        if (offload_backward_slots(b, need) > free)
            return;
        save = (double)need * m->in_per_byte - m->backward[i] - room;
        time += m->forward[i];
    }
    if (offload_backward_slots(b, back) > free)
        return;
    double most = offload_longer(save, (double)back * m->in_per_byte - room);
    if (chain->direct[i])
        most = (double)back * m->in_per_byte - room;
    for (uint32_t due = 0; due <= b->n_slots; due++)
        best[due] = time + offload_longer(0, most + due * b->in.slot);
}

static void save_first(const offload_backward *b, uint32_t i, uint32_t j, uint32_t free,
                       double *best)
{
    const offload_model *m = b->model;
    uint64_t save = offload_need_save(m->chain, i, j);
    uint64_t back = offload_need_backward(m->chain, i);
    uint32_t kept = offload_backward_kept(b, m->chain->kept[i]);
    if (offload_backward_slots(b, save) > free || offload_backward_slots(b, back) > free)
        return;
    size_t row = offload_backward_row(b, i + 1, j, free - kept);
    const double *child = b->value + row;
    const uint16_t *child_left = b->left + row;
    double slot = b->in.slot, room = free * slot;
    double over_save = (double)save * m->in_per_byte - room;
    double over_back = (double)back * m->in_per_byte - room;
    for (uint32_t due = 0; due <= b->n_slots; due++) {
        double after = m->backward[i] + offload_longer(0, over_back + due * slot);
        uint32_t before = offload_slots_of(&b->in, due * slot - after);
        double idle = offload_longer(0, over_save + child_left[before] * slot);
        double time = m->forward[i] + idle + child[before] + after;
        best[due] = time < best[due] ? time : best[due];
    }
}

/* p describes F_ck^i .. F_none^k. */
static void pass_first(const offload_backward *b, const pass *p, uint32_t i, uint32_t k, uint32_t j,
                       uint32_t free, uint32_t first, double *best)
{
    uint32_t kept = offload_backward_kept(b, b->model->chain->output[k]);
    size_t left_row = offload_backward_row(b, i, k, free);
    const double *left = b->value + left_row;
    const uint16_t *left_over = b->left + left_row;
    const double *right = b->value + offload_backward_row(b, k + 1, j, free - kept);
    double slot = b->in.slot, over = p->peak - free * slot;
    double calm_time = p->time + (over > 0 ? over : 0) + right[0];
    uint32_t calm = offload_backward_calm(b, left_row), due = first;
    for (; due < calm; due++)
        best[due] = calm_time + left[due] < best[due] ? calm_time + left[due] : best[due];
    for (; due <= b->n_slots; due++) {
        double later = right[left_over[due]], owed = left_over[due] * slot - later;
        double idle = over + (owed > 0 ? owed : 0);
        double time = p->time + (idle > 0 ? idle : 0) + later + left[due];
        best[due] = time < best[due] ? time : best[due];
    }
}

/* ---- the table ---- */

static void fill_row(offload_backward *b, uint32_t i, uint32_t j, uint32_t free, const pass *passes)
{
    size_t row = offload_backward_row(b, i, j, free);
    double *best = b->value + row;
    for (uint32_t due = 0; due <= b->n_slots; due++)
        best[due] = INFINITY;
    if (i == j)
        leaf(b, i, free, best);
    else
        save_first(b, i, j, free, best);
    double leaves = b->model->leaves[j] - b->model->leaves[i - 1];
    for (uint32_t k = i; k < j && passes[k - i].slots <= free; k++) {
        uint32_t first = offload_first_above(best, b->n_slots + 1, passes[k - i].time + leaves);
        if (first > b->n_slots)
            break;
        pass_first(b, &passes[k - i], i, k, j, free, first, best);
    }
    uint32_t calm = 0;
    for (uint32_t due = 0; due <= b->n_slots; due++)
        b->left[row + due] = (uint16_t)offload_slots_of(&b->in, due * b->in.slot - best[due]);
    while (calm <= b->n_slots && b->left[row + calm] == 0)
        calm++;
    b->calm[row / (b->n_slots + 1)] = (uint16_t)calm;
}

typedef struct diagonal {
    offload_backward *b;
    const remat_host *host;
    uint32_t length; /* j - i */
    uint32_t blocks; /* of a row of frees */
    pass *passes;    /* by worker: n each */
} diagonal;

static void fill_block(void *context, size_t index, unsigned worker)
{
    diagonal *d = context;
    offload_backward *b = d->b;
    if (remat_host_cancelled(d->host))
        return;
    uint32_t i = (uint32_t)(index / d->blocks) + 1, j = i + d->length;
    uint32_t first = (uint32_t)(index % d->blocks) * FREES_A_BLOCK;
    pass *passes = d->passes + (size_t)worker * b->model->n, p = {0};
    for (uint32_t k = i; k < j; k++) {
        next_stage(b, i, k, j, &p);
        passes[k - i] = p;
    }
    for (uint32_t free = first; free < first + FREES_A_BLOCK && free <= b->n_slots; free++)
        fill_row(b, i, j, free, passes);
}

static remat_status fill(offload_backward *b, const remat_host *host, remat_error *error)
{
    uint32_t n = b->model->n;
    pass *passes = malloc((size_t)remat_host_workers(host) * n * sizeof *passes);
    if (!passes)
        return remat_fail_memory(error);
    diagonal d = {.b = b, .host = host, .passes = passes};
    d.blocks = b->n_slots / FREES_A_BLOCK + 1;
    bool cancelled = false;
    for (; d.length < n && !cancelled; d.length++) {
        remat_host_parallel_for(host, (size_t)(n - d.length) * d.blocks, fill_block, &d);
        cancelled = remat_host_cancelled(host);
    }
    free(passes);
    return cancelled ? remat_fail(error, REMAT_CANCELLED, NULL, "cancelled") : REMAT_OK;
}

remat_status offload_backward_init(offload_backward *ret_backward, const offload_model *model,
                                   uint64_t bytes, uint32_t n_slots, bool relaxed,
                                   const remat_host *host, remat_error *error)
{
    offload_backward b = {.model = model, .bytes = bytes, .n_slots = n_slots, .relaxed = relaxed};
    b.in = offload_slot_time_of(&b, model->in_per_byte);
    size_t side = (size_t)n_slots + 1,
           entries = (size_t)model->n * (model->n + 1) / 2 * side * side;
    b.value = model_new_table(entries * sizeof *b.value);
    b.left = model_new_table(entries * sizeof *b.left);
    b.calm = malloc(entries / side * sizeof *b.calm);
    remat_status status =
        b.value && b.left && b.calm ? fill(&b, host, error) : remat_fail_memory(error);
    if (status)
        offload_backward_clear(&b);
    else
        *ret_backward = b;
    return status;
}

void offload_backward_clear(offload_backward *backward)
{
    free(backward->value);
    free(backward->left);
    free(backward->calm);
    *backward = (offload_backward){0};
}

/* ---- tracing: the cases once more, the least one is taken ---- */

/* Last stage of the pass of the best case 2, or 0 where case 1 (the leaf) is best. */
static uint32_t best_case(const offload_backward *b, uint32_t i, uint32_t j, uint32_t free,
                          uint32_t due)
{
    double row[OFFLOAD_MAX_SLOTS + 1], least;
    uint32_t best = 0;
    pass p = {0};
    for (uint32_t d = 0; d <= b->n_slots; d++)
        row[d] = INFINITY;
    save_first(b, i, j, free, row);
    least = row[due];
    for (uint32_t k = i; k < j; k++) {
        next_stage(b, i, k, j, &p);
        if (p.slots > free)
            break;
        pass_first(b, &p, i, k, j, free, due, row);
        if (row[due] < least) {
            least = row[due];
            best = k;
        }
    }
    return best;
}

static remat_status trace_save(const offload_backward *b, uint32_t i, uint32_t j, uint32_t free,
                               uint32_t due, remat_operations *operations)
{
    const offload_model *m = b->model;
    double need = (double)offload_need_backward(m->chain, i) * m->in_per_byte;
    double after = m->backward[i] + offload_longer(0, need - free * b->in.slot + due * b->in.slot);
    uint32_t before = offload_slots_of(&b->in, due * b->in.slot - after);
    uint32_t kept = offload_backward_kept(b, m->chain->kept[i]);
    remat_status status = chain_emit_save(i, 0, operations);
    if (!status)
        status = offload_backward_trace(b, i + 1, j, free - kept, before, operations);
    return status ? status : chain_emit_backward(i, 0, false, operations);
}

remat_status offload_backward_trace(const offload_backward *b, uint32_t i, uint32_t j,
                                    uint32_t free, uint32_t due, remat_operations *operations)
{
    if (i == j)
        return chain_emit_leaf(b->model->chain, i, false, operations);
    uint32_t k = best_case(b, i, j, free, due);
    if (k == 0)
        return trace_save(b, i, j, free, due, operations);
    uint32_t kept = offload_backward_kept(b, b->model->chain->output[k]);
    uint32_t owed = b->left[offload_backward_row(b, i, k, free) + due];
    remat_status status = chain_emit_pass(i, k, operations);
    if (!status)
        status = offload_backward_trace(b, k + 1, j, free - kept, owed, operations);
    return status ? status : offload_backward_trace(b, i, k, free, due, operations);
}
