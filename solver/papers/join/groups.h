/* Which branches of a join stand together: at first each alone; then the two shortest are joined,
 * again and again. A group is as long as its longest branch. */
#ifndef REMAT_PAPERS_JOIN_GROUPS_H
#define REMAT_PAPERS_JOIN_GROUPS_H

#include "papers/join/branches.h"

typedef struct join_groups {
    uint32_t n;       /* groups */
    uint32_t *number; /* of each branch's group, below n: join_groups_number */
    /* Its own. */
    uint32_t k, leaves;
    uint32_t *length; /* by number; JOIN_NONE: there is none */
    uint32_t *first;  /* by number: the branch that stands for the group */
    uint32_t *parent; /* by branch: towards that one */
    uint32_t *least;  /* a tree over numbers: the one of the shortest below */
    model_arena arena;
} join_groups;

/* REMAT_NO_MEMORY says nothing of it. */
remat_status join_groups_init(const join_costs *join, join_groups *ret_groups);
void join_groups_clear(join_groups *groups); /* accepts {0} */

/* Of groups of the same length those of the lowest numbers; at least two must be there. The last
 * takes the number that is given up. */
void join_groups_merge(join_groups *groups);
void join_groups_number(join_groups *groups);

/* Values of all branches of all groups, when each step of a group has one for each branch. */
double join_groups_places(join_groups *groups);

#endif
