/* --plan and --calibrate: what a training will take before it takes it. */
#include "plan/plan.h"
#include "train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is foreseen ---- */

typedef struct foresight {
    uint64_t weights, gradients, momenta, states, inputs; /* bytes */
    uint64_t arena, peak;
    uint64_t whole; /* of all the training takes from the device's and the host's memory */
    double step;    /* seconds; NAN: without --device */
    size_t operations;
} foresight;

/* As the CPU's memory comes: whole pages, one at least. */
static uint64_t in_pages(uint64_t bytes)
{
    enum { PAGE = 4096 };
    return bytes ? (bytes + PAGE - 1) / PAGE * PAGE : PAGE;
}

static void sum_up(const train *t, const remat_plan *plan, foresight *f)
{
    const net_graph *net = &t->net;
    f->weights = f->momenta = net->weights * sizeof(float);
    f->gradients = net->slopes * sizeof(float);
    f->arena = plan->layout.arena;
    f->peak = plan->peak;
    f->operations = plan->operations.length;
    f->whole = in_pages(f->weights) + in_pages(f->momenta) + in_pages(f->gradients) +
               in_pages(f->arena) + in_pages(sizeof(double)); /* the loss */
    for (uint32_t k = 0; k < net->n_states; k++) {
        f->states += net->states[k].bytes;
        f->whole += in_pages(net->states[k].bytes);
    }
    for (uint32_t k = 0; k < net->n_inputs; k++) {
        f->inputs += net_input_bytes(&net->inputs[k]);
        f->whole += in_pages(net_input_bytes(&net->inputs[k]));
    }
}

/* The profile gets the times of the device, of every node's first implementation. */
static remat_status take_times(train *t)
{
    json_t *json = NULL, *document = NULL;
    remat_profile *profile = NULL;
    remat_device device;
    node_times *times = calloc(t->net.n_nodes, sizeof *times);
    uint32_t *first = calloc(t->net.n_nodes, sizeof *first);
    remat_status status = times && first ? REMAT_OK : remat_fail_memory(&t->error);
    if (!status && t->options->device)
        status = file_read_json(t->options->device, &json, &t->error);
    if (!status && t->options->device)
        status = remat_device_decode(json, "device", &device, &t->error);
    if (!status && t->options->device)
        training_predict(&t->net, &device, times);
    if (!status)
        status = training_profile(&t->net, &t->backend, t->options->device ? times : NULL, first,
                                  &document, &profile, &t->error);
    if (!status)
        status = train_replace_profile(t, document, profile);
    json_decref(json);
    free(times);
    free(first);
    return status;
}

static remat_status foresee(train *t, remat_plan *plan, foresight *f)
{
    remat_status status = train_describe(t);
    if (!status)
        status = take_times(t);
    /* Layouts of storing everything are within a tenth of its peak. */
    const char *solver = t->options->budget ? t->options->solver : "store-all";
    if (!status)
        status = remat_plan_solve(t->profile, solver,
                                  t->options->budget ? t->budget : t->store_all + t->store_all / 10,
                                  NULL, REMAT_DEFAULT_ALIGNMENT, plan, &t->error);
    if (status)
        return status;
    sum_up(t, plan, f);
    f->step =
        t->options->device ? plan->makespan * remat_time_unit_seconds(t->profile->time_unit) : NAN;
    return REMAT_OK;
}

/* ---- what was taken ---- */

/* A memory that counts what is taken of it and given back. */
typedef struct counted {
    const remat_exec_backend *of;
    uint64_t now, most;
    struct {
        void *at;
        uint64_t bytes;
    } taken[4096];
    size_t n;
} counted;

static void *count(counted *c, void *at, uint64_t bytes)
{
    if (!at || c->n == sizeof c->taken / sizeof *c->taken)
        return at;
    c->taken[c->n].at = at;
    c->taken[c->n++].bytes = in_pages(bytes);
    c->now += in_pages(bytes);
    c->most = c->now > c->most ? c->now : c->most;
    return at;
}

static void uncount(counted *c, const void *at)
{
    for (size_t i = 0; at && i < c->n; i++)
        if (c->taken[i].at == at) {
            c->now -= c->taken[i].bytes;
            c->taken[i] = c->taken[--c->n];
            return;
        }
}

static void *take_device(void *data, uint64_t bytes)
{
    counted *c = data;
    return count(c, c->of->allocate(c->of->data, bytes), bytes);
}

static void *take_host(void *data, uint64_t bytes)
{
    counted *c = data;
    return count(c, c->of->allocate_host(c->of->data, bytes), bytes);
}

static void give_device(void *data, void *memory)
{
    counted *c = data;
    uncount(c, memory);
    c->of->release(c->of->data, memory);
}

static void give_host(void *data, void *memory)
{
    counted *c = data;
    uncount(c, memory);
    c->of->release_host(c->of->data, memory);
}

/* Trains under the plan with a memory that counts. The CPU's other calls need no data. */
static remat_status check(train *t, const remat_plan *plan, counted *c, training_outcome *ret)
{
    remat_exec_backend memory = *t->backend.memory;
    c->of = t->backend.memory;
    memory.data = c;
    memory.allocate = take_device;
    memory.allocate_host = take_host;
    memory.release = give_device;
    memory.release_host = give_host;
    t->backend.memory = &memory;
    remat_status status = model_init(&t->model, &t->net, &t->backend, &t->error);
    if (!status)
        status = train_run_plan(t, plan, t->options->steps, ret);
    model_clear(&t->model);
    t->model = (model){0};
    t->backend.memory = c->of;
    return status;
}

/* ---- saying it ---- */

static json_t *foresight_json(const train *t, const foresight *f, const counted *c,
                              const training_outcome *o)
{
    json_t *json =
        json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "model", t->net.name,
                  "nodes", (json_int_t)t->net.n_nodes, "weights", (json_int_t)f->weights,
                  "gradients", (json_int_t)f->gradients, "momenta", (json_int_t)f->momenta,
                  "states", (json_int_t)f->states, "inputs", (json_int_t)f->inputs,
                  "store_all_peak", (json_int_t)t->store_all, "peak", (json_int_t)f->peak, "arena",
                  (json_int_t)f->arena, "whole_peak", (json_int_t)f->whole);
    if (!isnan(f->step))
        remat_json_set(&json, "predicted_step", json_real(f->step));
    if (!o)
        return json;
    remat_json_set(&json, "measured_whole_peak", json_integer((json_int_t)c->most));
    remat_json_set(&json, "measured_arena", json_integer((json_int_t)o->arena));
    remat_json_set(&json, "measured_step", json_real(o->step));
    remat_json_set(&json, "step_clock", json_string(t->backend.clock));
    return json;
}

static void print_line(const char *name, uint64_t bytes)
{
    char text[TEXT_SIZE];
    printf("  %-12s %s\n", name, text_bytes((double)bytes, text));
}

static void print_foresight(const train *t, const foresight *f, const counted *c,
                            const training_outcome *o)
{
    char a[TEXT_SIZE], b[TEXT_SIZE];
    printf("%s: %u nodes, %zu operations\n", t->net.name, t->net.n_nodes, f->operations);
    print_line("weights", f->weights);
    print_line("gradients", f->gradients);
    print_line("momenta", f->momenta);
    print_line("states", f->states);
    print_line("inputs", f->inputs);
    print_line("store-all", t->store_all);
    printf("  %-12s %s, peak %s\n", "arena", text_bytes((double)f->arena, a),
           text_bytes((double)f->peak, b));
    print_line("whole step", f->whole);
    if (!isnan(f->step))
        printf("  %-12s %s\n", "step", text_seconds(f->step, a));
    if (!o)
        return;
    printf("  %-12s %s: %+.2f %% of the plan\n", "taken", text_bytes((double)c->most, a),
           100 * ((double)c->most / (double)f->whole - 1));
    printf("  %-12s %s of %s", "took", text_seconds(o->step, a), train_clock(t));
    if (!isnan(f->step))
        printf(": the plan is %+.1f %% of it", 100 * (f->step / o->step - 1));
    putchar('\n');
}

int train_foresee(train *t)
{
    remat_plan plan = {0};
    foresight f = {0};
    counted *c = calloc(1, sizeof *c);
    training_outcome outcome = {0};
    const bool checks = t->options->check;
    int code = CLI_OK;
    remat_status status = c ? foresee(t, &plan, &f) : remat_fail_memory(&t->error);
    if (!status && checks)
        status = check(t, &plan, c, &outcome);
    if (status)
        code = train_fail(t);
    else if (t->options->json)
        code = train_write_json(t, foresight_json(t, &f, c, checks ? &outcome : NULL));
    else
        print_foresight(t, &f, c, checks ? &outcome : NULL);
    free(outcome.losses);
    free(c);
    remat_plan_clear(&plan);
    return code;
}

/* ---- calibrating ---- */

static void on_progress(void *data, double fraction)
{
    progress_draw(data, "calibrating", fraction);
}

int train_calibrate(train *t)
{
    remat_device device;
    struct progress bar;
    progress_begin(&bar, t->show_progress, false);
    remat_status status = backend_find("cpu", 1, &t->backend, &t->error);
    if (!status)
        status = training_calibrate(&t->backend, &device, on_progress, &bar, &t->error);
    progress_end(&bar);
    return status ? train_fail(t) : train_write_json(t, remat_device_encode(&device));
}
