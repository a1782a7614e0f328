/* What the tables hold beside the schedule that was handed out. */
#ifndef REMAT_CORE_NEIGHBOURS_H
#define REMAT_CORE_NEIGHBOURS_H

#include "remat/table.h"

/* Fills schedule->least and ->next (remat/table.h). alignment: of the layout, 0: none. */
remat_status core_find_neighbours(const remat_table *const *tables, size_t n,
                                  const remat_problem *problem, uint32_t alignment,
                                  remat_schedule *schedule, remat_error *error);

#endif
