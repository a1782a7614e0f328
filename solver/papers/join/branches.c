#include "papers/join/branches.h"

#include <stdlib.h>
#include <string.h>

static bool branch_new(model_arena *arena, uint32_t length, uint32_t width, join_branch *b)
{
    size_t n = (size_t)length + 1;
    uint64_t *bytes = model_arena_array(arena, n, 6 * sizeof *bytes);
    double *times = model_arena_array(arena, n, 2 * sizeof *times);
    *b = (join_branch){.length = length, .width = width};
    b->uses_output = model_arena_array(arena, n, sizeof *b->uses_output);
    b->nodes = model_arena_array(arena, n * width, sizeof *b->nodes);
    if (!bytes || !times || !b->uses_output || !b->nodes)
        return false;
    b->output = bytes;
    b->held = bytes + n;
    b->made = bytes + 2 * n;
    b->saved = bytes + 3 * n;
    b->forward_workspace = bytes + 4 * n;
    b->save_workspace = bytes + 5 * n;
    b->forward = times;
    b->backward = times + n;
    return true;
}

/* ---- from the profile ---- */

/* The node that feeds v, or JOIN_NONE. */
static uint32_t node_before(const remat_profile *profile, uint32_t v)
{
    for (uint32_t i = 0; i < profile->nodes[v].n_inputs; i++)
        if (profile->nodes[v].inputs[i] < profile->n_nodes)
            return profile->nodes[v].inputs[i];
    return JOIN_NONE;
}

/* Bytes of graph inputs' gradients that start at the backward of each node: of those inputs that
 * one branch alone reads. The others are constant. */
static void start_gradients(join_costs *join, const uint32_t *branch_of, uint64_t *starts)
{
    const remat_profile *profile = join->profile;
    for (uint32_t k = 0; k < profile->n_inputs; k++) {
        const remat_input *input = &profile->inputs[k];
        bool one = input->n_consumers > 0;
        for (uint32_t i = 0; i < input->n_consumers; i++)
            one = one && input->consumers[i] != join->loss &&
                  branch_of[input->consumers[i]] == branch_of[input->consumers[0]];
        if (one)
            starts[input->consumers[input->n_consumers - 1]] += input->gradient_bytes;
        else if (input->n_consumers > 0 && input->gradient_bytes > 0) {
            join->constant_bytes += input->gradient_bytes;
            join->shared_gradients = true;
        }
    }
}

/* An A that saves nothing may take less workspace than the F that the model has in its place. */
static bool forward_is_least(const remat_node *node)
{
    return node->saved_bytes > 0 || node->save_workspace_bytes >= node->forward_workspace_bytes;
}

static void fill_branch(const remat_profile *profile, const uint64_t *starts, join_branch *b)
{
    uint64_t later = 0;
    b->plain = true;
    for (uint32_t i = b->length; i-- > 0;) {
        const remat_node *node = &profile->nodes[b->nodes[i]];
        uint64_t before = i > 0 ? profile->nodes[b->nodes[i - 1]].gradient_bytes : 0;
        b->output[i + 1] = node->output_bytes;
        b->held[i + 1] = node->gradient_bytes + later;
        later += starts[b->nodes[i]];
        b->made[i] = before + starts[b->nodes[i]] + node->backward_workspace_bytes;
        b->saved[i] = node->saved_bytes;
        b->forward_workspace[i] = node->forward_workspace_bytes;
        b->save_workspace[i] =
            node->saved_bytes ? node->save_workspace_bytes : node->forward_workspace_bytes;
        b->forward[i] = node->forward_time;
        b->backward[i] = node->backward_time;
        b->uses_output[i] = node->backward_uses_output;
        b->plain = b->plain && !node->in_place && node->backward_uses_inputs &&
                   !node->backward_uses_output && node->saved_bytes == 0 &&
                   forward_is_least(node) && (i == 0 || starts[b->nodes[i]] == 0) &&
                   b->output[i + 1] == b->output[b->length] &&
                   node->gradient_bytes == profile->nodes[b->nodes[b->length - 1]].gradient_bytes;
    }
    b->held[0] = later;
    b->plain = b->plain && later <= b->held[b->length];
}

static bool add_branch(join_costs *join, uint32_t last, uint32_t *branch_of)
{
    join_branch *b = &join->branches[join->k];
    uint32_t length = 0;
    for (uint32_t v = last; v != JOIN_NONE; v = node_before(join->profile, v))
        length++;
    if (!branch_new(&join->arena, length, 1, b))
        return false;
    for (uint32_t v = last; v != JOIN_NONE; v = node_before(join->profile, v)) {
        b->nodes[--length] = v;
        branch_of[v] = join->k;
    }
    join->k++;
    return true;
}

static void fill_loss(join_costs *join)
{
    const remat_node *loss = &join->profile->nodes[join->loss];
    join->loss_output = loss->output_bytes + loss->saved_bytes;
    join->loss_kept = loss->saved_bytes + (loss->backward_uses_output ? loss->output_bytes : 0);
    join->loss_forward =
        loss->saved_bytes ? loss->save_workspace_bytes : loss->forward_workspace_bytes;
    join->loss_backward = loss->gradient_bytes + loss->backward_workspace_bytes;
    join->loss_time = loss->forward_time + loss->backward_time;
}

static bool find_branches(join_costs *join)
{
    const remat_profile *profile = join->profile;
    const remat_node *loss = &profile->nodes[join->loss];
    uint32_t *branch_of = model_arena_array(&join->arena, profile->n_nodes, sizeof *branch_of);
    uint64_t *starts = model_arena_array(&join->arena, profile->n_nodes, sizeof *starts);
    join->branches =
        model_arena_array(&join->arena, (size_t)loss->n_inputs + 1, sizeof *join->branches);
    if (!branch_of || !starts || !join->branches)
        return false;
    for (uint32_t i = 0; i < loss->n_inputs; i++)
        if (loss->inputs[i] < profile->n_nodes && !add_branch(join, loss->inputs[i], branch_of))
            return false;
    start_gradients(join, branch_of, starts);
    for (uint32_t j = 0; j < join->k; j++)
        fill_branch(profile, starts, &join->branches[j]);
    return true;
}

remat_status join_new(const remat_profile *profile, join_costs **ret_join, remat_error *error)
{
    join_costs *join = calloc(1, sizeof *join);
    if (!join)
        return remat_fail_memory(error);
    join->profile = profile;
    join->loss = profile->n_nodes - 1;
    join->constant_bytes = profile->input_bytes;
    fill_loss(join);
    if (!find_branches(join)) {
        join_free(join);
        return remat_fail_memory(error);
    }
    *ret_join = join;
    return REMAT_OK;
}

void join_free(join_costs *join)
{
    if (!join)
        return;
    model_arena_clear(&join->arena);
    free(join);
}

/* ---- merging ---- */

/* Adds branch b as column a of the merged one; values further from the turn than its first are its
 * gradients at x_0 alone. */
static void add_column(join_branch *to, const join_branch *b, uint32_t a)
{
    uint32_t late = to->length - b->length;
    for (uint32_t i = 0; i <= to->length; i++) {
        uint32_t own = i < late ? 0 : i - late;
        to->output[i] += b->output[own];
        to->held[i] += b->held[own];
        if (i == to->length)
            continue;
        to->nodes[(size_t)i * to->width + a] = i < late ? JOIN_NONE : b->nodes[own];
        if (i < late)
            continue;
        to->made[i] += b->made[own];
        to->saved[i] += b->saved[own];
        to->forward_workspace[i] =
            model_larger(to->forward_workspace[i], b->forward_workspace[own]);
        to->save_workspace[i] = model_larger(to->save_workspace[i], b->save_workspace[own]);
        to->forward[i] += b->forward[own];
        to->backward[i] += b->backward[own];
        to->uses_output[i] = to->uses_output[i] || b->uses_output[own];
    }
}

/* members: n branches. */
static bool merge_group(const join_costs *join, const uint32_t *members, uint32_t n,
                        model_arena *arena, join_branch *to)
{
    uint32_t length = 0;
    for (uint32_t a = 0; a < n; a++)
        if (join->branches[members[a]].length > length)
            length = join->branches[members[a]].length;
    if (!branch_new(arena, length, n, to))
        return false;
    for (uint32_t a = 0; a < n; a++)
        add_column(to, &join->branches[members[a]], a);
    to->plain = n == 1 && join->branches[members[0]].plain;
    return true;
}

/* Group g has members[start[g]] and those that follow, to start[g + 1]. */
static remat_status merge_groups(const join_costs *join, const uint32_t *members,
                                 const uint32_t *start, uint32_t n_groups, join_costs **ret_join,
                                 remat_error *error)
{
    join_costs *merged = malloc(sizeof *merged);
    if (!merged)
        return remat_fail_memory(error);
    *merged = *join;
    merged->arena = (model_arena){0};
    merged->k = n_groups;
    merged->branches =
        model_arena_array(&merged->arena, (size_t)n_groups + 1, sizeof *merged->branches);
    bool done = merged->branches != NULL;
    for (uint32_t g = 0; g < n_groups && done; g++)
        done = merge_group(join, members + start[g], start[g + 1] - start[g], &merged->arena,
                           &merged->branches[g]);
    if (!done) {
        join_free(merged);
        return remat_fail_memory(error);
    }
    *ret_join = merged;
    return REMAT_OK;
}

/* Branches by group, in their order; start has n_groups + 2 entries that are 0. */
static void sort_members(const uint32_t *group, uint32_t k, uint32_t n_groups, uint32_t *start,
                         uint32_t *members)
{
    for (uint32_t j = 0; j < k; j++)
        start[group[j] + 2]++;
    for (uint32_t g = 2; g < n_groups + 2; g++)
        start[g] += start[g - 1];
    for (uint32_t j = 0; j < k; j++)
        members[start[group[j] + 1]++] = j;
}

remat_status join_merge(const join_costs *join, const uint32_t *group, uint32_t n_groups,
                        join_costs **ret_join, remat_error *error)
{
    uint32_t *start = calloc((size_t)n_groups + 2 + join->k, sizeof *start);
    if (!start)
        return remat_fail_memory(error);
    uint32_t *members = start + n_groups + 2;
    sort_members(group, join->k, n_groups, start, members);
    remat_status status = merge_groups(join, members, start, n_groups, ret_join, error);
    free(start);
    return status;
}

remat_status join_alone(const join_costs *join, uint32_t branch, join_costs **ret_join,
                        remat_error *error)
{
    const uint32_t start[] = {0, 1};
    return merge_groups(join, &branch, start, 1, ret_join, error);
}

/* ---- facts ---- */

bool join_exact(const join_costs *join)
{
    const remat_node *loss = &join->profile->nodes[join->loss];
    uint64_t backward = join->loss_kept + join->loss_backward;
    if (join->shared_gradients || loss->in_place || !forward_is_least(loss))
        return false;
    for (uint32_t j = 0; j < join->k; j++) {
        if (!join->branches[j].plain)
            return false;
        backward += join->branches[j].held[join->branches[j].length];
    }
    uint64_t turn = model_larger(join->loss_output + join->loss_forward, backward);
    for (uint32_t j = 0; j < join->k; j++)
        for (uint32_t i = 0; i < join->branches[j].length; i++)
            if (join->branches[j].output[i] + join->branches[j].forward_workspace[i] > turn)
                return false;
    return true;
}

static uint64_t divisor(uint64_t a, uint64_t b)
{
    while (b > 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

uint64_t join_unit(const join_costs *join)
{
    uint64_t unit = divisor(join->loss_output, join->loss_forward);
    unit = divisor(divisor(unit, join->loss_kept), join->loss_backward);
    for (uint32_t j = 0; j < join->k; j++) {
        const join_branch *b = &join->branches[j];
        for (uint32_t i = 0; i <= b->length; i++) {
            unit = divisor(divisor(unit, b->output[i]), b->held[i]);
            unit = divisor(divisor(unit, b->made[i]), b->saved[i]);
            unit = divisor(divisor(unit, b->forward_workspace[i]), b->save_workspace[i]);
        }
    }
    return unit > 0 ? unit : 1;
}

remat_status join_push_turn(const join_costs *join, remat_operations *operations)
{
    const remat_node *loss = &join->profile->nodes[join->loss];
    remat_operation_kind first = loss->backward_uses_output ? REMAT_B : REMAT_D;
    remat_operation_kind second = loss->backward_uses_output ? REMAT_D : REMAT_B;
    remat_status status = remat_push(operations, loss->saved_bytes ? REMAT_A : REMAT_F, join->loss);
    if (!status)
        status = remat_push(operations, first, join->loss);
    return status ? status : remat_push(operations, second, join->loss);
}

/* ---- measuring ---- */

/* What B of a node allocates; marks the gradients. */
static uint64_t start_backward(const remat_profile *profile, const remat_node *node, bool *gradient)
{
    uint64_t bytes = node->n_consumers == 0 ? node->gradient_bytes : 0;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        uint32_t value = node->inputs[i];
        if (gradient[value])
            continue;
        gradient[value] = true;
        bytes += remat_gradient_bytes(profile, value);
    }
    return bytes;
}

static void measure(const remat_profile *profile, const remat_operations *operations,
                    bool *gradient, bool *saved, uint64_t *ret_bytes, double *ret_time)
{
    uint64_t memory = profile->input_bytes, peak = memory;
    double time = 0;
    for (size_t n = 0; n < operations->length; n++) {
        uint32_t v = operations->items[n].index;
        const remat_node *node = &profile->nodes[v];
        bool saves = operations->items[n].kind == REMAT_A;
        switch (operations->items[n].kind) {
        case REMAT_F:
        case REMAT_A:
            memory += node->output_bytes + (saves ? node->saved_bytes : 0);
            saved[v] = saved[v] || saves;
            peak = model_larger(peak, memory + (saves ? node->save_workspace_bytes
                                                      : node->forward_workspace_bytes));
            time += node->forward_time;
            break;
        case REMAT_B:
            memory += start_backward(profile, node, gradient);
            peak = model_larger(peak, memory + node->backward_workspace_bytes);
            memory -= node->gradient_bytes + (saved[v] ? node->saved_bytes : 0);
            saved[v] = false;
            time += node->backward_time;
            break;
        default:
            if (operations->items[n].target == REMAT_OUT) {
                memory -= node->output_bytes;
                break;
            }
            memory -= saved[v] ? node->saved_bytes : 0;
            saved[v] = false;
        }
    }
    *ret_bytes = peak;
    *ret_time = time;
}

remat_status join_measure(const remat_profile *profile, const remat_operations *operations,
                          uint64_t *ret_bytes, double *ret_time, remat_error *error)
{
    bool *gradient = calloc((size_t)profile->n_nodes + profile->n_inputs, sizeof *gradient);
    bool *saved = calloc(profile->n_nodes, sizeof *saved);
    if (gradient && saved)
        measure(profile, operations, gradient, saved, ret_bytes, ret_time);
    remat_status status = gradient && saved ? REMAT_OK : remat_fail_memory(error);
    free(gradient);
    free(saved);
    return status;
}
