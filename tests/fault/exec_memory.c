/* The nth allocation of the executor fails, for every n: the call says so, nothing leaks
 * (AddressSanitizer looks), and the next try succeeds. */
#include "unit/exec_support.h"

#include "fault/failing_malloc.h"

static const network_settings settings = {.batch = 2, .time = 3, .width = 0.0625};
static bench b;
static remat_plan made; /* while nothing fails */
static uint64_t packed; /* the arena of its list where no budget is told */
static json_t *schedule;

static int set_up(void **state)
{
    remat_error error;
    (void)state;
    if (network_build("lstm", &settings, &b.net, &error))
        return -1;
    bench_open(&b, NULL);
    if (remat_plan_solve(b.profile, "lowerset", b.peak, NULL, 256, &made, &error))
        return -1;
    remat_plan alone;
    if (remat_plan_make(b.profile, &made.operations, NULL, 256, &alone, &error))
        return -1;
    packed = alone.layout.arena;
    remat_plan_clear(&alone);
    schedule =
        json_pack("{s:o}", "operations", remat_operations_encode(&made.operations, b.profile));
    return schedule ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    json_decref(schedule);
    remat_plan_clear(&made);
    bench_close(&b);
    return 0;
}

/* ---- one call each ---- */

static remat_status build(remat_error *error)
{
    net_graph net;
    remat_status status = network_build("lstm", &settings, &net, error);
    if (!status)
        net_clear(&net);
    return status;
}

static remat_status open_model(remat_error *error)
{
    model m;
    remat_status status = model_init(&m, &b.net, &b.backend, error);
    if (!status)
        model_clear(&m);
    return status;
}

static remat_status finish_plan(remat_status status, remat_plan *plan, uint64_t arena)
{
    if (!status)
        assert_true(plan->layout.arena == arena);
    remat_plan_clear(plan);
    return status;
}

static remat_status make_plan(remat_error *error)
{
    remat_plan plan = {0};
    return finish_plan(remat_plan_make(b.profile, &made.operations, NULL, 256, &plan, error), &plan,
                       packed);
}

static remat_status solve_plan(remat_error *error)
{
    remat_plan plan = {0};
    return finish_plan(remat_plan_solve(b.profile, "lowerset", b.peak, NULL, 256, &plan, error),
                       &plan, made.layout.arena);
}

static remat_status read_plan(remat_error *error)
{
    remat_plan plan = {0};
    return finish_plan(remat_plan_read(b.profile, schedule, &plan, error), &plan, packed);
}

static remat_status run(remat_error *error)
{
    training_outcome outcome = {0};
    const training_settings one = {.steps = 1, .seed = 7, .flags = REMAT_EXEC_GUARD};
    remat_status status = training_run(&b.model, &made, &one, &outcome, error);
    free(outcome.losses);
    return status;
}

static remat_status measure(remat_error *error)
{
    const training_settings one = {.seed = 7};
    node_times *times = malloc(b.net.n_nodes * sizeof *times);
    remat_status status =
        times ? training_measure(&b.model, 2 * b.peak, 1, false, &one, NULL, NULL, times, error)
              : remat_fail_memory(error);
    free(times);
    b.model.chosen = b.chosen; /* which measuring takes away */
    return status;
}

static remat_status take_result(remat_error *error)
{
    training_result result;
    remat_status status = training_result_take(&b.model, &result, error);
    if (!status)
        training_result_clear(&result);
    return status;
}

/* ---- all of them ---- */

/* Until a call makes no nth allocation. The memory of a device that has not that much is
 * REMAT_TOO_LARGE, and here it is malloc's. Some calls do without: solvers of a portfolio. */
static void fail_each(remat_status (*call)(remat_error *error))
{
    bool met = true;
    long refused = 0;
    const bool slow = getenv("REMAT_SLOW_BUILD"); /* then not each of many */
    for (long n = 0; met; n += slow ? 1 + n / 20 : 1) {
        remat_error error = {0};
        countdown = n;
        remat_status status = call(&error);
        met = countdown < 0;
        countdown = -1;
        if (status && (!met || (status != REMAT_NO_MEMORY && status != REMAT_TOO_LARGE)))
            fail_msg("allocation %ld: status %d: %s", n, (int)status, error.message);
        assert_true(!status || error.message[0] != '\0');
        refused += status != REMAT_OK;
    }
    assert_true(refused > 0);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    fail_each(build);
    fail_each(open_model);
    fail_each(make_plan);
    fail_each(solve_plan);
    fail_each(read_plan);
    fail_each(run);
    fail_each(measure);
    fail_each(take_result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_may_fail)};
    return cmocka_run_group_tests_name("exec-memory", tests, set_up, tear_down);
}
