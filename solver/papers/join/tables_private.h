/* Inside of the tables: rows over slots and the choices of a state. A choice costs
 * left[M - left_shift] + right[M - right_shift] + cost from M = need on; both the filling and the
 * tracing walk the same list of choices. */
#ifndef REMAT_PAPERS_JOIN_TABLES_PRIVATE_H
#define REMAT_PAPERS_JOIN_TABLES_PRIVATE_H

#include "papers/join/tables.h"

enum { JOIN_TURN, JOIN_DIRECT, JOIN_REMAKE, JOIN_DROP, JOIN_KEEP, JOIN_SAVE };

typedef struct join_choice {
    const double *left, *right; /* NULL: nothing */
    uint32_t left_shift, right_shift, need;
    double cost;
    uint32_t kind, branch, step; /* step: i of KEEP */
    bool flag;                   /* f of KEEP at the join; phi of SAVE */
} join_choice;

struct join_tables {
    const join_costs *join;
    join_setting setting;
    size_t row;         /* cells of a row: n_slots + 1 */
    double **chains;    /* by branch: rows of C, see join_chain_row */
    size_t *flags;      /* by branch: 2 when some output is used, else 1 */
    double *states;     /* rows of T */
    size_t *stride;     /* by branch: of a step in the number of a position */
    size_t *phi_stride; /* by branch: of phi; 0 where phi is always 0 */
    size_t n_positions, n_phi;
    size_t most_choices; /* of any state */
    model_arena arena;   /* of what is small */
};

/* Where everything of a branch is: the state of T being solved. */
typedef struct join_state {
    uint32_t *position; /* by branch */
    bool *phi;
    size_t index; /* of the row */
} join_state;

static inline double *join_chain_row(const join_tables *t, uint32_t branch, uint32_t s,
                                     uint32_t end, bool alive)
{
    size_t pair = (size_t)end * (end - 1) / 2 + s;
    size_t cell = pair * t->flags[branch] + (t->flags[branch] == 2 && alive);
    return t->chains[branch] + cell * t->row;
}

size_t join_chain_choices(const join_tables *tables, uint32_t branch, uint32_t s, uint32_t end,
                          bool alive, join_choice *choices);
size_t join_state_choices(const join_tables *tables, const join_state *state, join_choice *choices);

/* Slots for what the other branches leave: of their gradients and of the values with phi. */
uint32_t join_kept(const join_tables *tables, const join_state *state, uint32_t branch);

#endif
