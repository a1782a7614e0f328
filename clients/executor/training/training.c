#include "training.h"

#include "api.h"
#include "remat/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts. NAN of nothing. */
static double median(double *values, size_t n)
{
    if (n == 0)
        return NAN;
    qsort(values, n, sizeof *values, compare_doubles);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* ---- steps ---- */

/* Times of the steps, one array after the other; the moments at their ends. */
typedef struct step_times {
    double *steps, *walls, *calls, *enqueued;
    kernel_mark from, to;
} step_times;

static remat_status timed(const model *m, int code, remat_error *error)
{
    return code ? remat_fail(error, REMAT_INTERNAL, NULL, "measuring returned %d%s", code,
                             remat_exec_fault(m->backend->memory))
                : REMAT_OK;
}

static remat_status one_step(model *m, remat_runner *runner, const training_settings *s,
                             uint32_t step, step_times *t, remat_error *error)
{
    const kernel_backend *backend = m->backend;
    model_fill(m, s->text, s->seed, step);
    model_begin(m);
    double wall = model_clock();
    remat_status status = timed(m, backend->mark(&t->from), error);
    if (!status)
        status = remat_runner_step(runner, error);
    t->walls[step] = model_clock() - wall;
    if (!status)
        status = timed(m, backend->mark(&t->to), error);
    if (!status)
        status = timed(m, backend->memory->finish(backend->memory->data), error);
    if (!status)
        status = timed(m, backend->between(&t->from, &t->to, &t->steps[step]), error);
    if (!status && m->timing)
        status = timed(m, model_collect(m), error);
    t->calls[step] = m->timing ? m->timing->total : NAN;
    t->enqueued[step] = m->timing ? m->timing->given - wall : NAN;
    if (!status && !isfinite(*m->loss))
        return remat_fail(error, REMAT_INTERNAL, NULL, "the loss of step %u is %g", step + 1,
                          *m->loss);
    return status ? status : model_update(m, s->rate, s->momentum, error);
}

static remat_status all_steps(model *m, remat_runner *runner, const training_settings *s,
                              double *losses, step_times *t, remat_error *error)
{
    remat_status status = model_reset(m, s->seed, error);
    for (uint32_t step = 0; step < s->steps && !status; step++) {
        status = one_step(m, runner, s, step, t, error);
        losses[step] = *m->loss;
        if (!status && s->progress && !s->progress(s->data, step + 1, *m->loss))
            status = remat_fail(error, REMAT_CANCELLED, NULL, "stopped after step %u", step + 1);
    }
    return status;
}

/* One moment before and one after each operation of the plan. */
static remat_status take_calls(model_timing *t, const remat_plan *plan, remat_error *error)
{
    t->n_calls = 0;
    t->room = (uint32_t)plan->operations.length;
    t->calls = calloc(t->room + 1, sizeof *t->calls);
    return t->calls ? REMAT_OK : remat_fail_memory(error);
}

static void clear_calls(const model *m, model_timing *t)
{
    for (uint32_t i = 0; t->calls && i < t->room; i++) {
        m->backend->unmark(&t->calls[i].from);
        m->backend->unmark(&t->calls[i].to);
    }
    free(t->calls);
    t->calls = NULL;
}

/* Bytes that the device has less of than it had; *left: what it had, then what it has. */
static uint64_t bytes_gone(const model *m, uint64_t *left)
{
    const uint64_t before = *left;
    *left = 0;
    if (m->backend->left && m->backend->left(left))
        *left = 0;
    return before > *left ? before - *left : 0;
}

/* Medians of all steps but the first. */
static void sum_up(step_times *t, uint32_t steps, training_outcome *o)
{
    const uint32_t skipped = steps > 1 ? 1 : 0, n = steps - skipped;
    o->step = median(t->steps + skipped, n);
    o->wall = median(t->walls + skipped, n);
    o->calls = median(t->calls + skipped, n);
    o->enqueued = median(t->enqueued + skipped, n);
}

static remat_status run_steps(model *m, const remat_plan *plan, const training_settings *s,
                              step_times *t, training_outcome *o, remat_error *error)
{
    remat_runner *runner = NULL;
    uint64_t left = 0;
    (void)bytes_gone(m, &left);
    remat_status status =
        remat_runner_new(plan, &m->calls, m->backend->memory, s->flags, &runner, error);
    o->taken = bytes_gone(m, &left);
    if (!status)
        status = all_steps(m, runner, s, o->losses, t, error);
    o->libraries = bytes_gone(m, &left);
    if (!status) {
        sum_up(t, s->steps, o);
        o->arena = remat_runner_arena(runner);
    }
    remat_runner_free(runner);
    return status;
}

/* Times the calls for the steps alone. */
static remat_status begin_timing(model *m, const remat_plan *plan, model_timing *t,
                                 remat_error *error)
{
    t->samples = calloc(m->net->n_nodes, sizeof *t->samples);
    m->timing = t;
    return t->samples ? take_calls(t, plan, error) : remat_fail_memory(error);
}

static void end_timing(model *m, model_timing *t)
{
    clear_calls(m, t);
    free(t->samples);
    m->timing = NULL;
}

remat_status training_run(model *m, const remat_plan *plan, const training_settings *s,
                          training_outcome *ret_outcome, remat_error *error)
{
    model_timing timing = {0};
    double *times = calloc(4 * (size_t)s->steps + 1, sizeof *times);
    step_times t = {.steps = times,
                    .walls = times + s->steps,
                    .calls = times + 2 * (size_t)s->steps,
                    .enqueued = times + 3 * (size_t)s->steps};
    training_outcome outcome = {.losses = calloc(s->steps + 1, sizeof(double))};
    remat_status status = times && outcome.losses ? REMAT_OK : remat_fail_memory(error);
    if (!status && s->timed)
        status = begin_timing(m, plan, &timing, error);
    if (!status)
        status = run_steps(m, plan, s, &t, &outcome, error);
    if (status)
        free(outcome.losses);
    else
        *ret_outcome = outcome;
    if (s->timed)
        end_timing(m, &timing);
    m->backend->unmark(&t.from);
    m->backend->unmark(&t.to);
    free(times);
    return status;
}

/* ---- measuring ---- */

remat_status training_profile(const net_graph *net, const kernel_backend *backend,
                              const node_times *times, const uint32_t *chosen,
                              json_t **ret_document, remat_profile **ret_profile,
                              remat_error *error)
{
    json_t *document = model_profile(net, backend, times, chosen);
    if (!document)
        return remat_fail_memory(error);
    remat_status status = remat_profile_decode(document, "", ret_profile, error);
    if (status)
        json_decref(document);
    else
        *ret_document = document;
    return status;
}

/* A plan within the budget, or where none fits, within what is needed. */
static remat_status plan_within(const remat_profile *profile, uint64_t budget, remat_plan *ret_plan,
                                remat_error *error)
{
    remat_error reason = {0};
    remat_status status =
        remat_plan_solve(profile, NULL, budget, NULL, REMAT_DEFAULT_ALIGNMENT, ret_plan, &reason);
    if (status == REMAT_INFEASIBLE && reason.number > budget)
        return remat_plan_solve(profile, NULL, reason.number, NULL, REMAT_DEFAULT_ALIGNMENT,
                                ret_plan, error);
    if (status && error)
        *error = reason;
    return status;
}

static void take_medians(const net_graph *net, node_samples *samples, const uint32_t *chosen,
                         uint32_t which, node_times *times)
{
    for (uint32_t v = 0; v < net->n_nodes; v++) {
        node_samples *s = &samples[v];
        uint32_t forward = s->n_forward < MODEL_SAMPLES ? s->n_forward : MODEL_SAMPLES;
        uint32_t backward = s->n_backward < MODEL_SAMPLES ? s->n_backward : MODEL_SAMPLES;
        if (chosen[v] != which)
            continue;
        times[v].forward[which] = median(s->forward, forward);
        times[v].backward[which] = median(s->backward, backward);
    }
}

/* What measuring goes through with each implementation. */
typedef struct survey {
    model *model;
    uint64_t budget;
    const training_settings *settings;
    uint32_t *chosen; /* by node */
    model_timing timing;
    void (*progress)(void *data, double fraction);
    void *data;
    uint32_t rounds, which, most;
} survey;

static bool survey_step(void *data, uint32_t done, double loss)
{
    survey *s = data;
    (void)loss;
    if (done == 1) /* of the first step nothing is kept */
        memset(s->timing.samples, 0, s->model->net->n_nodes * sizeof *s->timing.samples);
    if (s->progress)
        s->progress(s->data, (s->which + done / (s->rounds + 1.0)) / s->most);
    return true;
}

static remat_status survey_steps(survey *s, const remat_plan *plan, remat_error *error)
{
    training_settings settings = *s->settings;
    training_outcome outcome = {0};
    settings.steps = s->rounds + 1;
    settings.rate = 0; /* the numbers stay as they are at the start */
    settings.progress = survey_step;
    settings.data = s;
    s->model->chosen = s->chosen;
    s->model->timing = &s->timing;
    remat_status status = take_calls(&s->timing, plan, error);
    if (!status)
        status = training_run(s->model, plan, &settings, &outcome, error);
    clear_calls(s->model, &s->timing);
    s->model->chosen = NULL;
    s->model->timing = NULL;
    free(outcome.losses);
    return status;
}

static remat_status survey_one(survey *s, node_times *times, remat_error *error)
{
    const net_graph *net = s->model->net;
    const kernel_backend *backend = s->model->backend;
    json_t *document = NULL;
    remat_profile *profile = NULL;
    remat_plan plan = {0};
    for (uint32_t v = 0; v < net->n_nodes; v++)
        s->chosen[v] = s->which < model_implementations(backend, &net->nodes[v]) ? s->which : 0;
    remat_status status =
        training_profile(net, backend, NULL, s->chosen, &document, &profile, error);
    if (!status)
        status = plan_within(profile, s->budget, &plan, error);
    if (!status)
        status = survey_steps(s, &plan, error);
    if (!status)
        take_medians(net, s->timing.samples, s->chosen, s->which, times);
    remat_plan_clear(&plan);
    remat_profile_free(profile);
    json_decref(document);
    return status;
}

remat_status training_measure(model *m, uint64_t budget, uint32_t rounds, bool exact,
                              const training_settings *settings,
                              void (*progress)(void *data, double fraction), void *data,
                              node_times *ret_times, remat_error *error)
{
    survey s = {.model = m,
                .budget = budget,
                .settings = settings,
                .chosen = calloc(m->net->n_nodes, sizeof *s.chosen),
                .timing.samples = calloc(m->net->n_nodes, sizeof *s.timing.samples),
                .progress = progress,
                .data = data,
                .rounds = rounds,
                .most = 1};
    for (uint32_t v = 0; v < m->net->n_nodes && !exact; v++) {
        uint32_t n = model_implementations(m->backend, &m->net->nodes[v]);
        s.most = n > s.most ? n : s.most;
    }
    remat_status status = s.chosen && s.timing.samples ? REMAT_OK : remat_fail_memory(error);
    for (; s.which < s.most && !status; s.which++)
        status = survey_one(&s, ret_times, error);
    free(s.chosen);
    free(s.timing.samples);
    return status;
}

/* ---- comparing ---- */

static int copy_out(const model *m, void *to, const void *from, uint64_t bytes)
{
    const remat_exec_backend *memory = m->backend->memory;
    return memory->copy_out(memory->data, to, from, bytes);
}

static int copy_numbers(const model *m, float *to)
{
    const net_graph *net = m->net;
    return copy_out(m, to, m->weights, net->weights * sizeof *to) ||
           copy_out(m, to + net->weights, m->velocity, net->weights * sizeof *to) ||
           copy_out(m, to + 2 * net->weights, m->slopes, net->slopes * sizeof *to);
}

static int copy_states(const model *m, uint8_t *to)
{
    for (uint32_t k = 0; k < m->net->n_states; k++) {
        if (copy_out(m, to, m->states[k], m->net->states[k].bytes))
            return 1;
        to += m->net->states[k].bytes;
    }
    return 0;
}

remat_status training_result_take(const model *m, training_result *ret_result, remat_error *error)
{
    training_result r = {.count = 2 * m->net->weights + m->net->slopes};
    for (uint32_t k = 0; k < m->net->n_states; k++)
        r.state_bytes += m->net->states[k].bytes;
    r.numbers = malloc((r.count + 1) * sizeof *r.numbers);
    r.states = malloc(r.state_bytes + 1);
    remat_status status = r.numbers && r.states ? REMAT_OK : remat_fail_memory(error);
    if (!status && (copy_numbers(m, r.numbers) || copy_states(m, r.states)))
        status = remat_fail(error, REMAT_INTERNAL, NULL, "a copy from the device failed%s",
                            remat_exec_fault(m->backend->memory));
    if (status)
        training_result_clear(&r);
    else
        *ret_result = r;
    return status;
}

void training_result_clear(training_result *r)
{
    free(r->numbers);
    free(r->states);
    *r = (training_result){0};
}

const double training_tolerance = 1e-3;

training_difference training_compare(const training_result *a, const training_result *b)
{
    training_difference d = {.equal = a->count == b->count && a->state_bytes == b->state_bytes};
    double norm = 0, distance = 0;
    d.equal = d.equal && memcmp(a->numbers, b->numbers, a->count * sizeof *a->numbers) == 0 &&
              memcmp(a->states, b->states, a->state_bytes) == 0;
    for (size_t i = 0; i < a->count && i < b->count; i++) {
        double x = (double)a->numbers[i], difference = fabs(x - (double)b->numbers[i]);
        d.largest = difference <= d.largest ? d.largest : difference;
        norm += x * x;
        distance += difference * difference;
    }
    d.relative = distance > 0 ? sqrt(distance / norm) : 0;
    if (isnan(distance))
        d.largest = d.relative = NAN;
    return d;
}

bool training_uses_alternatives(const remat_plan *plan)
{
    for (size_t i = 0; i < plan->operations.length; i++)
        if (plan->operations.items[i].alternative > 0)
            return true;
    return false;
}
