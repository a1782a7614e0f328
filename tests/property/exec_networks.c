/* Every network trains for 3 steps in half of what storing everything takes (VGG-19 in parts of the
 * batch; as one in 0.7 of it, see clients/executor/results.md), and in other budgets, under several
 * solvers, with each implementation of its convolutions: parameters, gradients, momenta and states
 * are those of storing everything apart, to the last bit. What is dropped becomes NaN, and bytes
 * that belong to nothing are watched (REMAT_EXEC_GUARD). */
#include "unit/exec_support.h"

enum { STEPS = 3, BUDGETS = 3 };

typedef struct sample {
    const char *name;
    network_settings settings; /* small */
    double fraction;           /* of what storing everything takes */
    bool deeper;               /* another's blocks, more of them: in tests/run --long only */
    bool searched;             /* mostly the solver's work: not in a slow build */
} sample;

static const sample samples[] = {
    {"vgg19", {.batch = 64, .image = 32, .width = 0.0625, .classes = 10}, .fraction = 0.7},
    {"resnet18", {.batch = 16, .image = 64, .width = 0.25, .classes = 10}, .fraction = 0.5},
    {"resnet50", {.batch = 8, .image = 32, .width = 0.125, .classes = 10}, .fraction = 0.5},
    {"resnet101",
     {.batch = 8, .image = 32, .width = 0.0625, .classes = 10},
     .fraction = 0.5,
     .deeper = true},
    {"resnet152",
     {.batch = 8, .image = 32, .width = 0.0625, .classes = 10},
     .fraction = 0.5,
     .deeper = true},
    {"densenet121",
     {.batch = 4, .image = 32, .width = 0.125, .classes = 10},
     .fraction = 0.5,
     .deeper = true},
    {"densenet161",
     {.batch = 4, .image = 32, .width = 0.125, .classes = 10},
     .fraction = 0.5,
     .deeper = true},
    {"unet", {.batch = 8, .image = 32, .width = 0.0625, .classes = 3}, .fraction = 0.5},
    {"googlenet",
     {.batch = 16, .image = 64, .width = 0.125, .classes = 10},
     .fraction = 0.5,
     .searched = true},
    {"gpt", {.batch = 2, .time = 16, .width = 0.0625}, .fraction = 0.5},
    {"lstm", {.batch = 8, .time = 40, .width = 0.125}, .fraction = 0.5},
    {"siamese", {.batch = 8, .image = 32, .width = 0.125}, .fraction = 0.5, .searched = true},
    {"crossmodal", {.batch = 8, .image = 32, .time = 8, .width = 0.125}, .fraction = 0.5},
    {"vgg19",
     {.batch = 32, .image = 32, .width = 0.125, .classes = 10, .parts = 4},
     .fraction = 0.5},
};

static void open_sample(const sample *s, const char *implementation, bench *b)
{
    remat_error error;
    assert_ok(network_build(s->name, &s->settings, &b->net, &error), error);
    bench_open(b, implementation);
}

/* Trains within a budget; whether there was a schedule. */
static bool check_plan(bench *b, const char *solver, uint64_t budget,
                       const training_result *expected)
{
    remat_error error;
    remat_plan plan;
    remat_status status = remat_plan_solve(b->profile, solver, budget, NULL, 256, &plan, &error);
    if (status == REMAT_INFEASIBLE || status == REMAT_NOT_ACCEPTED)
        return false;
    assert_ok(status, error);
    assert_true(plan.layout.arena <= budget);
    training_result got = train(b, &plan, STEPS, 0.01f, NULL);
    const training_difference difference = training_compare(expected, &got);
    if (!difference.equal)
        fail_msg("%s, %s, %llu bytes: differs by %g", b->net.name, solver ? solver : "auto",
                 (unsigned long long)budget, difference.largest);
    training_result_clear(&got);
    remat_plan_clear(&plan);
    return true;
}

static void test_half(void **state)
{
    const sample *s = *state;
    bench b;
    open_sample(s, "im2col-rows", &b);
    training_result expected = train_apart(&b, STEPS);
    assert_true(check_plan(&b, NULL, (uint64_t)((double)b.peak * s->fraction), &expected));
    training_result_clear(&expected);
    bench_close(&b);
}

/* Every solver that accepts the network, in the least budget it can serve and larger ones. */
static void test_solvers(void **state)
{
    bench b;
    size_t n_solvers, trained = 0;
    const remat_solver *const *solvers = remat_solvers(&n_solvers);
    open_sample(*state, NULL, &b);
    training_result expected = train_apart(&b, STEPS);
    for (size_t i = 0; i < n_solvers; i++) {
        const remat_problem problem = {.profile = b.profile, .max_budget = b.peak};
        if (remat_solver_accepts(solvers[i], &problem, NULL))
            continue;
        const double fractions[BUDGETS] = {0.55, 0.8, 1.1};
        const bool slow = getenv("REMAT_SLOW_BUILD"); /* then the one in the middle */
        for (size_t k = slow; k < (slow ? 2 : BUDGETS); k++)
            trained += check_plan(&b, solvers[i]->name, (uint64_t)((double)b.peak * fractions[k]),
                                  &expected);
    }
    assert_true(trained >= (getenv("REMAT_SLOW_BUILD") ? 2 : 2 * BUDGETS));
    training_result_clear(&expected);
    bench_close(&b);
}

/* Each implementation has its own bits under every schedule, and nearly those of the first. */
static void test_implementations(void **state)
{
    static const char *const names[] = {"im2col-rows", "im2col-batch"};
    bench b;
    open_sample(*state, NULL, &b);
    training_result first = train_apart(&b, 1);
    bench_close(&b);
    for (size_t i = 0; i < 2; i++) {
        open_sample(*state, names[i], &b);
        training_result one = train_apart(&b, 1), expected = train_apart(&b, STEPS);
        const training_difference difference = training_compare(&first, &one);
        assert_true(difference.relative < training_tolerance && !difference.equal);
        assert_true(check_plan(&b, NULL, (uint64_t)((double)b.peak * 0.9), &expected));
        training_result_clear(&expected);
        training_result_clear(&one);
        bench_close(&b);
    }
    training_result_clear(&first);
}

/* The solver chooses among implementations: in a budget that the first ones alone cannot meet. */
static void test_choices(void **state)
{
    remat_error error;
    remat_plan plan;
    bench b;
    open_sample(*state, NULL, &b);
    training_result expected = train_apart(&b, 1);
    assert_int_equal(remat_plan_solve(b.profile, NULL, 1, NULL, 256, &plan, &error),
                     REMAT_INFEASIBLE);
    uint64_t least = error.number;
    json_t *document = model_profile(&b.net, &b.backend, NULL, NULL);
    remat_profile *profile;
    assert_ok(remat_profile_decode(document, "", &profile, &error), error);
    assert_ok(remat_plan_solve(profile, NULL, least * 19 / 20, NULL, 256, &plan, &error), error);
    assert_true(training_uses_alternatives(&plan));
    b.model.chosen = NULL;
    training_result got = train(&b, &plan, 1, 0.01f, NULL);
    const training_difference difference = training_compare(&expected, &got);
    assert_true(difference.relative < training_tolerance);
    training_result_clear(&expected);
    training_result_clear(&got);
    remat_plan_clear(&plan);
    remat_profile_free(profile);
    json_decref(document);
    bench_close(&b);
}

/* Gradients are not all zero, and do what gradients are for. */
static void test_learning(void **state)
{
    bench b;
    remat_error error;
    remat_plan plan;
    double first, last;
    open_sample(*state, NULL, &b);
    assert_ok(remat_plan_solve(b.profile, NULL, b.peak * 3 / 4, NULL, 256, &plan, &error), error);
    const float rate = b.profile->kind == REMAT_CHAIN ? 0.5f : 0.01f;
    training_result one = train(&b, &plan, 1, rate, &first);
    training_result many = train(&b, &plan, 40, rate, &last);
    assert_true(last < 0.9 * first);
    training_result_clear(&one);
    training_result_clear(&many);
    remat_plan_clear(&plan);
    bench_close(&b);
}

/* A batch in parts is the same step but for the order of sums. */
static void test_parts(void **state)
{
    sample pair[2] = {*(const sample *)*state, *(const sample *)*state};
    double loss[2];
    pair[0].settings.parts = 1;
    for (size_t i = 0; i < 2; i++) {
        bench b;
        remat_error error;
        remat_plan plan;
        open_sample(&pair[i], NULL, &b);
        assert_ok(remat_plan_solve(b.profile, NULL, b.peak, NULL, 256, &plan, &error), error);
        training_result result = train(&b, &plan, STEPS, 0.01f, &loss[i]);
        training_result_clear(&result);
        remat_plan_clear(&plan);
        bench_close(&b);
    }
    assert_true(loss[0] != loss[1]);
    assert_true(fabs(loss[0] - loss[1]) < 1e-5 * loss[0]);
}

#define OF(function, index) cmocka_unit_test_prestate(function, (void *)(uintptr_t)&samples[index])

int main(void)
{
    enum { N = sizeof samples / sizeof *samples };
    struct CMUnitTest tests[N + 12];
    static char names[N][48];
    size_t n = 0;
    for (size_t i = 0; i < N; i++) {
        if (!getenv("REMAT_LONG") &&
            (samples[i].deeper || (samples[i].searched && getenv("REMAT_SLOW_BUILD"))))
            continue;
        snprintf(names[i], sizeof names[i], "half of the memory: %s%s", samples[i].name,
                 samples[i].settings.parts > 1 ? " in parts" : "");
        tests[n++] = (struct CMUnitTest){.name = names[i],
                                         .test_func = test_half,
                                         .initial_state = (void *)(uintptr_t)&samples[i]};
    }
    enum { FIRST = 5, USUAL = 9 }; /* of each kind, in a slow build; without --long */
    const struct CMUnitTest more[] = {
        OF(test_solvers, 10), OF(test_implementations, 0), OF(test_learning, 1),
        OF(test_choices, 1),  OF(test_parts, N - 1),       OF(test_implementations, 7),
        OF(test_learning, 9), OF(test_learning, 10),       OF(test_solvers, 0),
        OF(test_solvers, 1),  OF(test_solvers, 8),         OF(test_solvers, 9)};
    const size_t n_more = getenv("REMAT_SLOW_BUILD") ? FIRST
                          : getenv("REMAT_LONG")     ? sizeof more / sizeof *more
                                                     : USUAL;
    memcpy(tests + n, more, sizeof more);
    return _cmocka_run_group_tests("exec-networks", tests, n + n_more, NULL, NULL);
}
