/* The step from one state of the forward program to the next does not depend on what follows, so
 * the forward phase is a shortest path, stage by stage, from (x = 0, i = 1) with nothing moved. A
 * label is a path to (x, i): what it costs (D_F + D_B of its steps), its free bytes, unsent and due
 * (forward.c). It is dropped when another one there is no worse in all four, or when what is left
 * takes so long, even without idle time and recomputation or by the relaxed program over slots,
 * that the best makespan known is not beaten. A first run with few labels of each stage finds a
 * good makespan, which spares the full one most of its labels. */
#include "start/offload/labels.h"

#include "model/arrays.h"
#include "start/offload/exact.h"

#include <math.h>

#define NONE UINT32_MAX
enum { NARROW = 64 };  /* labels of a stage in the search before the search */
#define ROUNDING 1e-12 /* of a conversion between units */

typedef struct label {
    double cost, unsent, due; /* time units */
    double least;             /* makespan of whatever it leads to, at least */
    uint64_t free;
    uint32_t parent, next; /* of the same (x, i) */
    offload_step step;     /* that led here; of the first label none */
} label;

typedef struct search {
    const offload_model *m;
    const offload_forward *relaxed;
    const remat_host *host;
    offload_exact *exact;
    double *forward_rest, *backward_rest; /* by stage: of it and all later ones */
    label *labels;
    size_t n_labels, capacity;
    uint32_t *first[2]; /* by x and stage */
    uint64_t n_kept;
    double best;   /* makespan, time units */
    uint32_t last; /* label that leads to it, before its loss step */
    double work, limit;
    remat_status status;
} search;

/* ---- labels ---- */

static bool no_worse(const label *a, const label *b)
{
    return a->cost <= b->cost && a->free >= b->free && a->unsent <= b->unsent && a->due <= b->due;
}

/* Unlinks the labels that `one` beats; false when one of them beats it. */
static bool compete(search *s, uint32_t *link, const label *one)
{
    while (*link != NONE) {
        label *other = &s->labels[*link];
        s->work++;
        if (no_worse(other, one))
            return false;
        if (no_worse(one, other)) {
            *link = other->next;
        } else {
            link = &other->next;
        }
    }
    return true;
}

static void add_label(search *s, uint32_t i, int x, label one)
{
    if (!compete(s, &s->first[x][i], &one))
        return;
    if (s->n_labels + 1 >= NONE ||
        !model_reserve(&s->labels, &s->capacity, s->n_labels + 1, sizeof one)) {
        s->status = REMAT_NO_MEMORY;
        return;
    }
    one.next = s->first[x][i];
    s->first[x][i] = (uint32_t)s->n_labels;
    s->labels[s->n_labels++] = one;
}

/* ---- steps ---- */

/* Slots that time on the link fills, rounded down; units of the relaxed program. */
static uint32_t slots_below(double time, const offload_slot_time *t, uint32_t most)
{
    double slots = t->slot > 0 ? time * t->inverse * (1 - ROUNDING) : 0;
    return slots < most ? (uint32_t)slots : most;
}

/* What the relaxed program says of the rest of a path, in this search's units. */
static double relaxed_rest(const search *s, uint32_t i, int x, const label *l)
{
    const offload_forward *f = s->relaxed;
    if (!f)
        return 0;
    double scale = f->model->units_per_time / s->m->units_per_time;
    uint32_t free = offload_backward_slots(f->backward, l->free);
    if (free > f->n_slots) /* all there is to need fits in fewer */
        free = f->n_slots;
    uint32_t unsent = slots_below(l->unsent * scale, &f->out, free);
    uint32_t due = slots_below(l->due * scale, &f->backward->in, free);
    return offload_forward_bound(f, i, x, free, unsent, due) / scale * (1 - ROUNDING);
}

/* The state after a step of `before` and `after` from label `from` at (x, i). */
static void arrive(search *s, uint32_t from, int x, offload_step step, double before, double after)
{
    const offload_model *m = s->m;
    const label *l = &s->labels[from];
    uint64_t input = offload_input_bytes(m, step.i, x);
    uint64_t kept = step.offload ? 0 : input;
    if (kept > l->free || isinf(after))
        return;
    double send = step.offload ? (double)input * m->out_per_byte : 0;
    double fetch = step.offload ? (double)input * m->in_per_byte : 0;
    label one = {.cost = l->cost + before + after,
                 .unsent = m->out_per_byte > 0 ? fmax(0, l->unsent + send - before) : 0,
                 .due = m->in_per_byte > 0 ? fmax(0, l->due - after) + fetch : 0,
                 .free = l->free - kept,
                 .parent = from,
                 .step = step};
    uint32_t i = step.j + 1;
    if (one.unsent > (double)one.free * m->out_per_byte ||
        one.due > (double)one.free * m->in_per_byte)
        return;
    double least = fmax(s->forward_rest[i], one.unsent) + fmax(s->backward_rest[i], one.due);
    if (one.cost + least >= s->best)
        return;
    one.least = one.cost + fmax(least, relaxed_rest(s, i, step.all, &one));
    if (one.least < s->best)
        add_label(s, i, step.all, one);
}

/* Case 1 and the loss. */
static void save_steps(search *s, uint32_t from, uint32_t i, int x)
{
    const offload_model *m = s->m;
    const label *l = &s->labels[from];
    uint64_t input = offload_input_bytes(m, i, x);
    uint64_t save = offload_need_save(m->chain, i, m->n) + input;
    uint64_t back = offload_need_backward(m->chain, i) + input;
    if (save > l->free || back > l->free)
        return;
    double room_out = (double)l->free * m->out_per_byte - l->unsent;
    double room_in = (double)l->free * m->in_per_byte - l->due;
    double before = m->forward[i] + fmax(0, (double)save * m->out_per_byte - room_out);
    double after = m->backward[i] + fmax(0, (double)back * m->in_per_byte - room_in);
    for (int offload = 0; offload < 2 && i < m->n; offload++)
        arrive(s, from, x, (offload_step){i, i, true, offload}, before, after);
    if (i < m->n)
        return;
    double cost = l->cost + before + after + fmax(0, l->unsent - before) + fmax(0, l->due - after);
    if (cost < s->best) {
        s->best = cost;
        s->last = from;
    }
}

static void pass_steps(search *s, uint32_t from, uint32_t i, int x)
{
    const offload_model *m = s->m;
    uint64_t free = s->labels[from].free, input = offload_input_bytes(m, i, x);
    double peak = 0, time = 0,
           over = (double)input * m->out_per_byte - (double)free * m->out_per_byte +
                  s->labels[from].unsent;
    uint64_t most = 0;
    for (uint32_t j = i; j < m->n && !s->status; j++) {
        uint64_t need = chain_need_forward(m->chain, i, j, m->n);
        peak = j == i ? (double)need * m->out_per_byte
                      : fmax(peak, (double)need * m->out_per_byte - time);
        time += m->forward[j];
        most = model_larger(most, need);
        if (need > free || input > free || (j == i && need + input > free))
            return;
        double before = time + fmax(0, peak + over);
        double due = s->labels[from].due;
        double after = offload_exact_value(s->exact, i, j, free - input, due);
        s->status = offload_exact_status(s->exact);
        if (s->status)
            return;
        arrive(s, from, x, (offload_step){i, j, false, true}, before, after);
        if (most + input <= free)
            arrive(s, from, x, (offload_step){i, j, false, false}, before, after);
    }
}

/* ---- the search ---- */

typedef struct promise {
    double least;
    uint32_t label;
} promise;

static int by_promise(const void *a, const void *b)
{
    const promise *p = a, *q = b;
    if (p->least != q->least)
        return p->least < q->least ? -1 : 1;
    return p->label < q->label ? -1 : 1;
}

static void expand_label(search *s, uint32_t k, uint32_t i, int x)
{
    s->n_kept++;
    save_steps(s, k, i, x);
    if (i < s->m->n && !s->status)
        pass_steps(s, k, i, x);
    if (s->work + offload_exact_work(s->exact) * s->m->n > s->limit)
        s->status = REMAT_TOO_LARGE;
    if (remat_host_cancelled(s->host))
        s->status = REMAT_CANCELLED;
}

/* The most promising labels of (x, i), at most `width`. */
static void expand(search *s, uint32_t i, int x, size_t width)
{
    size_t count = 0;
    for (uint32_t k = s->first[x][i]; k != NONE; k = s->labels[k].next)
        count++;
    promise *promises = malloc((count + 1) * sizeof *promises);
    if (!promises) {
        s->status = REMAT_NO_MEMORY;
        return;
    }
    count = 0;
    for (uint32_t k = s->first[x][i]; k != NONE; k = s->labels[k].next)
        promises[count++] = (promise){s->labels[k].least, k};
    if (count > width)
        qsort(promises, count, sizeof *promises, by_promise);
    for (size_t k = 0; k < count && k < width && !s->status; k++)
        expand_label(s, promises[k].label, i, x);
    free(promises);
}

/* From the start, with at most `width` labels of each (x, i). */
static void run(search *s, uint64_t free, size_t width)
{
    for (int x = 0; x < 2; x++)
        for (uint32_t i = 0; i < s->m->n + 2; i++)
            s->first[x][i] = NONE;
    s->n_kept = 0;
    add_label(s, 1, 0, (label){.free = free, .parent = NONE});
    for (uint32_t i = 1; i <= s->m->n && !s->status; i++)
        for (int x = 0; x < 2; x++)
            expand(s, i, x, width);
}

static remat_status prepare(search *s, remat_error *error)
{
    const offload_model *m = s->m;
    size_t length = (size_t)m->n + 2;
    double *rest = calloc(2 * length, sizeof *rest);
    uint32_t *first = malloc(2 * length * sizeof *first);
    s->forward_rest = rest;
    s->first[0] = first;
    if (!rest || !first)
        return remat_fail_memory(error);
    s->backward_rest = rest + length;
    s->first[1] = first + length;
    for (uint32_t i = m->n; i > 0; i--) {
        s->forward_rest[i] = s->forward_rest[i + 1] + m->forward[i];
        s->backward_rest[i] = s->backward_rest[i + 1] + m->backward[i];
    }
    return offload_exact_new(m, s->limit / m->n, s->host, &s->exact, error);
}

/* ---- the plan ---- */

typedef struct path {
    search *s;
    offload_step *steps;
    uint32_t *from; /* label that each step leaves */
    size_t n_steps;
} path;

static remat_status child(void *context, size_t k, remat_operations *operations)
{
    const path *p = context;
    const label *l = &p->s->labels[p->from[k]];
    const offload_step *step = &p->steps[k];
    int x = k > 0 && p->steps[k - 1].all;
    uint64_t input = offload_input_bytes(p->s->m, step->i, x);
    return offload_exact_trace(p->s->exact, step->i, step->j, l->free - input, l->due, operations);
}

static void walk_back(path *p)
{
    const search *s = p->s;
    size_t at = s->m->n;
    uint32_t k = s->last;
    p->steps[--at] = (offload_step){s->m->n, s->m->n, true, false};
    p->from[at] = k;
    for (; s->labels[k].parent != NONE; k = s->labels[k].parent) {
        p->steps[--at] = s->labels[k].step;
        p->from[at] = s->labels[k].parent;
    }
    p->steps += at;
    p->from += at;
    p->n_steps = s->m->n - at;
}

static remat_status build_plan(search *s, offload_plan *plan, remat_error *error)
{
    offload_step *steps = malloc(s->m->n * sizeof *steps);
    uint32_t *from = malloc(s->m->n * sizeof *from);
    path p = {.s = s, .steps = steps, .from = from};
    remat_status status =
        steps && from ? offload_plan_init(plan, s->m->profile, error) : remat_fail_memory(error);
    if (!status) {
        walk_back(&p);
        status = offload_plan_build(plan, s->m, p.steps, p.n_steps, child, &p);
    }
    free(steps);
    free(from);
    if (!status)
        return REMAT_OK;
    offload_plan_clear(plan);
    return status == REMAT_NO_MEMORY ? remat_fail_memory(error) : status;
}

static remat_status finish(search *s, offload_labels_result *ret_result, remat_error *error)
{
    offload_labels_result result = {.labels = s->n_kept,
                                    .work = s->work + offload_exact_work(s->exact) * s->m->n};
    if (s->status == REMAT_CANCELLED)
        return remat_fail(error, REMAT_CANCELLED, NULL, "cancelled");
    if (s->status == REMAT_NO_MEMORY)
        return remat_fail_memory(error);
    if (s->status == REMAT_OK) {
        result.finished = true;
        result.value = s->best / s->m->units_per_time;
        remat_status status = s->last == NONE ? REMAT_OK : build_plan(s, &result.plan, error);
        if (status)
            return status;
    }
    *ret_result = result;
    return REMAT_OK;
}

remat_status offload_labels_search(const offload_model *model, const offload_forward *relaxed,
                                   uint64_t budget, double bound, double work,
                                   const remat_host *host, offload_labels_result *ret_result,
                                   remat_error *error)
{
    if (budget < model->resident) {
        *ret_result = (offload_labels_result){.finished = true, .value = INFINITY};
        return REMAT_OK;
    }
    search s = {.m = model, .relaxed = relaxed, .host = host, .limit = work, .last = NONE};
    s.best = bound * model->units_per_time;
    remat_status status = prepare(&s, error);
    if (!status)
        run(&s, budget - model->resident, NARROW);
    if (!status && !s.status)
        run(&s, budget - model->resident, SIZE_MAX);
    if (!status)
        status = finish(&s, ret_result, error);
    offload_exact_free(s.exact);
    free(s.labels);
    free(s.forward_rest);
    free(s.first[0]);
    return status;
}
