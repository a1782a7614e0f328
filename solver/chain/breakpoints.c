/* The optimal persistent schedule of a heterogeneous chain, with exact bytes (Beaumont,
 * Eyraud-Dubois, Herrmann, Joly, Shilova, "Optimal checkpointing for heterogeneous chains", Theorem
 * 1). With the terms of chain.h,
 *
 *   C(s,s,m) = u_f,s + u_b,s                                       if m >= m_all(s,s)
 *   C_1      = u_f,s + C(s+1,t, m - abar_s) + u_b,s                if m >= m_all(s,t)
 *   C_2(k)   = sum of u_f over s..k-1 + C(k,t, m - a_{k-1}) + C(s,k-1, m)
 *                                                                  if m >= m_fwd(s,j,t), s <= j < k
 *
 * Corrected: the paper tests F_all^s of C_1 with delta_s through the leaf, where delta_t is alive;
 * and it tests the whole pass up to t for every k. Not in the paper: memory is not cut into slots,
 * C(s,t,.) is kept as the sorted list of its breakpoints.
 *
 * C_2(k) is the merge of two lists. Three facts keep it cheap, none changes a value: all its costs
 * are at least those of computing nothing else twice, so it matters only left of where the envelope
 * has got there; both lists decrease, so the sum eight breakpoints ahead bounds everything before;
 * and most k improve nothing, so the envelope is rebuilt only when one does. */
#include "chain/breakpoints.h"

#include <stdlib.h>
#include <string.h>

enum { LOOK_AHEAD = 8, CANCEL_EVENTS = 1 << 18, EVENTS_OF_A_POSITION = 4 };

typedef remat_breakpoint point;
typedef remat_breakpoint_list list;

struct remat_breakpoints {
    uint32_t n;
    bool inputs_only;
    unsigned n_workers;
    list *cells; /* (s,t), s <= t: row s after row s-1 */
    remat_arena *arenas;
    uint64_t n_points;
};

/* Index of the last point with at most bytes, or -1. */
static ptrdiff_t last_within(const list *cell, uint64_t bytes)
{
    size_t low = 0, high = cell->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (cell->points[middle].bytes <= bytes)
            low = middle + 1;
        else
            high = middle;
    }
    return (ptrdiff_t)low - 1;
}

/* ---- one cell: the envelope of its candidates ---- */

typedef struct worker {
    point *envelope, *found, *merged; /* lists under construction, of one capacity */
    size_t n_envelope, n_found, capacity;
    uint64_t n_points;
    double events, events_seen;
    remat_status status;
    remat_arena *arena;
} worker;

static bool reserve(worker *w, size_t capacity)
{
    if (capacity <= w->capacity)
        return true;
    capacity += capacity / 2;
    point **lists[] = {&w->envelope, &w->found, &w->merged};
    for (int i = 0; i < 3; i++) {
        point *grown = realloc(*lists[i], capacity * sizeof *grown);
        if (!grown)
            return false;
        *lists[i] = grown;
    }
    w->capacity = capacity;
    return true;
}

/* envelope := candidates of C_1. */
static void start_with_save(worker *w, const remat_chain *chain, const list *next, uint32_t s,
                            uint32_t t)
{
    uint64_t need = remat_chain_need_all(chain, s, t);
    int64_t cost = chain->forward[s] + chain->backward[s];
    for (size_t i = 0; i < next->count; i++) {
        uint64_t bytes = remat_larger(need, next->points[i].bytes + chain->kept[s]);
        if (w->n_envelope > 0 && w->envelope[w->n_envelope - 1].bytes == bytes)
            w->n_envelope--;
        w->envelope[w->n_envelope++] = (point){bytes, next->points[i].ticks + cost};
    }
}

/* Bytes from which on the envelope costs at most ticks. */
static uint64_t reached(const worker *w, int64_t ticks)
{
    size_t low = 0, high = w->n_envelope;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (w->envelope[middle].ticks > ticks)
            low = middle + 1;
        else
            high = middle;
    }
    return low < w->n_envelope ? w->envelope[low].bytes : UINT64_MAX;
}

static void push_found(worker *w, uint64_t bytes, int64_t ticks)
{
    w->found[w->n_found++] = (point){bytes, ticks};
}

/* found := the points of right (shifted) + left + cost, from bytes `from` on, below the envelope.
 */
static void find_improvements(worker *w, const list *right, uint64_t shift, const list *left,
                              int64_t cost, uint64_t from, uint64_t until)
{
    const point *f = right->points, *g = left->points, *envelope = w->envelope;
    size_t nf = right->count, ng = left->count, ne = w->n_envelope, e = 0;
    size_t i = (size_t)last_within(right, from - shift), j = (size_t)last_within(left, from);
    size_t steps = 0;
    list so_far = {w->envelope, ne};
    e = (size_t)(last_within(&so_far, from) + 1); /* the envelope's next point */
    uint64_t at = from;
    while (at < until) {
        steps++;
        while (e < ne && envelope[e].bytes <= at)
            e++;
        int64_t best = e > 0 ? envelope[e - 1].ticks : INT64_MAX;
        int64_t ticks = cost + f[i].ticks + g[j].ticks;
        if (ticks < best) {
            push_found(w, at, ticks);
        } else {
            size_t i8 = i + LOOK_AHEAD < nf ? i + LOOK_AHEAD : nf - 1;
            size_t j8 = j + LOOK_AHEAD < ng ? j + LOOK_AHEAD : ng - 1;
            if (cost + f[i8].ticks + g[j8].ticks >= best) {
                uint64_t f_next = i8 + 1 < nf ? f[i8 + 1].bytes + shift : UINT64_MAX;
                uint64_t g_next = j8 + 1 < ng ? g[j8 + 1].bytes : UINT64_MAX;
                at = f_next < g_next ? f_next : g_next;
                if (at == UINT64_MAX)
                    break;
                while (i + 1 < nf && f[i + 1].bytes + shift <= at)
                    i++;
                while (j + 1 < ng && g[j + 1].bytes <= at)
                    j++;
                continue;
            }
        }
        uint64_t f_next = i + 1 < nf ? f[i + 1].bytes + shift : UINT64_MAX;
        uint64_t g_next = j + 1 < ng ? g[j + 1].bytes : UINT64_MAX;
        at = f_next < g_next ? f_next : g_next;
        if (at == UINT64_MAX)
            break;
        i += f_next == at;
        j += g_next == at;
    }
    w->events += (double)steps;
}

/* envelope := lower envelope of envelope and found. */
static void merge_found(worker *w)
{
    const point *a = w->envelope, *b = w->found;
    size_t na = w->n_envelope, nb = w->n_found, i = 0, j = 0, count = 0;
    int64_t best = INT64_MAX;
    while (i < na || j < nb) {
        bool take_b = i == na || (j < nb && (b[j].bytes < a[i].bytes || (b[j].bytes == a[i].bytes &&
                                                                         b[j].ticks < a[i].ticks)));
        point next = take_b ? b[j++] : a[i++];
        if (next.ticks < best) {
            best = next.ticks;
            w->merged[count++] = next;
        }
    }
    w->events += (double)count;
    point *swap = w->envelope;
    w->envelope = w->merged;
    w->merged = swap;
    w->n_envelope = count;
}

static bool add_pass(worker *w, const remat_chain *chain, const list *right, const list *left,
                     uint32_t s, uint32_t k, uint64_t pass_bytes)
{
    w->events += EVENTS_OF_A_POSITION;
    if (right->count == 0 || left->count == 0)
        return true;
    uint64_t shift = chain->output[k - 1];
    int64_t cost = chain->forward_sum[k - 1] - chain->forward_sum[s - 1];
    int64_t least =
        cost + right->points[right->count - 1].ticks + left->points[left->count - 1].ticks;
    uint64_t until = reached(w, least);
    uint64_t from = remat_larger(pass_bytes, right->points[0].bytes + shift);
    from = remat_larger(from, left->points[0].bytes);
    if (from >= until)
        return true;
    if (!reserve(w, w->n_envelope + right->count + left->count))
        return false;
    w->n_found = 0;
    find_improvements(w, right, shift, left, cost, from, until);
    if (w->n_found > 0)
        merge_found(w);
    return true;
}

typedef struct run {
    remat_breakpoints *table;
    const remat_chain *chain;
    const remat_host *host;
    worker *workers;
    uint32_t length; /* t - s of the diagonal under way */
    uint64_t points_limit;
    double events_limit;
} run;

static const list *cell(const remat_breakpoints *table, uint32_t s, uint32_t t)
{
    return &table->cells[remat_chain_cell(table->n, s, t)];
}

static bool build_envelope(const run *r, worker *w, uint32_t s, uint32_t t)
{
    const remat_chain *chain = r->chain;
    w->n_envelope = 0;
    if (s == t) {
        if (!reserve(w, 1))
            return false;
        w->envelope[w->n_envelope++] =
            (point){remat_chain_leaf_bytes(chain, s), remat_chain_leaf_ticks(chain, s)};
        return true;
    }
    const list *next = cell(r->table, s + 1, t);
    if (!reserve(w, next->count))
        return false;
    if (!r->table->inputs_only)
        start_with_save(w, chain, next, s, t);
    uint64_t pass_bytes = 0;
    for (uint32_t k = s + 1; k <= t; k++) {
        pass_bytes = remat_larger(pass_bytes, remat_chain_need_forward(chain, s, k - 1, t));
        if (!add_pass(w, chain, cell(r->table, k, t), cell(r->table, s, k - 1), s, k, pass_bytes))
            return false;
    }
    return true;
}

static void solve_cell(void *context, size_t index, unsigned worker_index)
{
    run *r = context;
    worker *w = &r->workers[worker_index];
    if (w->status)
        return;
    uint32_t s = (uint32_t)index + 1, t = s + r->length;
    if (w->events - w->events_seen > CANCEL_EVENTS || (index & 63) == 0) {
        w->events_seen = w->events;
        if (remat_host_cancelled(r->host)) {
            w->status = REMAT_CANCELLED;
            return;
        }
    }
    list *target = &r->table->cells[remat_chain_cell(r->table->n, s, t)];
    point *points = NULL;
    if (build_envelope(r, w, s, t))
        points = remat_arena_array(w->arena, w->n_envelope, sizeof *points);
    if (!points) {
        w->status = REMAT_NO_MEMORY;
        return;
    }
    memcpy(points, w->envelope, w->n_envelope * sizeof *points);
    *target = (list){points, w->n_envelope};
    w->n_points += w->n_envelope;
    if (w->n_points > r->points_limit || w->events > r->events_limit)
        w->status = REMAT_TOO_LARGE;
}

/* ---- all cells ---- */

static remat_status gather(run *r)
{
    uint64_t n_points = 0;
    double events = 0;
    for (unsigned i = 0; i < r->table->n_workers; i++) {
        if (r->workers[i].status)
            return r->workers[i].status;
        n_points += r->workers[i].n_points;
        events += r->workers[i].events;
    }
    r->table->n_points = n_points;
    return n_points > r->points_limit || events > r->events_limit ? REMAT_TOO_LARGE : REMAT_OK;
}

static remat_status run_diagonals(run *r)
{
    uint32_t n = r->chain->n;
    remat_status status = REMAT_OK;
    for (uint32_t length = 0; length < n && !status; length++) {
        r->length = length;
        remat_host_parallel_for(r->host, n - length, solve_cell, r);
        status = gather(r);
        if ((length & 3) == 3)
            remat_host_progress(r->host, (double)length / n);
    }
    return status;
}

static remat_breakpoints *table_allocate(uint32_t n, bool inputs_only, unsigned n_workers)
{
    remat_breakpoints *table = calloc(1, sizeof *table);
    if (!table)
        return NULL;
    table->n = n;
    table->inputs_only = inputs_only;
    table->n_workers = n_workers;
    table->cells = calloc(remat_chain_cells(n), sizeof *table->cells);
    table->arenas = calloc(n_workers, sizeof *table->arenas);
    if (table->cells && table->arenas)
        return table;
    remat_breakpoints_free(table);
    return NULL;
}

static remat_status fail_run(remat_status status, const run *r, remat_error *error)
{
    if (status == REMAT_CANCELLED)
        return remat_fail(error, status, NULL, "cancelled");
    if (status == REMAT_NO_MEMORY)
        return remat_fail_memory(error);
    return remat_fail(error, status, "max_budget",
                      "the exact table of %u stages passes its limit of %llu breakpoints or %.3g "
                      "merge steps",
                      r->chain->n, (unsigned long long)r->points_limit, r->events_limit);
}

remat_status remat_breakpoints_new(const remat_chain *chain, bool inputs_only,
                                   remat_breakpoints_limits limits, const remat_host *host,
                                   remat_breakpoints **ret, remat_error *error)
{
    run r = {.chain = chain,
             .host = host,
             .points_limit = limits.bytes ? limits.bytes / sizeof(point) : UINT64_MAX,
             .events_limit = limits.events > 0 ? limits.events : 1e300};
    unsigned n_workers = remat_host_workers(host);
    r.table = table_allocate(chain->n, inputs_only, n_workers);
    r.workers = calloc(n_workers, sizeof *r.workers);
    remat_status status = r.table && r.workers ? REMAT_OK : REMAT_NO_MEMORY;
    if (!status) {
        for (unsigned i = 0; i < n_workers; i++)
            r.workers[i].arena = &r.table->arenas[i];
        status = run_diagonals(&r);
    }
    for (unsigned i = 0; r.workers && i < n_workers; i++) {
        free(r.workers[i].envelope);
        free(r.workers[i].found);
        free(r.workers[i].merged);
    }
    free(r.workers);
    if (status) {
        remat_breakpoints_free(r.table);
        return fail_run(status, &r, error);
    }
    *ret = r.table;
    return REMAT_OK;
}

void remat_breakpoints_free(remat_breakpoints *table)
{
    if (!table)
        return;
    for (unsigned i = 0; table->arenas && i < table->n_workers; i++)
        remat_arena_clear(&table->arenas[i]);
    free(table->arenas);
    free(table->cells);
    free(table);
}

uint64_t remat_breakpoints_bytes(const remat_breakpoints *table)
{
    return sizeof *table + remat_chain_cells(table->n) * sizeof(list) +
           table->n_points * sizeof(point);
}

list remat_breakpoints_answer(const remat_breakpoints *table)
{
    return *cell(table, 1, table->n);
}

/* ---- trace ---- */

/* A sub-chain to be emitted, or the backward that closes a C_1. */
typedef struct task {
    uint64_t bytes;
    uint32_t s, t;
    bool plain, closes;
} task;

static bool cost_within(const remat_breakpoints *table, uint32_t s, uint32_t t, uint64_t bytes,
                        int64_t *ret_ticks)
{
    const list *points = cell(table, s, t);
    ptrdiff_t i = last_within(points, bytes);
    if (i < 0)
        return false;
    *ret_ticks = points->points[i].ticks;
    return true;
}

static bool is_save(const remat_breakpoints *table, const remat_chain *chain, const task *at,
                    int64_t ticks)
{
    uint32_t s = at->s;
    int64_t inner;
    return !table->inputs_only && at->bytes >= remat_chain_need_all(chain, s, at->t) &&
           at->bytes >= chain->kept[s] &&
           cost_within(table, s + 1, at->t, at->bytes - chain->kept[s], &inner) &&
           inner + chain->forward[s] + chain->backward[s] == ticks;
}

/* The k of C_2 that costs ticks, or 0. */
static uint32_t find_pass(const remat_breakpoints *table, const remat_chain *chain, const task *at,
                          int64_t ticks)
{
    for (uint32_t k = at->s + 1; k <= at->t; k++) {
        int64_t cost = chain->forward_sum[k - 1] - chain->forward_sum[at->s - 1];
        if (remat_chain_need_forward(chain, at->s, k - 1, at->t) > at->bytes)
            return 0;
        int64_t right, left;
        if (at->bytes >= chain->output[k - 1] &&
            cost_within(table, at->s, k - 1, at->bytes, &left) &&
            cost_within(table, k, at->t, at->bytes - chain->output[k - 1], &right) &&
            cost + right + left == ticks)
            return k;
    }
    return 0;
}

static remat_status trace_task(const remat_breakpoints *table, const remat_chain *chain, task at,
                               task *stack, size_t *depth, remat_operations *operations)
{
    if (at.closes)
        return remat_chain_emit_backward(at.s, at.plain, operations);
    int64_t ticks;
    if (!cost_within(table, at.s, at.t, at.bytes, &ticks))
        return REMAT_CORRUPT;
    if (at.s == at.t)
        return remat_chain_emit_leaf(chain, at.s, at.plain, operations);
    if (is_save(table, chain, &at, ticks)) {
        stack[(*depth)++] = (task){.s = at.s, .plain = at.plain, .closes = true};
        stack[(*depth)++] = (task){.bytes = at.bytes - chain->kept[at.s], .s = at.s + 1, .t = at.t};
        return remat_chain_emit_save(at.s, operations);
    }
    uint32_t k = find_pass(table, chain, &at, ticks);
    if (k == 0)
        return REMAT_CORRUPT;
    stack[(*depth)++] = (task){.bytes = at.bytes, .s = at.s, .t = k - 1, .plain = at.plain};
    stack[(*depth)++] =
        (task){.bytes = at.bytes - chain->output[k - 1], .s = k, .t = at.t, .plain = true};
    return remat_chain_emit_pass(at.s, k - 1, operations);
}

remat_status remat_breakpoints_trace(const remat_breakpoints *table, const remat_chain *chain,
                                     uint64_t bytes, remat_operations *operations,
                                     remat_error *error)
{
    task *stack = malloc(((size_t)chain->n + 2) * sizeof *stack);
    if (!stack)
        return remat_fail_memory(error);
    size_t depth = 0;
    stack[depth++] = (task){.bytes = bytes, .s = 1, .t = chain->n, .plain = true};
    remat_status status = REMAT_OK;
    while (depth > 0 && !status) {
        task at = stack[--depth];
        status = trace_task(table, chain, at, stack, &depth, operations);
    }
    free(stack);
    if (status == REMAT_CORRUPT)
        return remat_fail(error, status, NULL, "the table has no schedule in %llu bytes",
                          (unsigned long long)bytes);
    return status ? remat_fail_memory(error) : REMAT_OK;
}

/* ---- bytes on disk ---- */

remat_status remat_breakpoints_save(const remat_breakpoints *table, remat_buffer *buffer,
                                    remat_error *error)
{
    remat_status status = remat_buffer_put_u32(buffer, table->n);
    for (size_t c = 0; c < remat_chain_cells(table->n) && !status; c++) {
        const list *points = &table->cells[c];
        status = remat_buffer_put_u64(buffer, points->count);
        for (size_t i = 0; i < points->count && !status; i++) {
            status = remat_buffer_put_u64(buffer, points->points[i].bytes);
            if (!status)
                status = remat_buffer_put_u64(buffer, (uint64_t)points->points[i].ticks);
        }
    }
    return status ? remat_fail_memory(error) : REMAT_OK;
}

/* REMAT_CORRUPT unless the list increases in bytes and decreases in ticks, all of a possible size.
 */
static remat_status read_list(remat_reader *reader, remat_arena *arena, list *ret)
{
    uint64_t count = remat_reader_u64(reader);
    if (reader->failed || count == 0 ||
        count > (reader->length - reader->position) / (2 * sizeof(uint64_t)))
        return REMAT_CORRUPT;
    point *points = remat_arena_array(arena, (size_t)count, sizeof *points);
    if (!points)
        return REMAT_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        uint64_t bytes = remat_reader_u64(reader), ticks = remat_reader_u64(reader);
        points[i] = (point){bytes, (int64_t)ticks};
        if (bytes > UINT64_MAX / 4 || ticks > (uint64_t)INT64_MAX / 4)
            return REMAT_CORRUPT;
        if (i > 0 && (bytes <= points[i - 1].bytes || points[i].ticks >= points[i - 1].ticks))
            return REMAT_CORRUPT;
    }
    *ret = (list){points, (size_t)count};
    return REMAT_OK;
}

remat_status remat_breakpoints_load(const remat_chain *chain, bool inputs_only,
                                    remat_reader *reader, remat_breakpoints **ret,
                                    remat_error *error)
{
    uint32_t n = remat_reader_u32(reader);
    if (reader->failed || n != chain->n ||
        remat_chain_cells(n) > (reader->length - reader->position) / (3 * sizeof(uint64_t)))
        return remat_fail(error, REMAT_CORRUPT, NULL, "the table is not one of %u stages",
                          chain->n);
    remat_breakpoints *table = table_allocate(n, inputs_only, 1);
    if (!table)
        return remat_fail_memory(error);
    remat_status status = REMAT_OK;
    for (size_t c = 0; c < remat_chain_cells(n) && !status; c++) {
        status = read_list(reader, &table->arenas[0], &table->cells[c]);
        table->n_points += table->cells[c].count;
    }
    if (status) {
        remat_breakpoints_free(table);
        return status == REMAT_CORRUPT
                   ? remat_fail(error, status, NULL, "a list of the table is damaged")
                   : remat_fail_memory(error);
    }
    *ret = table;
    return REMAT_OK;
}
