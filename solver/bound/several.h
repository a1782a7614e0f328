/* What the files of several moments share: bound/several.c, bound/whole.c. */
#ifndef REMAT_BOUND_SEVERAL_H
#define REMAT_BOUND_SEVERAL_H

#include "bound/private.h"

enum {
    BOUND_ROW_CHOSEN = 4,  /* moments, by what each proves */
    BOUND_ROW_MOMENTS = 6, /* with those that were broken */
    BOUND_ROW_STAGES = BOUND_ROW_MOMENTS + 1,
    BOUND_INTERVALS = BOUND_ROW_MOMENTS * (BOUND_ROW_MOMENTS + 1) / 2,
    BOUND_ASCENT = 80 /* evaluations, for a case of the search */
};

/* What is fixed of a node in a case, by bits of stages and of moments. */
typedef struct bound_fixing {
    uint8_t runs, rests, holds, drops;
} bound_fixing;

/* Moments and their multipliers, as they were chosen. */
typedef struct bound_row {
    uint32_t at[BOUND_ROW_MOMENTS];
    double bound;
    double *multipliers;
} bound_row;

typedef struct bound_several {
    bound_moments *m;
    const remat_host *host;
    uint64_t budget, work, most_work;
    uint64_t all_work; /* with what follows */
    uint32_t told;     /* hundredths of it */
    double target;     /* time beyond storing everything: more need not be proven */
    uint32_t moments, at[BOUND_ROW_MOMENTS];
    double capacity[BOUND_ROW_MOMENTS]; /* by moment */
    uint32_t n_edges, *from, *to;
    uint8_t *begin, *end; /* by node: its backward falls into stages begin to end - 1; begin 0:
                             perhaps before all */
    uint32_t *needed;     /* by node: intervals in which P = 1 */
    uint8_t *read;        /* by node: moments at which it is held */
    double *rho, *pi;     /* by node and interval of the row: lambda of R, of P */
    uint8_t *runs, *held; /* by node: of the cheapest path */
    double *multipliers, *best, *gradient, *direction;
    double *run_mean, *held_mean; /* by node and stage: of late ascents */
    bound_fixing *fixings, *none;
    bound_row rows[BOUND_ROW_CHOSEN + 1];    /* by how many moments: as they were chosen */
    bound_row longer[BOUND_ROW_MOMENTS + 1]; /* and with those that were broken */
    uint32_t contains[1 << BOUND_ROW_STAGES], begins[1 << BOUND_ROW_STAGES]; /* intervals_of bits */
    double scale; /* bytes that count as much in a step as one run */
    model_arena arena;
} bound_several;

static inline uint32_t bound_intervals(const bound_several *s)
{
    return s->moments * (s->moments + 1) / 2;
}

/* mu by moment, then lambda by edge and interval. */
static inline size_t bound_multipliers(const bound_several *s)
{
    return s->moments + (size_t)s->n_edges * bound_intervals(s);
}

/* What each moment of s->at says of each node. */
void bound_find_facts(bound_several *several);

/* Subgradient steps from s->multipliers; s->best gets those of the best value, which is returned:
 * time beyond storing everything that is proven. INFINITY: nothing is as it was fixed. */
double bound_ascend(bound_several *several, const bound_fixing *fixings, uint32_t evaluations);

/* Each node's cheapest path at the multipliers x, in s->runs and s->held. Returns what they prove;
 * INFINITY if a node has no path. */
double bound_find_paths(bound_several *several, const double *x, const bound_fixing *fixings);

/* Where the moment of B b comes among those of the row, which is left in the moments as looked at;
 * UINT32_MAX if its backward may come before or after one of theirs. */
uint32_t bound_place_of(bound_several *several, uint32_t b);

/* The row at hand, `without`, with one more moment, from its multipliers, in s->longer. */
void bound_lengthen_row(bound_several *several, const bound_row *without, uint32_t b,
                        uint32_t place);

/* The moment whose capacity the paths at hand break most, and its place; UINT32_MAX: none. before:
 * room for a flag by node. */
uint32_t bound_most_broken(bound_several *several, bool *before, uint32_t *ret_place);

/* Branch and bound over whole values in each row, the longest first. At least bound. */
double bound_search_rows(bound_several *several, double bound);

/* The same in rows that get the moments which what was found without them breaks. longest: of the
 * rows that were chosen. At least bound. */
double bound_search_broken(bound_several *several, uint32_t longest, double bound);

#endif
