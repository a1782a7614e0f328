/* A list is a row of items: runs (F, A or B of a node), copies out (O) and fetches (P). D, X and
 * whether a forward saves follow from it. One pass from the end finds the last use of everything
 * and with it the bytes during each item; one pass from the start plays the compute stream and the
 * two of the link. What dies while its copy is under way stays until the copy has ended or, where
 * the budget needs the room earlier, compute waits for it: a D as late as memory allows is never
 * worse than an earlier one, so it has no place of its own in the search.
 *
 * Moves take away a rerun or a fetch, put one before a use, turn one into the other, or give a
 * fetch another lead. They may make a list invalid or too large: the first is refused, the second
 * costs a price for each byte, which follows how often lists fit. Simulated annealing, from several
 * seeds; the best list that fits is kept. */
#include "search/mixed.h"

#include "model/arena.h"
#include "model/arrays.h"
#include "model/lists.h"

#include <math.h>
#include <stdlib.h>

#define NONE UINT32_MAX
enum { SEEDS = 8, LONGEST_LEAD = 200, MOST_REMADE = 12, LOOK = 256, PRICE_STEP = 200, FAR = 30 };

typedef enum item_kind { RUN, OUT, FETCH } item_kind;

typedef struct item {
    uint32_t id;    /* task of a run: v, or n + v of a backward; of the others the thing */
    uint16_t way;   /* implementation of a run */
    uint8_t kind;   /* item_kind */
    uint8_t always; /* a first run or a backward: it stays, where it is */
} item;

typedef struct row {
    item *items;
    uint32_t length;
} row;

/* What a run costs: time, and bytes during it beside what is alive. */
typedef struct run_cost {
    double time, bytes;
} run_cost;

/* The profile as lists of things: a value is itself, saved(v) is n_values + v. */
typedef struct things {
    const remat_profile *profile;
    const remat_link *link;
    uint32_t n, n_values, n_things;
    uint32_t *first_read; /* by task: its reads, up to those of the next */
    uint32_t *reads;
    double *bytes;  /* by thing, at multiples of the alignment; of saved(v) as its backward says */
    double *copied; /* by thing: bytes that go over the link */
    double *gradient;       /* by value: of nodes and graph inputs */
    uint16_t *backward_way; /* by node */
    bool *movable;          /* by thing */
    uint64_t alignment;
    run_cost *own, *saving; /* by task: of its own implementation; of an A */
    uint32_t *over;         /* by node: what an in-place one may overwrite, or NONE */
    double budget;
    double total_time;
    model_arena arena;
} things;

/* What one evaluation says of a row. */
typedef struct worth {
    double time, excess; /* makespan; bytes past the budget, summed over the items */
    bool valid;
} worth;

/* One seed's search. */
typedef struct mixer {
    const things *t;
    const remat_host *host;
    row now, next, best;
    uint32_t room; /* of items in each row */
    uint64_t random;
    double best_time, price, temperature;
    uint64_t work, limit;
    /* of an evaluation */
    uint32_t *last;      /* by thing: its last use so far, or NONE */
    uint8_t *used;       /* by thing: something later reads it */
    uint8_t *wanted;     /* by thing: a fetch to come needs its copy */
    uint8_t *leaves;     /* by thing: of graph inputs, whether they are copied out */
    uint32_t *span_last; /* by value: last run that touches its gradient */
    uint32_t *span_first;
    double *change, *extra;   /* by item: bytes from here on; bytes during it alone */
    uint8_t *skipped, *saves; /* by item: does nothing; is an A */
    uint32_t *dies;           /* by item: the first of the deaths there that are written down */
    uint32_t *death_thing, *death_next;
    uint32_t n_deaths;
    double *copy_end, *ready; /* by thing */
    uint32_t *pending;        /* things that died with their copy under way */
    uint32_t n_pending;
    double pending_bytes;
    remat_status status;
} mixer;

/* ---- the profile ---- */

static double rounded(const things *t, uint64_t bytes)
{
    return (double)((bytes + t->alignment - 1) / t->alignment * t->alignment);
}

static bool is_backward(const things *t, uint32_t task)
{
    return task >= t->n;
}

static const remat_node *node_of(const things *t, uint32_t task)
{
    return &t->profile->nodes[task < t->n ? task : task - t->n];
}

static bool is_input(const things *t, uint32_t x)
{
    return x >= t->n && x < t->n + t->profile->n_inputs;
}

static uint32_t saved_thing(const things *t, uint32_t v)
{
    return t->n_values + v;
}

static bool allocate_things(things *t)
{
    const uint32_t n = t->n, tasks = 2 * n;
    model_arena *a = &t->arena;
    t->first_read = model_arena_array(a, (size_t)tasks + 1, sizeof *t->first_read);
    size_t reads = 0;
    for (uint32_t v = 0; v < n; v++)
        reads += 2 * (size_t)t->profile->nodes[v].n_inputs + 2;
    t->reads = model_arena_array(a, reads + 1, sizeof *t->reads);
    t->bytes = model_arena_array(a, t->n_things, sizeof *t->bytes);
    t->copied = model_arena_array(a, t->n_things, sizeof *t->copied);
    t->gradient = model_arena_array(a, t->n_values, sizeof *t->gradient);
    t->backward_way = model_arena_array(a, n, sizeof *t->backward_way);
    t->movable = model_arena_array(a, t->n_things, sizeof *t->movable);
    t->own = model_arena_array(a, tasks, sizeof *t->own);
    t->saving = model_arena_array(a, n, sizeof *t->saving);
    t->over = model_arena_array(a, n, sizeof *t->over);
    return t->own && t->saving && t->over && t->first_read && t->reads && t->bytes && t->copied &&
           t->gradient && t->backward_way && t->movable;
}

static void list_task_reads(things *t)
{
    uint32_t at = 0;
    for (uint32_t task = 0; task < 2 * t->n; task++) {
        const remat_node *node = node_of(t, task);
        const bool backward = is_backward(t, task);
        t->first_read[task] = at;
        for (uint32_t i = 0; i < node->n_inputs && (!backward || node->backward_uses_inputs); i++)
            t->reads[at++] = node->inputs[i];
        if (backward && node->backward_uses_output)
            t->reads[at++] = task - t->n;
        if (backward && t->bytes[saved_thing(t, task - t->n)] > 0)
            t->reads[at++] = saved_thing(t, task - t->n);
    }
    t->first_read[2 * t->n] = at;
}

static run_cost forward_cost(const things *t, uint32_t v, uint16_t way)
{
    const remat_alternative cost = remat_implementation(&t->profile->nodes[v], way);
    return (run_cost){cost.forward_time, rounded(t, cost.forward_workspace_bytes)};
}

static void list_costs(things *t)
{
    for (uint32_t v = 0; v < t->n; v++) {
        const remat_node *node = &t->profile->nodes[v];
        const remat_alternative back = remat_implementation(node, t->backward_way[v]);
        t->own[v] = forward_cost(t, v, 0);
        t->own[t->n + v] =
            (run_cost){back.backward_time, rounded(t, back.backward_workspace_bytes)};
        t->saving[v] = (run_cost){back.forward_time, rounded(t, back.save_workspace_bytes)};
        t->over[v] = node->in_place && node->n_inputs > 0 ? node->inputs[0] : NONE;
    }
}

/* Sizes; saved bytes are those of the implementation that the list's backward runs. */
static void list_sizes(things *t, const remat_operations *start)
{
    const remat_profile *p = t->profile;
    for (size_t i = 0; i < start->length; i++)
        if (start->items[i].kind == REMAT_B)
            t->backward_way[start->items[i].index] = start->items[i].alternative;
    for (uint32_t x = 0; x < t->n_values; x++) {
        t->bytes[x] = rounded(t, remat_value_bytes(p, x));
        t->copied[x] = (double)remat_value_bytes(p, x);
        t->movable[x] =
            t->copied[x] > 0 && !(remat_is_result(p, x) && p->nodes[remat_value_node(p, x)].keep);
    }
    for (uint32_t v = 0; v < t->n; v++) {
        const uint64_t saved = remat_implementation(&p->nodes[v], t->backward_way[v]).saved_bytes;
        t->bytes[saved_thing(t, v)] = p->joint ? 0 : rounded(t, saved);
        t->copied[saved_thing(t, v)] = p->joint ? 0 : (double)saved;
        t->movable[saved_thing(t, v)] = t->copied[saved_thing(t, v)] > 0;
        t->gradient[v] = rounded(t, p->nodes[v].gradient_bytes);
    }
    for (uint32_t k = 0; k < p->n_inputs; k++)
        t->gradient[t->n + k] = rounded(t, p->inputs[k].gradient_bytes);
    t->total_time = p->forward_time + p->backward_time;
}

static remat_status things_init(things *t, const remat_profile *profile, const remat_link *link,
                                const remat_operations *start, uint64_t budget, uint32_t alignment)
{
    *t = (things){.profile = profile,
                  .link = link,
                  .n = profile->n_nodes,
                  .n_values = remat_n_values(profile),
                  .n_things = remat_n_values(profile) + profile->n_nodes,
                  .alignment = alignment ? alignment : 1,
                  .budget = (double)budget};
    if (!allocate_things(t))
        return REMAT_NO_MEMORY;
    list_sizes(t, start);
    list_costs(t);
    list_task_reads(t);
    return REMAT_OK;
}

/* ---- the pass from the end: uses and bytes ---- */

/* x is there from item `from` to its last use, or during `from` alone. */
static void lives(mixer *m, uint32_t x, uint32_t from)
{
    const uint32_t last = m->last[x] == NONE ? from : m->last[x];
    m->change[from] += m->t->bytes[x];
    m->change[last + 1] -= m->t->bytes[x];
    m->last[x] = NONE;
}

static void uses(mixer *m, uint32_t x, uint32_t i)
{
    if (m->last[x] == NONE)
        m->last[x] = i;
    m->used[x] = true;
}

static void touch_gradients(mixer *m, uint32_t v, uint32_t i)
{
    const remat_node *node = &m->t->profile->nodes[v];
    if (m->span_last[v] == NONE)
        m->span_last[v] = i;
    m->span_first[v] = i;
    for (uint32_t k = 0; k < node->n_inputs; k++) {
        const uint32_t u = node->inputs[k];
        if (m->span_last[u] == NONE)
            m->span_last[u] = u < m->t->n ? i : NONE - 1; /* a graph input's stays to the end */
        m->span_first[u] = i;
    }
}

static run_cost cost_of(const things *t, const item *it, bool saves)
{
    return saves                                    ? t->saving[it->id]
           : it->way == 0 || is_backward(t, it->id) ? t->own[it->id]
                                                    : forward_cost(t, it->id, it->way);
}

/* Bytes during a run beside what is alive: its workspace, less what an in-place node overwrites. */
static double extra_of(const mixer *m, const item *it, bool saves)
{
    const things *t = m->t;
    const uint32_t u = is_backward(t, it->id) ? NONE : t->over[it->id];
    const double bytes = cost_of(t, it, saves).bytes;
    if (u == NONE || !remat_is_result(t->profile, u) || m->used[u])
        return bytes;
    return bytes - fmin(t->bytes[u], t->bytes[it->id]);
}

static void run_backwards(mixer *m, const item *it, uint32_t i)
{
    const things *t = m->t;
    const remat_profile *p = t->profile;
    m->saves[i] = false;
    if (!is_backward(t, it->id)) {
        const uint32_t v = it->id, saved = saved_thing(t, v);
        m->saves[i] = m->last[saved] != NONE;
        if (m->saves[i])
            lives(m, saved, i);
        for (uint32_t k = 0; k < p->nodes[v].n_outputs; k++)
            lives(m, remat_result_value(p, v, k), i);
    } else {
        touch_gradients(m, it->id - t->n, i);
    }
    m->extra[i] = extra_of(m, it, m->saves[i]);
    for (uint32_t k = t->first_read[it->id]; k < t->first_read[it->id + 1]; k++)
        uses(m, t->reads[k], i);
}

/* Deaths that liveness leaves to us: of what is copied, and of graph inputs. */
static void dies_at(mixer *m, uint32_t x, uint32_t i)
{
    m->death_thing[m->n_deaths] = x;
    m->death_next[m->n_deaths] = m->dies[i];
    m->dies[i] = m->n_deaths++;
}

static void copy_backwards(mixer *m, const item *it, uint32_t i)
{
    const uint32_t x = it->id;
    m->extra[i] = 0;
    if (it->kind == FETCH) {
        m->skipped[i] = m->last[x] == NONE;
        if (m->skipped[i])
            return;
        if (is_input(m->t, x))
            dies_at(m, x, m->last[x]);
        lives(m, x, i);
        m->wanted[x] = true;
        return;
    }
    /* a graph input that nobody reads again may leave for good, but not without a copy */
    m->skipped[i] = !m->wanted[x] && (!is_input(m->t, x) || m->leaves[x]);
    if (m->skipped[i])
        return;
    uses(m, x, i);
    m->wanted[x] = false;
    m->leaves[x] = true;
    dies_at(m, x, m->last[x]);
}

static void reset(mixer *m, uint32_t length)
{
    const things *t = m->t;
    memset(m->last, 0xff, t->n_things * sizeof *m->last);
    memset(m->span_last, 0xff, t->n_values * sizeof *m->span_last);
    memset(m->used, 0, t->n_things);
    memset(m->wanted, 0, t->n_things);
    memset(m->leaves, 0, t->n_things);
    memset(m->change, 0, (length + 2) * sizeof *m->change);
    memset(m->skipped, 0, length);
    memset(m->dies, 0xff, (length + 1) * sizeof *m->dies);
    m->n_deaths = 0;
}

/* Gradients, and graph inputs that leave. False: something is read that was never made. */
static bool close_start(mixer *m, uint32_t length)
{
    const things *t = m->t;
    const uint32_t n = t->n, inputs = t->profile->n_inputs;
    for (uint32_t x = 0; x < t->n_things; x++) {
        const bool input = is_input(t, x);
        if (m->wanted[x] || (m->last[x] != NONE && !input))
            return false;
        if (input && m->leaves[x]) {
            m->change[0] += t->bytes[x];
            m->change[m->last[x] + 1] -= t->bytes[x];
        } else if (input) {
            m->change[0] += t->bytes[x];
        }
    }
    for (uint32_t u = 0; u < n + inputs && !t->profile->joint; u++) {
        if (m->span_last[u] == NONE)
            continue;
        const uint32_t last = m->span_last[u] < length ? m->span_last[u] : length;
        m->change[m->span_first[u]] += t->gradient[u];
        m->change[last + 1 < length ? last + 1 : length] -= t->gradient[u];
    }
    return true;
}

/* B of an in-place node puts its input's gradient where its own is, if that one starts there. */
static void overlap_gradients(mixer *m, const row *r)
{
    const things *t = m->t;
    for (uint32_t i = 0; i < r->length; i++) {
        const item *it = &r->items[i];
        if (it->kind != RUN || !is_backward(t, it->id))
            continue;
        const uint32_t v = it->id - t->n, u = t->over[v];
        if (u != NONE && m->span_first[u] == i)
            m->extra[i] -= fmin(t->gradient[v], t->gradient[u]);
    }
}

static bool look_back(mixer *m, const row *r)
{
    reset(m, r->length);
    for (uint32_t k = 0; k < m->t->profile->n_outputs; k++)
        uses(m, m->t->profile->outputs[k], r->length);
    for (uint32_t i = r->length; i-- > 0;) {
        if (r->items[i].kind == RUN)
            run_backwards(m, &r->items[i], i);
        else
            copy_backwards(m, &r->items[i], i);
    }
    if (!close_start(m, r->length))
        return false;
    if (!m->t->profile->joint)
        overlap_gradients(m, r);
    return true;
}

/* ---- the pass from the start: time ---- */

/* What plays the streams; with a list it writes the operations down. */
typedef struct play {
    mixer *m;
    const row *row;
    double now, out_free, in_free, inflight; /* inflight: the last fetch has ended then */
    double alive;                            /* bytes, by the pass from the end */
    worth *worth;
    remat_operations *list; /* NULL: none is wanted */
    bool failed;
} play;

static void emit(play *p, remat_operation_kind kind, uint32_t x)
{
    const things *t = p->m->t;
    const remat_profile *profile = t->profile;
    remat_operation o = {.kind = (uint8_t)kind};
    if (!p->list)
        return;
    if (x >= t->n_values) {
        o.target = REMAT_SAVED;
        o.index = x - t->n_values;
    } else if (!remat_is_result(profile, x)) {
        o.target = REMAT_INPUT;
        o.index = x - t->n;
    } else {
        o.target = REMAT_OUT;
        o.index = remat_value_node(profile, x);
        o.version = remat_value_number(profile, x);
    }
    p->failed = p->failed || remat_operations_push(p->list, o);
}

static void emit_run(play *p, uint32_t i)
{
    const things *t = p->m->t;
    const item *it = &p->row->items[i];
    if (!p->list)
        return;
    const uint32_t v = it->id < t->n ? it->id : it->id - t->n;
    const bool backward = is_backward(t, it->id), saves = p->m->saves[i];
    p->failed = p->failed ||
                remat_operations_push(
                    p->list,
                    (remat_operation){
                        .kind = (uint8_t)(backward ? REMAT_B
                                          : saves  ? REMAT_A
                                                   : REMAT_F),
                        .alternative = (uint16_t)(backward || saves ? t->backward_way[v] : it->way),
                        .index = v});
}

/* Takes pending thing number k off; compute has waited for it. */
static void let_go(play *p, uint32_t k)
{
    mixer *m = p->m;
    const uint32_t x = m->pending[k];
    p->now = fmax(p->now, m->copy_end[x]);
    m->pending_bytes -= m->t->bytes[x];
    m->pending[k] = m->pending[--m->n_pending];
    emit(p, REMAT_D, x);
}

/* Frees what has been copied and, if the item's bytes need it, waits for more. */
static void make_room(play *p, double during)
{
    mixer *m = p->m;
    for (uint32_t k = m->n_pending; k-- > 0;)
        if (m->copy_end[m->pending[k]] <= p->now)
            let_go(p, k);
    while (m->n_pending > 0 && during <= m->t->budget && during + m->pending_bytes > m->t->budget) {
        uint32_t first = 0;
        for (uint32_t k = 1; k < m->n_pending; k++)
            if (m->copy_end[m->pending[k]] < m->copy_end[m->pending[first]])
                first = k;
        let_go(p, first);
    }
}

/* Before x is made or fetched anew, what is left of it goes. */
static void clear_pending(play *p, uint32_t x)
{
    for (uint32_t k = p->m->n_pending; k-- > 0;)
        if (p->m->pending[k] == x)
            let_go(p, k);
}

static void play_run(play *p, uint32_t i)
{
    mixer *m = p->m;
    const things *t = m->t;
    const item *it = &p->row->items[i];
    const uint32_t v = it->id < t->n ? it->id : it->id - t->n;
    const remat_node *node = &t->profile->nodes[v];
    const bool backward = is_backward(t, it->id);
    if (!backward) {
        if (m->n_pending > 0) {
            for (uint32_t k = 0; k < node->n_outputs; k++)
                clear_pending(p, remat_result_value(t->profile, v, k));
            clear_pending(p, saved_thing(t, v));
        }
        for (uint32_t k = 0; k < node->n_outputs; k++)
            m->ready[remat_result_value(t->profile, v, k)] = 0;
        m->ready[saved_thing(t, v)] = 0;
    }
    if (p->inflight > p->now)
        for (uint32_t k = t->first_read[it->id]; k < t->first_read[it->id + 1]; k++)
            p->now = fmax(p->now, m->ready[t->reads[k]]);
    p->now += cost_of(t, it, m->saves[i]).time;
    emit_run(p, i);
}

static void play_copy(play *p, const item *it)
{
    mixer *m = p->m;
    const remat_link *link = m->t->link;
    const uint32_t x = it->id;
    const bool out = it->kind == OUT;
    double *stream = out ? &p->out_free : &p->in_free;
    if (!out)
        clear_pending(p, x);
    double start = fmax(fmax(p->now, *stream), out ? m->ready[x] : m->copy_end[x]);
    *stream = start + link->latency + m->t->copied[x] / (out ? link->to_host : link->to_device);
    if (link->shared)
        p->out_free = p->in_free = *stream;
    if (out) {
        m->copy_end[x] = *stream;
    } else {
        m->ready[x] = *stream;
        p->inflight = fmax(p->inflight, *stream);
    }
    emit(p, out ? REMAT_O : REMAT_P, x);
}

/* Dropped at once, or once its copy has ended. B frees saved values, and waits. */
static void park_dying(play *p, uint32_t i)
{
    mixer *m = p->m;
    const item *it = &p->row->items[i];
    for (uint32_t k = m->dies[i]; k != NONE; k = m->death_next[k]) {
        const uint32_t x = m->death_thing[k];
        const bool freed = it->kind == RUN && is_backward(m->t, it->id) &&
                           x == saved_thing(m->t, it->id - m->t->n);
        if (freed) {
            p->now = fmax(p->now, m->copy_end[x]);
        } else if (m->copy_end[x] > p->now) {
            m->pending[m->n_pending++] = x;
            m->pending_bytes += m->t->bytes[x];
        } else {
            emit(p, REMAT_D, x);
        }
    }
}

static void play_row(play *p)
{
    mixer *m = p->m;
    const row *r = p->row;
    m->n_pending = 0;
    m->pending_bytes = 0;
    memset(m->ready, 0, m->t->n_things * sizeof *m->ready);
    for (uint32_t i = 0; i < r->length; i++) {
        p->alive += m->change[i];
        if (m->skipped[i])
            continue;
        const double during = p->alive + m->extra[i];
        if (during > m->t->budget)
            p->worth->excess += during - m->t->budget;
        if (m->n_pending > 0)
            make_room(p, during);
        if (r->items[i].kind == RUN)
            play_run(p, i);
        else
            play_copy(p, &r->items[i]);
        park_dying(p, i);
    }
    for (uint32_t k = 0; k < m->t->profile->n_outputs; k++)
        p->now = fmax(p->now, m->ready[m->t->profile->outputs[k]]);
    p->worth->time = p->now;
}

static worth evaluate(mixer *m, const row *r)
{
    worth w = {.valid = look_back(m, r)};
    m->work += r->length;
    if (!w.valid)
        return w;
    play p = {.m = m, .row = r, .worth = &w};
    play_row(&p);
    return w;
}

/* ---- lists and rows ---- */

static bool row_new(row *r, uint32_t room)
{
    r->items = malloc(room * sizeof *r->items);
    return r->items != NULL;
}

static void row_copy(const row *from, row *to)
{
    memcpy(to->items, from->items, from->length * sizeof *from->items);
    to->length = from->length;
}

static void row_insert(mixer *m, row *r, uint32_t at, item it)
{
    if (r->length == m->room)
        return;
    memmove(&r->items[at + 1], &r->items[at], (r->length - at) * sizeof *r->items);
    r->items[at] = it;
    r->length++;
}

static void row_delete(row *r, uint32_t at)
{
    memmove(&r->items[at], &r->items[at + 1], (r->length - at - 1) * sizeof *r->items);
    r->length--;
}

static uint32_t thing_of(const things *t, const remat_operation *o)
{
    return o->target == REMAT_SAVED   ? t->n_values + o->index
           : o->target == REMAT_INPUT ? t->n + o->index
                                      : remat_operation_value(t->profile, o);
}

static void read_list(const things *t, const remat_operations *list, bool *ran, row *ret_row)
{
    for (size_t i = 0; i < list->length; i++) {
        const remat_operation *o = &list->items[i];
        item it = {.id = o->index, .way = o->alternative, .kind = RUN};
        if (o->kind == REMAT_B) {
            it.id = t->n + o->index;
            it.always = true;
        } else if (o->kind == REMAT_F || o->kind == REMAT_A) {
            it.always = !ran[o->index];
            ran[o->index] = true;
        } else if (o->kind == REMAT_O || o->kind == REMAT_P) {
            it = (item){.id = thing_of(t, o), .kind = o->kind == REMAT_O ? OUT : FETCH};
        } else {
            continue;
        }
        ret_row->items[ret_row->length++] = it;
    }
}

/* The list of a row, whole. */
static remat_status write_list(mixer *m, const row *r, remat_operations *ret_list,
                               remat_error *error)
{
    worth w = {.valid = look_back(m, r)};
    remat_operations list = {0};
    play p = {.m = m, .row = r, .worth = &w, .list = &list};
    play_row(&p);
    remat_status status = p.failed ? remat_fail_memory(error)
                                   : model_complete_list(m->t->profile, &list, ret_list, error);
    remat_operations_clear(&list);
    return status;
}

/* ---- moves ---- */

static uint32_t draw(mixer *m, uint32_t below)
{
    m->random ^= m->random >> 12;
    m->random ^= m->random << 25;
    m->random ^= m->random >> 27;
    return (uint32_t)(((m->random * UINT64_C(0x2545F4914F6CDD1D)) >> 32) * below >> 32);
}

static double draw_unit(mixer *m)
{
    return ((double)draw(m, 1u << 30) + 1) * 0x1p-30;
}

static uint32_t draw_lead(mixer *m, double mean)
{
    const double lead = 1 - mean * log(draw_unit(m));
    return lead < LONGEST_LEAD ? (uint32_t)lead : (uint32_t)LONGEST_LEAD;
}

static bool makes(const things *t, const item *it, uint32_t x)
{
    if (it->kind != RUN)
        return it->kind == FETCH && it->id == x;
    if (is_backward(t, it->id))
        return false;
    return x >= t->n_values
               ? it->id == x - t->n_values
               : remat_is_result(t->profile, x) && it->id == remat_value_node(t->profile, x);
}

static bool reads(const things *t, const item *it, uint32_t x)
{
    for (uint32_t k = it->kind == RUN ? t->first_read[it->id] : 0;
         it->kind == RUN && k < t->first_read[it->id + 1]; k++)
        if (t->reads[k] == x)
            return true;
    return false;
}

static bool touches(const things *t, const item *it, uint32_t x)
{
    return makes(t, it, x) || reads(t, it, x) || (it->kind == OUT && it->id == x);
}

/* So many items before `at`, or as many as do not touch x. */
static uint32_t lead_from(mixer *m, const row *r, uint32_t x, uint32_t at, uint32_t lead)
{
    uint32_t from = at;
    while (from > 0 && at - from < lead && !touches(m->t, &r->items[from - 1], x))
        from--;
    m->work += (at - from) / 4; /* a look costs less than an evaluation */
    return from;
}

/* An item that may go, of a kind; NONE where chance has found none. */
static uint32_t draw_item(mixer *m, const row *r, item_kind kind)
{
    for (int k = 0; k < 32; k++) {
        const uint32_t i = draw(m, r->length);
        if (r->items[i].kind == kind && !r->items[i].always)
            return i;
    }
    return NONE;
}

static uint32_t find(const row *r, item_kind kind, uint32_t id)
{
    for (uint32_t i = 0; i < r->length; i++)
        if (r->items[i].kind == kind && r->items[i].id == id)
            return i;
    return NONE;
}

/* The copy out that a fetch at `at` needs, right after the thing is first made; false: it is not.
 */
static bool ensure_copy(mixer *m, row *r, uint32_t x, uint32_t *at)
{
    uint32_t i = find(r, OUT, x);
    if (i != NONE)
        return i < *at;
    const uint32_t maker = x >= m->t->n_values ? x - m->t->n_values
                           : is_input(m->t, x) ? NONE
                                               : remat_value_node(m->t->profile, x);
    i = maker == NONE ? 0 : find(r, RUN, maker) + 1;
    if (i > *at)
        return false;
    row_insert(m, r, i, (item){.id = x, .kind = OUT});
    ++*at;
    return true;
}

static bool put_fetch(mixer *m, row *r, uint32_t x, uint32_t use)
{
    if (!m->t->movable[x])
        return false;
    uint32_t at = lead_from(m, r, x, use, draw_lead(m, draw(m, 2) ? 6 : 60));
    if (at == use || !ensure_copy(m, r, x, &at))
        return false;
    row_insert(m, r, at, (item){.id = x, .kind = FETCH});
    return true;
}

static void drop_item(row *r, uint32_t i)
{
    const item gone = r->items[i];
    row_delete(r, i);
    const uint32_t copy =
        gone.kind == FETCH && find(r, FETCH, gone.id) == NONE ? find(r, OUT, gone.id) : NONE;
    if (copy != NONE)
        row_delete(r, copy);
}

/* A run of node v before `at`; of what it reads, what was not near comes back too, by chance. */
static void remake(mixer *m, row *r, uint32_t v, uint32_t at, int *left)
{
    const things *t = m->t;
    if (t->profile->nodes[v].once || --*left < 0)
        return;
    row_insert(m, r, at, (item){.id = v, .kind = RUN});
    const uint32_t window = draw_lead(m, 24);
    for (uint32_t k = t->first_read[v]; k < t->first_read[v + 1]; k++) {
        const uint32_t u = t->reads[k];
        const uint32_t from = lead_from(m, r, u, at, window);
        if (at - from < window || draw(m, 3) == 0)
            continue;
        const uint32_t length = r->length;
        if (draw(m, 3) == 0)
            put_fetch(m, r, u, at);
        else if (remat_is_result(t->profile, u))
            remake(m, r, remat_value_node(t->profile, u), at, left);
        at += r->length - length;
    }
}

static uint32_t first_use(const mixer *m, const row *r, uint32_t x, uint32_t from)
{
    for (uint32_t i = from; i < r->length; i++)
        if (reads(m->t, &r->items[i], x))
            return i;
    return NONE;
}

/* Before a use comes a fetch, or another run. */
static bool bring_back(mixer *m, row *r, bool fetch)
{
    const things *t = m->t;
    const uint32_t i = draw(m, r->length);
    const item *it = &r->items[i];
    if (it->kind != RUN || t->first_read[it->id] == t->first_read[it->id + 1])
        return false;
    const uint32_t n_reads = t->first_read[it->id + 1] - t->first_read[it->id];
    const uint32_t x = t->reads[t->first_read[it->id] + draw(m, n_reads)];
    if (fetch)
        return put_fetch(m, r, x, i);
    if (is_input(t, x))
        return false;
    const uint32_t v = x >= t->n_values ? x - t->n_values : remat_value_node(t->profile, x);
    const uint32_t at = lead_from(m, r, x, i, draw_lead(m, 2));
    int left = MOST_REMADE;
    if (at == 0 || touches(t, &r->items[at - 1], x))
        return false;
    remake(m, r, v, at, &left);
    return true;
}

static bool take_away(mixer *m, row *r)
{
    const uint32_t kind = draw(m, 24);
    const uint32_t i = draw_item(m, r, kind == 0 ? OUT : kind < 8 ? FETCH : RUN);
    if (i == NONE)
        return false;
    drop_item(r, i);
    return true;
}

/* A graph input leaves for good, or until it is fetched. */
static bool send_input(mixer *m, row *r)
{
    const uint32_t inputs = m->t->profile->n_inputs;
    const uint32_t x = m->t->n + (inputs > 0 ? draw(m, inputs) : 0);
    if (inputs == 0 || !m->t->movable[x] || find(r, OUT, x) != NONE)
        return false;
    row_insert(m, r, draw(m, 2) ? 0 : draw(m, r->length), (item){.id = x, .kind = OUT});
    return true;
}

/* A rerun becomes fetches of what it made. */
static bool run_to_fetch(mixer *m, row *r)
{
    const things *t = m->t;
    const uint32_t i = draw_item(m, r, RUN), which = 1 + draw(m, 3);
    if (i == NONE)
        return false;
    const uint32_t v = r->items[i].id;
    row_delete(r, i);
    for (uint32_t k = 0; k <= t->profile->nodes[v].n_outputs; k++) {
        const bool saved = k == t->profile->nodes[v].n_outputs;
        const uint32_t x = saved ? saved_thing(t, v) : remat_result_value(t->profile, v, k);
        const uint32_t use = which & (saved ? 1u : 2u) ? first_use(m, r, x, i) : NONE;
        if (use != NONE)
            put_fetch(m, r, x, use);
    }
    return true;
}

static bool fetch_to_run(mixer *m, row *r)
{
    const things *t = m->t;
    const uint32_t i = draw_item(m, r, FETCH);
    if (i == NONE || is_input(t, r->items[i].id))
        return false;
    const uint32_t x = r->items[i].id, length = r->length;
    drop_item(r, i);
    const uint32_t use = first_use(m, r, x, i - (length - r->length - 1));
    int left = MOST_REMADE;
    if (use != NONE)
        remake(m, r, x >= t->n_values ? x - t->n_values : remat_value_node(t->profile, x), use,
               &left);
    return true;
}

static bool move_fetch(mixer *m, row *r)
{
    const uint32_t i = draw_item(m, r, FETCH);
    if (i == NONE)
        return false;
    const item it = r->items[i];
    row_delete(r, i);
    const uint32_t use = first_use(m, r, it.id, i);
    if (use == NONE)
        return false;
    const uint32_t lead = draw_lead(m, draw(m, 2) ? 6 : 60);
    row_insert(m, r, lead_from(m, r, it.id, use, lead), it);
    return true;
}

/* A rerun or a copy out stands elsewhere, some items away. */
static bool shift(mixer *m, row *r, item_kind kind)
{
    const uint32_t i = draw_item(m, r, kind);
    if (i == NONE)
        return false;
    const item it = r->items[i];
    const uint32_t lead = draw_lead(m, 12);
    row_delete(r, i);
    const uint32_t to = draw(m, 2) ? i + lead : i > lead ? i - lead : 0;
    row_insert(m, r, to < r->length ? to : r->length - 1, it);
    return true;
}

static bool change_way(mixer *m, row *r)
{
    const uint32_t i = draw(m, r->length);
    item *it = &r->items[i];
    const uint32_t n = it->kind == RUN && !is_backward(m->t, it->id)
                           ? m->t->profile->nodes[it->id].n_alternatives
                           : 0;
    if (n == 0)
        return false;
    it->way = (uint16_t)draw(m, n + 1);
    return true;
}

static bool propose(mixer *m, row *r)
{
    const uint32_t kind = draw(m, 100);
    if (kind < 2)
        return send_input(m, r);
    if (kind < 22)
        return bring_back(m, r, true);
    if (kind < 32)
        return bring_back(m, r, false);
    if (kind < 54)
        return take_away(m, r);
    if (kind < 70)
        return run_to_fetch(m, r);
    if (kind < 78)
        return fetch_to_run(m, r);
    if (kind < 88)
        return move_fetch(m, r);
    if (kind < 91)
        return shift(m, r, OUT);
    if (kind < 97 || m->t->profile->n_alternatives == 0)
        return shift(m, r, RUN);
    return change_way(m, r);
}

/* ---- annealing ---- */

static void keep(mixer *m, const worth *w)
{
    if (w->excess > 0 || w->time >= m->best_time)
        return;
    m->best_time = w->time;
    row_copy(&m->now, &m->best);
}

static void anneal(mixer *m)
{
    worth now = evaluate(m, &m->now);
    const double hot = m->temperature * (now.excess > 0 ? FAR : 1); /* it has further to go */
    uint32_t tried = 0, fitted = 0;
    keep(m, &now);
    for (uint64_t k = 0; m->work < m->limit && now.valid; k++) {
        if (k % LOOK == 0 && remat_host_cancelled(m->host))
            break;
        row_copy(&m->now, &m->next);
        m->work += 1 + m->now.length / 16;
        if (!propose(m, &m->next) || m->next.length + 2 * MOST_REMADE > m->room)
            continue;
        const worth next = evaluate(m, &m->next);
        if (!next.valid)
            continue;
        const double temperature = hot * pow(0.01, (double)m->work / (double)m->limit);
        const double more = next.time - now.time + m->price * (next.excess - now.excess);
        if (more <= 0 || draw_unit(m) < exp(-more / temperature)) {
            row old = m->now;
            m->now = m->next;
            m->next = old;
            now = next;
            keep(m, &now);
        }
        fitted += now.excess == 0;
        if (++tried == PRICE_STEP) {
            m->price *= fitted < tried / 3 ? 1.25 : fitted > tried * 2 / 3 ? 0.8 : 1;
            tried = fitted = 0;
        }
    }
}

static bool mixer_init(mixer *m, const things *t, uint32_t length)
{
    const size_t things_n = t->n_things, room = 3 * (size_t)length + 2 * (size_t)t->n_things + 64;
    m->room = (uint32_t)room;
    m->last = malloc(things_n * sizeof *m->last);
    m->used = malloc(things_n);
    m->wanted = malloc(things_n);
    m->leaves = malloc(things_n);
    m->span_last = malloc(things_n * sizeof *m->span_last);
    m->span_first = malloc(things_n * sizeof *m->span_first);
    m->copy_end = calloc(things_n, sizeof *m->copy_end);
    m->ready = malloc(things_n * sizeof *m->ready);
    m->pending = malloc(room * sizeof *m->pending);
    m->change = malloc((room + 2) * sizeof *m->change);
    m->extra = malloc(room * sizeof *m->extra);
    m->skipped = malloc(room);
    m->saves = malloc(room);
    m->dies = malloc((room + 1) * sizeof *m->dies);
    m->death_thing = malloc(room * sizeof *m->death_thing);
    m->death_next = malloc(room * sizeof *m->death_next);
    return row_new(&m->now, m->room) && row_new(&m->next, m->room) && row_new(&m->best, m->room) &&
           m->last && m->used && m->wanted && m->leaves && m->span_last && m->span_first &&
           m->copy_end && m->ready && m->pending && m->change && m->extra && m->skipped &&
           m->saves && m->dies && m->death_thing && m->death_next;
}

static void mixer_clear(mixer *m)
{
    void *const owned[] = {m->now.items, m->next.items, m->best.items,  m->last,       m->used,
                           m->wanted,    m->leaves,     m->span_last,   m->span_first, m->copy_end,
                           m->ready,     m->pending,    m->change,      m->extra,      m->skipped,
                           m->saves,     m->dies,       m->death_thing, m->death_next};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free(owned[i]);
}

/* ---- all seeds ---- */

typedef struct mixing {
    const things *t;
    const remat_host *host;
    const remat_operations *start;
    uint64_t limit;
    mixer mixers[SEEDS];
} mixing;

static remat_status set_up(mixing *x, mixer *m, size_t index)
{
    static const double heat[SEEDS] = {4e-4, 8e-4, 1.2e-3, 3e-4, 6e-4, 1e-3, 5e-4, 2e-4};
    const things *t = x->t;
    bool *ran = calloc(t->n, sizeof *ran);
    *m = (mixer){.t = t,
                 .host = x->host,
                 .random = UINT64_C(0x9E3779B97F4A7C15) * (index + 1),
                 .best_time = INFINITY,
                 .price = t->total_time / (100 * t->budget + 1),
                 .temperature = heat[index] * t->total_time,
                 .limit = x->limit};
    const bool ready = ran && mixer_init(m, t, (uint32_t)x->start->length);
    if (ready)
        read_list(t, x->start, ran, &m->now);
    free(ran);
    return ready ? REMAT_OK : REMAT_NO_MEMORY;
}

static void run_seed(void *context, size_t index, unsigned worker)
{
    (void)worker;
    mixing *x = context;
    mixer *m = &x->mixers[index];
    m->status = set_up(x, m, index);
    if (!m->status)
        anneal(m);
}

static remat_status take_best(mixing *x, size_t seeds, remat_operations *ret_list,
                              remat_error *error)
{
    mixer *best = NULL;
    for (size_t i = 0; i < seeds; i++)
        if (x->mixers[i].best_time < INFINITY &&
            (!best || x->mixers[i].best_time < best->best_time))
            best = &x->mixers[i];
    if (remat_host_cancelled(x->host))
        return remat_fail(error, REMAT_CANCELLED, NULL, "cancelled");
    for (size_t i = 0; i < seeds; i++)
        if (x->mixers[i].status)
            return remat_fail_memory(error);
    return best ? write_list(best, &best->best, ret_list, error) : REMAT_OK;
}

/* Items passed over by one seed: at least these, and so many for each item of the list. */
static const struct {
    uint64_t least, of_item;
    size_t seeds;
} efforts[] = {[REMAT_QUICK] = {600000, 16000, 4}, [REMAT_THOROUGH] = {4000000, 450000, SEEDS}};

remat_status remat_mix(const remat_profile *profile, const remat_link *link,
                       const remat_operations *start, uint64_t budget, uint32_t alignment,
                       remat_effort effort, const remat_host *host, remat_operations *ret_list,
                       remat_error *error)
{
    things t;
    mixing *x = calloc(1, sizeof *x);
    remat_status status =
        x ? things_init(&t, profile, link, start, budget, alignment) : REMAT_NO_MEMORY;
    const size_t seeds = efforts[effort].seeds;
    if (!status) {
        *x = (mixing){.t = &t,
                      .host = host,
                      .start = start,
                      .limit = efforts[effort].least + efforts[effort].of_item * start->length};
        remat_host_parallel_for(host, seeds, run_seed, x);
        status = take_best(x, seeds, ret_list, error);
        for (size_t i = 0; i < seeds; i++)
            mixer_clear(&x->mixers[i]);
    } else {
        remat_fail_memory(error);
    }
    if (x)
        model_arena_clear(&t.arena);
    free(x);
    return status;
}
