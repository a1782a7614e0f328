/* A lower bound on the makespan of every schedule of a profile without O and P, in any order of
 * backwards: one moment, exactly.
 *
 * At the moment tau_b, during B b, let y1_v say that out(v) is held or v runs later, and y2_v that
 * v runs later. A later run finds its inputs held or run later (y2_c <= y1_u for u -> c, y2_v <=
 * y1_v); y1_v = 1 where a backward still to come, or B b, reads out(v); saved(v) of a backward to
 * come is held unless v runs later. What is held fits the budget beside the gradients, the
 * workspace and what else is there in every order. The least sum of t_v y2_v is time beyond storing
 * everything. With the capacity relaxed by a price mu >= 0 for each byte what remains is a closure
 * problem (Picard 1976): a minimum cut, integral, concave in mu; the best price is where two
 * tangents meet. "After" is the set of strict ancestors of b, whose backwards follow B b whatever
 * the order. The same holds during the last forward of b, where what b reads, makes and works in is
 * there. A pinned node that has run does not run later: y2_v = 0.
 *
 * On chains of some hundred stages the capacity is not relaxed (bound/chain.c).
 *
 * Of a joint graph the moment is during the first F of b. Strict descendants of b run later; strict
 * ancestors have run, so a later run of one costs its time; other nodes may run later for nothing.
 * What b reads and makes is held, and an output of the profile is held or run later. There is a y1
 * for every result of a node: that it is held or the node runs later.
 *
 * Where nodes have alternatives each takes the least time and the least bytes of any. */
#ifndef REMAT_BOUND_MOMENTS_H
#define REMAT_BOUND_MOMENTS_H

#include "remat/profile.h"
#include "remat/simulate.h"
#include "remat/solver.h"

typedef struct bound_moments bound_moments;

/* The profile must outlive it. */
remat_status bound_moments_new(const remat_profile *profile, bound_moments **ret_moments,
                               remat_error *error);
void bound_moments_free(bound_moments *moments); /* accepts NULL */

/* As many moments as are looked at for one answer, and for each budget of a curve. */
#define REMAT_MANY_MOMENTS(n_nodes) (130000 / (n_nodes) + 16)
#define REMAT_FEW_MOMENTS(n_nodes) (8000 / (n_nodes) + 8)

/* Least makespan within budget bytes: at least that of storing everything, INFINITY if no schedule
 * fits at all. Looks at no more than so many moments, the loss's and the most promising first, by
 * what each gives at one price. Deterministic. One thread at a time. */
double bound_moments_makespan(bound_moments *moments, uint64_t budget, uint32_t most);

/* The same with so many micro-batches in flight (remat/simulate.h): the turn is one more moment,
 * after which every backward comes and for which the budget is shared by all of them; at the other
 * moments the others hold at least what any schedule holds at the turn. Of a joint graph what holds
 * for one holds. */
double bound_moments_in_flight(bound_moments *moments, uint64_t budget, uint32_t in_flight,
                               uint32_t most);

/* Which nodes run again after the turn where a byte held then costs so much time, INFINITY: where
 * bytes alone count; stays: by node, that it does not. Returns the time they take; *ret_held:
 * bytes. The turn of a joint graph is before the node that bound_moments_turn says: those before it
 * have run, in the order of the profile, and the others follow. */
double bound_moments_again(bound_moments *moments, double price, const bool *stays, bool *ret_again,
                           double *ret_held);

/* The last node; of a joint graph by the bound that was found last. */
uint32_t bound_moments_turn(const bound_moments *moments);

/* What the others hold at least at every moment, in bytes. */
uint64_t bound_moments_others(bound_moments *moments, uint32_t in_flight);

/* What several moments and a search over whole values prove within a budget (with more in flight:
 * less what the others hold), after bound_moments_makespan: at least bound, at most makespan, which
 * a schedule takes (bound/several.c). Looks only where there is a gap of a thousandth to close, at
 * forward profiles of few enough nodes for the work, which is counted: 333 for the quick one, 1,666
 * for the other. twice: of up to 64 nodes as much again may go to moments that what was found
 * breaks (bound/broken.c). Polls the host. */
#define REMAT_QUICK_RAISE UINT64_C(30000000)
#define REMAT_THOROUGH_RAISE UINT64_C(150000000)
double bound_moments_raise(bound_moments *moments, uint64_t budget, double bound, double makespan,
                           uint64_t work, bool twice, const remat_host *host);

/* The same of every schedule, with O and P over the link: bound/link.c. 0 for a joint graph, where
 * no run is surely before a moment or after it in time. */
double bound_moments_over_link(bound_moments *moments, const remat_link *link, uint64_t budget);

/* Bytes below which no schedule fits, with O and P or without: what one run needs. */
double bound_moments_least_room(const bound_moments *moments);

/* During which run of a node: its backward, its last forward (of a joint graph its first), the last
 * run of all (of a joint graph). */
typedef struct bound_moment {
    uint32_t node;
    bool forward, last;
} bound_moment;

/* Bytes below which no schedule fits at all, by as many moments: what each holds at least; of a
 * joint graph what is there at the end too. The moment that says so; may be NULL. */
double bound_moments_least_budget(bound_moments *moments, uint32_t most, bound_moment *ret_moment);

#endif
