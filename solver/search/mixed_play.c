/* The worth of a row: the bytes by one pass from its end, the time by one from its start. */
#include "model/lists.h"
#include "search/mixed_row.h"

#include <math.h>

/* ---- the pass from the end: uses and bytes ---- */

/* Where the pass is. It is a local of look_back alone, so that it is kept in registers. */
typedef struct moment {
    double extra, begins;      /* bytes during the item: what is made there and used by nobody,
                                  workspace; and what is not there before it */
    double alive;              /* bytes across the item */
    double least;              /* the runs before it take no less */
    double compute, copying;   /* time of the runs from it on; of all copies that they need */
    uint32_t n_open, n_wanted; /* what has a use so far; what is wanted */
} moment;

/* x is there from here to its last use, or during this item alone. */
static inline void lives(mixer *m, uint32_t x, moment *here)
{
    const double bytes = m->t->bytes[x];
    const bool used = m->last[x] != NONE;
    here->extra += used ? 0 : bytes;
    here->begins += used ? bytes : 0;
    here->n_open -= used;
    m->last[x] = NONE;
}

static inline void uses(mixer *m, uint32_t x, uint32_t i, moment *here)
{
    if (m->last[x] != NONE)
        return;
    m->last[x] = i;
    here->alive += m->t->bytes[x];
    here->n_open++;
}

/* They are there from the first backward that touches one to the last. B of an in-place node puts
 * its input's where its own is, if that one starts there. */
static inline void touch_gradients(mixer *m, const task *one, moment *here)
{
    const things *t = m->t;
    const uint32_t own = t->gradients[one->gradients];
    for (uint32_t k = one->gradients; k < one->end_gradients; k++) {
        const uint32_t u = t->gradients[k];
        if (m->touches[u] == t->gradient_touches[u] && u < t->n)
            here->alive += t->gradient[u];
        if (--m->touches[u] > 0)
            continue;
        here->begins += t->gradient[u];
        if (u == one->over)
            here->extra -= fmin(t->gradient[own], t->gradient[u]);
    }
}

/* What a forward makes, and of that whether it saves. */
static inline run_cost make_backwards(mixer *m, const item *it, uint32_t i, moment *here)
{
    const things *t = m->t;
    const task *one = &t->tasks[it->id];
    const uint32_t saved = t->list[one->reads - 1];
    const bool saved_again = m->last[saved] == NONE, saves = !saved_again && !it->plain;
    for (uint32_t k = one->made; k + 1 < one->reads; k++)
        lives(m, t->list[k], here);
    if (saves) {
        lives(m, saved, here);
        m->marks[i] |= SAVES;
    }
    if (one->over != NONE && m->last[one->over] == NONE) {
        m->marks[i] |= OVERWRITES; /* nothing later reads it */
        here->extra -= fmin(t->bytes[one->over], t->bytes[it->id]);
    }
    if (saves)
        return t->saving[it->id];
    run_cost cost = it->way == 0 ? one->own : forward_cost(t, it->id, it->way);
    const double passing = it->way == 0 ? one->passing : passing_bytes(t, it->id, it->way);
    if (saved_again && passing < cost.bytes) {
        m->marks[i] |= PASSES;
        cost.bytes = passing;
    }
    return cost;
}

static inline void run_backwards(mixer *m, const item *it, uint32_t i, moment *here)
{
    const things *t = m->t;
    const task *one = &t->tasks[it->id];
    run_cost cost = one->own;
    if (!is_backward(t, it->id))
        cost = make_backwards(m, it, i, here);
    else if (one->gradients < one->end_gradients)
        touch_gradients(m, one, here);
    here->extra += cost.bytes;
    m->takes[i] = cost.time;
    here->compute += cost.time;
    here->least -= it->way == 0 ? one->least : 0;
    for (uint32_t k = one->reads; k < one->end; k++)
        uses(m, t->list[k], i, here);
}

/* Alone on the link. */
static inline double copy_time(const things *t, uint32_t x, bool out)
{
    const double bandwidth = out ? t->link->to_host : t->link->to_device;
    return t->link->latency + t->copied[x] / bandwidth;
}

/* Deaths that liveness leaves to us: of what is copied, and of graph inputs. */
static inline void dies_at(mixer *m, uint32_t x, uint32_t i)
{
    m->death_thing[m->n_deaths] = x;
    m->death_next[m->n_deaths] = m->marks[i] & DEATHS ? m->dies[i] : NONE;
    m->dies[i] = m->n_deaths++;
    m->marks[i] |= DEATHS;
}

enum { STAYS, LEAVES, HAS_LEFT }; /* what a graph input does */

static inline void copy_backwards(mixer *m, const item *it, uint32_t i, moment *here)
{
    const uint32_t x = it->id;
    if (it->kind == FETCH && m->last[x] == NONE) {
        m->marks[i] = SKIPPED;
    } else if (it->kind == FETCH) {
        if (is_input(m->t, x))
            dies_at(m, x, m->last[x]);
        lives(m, x, here);
        here->copying += copy_time(m->t, x, false);
        if (m->wanted[x])
            return;
        m->wanted[x] = true;
        here->n_wanted++;
        here->copying += copy_time(m->t, x, true);
    } else if (!m->wanted[x] && m->leaves[x] != LEAVES) {
        /* a graph input that nobody reads again may leave for good, but not without a copy */
        m->marks[i] = SKIPPED;
    } else {
        uses(m, x, i, here);
        here->copying += m->wanted[x] ? 0 : copy_time(m->t, x, true);
        here->n_wanted -= m->wanted[x];
        m->wanted[x] = false;
        m->leaves[x] = m->leaves[x] == LEAVES ? HAS_LEFT : m->leaves[x];
        dies_at(m, x, m->last[x]);
    }
}

/* Which graph inputs leave; returns how many. *ret_least: the runs take no less. */
static uint32_t look_ahead(mixer *m, const row *r, double *ret_least)
{
    const things *t = m->t;
    uint32_t leaving = 0;
    double least = 0;
    memset(m->leaves, STAYS, t->n_things);
    for (uint32_t i = 0; i < r->length; i++) {
        const item *it = &r->items[i];
        if (it->kind == RUN) {
            least += it->way == 0 ? t->tasks[it->id].least : 0;
        } else if (it->kind == OUT && is_input(t, it->id)) {
            leaving += m->leaves[it->id] == STAYS;
            m->leaves[it->id] = LEAVES;
        }
    }
    *ret_least = least;
    return leaving;
}

/* At the end: gradients of graph inputs, what stays, what the graph answers. */
static inline void reset(mixer *m, uint32_t length, moment *here)
{
    const things *t = m->t;
    memset(m->last, 0xff, t->n_things * sizeof *m->last);
    memcpy(m->touches, t->gradient_touches, t->n_values * sizeof *m->touches);
    memset(m->wanted, 0, t->n_things);
    m->n_deaths = 0;
    m->marks[length] = 0;
    here->alive = t->first_gradients;
    for (uint32_t x = t->n; x < t->n + t->profile->n_inputs; x++) {
        if (m->leaves[x] != STAYS)
            continue;
        m->last[x] = length;
        here->alive += t->bytes[x];
    }
    for (uint32_t k = 0; k < t->profile->n_outputs; k++)
        uses(m, t->profile->outputs[k], length, here);
}

static inline bool is_hopeless(const mixer *m, const moment *here, double excess, double most)
{
    const double time = here->least + here->compute + m->toll * here->copying;
    /* a little less, as times are summed in another order */
    return (time + m->price * excess) * (1 - 1e-9) > most;
}

/* Levels and marks. It ends as soon as it is hopeless. */
static worth look_back(mixer *m, const row *r, double most)
{
    moment here = {0};
    const uint32_t leaving = look_ahead(m, r, &here.least);
    worth w = {.valid = true, .hopeless = is_hopeless(m, &here, 0, most)};
    reset(m, r->length, &here);
    for (uint32_t i = r->length; i-- > 0 && !w.hopeless;) {
        here.extra = here.begins = 0;
        m->marks[i] = 0;
        if (r->items[i].kind == RUN)
            run_backwards(m, &r->items[i], i, &here);
        else
            copy_backwards(m, &r->items[i], i, &here);
        const double level = m->marks[i] & SKIPPED ? 0 : here.alive + here.extra;
        m->level[i] = level;
        m->extra[i] = here.extra;
        here.alive -= here.begins;
        if (level <= m->t->budget && r->items[i].kind != FETCH)
            continue;
        w.excess += larger(level - m->t->budget, 0);
        w.hopeless = is_hopeless(m, &here, w.excess, most);
    }
    if (w.hopeless)
        return w;
    w.valid = here.n_wanted == 0 && here.n_open == leaving; /* nothing is read that was not made */
    if (w.valid && m->t->profile->n_states > 0)
        w.valid = mixed_count_states(m, r, &w.excess);
    m->compute = here.compute;
    w.copying = here.copying;
    here.least = 0; /* but for rounding */
    w.hopeless = is_hopeless(m, &here, w.excess, most);
    return w;
}

/* ---- the pass from the start: time ---- */

/* What plays the streams; with a list it writes the operations down. */
typedef struct play {
    mixer *m;
    const row *row;
    double now, out_free, in_free, inflight; /* inflight: the last fetch has ended then */
    double next_end;                         /* no pending copy ends before it */
    double left;                             /* time of the runs to come */
    remat_operations *list;                  /* NULL: none is wanted */
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
    const bool backward = is_backward(t, it->id), saves = p->m->marks[i] & SAVES;
    const bool is_save = p->m->marks[i] & (SAVES | PASSES);
    p->failed = p->failed ||
                remat_operations_push(
                    p->list,
                    (remat_operation){
                        .kind = (uint8_t)(backward  ? REMAT_B
                                          : is_save ? REMAT_A
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

/* Frees what has been copied. */
static void free_copied(play *p)
{
    mixer *m = p->m;
    p->next_end = INFINITY;
    for (uint32_t k = m->n_pending; k-- > 0;) {
        const double end = m->copy_end[m->pending[k]];
        if (end <= p->now)
            let_go(p, k);
        else if (end < p->next_end)
            p->next_end = end;
    }
}

/* The same and, if the item's bytes need it, waits for more. */
static void make_room(play *p, double during)
{
    mixer *m = p->m;
    if (p->next_end <= p->now)
        free_copied(p);
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
    for (uint32_t k = p->m->copy_end[x] > 0 ? p->m->n_pending : 0; k-- > 0;)
        if (p->m->pending[k] == x)
            let_go(p, k);
}

/* What a run makes is not the fetched one any more; what it reads it waits for. */
static void await_fetches(play *p, const task *one)
{
    const things *t = p->m->t;
    double *ready = p->m->ready;
    for (uint32_t k = one->made; k < one->reads; k++)
        ready[t->list[k]] = 0;
    for (uint32_t k = one->reads; k < one->end; k++)
        p->now = larger(p->now, ready[t->list[k]]);
}

static void play_run(play *p, uint32_t i)
{
    mixer *m = p->m;
    const things *t = m->t;
    const task *one = &t->tasks[p->row->items[i].id];
    for (uint32_t k = one->made; m->n_pending > 0 && k < one->reads; k++)
        clear_pending(p, t->list[k]);
    if (p->inflight > p->now)
        await_fetches(p, one);
    if (m->marks[i] & OVERWRITES) /* not before it has been copied */
        p->now = larger(p->now, m->copy_end[one->over]);
    p->now += m->takes[i];
    p->left -= m->takes[i];
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
    *stream = start + copy_time(m->t, x, out);
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
            if (m->copy_end[x] < p->next_end)
                p->next_end = m->copy_end[x];
            m->pending_bytes += m->t->bytes[x];
        } else {
            emit(p, REMAT_D, x);
        }
    }
}

/* The makespan; where it is more than `most`, some time of which the same is true. */
static double play_row(play *p, double most)
{
    mixer *m = p->m;
    const row *r = p->row;
    const double enough = most * (1 + 1e-9);
    m->n_pending = 0;
    m->pending_bytes = 0;
    p->next_end = INFINITY;
    p->left = m->compute;
    memset(m->ready, 0, m->t->n_things * sizeof *m->ready);
    memset(m->copy_end, 0, m->t->n_things * sizeof *m->copy_end);
    for (uint32_t i = 0; i < r->length && p->now + p->left <= enough; i++) {
        if (m->marks[i] & SKIPPED)
            continue;
        if (m->n_pending > 0)
            make_room(p, m->level[i]);
        if (r->items[i].kind == RUN)
            play_run(p, i);
        else
            play_copy(p, &r->items[i]);
        if (m->marks[i] & DEATHS)
            park_dying(p, i);
    }
    for (uint32_t k = 0; k < m->t->profile->n_outputs; k++)
        p->now = larger(p->now, m->ready[m->t->profile->outputs[k]]);
    return p->now + p->left > enough ? p->now + p->left : p->now;
}

worth mixed_evaluate(mixer *m, const row *r, double most)
{
    worth w = look_back(m, r, most);
    m->work += w.valid && !w.hopeless ? r->length : r->length / 2;
    if (!w.valid || w.hopeless)
        return w;
    play p = {.m = m, .row = r};
    w.time = play_row(&p, most - m->toll * w.copying - m->price * w.excess);
    return w;
}

remat_status mixed_write_list(mixer *m, const row *r, remat_operations *ret_list,
                              remat_error *error)
{
    remat_operations list = {0};
    play p = {.m = m, .row = r, .list = &list};
    (void)look_back(m, r, INFINITY);
    (void)play_row(&p, INFINITY);
    remat_status status = p.failed ? remat_fail_memory(error)
                                   : model_complete_list(m->t->profile, &list, ret_list, error);
    remat_operations_clear(&list);
    return status;
}
