/* The operation list: the one language that every solver speaks and every executor runs.
 *
 *   F v   forward of node v: allocates out(v)               needs out of v's inputs
 *   A v   forward that saves: allocates out(v), saved(v)    the same
 *   B v   backward of v: adds to the gradients of v's inputs, frees grad(v) and saved(v)
 *   D x   frees a value        O x   starts its copy to the host      P x   starts its copy back
 *   S k n saves version n of state k                        R k n restores it
 *
 * F, A and B run one implementation of the node: its own, or an alternative of the profile. What A
 * saved with one implementation only B with the same one can read.
 *
 * D, O and P act on out(v), on saved(v) or on graph input k; "X v" on the wire is D of saved(v).
 * Of a joint graph there are F, D, O, P, S and R: F makes all results of its node, and D, O and P
 * act on one of them.
 * remat/simulate.h says exactly what each operation needs and does. */
#ifndef REMAT_SCHEDULE_H
#define REMAT_SCHEDULE_H

#include "remat/profile.h"

typedef enum remat_operation_kind {
    REMAT_F,
    REMAT_A,
    REMAT_B,
    REMAT_D,
    REMAT_O,
    REMAT_P,
    REMAT_S,
    REMAT_R
} remat_operation_kind;

typedef enum remat_target { REMAT_OUT, REMAT_SAVED, REMAT_INPUT } remat_target;

typedef struct remat_operation {
    uint8_t kind;         /* remat_operation_kind */
    uint8_t target;       /* remat_target: of D, O and P; REMAT_OUT otherwise */
    uint16_t alternative; /* F, A and B: see remat_implementation; 0 otherwise */
    uint32_t index;       /* node; graph input where target is REMAT_INPUT; state for S and R */
    uint32_t version;     /* S and R: of the state; D, O and P of out(v): which result of v */
} remat_operation;

/* A growing list; {0} is the empty one. Owns items. */
typedef struct remat_operations {
    remat_operation *items;
    size_t length, capacity;
} remat_operations;

/* Appends. REMAT_NO_MEMORY leaves the list as it was. */
remat_status remat_operations_push(remat_operations *operations, remat_operation operation);

/* F, A and B of a node; D of its output; D of its saved values. The same on failure as _push. */
remat_status remat_push(remat_operations *operations, remat_operation_kind kind, uint32_t node);
remat_status remat_push_drop_saved(remat_operations *operations, uint32_t node);
/* D of a value (remat/profile.h) that a node makes. */
remat_status remat_push_drop(remat_operations *operations, const remat_profile *profile,
                             uint32_t value);

/* The value that D, O or P of REMAT_OUT acts on. */
static inline uint32_t remat_operation_value(const remat_profile *profile,
                                             const remat_operation *operation)
{
    return remat_result_value(profile, operation->index, operation->version);
}

/* Frees the items and makes the list empty. Accepts an empty list. */
void remat_operations_clear(remat_operations *operations);

/* One letter: "F", "A", "B", "D", "O", "P", "S", "R". */
const char *remat_operation_name(remat_operation_kind kind);

/* ---- passes over a valid list ---- */

/* Liveness: every out(v) and saved(v) is freed right after the last operation that needs it, and
 * not later; the D of the list are replaced by these. A value that is copied to the host, or
 * fetched back and read by nothing, keeps its own D instead, and stays where it has none: a D waits
 * for the copy, so another one could take time. Time and validity stay as they were, no byte lives
 * longer. *ret_operations must be empty; the caller clears it. */
remat_status remat_liveness(const remat_profile *profile, const remat_operations *operations,
                            remat_operations *ret_operations, remat_error *error);

/* States: inserts the S and R without which a recomputed node would see, or the step would leave, a
 * wrong version of a mutable state; as few as the order of the list allows (specification
 * "Snapshots", from Dauvergne & Hascoet 2006: only versions that are restored are saved, at the
 * last moment). Existing S and R are replaced. *ret_operations must be empty; the caller clears it.
 */
remat_status remat_insert_states(const remat_profile *profile, const remat_operations *operations,
                                 remat_operations *ret_operations, remat_error *error);

/* ---- other machines (remat/solver.h, remat_machine) ---- */

/* One operation of another machine than the simulator's. */
typedef struct remat_step {
    uint8_t kind;           /* which of the machine's */
    uint32_t branch, index; /* 0 where the kind has none */
} remat_step;

/* {0} is empty. Owns items. */
typedef struct remat_steps {
    remat_step *items;
    size_t length, capacity;
} remat_steps;

void remat_steps_clear(remat_steps *steps);

#endif
