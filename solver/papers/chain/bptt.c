/* Backpropagation through time with a memory budget (Gruslys, Munos, Danihelka, Lanctot, Graves,
 * "Memory-efficient backpropagation through time", 2016): uniform steps, memory in slots.
 *
 * C(t,m): forward steps to run t steps forward and backward with m slots, C(0,m) = 0.
 *   hidden state kept   (their (2)):  y + C(t-y, m-1) + C(y, m),     1 <= y < t
 *   internal state kept (their (6)):  y + C(t-y, m-a) + C(y-1, m),   1 <= y <= t, m >= a
 * bptt-hsm takes the first, with C(1,m) = 1; bptt-ism the second with slots of an internal state (a
 * = 1); bptt-msm the least of both (their (8)) with slots of a hidden state and a slots to an
 * internal one.
 *
 * Corrected: their base case C(t,1) = t(t+1)/2 is what the recurrence gives once a last step needs
 * no slot of its own; (5) says "all y slots" where all m are meant. Their slots ignore gradients
 * and that the input and output of a step coexist, and their internal state contains the hidden
 * state before it: here the bytes of every schedule are measured on its list, where B^i holds what
 * it reads. On chains that are not uniform the positions are those of the uniform chain, so the
 * schedules are valid but heuristic. */
#include "papers/chain/family.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_STEPS = 512, MAX_STAGES = 2000, MAX_RATIO = 16 };

typedef enum bptt_policy { HIDDEN, INTERNAL, MIXED } bptt_policy;

typedef struct program {
    uint32_t n, n_slots, ratio; /* ratio: slots of an internal state */
    bptt_policy policy;
    uint32_t *forwards; /* C at [m * (n+1) + t] */
    int32_t *choice;    /* y if a hidden state is kept, -y if an internal one */
} program;

static const uint32_t impossible = UINT32_MAX / 4;

static uint32_t ratio_of(const remat_profile *profile)
{
    double hidden = 0, internal = 0;
    for (uint32_t v = 0; v < profile->n_nodes; v++) {
        hidden += (double)profile->nodes[v].output_bytes;
        internal += (double)profile->nodes[v].output_bytes + (double)profile->nodes[v].saved_bytes;
    }
    double ratio = hidden > 0 ? nearbyint(internal / hidden) : 1;
    return ratio < MAX_RATIO ? (uint32_t)ratio : MAX_RATIO;
}

static uint32_t slots_of(bptt_policy policy, uint32_t n, uint32_t ratio)
{
    return policy == MIXED ? n * ratio + 1 : n;
}

static uint32_t ratio_for(bptt_policy policy, const remat_profile *profile)
{
    return policy == MIXED ? ratio_of(profile) : 1;
}

static uint64_t program_bytes(uint32_t n, uint32_t n_slots)
{
    return ((uint64_t)n + 1) * ((uint64_t)n_slots + 1) * (sizeof(uint32_t) + sizeof(int32_t));
}

static size_t entry(const program *dp, uint32_t t, uint32_t m)
{
    return (size_t)m * ((size_t)dp->n + 1) + t;
}

static void consider(program *dp, size_t at, uint32_t cost, int32_t choice)
{
    if (cost < dp->forwards[at]) {
        dp->forwards[at] = cost;
        dp->choice[at] = choice;
    }
}

static void solve_entry(program *dp, uint32_t t, uint32_t m)
{
    size_t at = entry(dp, t, m);
    dp->forwards[at] = impossible;
    if (dp->policy == HIDDEN && t == 1)
        dp->forwards[at] = 1;
    const uint32_t *row = &dp->forwards[entry(dp, 0, m)];
    if (dp->policy != INTERNAL && m >= 1) {
        const uint32_t *less = &dp->forwards[entry(dp, 0, m - 1)];
        for (uint32_t y = 1; y < t; y++)
            consider(dp, at, y + less[t - y] + row[y], (int32_t)y);
    }
    if (dp->policy != HIDDEN && m >= dp->ratio) {
        const uint32_t *less = &dp->forwards[entry(dp, 0, m - dp->ratio)];
        for (uint32_t y = 1; y <= t; y++)
            consider(dp, at, y + less[t - y] + row[y - 1], -(int32_t)y);
    }
}

static void program_clear(program *dp)
{
    free(dp->forwards);
    free(dp->choice);
    *dp = (program){0};
}

static remat_status program_init(program *dp, bptt_policy policy, const remat_profile *profile,
                                 const remat_host *host, remat_error *error)
{
    uint32_t n = profile->n_nodes, ratio = ratio_for(policy, profile);
    *dp =
        (program){.n = n, .n_slots = slots_of(policy, n, ratio), .ratio = ratio, .policy = policy};
    size_t size = ((size_t)n + 1) * ((size_t)dp->n_slots + 1);
    dp->forwards = calloc(size, sizeof *dp->forwards);
    dp->choice = calloc(size, sizeof *dp->choice);
    if (!dp->forwards || !dp->choice) {
        program_clear(dp);
        return remat_fail_memory(error);
    }
    for (uint32_t m = 0; m <= dp->n_slots; m++) {
        if (remat_host_cancelled(host)) {
            program_clear(dp);
            return remat_fail(error, REMAT_CANCELLED, NULL, "cancelled");
        }
        for (uint32_t t = 1; t <= n; t++)
            solve_entry(dp, t, m);
        remat_host_progress(host, 0.5 * m / dp->n_slots);
    }
    return REMAT_OK;
}

/* ---- the schedule ---- */

/* The internal state of step y is kept: that is, of stage s + y - 1. */
static remat_status emit_internal(const program *dp, const chain_task *at, uint32_t y,
                                  chain_stack *stack, remat_operations *operations)
{
    uint32_t kept = at->s + y - 1;
    remat_status status = REMAT_OK;
    if (y > 1) {
        status = chain_emit_pass(at->s, kept - 1, operations);
        chain_push(stack, (chain_task){at->room, at->s, kept - 1, 0, at->plain, false});
    }
    if (!status)
        status = chain_emit_save(kept, 0, operations);
    chain_push(stack, (chain_task){0, kept, kept, 0, y > 1 || at->plain, true});
    if (kept < at->t)
        chain_push(stack, (chain_task){at->room - dp->ratio, kept + 1, at->t, 0, false, false});
    return status;
}

typedef struct emitter {
    const program *dp;
    const chain_costs *chain;
} emitter;

static remat_status emit_task(const void *context, chain_task at, chain_stack *stack,
                              remat_operations *operations)
{
    const emitter *e = context;
    if (at.closes)
        return chain_emit_backward(at.s, 0, at.plain, operations);
    if (at.s == at.t)
        return chain_emit_leaf(e->chain, at.s, at.plain, operations);
    int32_t choice = e->dp->choice[entry(e->dp, at.t - at.s + 1, (uint32_t)at.room)];
    if (choice < 0)
        return emit_internal(e->dp, &at, (uint32_t)-choice, stack, operations);
    uint32_t next = at.s + (uint32_t)choice;
    chain_push(stack, (chain_task){at.room, at.s, next - 1, 0, at.plain, false});
    chain_push(stack, (chain_task){at.room - 1, next, at.t, 0, true, false});
    return chain_emit_pass(at.s, next - 1, operations);
}

static remat_status emit_schedule(const chain_costs *chain, const void *context, uint64_t slots,
                                  remat_operations *operations, remat_error *error)
{
    const emitter e = {context, chain};
    return chain_emit_tasks(chain, slots, emit_task, &e, operations) ? remat_fail_memory(error)
                                                                     : REMAT_OK;
}

/* ---- the solvers ---- */

static remat_status bptt_check(const remat_problem *problem, remat_error *error)
{
    if (problem->profile->n_nodes <= MAX_STAGES)
        return REMAT_OK;
    return remat_fail(error, REMAT_NOT_ACCEPTED, "solver",
                      "bptt takes chains of at most %d stages, not %u", MAX_STAGES,
                      problem->profile->n_nodes);
}

static remat_status bptt_estimate(bptt_policy policy, const remat_problem *problem,
                                  remat_estimate *ret_estimate)
{
    double n = problem->profile->n_nodes;
    uint32_t ratio = ratio_for(policy, problem->profile);
    double n_slots = slots_of(policy, problem->profile->n_nodes, ratio);
    *ret_estimate = chain_family_estimate(problem->profile->n_nodes, MAX_STEPS, n * n + 4 * n);
    ret_estimate->table_bytes += program_bytes(problem->profile->n_nodes, (uint32_t)n_slots);
    ret_estimate->updates += n * n / 2 * n_slots * (policy == MIXED ? 2 : 1);
    return REMAT_OK;
}

/* The numbers of slots where something is gained, at most MAX_STEPS of them, evenly. */
static size_t choose_slots(const program *dp, uint64_t *slots)
{
    size_t gains = 0, count = 0;
    for (int pass = 0; pass < 2; pass++) {
        uint32_t before = impossible;
        size_t seen = 0;
        for (uint32_t m = 0; m <= dp->n_slots; m++) {
            uint32_t cost = dp->forwards[entry(dp, dp->n, m)];
            if (cost >= before)
                continue;
            before = cost;
            seen++;
            if (pass == 1 && (gains <= MAX_STEPS || seen * MAX_STEPS / gains > count))
                slots[count++] = m;
        }
        gains = seen;
    }
    return count;
}

static remat_status bptt_solve(bptt_policy policy, const remat_problem *problem,
                               const remat_host *host, const remat_sink *sink, remat_error *error)
{
    uint64_t slots[MAX_STEPS + 1];
    chain_costs *chain = NULL;
    program dp = {0};
    remat_status status = program_init(&dp, policy, problem->profile, host, error);
    if (!status)
        status = remat_sink_hold(sink, program_bytes(dp.n, dp.n_slots), error);
    if (!status)
        status = chain_new(problem->profile, &chain, error);
    if (!status) {
        size_t count = choose_slots(&dp, slots);
        status = chain_family_offer(chain, emit_schedule, &dp, slots, count, host, sink, error);
    }
    chain_free(chain);
    program_clear(&dp);
    return status;
}

#define SOURCE                                                                                     \
    "Gruslys, Munos, Danihelka, Lanctot, Graves: Memory-efficient backpropagation through time, "  \
    "2016"

/* identifier, policy, name, summary, optimal_for */
#define BPTT(id, which, label, text, best)                                                         \
    static remat_status id##_estimate(const remat_problem *problem, remat_estimate *ret_estimate,  \
                                      remat_error *error)                                          \
    {                                                                                              \
        (void)error;                                                                               \
        return bptt_estimate(which, problem, ret_estimate);                                        \
    }                                                                                              \
    static remat_status id##_solve(const remat_problem *problem, const remat_host *host,           \
                                   const remat_sink *sink, remat_error *error)                     \
    {                                                                                              \
        return bptt_solve(which, problem, host, sink, error);                                      \
    }                                                                                              \
    const remat_solver remat_solver_##id = {                                                       \
        .name = label,                                                                             \
        .summary = text,                                                                           \
        .source = SOURCE,                                                                          \
        .optimal_for = best,                                                                       \
        .accepts = REMAT_ACCEPTS_CHAIN | REMAT_BASELINE,                                           \
        .check = bptt_check,                                                                       \
        .estimate = id##_estimate,                                                                 \
        .solve = id##_solve,                                                                       \
    }

BPTT(bptt_hsm, HIDDEN, "bptt-hsm",
     "Keeps hidden states (stage outputs) of a chain as if its stages were uniform.",
     "forward steps on a uniform chain, given a number of hidden states to keep");
BPTT(bptt_ism, INTERNAL, "bptt-ism",
     "Keeps internal states (outputs with saved values) of a chain as if its stages were uniform.",
     "forward steps on a uniform chain, given a number of internal states to keep");
BPTT(bptt_msm, MIXED, "bptt-msm",
     "Keeps hidden or internal states, whichever pays, as if the stages of the chain were uniform.",
     "forward steps on a uniform chain, given slots for hidden and internal states");
