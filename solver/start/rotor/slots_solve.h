/* One solve of a slot table: what slots.c prepares and slots_tile.c works on. */
#ifndef REMAT_START_ROTOR_SLOTS_SOLVE_H
#define REMAT_START_ROTOR_SLOTS_SOLVE_H

#include "start/rotor/slots_table.h"

enum { CHAIN_SLOTS_TILE = 16 };

/* A stage in slots and costs. */
typedef struct chain_slots_stage {
    uint32_t shift, save_shift; /* of a_i, of abar_i */
    int32_t backward, leaf;     /* leaf: of the sub-chain of this stage alone */
    int32_t forward_sum, total_sum;
} chain_slots_stage;

typedef struct chain_slots_worker chain_slots_worker;

/* Arrays by row hold (1,1) (1,2) .. (2,2) ..; arrays by column (1,1) (1,2) (2,2) (1,3) .. . */
typedef struct chain_slots_solve {
    chain_slots *slots;
    const chain_costs *chain;
    const remat_host *host;
    chain_kernel *kernel;
    bool round_up, each_pass;  /* each_pass: test every k on its own */
    chain_slots_stage *stages; /* [i], 0 .. n */
    uint32_t *pass_from;       /* by row: least slots for the whole pass, or for the leaf */
    uint32_t *save_from;       /* by row: for C_1 */
    int32_t *first;            /* by row: least feasible slot */
    int32_t *first_right;      /* by column: the same for the shifted row */
    uint32_t *likely;          /* by row: the position that was least at the end of the block */
    uint32_t block, diagonal;  /* under way: block of slots, diagonal of tiles */
    int32_t *ends_left;        /* by row, CHAIN_KERNEL_PAD entries between rows: see kernel.h; from
                                 the block before where this one is not yet solved */
    int32_t *ends_right;       /* by column */
    int32_t *right;            /* by column: the block of shifted rows */
    chain_slots_worker *workers;
    unsigned n_workers;
} chain_slots_solve;

/* bytes as slots, at most one more than there are. */
uint32_t chain_slots_round(const chain_slots_solve *r, uint64_t bytes);

/* Body of a parallel_for: the current block of tile `index` of the current diagonal. */
void chain_slots_solve_tile(void *context, size_t index, unsigned worker);

chain_slots_worker *chain_slots_workers_new(const chain_slots_solve *r); /* NULL without memory */
void chain_slots_workers_free(chain_slots_worker *workers, unsigned n_workers);
remat_status chain_slots_workers_status(const chain_slots_solve *r);
uint64_t chain_slots_worker_bytes(uint32_t n);

#endif
