#include "search/search.h"

#include <math.h>

#define NONE INTERVAL_NONE
#define SLOWER 1e-3 /* than the list that a neighbourhood is of, and still gone on from */

/* Of a longer list a part is ruined as of one of so many slots: repair is what takes the time. */
enum { SHARES = 16, LARGEST = 2400 };

static void drop_if_removable(interval_search *s, uint32_t run)
{
    if (run != NONE && interval_removable(s->timeline, run))
        interval_drop(s, run);
}

/* Recomputations in a stretch of the list. */
static void ruin_stretch(interval_search *s)
{
    interval_timeline *t = s->timeline;
    uint32_t n = t->n_slots < LARGEST ? t->n_slots : LARGEST;
    uint32_t width = 1 + n / (4 + interval_random(s, 60));
    uint32_t low = interval_random(s, t->n_slots);
    for (uint32_t slot = low; slot < t->n_slots && slot < low + width; slot++)
        drop_if_removable(s, t->run_at[slot]);
}

/* Recomputations of neighbouring nodes, wherever they are. */
static void ruin_nodes(interval_search *s)
{
    interval_timeline *t = s->timeline;
    uint32_t n = t->tasks->n_nodes, most = (n < LARGEST ? n : LARGEST) / 8;
    uint32_t width = 1 + interval_random(s, 1 + most);
    uint32_t low = interval_random(s, n);
    for (uint32_t task = low; task < n && task < low + width; task++)
        while (t->head[task] != t->tail[task] && interval_removable(t, t->tail[task]))
            interval_drop(s, t->tail[task]);
}

/* A few anywhere. */
static void ruin_some(interval_search *s)
{
    interval_timeline *t = s->timeline;
    uint32_t many = 1 + interval_random(s, 12);
    for (uint32_t k = 0; k < 16 * many; k++) {
        uint32_t run = t->live[interval_random(s, t->n_live)];
        if (interval_removable(t, run) && many-- > 0)
            interval_drop(s, run);
        if (many == 0)
            return;
    }
}

/* A share of all. */
static void ruin_share(interval_search *s)
{
    interval_timeline *t = s->timeline;
    uint32_t share = 1 + interval_random(s, SHARES / 2);
    for (uint32_t task = 0; task < t->tasks->n_nodes; task++)
        while (t->head[task] != t->tail[task] && interval_removable(t, t->tail[task]) &&
               interval_random(s, SHARES) < share)
            interval_drop(s, t->tail[task]);
}

static void restore(interval_search *s)
{
    if (interval_timeline_load(s->timeline, &s->best, NULL))
        s->timeline->failed = true;
}

void interval_neighbourhoods(interval_search *s, uint64_t work)
{
    interval_timeline *t = s->timeline;
    if (s->best.length == 0)
        return;
    restore(s);
    uint64_t end = t->work + work;
    while (t->work < end && !t->failed && !remat_host_cancelled(s->host)) {
        switch (interval_random(s, t->tasks->profile->joint ? 4 : 3)) {
        case 0:
            ruin_stretch(s);
            break;
        case 1:
            ruin_nodes(s);
            break;
        case 2:
            ruin_some(s);
            break;
        default:
            ruin_share(s);
        }
        interval_commit(t);
        double before = s->best_time;
        interval_greedy(s, 0.5 * interval_random_unit(s));
        if (t->excess > 0 || (s->best_time == before && interval_time(t) > before * (1 + SLOWER)))
            restore(s);
    }
}
