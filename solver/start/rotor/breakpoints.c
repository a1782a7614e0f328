/* The optimal persistent schedule of a heterogeneous chain, with exact bytes (Beaumont,
 * Eyraud-Dubois, Herrmann, Joly, Shilova, "Optimal checkpointing for heterogeneous chains", Theorem
 * 1). With the terms of chain.h,
 *
 *   C(s,s,m) = u_f,s + u_b,s                                       if m >= m_all(s,s)
 *   C_1      = u_f,s + C(s+1,t, m - abar_s) + u_b,s                if m >= m_all(s,t)
 *   C_2(k)   = sum of u_f over s..k-1 + C(k,t, m - a_{k-1}) + C(s,k-1, m)
 *                                                                  if m >= m_fwd(s,j,t), s <= j < k
 *
 * A stage may have several implementations (as in section 5.4.2 of Shilova's thesis):
 * C(s,s,.) and C_1 are the least over the implementations of F_all and B, and the pass of C_2 is a
 * step function of m: at F^j it takes the fastest implementation whose workspace fits,
 *
 *   P(s,k,t,m) = sum over s <= j < k of min { u_f,j,w : m >= m_fwd(s,j,t) with o_f,j,w }
 *
 * Corrected: the paper tests F_all^s of C_1 with delta_s through the leaf, where delta_t is alive;
 * and it tests the whole pass up to t for every k. Not in the paper: memory is not cut into slots,
 * C(s,t,.) is kept as the sorted list of its breakpoints.
 *
 * C_2(k) is the merge of two lists. Three facts keep it cheap, none changes a value: all its costs
 * are at least those of computing nothing else twice, so it matters only left of where the envelope
 * has got there; both lists decrease, so the sum eight breakpoints ahead bounds everything before;
 * and most k improve nothing, so the envelope is rebuilt only when one does. */
#include "start/rotor/breakpoints_table.h"

enum { LOOK_AHEAD = 8, CANCEL_EVENTS = 1 << 18, EVENTS_OF_A_POSITION = 4 };

typedef chain_breakpoint point;
typedef chain_breakpoint_list list;

/* ---- one cell: the envelope of its candidates ---- */

typedef struct worker {
    point *envelope, *found, *merged; /* lists under construction, of one capacity */
    point *pass, *longer;             /* the step function of a pass, of another capacity */
    size_t n_envelope, n_found, capacity, n_pass, pass_capacity;
    uint64_t n_points;
    double events, events_seen;
    remat_status status;
    model_arena *arena;
} worker;

/* Room for so many points in each of several lists of one capacity. */
static bool reserve_lists(point **const lists[], int n, size_t *capacity, size_t need)
{
    size_t larger = *capacity;
    for (int i = 0; i < n; i++) {
        larger = *capacity;
        if (!model_reserve(lists[i], &larger, need, sizeof **lists[i]))
            return false;
    }
    *capacity = larger;
    return true;
}

static bool reserve(worker *w, size_t need)
{
    point **const lists[] = {&w->envelope, &w->found, &w->merged};
    return reserve_lists(lists, 3, &w->capacity, need);
}

static bool reserve_pass(worker *w, size_t need)
{
    point **const lists[] = {&w->pass, &w->longer};
    return reserve_lists(lists, 2, &w->pass_capacity, need);
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
 *
 * At each turn f[i] and g[j] are the values of right and left in `at` bytes and envelope[e-1] is
 * that of the envelope; every breakpoint of the sum before `at` has been pushed or is no better
 * than the envelope. All three step functions only fall with bytes: where the sum LOOK_AHEAD
 * breakpoints ahead in both lists is no better than the envelope is already at `at`, nothing is
 * until one of the lists has passed its own, and `at` goes there. */
static void find_improvements(worker *w, const list *right, uint64_t shift, const list *left,
                              int64_t cost, uint64_t from, uint64_t until)
{
    const point *f = right->points, *g = left->points, *envelope = w->envelope;
    size_t nf = right->count, ng = left->count, ne = w->n_envelope, e = 0;
    size_t i = (size_t)chain_breakpoints_last(right, from - shift),
           j = (size_t)chain_breakpoints_last(left, from);
    size_t steps = 0;
    list so_far = {w->envelope, ne};
    e = (size_t)(chain_breakpoints_last(&so_far, from) + 1); /* the envelope's next point */
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

/* ---- C_1 and leaves ---- */

/* Candidates of C_1 with one implementation of F_all and B; returns how many. */
static size_t list_save(const chain_costs *chain, const chain_double *save, const list *next,
                        uint32_t t, point *to)
{
    uint64_t need = chain_need_save(chain, save, t);
    size_t count = 0;
    for (size_t i = 0; i < next->count; i++) {
        uint64_t bytes = model_larger(need, next->points[i].bytes + save->kept);
        if (count > 0 && to[count - 1].bytes == bytes)
            count--;
        to[count++] = (point){bytes, next->points[i].ticks + save->ticks};
    }
    return count;
}

static bool start_with_saves(worker *w, const chain_costs *chain, const list *next, uint32_t s,
                             uint32_t t)
{
    const chain_stage *stage = &chain->stages[s];
    if (!reserve(w, (stage->n_saves + 1) * next->count))
        return false;
    w->n_envelope = list_save(chain, &stage->saves[0], next, t, w->envelope);
    for (uint32_t i = 1; i < stage->n_saves; i++) {
        w->n_found = list_save(chain, &stage->saves[i], next, t, w->found);
        merge_found(w);
    }
    return true;
}

static void offer(worker *w, uint64_t bytes, int64_t ticks)
{
    w->n_found = 0;
    push_found(w, bytes, ticks);
    merge_found(w);
}

/* envelope := the sub-chain of one stage. */
static bool start_with_leaf(worker *w, const chain_costs *chain, uint32_t s)
{
    const chain_stage *stage = &chain->stages[s];
    if (!reserve(w, (size_t)stage->n_saves + stage->n_directs))
        return false;
    for (uint32_t i = 0; i < stage->n_saves; i++)
        offer(w, chain_need_save(chain, &stage->saves[i], s), stage->saves[i].ticks);
    for (uint32_t i = 0; i < stage->n_directs; i++)
        offer(w, stage->directs[i].bytes, stage->directs[i].ticks);
    return true;
}

/* ---- C_2 ---- */

/* pass := the pass with F^j at its end, the sum of two step functions. */
static bool extend_pass(worker *w, const chain_costs *chain, uint32_t s, uint32_t j, uint32_t t)
{
    const chain_stage *stage = &chain->stages[j];
    const chain_single *implementations = stage->passes;
    uint64_t base = chain_need_pass(chain, s, j, t);
    if (!reserve_pass(w, w->n_pass + stage->n_passes + 1))
        return false;
    if (w->n_pass == 0)
        w->pass[w->n_pass++] = (point){0, 0};
    size_t count = 0, i = 0, k = 0;
    uint64_t at = model_larger(w->pass[0].bytes, base + implementations[0].bytes);
    while (at < UINT64_MAX) {
        while (i + 1 < w->n_pass && w->pass[i + 1].bytes <= at)
            i++;
        while (k + 1 < stage->n_passes && base + implementations[k + 1].bytes <= at)
            k++;
        w->longer[count++] = (point){at, w->pass[i].ticks + implementations[k].ticks};
        uint64_t next = i + 1 < w->n_pass ? w->pass[i + 1].bytes : UINT64_MAX;
        at = k + 1 < stage->n_passes && base + implementations[k + 1].bytes < next
                 ? base + implementations[k + 1].bytes
                 : next;
    }
    point *swap = w->pass;
    w->pass = w->longer;
    w->longer = swap;
    w->n_pass = count;
    w->events += (double)(count - 1);
    return true;
}

/* Candidates of C_2 for the k whose pass is in w->pass: piece by piece of its step function. */
static bool add_pass(worker *w, const chain_costs *chain, const list *right, const list *left,
                     uint32_t k)
{
    w->events += EVENTS_OF_A_POSITION;
    if (right->count == 0 || left->count == 0)
        return true;
    uint64_t shift = chain->output[k - 1];
    uint64_t first = model_larger(right->points[0].bytes + shift, left->points[0].bytes);
    int64_t rest = right->points[right->count - 1].ticks + left->points[left->count - 1].ticks;
    const list pass = {w->pass, w->n_pass};
    ptrdiff_t piece = chain_breakpoints_last(&pass, first);
    w->n_found = 0;
    for (size_t i = piece < 0 ? 0 : (size_t)piece; i < pass.count; i++) {
        uint64_t from = model_larger(first, pass.points[i].bytes);
        uint64_t until = reached(w, pass.points[i].ticks + rest);
        if (i + 1 < pass.count && pass.points[i + 1].bytes < until)
            until = pass.points[i + 1].bytes;
        w->events += i > 0;
        if (from >= until)
            continue;
        if (!reserve(w, w->n_envelope + w->n_found + right->count + left->count))
            return false;
        find_improvements(w, right, shift, left, pass.points[i].ticks, from, until);
    }
    if (w->n_found > 0)
        merge_found(w);
    return true;
}

typedef struct run {
    chain_breakpoints *table;
    const chain_costs *chain;
    const remat_host *host;
    worker *workers;
    uint32_t length; /* t - s of the diagonal under way */
    uint64_t points_limit;
    double events_limit;
} run;

static bool build_envelope(const run *r, worker *w, uint32_t s, uint32_t t)
{
    const chain_costs *chain = r->chain;
    w->n_envelope = w->n_pass = 0;
    if (s == t)
        return start_with_leaf(w, chain, s);
    const list *next = chain_breakpoints_cell(r->table, s + 1, t);
    if (!r->table->inputs_only && !start_with_saves(w, chain, next, s, t))
        return false;
    for (uint32_t k = s + 1; k <= t; k++) {
        const list *right = chain_breakpoints_cell(r->table, k, t);
        const list *left = chain_breakpoints_cell(r->table, s, k - 1);
        if (!extend_pass(w, chain, s, k - 1, t) || !add_pass(w, chain, right, left, k))
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
    list *target = &r->table->cells[chain_cell(r->table->n, s, t)];
    point *points = NULL;
    if (build_envelope(r, w, s, t))
        points = model_arena_array(w->arena, w->n_envelope, sizeof *points);
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

static chain_breakpoints *breakpoints_allocate(uint32_t n, bool inputs_only, unsigned n_workers)
{
    chain_breakpoints *table = calloc(1, sizeof *table);
    if (!table)
        return NULL;
    table->n = n;
    table->inputs_only = inputs_only;
    table->n_workers = n_workers;
    table->cells = calloc(chain_cells(n), sizeof *table->cells);
    table->arenas = calloc(n_workers, sizeof *table->arenas);
    if (table->cells && table->arenas)
        return table;
    chain_breakpoints_free(table);
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

remat_status chain_breakpoints_new(const chain_costs *chain, bool inputs_only,
                                   chain_breakpoints_limits limits, const remat_host *host,
                                   chain_breakpoints **ret, remat_error *error)
{
    run r = {.chain = chain,
             .host = host,
             .points_limit = limits.bytes ? limits.bytes / sizeof(point) : UINT64_MAX,
             .events_limit = limits.events > 0 ? limits.events : 1e300};
    unsigned n_workers = remat_host_workers(host);
    r.table = breakpoints_allocate(chain->n, inputs_only, n_workers);
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
        free(r.workers[i].pass);
        free(r.workers[i].longer);
    }
    free(r.workers);
    if (status) {
        chain_breakpoints_free(r.table);
        return fail_run(status, &r, error);
    }
    *ret = r.table;
    return REMAT_OK;
}

void chain_breakpoints_free(chain_breakpoints *table)
{
    if (!table)
        return;
    for (unsigned i = 0; table->arenas && i < table->n_workers; i++)
        model_arena_clear(&table->arenas[i]);
    free(table->arenas);
    free(table->cells);
    free(table);
}

uint64_t chain_breakpoints_bytes(const chain_breakpoints *table)
{
    return sizeof *table + chain_cells(table->n) * sizeof(list) + table->n_points * sizeof(point);
}

list chain_breakpoints_answer(const chain_breakpoints *table)
{
    return *chain_breakpoints_cell(table, 1, table->n);
}
