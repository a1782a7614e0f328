/* One checkpoint: the equations of Dauvergne and Hascoet (2006), variable by variable.
 *
 *     lost3 = (out_C u (out_Dbar \ Req_D)) \ Snp          changed when Cbar starts
 *     lost4 = (lost3 u (out_Cbar \ Req_C)) \ Sbk          changed at the end
 *     (3)  lost3 n use_Cbar = {}        (4)  lost4 n Req = {}
 *
 *     (6)  Snp0 = out_C n (use_Cbar u (Req \ out_Cbar))
 *          Opt1 = Req n out_Cbar n use_Cbar
 *          Opt2 = (Req n out_Cbar) \ use_Cbar
 *          Opt3 = (out_Dbar n (use_Cbar u Req)) \ out_C
 *
 * and for any split of each Opt into + and -: Sbk = Opt1+ u Opt2+, Snp = Snp0 u Opt2- u Opt3+,
 * Req_D = Opt3-, Req_C = Opt1- u Opt2-. The paper uses out_Cbar within out_C without saying it; the
 * choices below are exact without it. */
#include "remat/snapshot.h"

#include "model/arrays.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool has(uint8_t set, int bit)
{
    return (set & bit) != 0;
}

bool remat_snapshot_hypothesis(const remat_fragment *fragment)
{
    for (size_t i = 0; i < fragment->n; i++) {
        uint8_t given = fragment->variables[i].given;
        if (has(given, REMAT_OUT_CBAR) && !has(given, REMAT_OUT_C))
            return false;
    }
    return true;
}

uint8_t remat_snapshot_published(uint8_t given)
{
    bool r = has(given, REMAT_REQ), w = has(given, REMAT_OUT_C), u = has(given, REMAT_USE_CBAR),
         v = has(given, REMAT_OUT_CBAR), d = has(given, REMAT_OUT_DBAR);
    return (uint8_t)((w && (u || (r && !v)) ? REMAT_SNP0 : 0) | (r && v && u ? REMAT_OPT1 : 0) |
                     (r && v && !u ? REMAT_OPT2 : 0) | (d && (u || r) && !w ? REMAT_OPT3 : 0));
}

/* The ways to protect a variable up to the start of Cbar; returns how many. */
static size_t protections(uint8_t given, uint8_t ret_ways[2])
{
    if (has(given, REMAT_OUT_C)) {
        ret_ways[0] = REMAT_SNP;
        return 1;
    }
    if (has(given, REMAT_OUT_DBAR)) {
        ret_ways[0] = REMAT_REQ_D;
        ret_ways[1] = REMAT_SNP;
        return 2;
    }
    ret_ways[0] = 0;
    return 1;
}

size_t remat_snapshot_choices(uint8_t given, uint8_t ret_choices[4])
{
    bool r = has(given, REMAT_REQ), u = has(given, REMAT_USE_CBAR), v = has(given, REMAT_OUT_CBAR);
    bool changed = has(given, REMAT_OUT_C | REMAT_OUT_DBAR);
    uint8_t ways[2];
    size_t n_ways = protections(given, ways), n = 0;
    if (!u && (!r || (!v && !changed))) {
        ret_choices[0] = 0;
        return 1;
    }
    for (size_t i = 0; i < n_ways; i++) {
        ret_choices[n++] = (uint8_t)(r && v ? ways[i] | REMAT_REQ_C : ways[i]);
        if (r && u && v)
            ret_choices[n++] = (uint8_t)(ways[i] | REMAT_SBK);
    }
    if (r && !u)
        ret_choices[n++] = REMAT_SBK;
    return n;
}

uint8_t remat_snapshot_lazy(uint8_t given)
{
    uint8_t choices[4];
    remat_snapshot_choices(given, choices);
    return choices[0]; /* tape before snapshot, Req_C before Sbk */
}

uint8_t remat_snapshot_eager(uint8_t given)
{
    bool r = has(given, REMAT_REQ), u = has(given, REMAT_USE_CBAR), v = has(given, REMAT_OUT_CBAR);
    uint8_t ways[2];
    size_t n_ways = protections(given, ways);
    uint8_t way = ways[!r && n_ways > 1]; /* downstream changes: by tape if required, else saved */
    if (r && v)
        return (uint8_t)(u ? way | REMAT_SBK : REMAT_SBK);
    return r || u ? way : 0;
}

double remat_snapshot_count(const remat_fragment *fragment)
{
    double count = 1;
    uint8_t choices[4];
    for (size_t i = 0; i < fragment->n; i++)
        count *= (double)remat_snapshot_choices(fragment->variables[i].given, choices);
    return count;
}

void remat_snapshot_solution(const remat_fragment *fragment, uint64_t index, uint8_t *ret_chosen)
{
    for (size_t i = fragment->n; i-- > 0;) {
        uint8_t choices[4];
        size_t n = remat_snapshot_choices(fragment->variables[i].given, choices);
        ret_chosen[i] = choices[index % n];
        index /= n;
    }
}

unsigned remat_snapshot_violations(uint8_t given, uint8_t chosen)
{
    bool lost3 =
        (has(given, REMAT_OUT_C) || (has(given, REMAT_OUT_DBAR) && !has(chosen, REMAT_REQ_D))) &&
        !has(chosen, REMAT_SNP);
    bool lost4 = (lost3 || (has(given, REMAT_OUT_CBAR) && !has(chosen, REMAT_REQ_C))) &&
                 !has(chosen, REMAT_SBK);
    return (lost3 && has(given, REMAT_USE_CBAR) ? 1u : 0u) |
           (lost4 && has(given, REMAT_REQ) ? 2u : 0u);
}

bool remat_snapshot_is_minimal(uint8_t given, uint8_t chosen)
{
    if (remat_snapshot_violations(given, chosen) != 0)
        return false;
    for (int bit = 1; bit <= REMAT_REQ_C; bit *= 2)
        if (has(chosen, bit) && remat_snapshot_violations(given, (uint8_t)(chosen & ~bit)) == 0)
            return false;
    return true;
}

bool remat_snapshot_out(uint8_t given)
{
    bool changed = has(given, REMAT_OUT_DBAR) || has(given, REMAT_OUT_C);
    return (has(given, REMAT_OUT_CBAR) || (changed && !has(given, REMAT_USE_CBAR))) &&
           !has(given, REMAT_REQ);
}

/* ---- bytes ---- */

/* What one variable's choice adds, and the numbers of the last two criteria. */
typedef struct sums {
    uint64_t bytes_D, bytes_C, pushed;
    uint32_t n_sbk, n_snp;
} sums;

static sums price(const remat_fragment *fragment, const remat_variable *variable, uint8_t chosen)
{
    bool sbk = has(chosen, REMAT_SBK), snp = has(chosen, REMAT_SNP);
    uint64_t copies = fragment->unshared ? (uint64_t)sbk + (uint64_t)snp : (uint64_t)(sbk || snp);
    uint64_t tape_D = has(chosen, REMAT_REQ_D) ? variable->tape_D : 0;
    uint64_t tape_C = has(chosen, REMAT_REQ_C) ? variable->tape_C : 0;
    return (sums){.bytes_D = copies * variable->size + tape_D,
                  .bytes_C = (sbk ? variable->size : 0) + tape_C,
                  .pushed = copies * variable->size + tape_D + tape_C,
                  .n_sbk = sbk,
                  .n_snp = snp};
}

static sums add(sums a, sums b)
{
    return (sums){a.bytes_D + b.bytes_D, a.bytes_C + b.bytes_C, a.pushed + b.pushed,
                  a.n_sbk + b.n_sbk, a.n_snp + b.n_snp};
}

static remat_snapshot_cost cost_of_sums(sums s)
{
    return (remat_snapshot_cost){.bytes_D = s.bytes_D,
                                 .bytes_C = s.bytes_C,
                                 .peak = s.bytes_D > s.bytes_C ? s.bytes_D : s.bytes_C,
                                 .pushed = s.pushed};
}

remat_snapshot_cost remat_snapshot_cost_of(const remat_fragment *fragment, const uint8_t *chosen)
{
    sums total = {.bytes_D = fragment->base_D, .bytes_C = fragment->base_C};
    for (size_t i = 0; i < fragment->n; i++)
        total = add(total, price(fragment, &fragment->variables[i], chosen[i]));
    return cost_of_sums(total);
}

/* ---- the cheapest solution ---- */

enum { FRONT_LIMIT = 65536, FRONT_WORK = 1 << 20, FRONT_LEAST = 256 };

/* A sum over the variables so far, and how it came about. */
typedef struct point {
    sums s;
    uint32_t parent; /* in the front before */
    uint8_t chosen;
} point;

typedef struct front {
    point *points;
    size_t n;
} front;

enum { CRITERIA = 5 };

/* By the first in which they differ. */
static int compare(const uint64_t a[CRITERIA], const uint64_t b[CRITERIA])
{
    int i = 0;
    while (i < CRITERIA - 1 && a[i] == b[i])
        i++;
    return a[i] < b[i] ? -1 : a[i] > b[i];
}

static int compare_points(const void *a, const void *b)
{
    const sums *p = &((const point *)a)->s, *q = &((const point *)b)->s;
    const uint64_t one[CRITERIA] = {p->bytes_D, p->bytes_C, p->pushed, p->n_sbk, p->n_snp};
    const uint64_t other[CRITERIA] = {q->bytes_D, q->bytes_C, q->pushed, q->n_sbk, q->n_snp};
    return compare(one, other);
}

/* The staircase of (bytes_C, pushed) among the points passed: bytes_C increasing, pushed
 * decreasing. */
typedef struct stair {
    uint64_t bytes_C, pushed;
} stair;

/* Enters a point; false when one before it is as good in every sum. */
static bool enter(stair *stairs, size_t *n, const sums *s)
{
    size_t low =
        model_count_up_to(stairs, *n, sizeof *stairs, offsetof(stair, bytes_C), s->bytes_C);
    if (low > 0 && stairs[low - 1].pushed <= s->pushed)
        return false;
    size_t from = low > 0 && stairs[low - 1].bytes_C == s->bytes_C ? low - 1 : low, to = low;
    while (to < *n && stairs[to].pushed >= s->pushed)
        to++;
    memmove(&stairs[from + 1], &stairs[to], (*n - to) * sizeof *stairs);
    stairs[from] = (stair){s->bytes_C, s->pushed};
    *n = *n - (to - from) + 1;
    return true;
}

/* Sorts and keeps what nothing else is as good as. */
static void prune(front *f, stair *stairs)
{
    size_t kept = 0, n_stairs = 0;
    qsort(f->points, f->n, sizeof *f->points, compare_points);
    for (size_t i = 0; i < f->n; i++)
        if (enter(stairs, &n_stairs, &f->points[i].s))
            f->points[kept++] = f->points[i];
    f->n = kept;
}

/* Keeps limit of the points, evenly spread with both ends. */
static bool thin(front *f, size_t limit)
{
    if (f->n <= limit)
        return false;
    for (size_t i = 0; i < limit; i++)
        f->points[i] = f->points[i * (f->n - 1) / (limit - 1)];
    f->n = limit;
    return true;
}

static bool better(const sums *a, const sums *b)
{
    remat_snapshot_cost p = cost_of_sums(*a), q = cost_of_sums(*b);
    const uint64_t one[] = {p.peak, p.pushed, p.bytes_D + p.bytes_C, a->n_sbk, a->n_snp};
    const uint64_t other[] = {q.peak, q.pushed, q.bytes_D + q.bytes_C, b->n_sbk, b->n_snp};
    return compare(one, other) < 0;
}

/* fronts[i + 1] := fronts[i] and the choices of variable i. */
static bool merge(const remat_fragment *fragment, size_t i, front *fronts, stair *stairs,
                  size_t limit, bool *thinned)
{
    const remat_variable *variable = &fragment->variables[i];
    const front *from = &fronts[i];
    front *to = &fronts[i + 1];
    uint8_t choices[4];
    size_t n = remat_snapshot_choices(variable->given, choices);
    to->points = malloc(from->n * n * sizeof *to->points);
    if (!to->points)
        return false;
    for (size_t k = 0; k < n; k++) {
        sums extra = price(fragment, variable, choices[k]);
        for (size_t p = 0; p < from->n; p++)
            to->points[to->n++] = (point){add(from->points[p].s, extra), (uint32_t)p, choices[k]};
    }
    prune(to, stairs);
    *thinned |= thin(to, limit);
    point *fitted = realloc(to->points, to->n * sizeof *fitted);
    to->points = fitted ? fitted : to->points;
    return true;
}

static void read_best(const front *fronts, size_t n, uint8_t *ret_chosen,
                      remat_snapshot_cost *ret_cost)
{
    const front *last = &fronts[n];
    size_t best = 0;
    for (size_t p = 1; p < last->n; p++)
        if (better(&last->points[p].s, &last->points[best].s))
            best = p;
    *ret_cost = cost_of_sums(last->points[best].s);
    for (size_t i = n; i > 0; i--) {
        ret_chosen[i - 1] = fronts[i].points[best].chosen;
        best = fronts[i].points[best].parent;
    }
}

remat_status remat_snapshot_best(const remat_fragment *fragment, uint8_t *ret_chosen,
                                 remat_snapshot_cost *ret_cost, bool *ret_proven,
                                 remat_error *error)
{
    size_t limit = fragment->n > 0 ? FRONT_WORK / fragment->n : FRONT_LIMIT;
    limit = limit > FRONT_LIMIT ? FRONT_LIMIT : limit < FRONT_LEAST ? FRONT_LEAST : limit;
    front *fronts = calloc(fragment->n + 1, sizeof *fronts);
    stair *stairs = malloc((4 * limit + 1) * sizeof *stairs);
    bool thinned = false, good = fronts && stairs;
    if (good)
        good = (fronts[0].points = malloc(sizeof *fronts[0].points)) != NULL;
    if (good) {
        fronts[0].points[0] =
            (point){.s = {.bytes_D = fragment->base_D, .bytes_C = fragment->base_C}};
        fronts[0].n = 1;
    }
    for (size_t i = 0; i < fragment->n && good; i++)
        good = merge(fragment, i, fronts, stairs, limit, &thinned);
    if (good) {
        read_best(fronts, fragment->n, ret_chosen, ret_cost);
        *ret_proven = !thinned;
    }
    for (size_t i = 0; fronts && i <= fragment->n; i++)
        free(fronts[i].points);
    free(fronts);
    free(stairs);
    return good ? REMAT_OK : remat_fail_memory(error);
}
