/* Several moments at once, and whole values: what bound/moments.h says of one, of a row of them.
 *
 * Let b_1, .., b_J be nodes of which each is a strict ancestor of the one before, so that their
 * backwards come in this order whatever the order of all. Stage k lies between the moments tau_k
 * and tau_k+1, stage 0 before all; there every node has run. For a node v the variables say in
 * which stages 1 to J it runs again and at which moments out(v) is held, which takes a run in the
 * stage before or that it was held at the moment before. For an interval of stages I = [i, j]:
 *
 *     R_v,I: v runs in I.   P_v,I: v runs in I or out(v) is held at tau_i.
 *     R_c,I <= P_u,I for u -> c (Lagrange multipliers lambda)
 *     P_v,I = 1 where a backward that falls into I, whatever the order, reads out(v)
 *     out(v) is held at tau_k where B b_k reads it
 *     at tau_k what is held fits the capacity (multipliers mu); saved(v) is held from the last run
 *     of v before B v on
 *
 * For fixed multipliers the least of time run again plus penalties separates by node into shortest
 * paths from run to run. Multipliers start as the flows of the best single moment's cut, which give
 * its bound, and rise by subgradient steps (Polyak 1969). Then branch and bound over whole values:
 * that v runs in a stage, or is held at a moment, and that it is not. Every bound is a dual value
 * at explicit multipliers, evaluated and lowered by a margin for rounding; the least of the open
 * cases is what is proven. With nothing left to divide it is the least for these moments, and one
 * that its paths break may join (bound/broken.c). */
#include "bound/several.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    CANDIDATES = 100, /* moments that may join */
    FEW_NODES = 64,   /* of more, moments that are broken prove too little for their work */
    PROMISING = 32,   /* of them; where these prove nothing of a large gap, none was seen to */
    TRIAL = 150,      /* evaluations for one of them */
    LONG_ASCENT = 4000,
    PATIENCE = 40,
    CASE_PATIENCE = 10
};

#define ENOUGH 1e-3     /* of the makespan: what is done where the gap is larger */
#define BROKEN 2e-3     /* of the makespan: a gap for which moments are added that are broken */
#define LARGE 1e-2      /* of the makespan: a gap of which whole values alone prove nothing */
#define FIRST_GAIN 3e-3 /* of the forwards' time: what a step aims at */
#define DEFLECTION 1.5

/* Of an interval of stages [i, j], 1 <= i <= j: its number. */
static uint32_t interval(uint32_t i, uint32_t j)
{
    return j * (j - 1) / 2 + i - 1;
}

typedef struct candidate {
    double worth;
    uint32_t node;
} candidate;

/* ---- moments ---- */

/* By bits of stages in which v runs, or of moments at which it is held: the intervals with R = 1,
 * those that begin there. */
static uint32_t intervals_of(uint32_t moments, uint32_t bits, bool begin_there)
{
    uint32_t all = 0;
    for (uint32_t j = 1; j <= moments; j++)
        for (uint32_t i = 1; i <= j; i++) {
            const uint32_t within = begin_there ? 1u << i : (1u << (j + 1)) - (1u << i);
            if (bits & within)
                all |= 1u << interval(i, j);
        }
    return all;
}

static void need(bound_several *s, uint32_t v, uint32_t reader)
{
    if (v < s->m->n && s->begin[reader] > 0)
        s->needed[v] |= 1u << interval(s->begin[reader], s->end[reader] - 1u);
}

void bound_find_facts(bound_several *s)
{
    bound_moments *m = s->m;
    const remat_node *nodes = m->profile->nodes;
    memset(s->begin, 0, m->n);
    memset(s->end, (int)s->moments + 1, m->n);
    memset(s->read, 0, m->n);
    memset(s->needed, 0, m->n * sizeof *s->needed);
    for (uint32_t k = s->moments; k-- > 0;) {
        bound_look_at(m, s->at[k], false, s->budget);
        s->capacity[k] = m->capacity;
        for (uint32_t v = 0; v < m->n; v++) {
            if ((m->role[v] & BOUND_ANCESTOR) && s->begin[v] == 0)
                s->begin[v] = (uint8_t)(k + 1);
            if (m->role[v] & BOUND_DESCENDANT)
                s->end[v] = (uint8_t)(k + 1);
            if (m->role[v] & BOUND_READ)
                s->read[v] |= (uint8_t)(1u << (k + 1));
        }
    }
    for (uint32_t bits = 0; bits < 1 << BOUND_ROW_STAGES; bits++) {
        s->contains[bits] = intervals_of(s->moments, bits, false);
        s->begins[bits] = intervals_of(s->moments, bits, true);
    }
    for (uint32_t v = 0; v < m->n; v++) {
        if (nodes[v].backward_uses_output)
            need(s, v, v);
        for (uint32_t i = 0; nodes[v].backward_uses_inputs && i < nodes[v].n_inputs; i++)
            need(s, nodes[v].inputs[i], v);
    }
}

/* ---- the shortest path of a node ---- */

typedef struct gaps {
    const double *rho, *pi;
    const double *price; /* by moment, from 1 */
    double time, out, saved;
    uint32_t stages; /* J + 1: the end */
    uint32_t begin, end;
    uint32_t needed;
    uint8_t read;
    bound_fixing fixed;
} gaps;

/* Between a run in stage from and the next one, as far as stage to - 1: what it costs that nothing
 * runs, and, by the last moment at which the output is held, that it is. */
typedef struct rest {
    uint32_t from, least; /* until that moment it has to be held */
    double cost, held[BOUND_ROW_STAGES + 1];
} rest;

/* Stage j too. False where it cannot be without a run. */
static bool rest_in(rest *r, const gaps *g, uint32_t j)
{
    if (g->fixed.runs >> j & 1)
        return false;
    r->held[j] = r->held[j - 1] + g->price[j] * g->out;
    double pi = 0;
    for (uint32_t i = r->from + 1; i <= j; i++) {
        const uint32_t at = interval(i, j);
        r->cost -= g->rho[at] - g->pi[at];
        pi += g->pi[at];
        r->held[i] -= pi;
        if (g->needed >> at & 1 && i > r->least)
            r->least = i;
    }
    return true;
}

/* The least over the last moment at which the output is still held, where stage to is the next to
 * run or the end. INFINITY where that cannot be. */
static double gap_cost(const gaps *g, const rest *r, uint32_t to, uint8_t *ret_held)
{
    const uint32_t from = r->from;
    double cost = r->cost, best = INFINITY, held = 0;
    uint32_t least = r->least, most = to < g->stages ? to : to - 1;
    for (uint32_t k = from + 1; k <= most; k++)
        if ((g->read | g->fixed.holds) >> k & 1)
            least = k > least ? k : least;
    for (uint32_t k = most; k > from; k--)
        if (g->fixed.drops >> k & 1)
            most = k - 1;
    if (from < g->end && g->end <= to)
        for (uint32_t k = from + 1; k <= g->begin; k++)
            cost += g->price[k] * g->saved;
    for (uint32_t last = from; last <= most; last++) {
        held = last < to ? r->held[last] : r->held[last - 1] + g->price[last] * g->out;
        if (last < least || held >= best)
            continue;
        best = held;
        *ret_held = (uint8_t)((1u << (last + 1)) - (1u << (from + 1)));
    }
    return cost + best;
}

static double shortest_path(const gaps *g, uint8_t *ret_runs, uint8_t *ret_held)
{
    double cost[BOUND_ROW_STAGES + 1] = {0};
    uint8_t runs[BOUND_ROW_STAGES + 1] = {0}, held[BOUND_ROW_STAGES + 1] = {0};
    for (uint32_t to = 1; to <= g->stages; to++)
        cost[to] = INFINITY;
    for (uint32_t from = 0; from < g->stages; from++) {
        rest r = {.from = from, .least = from};
        if (from > 0)
            cost[from] += g->time;
        for (uint32_t to = from + 1; to <= g->stages; to++) {
            uint8_t moments = 0;
            if (to > from + 1 && !rest_in(&r, g, to - 1))
                break;
            if (to < g->stages && g->fixed.rests >> to & 1)
                continue;
            double here = cost[from] + gap_cost(g, &r, to, &moments);
            if (!(here < cost[to]))
                continue;
            cost[to] = here;
            held[to] = held[from] | moments;
            runs[to] = (uint8_t)(runs[from] | (to < g->stages ? 1u << to : 0));
        }
    }
    *ret_runs = runs[g->stages];
    *ret_held = held[g->stages];
    return cost[g->stages];
}

/* ---- the dual function ---- */

static void collect_penalties(bound_several *s, const double *x)
{
    const uint32_t many = bound_intervals(s);
    memset(s->rho, 0, (size_t)s->m->n * many * sizeof *s->rho);
    memset(s->pi, 0, (size_t)s->m->n * many * sizeof *s->pi);
    for (uint32_t e = 0; e < s->n_edges; e++) {
        const double *lambda = x + s->moments + (size_t)e * many;
        double *pi = s->pi + (size_t)s->from[e] * many, *rho = s->rho + (size_t)s->to[e] * many;
        for (uint32_t i = 0; i < many; i++) {
            pi[i] += lambda[i];
            rho[i] += lambda[i];
        }
    }
}

double bound_find_paths(bound_several *s, const double *x, const bound_fixing *fixings)
{
    const bound_moments *m = s->m;
    const uint32_t many = bound_intervals(s);
    double price[BOUND_ROW_STAGES] = {0}, sum = 0, size = 0;
    for (uint32_t k = 0; k < s->moments; k++) {
        price[k + 1] = x[k];
        sum -= x[k] * s->capacity[k];
        size += fabs(x[k] * s->capacity[k]);
    }
    collect_penalties(s, x);
    for (uint32_t v = 0; v < m->n; v++) {
        const gaps g = {s->rho + (size_t)v * many,
                        s->pi + (size_t)v * many,
                        price,
                        m->again[v],
                        m->out[v],
                        m->saved[v],
                        s->moments + 1,
                        s->begin[v],
                        s->end[v],
                        s->needed[v],
                        s->read[v],
                        fixings[v]};
        double cost = shortest_path(&g, &s->runs[v], &s->held[v]);
        for (uint32_t i = 0; i < many; i++) {
            cost += g.rho[i] - g.pi[i];
            size += g.rho[i] + g.pi[i];
        }
        sum += cost;
        size += fabs(cost);
    }
    s->work += (uint64_t)m->n * many;
    return sum - BOUND_MARGIN * size;
}

/* Of the paths found: what is held past the capacity, and how far R is above P. */
static void find_gradient(bound_several *s)
{
    const bound_moments *m = s->m;
    const uint32_t many = bound_intervals(s);
    double *g = s->gradient;
    for (uint32_t k = 0; k < s->moments; k++)
        g[k] = -s->capacity[k];
    for (uint32_t v = 0; v < m->n; v++) {
        const uint32_t before = s->runs[v] & ((1u << s->end[v]) - 1); /* its backward */
        uint32_t last = BOUND_ROW_STAGES;
        while (last > 0 && !(before >> last & 1))
            last--;
        for (uint32_t k = 1; k <= s->moments; k++) {
            g[k - 1] += s->held[v] >> k & 1 ? m->out[v] : 0;
            g[k - 1] += k > last && k <= s->begin[v] ? m->saved[v] : 0;
        }
    }
    for (uint32_t k = 0; k < s->moments; k++)
        g[k] /= s->scale;
    for (uint32_t e = 0; e < s->n_edges; e++) {
        const uint32_t runs = s->contains[s->runs[s->to[e]]],
                       there = s->contains[s->runs[s->from[e]]] | s->begins[s->held[s->from[e]]];
        double *lambda = g + s->moments + (size_t)e * many;
        for (uint32_t i = 0; i < many; i++)
            lambda[i] = (double)(runs >> i & 1) - (double)(there >> i & 1);
    }
}

/* How much of the work is done, in hundredths. */
static void tell(bound_several *s)
{
    const uint32_t now = (uint32_t)(100 * s->work / s->all_work);
    if (now > s->told)
        remat_host_progress(s->host, fmin(1, now / 100.0));
    s->told = now;
}

/* Steps go along the gradient bent away from turning back upon the step before (Camerini, Fratta &
 * Maffioli 1975). Returns the square of the direction. */
static double find_direction(bound_several *s, const double *x, bool first)
{
    const size_t n = bound_multipliers(s);
    double product = 0, old = 0, square = 0;
    for (size_t i = 0; i < n && !first; i++) {
        product += s->gradient[i] * s->direction[i];
        old += s->direction[i] * s->direction[i];
    }
    const double bend = product < 0 ? -DEFLECTION * product / old : 0;
    for (size_t i = 0; i < n; i++) {
        double d = s->gradient[i] + (first ? 0 : bend * s->direction[i]);
        if (x[i] <= 0 && d < 0)
            d = 0;
        s->direction[i] = d;
        square += d * d;
    }
    return square;
}

static void take_step(bound_several *s, double *x, double length)
{
    for (uint32_t k = 0; k < s->moments; k++)
        x[k] = fmax(0, x[k] + length * s->direction[k] / s->scale);
    for (size_t i = s->moments; i < bound_multipliers(s); i++)
        x[i] = fmax(0, x[i] + length * s->direction[i]);
}

static void average(bound_several *s, uint32_t evaluation)
{
    const double weight = fmax(0.03, 1.0 / evaluation);
    for (uint32_t v = 0; v < s->m->n; v++)
        for (uint32_t k = 1; k <= s->moments; k++) {
            double *run = &s->run_mean[v * BOUND_ROW_STAGES + k],
                   *held = &s->held_mean[v * BOUND_ROW_STAGES + k];
            *run += weight * ((s->runs[v] >> k & 1) - *run);
            *held += weight * ((s->held[v] >> k & 1) - *held);
        }
}

double bound_ascend(bound_several *s, const bound_fixing *fixings, uint32_t evaluations)
{
    const size_t bytes = bound_multipliers(s) * sizeof *s->best;
    double best = -INFINITY, delta = FIRST_GAIN * s->m->total;
    const uint32_t patience = evaluations == BOUND_ASCENT ? CASE_PATIENCE : PATIENCE;
    uint32_t since = 0;
    for (uint32_t i = 1; i <= evaluations && best < s->target; i++) {
        const double value = bound_find_paths(s, s->multipliers, fixings);
        if (value == INFINITY)
            return INFINITY;
        average(s, i);
        since = value > best ? 0 : since + 1;
        if (value > best) {
            best = value;
            memcpy(s->best, s->multipliers, bytes);
        } else if (since >= patience) {
            since = 0;
            delta /= 2;
            memcpy(s->multipliers, s->best, bytes);
            (void)bound_find_paths(s, s->multipliers, fixings);
        }
        find_gradient(s);
        const double square =
            find_direction(s, s->multipliers, i == 1 || (since == 0 && value < best));
        if (!(square > 0) || remat_host_cancelled(s->host))
            break;
        tell(s);
        const double here = since == 0 && value < best ? best : value;
        take_step(s, s->multipliers, (best + delta - here) / square);
    }
    return best;
}

/* ---- which moments ---- */

/* Of one moment, whose cut at its best price gives multipliers. */
static double begin(bound_several *s, uint32_t b)
{
    bound_moments *m = s->m;
    const bound_flow *f = &m->flow;
    double price = 0;
    s->moments = 1;
    s->at[0] = b;
    bound_find_facts(s);
    const double bound = bound_best_price(m, &price);
    if (!(bound > 0) || bound == INFINITY)
        return bound;
    bound_cut_at(m, price);
    memset(s->multipliers, 0, bound_multipliers(s) * sizeof *s->multipliers);
    s->multipliers[0] = price;
    for (uint32_t c = 0, e = 0; c < m->n; c++)
        for (uint32_t a = f->first[m->n_values + c]; a < f->first[m->n_values + c + 1]; a++)
            if (f->arcs[a].to < m->n && f->arcs[a].to != c)
                s->multipliers[s->moments + e++] = fmax(0, f->arcs[f->arcs[a].reverse].left);
    return bound;
}

/* Multipliers for one more moment, from those without it, which prove as much. */
static void add_moment(bound_several *s, uint32_t b, uint32_t place, const double *without)
{
    double *x = s->multipliers;
    const uint32_t before = s->moments++, many = bound_intervals(s);
    memset(x, 0, bound_multipliers(s) * sizeof *x);
    for (uint32_t k = 0; k < before; k++)
        x[k + (k >= place)] = without[k];
    without += before;
    for (double *lambda = x + s->moments; lambda < x + bound_multipliers(s); lambda += many)
        for (uint32_t j = 1; j <= before; j++)
            for (uint32_t i = 1; i <= j; i++)
                lambda[interval(i + (i > place), j + (j >= place))] = *without++;
    memmove(&s->at[place + 1], &s->at[place], (before - place) * sizeof *s->at);
    s->at[place] = b;
    bound_find_facts(s);
}

static void remove_moment(bound_several *s, uint32_t place)
{
    s->moments--;
    memmove(&s->at[place], &s->at[place + 1], (s->moments - place) * sizeof *s->at);
}

uint32_t bound_place_of(bound_several *s, uint32_t b)
{
    uint32_t place = 0;
    bound_look_at(s->m, b, false, s->budget);
    for (uint32_t k = 0; k < s->moments; k++) {
        const uint8_t role = s->m->role[s->at[k]];
        if (s->at[k] == b || !(role & (BOUND_ANCESTOR | BOUND_DESCENDANT)))
            return UINT32_MAX;
        place += role & BOUND_DESCENDANT ? 1 : 0;
    }
    return place;
}

/* Of few nodes whole values may do all. */
static bool is_far(const bound_several *s, double bound)
{
    return s->m->n > 2 * PROMISING && s->target - bound > LARGE * (s->m->store_all + s->target);
}

/* One more moment, that of the candidates which proves most in a short ascent from the multipliers
 * without it; none where none proves more. */
static double extend(bound_several *s, const uint32_t *candidates, uint32_t n, double bound,
                     const double *without)
{
    double most = bound;
    uint32_t joins = UINT32_MAX, joins_at = 0;
    for (uint32_t i = 0; i < n && s->work < s->most_work && most < s->target; i++) {
        const uint32_t place = bound_place_of(s, candidates[i]);
        if (i >= PROMISING && joins == UINT32_MAX && is_far(s, bound))
            break;
        if (place == UINT32_MAX)
            continue;
        add_moment(s, candidates[i], place, without);
        const double here = bound_ascend(s, s->none, TRIAL);
        remove_moment(s, place);
        if (here > most) {
            most = here;
            joins = candidates[i];
            joins_at = place;
        }
    }
    if (joins == UINT32_MAX)
        return bound;
    add_moment(s, joins, joins_at, without);
    return fmax(most, bound_ascend(s, s->none, LONG_ASCENT));
}

static int by_worth(const void *left, const void *right)
{
    const candidate *a = left, *b = right;
    if (a->worth != b->worth)
        return a->worth > b->worth ? -1 : 1;
    return a->node < b->node ? -1 : 1;
}

/* The moments that prove most alone. Returns how many. */
static uint32_t find_candidates(const bound_several *s, uint32_t *ret_candidates)
{
    candidate best[CANDIDATES + 1];
    uint32_t n = 0;
    for (uint32_t v = 0; v < s->m->n; v++) {
        if (!(s->m->worth[v] > -INFINITY))
            continue;
        best[n++] = (candidate){.worth = s->m->worth[v], .node = v};
        qsort(best, n, sizeof *best, by_worth);
        n = n > CANDIDATES ? CANDIDATES : n;
    }
    for (uint32_t i = 0; i < n; i++)
        ret_candidates[i] = best[i].node;
    return n;
}

static void keep_row(const bound_several *s, double bound, bound_row *r)
{
    memcpy(r->at, s->at, sizeof r->at);
    memcpy(r->multipliers, s->best, bound_multipliers(s) * sizeof *s->best);
    r->bound = bound;
}

void bound_lengthen_row(bound_several *s, const bound_row *without, uint32_t b, uint32_t place)
{
    add_moment(s, b, place, without->multipliers);
    keep_row(s, fmax(without->bound, bound_ascend(s, s->none, LONG_ASCENT)),
             &s->longer[s->moments]);
}

/* Rows of up to four moments, each found from the one before. Returns what the last one proves. */
static double choose_moments(bound_several *s)
{
    uint32_t candidates[CANDIDATES], n = find_candidates(s, candidates);
    if (n == 0)
        return 0;
    double bound = begin(s, candidates[0]);
    if (!(bound > 0 && bound < INFINITY))
        return bound;
    bound = fmax(bound, bound_ascend(s, s->none, BOUND_ASCENT));
    keep_row(s, bound, &s->rows[s->moments]);
    while (bound < s->target && s->moments < BOUND_ROW_CHOSEN && s->work < s->most_work / 2) {
        const uint32_t before = s->moments;
        bound = extend(s, candidates, n, bound, s->rows[s->moments].multipliers);
        if (s->moments == before)
            break;
        keep_row(s, bound, &s->rows[s->moments]);
    }
    return bound;
}

/* ---- setting up ---- */

static bool make_room(bound_several *s)
{
    const size_t n = s->m->n;
    const remat_node *nodes = s->m->profile->nodes;
    model_arena *a = &s->arena;
    for (size_t v = 0; v < n; v++)
        s->n_edges += nodes[v].n_inputs;
    s->moments = BOUND_ROW_MOMENTS; /* room for the longest row */
    s->from = model_arena_array(a, s->n_edges, sizeof *s->from);
    s->to = model_arena_array(a, s->n_edges, sizeof *s->to);
    s->begin = model_arena_array(a, n, sizeof *s->begin);
    s->end = model_arena_array(a, n, sizeof *s->end);
    s->needed = model_arena_array(a, n, sizeof *s->needed);
    s->read = model_arena_array(a, n, sizeof *s->read);
    s->rho = model_arena_array(a, n * BOUND_INTERVALS, sizeof *s->rho);
    s->pi = model_arena_array(a, n * BOUND_INTERVALS, sizeof *s->pi);
    s->runs = model_arena_array(a, n, sizeof *s->runs);
    s->held = model_arena_array(a, n, sizeof *s->held);
    s->multipliers = model_arena_array(a, bound_multipliers(s), sizeof *s->multipliers);
    s->best = model_arena_array(a, bound_multipliers(s), sizeof *s->best);
    s->gradient = model_arena_array(a, bound_multipliers(s), sizeof *s->gradient);
    s->direction = model_arena_array(a, bound_multipliers(s), sizeof *s->direction);
    s->run_mean = model_arena_array(a, n * BOUND_ROW_STAGES, sizeof *s->run_mean);
    s->held_mean = model_arena_array(a, n * BOUND_ROW_STAGES, sizeof *s->held_mean);
    s->fixings = model_arena_array(a, n, sizeof *s->fixings);
    s->none = model_arena_array(a, n, sizeof *s->none);
    if (!s->from || !s->to || !s->begin || !s->end || !s->needed || !s->read || !s->rho || !s->pi ||
        !s->runs || !s->held || !s->multipliers || !s->best || !s->gradient || !s->direction ||
        !s->run_mean || !s->held_mean || !s->fixings || !s->none)
        return false;
    for (uint32_t k = 1; k <= BOUND_ROW_MOMENTS; k++) {
        s->longer[k].multipliers = model_arena_array(a, bound_multipliers(s), sizeof(double));
        if (k <= BOUND_ROW_CHOSEN)
            s->rows[k].multipliers = model_arena_array(a, bound_multipliers(s), sizeof(double));
        if (!s->longer[k].multipliers || (k <= BOUND_ROW_CHOSEN && !s->rows[k].multipliers))
            return false;
    }
    s->n_edges = 0;
    for (uint32_t v = 0; v < n; v++)
        for (uint32_t i = 0; i < nodes[v].n_inputs; i++)
            if (nodes[v].inputs[i] < n) {
                s->from[s->n_edges] = nodes[v].inputs[i];
                s->to[s->n_edges++] = v;
            }
    return true;
}

/* Whether half of the work tries every candidate for a second moment. Less proves next to nothing:
 * of 63 answers of 340 to 2,000 nodes, where it took a second, 0.06 % of one. */
static bool is_enough(const bound_moments *m, uint64_t work)
{
    const uint64_t n = m->n < CANDIDATES ? m->n : CANDIDATES, intervals = 3;
    return n * TRIAL * intervals * m->n <= work / 2;
}

/* Where nothing is left to divide, or a row takes all of the work, other moments prove more of few
 * nodes. */
static double search_all(bound_several *s, double proven)
{
    const uint32_t longest = s->moments;
    proven = bound_search_rows(s, proven);
    if (s->all_work == s->most_work || s->target - proven < BROKEN * (s->m->store_all + s->target))
        return proven;
    s->most_work = s->all_work;
    return bound_search_broken(s, longest, proven);
}

double bound_moments_raise(bound_moments *m, uint64_t budget, double bound, double makespan,
                           uint64_t work, bool twice, const remat_host *host)
{
    if (m->profile->joint || !(bound < makespan * (1 - ENOUGH)) || !is_enough(m, work))
        return bound;
    bound_several s = {.m = m,
                       .host = host,
                       .budget = budget,
                       .target = makespan - m->store_all,
                       .most_work = work,
                       .all_work = twice && m->n <= FEW_NODES ? 2 * work : work};
    double bytes = 1;
    for (uint32_t v = 0; v < m->n; v++)
        bytes += m->out[v] + m->saved[v];
    s.scale = bytes / m->n;
    double proven = 0;
    if (make_room(&s)) {
        proven = choose_moments(&s);
        if (proven > 0 && proven < s.target && (s.moments > 1 || !is_far(&s, proven)))
            proven = search_all(&s, proven);
    }
    model_arena_clear(&s.arena);
    return fmax(bound, fmin(m->store_all + proven, makespan));
}
