#include "search/search.h"

#include "model/numbers.h"

#include <math.h>
#include <string.h>

#define NONE INTERVAL_NONE

enum { DEEPEST = 200 }; /* of one compound edit */

/* ---- chance ---- */

uint32_t interval_random(interval_search *s, uint32_t below)
{
    return model_random_below(&s->random, below);
}

double interval_random_unit(interval_search *s)
{
    return (double)((model_random(&s->random) >> 11) + 1) * 0x1p-53;
}

/* -ln(u) with sums and products alone: libraries differ in the last bit of log. With
 * u = m 2^e, 1 <= m < 2, ln m = 2 artanh((m - 1) / (m + 1)). */
double interval_random_exponential(interval_search *s)
{
    double u = interval_random_unit(s);
    uint64_t bits;
    memcpy(&bits, &u, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    bits = (bits & UINT64_C(0xfffffffffffff)) | UINT64_C(0x3ff0000000000000);
    memcpy(&u, &bits, sizeof u);
    double z = (u - 1) / (u + 1), square = z * z;
    double series = 1 + square * (1.0 / 3 + square * (0.2 + square * (1.0 / 7 + square / 9)));
    return -(2 * z * series + exponent * 0.69314718055994531);
}

/* ---- compound edits ---- */

/* Whether the value that the run reads should be made again for it. What the run reads is there
 * already where something later reads the same instance. */
static bool should_remake(interval_search *s, uint32_t run, uint32_t value, double noise)
{
    interval_timeline *t = s->timeline;
    uint32_t slot = t->runs[run].slot, maker = t->tasks->maker[value];
    uint32_t serving = interval_serving(t, maker, slot);
    if (t->tasks->once[maker] || *interval_end(t, serving, value) != run)
        return false;
    uint32_t last = interval_last_read(t, serving, value, slot), from = t->runs[last].slot + 1;
    if (interval_run_from(t, from) == run)
        return false;
    if (noise > 0 && interval_random_unit(s) < noise)
        return interval_random(s, 2);
    double relief = interval_relief(t, from, slot, t->tasks->bytes[value]);
    double time = interval_ways(t->tasks, maker)->time;
    if (s->price * relief > time)
        return true;
    if (s->dearer * relief > time)
        s->dearer = time / relief;
    return false;
}

static unsigned remake(interval_search *s, uint32_t task, uint32_t before, double noise,
                       unsigned deep, unsigned made, unsigned most)
{
    interval_timeline *t = s->timeline;
    uint32_t run = interval_insert(t, task, before);
    if (t->failed)
        return made;
    made++;
    const interval_index *reads = &t->tasks->reads;
    for (uint32_t i = reads->first[task]; i < reads->first[task + 1]; i++)
        if (deep < DEEPEST && made < most && should_remake(s, run, reads->items[i], noise)) {
            made = remake(s, t->tasks->maker[reads->items[i]], run, noise, deep + 1, made, most);
            if (t->failed)
                return made;
        }
    return made;
}

unsigned interval_remake(interval_search *s, uint32_t task, uint32_t before, double noise,
                         unsigned most)
{
    return remake(s, task, before, noise, 0, 0, most);
}

void interval_drop(interval_search *s, uint32_t run)
{
    interval_timeline *t = s->timeline;
    uint32_t slot = t->runs[run].slot, task = t->runs[run].task;
    interval_remove(t, run);
    const interval_index *reads = &t->tasks->reads;
    for (uint32_t i = reads->first[task]; i < reads->first[task + 1]; i++) {
        uint32_t serving = interval_serving(t, t->tasks->maker[reads->items[i]], slot);
        if (serving != NONE && interval_useless(t, serving) && interval_removable(t, serving))
            interval_drop(s, serving);
    }
}

bool interval_random_shift(interval_search *s, uint32_t *ret_run, uint32_t *ret_before)
{
    interval_timeline *t = s->timeline;
    uint32_t run = t->live[interval_random(s, t->n_live)], low, high;
    interval_window(t, run, &low, &high);
    if (high <= low + 1)
        return false;
    *ret_run = run;
    *ret_before = interval_run_from(t, low + 1 + interval_random(s, high - low - 1));
    return *ret_before != NONE && *ret_before != run;
}

void interval_forget_best(interval_search *s)
{
    s->best.length = 0;
    s->best_time = INFINITY;
    s->best_runs = SIZE_MAX;
}

void interval_keep_best(interval_search *s)
{
    interval_timeline *t = s->timeline;
    if (t->excess > 0 || t->failed)
        return;
    double time = interval_time(t), same = 1e-12 * time;
    if (time > s->best_time + same || (time > s->best_time - same && t->n_live >= s->best_runs))
        return;
    s->best.length = 0;
    if (interval_timeline_list(t, &s->best)) {
        t->failed = true;
        return;
    }
    s->best_time = time;
    s->best_runs = t->n_live;
}
