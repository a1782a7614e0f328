/* Simulated annealing over runs. The budget is a penalty whose weight, the price of a byte past it
 * during one run, rises while the list is over the budget and falls while it fits, so that the
 * search walks along the edge of what fits (strategic oscillation). */
#include "search/search.h"

#include <math.h>

#define NONE INTERVAL_NONE

enum { TRIES = 8, PERIOD = 64, DEEPER = 25, FEW_RUNS = 15, REORDERINGS = 16, FINEST = 1024 };

static uint32_t random_run(interval_search *s)
{
    return s->timeline->live[interval_random(s, s->timeline->n_live)];
}

/* single: mostly one run alone; what it reads lives longer. */
static void insert(interval_search *s, uint32_t task, uint32_t reader, bool single)
{
    if (!single)
        interval_remake(s, task, reader, 0.3, INTERVAL_MOST_RUNS);
    else if (interval_random(s, DEEPER) > 0)
        interval_insert(s->timeline, task, reader);
    else
        interval_remake(s, task, reader, 0.05, 2 + interval_random(s, FEW_RUNS));
}

/* Makes something again just before a reader of it. */
static bool insert_somewhere(interval_search *s, bool single)
{
    interval_timeline *t = s->timeline;
    const interval_tasks *tasks = t->tasks;
    for (int k = 0; k < TRIES; k++) {
        uint32_t reader = random_run(s), task = t->runs[reader].task;
        uint32_t slot = t->runs[reader].slot, first = tasks->reads.first[task];
        uint32_t reads = tasks->reads.first[task + 1] - first;
        bool saved = interval_is_backward(tasks, task) && t->spans[task].start != NONE;
        if (reads + saved == 0)
            continue;
        uint32_t pick = interval_random(s, reads + saved), again, last;
        if (pick == reads) {
            again = interval_partner(tasks, task);
            last = t->tail[again];
        } else {
            uint32_t value = tasks->reads.items[first + pick];
            again = tasks->maker[value];
            last = interval_last_read(t, interval_serving(t, again, slot), value, slot);
        }
        if (tasks->once[again] || interval_run_from(t, t->runs[last].slot + 1) == reader)
            continue;
        insert(s, again, reader, single);
        return true;
    }
    return false;
}

static bool drop_somewhere(interval_search *s)
{
    for (int k = 0; k < TRIES; k++) {
        uint32_t run = random_run(s);
        if (interval_removable(s->timeline, run)) {
            interval_drop(s, run);
            return true;
        }
    }
    return false;
}

static bool shift_somewhere(interval_search *s)
{
    for (int k = 0; k < TRIES; k++) {
        uint32_t run, anchor;
        if (interval_random_shift(s, &run, &anchor)) {
            interval_shift(s->timeline, run, anchor);
            return true;
        }
    }
    return false;
}

static bool change_way(interval_search *s)
{
    interval_timeline *t = s->timeline;
    for (int k = 0; k < TRIES; k++) {
        uint32_t run = random_run(s), task = t->runs[run].task;
        uint32_t ways = interval_n_ways(t->tasks, task);
        if (ways < 2)
            continue;
        uint32_t way = interval_random(s, ways - 1);
        interval_set_way(t, run, (uint16_t)(way + (way >= t->runs[run].way)));
        return true;
    }
    return false;
}

static bool move(interval_search *s)
{
    const interval_tasks *tasks = s->timeline->tasks;
    uint32_t roll = interval_random(s, 100);
    if (tasks->profile->n_alternatives > 0 && interval_random(s, 10) == 0)
        return change_way(s);
    if (roll < 40)
        return insert_somewhere(s, false);
    if (roll < 65)
        return drop_somewhere(s);
    if (roll < 85)
        return shift_somewhere(s);
    return drop_somewhere(s) && insert_somewhere(s, false);
}

/* (cold / hot) to the share of the work that is done, by products alone: pow differs between
 * libraries. */
static double cool(double hot, double cold, double share)
{
    double power = 1, root = cold / hot;
    for (int bit = 0; bit < 10; bit++) {
        root = sqrt(root);
        share *= 2;
        if (share >= 1) {
            power *= root;
            share -= 1;
        }
    }
    return hot * power;
}

/* The same of a joint graph, where moving a run costs least and decides most. */
static bool joint_move(interval_search *s, bool moves_only)
{
    const interval_tasks *tasks = s->timeline->tasks;
    uint32_t roll = moves_only ? 99 : interval_random(s, 100);
    if (tasks->profile->n_alternatives > 0 && !moves_only && interval_random(s, 10) == 0)
        return change_way(s);
    if (roll < 20)
        return insert_somewhere(s, true);
    if (roll < 40)
        return drop_somewhere(s);
    if (roll < 55)
        return drop_somewhere(s) && insert_somewhere(s, true);
    return shift_somewhere(s);
}

/* Weighs what a move changed, and takes it or leaves it; true if the timeline fits afterwards. */
static bool settle(interval_search *s, double time, double excess, double temperature)
{
    interval_timeline *t = s->timeline;
    double cost = (t->time - time) + s->price * (t->excess - excess);
    if (cost > 0 && cost >= temperature * interval_random_exponential(s)) {
        interval_undo(t);
        return excess == 0;
    }
    interval_commit(t);
    if (t->excess == 0 && t->time < s->best_time * (1 - 1e-12))
        interval_keep_best(s);
    if (t->excess == 0 && t->time < s->wanted && t->work >= s->next_look)
        s->found(s->context);
    return t->excess == 0;
}

/* One move. */
static bool step(interval_search *s, double temperature)
{
    double time = s->timeline->time, excess = s->timeline->excess;
    s->moves++;
    return move(s) ? settle(s, time, excess, temperature) : excess == 0;
}

void interval_anneal(interval_search *s, uint64_t work, double hot, double cold)
{
    interval_timeline *t = s->timeline;
    double lightest = s->price / 64, heaviest = s->price * 4096;
    uint64_t begin = t->work;
    for (uint64_t period = 1; t->work < begin + work && !t->failed; period++) {
        double temperature = cool(hot, cold, (double)(t->work - begin) / (double)work);
        int fits = 0;
        for (int i = 0; i < PERIOD && !t->failed; i++)
            fits += step(s, temperature);
        t->work += PERIOD;
        s->price *= fits > PERIOD / 2 ? 0.97 : 1.03;
        s->price = s->price < lightest ? lightest : s->price > heaviest ? heaviest : s->price;
        if (period % PERIOD == 0) {
            t->time = interval_time(t); /* what many small changes left behind */
            if (remat_host_cancelled(s->host))
                return;
        }
    }
}

void interval_anneal_joint(interval_search *s, uint64_t work, const interval_ramp *ramp)
{
    interval_timeline *t = s->timeline;
    uint64_t begin = t->work;
    for (uint64_t period = 1; t->work < begin + work && !t->failed; period++) {
        double share = (double)(t->work - begin) / (double)work;
        double temperature = cool(ramp->hot, ramp->cold, share);
        s->price = cool(ramp->cheap, ramp->dear, share);
        for (int i = 0; i < PERIOD && !t->failed; i++) {
            double time = t->time, excess = t->excess;
            s->moves++;
            if (joint_move(s, ramp->moves_only))
                settle(s, time, excess, temperature);
        }
        t->work += PERIOD;
        if (s->best_time <= s->enough)
            return;
        if (period % PERIOD == 0) {
            t->time = interval_time(t); /* what many small changes left behind */
            if (remat_host_cancelled(s->host))
                return;
        }
    }
}

/* ---- the least peak of an order ---- */

void interval_reorder(interval_search *s, double least, uint64_t work)
{
    interval_timeline *t = s->timeline;
    const interval_tasks *tasks = t->tasks;
    double bytes = 0, peak = interval_peak(t), step = peak / 16, time = interval_time(t);
    const double finest = peak / FINEST;
    for (uint32_t v = 0; v < tasks->n_values; v++)
        bytes += tasks->bytes[v] / tasks->n_values;
    /* a byte past the budget during one run is worth 1: the temperature is in bytes */
    const interval_ramp ramp = {
        .hot = 2 * bytes, .cold = 0.05 * bytes, .cheap = 1, .dear = 1, .moves_only = true};
    interval_set_budget(t, peak);
    s->best_time = INFINITY;
    interval_keep_best(s);
    s->enough = time * (1 + 1e-9);
    for (uint64_t end = t->work + work; t->work < end && step >= finest && !t->failed;) {
        if (peak - step < least) {
            step /= 2;
            continue;
        }
        s->best_time = INFINITY;
        s->best_runs = SIZE_MAX;
        interval_set_budget(t, peak - step);
        interval_anneal_joint(s, work / REORDERINGS, &ramp);
        if (remat_host_cancelled(s->host))
            return;
        bool lower = s->best_time < INFINITY;
        if (t->failed || interval_timeline_load(t, &s->best, NULL)) {
            t->failed = true;
            return;
        }
        peak = lower ? interval_peak(t) : peak;
        step = lower ? step : step / 2;
    }
    s->best_time = time;
}
