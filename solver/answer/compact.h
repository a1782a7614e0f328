/* Operation lists in few bytes, as tables keep them. */
#ifndef REMAT_ANSWER_COMPACT_H
#define REMAT_ANSWER_COMPACT_H

#include "remat/bytes.h"
#include "remat/schedule.h"

/* Longer lists are refused: REMAT_TOO_LARGE. */
#define REMAT_MOST_OPERATIONS ((size_t)1 << 25)

/* Appends the list to an empty buffer. */
remat_status answer_compact_list(const remat_operations *operations, remat_buffer *buffer,
                                 remat_error *error);

/* The list of these bytes, which may be any: REMAT_CORRUPT where they are no list. What the
 * operations say is for the simulator to judge. *ret_operations must be empty; the caller clears it
 * after success. */
remat_status answer_expand_list(const uint8_t *bytes, size_t length,
                                remat_operations *ret_operations, remat_error *error);

#endif
