#include "search/exact.h"

#include "model/arrays.h"
#include "model/numbers.h"

#include <math.h>
#include <string.h>

enum {
    MOST_NODES = 12,
    MOST_ITEMS = 64,     /* one stays free */
    MOST_RUNS = 256,     /* kinds of them */
    MOST_WORK = 2000000, /* ways to drop that are looked at */
    MOST_STATES = 400000,
    SLOTS = 1 << 20, /* of the table of states */
    ROUNDS_BETWEEN_POLLS = 1024
};

#define MARGIN 1e-12 /* of the time: sums are rounded otherwise in another order */

/* What one run needs and does. Sets of items: outputs of nodes and what is saved of them. */
typedef struct run {
    remat_operation operation;
    uint64_t reads, makes, ends, clears; /* ends: dies with it; clears: has to be dropped before */
    uint64_t after, sets;                /* of what is done */
    uint64_t workspace;
    double time;
    bool backward, once;
    uint64_t over, less; /* an item that it may overwrite, and the bytes that this saves */
} run;

typedef struct state {
    uint64_t alive, done;
    double time;
    uint32_t from; /* index; its own: the first one */
    uint16_t run, n_runs;
    bool closed;
} state;

typedef struct entry {
    double time; /* to the end, at least */
    uint32_t state;
    uint16_t n_runs;
} entry;

typedef struct exact {
    const remat_profile *p;
    uint32_t n, n_items, n_kinds;
    uint64_t budget;
    uint64_t bytes[MOST_ITEMS];
    uint64_t outs[MOST_NODES], saved[MOST_NODES];     /* by node: items */
    uint64_t inputs[MOST_NODES], wanted[MOST_NODES];  /* what its forward reads, its backward */
    uint64_t readers[MOST_NODES];                     /* nodes that read it */
    double forward[MOST_NODES], backward[MOST_NODES]; /* least times */
    bool may_not_save[MOST_NODES];
    bool counts[MOST_NODES]; /* whether its forward has run is part of the state */
    uint64_t end;            /* items there at the end */
    run runs[MOST_RUNS];
    state *states;
    uint32_t *slots;
    entry *heap;
    size_t n_states, n_heap, room, heap_room;
    uint32_t work;
    bool failed; /* out of memory */
} exact;

static uint64_t bit(uint32_t i)
{
    return UINT64_C(1) << i;
}

static uint32_t lowest(uint64_t set)
{
    return (uint32_t)__builtin_ctzll(set);
}

/* That the forward of v has run, where it counts. */
static uint64_t ran(const exact *x, uint32_t v)
{
    return x->counts[v] ? bit(x->n + v) : 0;
}

/* ---- the graph ---- */

static uint64_t item_of(const exact *x, uint32_t value)
{
    if (!remat_is_result(x->p, value))
        return 0;
    uint64_t items = x->outs[remat_value_node(x->p, value)];
    for (uint32_t k = remat_value_number(x->p, value); k > 0; k--)
        items &= items - 1;
    return items & (~items + 1);
}

static uint64_t add_item(exact *x, uint64_t bytes)
{
    if (x->n_items == MOST_ITEMS)
        return 0;
    x->bytes[x->n_items] = bytes;
    return bit(x->n_items++);
}

static void add_run(exact *x, run r)
{
    if (x->n_kinds < MOST_RUNS)
        x->runs[x->n_kinds] = r;
    x->n_kinds++;
}

static void add_forwards(exact *x, uint32_t v, uint32_t k, uint64_t saved)
{
    const remat_node *node = &x->p->nodes[v];
    const remat_alternative cost = remat_implementation(node, k);
    const uint64_t over = node->in_place && node->n_inputs > 0 ? item_of(x, node->inputs[0]) : 0;
    run r = {.operation = {.kind = REMAT_F, .alternative = (uint16_t)k, .index = v},
             .reads = x->inputs[v],
             .makes = x->outs[v],
             .clears = x->outs[v],
             .sets = ran(x, v),
             .workspace = cost.forward_workspace_bytes,
             .time = cost.forward_time,
             .once = node->once,
             .over = over,
             .less = over ? model_smaller(x->bytes[lowest(over)], node->output_bytes) : 0};
    add_run(x, r);
    if (x->p->joint)
        return;
    r.operation.kind = REMAT_A;
    r.makes |= saved;
    r.clears |= x->saved[v];
    r.workspace = cost.save_workspace_bytes;
    add_run(x, r);
}

static void add_backward(exact *x, uint32_t v, uint32_t k, uint64_t saved)
{
    const remat_node *node = &x->p->nodes[v];
    const remat_alternative cost = remat_implementation(node, k);
    add_run(x, (run){.operation = {.kind = REMAT_B, .alternative = (uint16_t)k, .index = v},
                     .reads = x->wanted[v] | saved,
                     .ends = x->saved[v],
                     .after = x->readers[v] | ran(x, x->n - 1),
                     .sets = bit(v),
                     .workspace = cost.backward_workspace_bytes,
                     .time = cost.backward_time,
                     .backward = true,
                     .once = true});
}

static void describe_node(exact *x, uint32_t v)
{
    const remat_node *node = &x->p->nodes[v];
    for (uint32_t k = 0; k < node->n_outputs; k++)
        x->outs[v] |= add_item(x, remat_value_bytes(x->p, remat_result_value(x->p, v, k)));
    for (uint32_t i = 0; i < node->n_inputs; i++)
        x->inputs[v] |= item_of(x, node->inputs[i]);
    x->wanted[v] = (node->backward_uses_inputs ? x->inputs[v] : 0) |
                   (node->backward_uses_output ? x->outs[v] : 0);
    for (uint32_t i = 0; i < node->n_consumers; i++)
        x->readers[v] |= bit(node->consumers[i]);
    x->counts[v] = x->p->joint || node->once || v + 1 == x->n;
    x->forward[v] = x->backward[v] = INFINITY;
}

static void describe_runs(exact *x, uint32_t v)
{
    const remat_node *node = &x->p->nodes[v];
    uint64_t saved[REMAT_MAX_ALTERNATIVES + 1];
    for (uint32_t k = 0; k <= node->n_alternatives; k++) {
        const remat_alternative cost = remat_implementation(node, k);
        saved[k] = cost.saved_bytes > 0 ? add_item(x, cost.saved_bytes) : 0;
        x->saved[v] |= saved[k];
        x->may_not_save[v] |= cost.saved_bytes == 0;
        x->forward[v] = fmin(x->forward[v], cost.forward_time);
        x->backward[v] = fmin(x->backward[v], cost.backward_time);
    }
    for (uint32_t k = 0; k <= node->n_alternatives; k++) {
        add_forwards(x, v, k, saved[k]);
        if (!x->p->joint)
            add_backward(x, v, k, saved[k]);
    }
}

/* False where it is more than there is room for. */
static bool describe(exact *x, bool given)
{
    const remat_profile *p = x->p;
    for (uint32_t v = 0; v < x->n; v++)
        describe_node(x, v);
    for (uint32_t v = 0; v < x->n; v++)
        describe_runs(x, v);
    for (uint32_t i = 0; i < p->n_outputs && p->joint; i++)
        x->end |= item_of(x, p->outputs[i]);
    for (uint32_t i = 0; i < x->n_kinds && i < MOST_RUNS && given; i++)
        x->runs[i].after = bit(x->n + x->runs[i].operation.index) - bit(x->n);
    return x->n_items < MOST_ITEMS && x->n_kinds <= MOST_RUNS;
}

/* ---- what a state says ---- */

static uint64_t bytes_of(const exact *x, uint64_t items)
{
    uint64_t bytes = 0;
    for (; items; items &= items - 1)
        bytes += x->bytes[lowest(items)];
    return bytes;
}

static bool begun(const uint32_t *consumers, uint32_t n, uint64_t done)
{
    for (uint32_t i = 0; i < n; i++)
        if (done >> consumers[i] & 1)
            return true;
    return false;
}

static bool gradient_begun(const exact *x, uint32_t value, uint64_t done)
{
    const remat_profile *p = x->p;
    return value < x->n ? begun(p->nodes[value].consumers, p->nodes[value].n_consumers, done)
                        : begun(p->inputs[value - x->n].consumers,
                                p->inputs[value - x->n].n_consumers, done);
}

/* Graph inputs and gradients. */
static uint64_t fixed_bytes(const exact *x, uint64_t done)
{
    const remat_profile *p = x->p;
    uint64_t bytes = p->input_bytes;
    for (uint32_t value = 0; value < x->n + p->n_inputs && !p->joint; value++)
        if ((value >= x->n || !(done >> value & 1)) && gradient_begun(x, value, done))
            bytes += remat_gradient_bytes(p, value);
    return bytes;
}

/* What B v adds while it runs: gradients that it begins, less what lies in place. */
static uint64_t new_gradients(const exact *x, uint32_t v, uint64_t done)
{
    const remat_node *node = &x->p->nodes[v];
    uint64_t bytes = node->n_consumers == 0 ? node->gradient_bytes : 0;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const uint64_t one = gradient_begun(x, node->inputs[i], done)
                                 ? 0
                                 : remat_gradient_bytes(x->p, node->inputs[i]);
        bytes += one;
        if (i == 0 && node->in_place)
            bytes -= model_smaller(one, node->gradient_bytes);
    }
    return bytes;
}

/* Items that a run to come may use. */
static uint64_t useful(const exact *x, uint64_t done)
{
    const bool joint = x->p->joint;
    uint64_t items = x->end;
    for (uint32_t v = 0; v < x->n && !joint; v++)
        if (!(done >> v & 1))
            items |= x->wanted[v] | x->saved[v];
    for (uint32_t v = x->n; v-- > 0;) {
        const bool first = x->counts[v] && !(done & ran(x, v));
        if (first || (items & (x->outs[v] | x->saved[v])))
            items |= x->inputs[v];
    }
    return items;
}

/* The time that is to come at least. */
static double time_left(const exact *x, uint64_t alive, uint64_t done)
{
    double time = 0;
    uint64_t needed = x->end;
    for (uint32_t v = 0; v < x->n && !x->p->joint; v++)
        if (!(done >> v & 1)) {
            needed |= x->wanted[v];
            time += x->backward[v];
        }
    for (uint32_t v = x->n; v-- > 0;) {
        const bool first = x->counts[v] && !(done & ran(x, v)),
                   saves = !x->p->joint && !(done >> v & 1) && !x->may_not_save[v] &&
                           !(alive & x->saved[v]);
        if (!first && !saves && !(needed & x->outs[v] & ~alive))
            continue;
        if (x->p->nodes[v].once && !first)
            return INFINITY;
        needed |= x->inputs[v];
        time += x->forward[v];
    }
    return time;
}

/* ---- the states found ---- */

static bool before(const entry *a, const entry *b)
{
    if (a->time != b->time)
        return a->time < b->time;
    if (a->n_runs != b->n_runs)
        return a->n_runs < b->n_runs;
    return a->state > b->state; /* the deeper one, about */
}

static void push(exact *x, entry e)
{
    if (!model_reserve(&x->heap, &x->heap_room, x->n_heap + 1, sizeof *x->heap)) {
        x->failed = true;
        return;
    }
    size_t at = x->n_heap++;
    for (; at > 0 && before(&e, &x->heap[(at - 1) / 2]); at = (at - 1) / 2)
        x->heap[at] = x->heap[(at - 1) / 2];
    x->heap[at] = e;
}

static entry pop(exact *x)
{
    const entry first = x->heap[0], last = x->heap[--x->n_heap];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < x->n_heap; at = child) {
        child += child + 1 < x->n_heap && before(&x->heap[child + 1], &x->heap[child]);
        if (!before(&x->heap[child], &last))
            break;
        x->heap[at] = x->heap[child];
    }
    if (x->n_heap > 0)
        x->heap[at] = last;
    return first;
}

/* Its slot in the table, which has room. */
static uint32_t *slot_of(exact *x, uint64_t alive, uint64_t done)
{
    uint64_t hash = (alive * UINT64_C(0x9E3779B97F4A7C15)) ^ (done * UINT64_C(0xC2B2AE3D27D4EB4F));
    hash ^= hash >> 29;
    hash *= UINT64_C(0xBF58476D1CE4E5B9);
    for (uint32_t at = (uint32_t)(hash >> 40) % SLOTS;; at = (at + 1) % SLOTS) {
        const uint32_t index = x->slots[at];
        if (index == 0 ||
            (x->states[index - 1].alive == alive && x->states[index - 1].done == done))
            return &x->slots[at];
    }
}

static bool is_full(const exact *x)
{
    return x->work >= MOST_WORK || x->n_states >= MOST_STATES;
}

static void reach(exact *x, uint64_t alive, uint64_t done, double time, uint32_t from,
                  uint32_t kind)
{
    const uint16_t n_runs = (uint16_t)(x->n_states > 0 ? x->states[from].n_runs + 1 : 0);
    uint32_t *slot = slot_of(x, alive, done);
    const double left = time_left(x, alive, done);
    if (left == INFINITY || x->failed)
        return;
    if (*slot == 0) {
        if (!model_reserve(&x->states, &x->room, x->n_states + 1, sizeof *x->states)) {
            x->failed = true;
            return;
        }
        *slot = (uint32_t)++x->n_states;
    } else {
        const state *old = &x->states[*slot - 1];
        if (old->time < time || (old->time == time && old->n_runs <= n_runs))
            return;
    }
    x->states[*slot - 1] = (state){alive, done, time, from, (uint16_t)kind, n_runs, false};
    push(x, (entry){time + left, *slot - 1, n_runs});
}

/* ---- runs ---- */

/* A run that a state allows. */
typedef struct move {
    exact *x;
    const run *r;
    uint32_t from, kind;
    uint64_t alive, done; /* before and after it */
    double time;
} move;

static void arrive(const move *m, uint64_t alive)
{
    const uint64_t after = (alive | m->r->makes) & ~m->r->ends;
    reach(m->x, after & useful(m->x, m->done), m->done, m->time, m->from, m->kind);
}

/* Drops from these items, in every way that does and that needs all that it drops. least: the
 * smallest dropped. */
static void drop(const move *m, uint64_t items, uint64_t dropped, uint64_t excess, uint64_t freed,
                 uint64_t least)
{
    m->x->work++;
    if (freed >= excess) {
        if (freed - excess < least)
            arrive(m, m->alive & ~dropped);
        return;
    }
    if (freed + bytes_of(m->x, items) < excess)
        return;
    for (; items; items &= items - 1) {
        const uint64_t bytes = m->x->bytes[lowest(items)];
        if (bytes > 0 && !is_full(m->x))
            drop(m, items & (items - 1), dropped | bit(lowest(items)), excess, freed + bytes,
                 model_smaller(least, bytes));
    }
}

static void try_run(exact *x, uint32_t from, uint32_t kind)
{
    const run *r = &x->runs[kind];
    const state s = x->states[from];
    if ((s.alive & r->reads) != r->reads || (s.done & r->after) != r->after ||
        (r->once && (s.done & r->sets)))
        return;
    if ((s.done & r->sets) == r->sets && !(r->makes & ~s.alive & useful(x, s.done)))
        return;
    move m = {x, r, from, kind, s.alive & ~r->clears, s.done | r->sets, s.time + r->time};
    const uint64_t there = fixed_bytes(x, s.done) + r->workspace + bytes_of(x, m.alive | r->makes) +
                           (r->backward ? new_gradients(x, r->operation.index, s.done) : 0);
    const uint64_t excess = there > x->budget ? there - x->budget : 0;
    drop(&m, m.alive & ~r->reads, 0, excess, 0, UINT64_MAX);
    if (excess == 0 || !(r->over & s.alive))
        return;
    m.alive &= ~r->over;
    drop(&m, m.alive & ~r->reads, 0, excess > r->less ? excess - r->less : 0, 0, UINT64_MAX);
}

static bool is_end(const exact *x, const state *s)
{
    uint64_t all = x->p->joint ? 0 : bit(x->n) - 1;
    for (uint32_t v = 0; v < x->n; v++)
        all |= ran(x, v);
    return s->done == all && (s->alive & x->end) == x->end;
}

/* The runs that led there. */
static remat_status trace(const exact *x, uint32_t at, remat_operations *ret_list)
{
    remat_status status = REMAT_OK;
    for (uint32_t i = at; x->states[i].from != i && !status; i = x->states[i].from)
        status = remat_operations_push(ret_list, x->runs[x->states[i].run].operation);
    for (size_t i = 0; i < ret_list->length / 2; i++) {
        const remat_operation last = ret_list->items[ret_list->length - 1 - i];
        ret_list->items[ret_list->length - 1 - i] = ret_list->items[i];
        ret_list->items[i] = last;
    }
    return status;
}

static remat_status search(exact *x, const remat_host *host, search_exact_found *f)
{
    if (x->p->input_bytes <= x->budget)
        reach(x, 0, 0, 0, 0, 0);
    for (uint32_t round = 1; x->n_heap > 0 && !x->failed; round++) {
        const entry e = pop(x);
        state *s = &x->states[e.state];
        if (s->closed || s->n_runs != e.n_runs)
            continue;
        f->bound = e.time * (1 - MARGIN);
        if (is_end(x, s))
            return trace(x, e.state, &f->list);
        s->closed = true;
        for (uint32_t kind = 0; kind < x->n_kinds; kind++)
            try_run(x, e.state, kind);
        if (is_full(x))
            return x->failed ? REMAT_NO_MEMORY : REMAT_OK;
        if (round % ROUNDS_BETWEEN_POLLS == 0 && remat_host_cancelled(host))
            return REMAT_CANCELLED;
    }
    f->bound = INFINITY;
    return x->failed ? REMAT_NO_MEMORY : REMAT_OK;
}

remat_status search_exactly(const remat_profile *profile, uint64_t budget, bool given,
                            const remat_host *host, search_exact_found *ret_found,
                            remat_error *error)
{
    *ret_found = (search_exact_found){.bound = 0};
    if (profile->n_nodes > MOST_NODES || profile->n_states > 0 || profile->n_late > 0)
        return REMAT_OK;
    exact *x = calloc(1, sizeof *x);
    uint32_t *slots = calloc(SLOTS, sizeof *slots);
    remat_status status = REMAT_NO_MEMORY;
    if (x && slots) {
        *x = (exact){.p = profile, .n = profile->n_nodes, .budget = budget, .slots = slots};
        status = describe(x, given && profile->joint) ? search(x, host, ret_found) : REMAT_OK;
        free(x->states);
        free(x->heap);
    }
    free(slots);
    free(x);
    if (status)
        remat_operations_clear(&ret_found->list);
    return status == REMAT_NO_MEMORY ? remat_fail_memory(error)
           : status                  ? remat_fail(error, status, NULL, "cancelled")
                                     : REMAT_OK;
}
