/* What the files of the mixed search share; what it does is said in mixed.c. */
#ifndef REMAT_SEARCH_MIXED_ROW_H
#define REMAT_SEARCH_MIXED_ROW_H

#include "model/arena.h"
#include "model/numbers.h"
#include "remat/improve.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX
enum { MOST_REMADE = 12 }; /* by one move */

typedef enum item_kind { RUN, OUT, FETCH, KINDS } item_kind;

typedef struct item {
    uint32_t id;        /* task of a run: v, or n + v of a backward; of the others the thing */
    uint16_t way;       /* implementation of a run */
    uint8_t kind;       /* item_kind */
    uint8_t always : 1; /* a first run or a backward: it stays, where it is */
    uint8_t plain : 1;  /* a rerun that leaves what is saved to an earlier run */
} item;

typedef struct row {
    item *items;
    uint32_t length;
} row;

/* What a run costs: time, and bytes during it beside what is alive. */
typedef struct run_cost {
    double time, bytes;
} run_cost;

/* One task, for the loops: costs, and its parts of the list of things. */
typedef struct task {
    run_cost own;   /* of its own implementation; of a backward as it is now */
    double passing; /* of a forward: bytes of it as an A whose saved bytes are freed at once */
    double least;   /* no run of it takes less, of that implementation or saving */
    uint32_t made, reads, end; /* what it makes, saved(v) last; then what it reads, to the end */
    uint32_t gradients, end_gradients; /* those that a backward touches, its own first */
    uint32_t over; /* what an in-place one may overwrite: a value; a gradient; or NONE */
} task;

/* What a forward does with a state: reads a version, or leaves one. */
typedef struct touch {
    uint32_t state, version; /* versions are numbered through all states */
    bool written;
} touch;

/* The profile as lists of things: a value is itself, saved(v) is n_values + v. */
typedef struct things {
    const remat_profile *profile;
    const remat_link *link;
    uint32_t n, n_values, n_things;
    task *tasks;
    uint32_t *list; /* of things, in parts of the tasks */
    uint32_t end_list;
    uint32_t *gradients;        /* of values, in parts of the tasks */
    uint32_t *gradient_touches; /* by value: how many backwards touch it */
    double first_gradients;     /* bytes of those of graph inputs, which stay to the end */
    double *bytes;  /* by thing, at multiples of the alignment; of saved(v) as its backward says */
    double *copied; /* by thing: bytes that go over the link */
    double *gradient;       /* by value: of nodes and graph inputs */
    uint16_t *backward_way; /* by node; a move may change it */
    bool *movable;          /* by thing */
    uint64_t alignment;
    run_cost *saving; /* by node: of an A */
    uint32_t
        *first_touch; /* by node: its touches, up to those of the next; of graphs with states */
    touch *touches;
    uint32_t *first_version;         /* by state */
    uint32_t *current;               /* by state, of an evaluation: its version */
    uint32_t *left_at, *restored_at; /* by version: the first and the last item, or NONE */
    double budget;
    const uint64_t *pads; /* by task, or NULL: bytes to be left free during it */
    double total_time;
    model_arena arena;
} things;

/* A thing that is alive across an item, and the item after it that reads it next. */
typedef struct idle {
    uint32_t thing, use;
    double weight; /* in the draw of one of them */
} idle;

/* What an item comes to: does nothing; an A; what it is in place of dies there; others do; an A of
 * which a later one saves again. */
enum { SKIPPED = 1, SAVES = 2, OVERWRITES = 4, DEATHS = 8, PASSES = 16 };

/* What one evaluation says of a row. */
typedef struct worth {
    double time, excess; /* makespan; bytes past the budget, summed over the items */
    double copying;      /* time that all copies take, both ways */
    bool valid, hopeless;
} worth;

/* One seed's search. */
typedef struct mixer {
    things *t, own;
    const remat_host *host;
    double begin, share; /* of the progress */
    uint32_t told;       /* hundredths of its own */
    row now, next, best;
    uint32_t room; /* of items in each row */
    uint64_t random;
    uint32_t turned;     /* the node whose backward_way the last move changed, or NONE */
    uint16_t *best_ways; /* by node: those of best */
    uint16_t old_way;
    double best_time, enough, price, temperature;
    double first_toll, toll; /* a unit of time that copies take counts as so much of compute */
    double *now_level;       /* by item of `now`: bytes during it */
    uint32_t *free_items, n_free[KINDS]; /* items of `now` that may go: [KINDS][room]; how many */
    bool over;                           /* `now` does not fit */
    uint32_t look;                       /* counts the looks for idle things */
    uint32_t *seen;                      /* by thing: the last look that met it */
    idle *idle;                          /* at most one a thing */
    uint64_t work, limit;
    bool few;      /* nodes: reruns that leave what is saved to an earlier run are tried often */
    bool given;    /* first runs stay in their order */
    bool thorough; /* it goes out from its best list */
    /* of an evaluation */
    uint32_t
        *last; /* by thing: its last use so far, or NONE; of a graph input that stays the end */
    uint8_t *wanted;       /* by thing: a fetch to come needs its copy */
    uint8_t *leaves;       /* by thing: of graph inputs, whether they are copied out */
    uint32_t *touches;     /* by value: of its gradient, how many are still to come */
    double *extra;         /* by item: bytes during it alone; of graphs with states */
    double *change;        /* by item: bytes of versions from here on */
    double *freed;         /* by item: bytes of versions restored before it for the last time */
    double *level, *takes; /* by item: bytes during it, all; time of a run */
    uint8_t *marks;        /* by item */
    uint32_t *dies;        /* by item: the first of the deaths there, if it is marked */
    uint32_t *death_thing, *death_next;
    uint32_t n_deaths;
    double compute;           /* time of all runs */
    double *copy_end, *ready; /* by thing */
    uint32_t *pending;        /* things that died with their copy under way */
    uint32_t n_pending;
    double pending_bytes;
    remat_status status;
} mixer;

/* Of two numbers the larger: fmax asks about NaN, in a call. */
static inline double larger(double a, double b)
{
    return a > b ? a : b;
}

static inline double rounded(const things *t, uint64_t bytes)
{
    return (double)((bytes + t->alignment - 1) / t->alignment * t->alignment);
}

static inline bool is_backward(const things *t, uint32_t id)
{
    return id >= t->n;
}

static inline const remat_node *node_of(const things *t, uint32_t id)
{
    return &t->profile->nodes[id < t->n ? id : id - t->n];
}

static inline bool is_input(const things *t, uint32_t x)
{
    return x >= t->n && x < t->n + t->profile->n_inputs;
}

static inline uint32_t saved_thing(const things *t, uint32_t v)
{
    return t->n_values + v;
}

static inline double pad(const things *t, uint32_t id)
{
    return t->pads ? (double)t->pads[id] : 0;
}

static inline run_cost forward_cost(const things *t, uint32_t v, uint16_t way)
{
    const remat_alternative cost = remat_implementation(&t->profile->nodes[v], way);
    return (run_cost){cost.forward_time, rounded(t, cost.forward_workspace_bytes) + pad(t, v)};
}

static inline double passing_bytes(const things *t, uint32_t v, uint16_t way)
{
    const remat_alternative cost = remat_implementation(&t->profile->nodes[v], way);
    return t->profile->joint
               ? INFINITY
               : rounded(t, cost.save_workspace_bytes) + rounded(t, cost.saved_bytes) + pad(t, v);
}

static inline bool row_new(row *r, uint32_t room)
{
    r->items = malloc(room * sizeof *r->items);
    return r->items != NULL;
}

static inline void row_copy(const row *from, row *to)
{
    memcpy(to->items, from->items, from->length * sizeof *from->items);
    to->length = from->length;
}

static inline void row_insert(mixer *m, row *r, uint32_t at, item it)
{
    if (r->length == m->room)
        return;
    memmove(&r->items[at + 1], &r->items[at], (r->length - at) * sizeof *r->items);
    r->items[at] = it;
    r->length++;
}

static inline void row_delete(row *r, uint32_t at)
{
    memmove(&r->items[at], &r->items[at + 1], (r->length - at - 1) * sizeof *r->items);
    r->length--;
}

/* ---- chance ---- */

static inline uint32_t draw(mixer *m, uint32_t below)
{
    return model_random_below(&m->random, below);
}

static inline double draw_unit(mixer *m)
{
    return ((double)draw(m, 1u << 30) + 1) * 0x1p-30;
}

/* The profile's lists; its arena is the caller's to clear, whatever is returned. REMAT_NO_MEMORY.
 */
remat_status mixed_things_init(things *t, const remat_profile *profile, const remat_link *link,
                               const remat_operations *start, uint64_t budget, const uint64_t *pads,
                               uint32_t alignment);

/* Node v's backward, and what is saved for it, are of another implementation. */
void mixed_set_way(things *t, uint32_t v, uint16_t way);

/* Lists what forwards do with states. False: no memory. */
bool mixed_states_init(things *t);

/* Adds saved versions to the levels of a row. False: a run reads a version that is not there yet.
 */
bool mixed_count_states(mixer *m, const row *r, double *excess);

/* Makespan and bytes past the budget, by both passes; by the first alone, and hopeless, where time
 * and price are more than `most` whatever the streams do. */
worth mixed_evaluate(mixer *m, const row *r, double most);

/* The list of a row, whole; *ret_list must be empty. REMAT_NO_MEMORY. */
remat_status mixed_write_list(mixer *m, const row *r, remat_operations *ret_list,
                              remat_error *error);

/* One move on r. False: none was found, and r is of no use. m->turned is what it changes beside r.
 */
bool mixed_propose(mixer *m, row *r);

/* A stretch of two reruns or more goes. False: chance has found none. */
bool mixed_leave_out(mixer *m, row *r);

#endif
