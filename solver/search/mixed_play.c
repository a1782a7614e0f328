/* The worth of a row: the bytes by one pass from its end, the time by one from its start. */
#include "model/lists.h"
#include "search/mixed_row.h"

#include <math.h>

/* Of two numbers the larger: fmax asks about NaN, in a call. */
static inline double larger(double a, double b)
{
    return a > b ? a : b;
}

/* ---- the pass from the end: uses and bytes ---- */

/* x is there from item `from` to its last use, or during `from` alone. */
static void lives(mixer *m, uint32_t x, uint32_t from)
{
    const uint32_t last = m->last[x] == NONE ? from : m->last[x];
    m->change[from] += m->t->bytes[x];
    m->change[last + 1] -= m->t->bytes[x];
    m->last[x] = NONE;
    m->used[x] = false;
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

static inline run_cost cost_of(const things *t, const item *it, bool saves)
{
    return saves                                    ? t->saving[it->id]
           : it->way == 0 || is_backward(t, it->id) ? t->own[it->id]
                                                    : forward_cost(t, it->id, it->way);
}

/* What an in-place node overwrites; NONE where something later reads it. */
static uint32_t overwritten_by(const mixer *m, const item *it)
{
    const things *t = m->t;
    const uint32_t u = is_backward(t, it->id) ? NONE : t->over[it->id];
    return u == NONE || !remat_is_result(t->profile, u) || m->used[u] ? NONE : u;
}

/* Bytes during a run beside what is alive: those of its workspace, less what it overwrites. */
static double extra_of(const mixer *m, const item *it, double bytes, uint32_t over)
{
    const things *t = m->t;
    return over == NONE ? bytes : bytes - fmin(t->bytes[over], t->bytes[it->id]);
}

static void run_backwards(mixer *m, const item *it, uint32_t i)
{
    const things *t = m->t;
    const remat_profile *p = t->profile;
    m->saves[i] = false;
    if (!is_backward(t, it->id)) {
        const uint32_t v = it->id, saved = saved_thing(t, v);
        m->saves[i] = m->last[saved] != NONE && !it->plain;
        if (m->saves[i])
            lives(m, saved, i);
        for (uint32_t k = 0; k < p->nodes[v].n_outputs; k++)
            lives(m, remat_result_value(p, v, k), i);
    } else {
        touch_gradients(m, it->id - t->n, i);
    }
    const uint32_t over = overwritten_by(m, it);
    m->overwrites[i] = over != NONE;
    const run_cost cost = cost_of(t, it, m->saves[i]);
    m->extra[i] = extra_of(m, it, cost.bytes, over);
    m->compute += cost.time;
    for (uint32_t k = t->first_read[it->id]; k < end_read(t, it->id); k++)
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
    m->compute = 0;
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
    p->now = larger(p->now, m->copy_end[x]);
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
        for (uint32_t k = t->first_read[it->id]; k < end_read(t, it->id); k++)
            p->now = larger(p->now, m->ready[t->reads[k]]);
    if (m->overwrites[i]) /* not before it has been copied */
        p->now = larger(p->now, m->copy_end[t->over[v]]);
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
    double start = larger(larger(p->now, *stream), out ? m->ready[x] : m->copy_end[x]);
    *stream = start + link->latency + m->t->copied[x] / (out ? link->to_host : link->to_device);
    if (link->shared)
        p->out_free = p->in_free = *stream;
    if (out) {
        m->copy_end[x] = *stream;
    } else {
        m->ready[x] = *stream;
        p->inflight = larger(p->inflight, *stream);
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
            p->now = larger(p->now, m->copy_end[x]);
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
    memset(m->copy_end, 0, m->t->n_things * sizeof *m->copy_end);
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
        p->now = larger(p->now, m->ready[m->t->profile->outputs[k]]);
    p->worth->time = p->now;
}

/* Whether compute and bytes alone are more; a little less, as they are summed in another order. */
static bool is_hopeless(const mixer *m, const row *r, double most)
{
    double alive = 0, excess = 0;
    for (uint32_t i = 0; i < r->length; i++) {
        alive += m->change[i];
        if (!m->skipped[i])
            excess += larger(alive + m->extra[i] - m->t->budget, 0);
    }
    return (m->compute + m->price * excess) * (1 - 1e-9) > most;
}

worth mixed_evaluate(mixer *m, const row *r, double most)
{
    worth w = {.valid = look_back(m, r)};
    w.hopeless = w.valid && is_hopeless(m, r, most);
    m->work += w.valid && !w.hopeless ? r->length : r->length / 2;
    if (!w.valid || w.hopeless)
        return w;
    play p = {.m = m, .row = r, .worth = &w};
    play_row(&p);
    return w;
}

remat_status mixed_write_list(mixer *m, const row *r, remat_operations *ret_list,
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
