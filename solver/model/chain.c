/* The chain view: see chain.h. Ticks: if some power of ten makes every time of the profile an
 * integer (decimal times, the usual case) ticks are exact; otherwise times are rounded down to a
 * power of two so small that the costliest schedule of the dynamic program stays below 2^60. */
#include "model/chain.h"

#include "model/chain_implementations.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_DECIMALS = 9 };
enum { TICK_BITS = 60 }; /* the costliest schedule takes fewer than 2^60 ticks */

/* Costliest persistent schedule: F^i runs at most once for every backward from stage i on. */
static double costliest(const remat_profile *profile)
{
    double sum = 0;
    for (uint32_t v = 0; v < profile->n_nodes; v++) {
        double forward = 0, backward = 0;
        for (uint32_t k = 0; k <= profile->nodes[v].n_alternatives; k++) {
            const remat_alternative cost = remat_implementation(&profile->nodes[v], k);
            forward = fmax(forward, cost.forward_time);
            backward = fmax(backward, cost.backward_time);
        }
        sum += forward * (double)(profile->n_nodes - v) + backward;
    }
    return sum;
}

/* The least e with (largest time) x (n+1)^2 <= 2^e, which bounds costliest even where it overflows.
 */
static int costliest_exponent(const remat_profile *profile)
{
    double largest = 0;
    for (uint32_t v = 0; v < profile->n_nodes; v++)
        for (uint32_t k = 0; k <= profile->nodes[v].n_alternatives; k++) {
            const remat_alternative cost = remat_implementation(&profile->nodes[v], k);
            largest = fmax(largest, fmax(cost.forward_time, cost.backward_time));
        }
    int of_time = 0, of_count = 0;
    (void)frexp(largest, &of_time);
    (void)frexp((double)profile->n_nodes + 1, &of_count);
    return of_time + 2 * of_count;
}

static bool is_integer_at(double time, double scale)
{
    double ticks = nearbyint(time * scale);
    return ticks / scale == time;
}

static bool all_integer_at(const remat_profile *profile, double scale)
{
    for (uint32_t v = 0; v < profile->n_nodes; v++)
        for (uint32_t k = 0; k <= profile->nodes[v].n_alternatives; k++) {
            const remat_alternative cost = remat_implementation(&profile->nodes[v], k);
            if (!is_integer_at(cost.forward_time, scale) ||
                !is_integer_at(cost.backward_time, scale))
                return false;
        }
    return true;
}

static void choose_ticks(const remat_profile *profile, chain_costs *chain)
{
    double most = costliest(profile);
    double scale = 1, max_ticks = ldexp(1, TICK_BITS);
    for (int decimals = 0; decimals <= MAX_DECIMALS; decimals++, scale *= 10) {
        if (!(most * scale < max_ticks))
            break;
        if (all_integer_at(profile, scale)) {
            chain->ticks_per_time = scale;
            chain->exact_ticks = true;
            return;
        }
    }
    int exponent = TICK_BITS - costliest_exponent(profile);
    chain->ticks_per_time = ldexp(1, exponent > 1000 ? 1000 : exponent);
    chain->exact_ticks = all_integer_at(profile, chain->ticks_per_time);
}

int64_t chain_ticks(const chain_costs *chain, double time)
{
    double ticks = time * chain->ticks_per_time;
    return (int64_t)(chain->exact_ticks ? nearbyint(ticks) : floor(ticks));
}

/* e_i: bytes of the input gradients that start at B^i, at index i. */
static void input_gradients(const remat_profile *profile, uint64_t *starts)
{
    for (uint32_t k = 0; k < profile->n_inputs; k++) {
        const remat_input *input = &profile->inputs[k];
        if (input->n_consumers > 0)
            starts[input->consumers[input->n_consumers - 1] + 1] += input->gradient_bytes;
    }
}

static bool allocate(chain_costs *chain, size_t length)
{
    uint64_t *bytes = model_arena_array(&chain->arena, length, 6 * sizeof *bytes);
    int64_t *ticks = model_arena_array(&chain->arena, length, 4 * sizeof *ticks);
    chain->direct = model_arena_array(&chain->arena, length, sizeof *chain->direct);
    chain->stages = model_arena_array(&chain->arena, length, sizeof *chain->stages);
    if (!bytes || !ticks || !chain->direct || !chain->stages)
        return false;
    chain->output = bytes;
    chain->kept = bytes + length;
    chain->forward_workspace = bytes + 2 * length;
    chain->save_workspace = bytes + 3 * length;
    chain->held = bytes + 4 * length;
    chain->backward_bytes = bytes + 5 * length;
    chain->forward = ticks;
    chain->backward = ticks + length;
    chain->forward_sum = ticks + 2 * length;
    chain->total_sum = ticks + 3 * length;
    return true;
}

static void fill_stage(const remat_profile *profile, chain_costs *c, uint32_t i)
{
    const remat_node *node = &profile->nodes[i - 1];
    c->output[i] = node->output_bytes;
    c->kept[i] = node->output_bytes + node->saved_bytes;
    c->forward_workspace[i] = node->forward_workspace_bytes;
    c->save_workspace[i] = node->save_workspace_bytes;
    c->forward[i] = chain_ticks(c, node->forward_time);
    c->backward[i] = chain_ticks(c, node->backward_time);
    c->forward_sum[i] = c->forward_sum[i - 1] + c->forward[i];
    c->total_sum[i] = c->total_sum[i - 1] + c->forward[i] + c->backward[i];
    c->direct[i] = i < c->n && node->saved_bytes == 0 && !node->backward_uses_output;
}

/* From the last stage down: E_t is summed on the way. held holds e_i before. */
static void fill_gradients(const remat_profile *profile, chain_costs *c)
{
    uint64_t later = 0;
    uint64_t *starts = c->held;
    for (uint32_t i = c->n; i > 0; i--) {
        const remat_node *node = &profile->nodes[i - 1];
        uint64_t before = later;
        later += starts[i];
        uint64_t previous = i > 1 ? profile->nodes[i - 2].gradient_bytes : 0;
        c->backward_bytes[i] =
            node->gradient_bytes + previous + later + node->backward_workspace_bytes;
        c->held[i] = i < c->n ? node->gradient_bytes + before : 0;
    }
    c->held[0] = later;
}

uint64_t chain_bytes(uint32_t n, uint32_t n_alternatives)
{
    uint64_t implementation =
        sizeof(chain_implementation) + 2 * sizeof(chain_single) + sizeof(chain_double);
    uint64_t stage = 10 * sizeof(uint64_t) + sizeof(bool) + sizeof(chain_stage) + implementation;
    return sizeof(chain_costs) + ((uint64_t)n + 1) * stage + n_alternatives * implementation +
           16384;
}

remat_status chain_new(const remat_profile *profile, chain_costs **ret_chain, remat_error *error)
{
    chain_costs *chain = calloc(1, sizeof *chain);
    if (!chain)
        return remat_fail_memory(error);
    if (!allocate(chain, (size_t)profile->n_nodes + 1)) {
        chain_free(chain);
        return remat_fail_memory(error);
    }
    chain->n = profile->n_nodes;
    chain->input_bytes = profile->input_bytes;
    choose_ticks(profile, chain);
    chain->output[0] = profile->input_bytes;
    for (uint32_t i = 1; i <= chain->n; i++)
        fill_stage(profile, chain, i);
    input_gradients(profile, chain->held);
    fill_gradients(profile, chain);
    chain->chooses = profile->n_alternatives > 0;
    if (chain_implementations_find(profile, chain)) {
        chain_free(chain);
        return remat_fail_memory(error);
    }
    *ret_chain = chain;
    return REMAT_OK;
}

void chain_free(chain_costs *chain)
{
    if (!chain)
        return;
    model_arena_clear(&chain->arena);
    free(chain);
}

/* ---- operations ---- */

remat_status chain_emit_pass(uint32_t s, uint32_t last, remat_operations *operations)
{
    remat_status status = remat_push(operations, REMAT_F, s - 1);
    for (uint32_t j = s + 1; j <= last && !status; j++) {
        status = remat_push(operations, REMAT_F, j - 1);
        if (!status)
            status = remat_push(operations, REMAT_D, j - 2);
    }
    return status;
}

static remat_status push_implementation(remat_operations *operations, remat_operation_kind kind,
                                        uint32_t s, uint32_t implementation)
{
    return remat_operations_push(operations,
                                 (remat_operation){.kind = (uint8_t)kind,
                                                   .index = s - 1,
                                                   .alternative = (uint16_t)implementation});
}

remat_status chain_emit_save(uint32_t s, uint32_t implementation, remat_operations *operations)
{
    return push_implementation(operations, REMAT_A, s, implementation);
}

remat_status chain_emit_backward(uint32_t s, uint32_t implementation, bool plain,
                                 remat_operations *operations)
{
    remat_status status = push_implementation(operations, REMAT_B, s, implementation);
    if (!status)
        status = remat_push(operations, REMAT_D, s - 1);
    if (!status && plain && s > 1)
        status = remat_push(operations, REMAT_D, s - 2);
    return status;
}

remat_status chain_emit_direct(uint32_t s, uint32_t implementation, bool plain,
                               remat_operations *operations)
{
    remat_status status = push_implementation(operations, REMAT_B, s, implementation);
    if (!status && plain && s > 1)
        status = remat_push(operations, REMAT_D, s - 2);
    return status;
}

remat_status chain_emit_leaf(const chain_costs *chain, uint32_t s, bool plain,
                             remat_operations *operations)
{
    if (chain->direct[s])
        return chain_emit_direct(s, 0, plain, operations);
    remat_status status = chain_emit_save(s, 0, operations);
    return status ? status : chain_emit_backward(s, 0, plain, operations);
}

/* ---- lists by recursion ---- */

remat_status chain_emit_tasks(const chain_costs *chain, uint64_t room, chain_step *step,
                              const void *context, remat_operations *operations)
{
    chain_stack stack = {.tasks = malloc(((size_t)chain->n + 2) * sizeof *stack.tasks)};
    if (!stack.tasks)
        return REMAT_NO_MEMORY;
    remat_status status = REMAT_OK;
    chain_push(&stack, (chain_task){.room = room, .s = 1, .t = chain->n, .plain = true});
    while (stack.depth > 0 && !status)
        status = step(context, stack.tasks[--stack.depth], &stack, operations);
    free(stack.tasks);
    return status;
}

/* ---- what the model counts ---- */

void chain_measure(const chain_costs *chain, const remat_operations *operations,
                   uint64_t *ret_bytes, int64_t *ret_ticks)
{
    uint64_t values = chain->input_bytes, gradients = 0, peak = values;
    int64_t ticks = 0;
    for (size_t k = 0; k < operations->length; k++) {
        const remat_operation *operation = &operations->items[k];
        uint32_t i = operation->index + 1;
        const chain_implementation *implementation =
            &chain->stages[i].implementations[operation->alternative];
        switch (operation->kind) {
        case REMAT_F:
            values += chain->output[i];
            peak = model_larger(peak, values + gradients + implementation->forward_workspace);
            ticks += implementation->forward;
            break;
        case REMAT_A:
            values += implementation->kept;
            peak = model_larger(peak, values + gradients + implementation->save_workspace);
            ticks += implementation->forward;
            break;
        case REMAT_B:
            peak = model_larger(peak, values + implementation->backward_bytes);
            values -= implementation->kept - chain->output[i];
            gradients = chain->held[i - 1];
            ticks += implementation->backward;
            break;
        default:
            values -= chain->output[i];
        }
    }
    *ret_bytes = peak;
    *ret_ticks = ticks;
}

void chain_model(const chain_costs *chain, const remat_operations *operations,
                 remat_model *ret_model)
{
    int64_t ticks;
    *ret_model = (remat_model){0};
    chain_measure(chain, operations, &ret_model->budget, &ticks);
    ret_model->makespan = chain_makespan(chain, ticks);
}
