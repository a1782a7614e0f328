/* pofo: rematerialization and offloading of a chain (backward.c, forward.c and labels.c have the
 * programs). Their values are those of a machine that moves bytes one by one; the operation list
 * moves whole values, so every plan is placed (place.c), replayed, and kept if nothing else is as
 * good. The table is the best of
 *
 *   - the plans of the program over slots, one for each number of slots with a value of its own,
 *   - the exact plans of the label search, where it ends within its limit of work,
 *   - the families that offload and recompute nothing (baselines.c),
 *   - the persistent schedules without offloading, all of rotor's,
 *
 * and therefore never worse than any of these alone. Latency counts in the program over slots. The
 * label search and the relaxed program, whose values bound the class from below, leave it out. */
#include "chain/persistent.h"
#include "offload/baselines.h"
#include "offload/labels.h"
#include "offload/slot_plans.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_SLOTS = 10, MOST_SLOTS = 100, LABEL_STAGES = 64, SEARCHES = 8 };
enum { MOST_BOUNDS = SEARCHES + REMAT_MAX_OFFLOAD_SLOTS };
#define SLOT_UPDATES 8e8 /* some two seconds on one core */
#define SLOT_BYTES (UINT64_C(512) << 20)
#define ROUNDING 1e-12       /* of a conversion between units */
#define ALL_LABEL_WORK 1.2e8 /* of all: under a second */

static const remat_option options[] = {
    {.name = "slots",
     .summary = "slots of memory; 0: up to 100, as many as two seconds allow",
     .type = REMAT_OPTION_INTEGER,
     .maximum = REMAT_MAX_OFFLOAD_SLOTS},
};

typedef struct bound {
    uint64_t budget;
    double makespan; /* no schedule of the class within budget is faster */
} bound;

typedef struct table {
    void *persistent;
    remat_lists *lists;
    bool moves;      /* the link moves bytes both ways */
    uint32_t *order; /* of the steps by budget: of lists first, then of persistent */
    size_t n_lists, n_steps;
    uint32_t n_bounds;
    bound bounds[MOST_BOUNDS]; /* in no order */
} table;

/* ---- sizes ---- */

static double slot_updates(double n, double slots)
{
    return n * n * n / 6 * slots * slots + n * n * slots * slots * slots / 3;
}

static uint64_t slot_bytes(uint32_t n, uint32_t slots)
{
    return remat_backward_bytes(n, slots) + remat_forward_bytes(n, slots);
}

/* 0: the chain is too long for the program over slots. */
static uint32_t choose_slots(const remat_problem *problem)
{
    uint32_t n = problem->profile->n_nodes, slots = MOST_SLOTS;
    if (!remat_offload_possible(problem->link))
        return 0;
    if (problem->options.values[0] > 0)
        return (uint32_t)problem->options.values[0];
    while (slots >= LEAST_SLOTS &&
           (slot_updates(n, slots) > SLOT_UPDATES || slot_bytes(n, slots) > SLOT_BYTES))
        slots--;
    return slots >= LEAST_SLOTS ? slots : 0;
}

/* The problem as rotor sees it. */
static remat_problem without_link(const remat_problem *problem)
{
    remat_problem own = {.profile = problem->profile, .max_budget = problem->max_budget};
    for (int i = 0; i < REMAT_PERSISTENT_OPTIONS; i++)
        own.options.values[i] = remat_persistent_options[i].default_value;
    return own;
}

static remat_status estimate(const remat_problem *problem, remat_estimate *ret_estimate,
                             remat_error *error)
{
    remat_problem plain = without_link(problem);
    remat_estimate sum, lists = remat_offload_family_estimate(problem->profile);
    remat_status status = remat_persistent_estimate(&plain, &sum, error);
    if (status)
        return status;
    if (remat_offload_possible(problem->link)) {
        uint32_t n = problem->profile->n_nodes, slots = choose_slots(problem);
        uint64_t bytes = lists.table_bytes + (slots ? slot_bytes(n, slots) : 0);
        sum.table_bytes += bytes;
        sum.least_bytes += sum.least_bytes ? bytes : 0; /* rotor's part alone can be coarser */
        sum.updates += 3 * lists.updates + slot_updates(n, slots);
    }
    *ret_estimate = sum;
    return REMAT_OK;
}

/* ---- plans over slots ---- */

static remat_status solve_slots(remat_lists *lists, const remat_problem *problem,
                                const remat_chain *chain, const remat_host *host,
                                remat_error *error)
{
    remat_program p = {0};
    uint32_t slots = choose_slots(problem);
    if (slots == 0)
        return REMAT_OK;
    remat_status status = remat_program_init(&p, problem, chain, slots, false, host, error);
    if (!status && p.forward.model)
        status = remat_program_lists(lists, problem, &p.forward, host, error);
    remat_program_clear(&p);
    return status;
}

/* ---- exact plans and bounds ---- */

/* Makespan of the best schedule so far that the programs' own memory fits. */
static double best_known(const table *t, uint64_t budget)
{
    double best = remat_lists_best(t->lists, budget);
    for (size_t i = 0; i < remat_persistent_n_steps(t->persistent) &&
                       remat_persistent_step_budget(t->persistent, i) <= budget;
         i++)
        best = fmin(best, remat_persistent_step_makespan(t->persistent, i));
    return best;
}

static remat_status place_plan(remat_lists *lists, const remat_problem *problem, uint64_t budget,
                               remat_offload_plan *plan, remat_error *error)
{
    remat_placing placing;
    remat_operations operations = {0};
    remat_status status = remat_offload_place_plan(problem->profile, plan, &placing, error);
    if (status)
        return status;
    status = remat_place(&placing, NULL, budget, &operations);
    if (!status)
        status = remat_lists_consider(lists, problem, &operations, error);
    else if (status == REMAT_NO_MEMORY)
        remat_fail_memory(error);
    remat_operations_clear(&operations);
    remat_placing_clear(&placing);
    return status == REMAT_INFEASIBLE ? REMAT_OK : status;
}

static void add_bound(table *t, uint64_t budget, double makespan)
{
    if (t->n_bounds < MOST_BOUNDS)
        t->bounds[t->n_bounds++] = (bound){budget, makespan};
}

/* One search: a bound, and a plan where one beats what is known. */
static remat_status search_budget(table *t, const remat_problem *problem,
                                  const remat_offload_model *model, const remat_forward *relaxed,
                                  uint64_t budget, const remat_host *host, double *work,
                                  remat_error *error)
{
    remat_labels_result result;
    double known = best_known(t, budget);
    remat_status status =
        remat_labels_search(model, relaxed, budget, known, REMAT_LABEL_WORK, host, &result, error);
    if (status)
        return status;
    *work += result.work;
    if (!result.finished)
        return REMAT_OK;
    add_bound(t, budget, fmin(known, result.value));
    if (result.plan.compute.length == 0)
        return REMAT_OK;
    return place_plan(t->lists, problem, budget, &result.plan, error);
}

/* The largest budget first, then smaller ones while there is work left. */
static remat_status search_labels(table *t, const remat_problem *problem, const remat_chain *chain,
                                  const remat_forward *relaxed, const remat_host *host,
                                  remat_error *error)
{
    remat_offload_model model = {0};
    uint64_t most = remat_offload_most_bytes(chain);
    remat_status status = remat_offload_model_init(&model, problem->profile, chain, problem->link,
                                                   1, most, false, error);
    if (status)
        return status;
    most += model.resident;
    uint64_t top = problem->max_budget < most ? problem->max_budget : most;
    double work = 0;
    for (uint64_t k = SEARCHES; k > 0 && work < ALL_LABEL_WORK && !status; k--) {
        uint64_t budget = k == SEARCHES ? top : top / SEARCHES * k;
        status = search_budget(t, problem, &model, relaxed, budget, host, &work, error);
    }
    remat_offload_model_clear(&model);
    return status;
}

/* The relaxed program over half the slots: a bound for every number of them, and for the searches. */
static remat_status bound_from_below(table *t, const remat_problem *problem,
                                     const remat_chain *chain, const remat_host *host,
                                     remat_error *error)
{
    remat_program p = {0};
    uint32_t slots = choose_slots(problem) / 2;
    if (slots == 0)
        return REMAT_OK;
    remat_status status = remat_program_init(&p, problem, chain, slots, true, host, error);
    bool solved = !status && p.forward.model;
    for (uint32_t m = 1; m <= slots && solved; m++)
        add_bound(t, remat_program_budget(&p.forward, m),
                  remat_forward_value(&p.forward, m) / p.model.units_per_time * (1 - ROUNDING));
    if (solved && chain->n <= LABEL_STAGES)
        status = search_labels(t, problem, chain, &p.forward, host, error);
    remat_program_clear(&p);
    return status;
}

/* ---- the table ---- */

static void table_free(void *table_)
{
    table *t = table_;
    if (!t)
        return;
    if (t->persistent)
        remat_persistent_free(t->persistent);
    remat_lists_free(t->lists);
    free(t->order);
    free(t);
}

static uint64_t budget_at(const table *t, uint32_t step)
{
    return step < t->n_lists ? remat_lists_step_budget(t->lists, step)
                             : remat_persistent_step_budget(t->persistent, step - t->n_lists);
}

/* Merges the two rows of steps, each in order already. */
static remat_status merge_steps(table *t, remat_error *error)
{
    t->n_lists = remat_lists_n_steps(t->lists);
    t->n_steps = t->n_lists + remat_persistent_n_steps(t->persistent);
    t->order = malloc((t->n_steps + 1) * sizeof *t->order);
    if (!t->order)
        return remat_fail_memory(error);
    uint32_t a = 0, b = (uint32_t)t->n_lists;
    for (size_t k = 0; k < t->n_steps; k++) {
        bool first = b == t->n_steps || (a < t->n_lists && budget_at(t, a) <= budget_at(t, b));
        t->order[k] = first ? a++ : b++;
    }
    return REMAT_OK;
}

static remat_status add_lists(table *t, const remat_problem *problem, const remat_host *host,
                              remat_error *error)
{
    static const remat_offload_choice choices[] = {REMAT_OFFLOAD_ALL, REMAT_OFFLOAD_CONV,
                                                   REMAT_OFFLOAD_GREEDY};
    remat_chain *chain = NULL;
    remat_status status = remat_chain_new(problem->profile, &chain, error);
    for (size_t i = 0; i < sizeof choices / sizeof *choices && !status; i++)
        status = remat_offload_family(t->lists, problem, choices[i], host, error);
    remat_host_progress(host, 0.3);
    if (!status)
        status = solve_slots(t->lists, problem, chain, host, error);
    remat_host_progress(host, 0.7);
    if (!status)
        status = bound_from_below(t, problem, chain, host, error);
    remat_chain_free(chain);
    return status;
}

static remat_status tabulate(const remat_problem *problem, const remat_host *host, void **ret_table,
                             remat_error *error)
{
    remat_problem plain = without_link(problem);
    remat_host quiet = host ? *host : (remat_host){.workers = 1};
    table *t = calloc(1, sizeof *t);
    if (!t)
        return remat_fail_memory(error);
    quiet.progress = NULL;
    t->moves = remat_offload_possible(problem->link);
    remat_status status = remat_persistent_tabulate(&plain, false, &quiet, &t->persistent, error);
    if (!status)
        status = remat_lists_new(problem, &t->lists, error);
    if (!status && t->moves)
        status = add_lists(t, problem, host, error);
    if (!status)
        status = merge_steps(t, error);
    if (status) {
        table_free(t);
        return status;
    }
    *ret_table = t;
    return REMAT_OK;
}

static uint64_t table_bytes(const void *table_)
{
    const table *t = table_;
    return sizeof *t + t->n_steps * sizeof *t->order + remat_lists_bytes(t->lists) +
           remat_persistent_bytes(t->persistent);
}

static uint64_t table_max_budget(const void *table_)
{
    const table *t = table_;
    return t->moves ? remat_lists_max_budget(t->lists) : remat_persistent_max_budget(t->persistent);
}

static size_t n_steps(const void *table_)
{
    return ((const table *)table_)->n_steps;
}

static uint64_t step_budget(const void *table_, size_t step)
{
    const table *t = table_;
    return budget_at(t, t->order[step]);
}

static double step_makespan(const void *table_, size_t step)
{
    const table *t = table_;
    uint32_t k = t->order[step];
    return k < t->n_lists ? remat_lists_step_makespan(t->lists, k)
                          : remat_persistent_step_makespan(t->persistent, k - t->n_lists);
}

static remat_status trace(const void *table_, const remat_problem *problem, size_t step,
                          remat_operations *operations, remat_error *error)
{
    const table *t = table_;
    uint32_t k = t->order[step];
    if (k < t->n_lists)
        return remat_lists_trace(t->lists, problem, k, operations, error);
    return remat_persistent_trace(t->persistent, problem, k - t->n_lists, operations, error);
}

/* What holds at a budget holds at every smaller one. */
static double lower_bound(const void *table_, uint64_t budget)
{
    const table *t = table_;
    double least = t->moves ? 0 : remat_persistent_lower_bound(t->persistent, budget);
    for (uint32_t k = 0; k < t->n_bounds; k++)
        if (budget <= t->bounds[k].budget)
            least = fmax(least, t->bounds[k].makespan);
    return least;
}

/* ---- bytes on disk ---- */

static remat_status save(const void *table_, remat_buffer *buffer, remat_error *error)
{
    const table *t = table_;
    remat_status status = remat_persistent_save(t->persistent, buffer, error);
    if (!status)
        status = remat_lists_save(t->lists, buffer, error);
    if (!status && remat_buffer_put_u32(buffer, t->n_bounds))
        status = remat_fail_memory(error);
    for (uint32_t k = 0; k < t->n_bounds && !status; k++)
        if (remat_buffer_put_u64(buffer, t->bounds[k].budget) ||
            remat_buffer_put_f64(buffer, t->bounds[k].makespan))
            status = remat_fail_memory(error);
    return status;
}

static remat_status load_bounds(table *t, remat_reader *reader, remat_error *error)
{
    t->n_bounds = remat_reader_u32(reader);
    if (t->n_bounds > MOST_BOUNDS)
        return remat_fail(error, REMAT_CORRUPT, NULL, "the table has %u bounds", t->n_bounds);
    for (uint32_t k = 0; k < t->n_bounds; k++) {
        t->bounds[k].budget = remat_reader_u64(reader);
        t->bounds[k].makespan = remat_reader_f64(reader);
        if (reader->failed || !(t->bounds[k].makespan >= 0))
            return remat_fail(error, REMAT_CORRUPT, NULL, "the table's bounds are damaged");
    }
    return REMAT_OK;
}

static remat_status load(const remat_problem *problem, remat_reader *reader, void **ret_table,
                         remat_error *error)
{
    remat_problem plain = without_link(problem);
    void *lists = NULL;
    table *t = calloc(1, sizeof *t);
    if (!t)
        return remat_fail_memory(error);
    t->moves = remat_offload_possible(problem->link);
    remat_status status = remat_persistent_load(&plain, false, reader, &t->persistent, error);
    if (!status)
        status = remat_lists_load(problem, reader, &lists, error);
    t->lists = lists;
    if (!status)
        status = load_bounds(t, reader, error);
    if (!status)
        status = merge_steps(t, error);
    if (status) {
        table_free(t);
        return status;
    }
    *ret_table = t;
    return REMAT_OK;
}

const remat_solver remat_solver_pofo = {
    .name = "pofo",
    .summary = "Recomputes and offloads together: the programs of the paper over slots of memory, "
               "exact where that is cheap; never worse than either alone.",
    .source = "Beaumont, Eyraud-Dubois, Shilova: Efficient Combination of Rematerialization and "
              "Offloading for Training DNNs, 2021",
    .optimal_for = "",
    .accepts = REMAT_ACCEPTS_CHAIN | REMAT_NEEDS_LINK,
    .table_version = 1,
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .estimate = estimate,
    .tabulate = tabulate,
    .table_free = table_free,
    .table_bytes = table_bytes,
    .table_max_budget = table_max_budget,
    .n_steps = n_steps,
    .step_budget = step_budget,
    .step_makespan = step_makespan,
    .trace = trace,
    .lower_bound = lower_bound,
    .class_name = "persistent schedules that offload before the loss and prefetch after it",
    .save = save,
    .load = load,
};
