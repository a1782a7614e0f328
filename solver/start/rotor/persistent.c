/* What the persistent program counts in: bytes or slots.
 *
 * Without the option "slots" exact breakpoints are tried first, within limits of bytes and work. A
 * chain past them (hundreds of stages with sizes that never repeat) gets slots: the recurrence once
 * with sizes rounded down, which bounds every schedule of the class from below, and once rounded
 * up, which holds schedules; slots are doubled until the two agree within the option "gap" at the
 * largest budget, or a limit of slots, work or memory is reached. The slots reach beyond the
 * largest budget, to REACH of it: a schedule with a larger nominal budget may fit the true one once
 * liveness has freed what the backward does not read.
 *
 * Where stages have several implementations, costs depend on the room at every forward, which the
 * kernel of the slots does not know. Breakpoints do: chain_persistent_chooses says of which chains
 * they are few enough; any other is solved in two views with one implementation each
 * (remat/table.h).
 *
 * Breakpoints answer every budget. Slots depend on the largest budget, through their size and
 * through the gap that is asked there, so that lists made of them are bound to it. */
#include "start/rotor/persistent.h"
#include "start/rotor/breakpoints.h"
#include "start/rotor/slots.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEAST_SLOTS = 50,
    FIRST_SLOTS = 500,
    MAX_SLOTS = 4000,
    MAX_SLOTS_OPTION = 65536,

    EXACT_BYTES = 128 << 20
};
#define REACH 2.6
#define CHOOSING_EVENTS                                                                            \
    3e8                    /* the most that is expected where stages have several implementations */
#define EXACT_EVENTS 6e7   /* merge steps before breakpoints are given up: under a second */
#define SLOTS_UPDATES 4e10 /* of n^3/6 slots: some seconds */

const remat_option chain_persistent_options[CHAIN_PERSISTENT_OPTIONS] = {
    {.name = "slots",
     .summary =
         "slots of memory; 0: exact bytes where that is cheap, else as many slots as gap asks",
     .type = REMAT_OPTION_INTEGER,
     .maximum = MAX_SLOTS_OPTION},
    {.name = "gap",
     .summary = "without slots: relative distance from the lower bound to refine to, "
                "in at most 4000 slots",
     .type = REMAT_OPTION_NUMBER,
     .maximum = 1,
     .default_value = 0.01},
};

/* Bytes and ticks of the schedule that is traced in `slot` slots. */
typedef struct slot_step {
    uint32_t slot;
    uint64_t bytes;
    int64_t ticks;
} slot_step;

/* Either breakpoints or slots. bound: costs of the whole chain, sizes rounded down. */
struct chain_persistent {
    chain_costs *chain;
    chain_breakpoints *breakpoints;
    chain_slots *slots;
    slot_step *steps;
    size_t n_steps;
    int32_t *bound;
    int64_t bound_divisor;
};

typedef chain_persistent persistent;

void chain_persistent_free(persistent *t)
{
    if (!t)
        return;
    chain_breakpoints_free(t->breakpoints);
    chain_slots_free(t->slots);
    chain_free(t->chain);
    free(t->steps);
    free(t->bound);
    free(t);
}

uint64_t chain_persistent_bytes(const persistent *t)
{
    uint64_t bytes = sizeof *t + chain_bytes(t->chain->n, 0) + t->n_steps * sizeof *t->steps;
    if (t->breakpoints)
        return bytes + chain_breakpoints_bytes(t->breakpoints);
    return bytes + chain_slots_bytes(t->slots) +
           ((uint64_t)chain_slots_count(t->slots) + 1) * sizeof *t->bound;
}

/* ---- what is offered ---- */

static size_t count_lists(const persistent *t)
{
    return t->breakpoints ? chain_breakpoints_answer(t->breakpoints).count : t->n_steps;
}

static remat_model model_of(const persistent *t, size_t index)
{
    uint64_t bytes;
    int64_t ticks;
    if (t->breakpoints) {
        const chain_breakpoint *point = &chain_breakpoints_answer(t->breakpoints).points[index];
        bytes = point->bytes + t->chain->input_bytes;
        ticks = point->ticks;
    } else {
        bytes = t->steps[index].bytes;
        ticks = t->steps[index].ticks;
    }
    return (remat_model){.budget = bytes, .makespan = chain_makespan(t->chain, ticks)};
}

static remat_status trace(void *context, size_t index, remat_operations *operations,
                          remat_model *model, remat_error *error)
{
    const persistent *t = context;
    *model = model_of(t, index);
    if (!t->breakpoints)
        return chain_slots_trace(t->slots, t->chain, t->steps[index].slot, operations, error);
    uint64_t bytes = chain_breakpoints_answer(t->breakpoints).points[index].bytes;
    return chain_breakpoints_trace(t->breakpoints, t->chain, bytes, operations, error);
}

remat_status chain_persistent_offer(const persistent *t, const remat_sink *sink, remat_error *error)
{
    return remat_offer_lists(sink, count_lists(t), trace, (void *)t, error);
}

double chain_persistent_best(const persistent *t, uint64_t budget)
{
    double best = INFINITY;
    for (size_t i = 0; i < count_lists(t) && model_of(t, i).budget <= budget; i++)
        best = model_of(t, i).makespan;
    return best;
}

/* Least time in so many slots beyond a_0: sums of sizes rounded down are at most the rounded sum.
 */
static double bound_in_slots(const persistent *t, uint64_t slot)
{
    if (slot > chain_slots_count(t->slots))
        return chain_time(t->chain, t->chain->total_sum[t->chain->n]);
    return t->bound[slot] >= CHAIN_KERNEL_INFINITE
               ? INFINITY
               : chain_time(t->chain, t->bound[slot] * t->bound_divisor);
}

static remat_status offer_slot_bounds(const persistent *t, const remat_sink *sink,
                                      remat_error *error)
{
    uint64_t budget = t->chain->input_bytes;
    remat_status status = budget ? remat_offer_bound(sink, budget - 1, INFINITY, error) : REMAT_OK;
    for (uint64_t m = 0; m <= chain_slots_count(t->slots) && !status; m++) {
        budget += chain_slots_unit(t->slots);
        status = remat_offer_bound(sink, budget - 1, bound_in_slots(t, m), error);
    }
    return status ? status
                  : remat_offer_bound(sink, UINT64_MAX, bound_in_slots(t, UINT64_MAX), error);
}

remat_status chain_persistent_offer_bounds(const persistent *t, const remat_sink *sink,
                                           remat_error *error)
{
    if (t->slots)
        return offer_slot_bounds(t, sink, error);
    chain_breakpoint_list answer = chain_breakpoints_answer(t->breakpoints);
    double before = INFINITY;
    remat_status status = REMAT_OK;
    for (size_t i = 0; i < answer.count && !status; i++) {
        uint64_t budget = answer.points[i].bytes + t->chain->input_bytes;
        if (budget > 0)
            status = remat_offer_bound(sink, budget - 1, before, error);
        before = chain_time(t->chain, answer.points[i].ticks);
    }
    return status ? status : remat_offer_bound(sink, UINT64_MAX, before, error);
}

/* ---- slots ---- */

/* Bytes beyond a_0 at which storing everything fits. */
static uint64_t store_all_bytes(const chain_costs *chain)
{
    uint64_t kept = 0, most = 0;
    for (uint32_t s = 1; s <= chain->n; s++) {
        uint64_t need =
            model_larger(chain_need_all(chain, s, chain->n), chain_leaf_bytes(chain, s));
        most = model_larger(most, kept + need);
        kept += chain->kept[s];
    }
    return most;
}

/* Bytes beyond a_0 that a slot table spans. */
static uint64_t reach(const chain_costs *chain, uint64_t max_budget)
{
    uint64_t all = store_all_bytes(chain);
    double nominal = REACH * (double)max_budget - (double)chain->input_bytes;
    if (nominal <= 0)
        return 0;
    return nominal < (double)all ? (uint64_t)nominal : all;
}

static remat_status bound_from_below(persistent *t, chain_slots_setting setting,
                                     const remat_host *host, remat_error *error)
{
    chain_slots *below = NULL;
    setting.round_up = false;
    remat_status status = chain_slots_new(t->chain, &setting, host, &below, error);
    if (status)
        return status;
    size_t length = (size_t)setting.n_slots + 1;
    int32_t *bound = malloc(length * sizeof *bound);
    if (bound) {
        memcpy(bound, chain_slots_answer(below), length * sizeof *bound);
        free(t->bound);
        t->bound = bound;
        t->bound_divisor = chain_slots_divisor(below);
    }
    chain_slots_free(below);
    return bound ? REMAT_OK : remat_fail_memory(error);
}

static remat_status solve_slots(persistent *t, uint32_t n_slots, uint64_t bytes, bool inputs_only,
                                const remat_host *host, remat_error *error)
{
    chain_slots_setting setting = {.unit =
                                       model_larger(1, bytes / n_slots + (bytes % n_slots != 0)),
                                   .n_slots = n_slots,
                                   .round_up = true,
                                   .inputs_only = inputs_only};
    chain_slots_free(t->slots);
    t->slots = NULL;
    remat_status status = bound_from_below(t, setting, host, error);
    return status ? status : chain_slots_new(t->chain, &setting, host, &t->slots, error);
}

/* Appends a step and drops those it beats. */
static void push_step(persistent *t, slot_step step)
{
    while (t->n_steps > 0 && step.bytes <= t->steps[t->n_steps - 1].bytes &&
           step.ticks <= t->steps[t->n_steps - 1].ticks)
        t->n_steps--;
    if (t->n_steps == 0 || step.ticks < t->steps[t->n_steps - 1].ticks)
        t->steps[t->n_steps++] = step;
}

/* Appends the step of so many slots, measured on its list: rounding hides bytes and ticks. */
static remat_status find_step(persistent *t, uint32_t slot, remat_operations *operations,
                              const remat_host *host, remat_error *error)
{
    if (remat_host_cancelled(host))
        return remat_fail(error, REMAT_CANCELLED, NULL, "cancelled");
    operations->length = 0;
    remat_status status = chain_slots_trace(t->slots, t->chain, slot, operations, error);
    if (status)
        return status;
    slot_step step = {.slot = slot};
    chain_measure(t->chain, operations, &step.bytes, &step.ticks);
    push_step(t, step);
    return REMAT_OK;
}

/* A step for each slot where the answer changes. */
static remat_status find_steps(persistent *t, const remat_host *host, remat_error *error)
{
    const int32_t *answer = chain_slots_answer(t->slots);
    uint32_t n_slots = chain_slots_count(t->slots);
    remat_operations operations = {0};
    remat_status status = REMAT_OK;
    free(t->steps);
    t->n_steps = 0;
    t->steps = malloc(((size_t)n_slots + 1) * sizeof *t->steps);
    if (!t->steps)
        return remat_fail_memory(error);
    for (uint32_t m = 0; m <= n_slots && !status; m++)
        if (answer[m] < CHAIN_KERNEL_INFINITE && (m == 0 || answer[m] != answer[m - 1]))
            status = find_step(t, m, &operations, host, error);
    remat_operations_clear(&operations);
    return status;
}

/* Relative distance of the answer at max_budget from its bound; 0 where nothing fits at all. */
static double gap_at(const persistent *t, uint64_t max_budget)
{
    uint64_t inputs = t->chain->input_bytes, unit = chain_slots_unit(t->slots);
    double best = chain_persistent_best(t, max_budget);
    double bound = max_budget < inputs ? INFINITY : bound_in_slots(t, (max_budget - inputs) / unit);
    if (isinf(bound))
        return 0;
    return bound > 0 ? best / bound - 1 : best > 0 ? INFINITY : 0;
}

/* The limits of work that end the automatic refinement. */
static bool within_work(double n, uint32_t n_slots)
{
    return n_slots <= MAX_SLOTS && n * n * n / 6 * n_slots <= SLOTS_UPDATES;
}

static uint32_t last_slots(double n)
{
    uint32_t n_slots = FIRST_SLOTS;
    while (within_work(n, 2 * n_slots))
        n_slots *= 2;
    return n_slots;
}

static bool fits_limit(const persistent *t, uint32_t n_slots, const remat_host *host)
{
    return !host || !host->memory_limit ||
           chain_slots_peak_bytes(t->chain->n, n_slots, remat_host_workers(host)) <=
               host->memory_limit;
}

/* Fewer where memory is short. */
static uint32_t first_slots(const persistent *t, const remat_host *host)
{
    uint32_t n_slots = FIRST_SLOTS;
    while (n_slots > LEAST_SLOTS && !fits_limit(t, n_slots, host))
        n_slots = n_slots / 2 > LEAST_SLOTS ? n_slots / 2 : LEAST_SLOTS;
    return n_slots;
}

static bool may_refine(const persistent *t, uint32_t n_slots, const remat_host *host)
{
    return within_work(t->chain->n, n_slots) && fits_limit(t, n_slots, host);
}

/* The gap falls somewhat faster than slots grow, so this never doubles too often. */
static uint32_t refined(const persistent *t, uint32_t n_slots, double gap, double target,
                        const remat_host *host)
{
    do {
        n_slots *= 2;
        gap /= 2;
    } while (gap / 2 >= target && may_refine(t, 2 * n_slots, host));
    return n_slots;
}

static remat_status solve_to_gap(persistent *t, const remat_problem *problem, bool inputs_only,
                                 const remat_host *host, remat_error *error)
{
    uint64_t bytes = reach(t->chain, problem->max_budget);
    double given = problem->options.values[0], target = problem->options.values[1];
    uint32_t n_slots = given > 0 ? (uint32_t)given : first_slots(t, host);
    for (;;) {
        remat_status status = solve_slots(t, n_slots, bytes, inputs_only, host, error);
        if (!status)
            status = find_steps(t, host, error);
        if (status || given > 0)
            return status;
        double gap = gap_at(t, problem->max_budget);
        if (gap <= target || chain_slots_unit(t->slots) == 1 || !may_refine(t, n_slots * 2, host))
            return REMAT_OK;
        n_slots = refined(t, n_slots, gap, target, host);
    }
}

/* ---- which ---- */

/* Bytes and merge steps of the lists, from seeded chains of 50 to 150 stages with sizes that never
 * repeat: 0.05 n^2 points each. Real chains have a fifth of it. */
static double exact_bytes(double n)
{
    return n * (n + 1) / 2 * (16 + 16 * fmax(4, 0.05 * n * n));
}

static double exact_events(double n)
{
    return 0.004 * pow(n, 5);
}

/* Whether breakpoints can be expected to stay within limits where stages have several
 * implementations. */
bool chain_persistent_chooses(const remat_problem *problem)
{
    double n = problem->profile->n_nodes, implementations = n + problem->profile->n_alternatives;
    return problem->options.values[0] == 0 && exact_bytes(n) <= EXACT_BYTES &&
           exact_events(n) * implementations / n <= CHOOSING_EVENTS;
}

/* What the automatic form may come to: the lists where even seeded chains stay within their limits,
 * else the most that breakpoints may take before they are given up or that the last slots do. */
remat_status chain_persistent_estimate(const remat_problem *problem, remat_estimate *ret_estimate,
                                       remat_error *error)
{
    (void)error;
    uint32_t n = problem->profile->n_nodes;
    double stages = n, given = problem->options.values[0];
    double implementations = stages + problem->profile->n_alternatives;
    double exact = exact_bytes(stages), events = exact_events(stages) * implementations / stages;
    bool choosing = problem->profile->n_alternatives > 0 && chain_persistent_chooses(problem);
    uint32_t n_slots = given > 0 ? (uint32_t)given : last_slots(stages);
    uint64_t others = sizeof(persistent) + chain_bytes(n, problem->profile->n_alternatives) +
                      ((uint64_t)n_slots + 1) * (sizeof(int32_t) + sizeof(slot_step));
    uint64_t bytes = chain_slots_peak_bytes(n, n_slots, 1);
    double updates = stages * stages * stages / 6 * n_slots * 2; /* rounded up, rounded down */
    if (given == 0) {
        bool listed = choosing || (exact <= EXACT_BYTES && events <= EXACT_EVENTS);
        bytes = listed ? (uint64_t)exact : model_larger(bytes, EXACT_BYTES);
        updates = listed ? events : 2 * updates + EXACT_EVENTS; /* all rungs together */
    }
    uint64_t least = chain_slots_peak_bytes(n, LEAST_SLOTS, 1) + others;
    *ret_estimate = (remat_estimate){.table_bytes = bytes + others, .updates = updates};
    if (given == 0 && !choosing && least < ret_estimate->table_bytes)
        ret_estimate->least_bytes = least;
    return REMAT_OK;
}

static remat_status persistent_solve(persistent *t, const remat_problem *problem, bool inputs_only,
                                     const remat_host *host, remat_error *error)
{
    if (problem->options.values[0] > 0)
        return solve_to_gap(t, problem, inputs_only, host, error);
    chain_breakpoints_limits limits = {.bytes = EXACT_BYTES, .events = EXACT_EVENTS};
    if (t->chain->chooses) {
        limits = (chain_breakpoints_limits){.bytes = host ? host->memory_limit : 0};
        return chain_breakpoints_new(t->chain, inputs_only, limits, host, &t->breakpoints, error);
    }
    if (host && host->memory_limit && host->memory_limit < limits.bytes)
        limits.bytes = host->memory_limit;
    remat_error refusal = {0};
    remat_status status =
        chain_breakpoints_new(t->chain, inputs_only, limits, host, &t->breakpoints, &refusal);
    if (status && status != REMAT_TOO_LARGE && error)
        *error = refusal;
    if (status != REMAT_TOO_LARGE)
        return status;
    if (remat_host_cancelled(host)) /* to give so many lists back took a while */
        return remat_fail(error, REMAT_CANCELLED, NULL, "cancelled");
    return solve_to_gap(t, problem, inputs_only, host, error);
}

remat_status chain_persistent_new(const remat_problem *problem, bool inputs_only,
                                  const remat_host *host, const remat_sink *sink,
                                  persistent **ret_persistent, remat_error *error)
{
    persistent *t = calloc(1, sizeof *t);
    if (!t)
        return remat_fail_memory(error);
    remat_status status = chain_new(problem->profile, &t->chain, error);
    if (!status)
        status = persistent_solve(t, problem, inputs_only, host, error);
    if (!status)
        status = remat_sink_hold(sink, chain_persistent_bytes(t), error);
    if (status) {
        chain_persistent_free(t);
        return status;
    }
    if (t->slots)
        remat_sink_bind(sink, problem->max_budget, problem->max_budget);
    *ret_persistent = t;
    return REMAT_OK;
}

remat_status chain_persistent_solve(const remat_problem *problem, bool inputs_only,
                                    const remat_host *host, const remat_sink *sink,
                                    remat_error *error)
{
    persistent *t = NULL;
    remat_status status = chain_persistent_new(problem, inputs_only, host, sink, &t, error);
    if (!status)
        status = chain_persistent_offer(t, sink, error);
    if (!status)
        status = chain_persistent_offer_bounds(t, sink, error);
    chain_persistent_free(t);
    return status;
}
