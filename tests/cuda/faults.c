/* The CUDA backend where things go beside one another and wrong: copies on their own streams, every
 * call that fails, too little memory, no device. And the emulation itself: it must notice what it
 * is there to notice. */
#include "unit/exec_support.h"

#include "emulated.h"

#include <cuda_runtime_api.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SEEDS = 6, MEMORY = 256 << 20 };

static void start_device(uint64_t seed, uint64_t fault)
{
    emulated_start(
        &(emulated_settings){.memory = MEMORY, .seed = seed, .fault = fault, .devices = 1});
}

/* Small, with copies of inputs, values and saved values to make, and with states. */
static void open_small(bench *b)
{
    remat_error error;
    const network_settings settings = {.batch = 2, .image = 32, .width = 0.0625, .classes = 4};
    assert_ok(network_build("resnet18", &settings, &b->net, &error), error);
    bench_open_on(b, "cuda", NULL);
}

/* ---- copies ---- */

/* As fast as it gets, so that solvers copy what they can. */
static const remat_link quick = {.to_host = 1e12, .to_device = 1e12};

static size_t copies_of(const remat_plan *plan)
{
    size_t copies = 0;
    for (size_t i = 0; i < plan->operations.length; i++)
        copies += plan->operations.items[i].kind == REMAT_O;
    return copies;
}

/* Each solver that copies, under each seed; poisoned, but not watched: a device that is asked after
 * every call has nothing going on. */
static void test_copies(void **state)
{
    static const char *const solvers[] = {"offload-all", "offload-conv", "offload-greedy"};
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        bench b;
        start_device(seed, 0);
        open_small(&b);
        training_result expected = train_apart(&b, 2);
        for (size_t i = 0; i < sizeof solvers / sizeof *solvers; i++) {
            remat_error error;
            remat_plan plan;
            assert_ok(remat_plan_solve(b.profile, solvers[i], b.peak, &quick, 256, &plan, &error),
                      error);
            assert_true(copies_of(&plan) > 0);
            training_result got = train_with(&b, &plan, 2, 0.01f, REMAT_EXEC_POISON, NULL);
            const training_difference difference = training_compare(&expected, &got);
            if (!difference.equal)
                fail_msg("%s, seed %d: differs by %g", solvers[i], (int)seed, difference.largest);
            training_result_clear(&got);
            remat_plan_clear(&plan);
        }
        training_result_clear(&expected);
        bench_close(&b);
        assert_int_equal(emulated_left(), 0);
    }
}

static int never_wait(void *data, uint32_t ticket)
{
    (void)data;
    (void)ticket;
    return 0;
}

/* Without the waits some order of the streams gives other numbers: else the test above shows
 * nothing. */
static void test_missing_waits_show(void **state)
{
    uint32_t wrong = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        bench b;
        remat_error error;
        remat_plan plan;
        remat_runner *runner;
        start_device(seed, 0);
        open_small(&b);
        remat_exec_backend careless = *b.backend.memory;
        careless.wait = never_wait;
        assert_ok(remat_plan_solve(b.profile, "offload-all", b.peak, &quick, 256, &plan, &error),
                  error);
        training_result expected = train_with(&b, &plan, 1, 0, REMAT_EXEC_POISON, NULL);
        b.backend.memory = &careless;
        training_result got = {0};
        assert_ok(model_reset(&b.model, 7, &error), error);
        model_fill(&b.model, NULL, 7, 0);
        model_begin(&b.model);
        assert_ok(
            remat_runner_new(&plan, &b.model.calls, &careless, REMAT_EXEC_POISON, &runner, &error),
            error);
        assert_ok(remat_runner_step(runner, &error), error);
        assert_ok(model_update(&b.model, 0, 0.9f, &error), error);
        assert_ok(training_result_take(&b.model, &got, &error), error);
        wrong += !training_compare(&expected, &got).equal;
        remat_runner_free(runner);
        training_result_clear(&expected);
        training_result_clear(&got);
        remat_plan_clear(&plan);
        bench_close(&b);
    }
    assert_true(wrong > 0);
}

/* ---- faults ---- */

/* From no device to a step and back; what is said, or REMAT_OK. */
static remat_status all_of_it(const net_graph *net, remat_error *error)
{
    kernel_backend backend;
    model m = {0};
    training_outcome outcome = {0};
    training_result result = {0};
    json_t *document = NULL;
    remat_profile *profile = NULL;
    remat_plan plan = {0};
    remat_status status = backend_find("cuda", 1, &backend, error);
    if (status)
        return status;
    status = training_profile(net, &backend, NULL, NULL, &document, &profile, error);
    uint64_t peak = 0;
    if (!status)
        status = remat_store_all_peak(profile, &peak, error);
    if (!status)
        status = remat_plan_solve(profile, "offload-all", peak, &quick, 256, &plan, error);
    if (!status)
        status = model_init(&m, net, &backend, error);
    const training_settings settings = {.steps = 2, .rate = 0.1f, .seed = 1};
    if (!status)
        status = training_run(&m, &plan, &settings, &outcome, error);
    if (!status)
        status = training_result_take(&m, &result, error);
    free(outcome.losses);
    training_result_clear(&result);
    model_clear(&m);
    remat_plan_clear(&plan);
    remat_profile_free(profile);
    json_decref(document);
    backend.close();
    return status;
}

/* Each call to a library fails in its turn, and all after it: it is said, and nothing is left. The
 * last calls give things back; nobody can do anything about those. */
static void test_every_fault(void **state)
{
    net_graph net;
    remat_error error;
    (void)state;
    net_begin(&net, "small");
    net_tensor x = net_image(&net, "image", 2, 2, 6, 6);
    x = net_batch_norm(&net, net_conv(&net, x, 3, 3, 1, 1, 1, true), true);
    x = net_dropout(&net, net_max_pool(&net, x, 2, 2, 0), 0.3f);
    net_cross_entropy(&net, net_linear(&net, x, 4, true), net_ids(&net, "label", 2, 4));
    assert_ok(net_finish(&net, &error), error);
    start_device(1, 0);
    assert_ok(all_of_it(&net, &error), error);
    const uint64_t calls = emulated_calls();
    uint64_t said = 0;
    assert_true(calls > 100);
    for (uint64_t fault = 1; fault <= calls; fault++) {
        start_device(1, fault);
        error = (remat_error){0};
        remat_status status = all_of_it(&net, &error);
        if (status && !strstr(error.message, ": CUDA: ") && !strstr(error.message, ": cuBLAS: ") &&
            !strstr(error.message, ": cuDNN: "))
            fail_msg("call %d: \"%s\" names no library", (int)fault, error.message);
        said += status != REMAT_OK;
        assert_int_equal(emulated_left(), 0);
    }
    print_message("# %d calls, %d of them not while giving back\n", (int)calls, (int)said);
    assert_true(said > calls * 3 / 4);
    net_clear(&net);
}

/* ---- too little ---- */

static void test_too_little_memory(void **state)
{
    remat_error error;
    net_graph net;
    (void)state;
    const network_settings settings = {.batch = 4, .image = 32, .width = 0.5, .classes = 4};
    assert_ok(network_build("resnet18", &settings, &net, &error), error);
    uint32_t device = 0, parameters = 0, arena = 0;
    for (uint64_t memory = 1 << 20; memory < 128 << 20; memory += 1 << 20) {
        emulated_start(&(emulated_settings){.memory = memory, .seed = 1, .devices = 1});
        remat_status status = all_of_it(&net, &error);
        assert_int_equal(emulated_left(), 0);
        if (!status)
            break;
        assert_int_equal(status, REMAT_TOO_LARGE);
        assert_non_null(strstr(error.message, "bytes are free"));
        device += strstr(error.message, "cannot be opened") != NULL;
        parameters += strstr(error.message, "for parameters") != NULL;
        arena += strstr(error.message, "for the arena") != NULL;
    }
    assert_true(device > 0 && parameters > 0 && arena > 0);
    net_clear(&net);
}

static void test_no_device(void **state)
{
    kernel_backend backend;
    remat_error error;
    (void)state;
    emulated_start(&(emulated_settings){.memory = MEMORY, .devices = 0});
    assert_int_equal(backend_find("cuda", 1, &backend, &error), REMAT_NOT_FOUND);
    assert_non_null(strstr(error.message, "no CUDA-capable device"));
    emulated_start(&(emulated_settings){.memory = MEMORY, .devices = -1});
    assert_int_equal(backend_find("cuda", 1, &backend, &error), REMAT_NOT_FOUND);
    assert_non_null(strstr(error.message, "driver version is insufficient"));
    start_device(1, 0);
    assert_ok(backend_find("cuda", 1, &backend, &error), error);
    kernel_backend second;
    assert_int_equal(backend_find("cuda", 1, &second, &error), REMAT_INVALID);
    backend.close();
    assert_int_equal(emulated_left(), 0);
}

/* ---- the emulation ---- */

/* The signal that ends a process that does it; 0: none. */
static int ends_by(void (*does)(float *device))
{
    float *device;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGABRT, SIG_DFL);
        fclose(stderr);
        start_device(1, 0);
        if (cudaMalloc((void **)&device, 40) == cudaSuccess)
            does(device);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

static void touch(float *device)
{
    *(volatile float *)device = 1;
}

static void write_past_the_end(void *data)
{
    (*(float **)data)[10] = 1;
}

static void overrun(float *device)
{
    emulated_queue(NULL, write_past_the_end, &device, sizeof device);
    cudaDeviceSynchronize();
}

static void test_emulation_dies(void **state)
{
    (void)state;
    assert_true(ends_by(touch) != 0);
    assert_true(ends_by(overrun) != 0);
}

static void test_emulation_is_late(void **state)
{
    float *device, *pinned, pageable[10] = {1}, back[10] = {0};
    cudaStream_t a, b;
    (void)state;
    start_device(1, 0);
    assert_int_equal(cudaMalloc((void **)&device, 40), cudaSuccess);
    assert_int_equal(cudaMallocHost((void **)&pinned, 40), cudaSuccess);
    assert_int_equal(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking), cudaSuccess);
    assert_int_equal(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking), cudaSuccess);
    assert_int_equal(cudaMemcpyAsync(device, pageable, 40, cudaMemcpyHostToDevice, a),
                     cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpy(device, pageable, 40, cudaMemcpyHostToDevice), cudaSuccess);
    assert_int_equal(cudaMemcpyAsync(pinned, device, 40, cudaMemcpyDeviceToHost, a), cudaSuccess);
    assert_int_equal(cudaMemsetAsync(device, 0, 40, b), cudaSuccess);
    assert_true(isnan(pinned[0])); /* nothing has moved yet */
    assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
    assert_int_equal(cudaMemcpy(back, device, 40, cudaMemcpyDeviceToHost), cudaSuccess);
    assert_int_equal(cudaMemcpyAsync(device, device + 1, 36, cudaMemcpyDeviceToDevice, a),
                     cudaErrorInvalidValue);
    assert_int_equal(cudaMemsetAsync(device, 0, 41, a), cudaErrorInvalidValue);
    cudaStreamDestroy(a);
    cudaStreamDestroy(b);
    cudaFree(device);
    cudaFreeHost(pinned);
    assert_int_equal(emulated_left(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_missing_waits_show),
        cmocka_unit_test(test_every_fault),
        cmocka_unit_test(test_too_little_memory),
        cmocka_unit_test(test_no_device),
        cmocka_unit_test(test_emulation_dies),
        cmocka_unit_test(test_emulation_is_late),
    };
    return cmocka_run_group_tests_name("cuda-faults", tests, NULL, NULL);
}
