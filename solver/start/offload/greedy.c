/* Schedules that offload and recompute nothing, vDNN's (papers/vdnn.c) and a greedy choice.
 *
 * vDNN waits for each copy at the end of its layer; here a copy is waited for when its memory is
 * needed, which is never slower: a family has one list for each of a row of budgets, from the least
 * that suffices to storing everything.
 *
 * offload-greedy moves the first so many values in order of benefit: bytes freed per transfer time
 * exposed, that is, beyond the computations between the value's making and its first reader in the
 * backward; values with no exposed time come first, those with the longest wait before the others.
 */
#include "start/offload/greedy.h"

#include "model/lists.h"
#include "start/offload/model.h"
#include "start/offload/place.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BUDGETS = 64, PREFIXES = 8, SEARCH_STEPS = 40 };
#define MOST_UPDATES 3e8 /* of all lists of a family */

/* ---- what is moved ---- */

static bool is_convolution(const remat_node *node)
{
    return strcasestr(node->op, "conv") || strcmp(node->op, "block") == 0;
}

remat_status offload_mark_convolutions(const remat_profile *profile, bool **ret_moved,
                                       remat_error *error)
{
    uint32_t n = profile->n_nodes;
    bool *moved = calloc(2 * (size_t)n + profile->n_inputs, sizeof *moved);
    if (!moved)
        return remat_fail_memory(error);
    for (uint32_t v = 0; v < n; v++) {
        const remat_node *node = &profile->nodes[v];
        for (uint32_t k = 0; k < node->n_inputs && is_convolution(node); k++)
            moved[node->inputs[k] < n ? node->inputs[k] : n + node->inputs[k]] = true;
    }
    *ret_moved = moved;
    return REMAT_OK;
}

/* ---- in which order ---- */

typedef struct benefit {
    double exposed, wait; /* exposed: transfer time per byte; wait: bytes times time away */
    uint32_t span;
} benefit;

static int by_benefit(const void *a, const void *b)
{
    const benefit *p = a, *q = b;
    if (p->exposed != q->exposed)
        return p->exposed < q->exposed ? -1 : 1;
    if (p->wait != q->wait)
        return p->wait > q->wait ? -1 : 1;
    return p->span < q->span ? -1 : 1;
}

static benefit benefit_of(const offload_placing *p, const remat_link *link, uint32_t k)
{
    const offload_span *one = &p->spans[k];
    double bytes = (double)one->bytes;
    double transfer = bytes / link->to_host + bytes / link->to_device + 2 * link->latency;
    double window = p->at[one->wanted] - p->at[one->made + 1]; /* made + 1 is 0 for an input */
    double exposed = transfer > window ? (transfer - window) / bytes : 0;
    return (benefit){exposed, bytes * (p->at[one->wanted] - p->at[one->read]), k};
}

/* ---- the family ---- */

typedef struct family {
    const offload_placing *placing;
    benefit *order; /* of benefit; NULL: all or nothing */
    uint64_t low, high;
    size_t n_budgets;
} family;

static void choose_first(const family *f, uint32_t count, bool *chosen)
{
    memset(chosen, 0, f->placing->n_spans * sizeof *chosen);
    for (uint32_t k = 0; k < count; k++)
        chosen[f->order[k].span] = true;
}

/* Least number of values that must move to fit the budget. */
static remat_status least_prefix(const family *f, uint64_t budget, bool *chosen,
                                 remat_operations *operations, uint32_t *ret_count)
{
    uint32_t low = 0, high = f->placing->n_spans;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        choose_first(f, middle, chosen);
        operations->length = 0;
        remat_status status = offload_place(f->placing, chosen, budget, operations);
        if (status == REMAT_OK)
            high = middle;
        else if (status == REMAT_INFEASIBLE)
            low = middle + 1;
        else
            return status;
    }
    *ret_count = high;
    return REMAT_OK;
}

/* The least number first, then more in equal parts. */
static remat_status place_prefix(const family *f, uint64_t budget, uint32_t part,
                                 remat_operations *operations)
{
    uint32_t n = f->placing->n_spans, count = 0;
    bool *chosen = malloc((n + 1) * sizeof *chosen);
    if (!chosen)
        return REMAT_NO_MEMORY;
    remat_status status = least_prefix(f, budget, chosen, operations, &count);
    if (!status) {
        count += (n - count) * part / PREFIXES;
        choose_first(f, count, chosen);
        operations->length = 0;
        status = offload_place(f->placing, chosen, budget, operations);
    }
    free(chosen);
    return status;
}

static remat_status trace(void *context, size_t index, remat_operations *operations,
                          remat_model *model, remat_error *error)
{
    const family *f = context;
    model->tentative = true;
    size_t parts = f->order ? PREFIXES + 1 : 1, last = f->n_budgets > 1 ? f->n_budgets - 1 : 1;
    double share = (double)(index / parts) / (double)last;
    uint64_t budget = f->low + (uint64_t)(share * (double)(f->high - f->low));
    remat_status status = f->order ? place_prefix(f, budget, (uint32_t)(index % parts), operations)
                                   : offload_place(f->placing, NULL, budget, operations);
    return status == REMAT_NO_MEMORY ? remat_fail_memory(error) : status;
}

/* Least budget that suffices when everything moves, to one part in a million; where that is more
 * than is asked for, the highest too: a refusal tells it. peak: of storing everything. */
static remat_status find_low(family *f, uint64_t peak, remat_error *error)
{
    uint64_t low = 0, high = f->high;
    remat_operations operations = {0};
    remat_status status = offload_place(f->placing, NULL, high, &operations);
    const bool beyond = status == REMAT_INFEASIBLE;
    if (beyond) {
        low = high;
        high = peak;
    }
    for (int k = 0; k < SEARCH_STEPS && low + high / 1000000 < high; k++) {
        uint64_t middle = low + (high - low) / 2;
        operations.length = 0;
        status = offload_place(f->placing, NULL, middle, &operations);
        if (status == REMAT_OK)
            high = middle;
        else if (status == REMAT_INFEASIBLE)
            low = middle;
        else
            break;
    }
    remat_operations_clear(&operations);
    f->low = high;
    f->high = beyond ? high : f->high;
    return status == REMAT_NO_MEMORY ? remat_fail_memory(error) : REMAT_OK;
}

static double updates_of_list(const remat_profile *profile)
{
    double n = profile->n_nodes;
    return n * n + 20 * n;
}

static size_t count_budgets(const remat_profile *profile)
{
    double fitting = MOST_UPDATES / (PREFIXES + 1) / updates_of_list(profile);
    return fitting < 4 ? 4 : fitting > MOST_BUDGETS ? MOST_BUDGETS : (size_t)fitting;
}

static remat_status offer_placed(const remat_problem *problem, const offload_placing *placing,
                                 bool greedy, const remat_sink *sink, remat_error *error)
{
    family f = {.placing = placing, .n_budgets = count_budgets(problem->profile)};
    for (size_t i = 0; i < placing->base.length; i++)
        f.high = model_larger(f.high, placing->during[i]);
    bool whole = f.high <= problem->max_budget;
    remat_sink_bind(sink, whole ? f.high : problem->max_budget,
                    whole ? UINT64_MAX : problem->max_budget);
    const uint64_t peak = f.high;
    f.high = whole ? peak : problem->max_budget;
    f.order = greedy ? malloc((placing->n_spans + 1) * sizeof *f.order) : NULL;
    if (greedy && !f.order)
        return remat_fail_memory(error);
    for (uint32_t k = 0; greedy && k < placing->n_spans; k++)
        f.order[k] = benefit_of(placing, problem->link, k);
    if (greedy && placing->n_spans > 0)
        qsort(f.order, placing->n_spans, sizeof *f.order, by_benefit);
    size_t parts = greedy ? PREFIXES + 1 : 1;
    remat_status status = find_low(&f, peak, error);
    if (!status)
        status = remat_offer_lists(sink, f.n_budgets * parts, trace, &f, error);
    free(f.order);
    return status;
}

remat_status offload_family(const remat_problem *problem, const bool *moved, bool greedy,
                            const remat_sink *sink, remat_error *error)
{
    const remat_profile *profile = problem->profile;
    const remat_model model = {.tentative = true};
    remat_operations compute = {0};
    offload_placing placing = {0};
    remat_status status = model_store_everything(profile, &compute);
    if (status)
        remat_fail_memory(error);
    if (!status)
        status = offload_placing_init(&placing, profile, &compute, moved, error);
    if (!status)
        status = remat_offer(sink, &compute, &model, error);
    if (!status && offload_possible(problem->link) && placing.n_spans > 0)
        status = offer_placed(problem, &placing, greedy, sink, error);
    offload_placing_clear(&placing);
    remat_operations_clear(&compute);
    return status;
}

/* ---- the solver ---- */

remat_status offload_family_estimate(const remat_problem *problem, remat_estimate *ret_estimate,
                                     remat_error *error)
{
    (void)error;
    double n = problem->profile->n_nodes, budgets = (double)count_budgets(problem->profile);
    /* F, B, two D, and O, D, P of two values; half as much again while a list grows */
    uint64_t list = (uint64_t)(n * 12 * 1.5) * sizeof(remat_operation);
    *ret_estimate =
        (remat_estimate){.table_bytes = ((uint64_t)budgets + 64) * list,
                         .updates = budgets * (PREFIXES + 1) * updates_of_list(problem->profile)};
    return REMAT_OK;
}

static remat_status solve(const remat_problem *problem, const remat_host *host,
                          const remat_sink *sink, remat_error *error)
{
    (void)host;
    return offload_family(problem, NULL, true, sink, error);
}

const remat_solver remat_solver_offload_greedy = {
    .name = "offload-greedy",
    .summary = "Sends as many values to the host as the budget asks, best bytes per exposed "
               "transfer time first.",
    .source = "the usual greedy choice, on the transfers of vDNN",
    .optimal_for = "",
    .accepts = REMAT_ACCEPTS_ANY_SHAPE | REMAT_BASELINE | REMAT_NEEDS_LINK,
    .estimate = offload_family_estimate,
    .solve = solve,
};
