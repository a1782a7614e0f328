/* A second judge, written from DESIGN.md and remat/simulate.h in the most naive way: plain flags
 * for everything that can be alive, every sum taken afresh at every operation, every question about
 * the future answered by looking through the rest of the list. For profiles of at most NAIVE_MOST
 * nodes, graph inputs, states and versions. */
#ifndef TESTS_PROPERTY_CORE_NAIVE_H
#define TESTS_PROPERTY_CORE_NAIVE_H

#include "remat/simulate.h"

#include <math.h>

enum { NAIVE_MOST = 16 };

/* One of the things that D, O and P act on. */
typedef struct naive_value {
    bool alive, overwritten, on_host;
    double ready;               /* when its copy back ends */
    double copied;              /* when its latest copy to the host ends */
    uint16_t maker, host_maker; /* of saved values: implementation that made them, and the copy */
} naive_value;

typedef struct naive_world {
    const remat_profile *profile;
    const remat_operations *list;
    const remat_link *link;
    naive_value values[3][NAIVE_MOST]; /* by remat_target, then index */
    bool gradient[NAIVE_MOST], input_gradient[NAIVE_MOST], backward_done[NAIVE_MOST];
    bool version_saved[NAIVE_MOST][NAIVE_MOST];
    uint32_t version[NAIVE_MOST], runs[NAIVE_MOST];
    double clock, host_stream, device_stream;
    double recomputed;
    uint64_t host_bytes;
} naive_world;

typedef struct naive_verdict {
    bool valid;
    size_t bad_operation;
    double makespan, compute_time, recomputed_time;
    uint64_t peak, host_peak, bytes_to_host, bytes_to_device;
    size_t peak_operation;
} naive_verdict;

static inline uint64_t naive_size(const remat_profile *p, unsigned target, uint32_t i)
{
    return target == REMAT_OUT     ? p->nodes[i].output_bytes
           : target == REMAT_SAVED ? p->nodes[i].saved_bytes
                                   : p->inputs[i].bytes;
}

/* The same of values as they are now. */
static inline uint64_t naive_size_of(const remat_profile *p, unsigned target, uint32_t i,
                                     uint16_t maker)
{
    return target == REMAT_SAVED ? remat_implementation(&p->nodes[i], maker).saved_bytes
                                 : naive_size(p, target, i);
}

static inline uint32_t naive_count(const remat_profile *p, unsigned target)
{
    return target == REMAT_INPUT ? p->n_inputs : p->n_nodes;
}

/* Everything alive, added up. */
static inline uint64_t naive_bytes(const naive_world *w)
{
    const remat_profile *p = w->profile;
    uint64_t sum = 0;
    for (unsigned t = REMAT_OUT; t <= REMAT_INPUT; t++)
        for (uint32_t i = 0; i < naive_count(p, t); i++)
            if (w->values[t][i].alive && !w->values[t][i].overwritten)
                sum += naive_size_of(p, t, i, w->values[t][i].maker);
    for (uint32_t v = 0; v < p->n_nodes; v++)
        sum += w->gradient[v] ? p->nodes[v].gradient_bytes : 0;
    for (uint32_t k = 0; k < p->n_inputs; k++)
        sum += w->input_gradient[k] ? p->inputs[k].gradient_bytes : 0;
    for (uint32_t k = 0; k < p->n_states; k++)
        for (uint32_t n = 0; n <= p->states[k].n_writers; n++)
            sum += w->version_saved[k][n] ? p->states[k].bytes : 0;
    return sum;
}

/* The value behind an input of a node. */
static inline naive_value *naive_input(naive_world *w, uint32_t value)
{
    uint32_t n = w->profile->n_nodes;
    return value < n ? &w->values[REMAT_OUT][value] : &w->values[REMAT_INPUT][value - n];
}

static inline bool naive_has_input(const remat_node *node, uint32_t value)
{
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (node->inputs[i] == value)
            return true;
    return false;
}

/* Whether an operation reads out(u). */
static inline bool naive_reads(const remat_profile *p, const remat_operation *o, uint32_t u)
{
    if (o->kind == REMAT_F || o->kind == REMAT_A)
        return naive_has_input(&p->nodes[o->index], u);
    if (o->kind == REMAT_B) {
        const remat_node *node = &p->nodes[o->index];
        return (node->backward_uses_inputs && naive_has_input(node, u)) ||
               (node->backward_uses_output && o->index == u);
    }
    return o->kind == REMAT_O && o->target == REMAT_OUT && o->index == u;
}

/* Whether out(u), as it is after operation i, is read later. */
static inline bool naive_read_later(const naive_world *w, size_t i, uint32_t u)
{
    for (size_t j = i + 1; j < w->list->length; j++) {
        const remat_operation *o = &w->list->items[j];
        if (naive_reads(w->profile, o, u))
            return true;
        bool made = o->kind == REMAT_F || o->kind == REMAT_A;
        bool moved = (o->kind == REMAT_D || o->kind == REMAT_P) && o->target == REMAT_OUT;
        if ((made || moved) && o->index == u)
            return false;
    }
    return false;
}

static inline bool naive_restored_later(const naive_world *w, size_t i, uint32_t k, uint32_t n)
{
    for (size_t j = i + 1; j < w->list->length; j++) {
        const remat_operation *o = &w->list->items[j];
        if (o->kind == REMAT_R && o->index == k && o->version == n)
            return true;
    }
    return false;
}

static inline uint32_t naive_writers_before(const remat_profile *p, uint32_t v, uint32_t k)
{
    uint32_t n = 0;
    for (uint32_t u = 0; u < v; u++)
        for (uint32_t i = 0; i < p->nodes[u].n_writes; i++)
            n += p->nodes[u].writes[i] == k;
    return n;
}

static inline bool naive_alive(const naive_value *x)
{
    return x->alive && !x->overwritten;
}

static inline double naive_later(double a, double b)
{
    return a > b ? a : b;
}

static inline bool naive_forward(naive_world *w, size_t i, remat_moment *m)
{
    const remat_profile *p = w->profile;
    const remat_operation *o = &w->list->items[i];
    const remat_node *node = &p->nodes[o->index];
    naive_value *out = &w->values[REMAT_OUT][o->index], *saved = &w->values[REMAT_SAVED][o->index];
    bool save = o->kind == REMAT_A;
    if (o->alternative > node->n_alternatives)
        return false;
    const remat_alternative cost = remat_implementation(node, o->alternative);
    for (uint32_t j = 0; j < node->n_inputs; j++) {
        if (!naive_alive(naive_input(w, node->inputs[j])))
            return false;
        m->start = naive_later(m->start, naive_input(w, node->inputs[j])->ready);
    }
    if (naive_alive(out) || (save && saved->alive))
        return false;
    for (uint32_t j = 0; j < node->n_reads; j++)
        if (w->version[node->reads[j]] != naive_writers_before(p, o->index, node->reads[j]))
            return false;
    for (uint32_t j = 0; j < node->n_writes; j++)
        w->version[node->writes[j]] = naive_writers_before(p, o->index, node->writes[j]) + 1;
    m->memory_during =
        naive_bytes(w) + node->output_bytes +
        (save ? cost.saved_bytes + cost.save_workspace_bytes : cost.forward_workspace_bytes);
    *out = (naive_value){.alive = true, .on_host = out->on_host, .copied = out->copied};
    if (save)
        *saved = (naive_value){.alive = true,
                               .on_host = saved->on_host,
                               .copied = saved->copied,
                               .maker = o->alternative,
                               .host_maker = saved->host_maker};
    uint32_t first = node->n_inputs ? node->inputs[0] : UINT32_MAX;
    if (node->in_place && first < p->n_nodes && !naive_read_later(w, i, first)) {
        naive_value *lost = &w->values[REMAT_OUT][first];
        uint64_t size = p->nodes[first].output_bytes;
        m->memory_during -= size < node->output_bytes ? size : node->output_bytes;
        m->start = naive_later(m->start, lost->copied);
        lost->overwritten = true;
    }
    m->end = m->start + cost.forward_time;
    w->recomputed += w->runs[o->index]++ > 0 ? cost.forward_time : 0;
    return true;
}

/* Gives the input its gradient; returns the bytes that start to exist. */
static inline uint64_t naive_give_gradient(naive_world *w, uint32_t value)
{
    const remat_profile *p = w->profile;
    bool node = value < p->n_nodes;
    bool *there = node ? &w->gradient[value] : &w->input_gradient[value - p->n_nodes];
    uint64_t size =
        node ? p->nodes[value].gradient_bytes : p->inputs[value - p->n_nodes].gradient_bytes;
    if (*there)
        return 0;
    *there = true;
    return size;
}

static inline bool naive_backward(naive_world *w, size_t i, remat_moment *m)
{
    const remat_profile *p = w->profile;
    const remat_operation *o = &w->list->items[i];
    uint32_t v = o->index;
    const remat_node *node = &p->nodes[v];
    if (o->alternative > node->n_alternatives)
        return false;
    const remat_alternative cost = remat_implementation(node, o->alternative);
    naive_value *out = &w->values[REMAT_OUT][v], *saved = &w->values[REMAT_SAVED][v];
    if (w->backward_done[v] || w->runs[v] == 0)
        return false;
    for (uint32_t u = 0; u < p->n_nodes; u++)
        if (naive_has_input(&p->nodes[u], v) && !w->backward_done[u])
            return false;
    bool reads_saved = cost.saved_bytes > 0;
    if ((reads_saved && (!saved->alive || saved->maker != o->alternative)) ||
        (node->backward_uses_output && !naive_alive(out)))
        return false;
    if (reads_saved)
        m->start = naive_later(m->start, saved->ready);
    if (saved->alive) /* B frees it */
        m->start = naive_later(m->start, saved->copied);
    if (node->backward_uses_output)
        m->start = naive_later(m->start, out->ready);
    for (uint32_t j = 0; node->backward_uses_inputs && j < node->n_inputs; j++) {
        if (!naive_alive(naive_input(w, node->inputs[j])))
            return false;
        m->start = naive_later(m->start, naive_input(w, node->inputs[j])->ready);
    }
    if (v + 1 == p->n_nodes)
        w->gradient[v] = true;
    m->memory_during = naive_bytes(w) + cost.backward_workspace_bytes;
    for (uint32_t j = 0; j < node->n_inputs; j++) {
        uint64_t fresh = naive_give_gradient(w, node->inputs[j]);
        m->memory_during += fresh;
        if (j == 0 && node->in_place)
            m->memory_during -= fresh < node->gradient_bytes ? fresh : node->gradient_bytes;
    }
    w->gradient[v] = false;
    saved->alive = false;
    w->backward_done[v] = true;
    m->end = m->start + cost.backward_time;
    return true;
}

/* One transfer of the link: not before `from`, nor before the stream is free. */
static inline void naive_transfer(naive_world *w, bool back, uint64_t size, double from,
                                  remat_moment *m)
{
    double *stream = back && !w->link->shared ? &w->device_stream : &w->host_stream;
    m->start = naive_later(from, *stream);
    m->end =
        m->start + w->link->latency + (double)size / (back ? w->link->to_device : w->link->to_host);
    *stream = m->end;
}

static inline bool naive_move(naive_world *w, size_t i, remat_moment *m)
{
    const remat_operation *o = &w->list->items[i];
    naive_value *x = &w->values[o->target][o->index];
    uint16_t maker = o->kind == REMAT_P ? x->host_maker : x->maker;
    uint64_t size = naive_size_of(w->profile, o->target, o->index, maker);
    if (o->alternative > 0)
        return false;
    if (o->kind == REMAT_D) {
        if (!x->alive || (o->target == REMAT_INPUT && !x->on_host))
            return false;
        m->end = m->start = naive_later(m->start, naive_later(x->copied, x->ready));
        x->alive = x->overwritten = false;
        return true;
    }
    if (!w->link || (o->kind == REMAT_O ? !naive_alive(x) : naive_alive(x) || !x->on_host))
        return false;
    if (o->kind == REMAT_O) {
        naive_transfer(w, false, size, naive_later(m->start, x->ready), m);
        if (!x->on_host || x->host_maker != x->maker)
            w->host_bytes += size;
        x->on_host = true;
        x->host_maker = x->maker;
        x->copied = m->end;
        return true;
    }
    naive_transfer(w, true, size, naive_later(m->start, x->copied), m);
    *x = (naive_value){.alive = true,
                       .on_host = true,
                       .copied = x->copied,
                       .ready = m->end,
                       .maker = maker,
                       .host_maker = maker};
    return true;
}

static inline bool naive_state(naive_world *w, size_t i)
{
    const remat_operation *o = &w->list->items[i];
    bool *saved = &w->version_saved[o->index][o->version];
    if (o->kind == REMAT_S) {
        if (w->version[o->index] != o->version || *saved)
            return false;
        *saved = true;
        return true;
    }
    if (!*saved)
        return false;
    w->version[o->index] = o->version;
    *saved = naive_restored_later(w, i, o->index, o->version);
    return true;
}

static inline bool naive_step(naive_world *w, size_t i, remat_moment *m)
{
    unsigned kind = w->list->items[i].kind;
    bool good = kind == REMAT_F || kind == REMAT_A   ? naive_forward(w, i, m)
                : kind == REMAT_B                    ? naive_backward(w, i, m)
                : kind == REMAT_S || kind == REMAT_R ? naive_state(w, i)
                                                     : naive_move(w, i, m);
    m->memory_after = naive_bytes(w);
    return good;
}

static inline bool naive_finished(const naive_world *w)
{
    for (uint32_t v = 0; v < w->profile->n_nodes; v++)
        if (!w->backward_done[v])
            return false;
    for (uint32_t k = 0; k < w->profile->n_states; k++)
        if (w->version[k] != w->profile->states[k].n_writers)
            return false;
    return true;
}

/* moments: room for one entry per operation. */
static inline naive_verdict naive_judge(const remat_profile *p, const remat_operations *list,
                                        const remat_link *link, remat_moment *moments)
{
    naive_world w = {.profile = p, .list = list, .link = link};
    naive_verdict r = {0};
    for (uint32_t k = 0; k < p->n_inputs; k++)
        w.values[REMAT_INPUT][k].alive = true;
    for (size_t i = 0; i < list->length; i++) {
        unsigned kind = list->items[i].kind;
        uint64_t before = naive_bytes(&w);
        remat_moment *m = &moments[i];
        *m = (remat_moment){.start = w.clock, .end = w.clock};
        if (!naive_step(&w, i, m)) {
            r.bad_operation = i;
            return r;
        }
        if (kind != REMAT_F && kind != REMAT_A && kind != REMAT_B)
            m->memory_during = before > m->memory_after ? before : m->memory_after;
        if (kind != REMAT_O && kind != REMAT_P) {
            r.compute_time += m->end - m->start;
            w.clock = m->end;
        }
        const remat_operation *o = &list->items[i];
        uint64_t size = 0;
        if (kind == REMAT_O || kind == REMAT_P)
            size = naive_size_of(p, o->target, o->index, w.values[o->target][o->index].maker);
        r.bytes_to_host += kind == REMAT_O ? size : 0;
        r.bytes_to_device += kind == REMAT_P ? size : 0;
        if (i == 0 || m->memory_during > r.peak) {
            r.peak = m->memory_during;
            r.peak_operation = i;
        }
    }
    r.bad_operation = list->length;
    r.valid = naive_finished(&w);
    r.makespan = w.clock;
    r.recomputed_time = w.recomputed;
    r.host_peak = w.host_bytes;
    return r;
}

#endif
