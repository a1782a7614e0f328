/* A chain's best list, and those in passing, made to fit with their layouts: of a list whose arena
 * is above the budget it learns during which operations something stood above it, and by how much,
 * and goes on with so much less for those, of which it takes half back whenever one fits. */
#include "search/improve_private.h"

#include "model/layout.h"
#include "model/lists.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHORT = 300,           /* a list, of which all that did not fit are kept */
    MENDINGS = 6,          /* of a list that does not fit, before it is searched on */
    SMALLEST_LESSON = 400, /* a part of the budget */
    MOST_DOUBLINGS = 3     /* of it */
};

#define LIST_LAYOUT (REMAT_LAYOUT_WORK / 2) /* of a list that is about to be served */
#define QUICK_LAYOUT UINT64_C(0)            /* of lists in passing: no search */
#define WORK_OF_LOOK UINT64_C(30000)        /* what that is worth in edits, at least */
#define WORK_OF_RUN 32                      /* and for each run */
#define MOST_FAILURES 2                     /* so often a search gets half the work of the last */
#define MOST_MISSES 5                       /* so often the time to the next one doubles */
#define SLIGHT 2e-4                         /* of the makespan: not worth learning */

/* ---- from runs to a list that is judged ---- */

static remat_status replay(const improvement *m, const remat_operations *list,
                           remat_simulation *ret_simulation)
{
    remat_error error;
    remat_status status =
        remat_simulate(m->profile, list, NULL, NULL, NULL, ret_simulation, &error);
    if (status)
        return status;
    remat_put_in_flight(ret_simulation, m->in_flight);
    return ret_simulation->valid ? REMAT_OK : REMAT_INTERNAL;
}

/* Bytes that the list takes, its layout included, which gets so much work; over: where not,
 * by operation and by how much, or NULL. Most lists in passing do not fit, which costs less to see
 * than to replay one. */
static remat_status measure(const improvement *m, const remat_operations *list, uint64_t work,
                            uint64_t *ret_bytes, uint64_t *over)
{
    const remat_host host = remat_host_unhurried(m->host);
    remat_simulation simulation = {0};
    remat_status status = REMAT_OK;
    *ret_bytes = 0;
    if (m->in_flight > 1)
        status = replay(m, list, &simulation);
    const model_goal goal = {.alignment = m->alignment,
                             .capacity = m->budget,
                             .work = work,
                             .decide = over == NULL,
                             .one_of_many = true,
                             .host = &host,
                             .in_flight = m->in_flight,
                             .turn = simulation.turn};
    if (!status && m->alignment && simulation.peak <= m->budget)
        status = model_layout_arena(m->profile, list, &goal, ret_bytes, over, NULL);
    if (!status && m->in_flight <= 1 && *ret_bytes <= m->budget)
        status = replay(m, list, &simulation);
    if (*ret_bytes < simulation.peak)
        *ret_bytes = simulation.peak;
    return status;
}

/* By how much the list itself is above the budget, by operation, if it is: the search knows nothing
 * of the versions of states. */
static remat_status find_excess(const improvement *m, const remat_operations *list, uint64_t *over,
                                bool *ret_found)
{
    remat_moment *moments = malloc(list->length * sizeof *moments);
    remat_simulation simulation = {0};
    remat_status status = REMAT_NO_MEMORY;
    if (moments)
        status = remat_simulate(m->profile, list, NULL, moments, NULL, &simulation, NULL);
    remat_put_in_flight(&simulation, m->in_flight);
    *ret_found = !status && simulation.peak > m->budget;
    for (size_t i = 0; i < list->length && *ret_found; i++) {
        const uint64_t bytes = moments[i].memory_during + (m->in_flight - 1) * simulation.held;
        over[i] = bytes > m->budget ? bytes - m->budget : 0;
    }
    free(moments);
    return status;
}

/* During what stands above the budget, in the best packing that was found if not without one, the
 * search leaves so much more free, in steps that double: what fragments is planned for there, and
 * nowhere else. over: with room for the tasks behind it. */
static remat_status learn(const improvement *m, chain *c, const remat_operations *list,
                          uint64_t *over)
{
    uint64_t *seen = over + list->length, most = (m->budget / SMALLEST_LESSON) << c->lessons;
    bool unseen = false;
    if (m->profile->n_states > 0 && find_excess(m, list, over, &unseen))
        return REMAT_NO_MEMORY;
    c->lessons += c->lessons < MOST_DOUBLINGS;
    most = unseen ? UINT64_MAX : most > m->alignment ? most : m->alignment;
    for (size_t i = 0; i < list->length; i++) {
        const remat_operation *o = &list->items[i];
        const uint32_t task = o->index + (o->kind == REMAT_B ? m->profile->n_nodes : 0);
        const uint64_t more = over[i] < most ? over[i] : most;
        if (o->kind > REMAT_B || more <= seen[task])
            continue;
        c->search.timeline->pads[task] += (double)(more - seen[task]);
        seen[task] = more;
    }
    return REMAT_OK;
}

/* ---- lists that did not fit ---- */

void improve_clear_misfits(misfit *list)
{
    while (list) {
        misfit *next = list->next;
        remat_operations_clear(&list->list);
        free(list->over);
        free(list);
        list = next;
    }
}

void improve_tell_misfits(improvement *m)
{
    const unsigned workers = remat_host_workers(m->host);
    for (unsigned k = 0; k < workers; k++) {
        misfit **end = &m->fresh[k];
        while (*end)
            end = &(*end)->next;
        *end = m->known;
        m->known = m->fresh[k];
        m->fresh[k] = NULL;
    }
}

static const misfit *find_misfit(const misfit *from, const remat_operations *list, uint64_t work)
{
    while (from && !(from->work == work && model_same_list(&from->list, list)))
        from = from->next;
    return from;
}

/* One that was laid out with as much work; the last of this chain with more. */
static const misfit *seen_before(const improvement *m, const chain *c, const remat_operations *list,
                                 uint64_t work)
{
    if (c->last && c->last->work >= work && model_same_list(&c->last->list, list))
        return c->last;
    const misfit *fresh = find_misfit(*c->fresh, list, work);
    return fresh ? fresh : find_misfit(m->known, list, work);
}

static void add_misfit(chain *c, misfit *one)
{
    if (one->list.length > SHORT) {
        improve_clear_misfits(c->long_one);
        c->long_one = one;
    } else {
        one->next = *c->fresh;
        *c->fresh = one;
    }
    c->last = one;
}

static remat_status remember(chain *c, const remat_operations *list, uint64_t work, uint64_t bytes,
                             const uint64_t *over)
{
    const size_t size = list->length * sizeof *over;
    misfit *one = calloc(1, sizeof *one);
    if (!one)
        return REMAT_NO_MEMORY;
    *one = (misfit){.work = work, .bytes = bytes, .over = malloc(size)};
    if (!one->over || model_copy_list(list, &one->list)) {
        improve_clear_misfits(one);
        return REMAT_NO_MEMORY;
    }
    memcpy(one->over, over, size);
    add_misfit(c, one);
    return REMAT_OK;
}

/* The same of a chain's best list, with room for the tasks behind over. Often it is one that did
 * not fit before: lessons that do not help leave a list where it was, and the chains of a small
 * graph all come by the same few. */
static remat_status measure_best(const improvement *m, chain *c, const remat_operations *list,
                                 uint64_t *ret_bytes, uint64_t *over)
{
    const uint64_t work = LIST_LAYOUT >> c->failures;
    const misfit *seen = seen_before(m, c, list, work);
    if (seen) {
        c->last = seen;
        *ret_bytes = seen->bytes;
        memcpy(over, seen->over, list->length * sizeof *over);
        return REMAT_OK;
    }
    remat_status status = measure(m, list, work, ret_bytes, over);
    const bool fits = *ret_bytes <= m->budget;
    return status || fits ? status : remember(c, list, work, *ret_bytes, over);
}

/* Keeps the list as the one that fits, if it does. Else the chain learns, if it is one of its best.
 */
static remat_status consider(const improvement *m, chain *c, const remat_operations *runs,
                             double time, size_t n_runs, bool is_best, uint64_t *ret_bytes)
{
    remat_operations list = {0};
    uint64_t *over = NULL;
    remat_status status = model_complete_list(m->profile, runs, &list, NULL);
    if (!status && is_best)
        over = calloc(list.length + m->tasks->n_tasks, sizeof *over);
    if (!status && is_best && !over)
        status = REMAT_NO_MEMORY;
    if (!status)
        status = is_best ? measure_best(m, c, &list, ret_bytes, over)
                         : measure(m, &list, QUICK_LAYOUT, ret_bytes, over);
    bool fits = !status && *ret_bytes <= m->budget;
    bool better = time < c->fitting_time || (time == c->fitting_time && n_runs < c->fitting_runs);
    if (fits && better) {
        model_swap_lists(&c->fitting, &list);
        c->fitting_time = time;
        c->fitting_runs = n_runs;
        status = model_copy_list(runs, &c->runs);
    } else if (!status && !fits && over) {
        c->failures += c->failures < MOST_FAILURES;
        status = learn(m, c, &list, over);
    }
    free(over);
    remat_operations_clear(&list);
    return status;
}

void improve_look_at(void *context)
{
    chain *c = context;
    interval_timeline *t = c->search.timeline;
    uint64_t bytes;
    c->passing.length = 0;
    remat_status status = interval_timeline_list(t, &c->passing);
    if (!status)
        status = consider(c->of, c, &c->passing, interval_time(t), t->n_live, false, &bytes);
    const bool fits = !status && bytes <= c->of->budget;
    c->misses = fits ? 0 : c->misses + (c->misses < MOST_MISSES);
    const uint64_t packing = c->of->alignment ? WORK_OF_LOOK : 0;
    t->work += packing + (uint64_t)WORK_OF_RUN * t->n_live;
    c->search.next_look = t->work + (packing << c->misses);
    c->status = c->status ? c->status : status;
    c->search.wanted = fmin(c->fitting_time, c->of->served) * (1 - 1e-12);
}

/* ---- making the best list fit with its layout ---- */

void improve_resume(chain *c, const remat_operations *from)
{
    interval_search *s = &c->search;
    if (interval_timeline_load(s->timeline, from, NULL))
        s->timeline->failed = true;
    interval_forget_best(s);
    interval_greedy(s, 0);
}

/* What was left free turned out to be more than enough. */
static void relax(const improvement *m, chain *c)
{
    for (uint32_t task = 0; task < m->tasks->n_tasks; task++)
        c->search.timeline->pads[task] = floor(c->search.timeline->pads[task] / 2);
}

/* Whether the best list may be served. */
static bool is_promising(const improvement *m, const chain *c)
{
    const interval_search *s = &c->search;
    return s->best.length > 0 && s->best_time <= m->served &&
           (s->best_time < c->fitting_time ||
            (s->best_time == c->fitting_time && s->best_runs < c->fitting_runs));
}

remat_status improve_settle(const improvement *m, chain *c)
{
    interval_search *s = &c->search;
    remat_status status = REMAT_OK;
    uint64_t bytes = 0;
    for (int i = 0; i < MENDINGS && is_promising(m, c) && !status; i++) {
        bytes = 0;
        status = consider(m, c, &s->best, s->best_time, s->best_runs, true, &bytes);
        if (status || bytes <= m->budget || s->best_time >= c->fitting_time * (1 - SLIGHT) ||
            remat_host_late(m->host))
            break;
        c->unfit = true;
        improve_resume(c, &s->best);
    }
    if (bytes <= m->budget) {
        c->lessons = 0;
        relax(m, c);
    } else if (!status && c->fitting.length > 0 && !is_promising(m, c)) {
        improve_resume(c, &c->runs);
    }
    return status;
}
