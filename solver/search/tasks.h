/* A profile as the search sees it: tasks that run and values that runs make and read.
 *
 * Of a forward profile of n nodes, task v < n is the forward of node v, which may run any number of
 * times before the backward of v, and task n + v that backward, which runs once. Value v is out(v).
 * Of a joint graph task v < n is node v; results of a node are values that follow each other. The
 * last task is the end of the list, which runs last, takes no time and reads the outputs of a joint
 * graph; it stands in no operation list.
 *
 * What is not made anew by running again is a *span*: it is there from the first to the last of the
 * runs that touch it. Span v < n is the gradient of node v, span n + v what v saves for its
 * backward (from the last forward of v on), span 2n + k the gradient of graph input k. A joint
 * graph has none, but one of all late inputs where there are such: from the first run that reads
 * one to the end.
 *
 * Of several micro-batches in flight (remat/simulate.h) what is held at the turn counts for each.
 * The turn is after the first run of turn_task, or, where that is NONE, before the start of span 0;
 * with one in flight it does not matter.
 *
 * Sizes are doubles that hold whole numbers below 2^51, so that sums of them are exact in any
 * order, and may be rounded up to an alignment. Read-only after interval_tasks_new: any thread. */
#ifndef REMAT_SEARCH_TASKS_H
#define REMAT_SEARCH_TASKS_H

#include "model/arena.h"
#include "remat/profile.h"

#define INTERVAL_NONE UINT32_MAX

/* One implementation of a task. Of a forward: workspace is what F needs beyond out, saving what A
 * needs beyond out and saved(v), saved what it saves, and passing what a run needs from whose saved
 * values nobody reads: as F, or as A where that takes less, what it saves freed at once. Of a
 * backward: saved is what it reads. */
typedef struct interval_way {
    double time;
    double workspace, saving, passing;
    double saved;
} interval_way;

/* Indices first[i] .. first[i + 1] - 1 of items belong to i. */
typedef struct interval_index {
    uint32_t *first;
    uint32_t *items;
} interval_index;

typedef struct interval_tasks {
    const remat_profile *profile;
    uint32_t n_nodes, n_tasks, n_values, n_spans;
    uint32_t n_saving; /* tasks below it may save for the one that many further on: all
                          forwards, none of a joint graph */
    uint32_t turn_task;
    uint32_t others;     /* in flight beside the one that runs */
    double resident;     /* bytes that are there throughout: graph inputs, of all in flight */
    double late;         /* bytes that are there from the turn on: late inputs */
    double total_time;   /* each task once, its own implementation */
    uint32_t *first_way; /* by task: its ways, up to those of the next; the first is its own */
    interval_way *ways;
    bool *once;              /* by task: it runs exactly once */
    interval_index reads;    /* by task: values */
    uint32_t *first_made;    /* by task: the values that it makes, up to those of the next */
    interval_index uses;     /* by value: tasks that read it */
    interval_index after;    /* by task: tasks whose first run comes before any run of it */
    interval_index before;   /* the reverse */
    interval_index touches;  /* by span: tasks, none for what is saved */
    interval_index spans_of; /* by task: the spans of touches */
    uint32_t *maker;         /* by value */
    double *bytes;           /* by value */
    double *span_bytes;      /* by span; of saved values the way says */
    uint32_t *overwrites;    /* by task: the value a forward may overwrite, or NONE */
    uint32_t *overlaps;      /* by task: the span that a backward may put where its own gradient
                                   is, or NONE */
    model_arena arena;
} interval_tasks;

/* alignment: a power of two, 1 for none. given: the first runs of a joint graph keep the order of
 * its nodes. in_flight: at least 1; of a joint graph more only where it has late inputs.
 * REMAT_TOO_LARGE for sums past 2^51 bytes. The profile must outlive the tasks. */
remat_status interval_tasks_new(const remat_profile *profile, uint64_t alignment, bool given,
                                uint32_t in_flight, interval_tasks **ret_tasks, remat_error *error);
void interval_tasks_free(interval_tasks *tasks);

/* Whether it is a forward that may save for its backward; whether it is a backward. */
static inline bool interval_saves(const interval_tasks *t, uint32_t task)
{
    return task < t->n_saving;
}

static inline bool interval_is_backward(const interval_tasks *t, uint32_t task)
{
    return task >= t->n_saving && task < 2 * t->n_saving;
}

static inline uint32_t interval_end_task(const interval_tasks *t)
{
    return t->n_tasks - 1;
}

static inline uint32_t interval_n_ways(const interval_tasks *t, uint32_t task)
{
    return t->first_way[task + 1] - t->first_way[task];
}

/* Its own way; the others follow. */
static inline const interval_way *interval_ways(const interval_tasks *t, uint32_t task)
{
    return &t->ways[t->first_way[task]];
}

/* The backward of a forward that may save for it, and the other way round. */
static inline uint32_t interval_partner(const interval_tasks *t, uint32_t task)
{
    return task < t->n_saving ? task + t->n_saving : task - t->n_saving;
}

#endif
