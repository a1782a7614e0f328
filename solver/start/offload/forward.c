/* OC (appendix of the paper, B.3 and Table 2; notation of the specification): the duration from the
 * first forward of stage i to the end of B^i, for an input stored as a_{i-1} (x = 0) or abar_{i-1}
 * (x = 1). Of a state, free = M - A with A the bytes kept until B^i, the input not counted; unsent
 * (A_F) are bytes still to be offloaded when the step starts; due (A_B) must have been prefetched
 * when it ends. A step is
 *
 *   case 1  F_all^i .. B^i
 *   case 2  F_ck^i F_none^{i+1} .. F_none^j, later C_A(i, j): the sub-chain's backward
 *   loss    F_all^n, B^n, between them what is still unsent and what B^n must find back
 *
 * each with its input kept or offloaded. Corrected: the idle time of case 2 sums u_f over l = i ..
 * k-1, the distance from the start; D_F and D_B are (u + eps) times the bandwidth; the capacity of
 * a pass is tested on its own stages only. The minimum runs along i, so a state is a row of values
 * by due. */
#include "start/offload/forward.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDING 1e-9 /* of sums of times, and more */

/* A row: (x, i, free, unsent). */
typedef struct place {
    uint32_t i, free, unsent;
    int x;
} place;

/* The end of a step, the same for every unsent, by due; from `known` on. */
typedef struct ending {
    uint32_t known;
    uint32_t due[OFFLOAD_MAX_SLOTS + 1]; /* when the next step ends */
    double after[OFFLOAD_MAX_SLOTS + 1]; /* D_B; INFINITY where more is due then than fits */
} ending;

/* A step out of rows that differ by unsent alone. */
typedef struct move {
    offload_step step;
    double time, need;   /* of its forwards; what they need, as time to send it */
    double sent, fetch;  /* times to move the input; 0: it is kept */
    double over_back;    /* case 1 and loss: M_B beyond the free bytes, as fetching time */
    const double *child; /* case 2: C_A(i, j) by due */
    uint32_t calm;       /* up to this due, excluded, it fetches everything itself */
    uint32_t due;        /* when the next step ends where nothing is due when this one does */
    ending *ending;
    double before; /* D_F, and where it leads to: of one row */
    place to;
} move;

/* The form in which i finds its input. Where nothing was saved both are one. */
static int form_of(const offload_forward *f, uint32_t i, bool all)
{
    const chain_costs *chain = f->model->chain;
    return all && i > 1 && chain->kept[i - 1] > chain->output[i - 1];
}

static const offload_reach *reach_of(const offload_forward *f, uint32_t i, int x)
{
    return &f->reach[2 * (size_t)i + (size_t)x];
}

/* Number of entries that a state of so many free slots has where at most `most` can come up. */
static uint32_t entries(uint32_t most, uint32_t free)
{
    return (most < free ? most : free) + 1;
}

static uint32_t width_of(const offload_forward *f, const place *p)
{
    return entries(reach_of(f, p->i, p->x)->due, p->free);
}

/* Stage by stage, form by form; then by free and unsent. */
static double *row_of(const offload_forward *f, const place *p)
{
    const size_t rows = f->first[(2 * (size_t)p->i + (size_t)p->x) * (f->n_slots + 1) + p->free];
    return f->value + rows + (size_t)p->unsent * width_of(f, p);
}

/* ---- steps ---- */

/* Whether need bytes fit beside the input in `free` slots. */
static bool fits(const offload_forward *f, uint64_t need, uint32_t free)
{
    return offload_backward_slots(f->backward, need) <= free;
}

/* What does not depend on what is unsent. false: it needs more than there is. */
static bool prepare(const offload_forward *f, const place *p, move *m)
{
    const offload_step *s = &m->step;
    const uint64_t input = offload_input_bytes(f->model, s->i, p->x);
    const uint32_t kept = s->offload ? 0 : offload_backward_kept(f->backward, input);
    if (s->i == f->model->n)
        return true;
    m->sent = s->offload ? offload_send_time(f->model, s->i, p->x) : 0;
    m->fetch = s->offload ? offload_fetch_time(f->model, s->i, p->x) : 0;
    m->due = offload_slots_of(&f->backward->in, m->fetch);
    if (kept > p->free)
        return false;
    m->to = (place){.i = s->j + 1, .x = form_of(f, s->j + 1, s->all), .free = p->free - kept};
    return m->due < width_of(f, &m->to);
}

/* The state after it from p (Table 2). false: it needs more than there is. */
static bool arrive(const offload_forward *f, const place *p, move *m)
{
    const double room = (p->free - (double)p->unsent) * f->out.slot;
    m->before = m->time + offload_longer(0, m->need - room);
    m->to.unsent = offload_slots_of(&f->out, p->unsent * f->out.slot + m->sent - m->before);
    return p->i == f->model->n || m->to.unsent <= m->to.free;
}

/* Case 1 and the loss. */
static bool save_step(const offload_forward *f, const place *p, bool offload, move *m)
{
    const offload_model *model = f->model;
    uint64_t input = offload_input_bytes(model, p->i, p->x);
    uint64_t save = offload_need_save(model->chain, p->i, model->n) + input;
    uint64_t back = offload_need_backward(model->chain, p->i) + input;
    if (!fits(f, save, p->free) || !fits(f, back, p->free))
        return false;
    *m = (move){.step = {.i = p->i, .j = p->i, .all = true, .offload = offload},
                .time = model->forward[p->i],
                .need = (double)save * model->out_per_byte,
                .over_back = (double)back * model->in_per_byte - p->free * f->backward->in.slot};
    return prepare(f, p, m);
}

/* The forwards of a pass, one after the other. */
typedef struct pass {
    uint32_t slots_kept, slots_sent; /* needed where the input is kept, or offloaded */
    double peak;                     /* most that a forward needs less what leaves before it */
    double time;
} pass;

static void next_stage(const offload_forward *f, const place *p, uint32_t k, pass *of)
{
    const offload_model *m = f->model;
    uint64_t input = offload_input_bytes(m, p->i, p->x);
    uint64_t need = chain_need_forward(m->chain, p->i, k, m->n);
    uint32_t kept = offload_backward_slots(f->backward, need + input);
    uint32_t sent = k == p->i ? kept : offload_backward_slots(f->backward, need);
    double peak = (double)need * m->out_per_byte - of->time;
    of->slots_kept = kept > of->slots_kept ? kept : of->slots_kept;
    of->slots_sent = sent > of->slots_sent ? sent : of->slots_sent;
    of->peak = k == p->i ? peak : offload_longer(of->peak, peak);
    of->time += m->forward[k];
}

/* Case 2 up to stage j, of which `of` tells. */
static bool pass_step(const offload_forward *f, const place *p, const pass *of, uint32_t j,
                      bool offload, move *m)
{
    uint64_t input = offload_input_bytes(f->model, p->i, p->x);
    uint32_t held = offload_backward_kept(f->backward, input);
    if ((offload ? of->slots_sent : of->slots_kept) > p->free || held > p->free)
        return false;
    size_t row = offload_backward_row(f->backward, p->i, j, p->free - held);
    *m = (move){.step = {.i = p->i, .j = j, .offload = offload},
                .time = of->time,
                .need = of->peak + (double)input * f->model->out_per_byte,
                .child = f->backward->value + row,
                .calm = offload_backward_calm(f->backward, row)};
    return prepare(f, p, m);
}

/* Rows of one (i, x, free), from one number of unsent slots to another. They take a step one after
 * the other, as what it leads to stands side by side in memory, too. */
typedef struct rows {
    place first;
    uint32_t last;
    bool (*visit)(void *context, const place *p, const move *m);
    void *context;
    bool ended[OFFLOAD_MAX_SLOTS + 1]; /* by unsent: visit has returned false */
} rows;

/* of: what the step passes over; NULL: nothing, it is case 1 or the loss. */
static void take_step(const offload_forward *f, rows *r, const pass *of, uint32_t j, bool offload)
{
    move m;
    ending end;
    place p = r->first;
    if (!(of ? pass_step(f, &p, of, j, offload, &m) : save_step(f, &p, offload, &m)))
        return;
    end.known = width_of(f, &p);
    m.ending = &end;
    for (; p.unsent <= r->last; p.unsent++)
        if (!r->ended[p.unsent] && arrive(f, &p, &m))
            r->ended[p.unsent] = !r->visit(r->context, &p, &m);
}

/* Calls visit for every step out of each row, until it returns false for that one. */
static void each_step(const offload_forward *f, rows *r)
{
    const place *p = &r->first;
    pass so_far = {0};
    uint32_t n = f->model->n;
    for (int offload = 0; offload < (p->i < n ? 2 : 1); offload++)
        take_step(f, r, NULL, p->i, offload);
    for (uint32_t j = p->i; j < n; j++) {
        next_stage(f, p, j, &so_far);
        if (so_far.slots_sent > p->free)
            return;
        for (int offload = 0; offload < 2; offload++)
            take_step(f, r, &so_far, j, offload);
    }
}

/* ---- values ---- */

static void relax_loss(const offload_forward *f, const place *p, const move *m, double *best)
{
    double slot = f->backward->in.slot,
           unsent = offload_longer(0, p->unsent * f->out.slot - m->before);
    for (uint32_t due = 0; due < width_of(f, p); due++) {
        double after = f->model->backward[p->i] + offload_longer(0, m->over_back + due * slot);
        best[due] = m->before + after + unsent + offload_longer(0, due * slot - after);
    }
}

static double after_step(const offload_forward *f, const place *p, const move *m, uint32_t due)
{
    return m->child ? m->child[due]
                    : f->model->backward[p->i] +
                          offload_longer(0, m->over_back + due * f->backward->in.slot);
}

/* Makes the ending known from first on. */
static void find_ending(const offload_forward *f, const place *p, const move *m, uint32_t first)
{
    const offload_slot_time *in = &f->backward->in;
    const uint32_t width = width_of(f, &m->to);
    ending *e = m->ending;
    for (; e->known > first; e->known--) {
        const uint32_t due = e->known - 1;
        const double after = after_step(f, p, m, due);
        const uint32_t slots =
            offload_slots_of(in, offload_longer(0, due * in->slot - after) + m->fetch);
        e->after[due] = slots < width ? after : INFINITY;
        e->due[due] = slots < width ? slots : 0;
    }
}

/* Values of p by due, from first on, as step m gives them, kept in best where they are less. */
static void relax(const offload_forward *f, const place *p, const move *m, uint32_t first,
                  double *best)
{
    const double *next = row_of(f, &m->to);
    const uint32_t width = width_of(f, p), calm = m->calm < width ? m->calm : width;
    const double others = m->before + next[m->due]; /* at least, after this step */
    uint32_t due = first;
    due += offload_first_above(best + due, width - due, others + after_step(f, p, m, due));
    for (; due < calm; due++)
        best[due] = others + m->child[due] < best[due] ? others + m->child[due] : best[due];
    find_ending(f, p, m, due);
    const ending *e = m->ending;
    for (; due < width; due++) {
        double time = m->before + e->after[due] + next[e->due[due]];
        best[due] = time < best[due] ? time : best[due];
    }
}

/* What step m and all after it take at least. */
static double least_time(const offload_model *model, const move *m)
{
    const offload_step *s = &m->step;
    double back = s->all ? model->backward[s->i] : model->leaves[s->j] - model->leaves[s->i - 1];
    return m->before + back + model->rest[s->j + 1];
}

/* Steps come with ever longer passes: once one cannot be better for any due, none can. */
static bool relax_step(const offload_forward *f, const place *p, const move *m, double *best)
{
    if (p->i == f->model->n) {
        relax_loss(f, p, m, best);
        return true;
    }
    const uint32_t width = width_of(f, p);
    uint32_t first = offload_first_above(best, width, least_time(f->model, m));
    if (first < width)
        relax(f, p, m, first, best);
    return first < width || m->step.all;
}

/* ---- the table, from the last stage on ---- */

typedef struct layer {
    const offload_forward *f;
    const remat_host *host;
    uint32_t i;
} layer;

static bool relax_row(void *context, const place *p, const move *m)
{
    const offload_forward *f = context;
    return relax_step(f, p, m, row_of(f, p));
}

/* Rows of one form and one number of free slots. */
static void fill_rows(void *context, size_t index, unsigned worker)
{
    (void)worker;
    const layer *l = context;
    const uint32_t free = l->f->n_slots - (uint32_t)(index / 2);
    const offload_reach *reach = reach_of(l->f, l->i, (int)(index & 1));
    rows r = {.first = {.i = l->i, .x = (int)(index & 1), .free = free},
              .last = entries(reach->unsent, free) - 1,
              .visit = relax_row,
              .context = (void *)l->f};
    if (!reach->any || remat_host_cancelled(l->host))
        return;
    double *best = row_of(l->f, &r.first);
    for (size_t k = 0; k < ((size_t)r.last + 1) * width_of(l->f, &r.first); k++)
        best[k] = INFINITY;
    each_step(l->f, &r);
}

static remat_status fill(const offload_forward *f, const remat_host *host, remat_error *error)
{
    layer l = {.f = f, .host = host};
    for (l.i = f->model->n; l.i > 0; l.i--) {
        remat_host_parallel_for(host, 2 * ((size_t)f->n_slots + 1), fill_rows, &l);
        if (remat_host_cancelled(host))
            return remat_fail(error, REMAT_CANCELLED, NULL, "cancelled");
    }
    return REMAT_OK;
}

/* ---- what can come up ---- */

/* A pass up to j, or case 1, with its input offloaded and without idle time: the most of both. */
static void reach_on(offload_forward *f, const place *p, const offload_step *s, double before,
                     double after)
{
    offload_slot_time out = f->out, in = f->backward->in;
    out.down = in.down = false;
    const offload_reach *from = reach_of(f, p->i, p->x);
    offload_reach *to = &f->reach[2 * ((size_t)s->j + 1) + (size_t)form_of(f, s->j + 1, s->all)];
    const uint32_t unsent = offload_slots_of(
        &out, from->unsent * out.slot + offload_send_time(f->model, p->i, p->x) - before);
    const uint32_t due = offload_slots_of(&in, offload_longer(0, from->due * in.slot - after) +
                                                   offload_fetch_time(f->model, p->i, p->x));
    to->unsent = unsent > to->unsent ? unsent : to->unsent;
    to->due = due > to->due ? due : to->due;
    to->any = true;
}

/* From (x = 0, i = 1) with nothing moved: rows end where nothing comes up beyond. */
static void find_reach(offload_forward *f)
{
    const offload_model *m = f->model;
    f->reach[2].any = true;
    for (uint32_t i = 1; i < m->n; i++)
        for (int x = 0; x < 2; x++) {
            const place p = {.i = i, .x = x};
            double before = 0;
            if (!reach_of(f, i, x)->any)
                continue;
            reach_on(f, &p, &(offload_step){.i = i, .j = i, .all = true}, m->forward[i],
                     m->backward[i]);
            for (uint32_t j = i; j < m->n; j++) {
                before += m->forward[j];
                reach_on(f, &p, &(offload_step){.i = i, .j = j}, before,
                         (m->leaves[j] - m->leaves[i - 1]) * (1 - ROUNDING));
            }
        }
}

/* Places of all rows. Returns the number of values. */
static size_t place_rows(offload_forward *f)
{
    size_t count = 0;
    for (uint32_t k = 2; k < 2 * (f->model->n + 1); k++)
        for (uint32_t free = 0; free <= f->n_slots; free++) {
            const offload_reach *r = &f->reach[k];
            f->first[(size_t)k * (f->n_slots + 1) + free] = count;
            if (r->any)
                count += (size_t)entries(r->unsent, free) * entries(r->due, free);
        }
    return count;
}

uint64_t offload_forward_bytes(uint32_t n, uint32_t n_slots)
{
    const uint64_t side = (uint64_t)n_slots + 1;
    return 2 * (uint64_t)n * (side * (side + 1) * (2 * side + 1) / 6) * sizeof(double) +
           2 * ((uint64_t)n + 2) * (side * sizeof(size_t) + sizeof(offload_reach));
}

remat_status offload_forward_init(offload_forward *ret_forward, const offload_backward *backward,
                                  const remat_host *host, remat_error *error)
{
    const offload_model *model = backward->model;
    const size_t places = 2 * ((size_t)model->n + 2);
    offload_forward f = {.model = model, .backward = backward, .n_slots = backward->n_slots};
    f.out = offload_slot_time_of(backward, model->out_per_byte);
    f.reach = calloc(places, sizeof *f.reach);
    f.first = malloc(places * ((size_t)f.n_slots + 1) * sizeof *f.first);
    remat_status status = f.reach && f.first ? REMAT_OK : remat_fail_memory(error);
    if (!status) {
        find_reach(&f);
        f.value = model_new_table(place_rows(&f) * sizeof *f.value);
        status = f.value ? fill(&f, host, error) : remat_fail_memory(error);
    }
    if (status)
        offload_forward_clear(&f);
    else
        *ret_forward = f;
    return status;
}

void offload_forward_clear(offload_forward *forward)
{
    free(forward->reach);
    free(forward->first);
    free(forward->value);
    *forward = (offload_forward){0};
}

double offload_forward_value(const offload_forward *f, uint32_t slots)
{
    return row_of(f, &(place){.i = 1, .free = slots})[0];
}

double offload_forward_bound(const offload_forward *f, uint32_t i, int x, uint32_t free,
                             uint32_t unsent, uint32_t due)
{
    const int form = form_of(f, i, x);
    const offload_reach *r = reach_of(f, i, form);
    const place p = {
        .i = i, .x = form, .free = free, .unsent = unsent < r->unsent ? unsent : r->unsent};
    return row_of(f, &p)[due < r->due ? due : r->due];
}

/* ---- tracing: the steps once more, the least one is taken ---- */

typedef struct choice {
    const offload_forward *f;
    place p;
    uint32_t due;
    double least;
    move best;
} choice;

static bool choose(void *context, const place *p, const move *m)
{
    choice *c = context;
    double row[OFFLOAD_MAX_SLOTS + 1];
    for (uint32_t due = 0; due <= p->free; due++)
        row[due] = INFINITY;
    relax_step(c->f, p, m, row);
    if (row[c->due] < c->least) {
        c->least = row[c->due];
        c->best = *m;
    }
    return true;
}

/* What must be there when the next step ends. */
static uint32_t next_due(const choice *c)
{
    const offload_forward *f = c->f;
    const move *m = &c->best;
    const double due = c->due * f->backward->in.slot, after = after_step(f, &c->p, m, c->due);
    return offload_slots_of(&f->backward->in, offload_longer(0, due - after) + m->fetch);
}

typedef struct traced {
    const offload_backward *backward;
    offload_step *steps;
    uint32_t *free, *due; /* of the sub-chain of each step */
    size_t n_steps;
} traced;

static remat_status child(void *context, size_t step, remat_operations *operations)
{
    const traced *t = context;
    const offload_step *s = &t->steps[step];
    return offload_backward_trace(t->backward, s->i, s->j, t->free[step], t->due[step], operations);
}

static void walk(const offload_forward *f, uint32_t slots, traced *t)
{
    place p = {.i = 1, .free = slots};
    uint32_t due = 0;
    while (p.i <= f->model->n) {
        choice c = {.f = f, .p = p, .due = due, .least = INFINITY};
        rows one = {.first = p, .last = p.unsent, .visit = choose, .context = &c};
        each_step(f, &one);
        uint64_t input = offload_input_bytes(f->model, p.i, p.x);
        t->free[t->n_steps] = p.free - offload_backward_kept(f->backward, input);
        t->due[t->n_steps] = due;
        t->steps[t->n_steps++] = c.best.step;
        if (p.i == f->model->n)
            return;
        due = next_due(&c);
        p = c.best.to;
    }
}

remat_status offload_forward_plan(const offload_forward *f, uint32_t slots, offload_plan *ret_plan,
                                  remat_error *error)
{
    size_t n = f->model->n;
    traced t = {.backward = f->backward, .steps = malloc(n * sizeof *t.steps)};
    t.free = malloc(2 * n * sizeof *t.free);
    offload_plan plan = {0};
    remat_status status = t.steps && t.free ? REMAT_OK : remat_fail_memory(error);
    if (!status)
        status = offload_plan_init(&plan, f->model->profile, error);
    if (!status) {
        t.due = t.free + n;
        walk(f, slots, &t);
        status = offload_plan_build(&plan, f->model, t.steps, t.n_steps, child, &t);
    }
    free(t.steps);
    free(t.free);
    if (status) {
        offload_plan_clear(&plan);
        return status == REMAT_NO_MEMORY ? remat_fail_memory(error) : status;
    }
    *ret_plan = plan;
    return REMAT_OK;
}
