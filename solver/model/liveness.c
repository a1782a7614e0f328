/* Liveness: where each value of an operation list is needed last, and its D put there.
 *
 * An *instance* of a value is one stretch of its life: from the operation that makes it (F, A or P)
 * to the last one that needs it. One walk finds the instances and their ends, a second one writes
 * the list again with a D at each end. */
#include "remat/schedule.h"

#include <stdlib.h>

#define NONE UINT32_MAX

typedef struct instance {
    uint32_t value;
    uint32_t end;  /* operation after which it is freed */
    uint32_t next; /* instance freed after the same operation */
    bool copied;   /* an O reads it: a D waits for that copy */
    bool arriving; /* a P made it and nothing has waited for its arrival: a D would */
    bool dropped;  /* it has a D of its own; only that one is safe where a D waits */
    bool consumed; /* B frees it, or it stays to the end */
} instance;

/* Values in one numbering: those of the profile, then saved(v) from `saved` on. Graph inputs have
 * no instances. */
typedef struct walk {
    const remat_profile *profile;
    uint32_t saved;
    uint32_t *current; /* by value: its instance now, or NONE */
    instance *instances;
    uint32_t n_instances;
} walk;

static void make(walk *w, uint32_t value, uint32_t at, bool arriving)
{
    w->current[value] = w->n_instances;
    w->instances[w->n_instances++] =
        (instance){.value = value, .end = at, .next = NONE, .arriving = arriving};
}

/* A computation reads the value: it waits for an arrival. */
static void use(walk *w, uint32_t value, uint32_t at)
{
    if (w->current[value] == NONE)
        return;
    w->instances[w->current[value]].end = at;
    w->instances[w->current[value]].arriving = false;
}

static void copy(walk *w, uint32_t value, uint32_t at)
{
    if (w->current[value] == NONE)
        return;
    w->instances[w->current[value]].end = at;
    w->instances[w->current[value]].copied = true;
}

/* A D counts only where it waits for a copy: an earlier one might wait longer. */
static void drop(walk *w, uint32_t value, uint32_t at)
{
    instance *one = w->current[value] == NONE ? NULL : &w->instances[w->current[value]];
    if (one && (one->copied || one->arriving)) {
        one->end = at;
        one->dropped = true;
    }
    w->current[value] = NONE;
}

static void use_inputs(walk *w, const remat_node *node, uint32_t at)
{
    for (uint32_t i = 0; i < node->n_inputs; i++)
        use(w, node->inputs[i], at);
}

/* What another implementation saved than the one that runs, which needs nothing saved, is not kept
 * for it. */
static void visit_backward(walk *w, const remat_operation *operation, uint32_t at)
{
    const uint32_t v = operation->index;
    const remat_node *node = &w->profile->nodes[v];
    const bool needs_saved = node->n_alternatives == 0 ||
                             remat_implementation(node, operation->alternative).saved_bytes > 0;
    if (node->backward_uses_inputs)
        use_inputs(w, node, at);
    if (node->backward_uses_output)
        use(w, v, at);
    uint32_t saved = w->current[w->saved + v];
    if (saved != NONE && needs_saved)
        w->instances[saved].consumed = true;
    w->current[w->saved + v] = NONE;
}

static void visit(walk *w, const remat_operation *operation, uint32_t at)
{
    uint32_t v = operation->index, value = w->saved + v;
    bool moves = operation->kind >= REMAT_D && operation->kind <= REMAT_P;
    if (moves && operation->target == REMAT_OUT)
        value = remat_operation_value(w->profile, operation);
    switch ((remat_operation_kind)operation->kind) {
    case REMAT_F:
    case REMAT_A:
        use_inputs(w, &w->profile->nodes[v], at);
        for (uint32_t k = 0; k < w->profile->nodes[v].n_outputs; k++)
            make(w, remat_result_value(w->profile, v, k), at, false);
        if (operation->kind == REMAT_A)
            make(w, w->saved + v, at, false);
        return;
    case REMAT_B:
        visit_backward(w, operation, at);
        return;
    case REMAT_D:
        if (operation->target != REMAT_INPUT)
            drop(w, value, at);
        return;
    case REMAT_O:
        if (operation->target != REMAT_INPUT)
            copy(w, value, at);
        return;
    case REMAT_P:
        if (operation->target != REMAT_INPUT)
            make(w, value, at, true);
        return;
    case REMAT_S:
    case REMAT_R:
        return;
    }
}

static remat_status push_drop(const walk *w, uint32_t value, remat_operations *to)
{
    return value < w->saved ? remat_push_drop(to, w->profile, value)
                            : remat_push_drop_saved(to, value - w->saved);
}

static remat_status rewrite(walk *w, const remat_operations *from, uint32_t *ended_at,
                            remat_operations *to)
{
    for (uint32_t i = w->n_instances; i-- > 0;) {
        instance *one = &w->instances[i];
        if (one->consumed || ((one->copied || one->arriving) && !one->dropped))
            continue;
        one->next = ended_at[one->end];
        ended_at[one->end] = i;
    }
    for (size_t i = 0; i < from->length; i++) {
        const remat_operation *operation = &from->items[i];
        bool own_drop = operation->kind == REMAT_D && operation->target != REMAT_INPUT;
        if (!own_drop && remat_operations_push(to, *operation))
            return REMAT_NO_MEMORY;
        for (uint32_t k = ended_at[i]; k != NONE; k = w->instances[k].next)
            if (push_drop(w, w->instances[k].value, to))
                return REMAT_NO_MEMORY;
    }
    return REMAT_OK;
}

/* At most this many are made. */
static size_t count_instances(const remat_profile *profile, const remat_operations *operations)
{
    size_t n = 1;
    for (size_t i = 0; i < operations->length; i++) {
        const remat_operation *operation = &operations->items[i];
        n +=
            operation->kind <= REMAT_A ? (size_t)profile->nodes[operation->index].n_outputs + 1 : 1;
    }
    return n;
}

static void keep_outputs(walk *w)
{
    for (uint32_t i = 0; i < w->profile->n_outputs; i++) {
        uint32_t last = w->current[w->profile->outputs[i]];
        if (last != NONE)
            w->instances[last].consumed = true;
    }
}

remat_status remat_liveness(const remat_profile *profile, const remat_operations *operations,
                            remat_operations *ret_operations, remat_error *error)
{
    size_t most = count_instances(profile, operations);
    if (operations->length >= NONE / 2 || most >= NONE)
        return remat_fail(error, REMAT_TOO_LARGE, NULL, "a list of %zu operations is too long",
                          operations->length);
    uint32_t length = (uint32_t)operations->length;
    walk w = {.profile = profile, .saved = remat_n_values(profile)};
    size_t slots = (size_t)w.saved + profile->n_nodes;
    w.current = malloc(slots * sizeof *w.current);
    w.instances = malloc(most * sizeof *w.instances);
    uint32_t *ended_at = malloc(((size_t)length + 1) * sizeof *ended_at);
    remat_status status = w.current && w.instances && ended_at ? REMAT_OK : REMAT_NO_MEMORY;
    if (!status) {
        for (size_t i = 0; i < slots; i++)
            w.current[i] = NONE;
        for (uint32_t i = 0; i < length; i++)
            ended_at[i] = NONE;
        for (uint32_t i = 0; i < length; i++)
            visit(&w, &operations->items[i], i);
        keep_outputs(&w);
        status = rewrite(&w, operations, ended_at, ret_operations);
    }
    free(w.current);
    free(w.instances);
    free(ended_at);
    if (!status)
        return REMAT_OK;
    remat_operations_clear(ret_operations);
    return remat_fail_memory(error);
}
