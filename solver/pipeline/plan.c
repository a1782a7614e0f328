/* Where to cut. No step is below, for any rank i, sum of T_j over j < i + m T_i: rank i begins when
 * the first micro-batch has come through those before it and ends m T_i later at the soonest, and
 * its last gradient goes back through them. With n in flight it has m - n forwards left when its
 * first backward begins, which is when a micro-batch has gone through all behind it and come back;
 * and when its last forward ends, m - n of its backwards are done, and that micro-batch still goes
 * there and back. A micro-batch begins once the n-th before it has come back. The least of the
 * largest of these over all cuts is a recurrence from the last rank; it bounds every beginning of
 * cuts, best first, and what is left is played. What a rank does beside its passes, the optimizer's
 * part, comes after them: the largest of a plan, least over all cuts by a recurrence of its own. */
#include "pipeline/private.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_PASSES_PLAYED = 1 << 25 };

typedef struct planner {
    const remat_pipeline_question *q;
    const remat_pipeline *p;
    const remat_stage_host *host;
    double *sums; /* [n_units + 1]: of least times */
    remat_stage_menu *menus;
    bool *known;    /* both [n_units][n_units + 1] */
    double *rest;   /* [ranks + 1][n_units + 1]: the recurrence, of what begins at a unit */
    double *sum;    /* the same of the sum of times */
    double *beside; /* and of the most that is beside passes */
    uint64_t *need; /* and of the memory that must be there */
    uint32_t end[REMAT_MOST_RANKS];
    uint64_t left; /* passes that may still be played */
    double limit;
    bool all_cuts;
    remat_pipeline_plan best;
    remat_error *error;
} planner;

static remat_status menu_of(planner *a, uint32_t first, uint32_t end, const remat_stage_menu **ret)
{
    const size_t i = (size_t)first * (a->q->n_units + 1) + end;
    *ret = &a->menus[i];
    if (a->known[i])
        return REMAT_OK;
    a->known[i] = true;
    return a->host->menu(a->host->data, first, end, &a->menus[i], a->error);
}

/* With no list: what a rank takes whatever it runs. */
static remat_status bare_bytes(planner *a, uint32_t rank, uint32_t first, uint32_t end,
                               uint64_t *ret_bytes)
{
    remat_stage_menu menu = {0};
    *ret_bytes = 0;
    if (!a->host->bytes)
        return REMAT_OK;
    remat_status status = a->host->bytes(a->host->data, first, end, &menu, a->error);
    const remat_pipeline_stage nothing = remat_stage_of(&menu, &(remat_stage_list){.held = 0});
    *ret_bytes = pipeline_bytes(a->p, rank, remat_pipeline_in_flight(a->p, rank), &nothing);
    return status;
}

remat_pipeline_stage remat_stage_of(const remat_stage_menu *menu, const remat_stage_list *list)
{
    return (remat_pipeline_stage){.forward = list->forward,
                                  .backward = list->backward,
                                  .held = list->held,
                                  .peak = list->peak,
                                  .fixed = menu->fixed,
                                  .input = menu->input,
                                  .output = menu->output};
}

static uint64_t list_bytes(const planner *a, uint32_t rank, const remat_stage_menu *menu, size_t i)
{
    const remat_pipeline_stage stage = remat_stage_of(menu, &menu->lists[i]);
    const uint32_t n = remat_pipeline_in_flight(a->p, rank), most = menu->lists[i].in_flight;
    return most > 0 && n > most ? UINT64_MAX : pipeline_bytes(a->p, rank, n, &stage);
}

static uint64_t least_bytes(const planner *a, uint32_t rank, const remat_stage_menu *menu)
{
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < menu->n_lists; i++) {
        const uint64_t bytes = list_bytes(a, rank, menu, i);
        least = bytes < least ? bytes : least;
    }
    return least;
}

uint64_t remat_pipeline_room(const remat_pipeline_question *q, uint32_t rank, uint32_t in_flight,
                             const remat_stage_menu *menu)
{
    const remat_pipeline_stage nothing = remat_stage_of(menu, &(remat_stage_list){.held = 0});
    const uint64_t taken = pipeline_bytes(&q->pipeline, rank, in_flight, &nothing);
    return q->memory > taken ? q->memory - taken : 0;
}

/* The fastest list of a rank within memory; NULL: none. */
static const remat_stage_list *fastest(const planner *a, uint32_t rank,
                                       const remat_stage_menu *menu, uint64_t memory)
{
    const remat_stage_list *best = NULL;
    for (size_t i = 0; i < menu->n_lists; i++) {
        const remat_stage_list *x = &menu->lists[i];
        if (list_bytes(a, rank, menu, i) <= memory &&
            (!best || x->forward + x->backward < best->forward + best->backward))
            best = x;
    }
    return best;
}

/* ---- bounds ---- */

/* What a rank takes at least whose fastest list takes that time, if a micro-batch takes so long
 * from there to the last rank and back: its own passes, rounds of n micro-batches, and what it does
 * beside the passes that its first backward and its last forward wait for. */
static double own_time(const planner *a, uint32_t rank, const remat_stage_menu *menu, double time,
                       double there)
{
    const uint32_t m = a->p->microbatches, n = remat_pipeline_in_flight(a->p, rank);
    double first = INFINITY, last = INFINITY;
    for (size_t i = 0; i < menu->n_lists; i++) {
        const remat_stage_list *x = &menu->lists[i];
        if (list_bytes(a, rank, menu, i) > a->q->memory)
            continue;
        first = fmin(first, (m - n + 1) * x->forward + m * x->backward);
        last = fmin(last, m * x->forward + (m - n + 1) * x->backward);
    }
    const double rounds = 1 + (m - 1) / n;
    return fmax(fmax(m * time, rounds * (time + there)), fmax(first, last) + there);
}

static double out_send(const planner *a, uint32_t rank, const remat_stage_menu *menu)
{
    return rank + 1 < a->p->ranks ? a->p->latency + (double)menu->output / a->p->bandwidth : 0;
}

static double back_send(const planner *a, uint32_t rank, const remat_stage_menu *menu)
{
    return rank > 0 ? a->p->latency + (double)menu->input / a->p->bandwidth : 0;
}

static remat_status bound_one(planner *a, uint32_t rank, uint32_t first, uint32_t end)
{
    const uint32_t width = a->q->n_units + 1;
    const uint64_t behind = a->need[(rank + 1) * width + end];
    uint64_t *least = &a->need[rank * width + first], bare = 0;
    const remat_stage_menu *menu = NULL;
    if (behind >= *least && a->rest[(rank + 1) * width + end] == INFINITY)
        return REMAT_OK;
    remat_status status = bare_bytes(a, rank, first, end, &bare);
    if (status || (bare > *least && bare > a->q->memory))
        return status;
    if ((status = menu_of(a, first, end, &menu)))
        return status;
    const remat_stage_list *list = fastest(a, rank, menu, a->q->memory);
    const double time =
        list ? fmax(a->sums[end] - a->sums[first], list->forward + list->backward) : INFINITY;
    const double out = out_send(a, rank, menu), back = back_send(a, rank, menu);
    const double sum = out + a->sum[(rank + 1) * width + end];
    const double own = back + own_time(a, rank, menu, time, sum);
    const double value = fmax(own, time + out + back + a->rest[(rank + 1) * width + end]);
    uint64_t need = least_bytes(a, rank, menu);
    double *rest = &a->rest[rank * width + first];
    need = need > behind ? need : behind;
    *rest = fmin(*rest, value);
    a->sum[rank * width + first] = fmin(a->sum[rank * width + first], time + back + sum);
    a->beside[rank * width + first] = fmin(a->beside[rank * width + first],
                                           fmax(menu->beside, a->beside[(rank + 1) * width + end]));
    *least = need < *least ? need : *least;
    return REMAT_OK;
}

/* The end with which the least is needed, but for lists: with it known most others need none. */
static remat_status likely_end(planner *a, uint32_t rank, uint32_t first, uint32_t *ret_end)
{
    const uint32_t width = a->q->n_units + 1;
    uint64_t least = UINT64_MAX, bare = 0;
    remat_status status = REMAT_OK;
    for (uint32_t end = first + 1; end + (a->p->ranks - rank - 1) < width && !status; end++) {
        const uint64_t behind = a->need[(rank + 1) * width + end];
        status = bare_bytes(a, rank, first, end, &bare);
        if ((bare > behind ? bare : behind) < least) {
            least = bare > behind ? bare : behind;
            *ret_end = end;
        }
    }
    return status;
}

/* Of a rank from a unit on. */
static remat_status bound_from(planner *a, uint32_t rank, uint32_t first)
{
    const uint32_t n = a->q->n_units, behind = a->p->ranks - rank - 1;
    uint32_t likely = behind > 0 ? first + 1 : n;
    remat_status status = behind > 0 ? likely_end(a, rank, first, &likely) : REMAT_OK;
    if (!status)
        status = bound_one(a, rank, first, likely);
    for (uint32_t end = first + 1; behind > 0 && end + behind <= n && !status; end++)
        if (end != likely)
            status = bound_one(a, rank, first, end);
    return status;
}

static remat_status bound_all(planner *a)
{
    const uint32_t width = a->q->n_units + 1, ranks = a->p->ranks;
    remat_status status = REMAT_OK;
    for (size_t i = 0; i < (size_t)(ranks + 1) * width; i++) {
        a->rest[i] = a->sum[i] = a->beside[i] = INFINITY;
        a->need[i] = UINT64_MAX;
    }
    a->rest[ranks * width + a->q->n_units] = 0;
    a->sum[ranks * width + a->q->n_units] = a->beside[ranks * width + a->q->n_units] = 0;
    a->need[ranks * width + a->q->n_units] = 0;
    for (uint32_t r = ranks; r-- > 0;)
        for (uint32_t first = r; first + (ranks - r) <= a->q->n_units && !status; first++)
            status = bound_from(a, r, first);
    return status;
}

/* ---- search ---- */

static bool is_cancelled(const planner *a)
{
    return a->host->cancelled && a->host->cancelled(a->host->data);
}

/* Lists that fit beside what is on its way, which is known when they are played. */
static remat_status try_ends(planner *a)
{
    const uint32_t ranks = a->p->ranks;
    uint64_t memory[REMAT_MOST_RANKS], room[REMAT_MOST_RANKS];
    remat_pipeline_stage stages[REMAT_MOST_RANKS] = {{.held = 0}};
    remat_pipeline_plan plan = {.step = INFINITY};
    double beside = 0;
    if (is_cancelled(a))
        return remat_fail(a->error, REMAT_CANCELLED, NULL, "cancelled");
    for (uint32_t r = 0; r < ranks; r++)
        room[r] = a->q->memory;
    for (bool fits = false; !fits;) {
        beside = 0;
        for (uint32_t r = 0; r < ranks; r++) {
            const uint32_t first = r > 0 ? a->end[r - 1] : 0;
            const remat_stage_menu *menu = NULL;
            remat_status status = menu_of(a, first, a->end[r], &menu);
            const remat_stage_list *list = status ? NULL : fastest(a, r, menu, room[r]);
            if (!list)
                return status;
            stages[r] = remat_stage_of(menu, list);
            beside = fmax(beside, menu->beside);
            plan.stages[r] = (remat_planned_stage){
                first, a->end[r], remat_pipeline_in_flight(a->p, r), *list, stages[r]};
        }
        const double most = fmin(a->best.whole, a->limit * (1 + 1e-12)) - beside;
        plan.step = pipeline_step(a->p, stages, most, memory);
        if (plan.step == INFINITY)
            return remat_fail_memory(a->error);
        const uint64_t passes = (uint64_t)ranks * a->p->microbatches;
        a->left -= passes < a->left ? passes : a->left;
        if (plan.step >= most)
            return REMAT_OK; /* with less room a step is hardly ever shorter */
        fits = true;
        for (uint32_t r = 0; r < ranks; r++)
            if (memory[r] > a->q->memory) {
                const uint64_t usual =
                    pipeline_bytes(a->p, r, remat_pipeline_in_flight(a->p, r), &stages[r]);
                room[r] = usual > 0 ? usual - 1 : 0;
                fits = false;
                if (usual == 0)
                    return REMAT_OK;
            }
    }
    plan.whole = plan.step + beside;
    if (plan.whole < a->best.whole && plan.whole <= a->limit) {
        plan.bound = a->best.bound;
        a->best = plan;
    }
    return REMAT_OK;
}

typedef struct next_cut {
    double bound, own, beside, time; /* time: with its sends */
    uint32_t end;
} next_cut;

static int by_bound(const void *x, const void *y)
{
    const next_cut *a = x, *b = y;
    return a->bound != b->bound ? (a->bound > b->bound) - (a->bound < b->bound)
                                : (a->end > b->end) - (a->end < b->end);
}

/* Rank and those behind it, from unit first on. before: the times of those before it; most: the
 * bound that they alone give, and the most that they have beside. */
static remat_status search(planner *a, uint32_t rank, uint32_t first, double before, double most,
                           double most_beside)
{
    const uint32_t width = a->q->n_units + 1, ranks = a->p->ranks;
    if (rank == ranks)
        return try_ends(a);
    if (is_cancelled(a))
        return remat_fail(a->error, REMAT_CANCELLED, NULL, "cancelled");
    next_cut *cuts = malloc(width * sizeof *cuts);
    uint32_t n = 0;
    remat_status status = cuts ? REMAT_OK : remat_fail_memory(a->error);
    for (uint32_t end = first + 1; end + (ranks - rank - 1) < width && !status; end++) {
        const remat_stage_menu *menu = NULL;
        const double behind = a->rest[(rank + 1) * width + end];
        uint64_t bare = 0;
        if (behind < INFINITY)
            status = bare_bytes(a, rank, first, end, &bare);
        if (behind == INFINITY || bare > a->q->memory)
            continue;
        if (!status)
            status = menu_of(a, first, end, &menu);
        const remat_stage_list *list = status ? NULL : fastest(a, rank, menu, a->q->memory);
        if (!list)
            continue;
        const double out = out_send(a, rank, menu), back = back_send(a, rank, menu);
        const double alone = list->forward + list->backward, time = alone + out + back;
        const double there = out + a->sum[(rank + 1) * width + end];
        const double own = fmax(most, before + back + own_time(a, rank, menu, alone, there));
        const double beside = fmax(most_beside, menu->beside);
        const double all_beside = fmax(beside, a->beside[(rank + 1) * width + end]);
        cuts[n++] =
            (next_cut){fmax(own, before + time + behind) + all_beside, own, beside, time, end};
    }
    qsort(cuts, n, sizeof *cuts, by_bound);
    for (uint32_t i = 0; i < n && !status; i++) {
        if (cuts[i].bound * (1 - 1e-12) >= fmin(a->best.whole, a->limit))
            break;
        if (a->left == 0) {
            a->all_cuts = false;
            break;
        }
        a->end[rank] = cuts[i].end;
        status =
            search(a, rank + 1, cuts[i].end, before + cuts[i].time, cuts[i].own, cuts[i].beside);
    }
    free(cuts);
    return status;
}

/* Cuts of about the same time, as a beginning. */
static remat_status try_even(planner *a)
{
    const uint32_t ranks = a->p->ranks, n = a->q->n_units;
    uint32_t u = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        const double aim = a->sums[n] * (r + 1) / ranks;
        for (u++; u + (ranks - r - 1) < n && a->sums[u + 1] - aim <= aim - a->sums[u];)
            u++;
        a->end[r] = r + 1 == ranks ? n : u;
    }
    return try_ends(a);
}

/* Moves single units over the cuts of the best plan, as long as that is faster. */
static remat_status climb(planner *a)
{
    const uint32_t ranks = a->p->ranks;
    remat_status status = REMAT_OK;
    for (bool better = a->best.whole < INFINITY; better && !status;) {
        better = false;
        for (uint32_t i = 0; i < 2 * (ranks - 1) && !status && a->left > 0; i++) {
            const uint32_t r = i / 2;
            const double whole = a->best.whole;
            for (uint32_t k = 0; k < ranks; k++)
                a->end[k] = a->best.stages[k].end;
            a->end[r] = i % 2 ? a->end[r] + 1 : a->end[r] - 1;
            if (a->end[r] > (r ? a->end[r - 1] : 0) && a->end[r] < a->end[r + 1])
                status = try_ends(a);
            better |= a->best.whole < whole;
        }
    }
    return status;
}

/* ---- the plan ---- */

/* The cuts that need least: the rank that needs most of them. */
static remat_status refuse(planner *a)
{
    const uint32_t width = a->q->n_units + 1;
    const uint64_t need = a->need[0];
    uint32_t rank = 0, first = 0;
    for (uint32_t r = 0; r < a->p->ranks && a->need[r * width + first] == need; r++) {
        rank = r;
        for (uint32_t end = first + 1; end < width; end++) {
            const remat_stage_menu *menu = NULL;
            uint64_t bare = 0;
            if (a->need[(r + 1) * width + end] > need)
                continue;
            remat_status status = bare_bytes(a, r, first, end, &bare);
            if (!status && bare <= need)
                status = menu_of(a, first, end, &menu);
            if (status)
                return status;
            if (menu && least_bytes(a, r, menu) <= need) {
                first = end;
                break;
            }
        }
    }
    remat_fail(a->error, REMAT_INFEASIBLE, "memory",
               need > a->q->memory ? "wherever it is cut, a rank does not fit; where least is "
                                     "lacking it is rank %u"
                                   : "rank %u lacks room for what is being sent",
               rank);
    if (a->error)
        a->error->number = need == UINT64_MAX ? 0 : need;
    return REMAT_INFEASIBLE;
}

remat_status pipeline_check_question(const remat_pipeline_question *q, remat_error *error)
{
    remat_status status = remat_pipeline_check(&q->pipeline, error);
    if (!status && q->pipeline.order == REMAT_INTERLEAVED)
        return remat_fail(error, REMAT_INVALID, "schedule",
                          "plans are made for gpipe and 1f1b; interleaved is judged only");
    if (!status && (q->n_units < q->pipeline.ranks || q->n_units > 1024))
        return remat_fail(error, REMAT_INVALID, "ranks",
                          "there are %u units for %u ranks; each takes one, and 1024 are the most",
                          q->n_units, q->pipeline.ranks);
    return status;
}

static remat_status plan(planner *a)
{
    for (uint32_t u = 0; u < a->q->n_units; u++)
        a->sums[u + 1] = a->sums[u] + a->q->least[u];
    remat_status status = bound_all(a);
    if (status)
        return status;
    a->best.bound = (a->rest[0] + a->beside[0]) * (1 - 1e-12);
    const bool may_be = a->rest[0] < INFINITY && a->best.bound < a->limit;
    if (may_be)
        status = try_even(a);
    if (!status)
        status = climb(a);
    if (!status && may_be)
        status = search(a, 0, 0, 0, 0, 0);
    if (!status && !a->all_cuts) {
        a->left = (a->q->passes ? a->q->passes : MOST_PASSES_PLAYED) / 4;
        status = climb(a);
    }
    if (!status && a->best.whole == INFINITY)
        return refuse(a);
    a->best.all_cuts = a->all_cuts;
    return status;
}

remat_status remat_pipeline_plan_make(const remat_pipeline_question *q,
                                      const remat_stage_host *host, remat_pipeline_plan *ret_plan,
                                      remat_error *error)
{
    remat_status status = pipeline_check_question(q, error);
    if (status)
        return status;
    const size_t width = q->n_units + 1, ranks = q->pipeline.ranks + 1;
    planner a = {.q = q,
                 .p = &q->pipeline,
                 .host = host,
                 .sums = calloc(width, sizeof *a.sums),
                 .menus = calloc(width * width, sizeof *a.menus),
                 .known = calloc(width * width, sizeof *a.known),
                 .rest = calloc(ranks * width, sizeof *a.rest),
                 .sum = calloc(ranks * width, sizeof *a.sum),
                 .beside = calloc(ranks * width, sizeof *a.beside),
                 .need = calloc(ranks * width, sizeof *a.need),
                 .left = q->passes ? q->passes : MOST_PASSES_PLAYED,
                 .limit = q->limit > 0 ? q->limit : (double)INFINITY,
                 .all_cuts = true,
                 .best = {.whole = INFINITY},
                 .error = error};
    const bool there = a.sums && a.menus && a.known && a.rest && a.sum && a.beside && a.need;
    status = there ? plan(&a) : remat_fail_memory(error);
    free(a.sums);
    free(a.menus);
    free(a.known);
    free(a.rest);
    free(a.sum);
    free(a.beside);
    free(a.need);
    if (!status)
        *ret_plan = a.best;
    return status;
}
