/* Branch and bound over whole values, on the relaxation of bound/several.c: a case fixes that a
 * node runs in a stage, or is held at a moment, or that it is not, and begins with the multipliers
 * of the case that it divides. */
#include "bound/several.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CASES = 200 };

#define MOST_CASE_BYTES (UINT64_C(8) << 20) /* of open cases */
#define UNDECIDED 0.001

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

/* What s->best and s->fixings prove, as a case of its own. False without memory. */
static bool open_new(const bound_several *s, double bound, open_case *ret_case)
{
    const size_t bytes = bound_multipliers(s) * sizeof(double),
                 fixed = s->m->n * sizeof(bound_fixing);
    double *room = malloc(bytes + fixed);
    if (!room)
        return false;
    *ret_case =
        (open_case){bound, room, (bound_fixing *)(room + bound_multipliers(s)), find_choice(s)};
    memcpy(ret_case->multipliers, s->best, bytes);
    memcpy(ret_case->fixings, s->fixings, fixed);
    return true;
}

static uint32_t least_case(const open_case *cases, uint32_t n)
{
    uint32_t least = 0;
    for (uint32_t i = 1; i < n; i++)
        if (cases[i].bound < cases[least].bound)
            least = i;
    return least;
}

/* Both ways of a case's choice. False without memory: the case is still open then. */
static bool divide(bound_several *s, const open_case *parent, open_case *cases, uint32_t *n)
{
    const uint32_t before = *n;
    for (int yes = 0; yes < 2; yes++) {
        memcpy(s->fixings, parent->fixings, s->m->n * sizeof *s->fixings);
        fix(&s->fixings[parent->next.node], parent->next, yes);
        memcpy(s->multipliers, parent->multipliers, bound_multipliers(s) * sizeof *s->multipliers);
        const double bound = fmax(parent->bound, bound_ascend(s, s->fixings, BOUND_ASCENT));
        if (bound >= s->target)
            continue;
        if (open_new(s, bound, &cases[*n])) {
            (*n)++;
            continue;
        }
        while (*n > before)
            close_case(&cases[--*n]);
        return false;
    }
    return true;
}

/* Branch and bound over one row, best first. */
static double search(bound_several *s, const bound_row *r)
{
    open_case cases[MOST_CASES + 2];
    const size_t bytes = bound_multipliers(s) * sizeof(double) + s->m->n * sizeof(bound_fixing);
    uint32_t n = 0, most = MOST_CASES;
    if (bytes * MOST_CASES > MOST_CASE_BYTES)
        most = (uint32_t)(MOST_CASE_BYTES / bytes);
    memcpy(s->at, r->at, sizeof s->at);
    bound_find_facts(s);
    memset(s->fixings, 0, s->m->n * sizeof *s->fixings);
    memcpy(s->multipliers, r->multipliers, bound_multipliers(s) * sizeof *s->multipliers);
    double bound =
        fmax(r->bound, bound_ascend(s, s->none, BOUND_ASCENT)); /* for means that still move */
    if (bound >= s->target || !open_new(s, bound, &cases[n++]))
        return fmin(bound, s->target);
    for (uint32_t divided = 0; n > 0; divided++) {
        const uint32_t at = least_case(cases, n);
        open_case parent = cases[at];
        bound = parent.bound;
        if (parent.next.node == s->m->n || divided >= MOST_CASES || n >= most ||
            s->work >= s->most_work || remat_host_cancelled(s->host))
            break;
        cases[at] = cases[--n];
        const bool done = divide(s, &parent, cases, &n);
        close_case(&parent);
        if (!done)
            break;
        bound = s->target; /* unless a case is still open */
    }
    while (n > 0)
        close_case(&cases[--n]);
    return fmin(bound, s->target);
}

double bound_search_rows(bound_several *s, double bound)
{
    const uint32_t longest = s->moments;
    for (uint32_t k = 0; k < longest && bound < s->target && s->work < s->most_work; k++) {
        s->moments = k == 0 ? longest : k;
        bound = fmax(bound, search(s, &s->rows[s->moments]));
    }
    return bound;
}
