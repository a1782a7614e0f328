/* How a table of breakpoints lies in memory; shared by breakpoints.c and breakpoints_trace.c. */
#ifndef REMAT_START_ROTOR_BREAKPOINTS_TABLE_H
#define REMAT_START_ROTOR_BREAKPOINTS_TABLE_H

#include "model/arrays.h"
#include "start/rotor/breakpoints.h"

struct chain_breakpoints {
    uint32_t n;
    bool inputs_only;
    unsigned n_workers;
    chain_breakpoint_list *cells; /* (s,t), s <= t: row s after row s-1 */
    model_arena *arenas;
    uint64_t n_points;
};

static inline const chain_breakpoint_list *chain_breakpoints_cell(const chain_breakpoints *table,
                                                                  uint32_t s, uint32_t t)
{
    return &table->cells[chain_cell(table->n, s, t)];
}

/* Index of the last point with at most bytes, or -1. */
static inline ptrdiff_t chain_breakpoints_last(const chain_breakpoint_list *cell, uint64_t bytes)
{
    return (ptrdiff_t)model_count_up_to(cell->points, cell->count, sizeof *cell->points,
                                        offsetof(chain_breakpoint, bytes), bytes) -
           1;
}

#endif
