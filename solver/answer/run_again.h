/* The list in which chosen nodes run once more, each just before the first backward that needs it,
 * or twice. Private to solver. */
#ifndef REMAT_ANSWER_RUN_AGAIN_H
#define REMAT_ANSWER_RUN_AGAIN_H

#include "remat/schedule.h"

/* What becomes of the nodes; by node. Of a joint graph: of those before the turn, again alone. */
typedef struct answer_again {
    bool *again;     /* runs again */
    bool *twice;     /* of those: with its group, for what of it stays then, and once more */
    uint32_t *group; /* increasing: before the first backward of it runs again what is in it */
    uint32_t turn;   /* of a joint graph: from this node on what is read runs again before it */
} answer_again;

/* Appends F, A and B: everything runs; then backwards come in the reverse of the order, and what
 * one reads, or what these read, runs again before it; of a joint graph, before what follows the
 * turn. Whether the list is valid says the
 * simulator: a value that was overwritten is not there. Fails with REMAT_NO_MEMORY only. */
remat_status answer_run_again(const remat_profile *profile, const answer_again *choice,
                              remat_operations *list);

#endif
