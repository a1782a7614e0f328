/* An operation list under search: runs in an order, the memory during each, and both kept up to
 * date while runs are inserted, removed and moved.
 *
 * A run is one F, A or B. What it makes lives to the last run that reads it before the task runs
 * again; nothing else need be said, so a timeline is its runs alone, and D, S and R are put in when
 * it becomes an operation list. The last forward of a node whose backward reads saved values is its
 * A. Every read has an earlier run of its maker: the functions below keep it so.
 *
 * Runs stand in slots with empty ones between them. The memory of a slot is what is alive there,
 * less a constant where the slot is empty; what is alive between two runs is alive during both, so
 * the empty slots never decide. An edit adds to ranges of slots (memory_range.h); the sum over all
 * runs of what passes the budget, `excess`, is kept with it. All sums are exact: sizes are whole
 * numbers.
 *
 * Of several in flight (tasks.h) the memory of every slot has beside what is alive there what the
 * others hold: what lives across the turn, times their number. An end, a start or the turn itself
 * that moves changes it for all slots at once.
 *
 * Edits are written down until interval_commit or interval_undo. One thread at a time. */
#ifndef REMAT_SEARCH_TIMELINE_H
#define REMAT_SEARCH_TIMELINE_H

#include "remat/schedule.h"
#include "search/memory_range.h"
#include "search/tasks.h"

typedef struct interval_run {
    uint32_t task, slot;
    uint32_t previous, next; /* runs of the same task, or NONE */
    uint32_t first_end;      /* of its values' ends */
    uint32_t live;           /* where it stands among the live ones */
    uint16_t way;            /* of the task; of an A, the backward's way counts */
    uint32_t stamp;          /* another one each time the run is used for something else */
    double extra, time;      /* bytes during it beside the values, and its time */
} interval_run;

typedef struct interval_span {
    uint32_t start, end; /* runs; start NONE: not there; end NONE: to the end of the list */
    double bytes;
} interval_span;

typedef struct interval_edit {
    enum {
        INTERVAL_PLACE,
        INTERVAL_EMPTY,
        INTERVAL_LINK,
        INTERVAL_UNLINK,
        INTERVAL_END,
        INTERVAL_COST,
        INTERVAL_SPAN,
        INTERVAL_WAY
    } kind;
    uint32_t index;    /* run, or span */
    uint32_t one, two; /* what stood there: anchor, previous, value and end, start and end */
    double bytes, time;
} interval_edit;

typedef struct interval_timeline {
    const interval_tasks *tasks;
    double budget; /* bytes beside what is resident */
    double time;   /* sum over the runs, in the order of edits: interval_time sums anew */
    double excess; /* bytes past the budget, summed over the runs */
    uint32_t turn; /* the run that says where the turn is; NONE: nowhere now */
    double held;   /* bytes that live across it, without what is resident; 0 for one in flight */
    interval_run *runs;
    uint32_t n_runs;
    size_t runs_capacity; /* of live too */
    uint32_t *ends;       /* by run and value: the last run that reads it, or the run itself */
    uint32_t n_ends;
    size_t ends_capacity;
    uint32_t stamps;
    uint32_t *head, *tail; /* by task: its first and last run */
    uint32_t *unused;      /* by task: runs to use again, linked by next */
    uint32_t *live;        /* the runs of the list, in no order */
    uint32_t n_live;
    interval_span *spans;
    double *pads;     /* by task: bytes to leave free during its runs; from the next load on */
    uint32_t *run_at; /* by slot, or NONE */
    interval_memory memory;
    uint32_t n_slots;
    size_t slots_capacity;
    interval_edit *edits;
    size_t n_edits, edits_capacity;
    uint64_t work; /* slots that edits and looks have passed over, some for each: what effort is
                      counted in */
    bool failed;   /* an allocation failed: nothing but _free may follow */
} interval_timeline;

/* The timeline of an operation list that the judge found valid and that has no O and P. budget:
 * bytes, the resident ones included. */
remat_status interval_timeline_new(const interval_tasks *tasks, const remat_operations *list,
                                   double budget, interval_timeline **ret_timeline,
                                   remat_error *error);
void interval_timeline_free(interval_timeline *timeline);

/* Replaces what the timeline holds by the runs of a list of F, A and B. */
remat_status interval_timeline_load(interval_timeline *timeline, const remat_operations *list,
                                    remat_error *error);

/* The F, A and B of the timeline, appended to an empty list. */
remat_status interval_timeline_list(const interval_timeline *timeline, remat_operations *ret_list);

void interval_set_budget(interval_timeline *timeline, double budget);

/* ---- edits ---- */

/* A run of the task before another run, behind which its reads' makers have run. */
uint32_t interval_insert(interval_timeline *timeline, uint32_t task, uint32_t before);

/* Takes a run out. It must be removable. */
void interval_remove(interval_timeline *timeline, uint32_t run);

/* Whether the list stays valid without it: an earlier run serves its readers, or it has none. */
bool interval_removable(const interval_timeline *timeline, uint32_t run);

/* Moves a run to just before another one, within its interval_window. */
void interval_shift(interval_timeline *timeline, uint32_t run, uint32_t before);

/* The slots strictly between which the run may stand, its readers keeping to it. */
void interval_window(const interval_timeline *timeline, uint32_t run, uint32_t *ret_low,
                     uint32_t *ret_high);

void interval_set_way(interval_timeline *timeline, uint32_t run, uint16_t way);

void interval_commit(interval_timeline *timeline);
void interval_undo(interval_timeline *timeline);

/* ---- looking ---- */

/* The run of the maker that a reader in this slot reads: the last one before it. */
static inline uint32_t interval_serving(const interval_timeline *t, uint32_t task, uint32_t slot)
{
    uint32_t run = t->tail[task];
    while (run != INTERVAL_NONE && t->runs[run].slot >= slot)
        run = t->runs[run].previous;
    return run;
}

static inline uint32_t *interval_end(const interval_timeline *t, uint32_t run, uint32_t value)
{
    const interval_run *r = &t->runs[run];
    return &t->ends[r->first_end + value - t->tasks->first_made[r->task]];
}

/* The last run before a slot that reads what serving made, or serving itself. */
uint32_t interval_last_read(const interval_timeline *timeline, uint32_t serving, uint32_t value,
                            uint32_t slot);

/* How much less the runs in slots low .. high - 1 pass the budget by if so many bytes go there. */
double interval_relief(interval_timeline *timeline, uint32_t low, uint32_t high, double bytes);

/* The first run at or after a slot, or NONE. */
uint32_t interval_run_from(const interval_timeline *timeline, uint32_t slot);

/* Whether nobody reads what it makes and it is not the A. */
bool interval_useless(const interval_timeline *timeline, uint32_t run);

/* Sum of the times in the order of the list: the makespan. */
double interval_time(const interval_timeline *timeline);

/* Largest memory during a run, the resident bytes included. */
double interval_peak(const interval_timeline *timeline);

#endif
