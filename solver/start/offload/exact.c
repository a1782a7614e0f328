/* Where nothing is due there is no idle time, and the value is a step function of the free bytes
 * (start/rotor/breakpoints.c): each evaluation tells the interval on which it holds, and few
 * intervals serve all. Where something is due, every state is remembered for itself; what is due
 * soon vanishes. */
#include "start/offload/exact.h"

#include "model/arrays.h"

#include <math.h>

/* A remembered value; j = 0 marks an empty place. */
typedef struct entry {
    uint64_t free;
    double due, value;
    uint32_t i, j;
} entry;

/* The value with nothing due is the same for all free bytes from low to high, high excluded. */
typedef struct interval {
    uint64_t low, high;
    double value;
} interval;

typedef struct intervals {
    interval *items; /* in increasing order */
    size_t count, capacity;
} intervals;

struct offload_exact {
    const offload_model *model;
    const remat_host *host;
    intervals *steps; /* by i and j */
    entry *entries;   /* open addressing; the length is a power of two */
    size_t length, count;
    double work, limit;
    remat_status status;
};

enum { FIRST_LENGTH = 1 << 12, MOST_ENTRIES = 1 << 22, POLL_EVERY = 1 << 10 };

remat_status offload_exact_new(const offload_model *model, double limit, const remat_host *host,
                               offload_exact **ret_exact, remat_error *error)
{
    offload_exact *e = calloc(1, sizeof *e);
    if (e) {
        *e = (offload_exact){.model = model, .host = host, .length = FIRST_LENGTH, .limit = limit};
        e->entries = calloc(e->length, sizeof *e->entries);
        e->steps = calloc(((size_t)model->n + 1) * (model->n + 1), sizeof *e->steps);
    }
    if (!e || !e->entries || !e->steps) {
        offload_exact_free(e);
        return remat_fail_memory(error);
    }
    *ret_exact = e;
    return REMAT_OK;
}

void offload_exact_free(offload_exact *exact)
{
    if (!exact)
        return;
    size_t pairs = ((size_t)exact->model->n + 1) * (exact->model->n + 1);
    for (size_t k = 0; exact->steps && k < pairs; k++)
        free(exact->steps[k].items);
    free(exact->steps);
    free(exact->entries);
    free(exact);
}

remat_status offload_exact_status(const offload_exact *exact)
{
    return exact->status;
}

double offload_exact_work(const offload_exact *exact)
{
    return exact->work;
}

/* ---- memory of values ---- */

static entry *find(const offload_exact *e, const entry *key)
{
    uint64_t bits;
    memcpy(&bits, &key->due, sizeof bits);
    uint64_t hash =
        (key->free ^ (bits * UINT64_C(0x9e3779b97f4a7c15))) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ (hash >> 29) ^ ((uint64_t)key->i << 32) ^ key->j) * UINT64_C(0x94d049bb133111eb);
    for (size_t at = (hash ^ (hash >> 32)) & (e->length - 1);; at = (at + 1) & (e->length - 1)) {
        entry *one = &e->entries[at];
        if (one->j == 0 || (one->i == key->i && one->j == key->j && one->free == key->free &&
                            one->due == key->due))
            return one;
    }
}

static bool grow(offload_exact *e)
{
    offload_exact larger = *e;
    larger.length = e->length * 2;
    if (e->count >= MOST_ENTRIES) {
        e->status = REMAT_TOO_LARGE;
        return false;
    }
    larger.entries = calloc(larger.length, sizeof *larger.entries);
    if (!larger.entries) {
        e->status = REMAT_NO_MEMORY;
        return false;
    }
    for (size_t k = 0; k < e->length; k++)
        if (e->entries[k].j > 0)
            *find(&larger, &e->entries[k]) = e->entries[k];
    free(e->entries);
    *e = larger;
    return true;
}

static void remember(offload_exact *e, entry one)
{
    if (e->count * 2 >= e->length && !grow(e))
        return;
    *find(e, &one) = one;
    e->count++;
}

static bool may_go_on(offload_exact *e)
{
    if (e->status)
        return false;
    if (++e->work > e->limit)
        e->status = REMAT_TOO_LARGE;
    else if (fmod(e->work, POLL_EVERY) == 0 && remat_host_cancelled(e->host))
        e->status = REMAT_CANCELLED;
    return !e->status;
}

/* ---- nothing due ---- */

/* Number of intervals that begin at or below free. */
static size_t begun(const intervals *steps, uint64_t free)
{
    return model_count_up_to(steps->items, steps->count, sizeof(interval), offsetof(interval, low),
                             free);
}

/* Adds what is known, or widens what has the same value: between equal values a step function that
 * does not increase is constant. */
static void add_interval(offload_exact *e, intervals *steps, interval one)
{
    size_t at = begun(steps, one.low);
    for (size_t k = at > 0 ? at - 1 : 0; k < steps->count && k <= at; k++) {
        interval *other = &steps->items[k];
        if (other->value != one.value)
            continue;
        other->low = other->low < one.low ? other->low : one.low;
        other->high = other->high > one.high ? other->high : one.high;
        return;
    }
    if (!model_reserve(&steps->items, &steps->capacity, steps->count + 1, sizeof one)) {
        e->status = REMAT_NO_MEMORY;
        return;
    }
    memmove(&steps->items[at + 1], &steps->items[at], (steps->count - at) * sizeof one);
    steps->items[at] = one;
    steps->count++;
}

static interval calm(offload_exact *e, uint32_t i, uint32_t j, uint64_t free);

/* From `bytes` on, and with so many more below. */
static interval shifted(interval one, uint64_t bytes)
{
    one.low += bytes;
    one.high = one.high > UINT64_MAX - bytes ? UINT64_MAX : one.high + bytes;
    return one;
}

/* A case that takes time and the two parts, from need on: *best takes it over where it is less,
 * and ends where one of its parts changes. */
static void improve(interval *best, uint64_t need, double time, interval a, interval b)
{
    uint64_t high = a.high < b.high ? a.high : b.high, low = model_larger(a.low, b.low);
    double value = time + a.value + b.value;
    best->high = best->high < high ? best->high : high;
    if (value < best->value) {
        best->value = value;
        best->low = model_larger(need, low);
    }
}

static interval calm_cases(offload_exact *e, uint32_t i, uint32_t j, uint64_t free)
{
    const offload_model *m = e->model;
    const chain_costs *chain = m->chain;
    interval best = {.high = UINT64_MAX, .value = INFINITY}, nothing = {.high = UINT64_MAX};
    uint64_t need = model_larger(offload_need_save(chain, i, j), offload_need_backward(chain, i));
    double time = 0, leaves = m->leaves[j] - m->leaves[i - 1];
    if (need <= free)
        improve(&best, need, m->forward[i] + m->backward[i],
                shifted(calm(e, i + 1, j, free - chain->kept[i]), chain->kept[i]), nothing);
    else
        best.high = need;
    need = 0;
    for (uint32_t k = i; k < j; k++) {
        need = model_larger(need, chain_need_forward(chain, i, k, j));
        time += m->forward[k];
        if (time + leaves >= best.value)
            break;
        if (need > free) {
            best.high = best.high < need ? best.high : need;
            break;
        }
        interval right = calm(e, k + 1, j, free - chain->output[k]);
        improve(&best, need, time, calm(e, i, k, free), shifted(right, chain->output[k]));
    }
    return best;
}

/* C_A(i, j, free, 0) and where it holds. */
static interval calm(offload_exact *e, uint32_t i, uint32_t j, uint64_t free)
{
    const offload_model *m = e->model;
    if (i == j) {
        uint64_t need = chain_leaf_bytes(m->chain, i);
        return free < need ? (interval){0, need, INFINITY}
                           : (interval){need, UINT64_MAX, m->leaves[i] - m->leaves[i - 1]};
    }
    intervals *steps = &e->steps[(size_t)i * (m->n + 1) + j];
    size_t at = begun(steps, free);
    if (at > 0 && free < steps->items[at - 1].high)
        return steps->items[at - 1];
    if (!may_go_on(e))
        return (interval){free, free + 1, INFINITY};
    interval one = calm_cases(e, i, j, free);
    if (!e->status)
        add_interval(e, steps, one);
    return one;
}

/* ---- the recurrence ---- */

static double fetch_time(const offload_exact *e, uint64_t bytes)
{
    return (double)bytes * e->model->in_per_byte;
}

static double leaf(const offload_exact *e, uint32_t i, uint64_t free, double due)
{
    const offload_model *m = e->model;
    const chain_costs *chain = m->chain;
    double room = fetch_time(e, free) - due;
    if (chain->direct[i])
        return chain->backward_bytes[i] > free
                   ? INFINITY
                   : m->backward[i] + fmax(0, fetch_time(e, chain->backward_bytes[i]) - room);
    uint64_t save = offload_need_save(chain, i, i);
    uint64_t back = offload_need_backward(chain, i);
    if (save > free || back > free)
        return INFINITY;
    double idle = fmax(fetch_time(e, save) - m->backward[i], fetch_time(e, back)) - room;
    return m->forward[i] + m->backward[i] + fmax(0, idle);
}

/* Case 1. *ret_before: what is due before B^i. */
static double save_first(offload_exact *e, uint32_t i, uint32_t j, uint64_t free, double due,
                         double *ret_before)
{
    const offload_model *m = e->model;
    uint64_t save = offload_need_save(m->chain, i, j);
    uint64_t back = offload_need_backward(m->chain, i);
    if (save > free || back > free)
        return INFINITY;
    double room = fetch_time(e, free);
    double after = m->backward[i] + fmax(0, fetch_time(e, back) - room + due);
    double before = m->in_per_byte > 0 ? fmax(0, due - after) : 0;
    *ret_before = before;
    double child = offload_exact_value(e, i + 1, j, free - m->chain->kept[i], before);
    double idle = fmax(0, fetch_time(e, save) - room + fmax(0, before - child));
    return m->forward[i] + idle + child + after;
}

/* The best case: its value, and the last stage of its pass, 0 for case 1. */
static double best_case(offload_exact *e, uint32_t i, uint32_t j, uint64_t free, double due,
                        uint32_t *ret_last)
{
    const offload_model *m = e->model;
    double before, best = save_first(e, i, j, free, due, &before);
    double peak = 0, time = 0, least = m->leaves[j] - m->leaves[i - 1];
    *ret_last = 0;
    for (uint32_t k = i; k < j; k++) {
        uint64_t need = chain_need_forward(m->chain, i, k, j);
        peak = k == i ? fetch_time(e, need) : fmax(peak - m->forward[k], fetch_time(e, need));
        time += m->forward[k];
        if (need > free || time + least >= best)
            break;
        double left = offload_exact_value(e, i, k, free, due), owed = fmax(0, due - left);
        if (time + left + m->leaves[j] - m->leaves[k] >= best)
            continue;
        double right = offload_exact_value(e, k + 1, j, free - m->chain->output[k], owed);
        double idle = fmax(0, peak - fetch_time(e, free) + fmax(0, owed - right));
        if (time + idle + right + left < best) {
            best = time + idle + right + left;
            *ret_last = k;
        }
    }
    return best;
}

double offload_exact_value(offload_exact *e, uint32_t i, uint32_t j, uint64_t free, double due)
{
    uint32_t last;
    if (i == j)
        return leaf(e, i, free, due);
    if (due == 0)
        return calm(e, i, j, free).value;
    entry one = {.free = free, .due = due, .i = i, .j = j};
    const entry *known = find(e, &one);
    if (known->j > 0)
        return known->value;
    if (!may_go_on(e))
        return INFINITY;
    one.value = best_case(e, i, j, free, due, &last);
    if (!e->status)
        remember(e, one);
    return one.value;
}

remat_status offload_exact_trace(offload_exact *e, uint32_t i, uint32_t j, uint64_t free,
                                 double due, remat_operations *operations)
{
    const chain_costs *chain = e->model->chain;
    if (i == j)
        return chain_emit_leaf(chain, i, false, operations);
    uint32_t k;
    double before = 0;
    best_case(e, i, j, free, due, &k);
    if (k == 0) {
        save_first(e, i, j, free, due, &before);
        remat_status status = chain_emit_save(i, 0, operations);
        if (!status)
            status = offload_exact_trace(e, i + 1, j, free - chain->kept[i], before, operations);
        return status ? status : chain_emit_backward(i, 0, false, operations);
    }
    double owed = fmax(0, due - offload_exact_value(e, i, k, free, due));
    remat_status status = chain_emit_pass(i, k, operations);
    if (!status)
        status = offload_exact_trace(e, k + 1, j, free - chain->output[k], owed, operations);
    return status ? status : offload_exact_trace(e, i, k, free, due, operations);
}
