/* Inside of the tables: rows over slots and the choices of a state. A choice costs
 * left[M - left_shift] + right[M - right_shift] + cost from M = need on; both the filling and the
 * tracing walk the same list of choices. */
#ifndef REMAT_JOIN_TABLES_INSIDE_H
#define REMAT_JOIN_TABLES_INSIDE_H

#include "join/tables.h"

enum {
    REMAT_JOIN_TURN,
    REMAT_JOIN_DIRECT,
    REMAT_JOIN_REMAKE,
    REMAT_JOIN_DROP,
    REMAT_JOIN_KEEP,
    REMAT_JOIN_SAVE
};

typedef struct remat_join_choice {
    const double *left, *right; /* NULL: nothing */
    uint32_t left_shift, right_shift, need;
    double cost;
    uint32_t kind, branch, step; /* step: i of KEEP */
    bool flag;                   /* f of KEEP at the join; phi of SAVE */
} remat_join_choice;

struct remat_join_tables {
    const remat_join *join;
    remat_join_setting setting;
    size_t row;         /* cells of a row: n_slots + 1 */
    double **chains;    /* by branch: rows of C, see remat_join_chain_row */
    size_t *flags;      /* by branch: 2 when some output is used, else 1 */
    double *states;     /* rows of T */
    size_t *stride;     /* by branch: of a step in the number of a position */
    size_t *phi_stride; /* by branch: of phi; 0 where phi is always 0 */
    size_t n_positions, n_phi;
    size_t most_choices; /* of any state */
};

/* Where everything of a branch is: the state of T being solved. */
typedef struct remat_join_state {
    uint32_t *position; /* by branch */
    bool *phi;
    size_t index; /* of the row */
} remat_join_state;

static inline double *remat_join_chain_row(const remat_join_tables *t, uint32_t branch, uint32_t s,
                                           uint32_t end, bool alive)
{
    size_t pair = (size_t)end * (end - 1) / 2 + s;
    size_t cell = pair * t->flags[branch] + (t->flags[branch] == 2 && alive);
    return t->chains[branch] + cell * t->row;
}

size_t remat_join_chain_choices(const remat_join_tables *tables, uint32_t branch, uint32_t s,
                                uint32_t end, bool alive, remat_join_choice *choices);
size_t remat_join_state_choices(const remat_join_tables *tables, const remat_join_state *state,
                                remat_join_choice *choices);

/* Slots for what the other branches leave: of their gradients and of the values with phi. */
uint32_t remat_join_kept(const remat_join_tables *tables, const remat_join_state *state,
                         uint32_t branch);

/* Bytes in slots, as the setting rounds; more than all slots is one past them. */
uint32_t remat_join_round(const remat_join_tables *tables, uint64_t bytes);

/* row[M] = min over the choices, for all M. */
void remat_join_fill(double *row, size_t length, const remat_join_choice *choices, size_t n);

#endif
