/* Several solvers asked the same question: which, and their tables. */
#include "remat/answer.h"

#include "answer/bounds.h"
#include "answer/part.h"
#include "answer/wish.h"

#include <stdlib.h>

typedef struct candidate {
    const remat_solver *solver;
    remat_problem problem;
    double updates;
    size_t position; /* in the registry; of two questions to one solver, the order given first */
    remat_held_table held;
    remat_status status;
    remat_error error;
} candidate;

static int compare_cost(const void *a, const void *b)
{
    const candidate *p = a, *q = b;
    if (p->updates != q->updates)
        return p->updates < q->updates ? -1 : 1;
    return p->position < q->position ? -1 : 1;
}

/* The problem as a solver is asked it: a link only where the solver needs one. */
static remat_problem problem_for(const remat_solver *solver, const remat_problem *problem)
{
    remat_problem own = *problem;
    if (!(solver->accepts & REMAT_NEEDS_LINK))
        own.link = NULL;
    return own;
}

/* Baselines are asked too where that costs nothing to speak of, and a recurrence unless it takes
 * many seconds: a chain of 500 stages in 4000 slots it still is. */
#define BASELINE_UPDATES 1e7
#define MOST_UPDATES 1e11

/* Solvers of fewer updates are asked side by side; larger ones one by one, each with all workers.
 */
#define SIDE_BY_SIDE_UPDATES 1e8

/* Whether auto asks the solver this; *ret_updates: expected. *status: of what went wrong before, or
 * REMAT_NO_MEMORY, for want of which none is left out. */
static bool asks(const remat_solver *solver, const remat_problem *problem, const remat_host *host,
                 double *ret_updates, remat_status *status)
{
    uint64_t limit = host ? host->memory_limit : 0;
    bool chain = problem->profile->kind == REMAT_CHAIN;
    unsigned left_out = REMAT_BASELINE | (chain ? (unsigned)REMAT_BASELINE_ON_CHAINS : 0u);
    remat_estimate estimate;
    remat_status estimated = remat_solver_accepts(solver, problem, NULL);
    if (!estimated)
        estimated = remat_estimate_table(solver, problem, &estimate, NULL);
    *status = estimated == REMAT_NO_MEMORY ? estimated : *status;
    if (estimated || ((solver->accepts & left_out) && estimate.updates > BASELINE_UPDATES) ||
        (estimate.updates > MOST_UPDATES && !solver->improved) ||
        (limit > 0 && estimate.least_bytes > limit))
        return false;
    *ret_updates = estimate.updates;
    return true;
}

#define START_UPDATES 3e8 /* about a second */

/* Of a long chain what pofo finds is what a search over the link begins with, and fewer slots are
 * enough for that: the start is as good, and a table of 100 stages takes a quarter of a second
 * instead of two. */
static void take_fewer_slots(candidate *c)
{
    enum { MOST = 20, LEAST = 10 };
    const remat_problem *problem = &c->problem;
    if (c->updates <= START_UPDATES || c->solver != remat_solver_find("pofo") ||
        !answer_link_moves(problem->link) || problem->profile->n_nodes > REMAT_LARGE_NODES)
        return;
    for (uint32_t slots = MOST; slots >= LEAST && c->updates > SIDE_BY_SIDE_UPDATES; slots /= 2) {
        candidate fewer = *c;
        remat_estimate estimate;
        if (remat_options_set(c->solver, &fewer.problem.options, "slots", slots, NULL, NULL) ||
            remat_estimate_table(c->solver, &fewer.problem, &estimate, NULL))
            return;
        fewer.updates = estimate.updates;
        *c = fewer;
    }
}

/* What auto asks, cheapest first: every solver with its defaults, and of a joint graph the improved
 * one for the given order too, where the search has less to lose itself in. */
static remat_status find_candidates(const remat_problem *problem, const remat_host *host,
                                    candidate candidates[REMAT_MAX_SOLVERS], size_t *ret_n,
                                    remat_error *error)
{
    remat_status status = REMAT_OK;
    size_t n_solvers, n = 0;
    const remat_solver *const *solvers = remat_solvers(&n_solvers);
    for (size_t i = 0; i < n_solvers; i++) {
        candidate one = {.solver = solvers[i],
                         .problem = problem_for(solvers[i], problem),
                         .position = 2 * i + 1};
        one.problem.options = remat_options_default(solvers[i]);
        if (n < REMAT_MAX_SOLVERS && asks(solvers[i], &one.problem, host, &one.updates, &status)) {
            candidates[n] = one;
            take_fewer_slots(&candidates[n++]);
        }
        one.position--;
        if (n < REMAT_MAX_SOLVERS && problem->profile->joint &&
            remat_keep_order(solvers[i], &one.problem.options) &&
            asks(solvers[i], &one.problem, host, &one.updates, &status))
            candidates[n++] = one;
    }
    qsort(candidates, n, sizeof *candidates, compare_cost);
    *ret_n = n;
    return status ? remat_fail_memory(error) : REMAT_OK;
}

/* Of a graph that is proven to have no schedule within the budget the tables tell the least that
 * will do, or nearly, and no more. */
static remat_status is_refused(const remat_problem *problem, bool *ret_refused, remat_error *error)
{
    const remat_profile *profile = problem->profile;
    remat_floor floor = {0};
    remat_status status = REMAT_OK;
    if (profile->kind != REMAT_CHAIN && !profile->joint && profile->n_nodes > ANSWER_SOME_NODES)
        status = problem->link ? answer_find_link_bound(problem, 0, NULL, &floor.bytes, error)
                               : remat_find_floor(profile, &floor, error);
    *ret_refused = floor.bytes > problem->max_budget;
    return status;
}

/* For that, of those that auto asks, what costs little, and of lower sets the half that spares
 * memory. Returns how many stay. */
static size_t keep_cheap(candidate *candidates, size_t n)
{
    const remat_solver *sets = remat_solver_find("lowerset"),
                       *half = remat_solver_find("lowerset-approx");
    remat_estimate estimate;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        candidate one = candidates[i];
        if (one.updates > SIDE_BY_SIDE_UPDATES && one.solver == sets) {
            one.solver = half;
            one.problem.options = remat_options_default(half);
            if (remat_options_set(half, &one.problem.options, "centric", 0, "memory", NULL) ||
                remat_estimate_table(half, &one.problem, &estimate, NULL))
                return n;
            one.updates = estimate.updates;
        } else if (one.updates > SIDE_BY_SIDE_UPDATES) {
            continue;
        }
        candidates[kept++] = one;
    }
    return kept;
}

/* ---- getting tables ---- */

typedef struct gathering {
    candidate *candidates;
    const remat_host *host; /* of those that are asked now */
    const remat_table_source *source;
} gathering;

static void get_one(void *context, size_t index, unsigned worker)
{
    (void)worker;
    const gathering *g = context;
    candidate *c = &g->candidates[index];
    remat_table *table = NULL;
    remat_host_doing(g->host, c->solver->name);
    if (g->source) {
        c->status =
            g->source->get(g->source->data, c->solver, &c->problem, g->host, &c->held, &c->error);
    } else {
        c->status = remat_tabulate(c->solver, &c->problem, g->host, &table, &c->error);
        c->held.table = table;
    }
}

static double updates_of(const candidate *candidates, size_t n)
{
    double sum = 1;
    for (size_t i = 0; i < n; i++)
        sum += candidates[i].updates;
    return sum;
}

/* The first so many, which are quick, side by side. */
static void get_all(candidate *candidates, size_t n, size_t quick, const remat_host *host,
                    const remat_table_source *source)
{
    const remat_host quiet = remat_host_quiet(host); /* of one another's progress */
    gathering g = {candidates, &quiet, source};
    remat_host_parallel_for(host, quick, get_one, &g);
    answer_part part = {host, 0, 0};
    const remat_host one_by_one = answer_part_host(&part);
    g.host = &one_by_one;
    const double all = updates_of(candidates, n);
    for (size_t i = quick; i < n; i++) {
        part.begin = updates_of(candidates, i) / all;
        part.share = candidates[i].updates / all;
        get_one(&g, i, 0);
    }
}

/* Of several in flight other lists of the same tables are the frontier. */
static remat_status put_in_flight(remat_portfolio *p, uint32_t in_flight, remat_error *error)
{
    remat_status status = REMAT_OK;
    for (size_t i = 0; i < p->n && in_flight > 1 && !status; i++) {
        status = remat_table_in_flight(p->held[i].table, in_flight, &p->owned[i], error);
        if (!status)
            p->tables[i] = p->owned[i];
    }
    return status;
}

/* One that passes a limit leaves the answer to the others. */
static remat_status collect(const candidate *candidates, size_t n, remat_portfolio *p,
                            remat_error *error)
{
    remat_status failure = REMAT_OK;
    for (size_t i = 0; i < n; i++) {
        const candidate *c = &candidates[i];
        if (!c->status && c->held.table) {
            p->tables[p->n] = c->held.table;
            p->given[p->n] = remat_keeps_order(c->solver, &c->problem.options);
            p->held[p->n++] = c->held;
        } else if (!c->status) {
            p->missing += c->updates;
        } else if (!failure || failure == REMAT_TOO_LARGE) {
            failure = c->status;
            if (error)
                *error = c->error;
        }
    }
    return failure == REMAT_TOO_LARGE && (p->n > 0 || p->missing > 0) ? REMAT_OK : failure;
}

remat_status remat_portfolio_gather(const remat_solver *solver, const remat_problem *problem,
                                    const remat_host *host, const remat_table_source *source,
                                    remat_portfolio *ret_portfolio, remat_error *error)
{
    remat_estimate estimate;
    candidate *candidates = calloc(REMAT_MAX_SOLVERS, sizeof *candidates);
    if (!candidates)
        return remat_fail_memory(error);
    remat_portfolio p = {.name = solver ? solver->name : "auto",
                         .source = source,
                         .improved = !solver || solver->improved};
    size_t n = 1, quick = 0;
    remat_status status = remat_check_in_flight(problem, NULL, error);
    if (status) {
        free(candidates);
        return status;
    }
    if (solver) {
        candidate *one = &candidates[0];
        *one = (candidate){.solver = solver, .problem = problem_for(solver, problem)};
        status = remat_solver_accepts(solver, &one->problem, error);
        if (!status)
            status = remat_estimate_table(solver, &one->problem, &estimate, error);
        one->updates = status ? 0 : estimate.updates;
        n = status ? 0 : 1;
    } else {
        bool refused = false;
        status = is_refused(problem, &refused, error);
        if (!status)
            status = find_candidates(problem, host, candidates, &n, error);
        n = status ? 0 : refused ? keep_cheap(candidates, n) : n;
        while (quick < n && candidates[quick].updates <= SIDE_BY_SIDE_UPDATES)
            quick++;
    }
    get_all(candidates, n, quick, host, source);
    if (!status)
        status = collect(candidates, n, &p, error);
    if (!status)
        status = put_in_flight(&p, problem->in_flight, error);
    free(candidates);
    if (status)
        remat_portfolio_release(&p);
    else
        *ret_portfolio = p;
    return status;
}

void remat_portfolio_release(remat_portfolio *portfolio)
{
    while (portfolio->n > 0) {
        remat_held_table held = portfolio->held[--portfolio->n];
        remat_table_free(portfolio->owned[portfolio->n]);
        if (portfolio->source)
            portfolio->source->release(portfolio->source->data, held);
        else
            remat_table_free((remat_table *)held.table);
    }
}
