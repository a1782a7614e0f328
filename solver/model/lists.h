/* What several solvers and passes do with whole operation lists. */
#ifndef REMAT_MODEL_LISTS_H
#define REMAT_MODEL_LISTS_H

#include "remat/schedule.h"

/* *to, which keeps its room, becomes the same list. Fails with REMAT_NO_MEMORY only. */
remat_status model_copy_list(const remat_operations *from, remat_operations *to);

bool model_same_list(const remat_operations *one, const remat_operations *other);

void model_swap_lists(remat_operations *one, remat_operations *other);

/* The list with its D, S and R: liveness, then states. *ret_list must be empty; the caller clears
 * it. */
remat_status model_complete_list(const remat_profile *profile, const remat_operations *list,
                                 remat_operations *ret_list, remat_error *error);

/* Appends the F, A and B of storing everything, each node with its fastest implementation; of a
 * joint graph the F in the order of its nodes. Fails with REMAT_NO_MEMORY only. */
remat_status model_store_everything(const remat_profile *profile, remat_operations *list);

#endif
