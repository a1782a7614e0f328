/* The backward-phase program over slots of memory: C_A(i, j, free, due) for every sub-chain. */
#ifndef REMAT_START_OFFLOAD_BACKWARD_H
#define REMAT_START_OFFLOAD_BACKWARD_H

#include "start/offload/model.h"

/* Time to move one slot one way, and what rounding to slots takes. */
typedef struct offload_slot_time {
    double slot, inverse; /* both 0 where transfers take no time */
    double most;          /* longer times than n_slots slots are all alike */
    bool down;
} offload_slot_time;

/* Memory in slots of bytes / n_slots bytes. free = M - A is what the sub-chain may use besides what
 * is stored, its input included; due (the paper's Delta) is what must have been prefetched when it
 * ends. M itself plays no part, so the table for M serves every smaller budget.
 *
 * Rounded up, states make plans that fit; rounded down (relaxed), values bound the exact ones from
 * below. Tests of what fits are exact either way. */
typedef struct offload_backward {
    const offload_model *model;
    uint64_t bytes;
    uint32_t n_slots;
    bool relaxed;
    offload_slot_time in;
    double *value;  /* time units by pair (i,j), free, due; INFINITY: impossible */
    uint16_t *left; /* slots of due not yet prefetched when the sub-chain starts */
    uint16_t *calm; /* by pair and free: up to this due, excluded, nothing is left */
} offload_backward;

enum { OFFLOAD_MAX_SLOTS = 500 };

/* bytes > 0, n_slots > 0. REMAT_CANCELLED at the host's wish. The caller clears it, not after
 * failure. */
remat_status offload_backward_init(offload_backward *ret_backward, const offload_model *model,
                                   uint64_t bytes, uint32_t n_slots, bool relaxed,
                                   const remat_host *host, remat_error *error);
void offload_backward_clear(offload_backward *backward);
uint64_t offload_backward_bytes(uint32_t n, uint32_t n_slots); /* memory it takes */

static inline double offload_longer(double a, double b)
{
    return a > b ? a : b;
}

/* Least number of free slots in which that many bytes fit. */
static inline uint32_t offload_backward_slots(const offload_backward *b, uint64_t bytes)
{
    uint64_t slots = (bytes * b->n_slots + b->bytes - 1) / b->bytes;
    return slots > OFFLOAD_MAX_SLOTS ? OFFLOAD_MAX_SLOTS + 1 : (uint32_t)slots;
}

/* Slots that bytes which stay take from the free ones. */
static inline uint32_t offload_backward_kept(const offload_backward *b, uint64_t bytes)
{
    uint64_t slots = (bytes * b->n_slots + (b->relaxed ? 0 : b->bytes - 1)) / b->bytes;
    return slots > OFFLOAD_MAX_SLOTS ? OFFLOAD_MAX_SLOTS + 1 : (uint32_t)slots;
}

offload_slot_time offload_slot_time_of(const offload_backward *backward, double per_byte);

/* up(): slots of a transfer that takes time. The product with the inverse is one off at most, the
 * comparison with a whole number of slots is exact. */
static inline uint32_t offload_slots_of(const offload_slot_time *t, double time)
{
    time = time > 0 ? time : 0;
    time = time < t->most ? time : t->most;
    int32_t slots = (int32_t)(time * t->inverse);
    if (t->down)
        slots += (slots + 1) * t->slot <= time && t->slot > 0;
    else
        slots += slots * t->slot < time;
    return (uint32_t)slots;
}

/* First due whose value is above least, count if none is: a row does not decrease with due. */
uint32_t offload_first_above(const double *values, uint32_t count, double least);

/* Row of (i, j, free): value or left by due, 0 .. n_slots. Rows of one pair stand together. */
static inline size_t offload_backward_row(const offload_backward *b, uint32_t i, uint32_t j,
                                          uint32_t free)
{
    size_t pair = (size_t)(j - 1) * j / 2 + (i - 1), side = (size_t)b->n_slots + 1;
    return (pair * side + free) * side;
}

static inline uint32_t offload_backward_calm(const offload_backward *b, size_t row)
{
    return b->calm[row / (b->n_slots + 1)];
}

/* Appends the operations of C_A(i, j, free, due), which must be finite. */
remat_status offload_backward_trace(const offload_backward *backward, uint32_t i, uint32_t j,
                                    uint32_t free, uint32_t due, remat_operations *operations);

#endif
