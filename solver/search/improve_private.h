/* What the files of the improver share: its chains, and how one's best list is made to fit. */
#ifndef REMAT_SEARCH_IMPROVE_PRIVATE_H
#define REMAT_SEARCH_IMPROVE_PRIVATE_H

#include "search/search.h"

enum { IMPROVE_MOST_CHAINS = 8 };

typedef struct strength {
    const char *name;
    uint32_t chains, epochs;
    uint32_t mending;                /* as many more where lists did not fit, while they help */
    uint32_t stale;                  /* epochs without a faster list, after which it ends */
    double near;                     /* part of the bound: one such epoch will do so near to it */
    uint64_t anneal, neighbourhoods; /* work of a chain in an epoch, for each node up to many */
    uint64_t ramp;                   /* the same, of joint graphs */
    bool narrows;  /* where something fits, only those that take over the best go on after one */
    bool gives_up; /* where nothing will be found to fit */
    bool raises;   /* the price of a byte, while nothing fits; of a forward graph */
} strength;

typedef struct improvement improvement;

/* A list that did not fit. */
typedef struct misfit {
    remat_operations list;
    uint64_t work, bytes; /* of its layout; what it took */
    uint64_t *over;       /* by operation */
    struct misfit *next;
} misfit;

typedef struct chain {
    const improvement *of;
    interval_search search;
    remat_operations passing; /* room for a list that is looked at */
    uint32_t seed, ramps;
    uint32_t dear; /* powers of 4 that a byte is dearer by, while nothing fits */
    bool from_start;
    bool unfit;               /* a best list did not fit: lists in passing are laid out too */
    uint32_t failures;        /* of best lists, whose search then gets half the work */
    uint32_t lessons;         /* since a list fitted: each leaves twice as much free as the last */
    uint32_t misses;          /* lists in passing that did not fit, since one that did */
    const misfit *last;       /* of the best ones */
    misfit *long_one;         /* the same where it is long, and this chain's alone */
    misfit **fresh;           /* where the worker that runs it keeps short ones */
    remat_operations fitting; /* whole, with layout within the budget */
    remat_operations runs;    /* the same, F, A and B alone */
    double fitting_time;
    size_t fitting_runs;
    remat_status status;
} chain;

struct improvement {
    const remat_profile *profile;
    const interval_tasks *tasks;
    const remat_host *host;
    remat_operations everything; /* store-all: F, A and B */
    const remat_operations *start;
    uint64_t budget;
    uint32_t alignment, in_flight;
    bool given; /* first runs keep the order of a joint graph's nodes */
    const strength *effort;
    double hot, cold, price, enough;
    double begin, share; /* of the progress */
    double served;       /* makespan of the best that fits, of the epoch before; INFINITY: none */
    double least;        /* peak that a chain ended an epoch with; 0: a list fitted */
    uint32_t n_chains, series;
    bool narrow;    /* every second chain rests */
    misfit *known;  /* short ones of the epochs before; read by all */
    misfit **fresh; /* of this one, by worker */
    chain chains[IMPROVE_MOST_CHAINS];
};

/* A list that the annealing comes by: it may fit where the fastest one does not. Each costs a
 * packing, so they are looked at only where that has happened. */
void improve_look_at(void *context);

/* The search goes on with what it learned, from a list, with more evicted. */
void improve_resume(chain *c, const remat_operations *from);

/* The best list made to fit. Where it does not, it is mended with what that teaches; where that
 * makes it too slow, the search goes on from the list that fits. */
remat_status improve_settle(const improvement *m, chain *c);

/* Between two epochs: what the workers kept is known to all. What one says does not depend on whose
 * it was. */
void improve_tell_misfits(improvement *m);
void improve_clear_misfits(misfit *list);

#endif
