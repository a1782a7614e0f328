/* pofo: rematerialization and offloading of a chain (backward.c, forward.c and labels.c have the
 * programs). Their values are those of a machine that moves bytes one by one; the operation list
 * moves whole values, so every plan is placed (place.c), replayed, and kept if nothing else is as
 * good. Offered are
 *
 *   - the plans of the program over slots, one for each number of slots with a value of its own,
 *   - the exact plans of the label search, where it ends within its limit of work,
 *   - the families that offload and recompute nothing (greedy.c),
 *   - the persistent schedules without offloading, all of rotor's,
 *
 * and therefore never worse than any of these alone. Latency counts in the program over slots. The
 * label search and the relaxed program, whose values bound the class from below, leave it out. */
#include "start/offload/greedy.h"
#include "start/offload/labels.h"
#include "start/offload/slot_plans.h"
#include "start/rotor/persistent.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_SLOTS = 10, ENOUGH_SLOTS = 60, MOST_SLOTS = 100, LABEL_STAGES = 64, SEARCHES = 8 };
#define SLOT_UPDATES 8e8      /* some two seconds on one core */
#define MORE_SLOT_UPDATES 3e8 /* about one, of more slots than are enough */
#define SLOT_BYTES (UINT64_C(512) << 20)
#define ROUNDING 1e-12       /* of a conversion between units */
#define ALL_LABEL_WORK 1.2e8 /* of all: under a second */

static const remat_option options[] = {
    {.name = "slots",
     .summary = "slots of memory; 0: up to 100, as many as two seconds allow",
     .type = REMAT_OPTION_INTEGER,
     .maximum = OFFLOAD_MAX_SLOTS},
};

/* What the parts of a solve share. */
typedef struct solving {
    const remat_problem *problem;
    const remat_host *host;
    const remat_sink *sink;
    const chain_persistent *persistent; /* offered last: what liveness makes of its lists is not
                                           what bounds a search in the programs' own memory */
    const chain_costs *chain;
} solving;

/* ---- sizes ---- */

static double slot_updates(double n, double slots)
{
    return n * n * n / 6 * slots * slots + n * n * slots * slots * slots / 3;
}

static uint64_t slot_bytes(uint32_t n, uint32_t slots)
{
    return offload_backward_bytes(n, slots) + offload_forward_bytes(n, slots);
}

/* Finer slots than are enough have to come cheaper. */
static bool is_affordable(uint32_t n, uint32_t slots)
{
    return slot_bytes(n, slots) <= SLOT_BYTES &&
           slot_updates(n, slots) <= (slots > ENOUGH_SLOTS ? MORE_SLOT_UPDATES : SLOT_UPDATES);
}

/* 0: the chain is too long for the program over slots. */
static uint32_t choose_slots(const remat_problem *problem)
{
    uint32_t n = problem->profile->n_nodes, slots = MOST_SLOTS;
    if (!offload_possible(problem->link))
        return 0;
    if (problem->options.values[0] > 0)
        return (uint32_t)problem->options.values[0];
    while (slots >= LEAST_SLOTS && !is_affordable(n, slots))
        slots--;
    return slots >= LEAST_SLOTS ? slots : 0;
}

/* The problem as rotor sees it. */
static remat_problem without_link(const remat_problem *problem)
{
    remat_problem own = {.profile = problem->profile, .max_budget = problem->max_budget};
    for (int i = 0; i < CHAIN_PERSISTENT_OPTIONS; i++)
        own.options.values[i] = chain_persistent_options[i].default_value;
    return own;
}

static remat_status pofo_estimate(const remat_problem *problem, remat_estimate *ret_estimate,
                                  remat_error *error)
{
    remat_problem plain = without_link(problem);
    remat_estimate sum, lists;
    remat_status status = chain_persistent_estimate(&plain, &sum, error);
    if (!status)
        status = offload_family_estimate(problem, &lists, error);
    if (status)
        return status;
    if (offload_possible(problem->link)) {
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

static remat_status solve_slots(const solving *s, remat_error *error)
{
    offload_program p = {0};
    uint32_t slots = choose_slots(s->problem);
    if (slots == 0)
        return REMAT_OK;
    remat_status status =
        offload_program_init(&p, s->problem, s->chain, slots, false, s->host, error);
    if (!status && p.forward.model)
        status = offload_program_offer(s->problem, &p.forward, s->host, s->sink, error);
    offload_program_clear(&p);
    return status;
}

/* ---- exact plans and bounds ---- */

/* Makespan of the best schedule so far that the programs' own memory fits. */
static double best_known(const solving *s, uint64_t budget)
{
    return fmin(remat_sink_best(s->sink, budget), chain_persistent_best(s->persistent, budget));
}

static remat_status place_plan(const solving *s, uint64_t budget, offload_plan *plan,
                               remat_error *error)
{
    const remat_model model = {.tentative = true};
    offload_placing placing;
    remat_operations operations = {0};
    remat_status status = offload_place_plan(s->problem->profile, plan, &placing, error);
    if (status)
        return status;
    status = offload_place(&placing, NULL, budget, &operations);
    if (!status)
        status = remat_offer(s->sink, &operations, &model, error);
    else if (status == REMAT_NO_MEMORY)
        remat_fail_memory(error);
    remat_operations_clear(&operations);
    offload_placing_clear(&placing);
    return status == REMAT_INFEASIBLE ? REMAT_OK : status;
}

/* One search: a bound, and a plan where one beats what is known. */
static remat_status search_budget(const solving *s, const offload_model *model,
                                  const offload_forward *relaxed, uint64_t budget, double *work,
                                  remat_error *error)
{
    offload_labels_result result;
    double known = best_known(s, budget);
    remat_status status = offload_labels_search(model, relaxed, budget, known, OFFLOAD_LABEL_WORK,
                                                s->host, &result, error);
    if (status)
        return status;
    *work += result.work;
    if (!result.finished)
        return REMAT_OK;
    if (result.plan.compute.length > 0)
        status = place_plan(s, budget, &result.plan, error);
    return status ? status : remat_offer_bound(s->sink, budget, fmin(known, result.value), error);
}

/* The largest budget first, then smaller ones while there is work left. */
static remat_status search_labels(const solving *s, const offload_forward *relaxed,
                                  remat_error *error)
{
    offload_model model = {0};
    uint64_t most = offload_most_bytes(s->chain);
    remat_status status = offload_model_init(&model, s->problem->profile, s->chain,
                                             s->problem->link, 1, most, false, error);
    if (status)
        return status;
    most += model.resident;
    uint64_t top = s->problem->max_budget < most ? s->problem->max_budget : most;
    double work = 0;
    for (uint64_t k = SEARCHES; k > 0 && work < ALL_LABEL_WORK && !status; k--) {
        uint64_t budget = k == SEARCHES ? top : top / SEARCHES * k;
        status = search_budget(s, &model, relaxed, budget, &work, error);
    }
    offload_model_clear(&model);
    return status;
}

/* The relaxed program over half the slots: a bound for every number of them, and for the searches.
 */
static remat_status bound_from_below(const solving *s, remat_error *error)
{
    offload_program p = {0};
    uint32_t slots = choose_slots(s->problem) / 2;
    if (slots == 0)
        return REMAT_OK;
    remat_status status =
        offload_program_init(&p, s->problem, s->chain, slots, true, s->host, error);
    bool solved = !status && p.forward.model;
    for (uint32_t m = 1; m <= slots && solved && !status; m++)
        status = remat_offer_bound(
            s->sink, offload_program_budget(&p.forward, m),
            offload_forward_value(&p.forward, m) / p.model.units_per_time * (1 - ROUNDING), error);
    if (solved && !status && s->chain->n <= LABEL_STAGES)
        status = search_labels(s, &p.forward, error);
    offload_program_clear(&p);
    return status;
}

/* ---- the solve ---- */

/* Everything, the inputs of convolutions, as many as needed. */
static remat_status offer_families(const solving *s, remat_error *error)
{
    bool *moved = NULL;
    remat_status status = offload_family(s->problem, NULL, false, s->sink, error);
    if (!status)
        status = offload_mark_convolutions(s->problem->profile, &moved, error);
    if (!status)
        status = offload_family(s->problem, moved, false, s->sink, error);
    if (!status)
        status = offload_family(s->problem, NULL, true, s->sink, error);
    free(moved);
    return status;
}

static remat_status offload(const solving *s, remat_error *error)
{
    uint64_t programs = slot_bytes(s->problem->profile->n_nodes, choose_slots(s->problem));
    remat_sink_bind(s->sink, s->problem->max_budget, s->problem->max_budget);
    remat_status status =
        remat_sink_hold(s->sink, chain_persistent_bytes(s->persistent) + programs, error);
    if (!status)
        status = offer_families(s, error);
    remat_host_progress(s->host, 0.3);
    if (!status)
        status = solve_slots(s, error);
    remat_host_progress(s->host, 0.7);
    return status ? status : bound_from_below(s, error);
}

static remat_status pofo_solve(const remat_problem *problem, const remat_host *host,
                               const remat_sink *sink, remat_error *error)
{
    remat_problem plain = without_link(problem);
    const remat_host quiet = remat_host_quiet(host);
    chain_persistent *persistent = NULL;
    chain_costs *chain = NULL;
    bool moves = offload_possible(problem->link);
    remat_status status = chain_persistent_new(&plain, false, &quiet, sink, &persistent, error);
    if (!status)
        status = chain_new(problem->profile, &chain, error);
    const solving s = {problem, host, sink, persistent, chain};
    if (!status && moves)
        status = offload(&s, error);
    if (!status)
        status = chain_persistent_offer(persistent, sink, error);
    if (!status && !moves)
        status = chain_persistent_offer_bounds(persistent, sink, error);
    chain_free(chain);
    chain_persistent_free(persistent);
    return status;
}

const remat_solver remat_solver_pofo = {
    .name = "pofo",
    .summary = "Recomputes and offloads together: the programs of the paper over slots of memory, "
               "exact where that is cheap; never worse than either alone.",
    .source = "Beaumont, Eyraud-Dubois, Shilova: Efficient Combination of Rematerialization and "
              "Offloading for Training DNNs, 2021",
    .optimal_for = "",
    .accepts = REMAT_ACCEPTS_CHAIN | REMAT_NEEDS_LINK,
    .version = 1,
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .estimate = pofo_estimate,
    .class_name =
        "persistent schedules of whole stages that offload before the loss and prefetch after it, "
        "memory counted as the paper's programs count it",
    .solve = pofo_solve,
};
