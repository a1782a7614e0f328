/* What the files of the bound share. */
#ifndef REMAT_BOUND_PRIVATE_H
#define REMAT_BOUND_PRIVATE_H

#include "bound/flow.h"
#include "bound/moments.h"
#include "model/arena.h"

#define BOUND_MARGIN 1e-9 /* of what is summed: certifies against rounding */

/* What a moment's cut is at a price; INFINITY: of bytes alone. No budget changes it. */
typedef struct bound_line {
    double price, least; /* time, or bytes, that every closure costs at least */
    double time, held;   /* of the cut: least is about time + price * held */
} bound_line;

enum { BOUND_MOST_LINES = 32 };
typedef struct bound_lines {
    uint32_t n;
    bound_line at[BOUND_MOST_LINES];
} bound_lines;

struct bound_moments {
    const remat_profile *profile;
    uint32_t n, n_values;    /* values: of nodes, then further results */
    double total, store_all; /* least times, forward alone and all */
    double *time, *saved;    /* by node: the least of any implementation */
    double *workspace,
        *running;  /* the same, of the backward (of a joint node's run), of the forward */
    double *out;   /* by value */
    double *again; /* by node: time of a run after the moment */
    uint8_t *role; /* by node and its first result, then by further result */
    uint32_t *from_source, *to_sink; /* by node of the flow: its arcs */
    double *weight;                  /* the same: what y = 1 costs */
    uint32_t first, turn;            /* moment to look at first; of a joint graph, the turn */
    uint32_t *last;                  /* by value: its last reader, for that */
    uint32_t *rank;                  /* by node: its place by the bytes alive then */
    double *worth;                   /* by node: time that its moment proved; -INFINITY: unknown */
    double *gradients;   /* by node: least bytes of them during its backward; below 0: not looked */
    double constant;     /* cost that no y changes */
    double capacity;     /* of the moment: bytes for what is held */
    bound_lines **lines; /* by moment: those found; NULL: none yet */
    uint32_t moment;     /* that is looked at */
    bound_line passing;  /* one that is not kept */
    bound_flow flow;
    bound_flow orders; /* of backwards: gradients.c; with its arcs from source and to sink */
    uint32_t *order_source, *order_sink;
    model_arena arena;
};

/* Roles of a node at a moment: its backward comes after, its backward came before (of a joint
 * graph: it runs before, it runs after), its output is read after, its output is there; it runs
 * again; it has run, and does not run again: it is pinned. */
enum {
    BOUND_ANCESTOR = 1,
    BOUND_DESCENDANT = 2,
    BOUND_NEEDED = 4,
    BOUND_READ = 8,
    BOUND_RUNS = 16,
    BOUND_DONE = 32
};

/* Finds the roles and the capacity of the moment of B b, or of the last forward of b. */
void bound_look_at(bound_moments *moments, uint32_t b, bool forward, uint64_t budget);

/* By the roles of the moment of B b: bytes of other gradients that are alive then in every order.
 */
double bound_gradients(bound_moments *moments, uint32_t b);

/* Time beyond storing everything that the moment looked at proves; *ret_price: of a byte, where.
 * INFINITY: it does not fit. */
double bound_best_price(bound_moments *moments, double *ret_price);

/* Leaves in the flow the least cut at a price. */
void bound_cut_at(bound_moments *moments, double price);

/* Bytes past the moment's capacity that are held where nothing runs twice. */
double bound_passing(bound_moments *moments);

/* Where stages are more the price of a byte says nearly as much. */
#define BOUND_MOST_STAGES 512

/* By the roles of the moment of B b: bytes of other gradients that are alive then in every order.
 */
double bound_gradients(bound_moments *moments, uint32_t b);

/* Time beyond storing everything that the moments of a chain prove within the budget, without the
 * relaxation: bytes held are whole stages. most: as in bound_moments_makespan; the work grows with
 * it. INFINITY if no schedule fits; 0 without memory for it. */
double bound_chain(bound_moments *moments, uint64_t budget, uint32_t most);

#endif
