#include "search/timeline.h"

#include "model/arrays.h"

#include <math.h>

#define NONE INTERVAL_NONE

enum { REACH = 96 }; /* how far an insertion looks for an empty slot */

/* ---- runs ---- */

/* A run of the task that stands nowhere yet, or NONE. */
static uint32_t new_run(interval_timeline *t, uint32_t task)
{
    uint32_t run = t->unused[task];
    if (run != NONE) {
        t->unused[task] = t->runs[run].next;
    } else {
        const uint32_t *first = t->tasks->first_made;
        uint32_t values = first[task + 1] - first[task];
        size_t live_capacity = t->runs_capacity;
        if (!model_reserve(&t->live, &live_capacity, t->n_runs + 1, sizeof *t->live) ||
            !model_reserve(&t->runs, &t->runs_capacity, t->n_runs + 1, sizeof *t->runs) ||
            !model_reserve(&t->ends, &t->ends_capacity, t->n_ends + values, sizeof *t->ends)) {
            t->failed = true;
            return NONE;
        }
        run = t->n_runs++;
        t->runs[run].first_end = t->n_ends;
        t->n_ends += values;
    }
    interval_run *r = &t->runs[run];
    *r = (interval_run){.task = task,
                        .previous = NONE,
                        .next = NONE,
                        .first_end = r->first_end,
                        .stamp = ++t->stamps};
    return run;
}

static void reuse_run(interval_timeline *t, uint32_t run)
{
    t->runs[run].next = t->unused[t->runs[run].task];
    t->unused[t->runs[run].task] = run;
}

static double made_bytes(const interval_timeline *t, uint32_t task)
{
    double bytes = 0;
    for (uint32_t v = t->tasks->first_made[task]; v < t->tasks->first_made[task + 1]; v++)
        bytes += t->tasks->bytes[v];
    return bytes;
}

static uint32_t last_slot(const interval_timeline *t, uint32_t run)
{
    return run == NONE ? t->n_slots - 1 : t->runs[run].slot;
}

/* ---- ranges ---- */

/* Work of a range: eight slots at a time, and as much as two such for getting there. */
static uint64_t range_work(uint32_t low, uint32_t high)
{
    return (high - low) / 8 + 2;
}

static void add_range(interval_timeline *t, uint32_t low, uint32_t high, double bytes)
{
    t->work += range_work(low, high);
    t->excess += interval_memory_add(&t->memory, low, high, bytes, t->budget);
}

/* ---- the turn ---- */

/* The slot before which it is: what starts before that slot and ends there or later is held. */
static uint32_t turn_slot(const interval_timeline *t)
{
    return t->runs[t->turn].slot + (t->tasks->turn_task != NONE);
}

static bool crosses(const interval_timeline *t, uint32_t first, uint32_t last)
{
    return t->turn != NONE && first < turn_slot(t) && last >= turn_slot(t);
}

static void hold(interval_timeline *t, double bytes)
{
    if (bytes == 0)
        return;
    t->held += bytes;
    add_range(t, 0, t->n_slots, bytes * t->tasks->others);
}

static double held_now(const interval_timeline *t)
{
    const interval_tasks *tasks = t->tasks;
    double bytes = 0;
    if (tasks->others == 0 || t->turn == NONE)
        return 0;
    for (uint32_t i = 0; i < t->n_live; i++) {
        const interval_run *r = &t->runs[t->live[i]];
        const uint32_t *end = &t->ends[r->first_end];
        for (uint32_t v = tasks->first_made[r->task]; v < tasks->first_made[r->task + 1]; v++)
            bytes += crosses(t, r->slot, t->runs[*end++].slot) ? tasks->bytes[v] : 0;
    }
    for (uint32_t s = 0; s < tasks->n_spans; s++) {
        const interval_span *span = &t->spans[s];
        if (span->start != NONE && crosses(t, t->runs[span->start].slot, last_slot(t, span->end)))
            bytes += span->bytes;
    }
    return bytes;
}

static void set_turn(interval_timeline *t, uint32_t run)
{
    if (t->tasks->others == 0 || t->turn == run || t->n_slots == 0) /* no slots: being loaded */
        return;
    t->turn = run;
    hold(t, held_now(t) - t->held);
}

/* What lives from slot a to slot b lives from c to d: both ends included. */
static void move_range(interval_timeline *t, uint32_t a, uint32_t b, uint32_t c, uint32_t d,
                       double bytes)
{
    if (c > b || d < a) {
        add_range(t, a, b + 1, -bytes);
        add_range(t, c, d + 1, bytes);
        return;
    }
    if (c < a)
        add_range(t, c, a, bytes);
    else if (c > a)
        add_range(t, a, c, -bytes);
    if (d > b)
        add_range(t, b + 1, d + 1, bytes);
    else if (d < b)
        add_range(t, d + 1, b + 1, -bytes);
}

/* ---- writing edits down ---- */

static void note(interval_timeline *t, interval_edit edit)
{
    if (model_reserve(&t->edits, &t->edits_capacity, t->n_edits + 1, sizeof edit))
        t->edits[t->n_edits++] = edit;
    else
        t->failed = true;
}

/* ---- the primitives: each changes one thing and the memory with it ---- */

static void put_end(interval_timeline *t, uint32_t run, uint32_t value, uint32_t end)
{
    uint32_t *at = interval_end(t, run, value);
    uint32_t old = t->runs[*at].slot, new = t->runs[end].slot;
    double bytes = t->tasks->bytes[value];
    if (new > old)
        add_range(t, old + 1, new + 1, bytes);
    else
        add_range(t, new + 1, old + 1, -bytes);
    *at = end;
    if (t->tasks->others > 0) {
        uint32_t start = t->runs[run].slot;
        hold(t, bytes * (crosses(t, start, new) - crosses(t, start, old)));
    }
}

static void set_end(interval_timeline *t, uint32_t run, uint32_t value, uint32_t end)
{
    note(t, (interval_edit){.kind = INTERVAL_END,
                            .index = run,
                            .one = value,
                            .two = *interval_end(t, run, value)});
    put_end(t, run, value, end);
}

static void put_cost(interval_timeline *t, uint32_t run, double extra, double time)
{
    interval_run *r = &t->runs[run];
    if (extra != r->extra)
        add_range(t, r->slot, r->slot + 1, extra - r->extra);
    t->time += time - r->time;
    r->extra = extra;
    r->time = time;
}

static void set_cost(interval_timeline *t, uint32_t run, double extra, double time)
{
    interval_run *r = &t->runs[run];
    if (r->extra == extra && r->time == time)
        return;
    note(t,
         (interval_edit){.kind = INTERVAL_COST, .index = run, .bytes = r->extra, .time = r->time});
    put_cost(t, run, extra, time);
}

static void put_span(interval_timeline *t, uint32_t span, interval_span new)
{
    interval_span *s = &t->spans[span];
    bool was = s->start != NONE && s->bytes > 0, is = new.start != NONE &&new.bytes > 0;
    uint32_t a = 0, b = 0, c = 0, d = 0;
    if (was) {
        a = t->runs[s->start].slot;
        b = last_slot(t, s->end);
    }
    if (is) {
        c = t->runs[new.start].slot;
        d = last_slot(t, new.end);
    }
    if (was && is && s->bytes == new.bytes)
        move_range(t, a, b, c, d, new.bytes);
    else {
        if (was)
            add_range(t, a, b + 1, -s->bytes);
        if (is)
            add_range(t, c, d + 1, new.bytes);
    }
    if (t->tasks->others > 0)
        hold(t,
             (is && crosses(t, c, d) ? new.bytes : 0) - (was && crosses(t, a, b) ? s->bytes : 0));
    *s = new;
    if (t->tasks->turn_task == NONE && span == 0)
        set_turn(t, new.start);
}

static void set_span(interval_timeline *t, uint32_t span, interval_span new)
{
    const interval_span *s = &t->spans[span];
    if (s->start == new.start && s->end == new.end && s->bytes == new.bytes)
        return;
    note(t, (interval_edit){.kind = INTERVAL_SPAN,
                            .index = span,
                            .one = s->start,
                            .two = s->end,
                            .bytes = s->bytes});
    put_span(t, span, new);
}

static void put_link(interval_timeline *t, uint32_t run, uint32_t previous)
{
    interval_run *r = &t->runs[run];
    r->previous = previous;
    r->next = previous == NONE ? t->head[r->task] : t->runs[previous].next;
    *(previous == NONE ? &t->head[r->task] : &t->runs[previous].next) = run;
    *(r->next == NONE ? &t->tail[r->task] : &t->runs[r->next].previous) = run;
    if (r->task == t->tasks->turn_task)
        set_turn(t, t->head[r->task]);
}

static void put_unlink(interval_timeline *t, uint32_t run)
{
    const interval_run *r = &t->runs[run];
    *(r->previous == NONE ? &t->head[r->task] : &t->runs[r->previous].next) = r->next;
    *(r->next == NONE ? &t->tail[r->task] : &t->runs[r->next].previous) = r->previous;
    if (r->task == t->tasks->turn_task)
        set_turn(t, t->head[r->task]);
}

/* ---- slots ---- */

/* Bytes that are alive during a run and were not before it, its extra aside. */
static double starting_bytes(const interval_timeline *t, uint32_t run)
{
    const interval_tasks *tasks = t->tasks;
    uint32_t task = t->runs[run].task;
    double bytes = made_bytes(t, task);
    for (uint32_t i = tasks->spans_of.first[task]; i < tasks->spans_of.first[task + 1]; i++) {
        const interval_span *s = &t->spans[tasks->spans_of.items[i]];
        bytes += s->start == run ? s->bytes : 0;
    }
    if (interval_saves(tasks, task) && t->spans[tasks->n_nodes + task].start == run)
        bytes += t->spans[tasks->n_nodes + task].bytes;
    return bytes;
}

/* What a slot adds to the excess. */
static double passing_bytes(const interval_timeline *t, uint32_t slot)
{
    double bytes = interval_memory_at(&t->memory, slot) - t->budget;
    return bytes > 0 ? bytes : 0;
}

static void sum_excess(interval_timeline *t)
{
    t->excess = 0;
    for (uint32_t s = 0; s < t->n_slots; s++)
        t->excess += passing_bytes(t, s);
}

/* The memory of every slot from the runs, ends and spans; the excess with it. */
static void sum_memory(interval_timeline *t)
{
    const interval_tasks *tasks = t->tasks;
    double *memory = t->memory.slots;
    memset(memory, 0, (t->n_slots + 1) * sizeof *memory);
    for (uint32_t i = 0; i < t->n_live; i++) {
        const interval_run *r = &t->runs[t->live[i]];
        const uint32_t *end = &t->ends[r->first_end];
        for (uint32_t v = tasks->first_made[r->task]; v < tasks->first_made[r->task + 1]; v++) {
            memory[r->slot] += tasks->bytes[v];
            memory[t->runs[*end++].slot + 1] -= tasks->bytes[v];
        }
    }
    for (uint32_t s = 0; s < tasks->n_spans; s++) {
        const interval_span *span = &t->spans[s];
        if (span->start == NONE)
            continue;
        memory[t->runs[span->start].slot] += span->bytes;
        memory[last_slot(t, span->end) + 1] -= span->bytes;
    }
    t->held = held_now(t);
    double alive = t->held * tasks->others;
    for (uint32_t s = 0; s < t->n_slots; s++) {
        uint32_t run = t->run_at[s];
        alive += memory[s];
        memory[s] = alive + (run == NONE ? -INTERVAL_EMPTY_SLOT : t->runs[run].extra);
    }
    memory[t->n_slots] = -INTERVAL_EMPTY_SLOT;
    interval_memory_index(&t->memory);
    sum_excess(t);
}

/* Puts the runs apart again, with as many empty slots as runs. */
static bool spread(interval_timeline *t)
{
    uint32_t need = 2 * t->n_live + 64, at = 0;
    if (!model_reserve(&t->run_at, &t->slots_capacity, need, sizeof *t->run_at) ||
        !interval_memory_clear(&t->memory, need))
        return false;
    for (uint32_t s = 0; s < t->n_slots; s++)
        if (t->run_at[s] != NONE)
            t->live[at++] = t->run_at[s];
    for (uint32_t s = 0; s < need; s++)
        t->run_at[s] = NONE;
    t->n_slots = need;
    for (uint32_t i = 0; i < t->n_live; i++) {
        interval_run *r = &t->runs[t->live[i]];
        r->slot = 2 * i + 1;
        r->live = i;
        t->run_at[r->slot] = t->live[i];
    }
    sum_memory(t);
    return true;
}

static void move_run(interval_timeline *t, uint32_t from, uint32_t to)
{
    t->run_at[to] = t->run_at[from];
    interval_memory_set(&t->memory, to, interval_memory_at(&t->memory, from));
    if (t->run_at[to] != NONE)
        t->runs[t->run_at[to]].slot = to;
}

/* Makes the slot empty whose memory is what is alive between the run that now follows and the one
 * before it. */
static void open_slot(interval_timeline *t, uint32_t slot)
{
    uint32_t following = t->run_at[slot + 1];
    t->run_at[slot] = NONE;
    interval_memory_set(&t->memory, slot,
                        interval_memory_at(&t->memory, slot + 1) - t->runs[following].extra -
                            starting_bytes(t, following) - INTERVAL_EMPTY_SLOT);
}

/* An empty slot just before the run, or NONE when there is none near. */
static uint32_t empty_slot(interval_timeline *t, uint32_t before)
{
    uint32_t slot = t->runs[before].slot, low = slot;
    while (low > 0 && t->run_at[low - 1] == NONE)
        low--;
    if (low < slot)
        return low + (slot - low) / 2;
    for (uint32_t far = 1; far <= REACH; far++) {
        uint32_t right = slot + far;
        if (right < t->n_slots && t->run_at[right] == NONE) {
            for (uint32_t s = right; s > slot; s--)
                move_run(t, s - 1, s);
            open_slot(t, slot);
            return slot;
        }
        if (slot > far && t->run_at[slot - 1 - far] == NONE) {
            for (uint32_t s = slot - 1 - far; s + 1 < slot; s++)
                move_run(t, s + 1, s);
            open_slot(t, slot - 1);
            return slot - 1;
        }
    }
    return NONE;
}

/* Gives the run a slot before another one; it makes its values and nobody reads them yet. */
static void put_place(interval_timeline *t, uint32_t run, uint32_t before)
{
    uint32_t slot = empty_slot(t, before);
    if (slot == NONE) {
        if (!spread(t)) {
            t->failed = true;
            return;
        }
        slot = empty_slot(t, before);
    }
    interval_run *r = &t->runs[run];
    const uint32_t *first = t->tasks->first_made;
    r->slot = slot;
    r->extra = r->time = 0;
    for (uint32_t k = 0; k < first[r->task + 1] - first[r->task]; k++)
        t->ends[r->first_end + k] = run;
    t->run_at[slot] = run;
    r->live = t->n_live;
    t->live[t->n_live++] = run;
    t->work += range_work(slot, slot + 1);
    interval_memory_set(&t->memory, slot,
                        interval_memory_at(&t->memory, slot) + INTERVAL_EMPTY_SLOT +
                            made_bytes(t, r->task));
    t->excess += passing_bytes(t, slot);
}

static void put_empty(interval_timeline *t, uint32_t run)
{
    interval_run *r = &t->runs[run];
    t->work += range_work(r->slot, r->slot + 1);
    t->excess -= passing_bytes(t, r->slot);
    interval_memory_set(&t->memory, r->slot,
                        interval_memory_at(&t->memory, r->slot) - made_bytes(t, r->task) -
                            INTERVAL_EMPTY_SLOT);
    t->run_at[r->slot] = NONE;
    t->live[r->live] = t->live[--t->n_live];
    t->runs[t->live[r->live]].live = r->live;
}

/* ---- what follows from the runs ---- */

uint32_t interval_last_read(const interval_timeline *t, uint32_t serving, uint32_t value,
                            uint32_t slot)
{
    uint32_t last = serving, last_at = t->runs[serving].slot;
    const interval_index *uses = &t->tasks->uses;
    for (uint32_t i = uses->first[value]; i < uses->first[value + 1]; i++) {
        uint32_t run = interval_serving(t, uses->items[i], slot);
        if (run != NONE && t->runs[run].slot > last_at) {
            last = run;
            last_at = t->runs[run].slot;
        }
    }
    return last;
}

/* The way of the backward that reads what a forward saves; while it is being moved, any. */
static const interval_way *partner_way(const interval_timeline *t, uint32_t v)
{
    uint32_t task = interval_partner(t->tasks, v), backward = t->head[task];
    uint32_t way = backward == NONE ? 0 : t->runs[backward].way;
    return interval_ways(t->tasks, v) + way;
}

static double saved_bytes(const interval_timeline *t, uint32_t v)
{
    return partner_way(t, v)->saved;
}

/* The bytes that a forward and what it overwrites share during it. */
static double overwritten_bytes(const interval_timeline *t, uint32_t run)
{
    const interval_run *r = &t->runs[run];
    uint32_t value = t->tasks->overwrites[r->task];
    if (value == NONE)
        return 0;
    uint32_t serving = interval_serving(t, t->tasks->maker[value], r->slot);
    if (serving == NONE || *interval_end(t, serving, value) != run)
        return 0;
    double out = t->tasks->bytes[t->tasks->first_made[r->task]], in = t->tasks->bytes[value];
    return in < out ? in : out;
}

static double overlapped_bytes(const interval_timeline *t, uint32_t run)
{
    const interval_tasks *tasks = t->tasks;
    uint32_t task = t->runs[run].task, span = tasks->overlaps[task];
    if (span == NONE || t->spans[span].start != run)
        return 0;
    double own = tasks->span_bytes[task - tasks->n_nodes], other = tasks->span_bytes[span];
    return own < other ? own : other;
}

/* Whether what the forward would save as an A is freed at once: a later A saves again. What is
 * saved last stays until the backward, read or not. */
static bool passes(const interval_timeline *t, uint32_t run)
{
    const interval_run *r = &t->runs[run];
    const interval_way *way = interval_ways(t->tasks, r->task) + r->way;
    return way->saved == 0 || (run != t->tail[r->task] && saved_bytes(t, r->task) > 0);
}

static void refresh_cost(interval_timeline *t, uint32_t run)
{
    const interval_tasks *tasks = t->tasks;
    const interval_run *r = &t->runs[run];
    const interval_way *way = interval_ways(tasks, r->task) + r->way;
    double shared = overwritten_bytes(t, run) - t->pads[r->task];
    if (!interval_saves(tasks, r->task)) {
        set_cost(t, run, way->workspace - shared - overlapped_bytes(t, run), way->time);
        return;
    }
    if (run == t->tail[r->task] && saved_bytes(t, r->task) > 0) {
        way = partner_way(t, r->task);
        set_cost(t, run, way->saving - shared, way->time);
        return;
    }
    set_cost(t, run, (passes(t, run) ? way->passing : way->workspace) - shared, way->time);
}

static void refresh_overwriter(interval_timeline *t, uint32_t run, uint32_t value)
{
    if (t->tasks->overwrites[t->runs[run].task] == value)
        refresh_cost(t, run);
}

static void refresh_end(interval_timeline *t, uint32_t run, uint32_t value)
{
    const uint32_t *uses = &t->tasks->uses.first[value];
    t->work += (uses[1] - uses[0]) / 2;
    uint32_t next = t->runs[run].next, old = *interval_end(t, run, value);
    uint32_t end = interval_last_read(t, run, value, next == NONE ? NONE : t->runs[next].slot);
    if (end == old)
        return;
    set_end(t, run, value, end);
    refresh_overwriter(t, old, value);
    refresh_overwriter(t, end, value);
}

static void refresh_made(interval_timeline *t, uint32_t run)
{
    const uint32_t *first = t->tasks->first_made;
    uint32_t task = t->runs[run].task;
    for (uint32_t v = first[task]; v < first[task + 1]; v++)
        refresh_end(t, run, v);
}

/* The values that a run in this slot reads. */
static void refresh_reads(interval_timeline *t, uint32_t task, uint32_t slot)
{
    const interval_index *reads = &t->tasks->reads;
    for (uint32_t i = reads->first[task]; i < reads->first[task + 1]; i++) {
        uint32_t value = reads->items[i];
        refresh_end(t, interval_serving(t, t->tasks->maker[value], slot), value);
    }
}

/* What the last forward of a node saves, and the costs that depend on being the last. */
static void refresh_saved(interval_timeline *t, uint32_t v)
{
    uint32_t last = t->tail[v], backward = t->head[interval_partner(t->tasks, v)];
    double bytes = saved_bytes(t, v);
    set_span(t, t->tasks->n_nodes + v,
             bytes > 0 ? (interval_span){last, backward, bytes} : (interval_span){NONE, NONE, 0});
    for (uint32_t run = last; run != NONE; run = t->runs[run].previous)
        refresh_cost(t, run);
}

static void refresh_spans(interval_timeline *t, uint32_t task)
{
    const interval_tasks *tasks = t->tasks;
    for (uint32_t i = tasks->spans_of.first[task]; i < tasks->spans_of.first[task + 1]; i++) {
        uint32_t span = tasks->spans_of.items[i], start = NONE, end = NONE;
        for (uint32_t k = tasks->touches.first[span]; k < tasks->touches.first[span + 1]; k++) {
            uint32_t run = t->head[tasks->touches.items[k]];
            if (start == NONE || t->runs[run].slot < t->runs[start].slot)
                start = run;
            if (end == NONE || t->runs[run].slot > t->runs[end].slot)
                end = run;
        }
        if (span >= 2 * tasks->n_saving) /* of a graph input */
            end = NONE;
        set_span(t, span, (interval_span){start, end, tasks->span_bytes[span]});
        for (uint32_t k = tasks->touches.first[span]; k < tasks->touches.first[span + 1]; k++)
            refresh_cost(t, t->head[tasks->touches.items[k]]);
    }
}

static bool touches_spans(const interval_timeline *t, uint32_t task)
{
    return t->tasks->spans_of.first[task] < t->tasks->spans_of.first[task + 1];
}

/* ---- edits ---- */

static void link_run(interval_timeline *t, uint32_t run, uint32_t before)
{
    uint32_t task = t->runs[run].task;
    put_place(t, run, before);
    if (t->failed)
        return;
    note(t, (interval_edit){.kind = INTERVAL_PLACE, .index = run});
    put_link(t, run, interval_serving(t, task, t->runs[run].slot));
    note(t, (interval_edit){.kind = INTERVAL_LINK, .index = run});
    if (t->runs[run].previous != NONE)
        refresh_made(t, t->runs[run].previous);
    refresh_made(t, run);
    refresh_reads(t, task, t->runs[run].slot);
    refresh_cost(t, run);
    if (interval_saves(t->tasks, task) && t->tail[task] == run)
        refresh_saved(t, task);
    if (interval_is_backward(t->tasks, task))
        refresh_saved(t, task - t->tasks->n_nodes);
    if (touches_spans(t, task))
        refresh_spans(t, task);
}

static void unlink_run(interval_timeline *t, uint32_t run)
{
    const interval_run *r = &t->runs[run];
    uint32_t task = r->task, previous = r->previous;
    bool last = t->tail[task] == run;
    for (uint32_t v = t->tasks->first_made[task]; v < t->tasks->first_made[task + 1]; v++)
        if (*interval_end(t, run, v) != run) {
            uint32_t old = *interval_end(t, run, v);
            set_end(t, run, v, run);
            refresh_overwriter(t, old, v);
        }
    note(t, (interval_edit){.kind = INTERVAL_UNLINK, .index = run, .one = previous});
    put_unlink(t, run);
    if (previous != NONE)
        refresh_made(t, previous);
    refresh_reads(t, task, t->runs[run].slot);
    if (last && interval_saves(t->tasks, task) && t->tail[task] != NONE)
        refresh_saved(t, task);
    if (t->head[task] != NONE && touches_spans(t, task)) /* of a joint graph */
        refresh_spans(t, task);
}

static void take_out(interval_timeline *t, uint32_t run)
{
    set_cost(t, run, 0, 0);
    uint32_t anchor = interval_run_from(t, t->runs[run].slot + 1);
    note(t, (interval_edit){.kind = INTERVAL_EMPTY, .index = run, .one = anchor});
    put_empty(t, run);
}

uint32_t interval_insert(interval_timeline *t, uint32_t task, uint32_t before)
{
    if (t->failed)
        return NONE;
    uint32_t run = new_run(t, task);
    if (run != NONE)
        link_run(t, run, before);
    return run;
}

void interval_remove(interval_timeline *t, uint32_t run)
{
    unlink_run(t, run);
    take_out(t, run);
}

bool interval_useless(const interval_timeline *t, uint32_t run)
{
    const interval_run *r = &t->runs[run];
    const uint32_t *first = t->tasks->first_made;
    for (uint32_t k = 0; k < first[r->task + 1] - first[r->task]; k++)
        if (t->ends[r->first_end + k] != run)
            return false;
    if (!interval_saves(t->tasks, r->task))
        return !t->tasks->once[r->task];
    return !(t->tail[r->task] == run && saved_bytes(t, r->task) > 0);
}

bool interval_removable(const interval_timeline *t, uint32_t run)
{
    const interval_run *r = &t->runs[run];
    if (t->tasks->once[r->task])
        return false;
    if (r->previous != NONE)
        return true;
    const uint32_t *before = &t->tasks->before.first[r->task]; /* who comes after the first run */
    return r->next != NONE && before[0] == before[1] && interval_useless(t, run);
}

void interval_window(const interval_timeline *t, uint32_t run, uint32_t *ret_low,
                     uint32_t *ret_high)
{
    const interval_tasks *tasks = t->tasks;
    const interval_run *r = &t->runs[run];
    uint32_t low = r->previous == NONE ? 0 : t->runs[r->previous].slot;
    uint32_t high = r->next == NONE ? t->n_slots : t->runs[r->next].slot;
    for (uint32_t i = tasks->reads.first[r->task]; i < tasks->reads.first[r->task + 1]; i++) {
        uint32_t maker = t->head[tasks->maker[tasks->reads.items[i]]];
        if (t->runs[maker].slot > low)
            low = t->runs[maker].slot;
    }
    for (uint32_t i = tasks->after.first[r->task]; i < tasks->after.first[r->task + 1]; i++) {
        uint32_t slot = t->runs[t->head[tasks->after.items[i]]].slot;
        low = slot > low ? slot : low;
    }
    for (uint32_t i = tasks->before.first[r->task];
         t->head[r->task] == run && i < tasks->before.first[r->task + 1]; i++) {
        uint32_t slot = t->runs[t->head[tasks->before.items[i]]].slot;
        high = slot < high ? slot : high;
    }
    for (uint32_t v = tasks->first_made[r->task]; v < tasks->first_made[r->task + 1]; v++)
        for (uint32_t i = tasks->uses.first[v]; i < tasks->uses.first[v + 1]; i++) {
            uint32_t user = t->tail[tasks->uses.items[i]];
            while (user != NONE && t->runs[user].slot > r->slot) {
                high = t->runs[user].slot < high ? t->runs[user].slot : high;
                user = t->runs[user].previous;
            }
        }
    if (interval_saves(tasks, r->task)) {
        uint32_t backward = t->runs[t->head[interval_partner(tasks, r->task)]].slot;
        high = backward < high ? backward : high;
    } else if (interval_is_backward(tasks, r->task)) {
        uint32_t forward = t->runs[t->tail[interval_partner(tasks, r->task)]].slot;
        low = forward > low ? forward : low;
    }
    if (interval_run_from(t, r->slot + 1) == NONE) /* what lives to the end ends there */
        low = high = r->slot;
    *ret_low = low;
    *ret_high = high;
}

void interval_shift(interval_timeline *t, uint32_t run, uint32_t before)
{
    uint32_t task = t->runs[run].task;
    if (!touches_spans(t, task)) {
        unlink_run(t, run);
        if (interval_saves(t->tasks, task) && /* the only run: nothing else saves */
            t->tail[task] == NONE)
            set_span(t, t->tasks->n_nodes + task, (interval_span){NONE, NONE, 0});
    } else {
        for (uint32_t i = t->tasks->spans_of.first[task]; i < t->tasks->spans_of.first[task + 1];
             i++)
            set_span(t, t->tasks->spans_of.items[i], (interval_span){NONE, NONE, 0});
        if (interval_is_backward(t->tasks, task))
            set_span(t, task, (interval_span){NONE, NONE, 0});
        unlink_run(t, run);
    }
    take_out(t, run);
    link_run(t, run, before);
}

void interval_set_way(interval_timeline *t, uint32_t run, uint16_t way)
{
    interval_run *r = &t->runs[run];
    note(t, (interval_edit){.kind = INTERVAL_WAY, .index = run, .one = r->way});
    r->way = way;
    refresh_cost(t, run);
    if (interval_is_backward(t->tasks, r->task))
        refresh_saved(t, interval_partner(t->tasks, r->task));
}

void interval_commit(interval_timeline *t)
{
    for (size_t i = 0; i < t->n_edits; i++) {
        uint32_t run = t->edits[i].index;
        bool gone = t->edits[i].kind == INTERVAL_EMPTY && t->run_at[t->runs[run].slot] != run;
        for (size_t k = i + 1; gone && k < t->n_edits; k++) /* reused once, however often moved */
            gone = t->edits[k].kind != INTERVAL_EMPTY || t->edits[k].index != run;
        if (gone)
            reuse_run(t, run);
    }
    t->n_edits = 0;
}

void interval_undo(interval_timeline *t)
{
    while (t->n_edits > 0) {
        const interval_edit *e = &t->edits[--t->n_edits];
        uint32_t run = e->index;
        switch (e->kind) {
        case INTERVAL_PLACE:
            put_empty(t, run);
            if (t->n_edits == 0 || t->edits[t->n_edits - 1].kind != INTERVAL_EMPTY ||
                t->edits[t->n_edits - 1].index != run)
                reuse_run(t, run);
            break;
        case INTERVAL_EMPTY:
            put_place(t, run, e->one);
            break;
        case INTERVAL_LINK:
            put_unlink(t, run);
            break;
        case INTERVAL_UNLINK:
            put_link(t, run, e->one);
            break;
        case INTERVAL_END:
            put_end(t, run, e->one, e->two);
            break;
        case INTERVAL_COST:
            put_cost(t, run, e->bytes, e->time);
            break;
        case INTERVAL_SPAN:
            put_span(t, e->index, (interval_span){e->one, e->two, e->bytes});
            break;
        case INTERVAL_WAY:
            t->runs[run].way = (uint16_t)e->one;
            break;
        }
    }
}

/* ---- looking ---- */

double interval_relief(interval_timeline *t, uint32_t low, uint32_t high, double bytes)
{
    t->work += range_work(low, high);
    if (t->turn == NONE || turn_slot(t) < low || turn_slot(t) > high)
        return -interval_memory_probe(&t->memory, low, high, -bytes, t->budget);
    double of_others = -bytes * t->tasks->others; /* what is away then is not held */
    return -interval_memory_probe(&t->memory, 0, low, of_others, t->budget) -
           interval_memory_probe(&t->memory, low, high, of_others - bytes, t->budget) -
           interval_memory_probe(&t->memory, high, t->n_slots, of_others, t->budget);
}

uint32_t interval_run_from(const interval_timeline *t, uint32_t slot)
{
    while (slot < t->n_slots && t->run_at[slot] == NONE)
        slot++;
    return slot < t->n_slots ? t->run_at[slot] : NONE;
}

double interval_time(const interval_timeline *t)
{
    double time = 0;
    for (uint32_t s = 0; s < t->n_slots; s++)
        if (t->run_at[s] != NONE)
            time += t->runs[t->run_at[s]].time;
    return time;
}

double interval_peak(const interval_timeline *t)
{
    double peak = 0;
    for (uint32_t s = 0; s < t->n_slots; s++)
        if (interval_memory_at(&t->memory, s) > peak)
            peak = interval_memory_at(&t->memory, s);
    return peak + t->tasks->resident;
}

void interval_set_budget(interval_timeline *t, double budget)
{
    t->budget = floor(budget) - t->tasks->resident; /* whole, or sums were not exact */
    sum_excess(t);
}

/* ---- lists ---- */

static void place_one(interval_timeline *t, uint32_t task, uint16_t way)
{
    uint32_t run = new_run(t, task);
    if (run == NONE)
        return;
    t->runs[run].way = way;
    put_link(t, run, t->tail[task]);
    t->runs[run].slot = t->n_live; /* the order, until they are spread */
    t->live[t->n_live++] = run;
}

/* Runs in the order of the list, forwards behind their backward left out. */
static void place_all(interval_timeline *t, const remat_operations *list)
{
    uint32_t n = t->tasks->n_nodes;
    bool joint = t->tasks->profile->joint;
    for (size_t i = 0; i < list->length && !t->failed; i++) {
        const remat_operation *o = &list->items[i];
        bool forward = o->kind < REMAT_B;
        if (o->kind > REMAT_B || (forward && !joint && t->head[n + o->index] != NONE))
            continue;
        place_one(t, forward ? o->index : n + o->index, o->alternative);
    }
    if (!t->failed)
        place_one(t, interval_end_task(t->tasks), 0);
}

static void derive_all(interval_timeline *t)
{
    for (uint32_t i = 0; i < t->n_live; i++)
        for (uint32_t v = t->tasks->first_made[t->runs[i].task];
             v < t->tasks->first_made[t->runs[i].task + 1]; v++) {
            uint32_t next = t->runs[i].next;
            *interval_end(t, i, v) =
                interval_last_read(t, i, v, next == NONE ? NONE : t->runs[next].slot);
        }
    for (uint32_t v = 0; v < t->tasks->n_saving; v++)
        refresh_saved(t, v);
    for (uint32_t task = 0; task < t->tasks->n_tasks; task++)
        if (touches_spans(t, task))
            refresh_spans(t, task);
    for (uint32_t i = 0; i < t->n_live; i++)
        refresh_cost(t, i);
}

remat_status interval_timeline_load(interval_timeline *t, const remat_operations *list,
                                    remat_error *error)
{
    const interval_tasks *tasks = t->tasks;
    t->n_runs = t->n_ends = t->n_live = t->n_slots = 0;
    t->n_edits = 0;
    t->time = t->held = 0;
    t->turn = NONE;
    for (uint32_t task = 0; task < tasks->n_tasks; task++)
        t->head[task] = t->tail[task] = t->unused[task] = NONE;
    for (uint32_t s = 0; s < tasks->n_spans; s++)
        t->spans[s] = (interval_span){NONE, NONE, 0};
    place_all(t, list);
    if (t->failed || !model_reserve(&t->run_at, &t->slots_capacity, t->n_live, sizeof *t->run_at) ||
        !interval_memory_clear(&t->memory, t->n_live))
        return remat_fail_memory(error);
    t->n_slots = t->n_live;
    interval_memory_index(&t->memory); /* summed when the runs are spread */
    memcpy(t->run_at, t->live, t->n_live * sizeof *t->run_at);
    derive_all(t);
    t->n_edits = 0;
    t->work += 8 * (uint64_t)t->n_live;
    if (tasks->others > 0)
        t->turn = tasks->turn_task == NONE ? t->spans[0].start : t->head[tasks->turn_task];
    return t->failed || !spread(t) ? remat_fail_memory(error) : REMAT_OK;
}

remat_status interval_timeline_new(const interval_tasks *tasks, const remat_operations *list,
                                   double budget, interval_timeline **ret_timeline,
                                   remat_error *error)
{
    interval_timeline *t = calloc(1, sizeof *t);
    if (!t)
        return remat_fail_memory(error);
    t->tasks = tasks;
    t->budget = floor(budget) - tasks->resident;
    t->head = malloc(tasks->n_tasks * sizeof *t->head);
    t->tail = malloc(tasks->n_tasks * sizeof *t->tail);
    t->unused = malloc(tasks->n_tasks * sizeof *t->unused);
    t->spans = malloc((tasks->n_spans + 1) * sizeof *t->spans);
    t->pads = calloc(tasks->n_tasks, sizeof *t->pads);
    remat_status status = t->head && t->tail && t->unused && t->spans && t->pads
                              ? interval_timeline_load(t, list, error)
                              : remat_fail_memory(error);
    if (status)
        interval_timeline_free(t);
    else
        *ret_timeline = t;
    return status;
}

void interval_timeline_free(interval_timeline *t)
{
    if (!t)
        return;
    free(t->runs);
    free(t->ends);
    free(t->head);
    free(t->tail);
    free(t->unused);
    free(t->live);
    free(t->spans);
    free(t->pads);
    free(t->run_at);
    interval_memory_free(&t->memory);
    free(t->edits);
    free(t);
}

static remat_operation operation_of(const interval_timeline *t, uint32_t run)
{
    const interval_run *r = &t->runs[run];
    uint32_t n = t->tasks->n_nodes;
    if (t->tasks->n_saving == 0)
        return (remat_operation){.kind = REMAT_F, .index = r->task, .alternative = r->way};
    if (r->task >= n)
        return (remat_operation){.kind = REMAT_B, .index = r->task - n, .alternative = r->way};
    bool saves = run == t->tail[r->task] && saved_bytes(t, r->task) > 0;
    const interval_way *way = interval_ways(t->tasks, r->task) + r->way;
    bool passing = passes(t, run) && way->passing < way->workspace;
    return (remat_operation){.kind = saves || passing ? REMAT_A : REMAT_F,
                             .index = r->task,
                             .alternative = saves ? t->runs[t->head[n + r->task]].way : r->way};
}

remat_status interval_timeline_list(const interval_timeline *t, remat_operations *ret_list)
{
    uint32_t end = interval_end_task(t->tasks);
    for (uint32_t s = 0; s < t->n_slots; s++) {
        uint32_t run = t->run_at[s];
        if (run != NONE && t->runs[run].task != end &&
            remat_operations_push(ret_list, operation_of(t, run)))
            return REMAT_NO_MEMORY;
    }
    return REMAT_OK;
}
