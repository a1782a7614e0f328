/* Units as large as there is room. Private to solver/start. */
#ifndef REMAT_START_ROOMS_H
#define REMAT_START_ROOMS_H

#include "remat/profile.h"

/* Of each node: bytes that its backward needs, and whether they are made again; bytes during its
 * backward beside those; bytes that later nodes read behind it; time that does not run again where
 * a unit ends there. */
typedef struct start_rooms {
    uint32_t n;
    const double *kept, *during, *crossing, *spared;
    const bool *dropped;
} start_rooms;

/* Within so many bytes for all that is held at once, each unit up to the node `until` makes again
 * what those before it have left room for; in groups: a group is as long as its units have room.
 * Behind it units are of `most` bytes at most, which may be INFINITY. The units of the last group,
 * whose backward begins at once, are groups of their own, unless it stays whole. unit, group: of
 * each node, numbered from 0, those of the least bytes with which they reach the end. Returns how
 * many units there are; 0: none do. */
uint32_t start_fill_rooms(const start_rooms *rooms, uint32_t until, bool in_groups, bool whole,
                          double most, uint32_t *unit, uint32_t *group);

#endif
