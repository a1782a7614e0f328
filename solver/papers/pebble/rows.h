/* The inner loop of the pebble tables: a row is the minimum over its choices of the sum of two
 * other rows, cell by cell, in unsigned 16 bits that saturate (65535 is infinity and stays so) or
 * in 32 bits with an infinity whose double still fits. A minimum of integers does not depend on the
 * order: all versions give the same bits. */
#ifndef REMAT_PAPERS_PEBBLE_ROWS_H
#define REMAT_PAPERS_PEBBLE_ROWS_H

#include <stddef.h>
#include <stdint.h>

enum { PEBBLE_ROWS_BLOCK = 32 }; /* cells */
#define PEBBLE_ROWS_INFINITE_16 UINT16_MAX
#define PEBBLE_ROWS_INFINITE_32 (UINT32_C(1) << 30)

/* Two rows to be added, each at the cell that meets the first one of the result. */
typedef struct pebble_rows_16 {
    const uint16_t *left, *right;
} pebble_rows_16;

typedef struct pebble_rows_32 {
    const uint32_t *left, *right;
} pebble_rows_32;

/* result[c] = min(result[c], left[c] + right[c]) over all pairs, for n_cells (whole blocks). */
typedef void pebble_rows_min_16(uint16_t *result, const pebble_rows_16 *pairs, size_t n_pairs,
                                size_t n_cells);

pebble_rows_min_16 *pebble_rows_best_16(void); /* the fastest this processor can run */
pebble_rows_min_16 pebble_rows_plain_16;
void pebble_rows_min_32(uint32_t *result, const pebble_rows_32 *pairs, size_t n_pairs,
                        size_t n_cells);

#endif
