/* Inside of a pebble table: see recurrence.c. */
#ifndef REMAT_PAPERS_PEBBLE_TABLE_H
#define REMAT_PAPERS_PEBBLE_TABLE_H

#include "papers/pebble/pebble.h"

struct remat_pebble_table {
    uint32_t k, edge, slots;
    uint32_t cells;      /* of a row: c = 0, then whole blocks */
    uint32_t cell_bytes; /* 2 or 4 */
    uint32_t infinite;
    uint64_t n_tuples[REMAT_PEBBLE_BRANCHES + 1]; /* sorted tuples of each size */
    uint16_t *tuples[REMAT_PEBBLE_BRANCHES + 1];  /* by rank */
    uint32_t *choose[REMAT_PEBBLE_BRANCHES + 1];  /* [p][v] = C(v + p, p + 1) */
    void *rows[REMAT_PEBBLE_BRANCHES + 1];        /* [t]: ones' rank, zeros' rank, c */
    void *chain_rows;
};

#endif
