/* The least makespan of any operation list of a small forward profile over a link, O and P among
 * its operations: a best-first search over what is alive, what is on the host and when each copy
 * ends. It shares no code with the solvers and follows remat/simulate.h alone. Without states,
 * alternatives and nodes in place; times and rates have to be such that sums are exact.
 *
 * What is dropped is dropped where an operation needs the room and not before: a D waits for copies
 * under way, so a later one is never worse. */
#ifndef TESTS_PROPERTY_EXHAUSTIVE_LINK_H
#define TESTS_PROPERTY_EXHAUSTIVE_LINK_H

#include "property/core_random.h"

#include <math.h>

/* Things: outputs, saved values, graph inputs. */
enum {
    LINK_THINGS = 2 * MOST_NODES + MOST_INPUTS,
    LINK_BUCKETS = 1 << 16,
    LINK_NONE = -1,
};

typedef struct link_label {
    uint32_t alive, host; /* by thing */
    uint32_t ran, done;   /* by node */
    float now, out_free, in_free;
    float sent[LINK_THINGS], fetched[LINK_THINGS]; /* when the last copy ends, where under way */
    float least;                                   /* of any list that begins so */
    int32_t next;                                  /* of the same bucket */
    bool gone;                                     /* another one is no worse */
} link_label;

typedef struct link_search {
    const remat_profile *p;
    const remat_link *link;
    uint64_t budget;
    uint32_t n, n_things;
    bool given;   /* first runs in the order of the profile, backwards in its reverse */
    float enough; /* only what takes less counts */
    link_label *labels;
    int32_t n_labels, most_labels;
    int32_t *heap, n_heap;
    int32_t buckets[LINK_BUCKETS];
} link_search;

static inline uint64_t link_bytes(const link_search *s, uint32_t x)
{
    const uint32_t n = s->n;
    return x < n       ? s->p->nodes[x].output_bytes
           : x < 2 * n ? s->p->nodes[x - n].saved_bytes
                       : s->p->inputs[x - 2 * n].bytes;
}

static inline uint32_t link_thing(const link_search *s, uint32_t value)
{
    return value < s->n ? value : value + s->n;
}

static inline uint64_t link_gradient(const link_search *s, uint32_t value)
{
    return value < s->n ? s->p->nodes[value].gradient_bytes
                        : s->p->inputs[value - s->n].gradient_bytes;
}

static inline bool link_begun(const link_search *s, uint32_t value, uint32_t done)
{
    const bool node = value < s->n;
    const uint32_t *consumers =
        node ? s->p->nodes[value].consumers : s->p->inputs[value - s->n].consumers;
    const uint32_t count =
        node ? s->p->nodes[value].n_consumers : s->p->inputs[value - s->n].n_consumers;
    for (uint32_t c = 0; c < count; c++)
        if (done >> consumers[c] & 1)
            return true;
    return false;
}

static inline uint64_t link_memory(const link_search *s, const link_label *l)
{
    uint64_t bytes = 0;
    for (uint32_t x = 0; x < s->n_things; x++)
        bytes += l->alive >> x & 1 ? link_bytes(s, x) : 0;
    for (uint32_t value = 0; value < s->n + s->p->n_inputs; value++)
        if ((value >= s->n || !(l->done >> value & 1)) && link_begun(s, value, l->done))
            bytes += link_gradient(s, value);
    return bytes;
}

/* ---- the queue, and what is no worse ---- */

static inline bool link_no_worse(const link_search *s, const link_label *a, const link_label *b)
{
    if (s->enough == INFINITY) /* whether there is a list at all */
        return true;
    if (a->now > b->now || a->out_free > b->out_free || a->in_free > b->in_free)
        return false;
    for (uint32_t x = 0; x < s->n_things; x++)
        if (a->sent[x] > b->sent[x] || a->fetched[x] > b->fetched[x])
            return false;
    return true;
}

static inline bool link_same_place(const link_label *a, const link_label *b)
{
    return a->alive == b->alive && a->host == b->host && a->ran == b->ran && a->done == b->done;
}

static inline void link_push(link_search *s, int32_t label)
{
    int32_t at = s->n_heap++;
    for (; at > 0 && s->labels[s->heap[(at - 1) / 2]].least > s->labels[label].least;
         at = (at - 1) / 2)
        s->heap[at] = s->heap[(at - 1) / 2];
    s->heap[at] = label;
}

static inline int32_t link_pop(link_search *s)
{
    const int32_t first = s->heap[0], last = s->heap[--s->n_heap];
    int32_t at = 0;
    for (int32_t child; (child = 2 * at + 1) < s->n_heap; at = child) {
        child += child + 1 < s->n_heap &&
                 s->labels[s->heap[child + 1]].least < s->labels[s->heap[child]].least;
        if (s->labels[s->heap[child]].least >= s->labels[last].least)
            break;
        s->heap[at] = s->heap[child];
    }
    s->heap[at] = last;
    return first;
}

/* Whether anything to come may read it. */
static inline bool link_wanted(const link_search *s, const link_label *l, uint32_t x)
{
    if (x >= s->n && x < 2 * s->n)
        return !(l->done >> (x - s->n) & 1);
    const bool node = x < s->n;
    const uint32_t *consumers =
        node ? s->p->nodes[x].consumers : s->p->inputs[x - 2 * s->n].consumers;
    const uint32_t count =
        node ? s->p->nodes[x].n_consumers : s->p->inputs[x - 2 * s->n].n_consumers;
    if (node && !(l->done >> x & 1) && (count == 0 || s->p->nodes[x].backward_uses_output))
        return true;
    for (uint32_t c = 0; c < count; c++)
        if (!(l->done >> consumers[c] & 1))
            return true;
    return false;
}

/* What nothing wants is let go of, but graph inputs, which need a copy for that. */
static inline void link_let_go(const link_search *s, link_label *l)
{
    for (uint32_t x = 0; x < 2 * s->n; x++) {
        const bool moves = l->sent[x] > 0 || l->fetched[x] > 0;
        if (moves || !((l->alive | l->host) >> x & 1) || link_wanted(s, l, x))
            continue;
        l->alive &= ~(1u << x);
        l->host &= ~(1u << x);
    }
}

/* Ends of copies that have passed say nothing any more. */
static inline void link_settle(const link_search *s, link_label *l)
{
    l->out_free = fmaxf(l->out_free, l->now);
    l->in_free = fmaxf(l->in_free, l->now);
    for (uint32_t x = 0; x < s->n_things; x++) {
        l->sent[x] = l->sent[x] > l->now ? l->sent[x] : 0;
        l->fetched[x] = l->fetched[x] > l->now ? l->fetched[x] : 0;
    }
    link_let_go(s, l);
    l->least = l->now;
    for (uint32_t v = 0; v < s->n; v++) {
        l->least += l->ran >> v & 1 ? 0 : (float)s->p->nodes[v].forward_time;
        l->least += l->done >> v & 1 ? 0 : (float)s->p->nodes[v].backward_time;
    }
}

static inline void link_reach(link_search *s, link_label l)
{
    link_settle(s, &l);
    if (l.least >= s->enough || s->n_labels == s->most_labels)
        return;
    const uint64_t key =
        ((uint64_t)l.alive << 40) ^ ((uint64_t)l.host << 20) ^ (l.ran << 7) ^ l.done;
    int32_t *bucket = &s->buckets[(key * UINT64_C(0x9e3779b97f4a7c15)) >> 48];
    for (int32_t k = *bucket; k != LINK_NONE; k = s->labels[k].next) {
        if (!link_same_place(&s->labels[k], &l))
            continue;
        if (link_no_worse(s, &s->labels[k], &l))
            return;
        s->labels[k].gone = s->labels[k].gone || link_no_worse(s, &l, &s->labels[k]);
    }
    l.next = *bucket;
    l.gone = false;
    *bucket = s->n_labels;
    s->labels[s->n_labels] = l;
    link_push(s, s->n_labels++);
}

/* ---- operations ---- */

static inline void link_drop(link_label *l, uint32_t x)
{
    l->now = fmaxf(l->now, fmaxf(l->sent[x], l->fetched[x]));
    l->sent[x] = l->fetched[x] = 0;
    l->alive &= ~(1u << x);
}

/* What runs, and by how much it passes what is alive. */
typedef struct link_move {
    remat_operation_kind kind;
    uint32_t x;     /* a node, or of O and P a thing */
    uint32_t reads; /* things that must be alive */
    uint32_t makes;
    uint64_t extra;
} link_move;

static inline void link_play(link_search *s, link_label l, const link_move *m)
{
    const remat_node *node = m->kind == REMAT_P ? NULL : &s->p->nodes[m->x];
    const uint32_t bit = 1u << m->x;
    if (m->kind == REMAT_P) {
        l.in_free = fmaxf(fmaxf(l.now, l.in_free), l.sent[m->x]) + (float)s->link->latency +
                    (float)((double)link_bytes(s, m->x) / s->link->to_device);
        l.sent[m->x] = 0;
        l.fetched[m->x] = l.in_free;
        l.out_free = s->link->shared ? l.in_free : l.out_free;
        l.alive |= m->makes;
        link_reach(s, l);
        return;
    }
    for (uint32_t x = 0; x < s->n_things; x++)
        if (m->reads >> x & 1)
            l.now = fmaxf(l.now, l.fetched[x]);
    for (uint32_t x = 0; x < s->n_things; x++)
        if (m->makes >> x & 1)
            l.now = fmaxf(l.now, l.sent[x]);
    l.alive |= m->makes;
    if (m->kind == REMAT_B) {
        l.now += (float)node->backward_time;
        l.done |= bit;
        if (l.alive >> (s->n + m->x) & 1)
            link_drop(&l, s->n + m->x);
    } else {
        l.now += (float)node->forward_time;
        l.ran |= bit;
    }
    link_reach(s, l);
}

/* With as little as needs be dropped first, in every way. */
static inline void link_try(link_search *s, link_label l, const link_move *m, uint32_t from)
{
    link_label after = l;
    after.alive |= m->makes;
    if (link_memory(s, &after) + m->extra <= s->budget) {
        link_play(s, l, m);
        return;
    }
    for (uint32_t x = from; x < s->n_things; x++) {
        if (!(l.alive >> x & 1) || (m->reads >> x & 1) || link_bytes(s, x) == 0 ||
            (x >= 2 * s->n && !(l.host >> x & 1)))
            continue;
        link_label other = l;
        link_drop(&other, x);
        link_try(s, other, m, x + 1);
    }
}

static inline uint32_t link_inputs(const link_search *s, uint32_t v)
{
    uint32_t reads = 0;
    for (uint32_t i = 0; i < s->p->nodes[v].n_inputs; i++)
        reads |= 1u << link_thing(s, s->p->nodes[v].inputs[i]);
    return reads;
}

static inline void link_forward(link_search *s, const link_label *l, uint32_t v)
{
    const remat_node *node = &s->p->nodes[v];
    const uint32_t bit = 1u << v, saved = 1u << (s->n + v), reads = link_inputs(s, v);
    const bool first = !(l->ran & bit), in_order = l->ran == bit - 1;
    if (!first && !link_wanted(s, l, v) && !link_wanted(s, l, s->n + v))
        return;
    if ((reads & ~l->alive) || (first && s->given && !in_order) || (!first && node->once))
        return;
    for (int saves = 0; saves <= 1; saves++) {
        link_label here = *l;
        const bool again = l->alive & bit;
        if (saves ? (l->alive & saved) || (l->done & bit) || node->saved_bytes == 0 : again)
            continue;
        if (again) /* only what it saves is wanted */
            link_drop(&here, v);
        link_move m = {.kind = saves ? REMAT_A : REMAT_F,
                       .x = v,
                       .reads = reads,
                       .makes = saves ? bit | saved : bit,
                       .extra = saves ? node->save_workspace_bytes : node->forward_workspace_bytes};
        link_try(s, here, &m, 0);
    }
}

static inline void link_backward(link_search *s, const link_label *l, uint32_t v)
{
    const remat_node *node = &s->p->nodes[v];
    const uint32_t every = (1u << s->n) - 1;
    link_move m = {.kind = REMAT_B,
                   .x = v,
                   .reads = (node->backward_uses_inputs ? link_inputs(s, v) : 0) |
                            (node->backward_uses_output ? 1u << v : 0) |
                            (node->saved_bytes > 0 ? 1u << (s->n + v) : 0),
                   .extra = node->backward_workspace_bytes +
                            (node->n_consumers == 0 ? node->gradient_bytes : 0)};
    if ((l->done >> v & 1) || l->ran != every || (m.reads & ~l->alive) ||
        (s->given && (l->done | ((2u << v) - 1)) != every))
        return;
    for (uint32_t c = 0; c < node->n_consumers; c++)
        if (!(l->done >> node->consumers[c] & 1))
            return;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const uint32_t value = node->inputs[i];
        const uint64_t bytes = link_begun(s, value, l->done) ? 0 : link_gradient(s, value);
        m.extra += bytes;
    }
    link_try(s, *l, &m, 0);
}

static inline void link_copies(link_search *s, const link_label *l, uint32_t x)
{
    const uint32_t bit = 1u << x;
    const bool loses = x < s->n && s->p->nodes[x].keep; /* keep: never fetched */
    const bool input = x >= 2 * s->n;                   /* it leaves for good, too */
    if (link_bytes(s, x) == 0 || loses || (!input && !link_wanted(s, l, x)))
        return;
    if ((l->alive & bit) && !(l->host & bit)) {
        link_label out = *l;
        out.out_free = fmaxf(fmaxf(out.now, out.out_free), out.fetched[x]) +
                       (float)s->link->latency +
                       (float)((double)link_bytes(s, x) / s->link->to_host);
        out.sent[x] = out.out_free;
        out.in_free = s->link->shared ? out.out_free : out.in_free;
        out.host |= bit;
        link_reach(s, out);
    } else if (!(l->alive & bit) && (l->host & bit)) {
        const link_move m = {.kind = REMAT_P, .x = x, .makes = bit};
        link_try(s, *l, &m, 0);
    }
}

/* The least makespan below `enough` within a budget: `enough` where there is none, LINK_NONE where
 * so many labels do not suffice. Where `enough` is infinite any makespan will do. */
static inline double least_over_link(const remat_profile *p, const remat_link *link,
                                     uint64_t budget, bool given, double enough,
                                     int32_t most_labels)
{
    link_search *s = calloc(1, sizeof *s);
    assert_non_null(s);
    *s = (link_search){.p = p,
                       .link = link,
                       .budget = budget,
                       .n = p->n_nodes,
                       .n_things = 2 * p->n_nodes + p->n_inputs,
                       .given = given,
                       .enough = (float)enough,
                       .most_labels = most_labels,
                       .labels = malloc((size_t)most_labels * sizeof *s->labels),
                       .heap = malloc((size_t)most_labels * sizeof *s->heap)};
    assert_true(s->labels && s->heap);
    memset(s->buckets, 0xff, sizeof s->buckets);
    const uint32_t every = (1u << s->n) - 1;
    double least = enough;
    if (p->input_bytes <= budget)
        link_reach(s, (link_label){.alive = ((1u << p->n_inputs) - 1) << 2 * s->n});
    while (s->n_heap > 0 && s->n_labels < most_labels) {
        const link_label l = s->labels[link_pop(s)];
        if (l.gone)
            continue;
        if (l.done == every) {
            least = (double)l.now;
            break;
        }
        for (uint32_t v = 0; v < s->n; v++) {
            link_forward(s, &l, v);
            link_backward(s, &l, v);
        }
        for (uint32_t x = 0; x < s->n_things; x++)
            link_copies(s, &l, x);
    }
    if (s->n_labels == most_labels && least == enough)
        least = LINK_NONE;
    free(s->labels);
    free(s->heap);
    free(s);
    return least;
}

#endif
