/* Slots. Without the option, memory is counted exactly (a slot is the greatest common divisor of
 * all sizes) where that takes at most EXACT_SLOTS, else in FIRST_SLOTS with sizes rounded up.
 *
 * Branches. Every branch has a position of its own in the tables as long as these stay within
 * MOST_BYTES and MOST_UPDATES; for that slots are halved, down to LEAST_SLOTS, for joins of up to
 * three branches. Beyond, the two shortest branches (or groups) are merged until the tables fit: a
 * group's values at the same distance from the turn are one value, as in EQUIV-CHAIN. The whole
 * join as one group, and storing everything, are always among the lists.
 *
 * Bounds. Where canonical schedules are optimal (tables.c) the bound is the table's own value, or
 * that of a second table with sizes rounded down when slots are not exact. Otherwise the loss and,
 * branch by branch, the least time of that branch alone in all the memory: by its own table if it
 * would be optimal alone, else each of its steps once. What a schedule does on one branch is a
 * schedule of that branch alone. */
#include "papers/join/solve.h"
#include "papers/join/groups.h"
#include "papers/join/others.h"
#include "remat/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EXACT_SLOTS = 1000, FIRST_SLOTS = 500, LEAST_SLOTS = 125, MAX_SLOTS_OPTION = 65536 };
#define MOST_BYTES 1.2e9
#define MOST_UPDATES 3e10
#define REACH 2.6 /* liveness may fit a nominal budget this many times the true one */

static const char *const models[] = {"allocator", "pebble", NULL};

const remat_option join_options[JOIN_OPTIONS] = {
    {.name = "slots",
     .summary = "slots of memory; 0: exact bytes where that is cheap, else 500",
     .type = REMAT_OPTION_INTEGER,
     .maximum = MAX_SLOTS_OPTION},
    {.name = "model",
     .summary = "allocator: bytes, what jobs execute; pebble: the report's model of unit sizes and "
                "operations in place, the budget in slots, operations F S T B D Db",
     .type = REMAT_OPTION_CHOICE,
     .choices = models},
    {.name = "keep_gradients",
     .summary = "pebble model: the gradients at the graph inputs are kept to the end",
     .type = REMAT_OPTION_BOOLEAN},
};

typedef struct plan {
    join_costs *fine;    /* a branch each */
    join_costs *grouped; /* NULL: fine is what is solved */
    join_setting setting;
    uint64_t bytes; /* that the slots span */
    bool exact_slots;
    bool whole;            /* reaches what storing everything takes */
    uint64_t least_budget; /* from which on the slots are these */
} plan;

static void plan_clear(plan *p)
{
    join_free(p->fine);
    join_free(p->grouped);
    *p = (plan){0};
}

/* ---- storing everything ---- */

static bool push_forward(const remat_profile *profile, uint32_t v, remat_operations *list)
{
    return !remat_push(list, profile->nodes[v].saved_bytes ? REMAT_A : REMAT_F, v);
}

static bool store_branch_backward(const join_branch *b, remat_operations *list)
{
    for (uint32_t i = b->length; i-- > 0;)
        if ((!b->uses_output[i] && remat_push(list, REMAT_D, b->nodes[i])) ||
            remat_push(list, REMAT_B, b->nodes[i]) ||
            (b->uses_output[i] && remat_push(list, REMAT_D, b->nodes[i])))
            return false;
    return true;
}

/* Every node once, each value dropped when its last backward is done. */
static remat_status store_all(const join_costs *fine, remat_operations *list, remat_error *error)
{
    bool done = true;
    for (uint32_t j = 0; j < fine->k; j++)
        for (uint32_t i = 0; i < fine->branches[j].length && done; i++)
            done = push_forward(fine->profile, fine->branches[j].nodes[i], list);
    done = done && !join_push_turn(fine, list);
    for (uint32_t j = fine->k; j-- > 0 && done;)
        done = store_branch_backward(&fine->branches[j], list);
    return done ? REMAT_OK : remat_fail_memory(error);
}

static remat_status store_all_bytes(const join_costs *fine, uint64_t *ret_bytes, remat_error *error)
{
    remat_operations list = {0};
    double time;
    remat_status status = store_all(fine, &list, error);
    if (!status)
        status = join_measure(fine->profile, &list, ret_bytes, &time, error);
    remat_operations_clear(&list);
    return status;
}

/* ---- slots ---- */

/* Whether liveness can only free what the recurrence has freed already. */
static bool nominal_is_true(const remat_profile *profile)
{
    for (uint32_t v = 0; v < profile->n_nodes; v++)
        if (!profile->nodes[v].backward_uses_inputs || profile->nodes[v].in_place)
            return false;
    return true;
}

static remat_status choose_slots(const remat_problem *problem, plan *p, remat_error *error)
{
    uint64_t all = 0, constant = p->fine->constant_bytes;
    double given = problem->options.values[0];
    remat_status status = store_all_bytes(p->fine, &all, error);
    if (status)
        return status;
    double per_byte = nominal_is_true(problem->profile) ? 1 : REACH;
    double reach = (double)problem->max_budget * per_byte;
    p->whole = reach >= (double)all;
    uint64_t most = p->whole ? all : (uint64_t)reach;
    uint64_t enough = (uint64_t)((double)all / per_byte) + 1; /* surely whole */
    p->least_budget = p->whole && enough < problem->max_budget ? enough : problem->max_budget;
    uint64_t bytes = p->bytes = most > constant ? most - constant : 0;
    uint64_t unit = join_unit(p->fine);
    uint32_t slots = given > 0 ? (uint32_t)given : EXACT_SLOTS;
    p->exact_slots = bytes / unit <= slots;
    if (p->exact_slots) {
        slots = (uint32_t)(bytes / unit);
    } else {
        slots = given > 0 ? (uint32_t)given : FIRST_SLOTS;
        unit = bytes / slots + (bytes % slots != 0);
    }
    p->setting = (join_setting){.unit = unit, .n_slots = slots, .round_up = true};
    return REMAT_OK;
}

static bool fits(const join_costs *join, uint32_t n_slots)
{
    double cells, updates;
    join_tables_size(join, &cells, &updates);
    return cells * (n_slots + 1.0) * sizeof(double) <= MOST_BYTES &&
           updates * (n_slots + 1.0) <= MOST_UPDATES;
}

static void halve_slots(plan *p)
{
    uint32_t slots = p->setting.n_slots / 2;
    p->setting.n_slots = slots;
    p->setting.unit = p->bytes / slots + (p->bytes % slots != 0);
    p->exact_slots = false;
}

/* ---- groups ---- */

/* More groups than this never fit: each doubles the positions at least. */
enum { MOST_GROUPS = 27 };
#define MOST_PLACES 1e7 /* of nodes in the groups, which one long branch makes many */

static remat_status merge_as(plan *p, join_groups *groups, remat_error *error)
{
    double places = join_groups_places(groups);
    if (places > MOST_PLACES)
        return remat_fail(error, REMAT_TOO_LARGE, NULL,
                          "the %u branches of this join are too different in length to be merged",
                          p->fine->k);
    join_free(p->grouped);
    p->grouped = NULL;
    return join_merge(p->fine, groups->number, groups->n, &p->grouped, error);
}

static remat_status merge_until_fits(plan *p, bool merged, remat_error *error)
{
    uint32_t most = merged ? 1 : MOST_GROUPS;
    join_groups groups;
    if (p->fine->k <= 1 || (!merged && fits(p->fine, p->setting.n_slots)))
        return REMAT_OK;
    if (join_groups_init(p->fine, &groups))
        return remat_fail_memory(error);
    remat_status status = REMAT_OK;
    do {
        do
            join_groups_merge(&groups);
        while (groups.n > most);
        status = merge_as(p, &groups, error);
    } while (!status && groups.n > 1 && !fits(p->grouped, p->setting.n_slots));
    join_groups_clear(&groups);
    return status;
}

static remat_status plan_new(const remat_problem *problem, bool merged, plan *p, remat_error *error)
{
    remat_status status = join_new(problem->profile, &p->fine, error);
    if (!status)
        status = choose_slots(problem, p, error);
    bool may_halve = problem->options.values[0] == 0 && p->fine && p->fine->k <= 3 && !merged;
    while (!status && may_halve && !fits(p->fine, p->setting.n_slots) &&
           p->setting.n_slots / 2 >= LEAST_SLOTS)
        halve_slots(p);
    return status ? status : merge_until_fits(p, merged, error);
}

/* ---- the bound ---- */

/* Adds to bound what branch j, or the whole of join, takes at least beyond the loss. */
static remat_status add_bound(const join_costs *join, join_setting setting, const remat_host *host,
                              double *bound, remat_error *error)
{
    join_tables *tables = NULL;
    setting.round_up = false;
    remat_status status = join_tables_new(join, &setting, host, &tables, error);
    if (status)
        return status;
    for (size_t m = 0; m <= setting.n_slots; m++)
        bound[m] += join_tables_answer(tables)[m] - join->loss_time;
    join_tables_free(tables);
    return REMAT_OK;
}

static remat_status bound_branch(const plan *p, uint32_t j, const remat_host *host, double *bound,
                                 remat_error *error)
{
    join_costs *alone = NULL;
    remat_status status = join_alone(p->fine, j, &alone, error);
    if (status)
        return status;
    if (join_exact(alone)) {
        status = add_bound(alone, p->setting, host, bound, error);
    } else {
        double time = 0;
        for (uint32_t i = 0; i < p->fine->branches[j].length; i++)
            time += p->fine->branches[j].forward[i] + p->fine->branches[j].backward[i];
        for (size_t m = 0; m <= p->setting.n_slots; m++)
            bound[m] += time;
    }
    join_free(alone);
    return status;
}

/* bound[m] holds in constant_bytes + (m + 1) * unit - 1 bytes. */
static remat_status offer_bounds(const plan *p, const double *bound, const remat_sink *sink,
                                 remat_error *error)
{
    double store_all = remat_store_all_makespan(p->fine->profile);
    uint64_t budget = p->fine->constant_bytes;
    remat_status status = budget ? remat_offer_bound(sink, budget - 1, INFINITY, error) : REMAT_OK;
    for (size_t m = 0; m <= p->setting.n_slots && !status; m++) {
        budget += p->setting.unit;
        status = remat_offer_bound(sink, budget - 1, fmax(bound[m], store_all), error);
    }
    return status ? status : remat_offer_bound(sink, UINT64_MAX, store_all, error);
}

static remat_status find_bounds(const plan *p, const double *answer, const remat_sink *sink,
                                const remat_host *host, remat_error *error)
{
    size_t n = (size_t)p->setting.n_slots + 1;
    double *bound = malloc(n * sizeof *bound);
    bool exact = !p->grouped && join_exact(p->fine);
    remat_status status = bound ? REMAT_OK : remat_fail_memory(error);
    for (size_t m = 0; m < n && !status; m++)
        bound[m] = answer && exact ? answer[m] : p->fine->loss_time;
    if (!status && exact && !answer)
        status = add_bound(p->fine, p->setting, host, bound, error);
    for (uint32_t j = 0; j < p->fine->k && !status && !exact; j++)
        status = bound_branch(p, j, host, bound, error);
    if (!status)
        status = offer_bounds(p, bound, sink, error);
    free(bound);
    return status;
}

/* ---- the lists ---- */

typedef struct answers {
    const join_tables *tables;
    const remat_profile *profile;
    uint32_t *slots; /* where the answer changes */
    size_t count;
} answers;

static remat_status measure(const remat_profile *profile, const remat_operations *list,
                            remat_model *ret_model, remat_error *error)
{
    ret_model->tentative =
        profile->n_states > 0; /* branches in another order may see another version */
    return join_measure(profile, list, &ret_model->budget, &ret_model->makespan, error);
}

static remat_status trace(void *context, size_t index, remat_operations *operations,
                          remat_model *model, remat_error *error)
{
    const answers *a = context;
    remat_status status = join_tables_trace(a->tables, a->slots[index], operations, error);
    return status ? status : measure(a->profile, operations, model, error);
}

/* A list for each slot where the answer changes. */
static remat_status offer_answers(const join_costs *join, const join_tables *tables,
                                  uint32_t n_slots, const remat_sink *sink, remat_error *error)
{
    const double *answer = join_tables_answer(tables);
    answers a = {.tables = tables, .profile = join->profile};
    a.slots = malloc(((size_t)n_slots + 1) * sizeof *a.slots);
    if (!a.slots)
        return remat_fail_memory(error);
    for (uint32_t m = 0; m <= n_slots; m++)
        if (!isinf(answer[m]) && (m == 0 || answer[m] < answer[m - 1] * (1 - 1e-12)))
            a.slots[a.count++] = m;
    remat_status status = remat_offer_lists(sink, a.count, trace, &a, error);
    free(a.slots);
    return status;
}

static uint64_t tables_bytes(const join_costs *join, uint32_t n_slots)
{
    double cells, updates;
    join_tables_size(join, &cells, &updates);
    double bytes = cells * (n_slots + 1.0) * sizeof(double);
    return bytes < 1e18 ? (uint64_t)bytes : UINT64_C(1) << 60;
}

static remat_status solve_plan(const plan *p, bool bounded, const remat_sink *sink,
                               const remat_host *host, remat_error *error)
{
    const join_costs *join = p->grouped ? p->grouped : p->fine;
    join_tables *tables = NULL;
    const remat_host quiet = remat_host_quiet(host);
    const bool by_answer = p->grouped == NULL && p->exact_slots;
    remat_status status = remat_sink_hold(sink, tables_bytes(join, p->setting.n_slots), error);
    if (!status)
        status = join_tables_new(join, &p->setting, host, &tables, error);
    if (status)
        return status;
    status = offer_answers(join, tables, p->setting.n_slots, sink, error);
    if (!status && bounded && by_answer)
        status = find_bounds(p, join_tables_answer(tables), sink, &quiet, error);
    join_tables_free(tables);
    if (!status && bounded && !by_answer)
        status = find_bounds(p, NULL, sink, &quiet, error);
    return status ? status : remat_sink_hold(sink, 0, error);
}

static remat_status offer_store_all(const plan *p, const remat_sink *sink, remat_error *error)
{
    remat_operations list = {0};
    remat_model model = {0};
    remat_status status = store_all(p->fine, &list, error);
    if (!status)
        status = measure(p->fine->profile, &list, &model, error);
    if (!status)
        status = remat_offer(sink, &list, &model, error);
    remat_operations_clear(&list);
    return status;
}

/* The whole join as one group: the baseline's lists, so that join is never worse. */
static remat_status solve_merged(const remat_problem *problem, const remat_sink *sink,
                                 const remat_host *host, remat_error *error)
{
    plan p = {0};
    remat_status status = plan_new(problem, true, &p, error);
    if (!status && p.fine->k > 1)
        status = solve_plan(&p, false, sink, host, error);
    plan_clear(&p);
    return status;
}

/* A method that passes the host's limit of memory is left out. */
static remat_status solve_others(const remat_problem *problem, const remat_sink *sink,
                                 const remat_host *host, remat_error *error)
{
    remat_status status = join_offer_lower_sets(problem, sink, host, error);
    if (!status || status == REMAT_TOO_LARGE)
        status = join_offer_sequential(problem, sink, host, error);
    return status == REMAT_TOO_LARGE ? REMAT_OK : status;
}

/* *ret_whole: the slots reached what storing everything takes. */
static remat_status solve_within(const remat_problem *problem, bool merged, const remat_host *host,
                                 const remat_sink *sink, bool *ret_whole, remat_error *error)
{
    plan p = {0};
    const remat_host quiet = remat_host_quiet(host);
    remat_status status = plan_new(problem, merged, &p, error);
    if (!status)
        remat_sink_bind(sink, p.least_budget, p.whole ? UINT64_MAX : problem->max_budget);
    if (!status)
        status = solve_plan(&p, !merged, sink, host, error);
    if (!status && !merged)
        status = solve_merged(problem, sink, &quiet, error);
    if (!status && !merged && p.fine->k > 1)
        status = solve_others(problem, sink, &quiet, error);
    if (!status && p.whole)
        status = offer_store_all(&p, sink, error);
    *ret_whole = p.whole;
    plan_clear(&p);
    return status;
}

/* Where nothing fits the largest budget, twice as much is tried until something does: an answer
 * that refuses says what would do. What is too large then changes nothing. */
remat_status join_solve_tables(const remat_problem *problem, bool merged, const remat_host *host,
                               const remat_sink *sink, remat_error *error)
{
    remat_problem larger = *problem;
    const remat_host quiet = remat_host_quiet(host);
    bool whole;
    remat_status status = solve_within(problem, merged, host, sink, &whole, error);
    while (!status && !whole && isinf(remat_sink_best(sink, UINT64_MAX)) &&
           larger.max_budget < UINT64_MAX / 4) {
        remat_error refusal = {0};
        larger.max_budget = 2 * larger.max_budget + 1;
        status = solve_within(&larger, merged, &quiet, sink, &whole, &refusal);
        if (status == REMAT_TOO_LARGE)
            return REMAT_OK;
        if (status && error)
            *error = refusal;
    }
    return status;
}

remat_status join_estimate_tables(const remat_problem *problem, bool merged,
                                  remat_estimate *ret_estimate, remat_error *error)
{
    plan p = {0};
    double cells = 0, updates = 0;
    remat_status status = plan_new(problem, merged, &p, error);
    if (!status)
        join_tables_size(p.grouped ? p.grouped : p.fine, &cells, &updates);
    double row = p.setting.n_slots + 1.0;
    double bytes = cells * row * sizeof(double) + 64.0 * problem->profile->n_nodes * row;
    remat_estimate others = {0};
    if (!status && !merged && p.fine->k > 1)
        status = join_others_estimate(problem, &others, error);
    plan_clear(&p);
    if (status)
        return status;
    uint64_t own = bytes < 1e18 ? (uint64_t)bytes : UINT64_C(1) << 60;
    *ret_estimate =
        (remat_estimate){.table_bytes = own > others.table_bytes ? own : others.table_bytes,
                         .updates = updates * row + others.updates};
    return REMAT_OK;
}
