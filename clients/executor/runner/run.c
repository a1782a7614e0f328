/* One step of a plan, operation by operation. */
#include "runner.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX
enum { POISON = 0xff };

/* ---- slots ---- */

static uint32_t slot_of_value(const remat_runner *r, uint32_t value)
{
    uint32_t inputs = r->plan->profile->n_inputs;
    return value < r->n            ? value
           : value < r->n + inputs ? r->first_input + (value - r->n)
                                   : r->first_result + (value - r->n - inputs);
}

static uint32_t slot_of_result(const remat_runner *r, uint32_t v, uint32_t k)
{
    return slot_of_value(r, remat_result_value(r->plan->profile, v, k));
}

static uint32_t slot_of_item(const remat_runner *r, const remat_allocation *item)
{
    switch ((remat_allocation_kind)item->kind) {
    case REMAT_ALLOCATION_OUT:
        return slot_of_result(r, item->index, item->result);
    case REMAT_ALLOCATION_SAVED:
        return r->n + item->index;
    case REMAT_ALLOCATION_GRADIENT:
        return r->first_gradient + item->index;
    case REMAT_ALLOCATION_INPUT_GRADIENT:
        return r->first_gradient + r->n + item->index;
    case REMAT_ALLOCATION_INPUT:
        return r->first_input + item->index;
    case REMAT_ALLOCATION_WORKSPACE:
    case REMAT_ALLOCATION_STATE:
        break;
    }
    return NONE;
}

uint32_t runner_slot_of_target(const remat_runner *r, const remat_operation *operation)
{
    return operation->target == REMAT_INPUT ? r->first_input + operation->index
           : operation->target == REMAT_SAVED
               ? r->n + operation->index
               : slot_of_result(r, operation->index, operation->version);
}

static void *place_of(const remat_runner *r, uint32_t item)
{
    return item == NONE ? NULL : r->arena + r->plan->layout.items[item].offset;
}

static void *address(const remat_runner *r, uint32_t slot)
{
    return place_of(r, r->alive[slot]);
}

/* ---- failing ---- */

const char *runner_name_of(const remat_runner *r, const remat_operation *operation)
{
    const remat_profile *profile = r->plan->profile;
    if (operation->kind == REMAT_S || operation->kind == REMAT_R)
        return profile->states[operation->index].id;
    return operation->target == REMAT_INPUT ? profile->inputs[operation->index].id
                                            : profile->nodes[operation->index].id;
}

static remat_status check(const remat_runner *r, int code, remat_error *error)
{
    if (!code)
        return REMAT_OK;
    const remat_operation *operation = &r->plan->operations.items[r->at];
    return remat_fail(error, REMAT_INTERNAL, NULL,
                      "operation %zu (%s of \"%.100s\"): the call returned %d%s", r->at,
                      remat_operation_name((remat_operation_kind)operation->kind),
                      runner_name_of(r, operation), code, remat_exec_fault(r->backend));
}

/* ---- items come and go ---- */

static bool ends_here(const remat_runner *r, const remat_allocation *item)
{
    return item->last == (int32_t)r->at;
}

/* An item that is made where another one ends at the same place and operation takes over its bytes
 * (in place): none of them may be filled. */
static const remat_allocation *overlapped(const remat_runner *r, const remat_allocation *item)
{
    for (uint32_t i = r->ended; i < r->plan->layout.n; i++) {
        const remat_allocation *other = &r->plan->layout.items[r->ending[i]];
        if (!ends_here(r, other))
            return NULL;
        if (other != item && other->offset == item->offset && other->first < item->first)
            return other;
    }
    return NULL;
}

static remat_status poison(const remat_runner *r, uint64_t offset, uint64_t bytes,
                           remat_error *error)
{
    const remat_exec_backend *b = r->backend;
    if (!(r->flags & REMAT_EXEC_POISON) || bytes == 0)
        return REMAT_OK;
    return check(r, b->fill(b->data, r->arena + offset, POISON, bytes), error);
}

/* Makes the items of the operation; the workspace's, if there is one, in *ret_workspace. */
static remat_status make_items(remat_runner *r, uint32_t *ret_workspace, uint32_t *ret_state,
                               remat_error *error)
{
    const remat_layout *layout = &r->plan->layout;
    remat_status status = REMAT_OK;
    *ret_workspace = *ret_state = NONE;
    for (; r->begun < layout->n && layout->items[r->begun].first == (int32_t)r->at && !status;
         r->begun++) {
        const remat_allocation *item = &layout->items[r->begun];
        uint32_t slot = slot_of_item(r, item);
        if (slot != NONE)
            r->alive[slot] = r->begun;
        else
            *(item->kind == REMAT_ALLOCATION_STATE ? ret_state : ret_workspace) = r->begun;
        if (!overlapped(r, item))
            status = poison(r, item->offset, item->bytes, error);
    }
    return status;
}

/* The bytes of an ended item that nothing has taken over. */
static remat_status clear_bytes(const remat_runner *r, const remat_allocation *item,
                                remat_error *error)
{
    uint64_t from = 0;
    const remat_allocation *items = r->plan->layout.items;
    for (uint32_t i = r->begun; i-- > 0 && items[i].first == (int32_t)r->at;)
        if (&items[i] != item && items[i].offset == item->offset && !ends_here(r, &items[i]))
            from = items[i].bytes;
    return from < item->bytes ? poison(r, item->offset + from, item->bytes - from, error)
                              : REMAT_OK;
}

static void forget_version(remat_runner *r, uint32_t item)
{
    for (uint32_t i = 0; i < r->n_versions; i++)
        if (r->version_items[i] == item) {
            r->version_items[i] = r->version_items[--r->n_versions];
            r->version_operations[i] = r->version_operations[r->n_versions];
            return;
        }
}

static remat_status end_items(remat_runner *r, remat_error *error)
{
    const remat_layout *layout = &r->plan->layout;
    remat_status status = REMAT_OK;
    for (; r->ended < layout->n && ends_here(r, &layout->items[r->ending[r->ended]]) && !status;
         r->ended++) {
        uint32_t item = r->ending[r->ended];
        uint32_t slot = slot_of_item(r, &layout->items[item]);
        if (slot != NONE && r->alive[slot] == item)
            r->alive[slot] = NONE;
        if (layout->items[item].kind == REMAT_ALLOCATION_STATE)
            forget_version(r, item);
        status = clear_bytes(r, &layout->items[item], error);
    }
    return status;
}

/* ---- the guard ---- */

/* Whether bytes from .. to - 1 of the arena are poison still; else *ret_at is the first that is
 * not. */
static remat_status untouched(const remat_runner *r, uint64_t from, uint64_t to, bool *ret_clean,
                              uint64_t *ret_at, remat_error *error)
{
    uint8_t *bytes = r->watched;
    if (from >= to)
        return REMAT_OK;
    int code = r->backend->copy_out(r->backend->data, bytes + from, r->arena + from, to - from);
    *ret_clean = !code && bytes[from] == POISON &&
                 memcmp(bytes + from, bytes + from + 1, to - from - 1) == 0;
    for (*ret_at = from; !code && !*ret_clean && bytes[*ret_at] == POISON;)
        ++*ret_at;
    return check(r, code, error);
}

/* Between the items that are alive after the operation nothing may have been written. */
static remat_status guard(const remat_runner *r, remat_error *error)
{
    const remat_layout *layout = &r->plan->layout;
    uint64_t end = 0, at = 0;
    bool clean = true;
    remat_status status = REMAT_OK;
    for (uint32_t i = 0; i < layout->n && clean && !status; i++) {
        const remat_allocation *item = &layout->items[r->by_offset[i]];
        if (item->first > (int32_t)r->at || item->last <= (int32_t)r->at)
            continue;
        status = untouched(r, end, item->offset, &clean, &at, error);
        end = item->offset + item->bytes > end ? item->offset + item->bytes : end;
    }
    if (clean && !status)
        status = untouched(r, end, runner_bytes(r), &clean, &at, error);
    if (clean || status)
        return status;
    const remat_operation *operation = &r->plan->operations.items[r->at];
    return remat_fail(
        error, REMAT_INTERNAL, NULL,
        "operation %zu (%s of \"%.100s\") wrote byte %llu of the arena, which belongs "
        "to nothing",
        r->at, remat_operation_name((remat_operation_kind)operation->kind),
        runner_name_of(r, operation), (unsigned long long)at);
}

/* ---- copies ---- */

static remat_status await(const remat_runner *r, uint32_t *tickets, uint32_t slot,
                          remat_error *error)
{
    uint32_t ticket = tickets[slot];
    if (ticket == NONE)
        return REMAT_OK;
    tickets[slot] = NONE;
    return check(r, r->backend->wait(r->backend->data, ticket), error);
}

/* Before a value is read. */
static remat_status arrived(const remat_runner *r, uint32_t slot, remat_error *error)
{
    return await(r, r->arriving, slot, error);
}

/* Before a value's bytes are given up or overwritten. */
static remat_status left(const remat_runner *r, uint32_t slot, remat_error *error)
{
    remat_status status = await(r, r->leaving, slot, error);
    return status ? status : await(r, r->arriving, slot, error);
}

/* Waits for the copies of everything that ends at this operation. */
static remat_status let_leave(const remat_runner *r, remat_error *error)
{
    const remat_layout *layout = &r->plan->layout;
    remat_status status = REMAT_OK;
    for (uint32_t i = r->ended; i < layout->n && !status; i++) {
        const remat_allocation *item = &layout->items[r->ending[i]];
        if (!ends_here(r, item))
            break;
        uint32_t slot = slot_of_item(r, item);
        if (slot != NONE && r->alive[slot] == r->ending[i])
            status = left(r, slot, error);
    }
    return status;
}

static remat_status copy(remat_runner *r, const remat_operation *operation, remat_error *error)
{
    const remat_exec_backend *b = r->backend;
    uint32_t slot = runner_slot_of_target(r, operation), item = r->alive[slot];
    uint64_t bytes = item == NONE ? 0 : r->plan->layout.items[item].bytes;
    uint32_t ticket = r->ticket++;
    if (bytes == 0)
        return REMAT_OK;
    int code;
    if (operation->kind == REMAT_O) {
        remat_status status = arrived(r, slot, error);
        if (status)
            return status;
        code = b->start_out(b->data, r->host[slot], address(r, slot), bytes, ticket);
        r->leaving[slot] = ticket;
    } else {
        code = b->start_in(b->data, address(r, slot), r->host[slot], bytes, ticket);
        r->arriving[slot] = ticket;
    }
    return check(r, code, error);
}

/* ---- calls ---- */

/* The values of a node's inputs, waited for. */
static remat_status gather_inputs(const remat_runner *r, const remat_node *node, remat_error *error)
{
    remat_status status = REMAT_OK;
    for (uint32_t i = 0; i < node->n_inputs && !status; i++) {
        uint32_t slot = slot_of_value(r, node->inputs[i]);
        status = arrived(r, slot, error);
        r->inputs[i] = address(r, slot);
    }
    return status;
}

static remat_status forward(remat_runner *r, const remat_operation *operation, uint32_t workspace,
                            remat_error *error)
{
    uint32_t v = operation->index;
    const remat_node *node = &r->plan->profile->nodes[v];
    const remat_alternative costs = remat_implementation(node, operation->alternative);
    remat_status status = gather_inputs(r, node, error);
    if (!status)
        status = let_leave(r, error);
    if (status)
        return status;
    bool save = operation->kind == REMAT_A;
    for (uint32_t k = 0; k < node->n_outputs; k++)
        r->outputs[k] = address(r, slot_of_result(r, v, k));
    const remat_exec_call call = {.node = v,
                                  .alternative = operation->alternative,
                                  .save = save,
                                  .again = r->ran[v],
                                  .inputs = r->inputs,
                                  .output = r->outputs[0],
                                  .outputs = r->outputs,
                                  .saved = save ? address(r, r->n + v) : NULL,
                                  .workspace = place_of(r, workspace),
                                  .workspace_bytes = save ? costs.save_workspace_bytes
                                                          : costs.forward_workspace_bytes};
    r->ran[v] = true;
    return check(r, r->network->forward(r->network->data, &call), error);
}

static void gather_gradients(const remat_runner *r, const remat_node *node)
{
    const remat_layout *layout = &r->plan->layout;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        uint32_t item = r->alive[r->first_gradient + node->inputs[i]];
        r->gradients[i] = place_of(r, item);
        r->accumulate[i] = item != NONE && layout->items[item].first < (int32_t)r->at;
    }
}

static remat_status backward(remat_runner *r, const remat_operation *operation, uint32_t workspace,
                             remat_error *error)
{
    uint32_t v = operation->index;
    const remat_node *node = &r->plan->profile->nodes[v];
    remat_status status = REMAT_OK;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        r->inputs[i] = NULL;
    if (node->backward_uses_inputs)
        status = gather_inputs(r, node, error);
    if (!status && node->backward_uses_output)
        status = arrived(r, v, error);
    if (!status)
        status = arrived(r, r->n + v, error);
    if (!status)
        status = let_leave(r, error);
    if (status)
        return status;
    gather_gradients(r, node);
    const remat_exec_call call = {
        .node = v,
        .alternative = operation->alternative,
        .inputs = r->inputs,
        .output = node->backward_uses_output ? address(r, v) : NULL,
        .saved = address(r, r->n + v),
        .gradient = address(r, r->first_gradient + v),
        .input_gradients = r->gradients,
        .accumulate = r->accumulate,
        .workspace = place_of(r, workspace),
        .workspace_bytes =
            remat_implementation(node, operation->alternative).backward_workspace_bytes};
    return check(r, r->network->backward(r->network->data, &call), error);
}

static remat_status save_version(remat_runner *r, const remat_operation *operation, uint32_t item,
                                 remat_error *error)
{
    if (item != NONE) {
        r->version_items[r->n_versions] = item;
        r->version_operations[r->n_versions++] = (uint32_t)r->at;
    }
    return check(r, r->network->save_state(r->network->data, operation->index, place_of(r, item)),
                 error);
}

static remat_status restore_version(remat_runner *r, const remat_operation *operation,
                                    remat_error *error)
{
    const void *from = NULL;
    for (uint32_t i = 0; i < r->n_versions; i++) {
        const remat_operation *made = &r->plan->operations.items[r->version_operations[i]];
        if (made->index == operation->index && made->version == operation->version)
            from = place_of(r, r->version_items[i]);
    }
    return check(r, r->network->restore_state(r->network->data, operation->index, from), error);
}

static remat_status run_operation(remat_runner *r, remat_error *error)
{
    const remat_operation *operation = &r->plan->operations.items[r->at];
    uint32_t workspace, state;
    remat_status status = make_items(r, &workspace, &state, error);
    if (status)
        return status;
    switch ((remat_operation_kind)operation->kind) {
    case REMAT_F:
    case REMAT_A:
        return forward(r, operation, workspace, error);
    case REMAT_B:
        return backward(r, operation, workspace, error);
    case REMAT_D:
        return left(r, runner_slot_of_target(r, operation), error);
    case REMAT_O:
    case REMAT_P:
        return copy(r, operation, error);
    case REMAT_S:
        return save_version(r, operation, state, error);
    case REMAT_R:
        break;
    }
    return restore_version(r, operation, error);
}

/* ---- a step ---- */

static remat_status begin_step(remat_runner *r, remat_error *error)
{
    const remat_layout *layout = &r->plan->layout;
    const remat_exec_backend *b = r->backend;
    memset(r->alive, 0xff, r->n_slots * sizeof *r->alive);
    memset(r->leaving, 0xff, r->n_slots * sizeof *r->leaving);
    memset(r->arriving, 0xff, r->n_slots * sizeof *r->arriving);
    memset(r->ran, 0, r->n * sizeof *r->ran);
    r->at = 0;
    r->ended = r->ticket = r->n_versions = 0;
    remat_status status = poison(r, 0, runner_bytes(r), error);
    for (r->begun = 0; r->begun < layout->n && layout->items[r->begun].first < 0 && !status;
         r->begun++) {
        const remat_allocation *item = &layout->items[r->begun];
        r->alive[r->first_input + item->index] = r->begun;
        status = check(r,
                       b->copy_in(b->data, r->arena + item->offset,
                                  r->network->graph_inputs[item->index], item->bytes),
                       error);
    }
    return status;
}

remat_status remat_runner_step(remat_runner *r, remat_error *error)
{
    size_t length = r->plan->operations.length;
    remat_status status = begin_step(r, error);
    for (; r->at < length && !status; r->at += !status) {
        status = run_operation(r, error);
        /* what lives to the end of the list stays for those who read it after the step */
        if (!status && r->at + 1 < length)
            status = end_items(r, error);
        if (!status && r->at + 1 < length && (r->flags & REMAT_EXEC_GUARD))
            status = guard(r, error);
    }
    r->at = r->at < length ? r->at : length - 1;
    int code = r->backend->finish(r->backend->data);
    return status ? status : check(r, code, error);
}

const void *remat_runner_input_gradient(const remat_runner *r, uint32_t input)
{
    return address(r, r->first_gradient + r->n + input);
}

const void *remat_runner_output(const remat_runner *r, uint32_t k)
{
    return address(r, slot_of_value(r, r->plan->profile->outputs[k]));
}

uint64_t remat_runner_arena(const remat_runner *r)
{
    return r->plan->layout.arena;
}
