/* What the files of an explanation share: the schedule, and the sentences told of it. Private to
 * api/explain. */
#ifndef REMAT_API_EXPLAIN_STORY_H
#define REMAT_API_EXPLAIN_STORY_H

#include "fields.h"
#include "remat/explain.h"

#include <stdio.h>

/* Sums of the same times in another order differ by less. */
#define SAME_TIME 1e-9

typedef struct story {
    const json_t *schedule;
    const remat_profile *profile;
    const remat_explanation *e;
    const char *unit;
    double makespan, store_all; /* times */
    double others;              /* micro-batches in flight beside the one of the list */
    double budget, room;        /* bytes; room is what must fit: the arena, or the peak */
    FILE *out;                  /* the sentence under way */
    char *sentence;
    size_t length;
    json_t *answer, *sentences;
    bool failed;
} story;

/* A sentence from its begin to its finish under a topic. */
void explain_begin(story *s);
__attribute__((format(printf, 2, 3))) void explain_say(story *s, const char *format, ...);
void explain_bytes(story *s, double bytes);
void explain_time(story *s, double time);
void explain_percent(story *s, double fraction);
void explain_finish(story *s, const char *topic);

/* A member of the answer. */
void explain_set(story *s, const char *name, json_t *value);

static inline json_t *explain_whole(double value)
{
    return json_integer((json_int_t)value);
}

/* ---- solver.c ---- */

void explain_solver(story *s);
void explain_proof(story *s);

/* ---- memory.c ---- */

void explain_recomputed(story *s);
void explain_peak(story *s, const remat_operations *operations);
void explain_least(story *s);
void explain_next(story *s);

#endif
