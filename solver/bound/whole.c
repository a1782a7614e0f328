/* Branch and bound over whole values, on the relaxation of bound/several.c: a case fixes that a
 * node runs in a stage, or is held at a moment, or that it is not, and begins with the multipliers
 * of the case that it divides. */
#include "bound/several.h"

#include "model/arrays.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_CASE_BYTES (UINT64_C(8) << 20) /* of open cases of a row */
#define UNDECIDED 0.001
#define IN_VAIN 0.01 /* of the gap: where a third of the work closes less, a row is given up */

/* A choice that a case leaves open: that v runs in a stage, or is held at a moment. */
typedef struct choice {
    uint32_t node; /* n: there is none */
    uint8_t at;
    bool held;
} choice;

/* Whose multipliers give a bound: mu by moment, then lambda by edge and interval. */
typedef struct open_case {
    double bound;
    double *multipliers;
    bound_fixing *fixings;
    choice next;
} open_case;

static double undecided(double mean, double worth)
{
    const double part = fmin(mean, 1 - mean);
    return part > UNDECIDED ? sqrt(part) * worth : 0;
}

/* What the late ascents left most open. */
static choice find_choice(const bound_several *s)
{
    const bound_moments *m = s->m;
    choice best = {.node = m->n};
    double most = 0, price = 0;
    for (uint32_t k = 0; k < s->moments; k++)
        price = fmax(price, s->best[k]);
    for (uint32_t v = 0; v < m->n; v++)
        for (uint32_t k = 1; k <= s->moments; k++) {
            const double worth = m->again[v] + 0.3 * price * (m->out[v] + m->saved[v]);
            const double run = undecided(s->run_mean[v * BOUND_ROW_STAGES + k], worth),
                         held = undecided(s->held_mean[v * BOUND_ROW_STAGES + k], worth);
            if (fmax(run, held) <= most)
                continue;
            most = fmax(run, held);
            best = (choice){.node = v, .at = (uint8_t)k, .held = held > run};
        }
    return best;
}

static void fix(bound_fixing *f, choice c, bool yes)
{
    const uint8_t bit = (uint8_t)(1u << c.at);
    if (c.held)
        *(yes ? &f->holds : &f->drops) |= bit;
    else
        *(yes ? &f->runs : &f->rests) |= bit;
}

static void close_case(open_case *c)
{
    free(c->multipliers);
    *c = (open_case){0};
}

/* Open cases of one row, and what they prove. */
typedef struct tree {
    open_case *cases;
    size_t n, capacity;
    double bound;
} tree;

/* Of a case of this row. */
static size_t case_bytes(const bound_several *s)
{
    return bound_multipliers(s) * sizeof(double) + s->m->n * sizeof(bound_fixing);
}

/* What s->best and s->fixings prove, as a case of its own. False without memory. */
static bool open_new(const bound_several *s, double bound, tree *t)
{
    const size_t n = bound_multipliers(s);
    double *room = malloc(case_bytes(s));
    if (!room || !model_reserve(&t->cases, &t->capacity, t->n + 1, sizeof *t->cases)) {
        free(room);
        return false;
    }
    bound_fixing *fixings = (bound_fixing *)(room + n);
    t->cases[t->n++] = (open_case){bound, room, fixings, find_choice(s)};
    memcpy(room, s->best, n * sizeof *room);
    memcpy(fixings, s->fixings, s->m->n * sizeof *fixings);
    return true;
}

static size_t least_case(const tree *t)
{
    size_t least = 0;
    for (size_t i = 1; i < t->n; i++)
        if (t->cases[i].bound < t->cases[least].bound)
            least = i;
    return least;
}

/* Both ways of a case's choice. False without memory: the case is still open then. */
static bool divide(bound_several *s, const open_case *parent, uint32_t evaluations, tree *t)
{
    const size_t before = t->n;
    for (int yes = 0; yes < 2; yes++) {
        memcpy(s->fixings, parent->fixings, s->m->n * sizeof *s->fixings);
        fix(&s->fixings[parent->next.node], parent->next, yes);
        memcpy(s->multipliers, parent->multipliers, bound_multipliers(s) * sizeof *s->multipliers);
        const double bound = fmax(parent->bound, bound_ascend(s, s->fixings, evaluations));
        if (bound < s->target && !open_new(s, bound, t)) {
            while (t->n > before)
                close_case(&t->cases[--t->n]);
            return false;
        }
    }
    return true;
}

/* Branch and bound over one row, best first, with so much work more. */
static void grow(bound_several *s, uint64_t work, uint32_t evaluations, tree *t, const bound_row *r)
{
    const uint64_t most = s->work + work, early = s->work + work / 3;
    memcpy(s->at, r->at, sizeof s->at);
    bound_find_facts(s);
    memset(s->fixings, 0, s->m->n * sizeof *s->fixings);
    memcpy(s->multipliers, r->multipliers, bound_multipliers(s) * sizeof *s->multipliers);
    t->bound =
        fmax(r->bound, bound_ascend(s, s->none, BOUND_ASCENT)); /* for means that still move */
    const double root = t->bound;
    if (root >= s->target || !open_new(s, root, t))
        return;
    while (t->n > 0 && s->work < most && !remat_host_cancelled(s->host)) {
        const size_t at = least_case(t);
        open_case parent = t->cases[at];
        t->bound = parent.bound;
        if (parent.next.node == s->m->n || (t->n + 2) * case_bytes(s) > MOST_CASE_BYTES)
            return;
        t->cases[at] = t->cases[--t->n];
        const bool done = divide(s, &parent, evaluations, t);
        close_case(&parent);
        if (!done)
            return;
        t->bound = t->n > 0 ? t->cases[least_case(t)].bound : s->target;
        if (s->work > early && t->bound - root < IN_VAIN * (s->target - root))
            return;
    }
}

static void clear(tree *t)
{
    while (t->n > 0)
        close_case(&t->cases[--t->n]);
    free(t->cases);
}

/* The longest row first; another one where nothing is left to divide. */
double bound_search_rows(bound_several *s, double bound)
{
    const uint32_t longest = s->moments;
    for (uint32_t k = longest; k > 0 && bound < s->target && s->work < s->most_work; k--) {
        tree t = {.bound = s->rows[k].bound};
        s->moments = k;
        grow(s, s->most_work - s->work, BOUND_ASCENT, &t, &s->rows[k]);
        bound = fmax(bound, t.bound);
        clear(&t);
    }
    return fmin(bound, s->target);
}

/* One more moment for the row, which the case that proves least breaks. */
static bool lengthen(bound_several *s, const tree *t, const bound_row *row, bool *before)
{
    if (t->n == 0 || s->moments == BOUND_ROW_MOMENTS)
        return false;
    const open_case *least = &t->cases[least_case(t)];
    uint32_t place = 0;
    (void)bound_find_paths(s, least->multipliers, least->fixings);
    const uint32_t b = bound_most_broken(s, before, &place);
    if (b == UINT32_MAX)
        return false;
    bound_lengthen_row(s, row, b, place);
    return true;
}

/* From each row that was chosen; of two moments first, as what others break is found soonest there.
 * Half of the work is for a row: those with more may need less. */
double bound_search_broken(bound_several *s, uint32_t longest, double bound)
{
    static const uint32_t first[BOUND_ROW_CHOSEN] = {2, 1, 3, 4};
    bool *before = model_arena_array(&s->arena, s->m->n, sizeof *before);
    for (uint32_t i = 0; before && i < BOUND_ROW_CHOSEN; i++) {
        bool more = first[i] <= longest;
        const bound_row *row = &s->rows[first[i]];
        s->moments = first[i];
        while (more && bound < s->target && s->work < s->most_work &&
               !remat_host_cancelled(s->host)) {
            tree t = {.bound = row->bound};
            grow(s, (s->most_work - s->work) / 2 + 1, BOUND_ASCENT / 2, &t, row);
            bound = fmax(bound, t.bound);
            more = lengthen(s, &t, row, before);
            row = &s->longer[s->moments];
            clear(&t);
        }
    }
    return fmin(bound, s->target);
}
