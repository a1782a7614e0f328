/* interval: greedy eviction from storing everything, budget by budget, each from the list of the
 * budget above it and, on graphs of some hundred nodes, from storing everything too. The table it
 * gives is where `auto` begins where no recurrence reaches; what is answered at a budget goes
 * through the improver (remat/improve.h). Its bounds are those of single moments (bound/moments.h).
 */
#include "remat/improve.h"

#include "bound/moments.h"
#include "model/lists.h"
#include "remat/table.h"
#include "search/search.h"

#include <math.h>
#include <stdlib.h>

enum { FEW_NODES = 400, MANY_NODES = 2400 };

/* The option, and its values. */
enum { ORDER = 0, FREE = 0, GIVEN = 1 };

extern const remat_solver remat_solver_interval;

/* For each node. */
#define REORDER_WORK UINT64_C(200000)

/* From one budget to the next. */
#define STEP 0.95

typedef struct ladder {
    const remat_problem *problem;
    const remat_host *host;
    const remat_sink *sink;
    interval_search search;
    bound_moments *moments;
    remat_operations everything;
    remat_operations above; /* runs of the budget above */
} ladder;

/* Greedy at a budget from a list; offers what fits. */
static remat_status climb(ladder *l, const remat_operations *from, double budget, bool *ret_fits,
                          remat_error *error)
{
    interval_search *s = &l->search;
    remat_status status = interval_timeline_load(s->timeline, from, error);
    if (status)
        return status;
    interval_forget_best(s);
    interval_set_budget(s->timeline, budget);
    interval_greedy(s, 0);
    if (s->timeline->failed)
        return remat_fail_memory(error);
    if (remat_host_cancelled(l->host))
        return remat_fail(error, REMAT_CANCELLED, NULL, "cancelled");
    *ret_fits = s->best.length > 0;
    return *ret_fits ? remat_offer(l->sink, &s->best, NULL, error) : REMAT_OK;
}

static remat_status one_budget(ladder *l, double budget, bool *ret_fits, remat_error *error)
{
    bool from_everything = false, from_above = false;
    uint32_t n = l->problem->profile->n_nodes;
    remat_status status = REMAT_OK;
    if (n <= FEW_NODES)
        status = climb(l, &l->everything, budget, &from_everything, error);
    if (!status)
        status = climb(l, &l->above, budget, &from_above, error);
    if (!status && from_above)
        model_swap_lists(&l->above, &l->search.best);
    *ret_fits = from_everything || from_above;
    return status;
}

/* Budgets ever smaller until one is not met, then halfway between it and the last that was. */
static remat_status descend(ladder *l, double peak, remat_error *error)
{
    const remat_profile *profile = l->problem->profile;
    uint32_t n = profile->n_nodes;
    int budgets = n <= FEW_NODES ? 40 : n <= MANY_NODES ? 16 : n <= REMAT_LARGE_NODES ? 8 : 5;
    int halvings = n <= MANY_NODES ? 5 : n <= REMAT_LARGE_NODES ? 3 : 2;
    int steps = n <= FEW_NODES ? 1 : n <= MANY_NODES ? 2 : n <= REMAT_LARGE_NODES ? 4 : 8;
    double step = pow(STEP, steps);
    double met = peak, budget = peak;
    bool fits = true;
    remat_status status = REMAT_OK;
    for (int i = 0; i < budgets && fits && !status; i++) {
        double bound = bound_moments_makespan(l->moments, (uint64_t)budget, REMAT_FEW_MOMENTS(n));
        status = remat_offer_bound(l->sink, (uint64_t)budget, bound, error);
        if (!status)
            status = one_budget(l, budget, &fits, error);
        remat_host_progress(l->host, (double)(i + 1) / (budgets + halvings));
        met = fits ? budget : met;
        budget = fits ? floor(budget * step) : budget;
    }
    for (int i = 0; i < halvings && !fits && !status; i++) {
        double middle = floor((met + budget) / 2);
        bool there = false;
        status = one_budget(l, middle, &there, error);
        *(there ? &met : &budget) = middle;
    }
    return status;
}

/* Below it the bound says that something runs again, in whatever order. */
static double least_of_orders(const ladder *l, double peak)
{
    enum { HALVINGS = 10 };
    const remat_profile *profile = l->problem->profile;
    const double once = l->search.timeline->tasks->total_time * (1 + 1e-9);
    double low = 0, high = peak;
    for (int i = 0; i < HALVINGS; i++) {
        const double middle = (low + high) / 2;
        const bool again = bound_moments_makespan(l->moments, (uint64_t)middle,
                                                  REMAT_FEW_MOMENTS(profile->n_nodes)) > once;
        *(again ? &low : &high) = middle;
    }
    return low;
}

/* Another order of the same runs takes no time: of a joint graph it comes first. */
static remat_status reorder(ladder *l, remat_error *error)
{
    interval_search *s = &l->search;
    remat_status status = remat_offer(l->sink, &l->everything, NULL, error);
    if (status || remat_keeps_order(&remat_solver_interval, &l->problem->options))
        return status;
    interval_reorder(s, least_of_orders(l, interval_peak(s->timeline)),
                     REORDER_WORK * l->problem->profile->n_nodes);
    if (s->timeline->failed)
        return remat_fail_memory(error);
    if (remat_host_cancelled(l->host))
        return remat_fail(error, REMAT_CANCELLED, NULL, "cancelled");
    l->everything.length = l->above.length = 0;
    if (interval_timeline_list(s->timeline, &l->everything) ||
        interval_timeline_list(s->timeline, &l->above))
        return remat_fail_memory(error);
    return remat_offer(l->sink, &l->everything, NULL, error);
}

static remat_status solve(const remat_problem *problem, const remat_host *host,
                          const remat_sink *sink, remat_error *error)
{
    const remat_profile *profile = problem->profile;
    ladder l = {.problem = problem, .host = host, .sink = sink};
    interval_tasks *tasks = NULL;
    remat_status status = interval_tasks_new(
        profile, 1, remat_keeps_order(&remat_solver_interval, &problem->options), 1, &tasks, error);
    if (!status)
        status = bound_moments_new(profile, &l.moments, error);
    if (!status && (model_store_everything(profile, &l.everything) ||
                    model_store_everything(profile, &l.above)))
        status = remat_fail_memory(error);
    if (!status)
        status = interval_timeline_new(tasks, &l.everything, (double)REMAT_MAX_BYTES / 4,
                                       &l.search.timeline, error);
    l.search.random = 1;
    l.search.host = host;
    if (!status && profile->joint)
        status = reorder(&l, error);
    if (!status)
        status = descend(&l, interval_peak(l.search.timeline), error);
    interval_timeline_free(l.search.timeline);
    remat_operations_clear(&l.search.best);
    remat_operations_clear(&l.everything);
    remat_operations_clear(&l.above);
    bound_moments_free(l.moments);
    interval_tasks_free(tasks);
    return status;
}

static remat_status estimate(const remat_problem *problem, remat_estimate *ret_estimate,
                             remat_error *error)
{
    (void)error;
    const remat_profile *p = problem->profile;
    double n = p->n_nodes;
    *ret_estimate = (remat_estimate){.table_bytes = remat_improve_bytes(p),
                                     .updates = (p->n_nodes <= FEW_NODES ? 3000 : 300) * n * n / 8};
    return REMAT_OK;
}

static remat_status check(const remat_problem *problem, remat_error *error)
{
    uint32_t n = problem->profile->n_nodes;
    if (!problem->profile->joint && problem->options.values[ORDER] != FREE)
        return remat_fail(error, REMAT_NOT_ACCEPTED, "options.order",
                          "order is of joint graphs; this one is forward");
    uint32_t most = remat_improved_nodes(problem->profile);
    if (n <= most)
        return REMAT_OK;
    return remat_fail(error, REMAT_NOT_ACCEPTED, NULL,
                      "interval searches graphs like this one of up to %u nodes, not %u", most, n);
}

bool remat_keeps_order(const remat_solver *solver, const remat_options *options)
{
    return solver == &remat_solver_interval && options->values[ORDER] != FREE;
}

bool remat_keep_order(const remat_solver *solver, remat_options *options)
{
    if (solver != &remat_solver_interval)
        return false;
    options->values[ORDER] = GIVEN;
    return true;
}

static const char *const orders[] = {[FREE] = "free", [GIVEN] = "given", NULL};

static const remat_option options[] = {
    [ORDER] = {
        .name = "order",
        .summary =
            "Of a joint graph: whether operations move or their first runs keep the order of the "
            "profile.",
        .type = REMAT_OPTION_CHOICE,
        .default_value = FREE,
        .choices = orders,
        .silent = true}};

const remat_solver remat_solver_interval = {
    .name = "interval",
    .summary =
        "Any value dropped and made again at any time, any number of times: greedy eviction, "
        "then large neighbourhoods and annealing at the budget asked for.",
    .source = "retention intervals as in Bartan et al.: MOCCASIN, 2023; greedy as in Kirisame et "
              "al.: Dynamic tensor rematerialization, 2021; bound by minimum cuts",
    .optimal_for = "",
    .accepts = REMAT_ACCEPTS_ANY_SHAPE | REMAT_ACCEPTS_JOINT | REMAT_ACCEPTS_PINS,
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .version = 14,
    .class_name = "schedules without offloading",
    .bounds_all = true,
    .improved = true,
    .check = check,
    .estimate = estimate,
    .solve = solve,
};
