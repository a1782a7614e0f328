/* Tables to operations. A part that made x_s leaves it to its caller; a backward that reads its own
 * output has it dropped right after. */
#include "papers/join/tables_private.h"

#include <math.h>
#include <stdlib.h>

typedef struct tracing {
    const join_tables *tables;
    const join_costs *join;
    remat_operations *operations;
    join_choice *choices;
    bool failed; /* no memory */
    bool broken; /* no choice where there should be one */
} tracing;

/* ---- emission: one operation of a step is one of each of its nodes ---- */

static void emit(tracing *t, remat_operation_kind kind, uint32_t j, uint32_t step)
{
    const join_branch *b = &t->join->branches[j];
    for (uint32_t a = 0; a < b->width; a++) {
        uint32_t v = b->nodes[(size_t)step * b->width + a];
        if (v == JOIN_NONE)
            continue;
        bool plain = kind == REMAT_A && t->join->profile->nodes[v].saved_bytes == 0;
        if (remat_push(t->operations, plain ? REMAT_F : kind, v))
            t->failed = true;
    }
}

static void drop(tracing *t, uint32_t j, uint32_t value)
{
    if (value > 0)
        emit(t, REMAT_D, j, value - 1);
}

static void run(tracing *t, uint32_t j, uint32_t s, uint32_t end)
{
    emit(t, REMAT_F, j, s);
    for (uint32_t q = s + 1; q < end; q++) {
        emit(t, REMAT_F, j, q);
        drop(t, j, q);
    }
}

/* B_s, with x_{s+1} dropped around it. */
static void backward(tracing *t, uint32_t j, uint32_t s, bool alive)
{
    bool uses = t->join->branches[j].uses_output[s];
    if (alive && !uses)
        drop(t, j, s + 1);
    emit(t, REMAT_B, j, s);
    if (alive && uses)
        drop(t, j, s + 1);
}

/* ---- choosing ---- */

static double value_at(const join_choice *c, uint32_t slot)
{
    if (slot < c->need || slot < c->left_shift || slot < c->right_shift)
        return INFINITY;
    double value = c->left ? c->left[slot - c->left_shift] : 0;
    if (c->right)
        value += c->right[slot - c->right_shift];
    return value + c->cost;
}

static join_choice best_of(tracing *t, size_t n, uint32_t slot)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (value_at(&t->choices[i], slot) < value_at(&t->choices[best], slot))
            best = i;
    if (isinf(value_at(&t->choices[best], slot)))
        t->broken = true;
    return t->choices[best];
}

/* ---- below the turn ---- */

static void trace_leaf(tracing *t, const join_choice *c, uint32_t s, bool alive)
{
    if (c->kind == JOIN_REMAKE) {
        if (alive)
            drop(t, c->branch, s + 1);
        emit(t, REMAT_A, c->branch, s);
        alive = true;
    }
    backward(t, c->branch, s, alive);
}

/* Backwards end - 1 .. s; x_s stays, x_end does not. */
static void trace_chain(tracing *t, uint32_t j, uint32_t s, uint32_t end, uint32_t slot, bool alive)
{
    const join_branch *b = &t->join->branches[j];
    for (;;) {
        size_t n = join_chain_choices(t->tables, j, s, end, alive, t->choices);
        join_choice c = best_of(t, n, slot);
        if (t->failed || t->broken)
            return;
        if (end == s + 1) {
            trace_leaf(t, &c, s, alive);
            return;
        }
        if (c.kind == JOIN_DROP) {
            drop(t, j, end);
            alive = false;
            continue;
        }
        if (c.kind == JOIN_SAVE) {
            emit(t, REMAT_A, j, s);
            trace_chain(t, j, s + 1, end, slot - c.left_shift, alive);
            backward(t, j, s, true);
            return;
        }
        run(t, j, s, c.step);
        trace_chain(t, j, c.step, end, slot - c.left_shift, alive);
        alive = b->uses_output[c.step - 1];
        if (!alive)
            drop(t, j, c.step);
        end = c.step;
    }
}

/* ---- the join ---- */

/* What is left when the inner problem of a choice is done. */
typedef struct outer {
    join_choice choice;
    uint32_t start, slot; /* slot: of the backwards */
    bool phi;             /* x_start stays */
} outer;

static void trace_turn(tracing *t, const join_state *state)
{
    const join_costs *join = t->join;
    if (join_push_turn(join, t->operations))
        t->failed = true;
    for (uint32_t j = 0; j < join->k; j++)
        if (!state->phi[j])
            drop(t, j, state->position[j]);
}

static void move(tracing *t, join_state *state, const join_choice *c, uint32_t steps)
{
    const join_tables *tables = t->tables;
    uint32_t m = c->branch;
    state->index += steps * tables->stride[m];
    if (state->phi[m])
        state->index -= tables->phi_stride[m];
    if (c->flag)
        state->index += tables->phi_stride[m];
    state->position[m] += steps;
    state->phi[m] = c->flag;
}

/* Forward until the turn; returns the number of entries on the stack. */
static size_t descend(tracing *t, join_state *state, uint32_t slot, outer *stack)
{
    size_t depth = 0;
    for (;;) {
        size_t n = join_state_choices(t->tables, state, t->choices);
        join_choice c = best_of(t, n, slot);
        if (t->failed || t->broken || c.kind == JOIN_TURN)
            return depth;
        uint32_t m = c.branch, s = state->position[m];
        stack[depth++] = (outer){.choice = c,
                                 .start = s,
                                 .slot = slot - join_kept(t->tables, state, m),
                                 .phi = state->phi[m]};
        if (c.kind == JOIN_SAVE)
            emit(t, REMAT_A, m, s);
        else
            run(t, m, s, c.step);
        move(t, state, &c, c.kind == JOIN_SAVE ? 1 : c.step - s);
        slot -= c.left_shift;
    }
}

static void trace_join(tracing *t, join_state *state, uint32_t slot, outer *stack)
{
    size_t depth = descend(t, state, slot, stack);
    trace_turn(t, state);
    while (depth > 0 && !t->failed && !t->broken) {
        const outer *o = &stack[--depth];
        uint32_t m = o->choice.branch;
        if (o->choice.kind == JOIN_SAVE)
            backward(t, m, o->start, o->choice.flag);
        else
            trace_chain(t, m, o->start, o->choice.step, o->slot, o->choice.flag);
        if (!o->phi)
            drop(t, m, o->start);
    }
}

remat_status join_tables_trace(const join_tables *tables, uint32_t slot,
                               remat_operations *operations, remat_error *error)
{
    const join_costs *join = tables->join;
    model_arena arena = {0};
    size_t steps = 0;
    for (uint32_t j = 0; j < join->k; j++)
        steps += join->branches[j].length;
    tracing t = {.tables = tables, .join = join, .operations = operations};
    join_state state = {0};
    t.choices = model_arena_array(&arena, tables->most_choices, sizeof *t.choices);
    state.position = model_arena_array(&arena, (size_t)join->k + 1, sizeof *state.position);
    state.phi = model_arena_array(&arena, (size_t)join->k + 1, sizeof *state.phi);
    outer *stack = model_arena_array(&arena, steps + 1, sizeof *stack);
    t.failed = !t.choices || !state.position || !state.phi || !stack;
    if (!t.failed)
        trace_join(&t, &state, slot, stack);
    model_arena_clear(&arena);
    if (t.failed)
        return remat_fail_memory(error);
    if (t.broken)
        return remat_fail(error, REMAT_INTERNAL, NULL,
                          "the tables of the join contradict themselves");
    return REMAT_OK;
}
