/* Which implementation each operation of a list runs, where the profile's nodes have alternatives.
 *
 * In a fixed list an operation's workspace takes no bytes from another, so where the
 * implementations of a node save equally many bytes the best choice at every operation is the
 * fastest whose workspace fits what the others leave of the room. An A and the B that reads what it
 * saved are chosen together; where they may save more than the least, first come, first served:
 * heuristic. */
#ifndef REMAT_MODEL_IMPLEMENTATIONS_H
#define REMAT_MODEL_IMPLEMENTATIONS_H

#include "remat/simulate.h"

typedef struct model_implementations model_implementations;

/* Looks at a whole list (D, S and R in place) that is valid on the least view of the profile
 * (model/views.h); implementations that it names do not count. Borrows profile and list.
 * REMAT_INTERNAL when the list is not valid. */
remat_status model_implementations_new(const remat_profile *profile, const remat_operations *list,
                                       model_implementations **ret_choices, remat_error *error);
void model_implementations_free(model_implementations *choices); /* accepts NULL */

/* Rooms in bytes that make a difference, increasing: the least there is, those from which something
 * faster fits, UINT64_MAX. At most `most` (2 or more) of them, evenly taken. Sorts inside. */
size_t model_implementations_rooms(model_implementations *choices, uint64_t *ret_rooms,
                                   size_t most);

/* The list with the fastest implementations within room bytes (or the least room there is); an F
 * becomes an A where its B is to read saved bytes, and an A an F where it is not. *ret_operations
 * must be empty; the caller clears it. Fails with REMAT_NO_MEMORY only. */
remat_status model_implementations_make(const model_implementations *choices, uint64_t room,
                                        remat_operations *ret_operations, remat_error *error);

#endif
