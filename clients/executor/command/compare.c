/* --compare: the same training under three schedules, and what each of them made of it. */
#include "train.h"

#include <stdlib.h>

enum { COMPARED = 3 };

static remat_status one_step(train *t, const remat_plan *plan, training_result *ret_result)
{
    training_outcome outcome = {0};
    remat_status status = train_run_plan(t, plan, 1, &outcome);
    free(outcome.losses);
    return status ? status : training_result_take(&t->model, ret_result, &t->error);
}

/* Where plans chose other implementations, which round differently: after one step, before the
 * roundings grow. */
static remat_status judge_rounding(train *t, const remat_plan *first, train_run *r)
{
    training_result a = {0}, b = {0};
    remat_status status = one_step(t, first, &a);
    if (!status)
        status = one_step(t, &r->plan.plan, &b);
    if (!status) {
        r->difference = training_compare(&a, &b);
        r->faithful = r->difference.relative <= training_tolerance;
    }
    training_result_clear(&a);
    training_result_clear(&b);
    return status;
}

/* Compares what the model has learnt under a plan with what it learnt under the first. */
static remat_status judge(train *t, const remat_plan *first, const training_result *expected,
                          train_run *r)
{
    training_result got = {0};
    remat_status status = training_result_take(&t->model, &got, &t->error);
    if (status)
        return status;
    r->compared = true;
    r->difference = training_compare(expected, &got);
    r->faithful = r->difference.equal;
    training_result_clear(&got);
    bool rounds = training_uses_alternatives(first) || training_uses_alternatives(&r->plan.plan);
    return r->faithful || !rounds ? REMAT_OK : judge_rounding(t, first, r);
}

/* store-all, Chen's square root, and what was asked for; each compared with the first. */
static remat_status run_all(train *t, train_run runs[COMPARED])
{
    training_result first = {0};
    const bool chain = t->profile->kind == REMAT_CHAIN;
    const char *const solvers[COMPARED] = {"store-all", chain ? "chen-sqrt" : "chen-graph", NULL};
    remat_status status = REMAT_OK;
    for (size_t i = 0; i < COMPARED && !status; i++) {
        status = train_run_solver(t, solvers[i], solvers[i] != NULL, &runs[i]);
        if (!status && i == 0)
            status = training_result_take(&t->model, &first, &t->error);
        else if (!status)
            status = judge(t, &runs[0].plan.plan, &first, &runs[i]);
    }
    training_result_clear(&first);
    return status;
}

int train_compare(train *t)
{
    train_run runs[COMPARED] = {0};
    int code = run_all(t, runs) ? train_fail(t) : CLI_OK;
    if (!code && t->options->json) {
        json_t *list = json_array();
        for (size_t i = 0; i < COMPARED; i++)
            remat_json_append(&list, train_run_json(t, &runs[i]));
        code = train_write_json(t, list);
    } else if (!code) {
        train_print_network(t);
        train_print_comparison(t, runs, COMPARED);
    }
    for (size_t i = 1; i < COMPARED && !code; i++)
        if (!runs[i].faithful) {
            fprintf(stderr, "remat-train: %s differs from store-all by %.3g of the norm\n",
                    runs[i].plan.solver, runs[i].difference.relative);
            code = CLI_NO;
        }
    if (!code && runs[COMPARED - 1].outcome.arena > t->budget)
        code = CLI_NO;
    if (!code && train_post(t, &runs[COMPARED - 1].plan, &runs[COMPARED - 1].outcome))
        code = train_fail(t);
    for (size_t i = 0; i < COMPARED; i++)
        train_run_clear(&runs[i]);
    return code;
}
