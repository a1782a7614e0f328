/* The judge of layouts: replays the list with nothing but remat/simulate.h and remat/layout.h in
 * mind. What is alive stands in one array in the order of its offsets; what comes to life is
 * compared with its two neighbours there. */
#include "remat/layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOTHING UINT32_MAX

/* Bytes taken by one item. */
typedef struct extent {
    uint64_t offset, end;
    uint32_t item;
} extent;

typedef struct judge {
    const remat_profile *profile;
    const remat_operations *operations;
    const remat_layout *layout;
    remat_error *error;
    uint32_t *memory; /* holds the arrays of numbers below */
    uint32_t *out, *saved, *inputs,
        *gradients;                     /* item alive, or NOTHING; out, gradients by value */
    uint32_t *versions, *last_restore;  /* by version: item alive; its last R in the list */
    uint32_t *first_version;            /* by state: where its versions begin */
    uint32_t *taker;                    /* by value: an F that would overwrite it */
    uint64_t *saved_bytes, *host_bytes; /* by node: of saved(v) as it was made, copied out */
    bool *overwrites;                   /* by operation: an F does, its first input */
    extent *alive;
    uint32_t n_alive;
    uint32_t next;              /* item to come */
    uint32_t dying[4], n_dying; /* freed when the operation ends */
    uint32_t successor;         /* item whose extent still spans what it overwrites, or NOTHING */
    int32_t at;
    int32_t turn; /* operations before it; INT32_MAX: it has not come */
} judge;

/* ---- setting up ---- */

static bool allocate(judge *j)
{
    const remat_profile *p = j->profile;
    size_t n = p->n_nodes, m = p->n_inputs, versions = 0;
    for (uint32_t k = 0; k < p->n_states; k++)
        versions += (size_t)p->states[k].n_writers + 1;
    size_t values = remat_n_values(p);
    size_t total = 2 * values + 2 * n + 2 * m + 2 * versions + p->n_states;
    j->memory = malloc(total * sizeof *j->memory);
    j->overwrites = calloc(j->operations->length + 1, sizeof *j->overwrites);
    j->alive = malloc((j->layout->n + 1) * sizeof *j->alive);
    j->saved_bytes = calloc(2 * n, sizeof *j->saved_bytes);
    if (!j->memory || !j->overwrites || !j->alive || !j->saved_bytes)
        return false;
    memset(j->memory, 0xff, total * sizeof *j->memory); /* NOTHING */
    j->host_bytes = j->saved_bytes + n;
    j->out = j->memory;
    j->saved = j->out + values;
    j->taker = j->saved + n;
    j->gradients = j->taker + values;
    j->inputs = j->gradients + n + m;
    j->versions = j->inputs + m;
    j->last_restore = j->versions + versions;
    j->first_version = j->last_restore + versions;
    uint32_t first = 0;
    for (uint32_t k = 0; k < p->n_states; k++) {
        j->first_version[k] = first;
        first += p->states[k].n_writers + 1;
    }
    return true;
}

/* ---- what the future says: one walk before the replay ---- */

static remat_status refuse_operation(const judge *j, size_t at)
{
    char field[48];
    snprintf(field, sizeof field, "operations[%zu]", at);
    return remat_fail(j->error, REMAT_INVALID, field, "operation %zu names nothing of this profile",
                      at);
}

static bool known(const judge *j, const remat_operation *o)
{
    const remat_profile *p = j->profile;
    if (o->kind == REMAT_S || o->kind == REMAT_R)
        return o->index < p->n_states && o->version <= p->states[o->index].n_writers;
    bool moves = o->kind == REMAT_D || o->kind == REMAT_O || o->kind == REMAT_P;
    if (o->kind > REMAT_R || o->target > (moves ? REMAT_INPUT : REMAT_OUT))
        return false;
    if (o->index >= (o->target == REMAT_INPUT ? p->n_inputs : p->n_nodes))
        return false;
    if (moves && o->target == REMAT_OUT)
        return o->version < p->nodes[o->index].n_outputs;
    return moves || o->alternative <= p->nodes[o->index].n_alternatives;
}

/* Somebody reads an output: the F that would have overwritten it before could not. */
static void read_output(judge *j, uint32_t value)
{
    if (j->taker[value] != NOTHING)
        j->overwrites[j->taker[value]] = false;
}

static void read_inputs(judge *j, const remat_node *node)
{
    for (uint32_t i = 0; i < node->n_inputs; i++)
        read_output(j, node->inputs[i]);
}

static void foresee(judge *j, const remat_operation *o, uint32_t at)
{
    bool forward = o->kind == REMAT_F || o->kind == REMAT_A;
    if (o->kind == REMAT_R)
        j->last_restore[j->first_version[o->index] + o->version] = at;
    if (o->kind == REMAT_S || o->kind == REMAT_R || o->target != REMAT_OUT)
        return;
    const remat_node *node = &j->profile->nodes[o->index];
    if (forward || (o->kind == REMAT_B && node->backward_uses_inputs))
        read_inputs(j, node);
    if (o->kind == REMAT_O)
        read_output(j, remat_operation_value(j->profile, o));
    if (o->kind == REMAT_B && node->backward_uses_output)
        read_output(j, o->index);
    if (o->kind == REMAT_P) /* made anew: what reads it from here on reads this one */
        j->taker[remat_operation_value(j->profile, o)] = NOTHING;
    for (uint32_t k = 0; forward && k < node->n_outputs; k++)
        j->taker[remat_result_value(j->profile, o->index, k)] = NOTHING;
    if (forward && node->in_place && node->n_inputs > 0 &&
        remat_is_result(j->profile, node->inputs[0])) {
        j->taker[node->inputs[0]] = at;
        j->overwrites[at] = true;
    }
}

static remat_status look_ahead(judge *j)
{
    for (size_t i = 0; i < j->operations->length; i++) {
        if (!known(j, &j->operations->items[i]))
            return refuse_operation(j, i);
        foresee(j, &j->operations->items[i], (uint32_t)i);
    }
    for (uint32_t i = 0; i < j->profile->n_outputs; i++)
        read_output(j, j->profile->outputs[i]);
    return REMAT_OK;
}

/* ---- faults ---- */

static const char *describe(const judge *j, uint32_t index, char *text, size_t size)
{
    const remat_allocation *item = &j->layout->items[index];
    snprintf(text, size,
             "%s of \"%.100s\" (made by operation %" PRId32 ", bytes %" PRIu64 " to %" PRIu64 ")",
             remat_allocation_kind_name((remat_allocation_kind)item->kind),
             remat_allocation_id(j->profile, item), item->first, item->offset,
             item->offset + item->bytes);
    return text;
}

static remat_status refuse(const judge *j, uint32_t index, const char *fault)
{
    char field[48], text[256];
    snprintf(field, sizeof field, "allocations[%" PRIu32 "]", index);
    return remat_fail(j->error, REMAT_INVALID, field, "%s %s",
                      describe(j, index, text, sizeof text), fault);
}

static remat_status refuse_pair(const judge *j, uint32_t index, uint32_t other, const char *fault)
{
    char field[48], text[256], other_text[256];
    snprintf(field, sizeof field, "allocations[%" PRIu32 "]", index);
    return remat_fail(j->error, REMAT_INVALID, field, "operation %" PRId32 ": %s and %s %s", j->at,
                      describe(j, index, text, sizeof text),
                      describe(j, other, other_text, sizeof other_text), fault);
}

/* ---- extents ---- */

/* Position of the first extent at or after an offset. */
static uint32_t find(const judge *j, uint64_t offset)
{
    uint32_t low = 0, high = j->n_alive;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (j->alive[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void take_out(judge *j, uint32_t item)
{
    uint32_t position = find(j, j->layout->items[item].offset);
    j->n_alive--;
    memmove(&j->alive[position], &j->alive[position + 1],
            (j->n_alive - position) * sizeof *j->alive);
}

static remat_status put_in(judge *j, extent one)
{
    uint32_t position = find(j, one.offset);
    extent *after = &j->alive[position];
    if (position < j->n_alive && after->offset < one.end)
        return refuse_pair(j, one.item, after->item, "overlap");
    if (position > 0 && after[-1].end > one.offset)
        return refuse_pair(j, one.item, after[-1].item, "overlap");
    memmove(after + 1, after, (j->n_alive - position) * sizeof *after);
    *after = one;
    j->n_alive++;
    return REMAT_OK;
}

/* ---- lives ---- */

/* Whether the next item is what the operation makes. */
static bool comes_next(const judge *j, remat_allocation_kind kind, uint32_t index, uint64_t bytes)
{
    if (j->next == j->layout->n)
        return false;
    const remat_allocation *item = &j->layout->items[j->next];
    return item->first == j->at && item->kind == kind && item->index == index &&
           item->bytes == bytes;
}

static remat_status refuse_next(const judge *j, remat_allocation_kind kind, uint32_t index,
                                uint64_t bytes)
{
    const remat_allocation wanted = {.kind = (uint8_t)kind, .index = index};
    return remat_fail(j->error, REMAT_INVALID, "allocations",
                      "allocation %" PRIu32 " is not the %s of \"%.100s\" with its %" PRIu64
                      " bytes, which operation %" PRId32 " makes",
                      j->next, remat_allocation_kind_name(kind),
                      remat_allocation_id(j->profile, &wanted), bytes, j->at);
}

/* Puts in an item that takes over the bytes of another: until the operation ends it has the larger
 * extent of the two. */
static remat_status take_over(judge *j, extent one, uint32_t lost)
{
    const remat_allocation *old = &j->layout->items[lost];
    if (old->offset != one.offset)
        return refuse_pair(j, one.item, lost, "must have one offset: in place");
    uint64_t old_end = old->offset + old->bytes;
    one.end = old_end > one.end ? old_end : one.end;
    take_out(j, lost);
    j->successor = one.item;
    return put_in(j, one);
}

/* The next item must be this one; it takes over the bytes of `lost`, unless that is NOTHING. */
static remat_status make(judge *j, remat_allocation_kind kind, uint32_t index, uint64_t bytes,
                         uint32_t lost, uint32_t *ret_item)
{
    *ret_item = NOTHING;
    if (bytes == 0)
        return REMAT_OK;
    if (!comes_next(j, kind, index, bytes))
        return refuse_next(j, kind, index, bytes);
    const remat_allocation *item = &j->layout->items[j->next];
    if (item->offset & (j->layout->alignment - 1))
        return refuse(j, j->next, "is not aligned");
    if (item->offset > j->layout->arena || bytes > j->layout->arena - item->offset)
        return refuse(j, j->next, "is not within the arena");
    extent one = {.offset = item->offset, .end = item->offset + bytes, .item = j->next};
    *ret_item = j->next++;
    return lost == NOTHING ? put_in(j, one) : take_over(j, one, lost);
}

/* The same of a result of a node, whose number the item must have. */
static remat_status make_result(judge *j, uint32_t value, uint32_t lost)
{
    uint32_t v = remat_value_node(j->profile, value), k = remat_value_number(j->profile, value);
    uint64_t bytes = remat_value_bytes(j->profile, value);
    uint32_t next = j->next;
    remat_status status = make(j, REMAT_ALLOCATION_OUT, v, bytes, lost, &j->out[value]);
    if (!status && bytes > 0 && j->layout->items[next].result != k)
        return refuse(j, next, "has a wrong number of result");
    return status;
}

static void die(judge *j, uint32_t *item)
{
    if (*item != NOTHING)
        j->dying[j->n_dying++] = *item;
    *item = NOTHING;
}

static remat_status make_workspace(judge *j, uint32_t v, uint64_t bytes)
{
    uint32_t item;
    remat_status status = make(j, REMAT_ALLOCATION_WORKSPACE, v, bytes, NOTHING, &item);
    if (!status)
        die(j, &item);
    return status;
}

static remat_status check_end(const judge *j, uint32_t item, int32_t at)
{
    return j->layout->items[item].last == at ? REMAT_OK
                                             : refuse(j, item, "has a wrong last operation");
}

/* Frees what dies; `lost` has no extent any more if a successor took it over. */
static remat_status end_operation(judge *j, uint32_t lost)
{
    for (uint32_t i = 0; i < j->n_dying; i++) {
        if (check_end(j, j->dying[i], j->at))
            return REMAT_INVALID;
        if (j->dying[i] != lost || j->successor == NOTHING)
            take_out(j, j->dying[i]);
    }
    if (j->successor != NOTHING) {
        const remat_allocation *item = &j->layout->items[j->successor];
        j->alive[find(j, item->offset)].end = item->offset + item->bytes;
    }
    j->successor = NOTHING;
    j->n_dying = 0;
    return REMAT_OK;
}

static remat_status make_inputs(judge *j, bool late)
{
    remat_status status = REMAT_OK;
    for (uint32_t k = 0; k < j->profile->n_inputs && !status; k++)
        if (j->profile->inputs[k].late == late)
            status = make(j, REMAT_ALLOCATION_INPUT, k, j->profile->inputs[k].bytes, NOTHING,
                          &j->inputs[k]);
    return status;
}

/* ---- the turn ---- */

/* Of a joint graph the first F that reads what comes late. */
static remat_status turn_before(judge *j, const remat_node *node)
{
    const remat_profile *p = j->profile;
    bool late = false;
    for (uint32_t i = 0; i < node->n_inputs && p->n_late > 0; i++) {
        uint32_t k = node->inputs[i] - p->n_nodes;
        late |= node->inputs[i] >= p->n_nodes && k < p->n_inputs && p->inputs[k].late;
    }
    if (!late || j->turn != INT32_MAX)
        return REMAT_OK;
    j->turn = j->at;
    return make_inputs(j, true);
}

/* Of a forward graph the first run of the last node and the D right behind it. */
static void turn_after(judge *j)
{
    size_t next = (size_t)j->at + 1;
    if (j->profile->joint || j->turn != INT32_MAX)
        return;
    while (next < j->operations->length && j->operations->items[next].kind == REMAT_D)
        next++;
    j->turn = (int32_t)next;
}

/* Where several are in flight: what is held within the first block, nothing across its end. */
static remat_status check_blocks(const judge *j)
{
    const remat_layout *l = j->layout;
    if (l->in_flight <= 1)
        return REMAT_OK;
    if (l->held_arena & (l->alignment - 1) || l->held_arena > l->arena / l->in_flight)
        return remat_fail(j->error, REMAT_INVALID, "held_arena",
                          "%" PRIu32 " blocks of %" PRIu64 " bytes are not aligned within %" PRIu64,
                          l->in_flight, l->held_arena, l->arena);
    for (uint32_t i = 0; i < l->n; i++) {
        const remat_allocation *item = &l->items[i];
        const bool inside = item->offset + item->bytes <= l->held_arena;
        if (item->first < j->turn && item->last >= j->turn && !inside)
            return refuse(j, i, "is held at the turn and not within the block of what is held");
        if (!inside && item->offset < l->held_arena * l->in_flight)
            return refuse(j, i, "lies in the blocks of other micro-batches");
    }
    return REMAT_OK;
}

/* ---- operations ---- */

static remat_status forward(judge *j, const remat_operation *o)
{
    uint32_t v = o->index;
    const remat_node *node = &j->profile->nodes[v];
    if (turn_before(j, node))
        return REMAT_INVALID;
    if (v + 1 == j->profile->n_nodes)
        turn_after(j);
    const remat_alternative cost = remat_implementation(node, o->alternative);
    bool save = o->kind == REMAT_A;
    uint32_t nobody = NOTHING, *taken = j->overwrites[j->at] ? &j->out[node->inputs[0]] : &nobody;
    uint32_t lost = *taken;
    remat_status status = make_result(j, v, lost);
    for (uint32_t k = 1; k < node->n_outputs && !status; k++)
        status = make_result(j, remat_result_value(j->profile, v, k), NOTHING);
    if (save)
        j->saved_bytes[v] = cost.saved_bytes;
    if (!status && save)
        status = make(j, REMAT_ALLOCATION_SAVED, v, cost.saved_bytes, NOTHING, &j->saved[v]);
    if (!status)
        status =
            make_workspace(j, v, save ? cost.save_workspace_bytes : cost.forward_workspace_bytes);
    die(j, taken);
    return status ? status : end_operation(j, lost);
}

static remat_status make_gradient(judge *j, uint32_t value, uint32_t lost)
{
    const remat_profile *p = j->profile;
    uint32_t *slot = &j->gradients[value];
    if (value < p->n_nodes)
        return make(j, REMAT_ALLOCATION_GRADIENT, value, p->nodes[value].gradient_bytes, lost,
                    slot);
    uint32_t k = value - p->n_nodes;
    return make(j, REMAT_ALLOCATION_INPUT_GRADIENT, k, p->inputs[k].gradient_bytes, lost, slot);
}

static remat_status backward(judge *j, const remat_operation *o)
{
    uint32_t v = o->index;
    const remat_node *node = &j->profile->nodes[v];
    remat_status status = REMAT_OK;
    if (node->n_consumers == 0) /* the loss */
        status = make_gradient(j, v, NOTHING);
    uint32_t own = j->gradients[v];
    for (uint32_t i = 0; i < node->n_inputs && !status; i++)
        if (j->gradients[node->inputs[i]] == NOTHING)
            status = make_gradient(j, node->inputs[i], i == 0 && node->in_place ? own : NOTHING);
    if (!status)
        status = make_workspace(
            j, v, remat_implementation(node, o->alternative).backward_workspace_bytes);
    die(j, &j->gradients[v]);
    die(j, &j->saved[v]);
    return status ? status : end_operation(j, own);
}

static remat_status fetch(judge *j, const remat_operation *o)
{
    uint32_t i = o->index;
    if (o->target == REMAT_INPUT)
        return make(j, REMAT_ALLOCATION_INPUT, i, j->profile->inputs[i].bytes, NOTHING,
                    &j->inputs[i]);
    if (o->target == REMAT_SAVED) {
        j->saved_bytes[i] = j->host_bytes[i];
        return make(j, REMAT_ALLOCATION_SAVED, i, j->saved_bytes[i], NOTHING, &j->saved[i]);
    }
    return make_result(j, remat_operation_value(j->profile, o), NOTHING);
}

static remat_status replay(judge *j, const remat_operation *o)
{
    uint32_t i = o->index, version;
    switch ((remat_operation_kind)o->kind) {
    case REMAT_F:
    case REMAT_A:
        return forward(j, o);
    case REMAT_B:
        return backward(j, o);
    case REMAT_D:
        die(j, o->target == REMAT_OUT     ? &j->out[remat_operation_value(j->profile, o)]
               : o->target == REMAT_SAVED ? &j->saved[i]
                                          : &j->inputs[i]);
        return end_operation(j, NOTHING);
    case REMAT_O:
        if (o->target == REMAT_SAVED)
            j->host_bytes[i] = j->saved_bytes[i];
        return REMAT_OK;
    case REMAT_P:
        return fetch(j, o);
    case REMAT_S:
        version = j->first_version[i] + o->version;
        return make(j, REMAT_ALLOCATION_STATE, i, j->profile->states[i].bytes, NOTHING,
                    &j->versions[version]);
    case REMAT_R:
        version = j->first_version[i] + o->version;
        if (j->last_restore[version] == (uint32_t)j->at)
            die(j, &j->versions[version]);
        return end_operation(j, NOTHING);
    }
    return refuse_operation(j, (size_t)j->at);
}

static remat_status replay_all(judge *j)
{
    remat_status status = look_ahead(j);
    j->at = -1;
    if (!status)
        status = make_inputs(j, false);
    int32_t length = (int32_t)j->operations->length;
    for (j->at = 0; j->at < length && !status; j->at++)
        status = replay(j, &j->operations->items[j->at]);
    if (!status && j->next < j->layout->n)
        status = remat_fail(j->error, REMAT_INVALID, "allocations",
                            "allocation %" PRIu32 " is made by no operation", j->next);
    for (uint32_t i = 0; i < j->n_alive && !status; i++)
        status = check_end(j, j->alive[i].item, length - 1);
    return status;
}

remat_status remat_layout_check(const remat_profile *profile, const remat_operations *operations,
                                const remat_layout *layout, remat_error *error)
{
    if (layout->alignment == 0 || (layout->alignment & (layout->alignment - 1)))
        return remat_fail(error, REMAT_INVALID, "alignment",
                          "an alignment of %" PRIu64 " is not a power of two", layout->alignment);
    if (operations->length >= INT32_MAX || layout->n >= INT32_MAX)
        return remat_fail(error, REMAT_TOO_LARGE, "operations",
                          "%zu operations with %zu allocations are too many", operations->length,
                          layout->n);
    judge j = {.profile = profile,
               .operations = operations,
               .layout = layout,
               .error = error,
               .successor = NOTHING,
               .turn = INT32_MAX};
    remat_status status = allocate(&j) ? replay_all(&j) : remat_fail_memory(error);
    if (!status)
        status = check_blocks(&j);
    free(j.memory);
    free(j.overwrites);
    free(j.alive);
    free(j.saved_bytes);
    return status;
}
