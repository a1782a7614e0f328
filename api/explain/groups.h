/* Many things of nodes said once: "layer0 to layer10". Private to api/explain.
 *
 * Ids that agree up to their first number are of one family ("h_3_qkv" and "h_4_ln1": "h_"), and
 * what is of one kind and family is one group. A star stands for what follows the number. */
#ifndef REMAT_API_EXPLAIN_GROUPS_H
#define REMAT_API_EXPLAIN_GROUPS_H

#include <stddef.h>

typedef struct group_item {
    const char *id;
    int kind;
    double weight; /* bytes or time */
} group_item;

typedef struct group {
    char *name; /* owned */
    int kind;
    size_t count; /* items in it */
    double weight;
} group;

/* Groups the items, which it sorts: the heaviest first. NULL: out of memory. */
group *explain_groups_make(group_item *items, size_t n, size_t *ret_n);
void explain_groups_free(group *groups, size_t n); /* accepts NULL */

#endif
