/* Parameters, states and the calls of a step. */
#include "model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double model_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- the calls ---- */

/* The node's parameters; of a backward their gradients too, cleared before their first use. */
static int set_parameters(const model *m, const net_node *node, bool backward, kernel_call *call)
{
    const remat_exec_backend *memory = m->backend->memory;
    for (uint32_t i = 0; i < node->n_parameters; i++) {
        const net_parameter *p = &m->net->parameters[node->parameters[i]];
        bool *used = &m->used[p->gradient + node->lane];
        call->weights[i] = m->weights + p->offset;
        call->slopes[i] = m->slopes + p->slope + node->lane * p->count;
        if (backward && !*used &&
            memory->fill(memory->data, call->slopes[i], 0, p->count * sizeof(float)))
            return 1;
        *used |= backward;
    }
    return 0;
}

/* NULL: the call is not timed. */
static timed_call *next_call(const model *m, uint32_t node, bool backward)
{
    model_timing *t = m->timing;
    if (!t || t->n_calls == t->room)
        return NULL;
    timed_call *call = &t->calls[t->n_calls++];
    call->node = node;
    call->backward = backward;
    return call;
}

static int run(model *m, const remat_exec_call *call, bool backward)
{
    const net_node *node = &m->net->nodes[call->node];
    const kernel *own = m->backend->kernels[node->kind];
    kernel_call k = {.node = node,
                     .alternative = m->chosen ? m->chosen[call->node] : call->alternative,
                     .save = call->save,
                     .inputs = call->inputs,
                     .output = call->output,
                     .saved = call->saved,
                     .gradient = call->gradient,
                     .input_gradients = (float *const *)call->input_gradients,
                     .accumulate = call->accumulate,
                     .state = node->state == NET_NONE ? NULL : m->states[node->state],
                     .workspace = call->workspace,
                     .loss = m->loss};
    timed_call *timed = next_call(m, call->node, backward);
    int failed = timed ? m->backend->mark(&timed->from) : 0;
    if (!failed)
        failed = set_parameters(m, node, backward, &k);
    if (!failed)
        failed = backward ? own->backward(&k) : own->forward(&k);
    if (!failed && timed)
        failed = m->backend->mark(&timed->to);
    if (timed)
        m->timing->given = model_clock();
    return failed;
}

int model_collect(model *m)
{
    model_timing *t = m->timing;
    t->total = 0;
    for (uint32_t i = 0; i < t->n_calls; i++) {
        const timed_call *call = &t->calls[i];
        node_samples *s = &t->samples[call->node];
        double took;
        int failed = m->backend->between(&call->from, &call->to, &took);
        if (failed)
            return failed;
        t->total += took;
        if (call->backward)
            s->backward[s->n_backward++ % MODEL_SAMPLES] = took;
        else
            s->forward[s->n_forward++ % MODEL_SAMPLES] = took;
    }
    t->n_calls = 0;
    return 0;
}

static int forward(void *data, const remat_exec_call *call)
{
    return run(data, call, false);
}

static int backward(void *data, const remat_exec_call *call)
{
    return run(data, call, true);
}

static int save_state(void *data, uint32_t state, void *to)
{
    model *m = data;
    const remat_exec_backend *memory = m->backend->memory;
    return memory->copy(memory->data, to, m->states[state], m->net->states[state].bytes);
}

static int restore_state(void *data, uint32_t state, const void *from)
{
    model *m = data;
    const remat_exec_backend *memory = m->backend->memory;
    return memory->copy(memory->data, m->states[state], from, m->net->states[state].bytes);
}

/* ---- memory ---- */

static remat_status take(const model *m, uint64_t bytes, void **ret_memory, remat_error *error)
{
    const remat_exec_backend *memory = m->backend->memory;
    *ret_memory = memory->allocate(memory->data, bytes);
    if (*ret_memory)
        return REMAT_OK;
    return remat_fail(error, REMAT_TOO_LARGE, NULL,
                      "%s has no %llu bytes for parameters, gradients or states%s", memory->name,
                      (unsigned long long)bytes, remat_exec_fault(memory));
}

/* Of the host, cleared. */
static remat_status take_host(const model *m, uint64_t bytes, void **ret_memory, remat_error *error)
{
    const remat_exec_backend *memory = m->backend->memory;
    *ret_memory = memory->allocate_host(memory->data, bytes);
    if (*ret_memory) {
        memset(*ret_memory, 0, (size_t)bytes);
        return REMAT_OK;
    }
    return remat_fail(error, REMAT_TOO_LARGE, NULL, "the host has no %llu bytes for inputs%s",
                      (unsigned long long)bytes, remat_exec_fault(memory));
}

static remat_status take_parameters(model *m, remat_error *error)
{
    const size_t number = sizeof(float);
    void *memory = NULL;
    remat_status status = take(m, m->net->weights * number, &memory, error);
    m->weights = memory;
    if (!status)
        status = take(m, m->net->weights * number, &memory, error);
    m->velocity = status ? NULL : memory;
    if (!status)
        status = take(m, m->net->slopes * number, &memory, error);
    m->slopes = status ? NULL : memory;
    return status;
}

static remat_status take_states_and_inputs(model *m, remat_error *error)
{
    const net_graph *net = m->net;
    m->states = calloc(net->n_states + 1, sizeof *m->states);
    m->inputs = calloc(net->n_inputs + 1, sizeof *m->inputs);
    m->used = calloc(net->n_gradients + 1, sizeof *m->used);
    if (!m->states || !m->inputs || !m->used)
        return remat_fail_memory(error);
    remat_status status = REMAT_OK;
    for (uint32_t k = 0; k < net->n_states && !status; k++)
        status = take(m, net->states[k].bytes, &m->states[k], error);
    for (uint32_t k = 0; k < net->n_inputs && !status; k++)
        status = take_host(m, net_input_bytes(&net->inputs[k]), &m->inputs[k], error);
    void *loss = NULL;
    if (!status)
        status = take_host(m, sizeof *m->loss, &loss, error);
    m->loss = loss;
    return status;
}

remat_status model_init(model *m, const net_graph *net, const kernel_backend *backend,
                        remat_error *error)
{
    *m = (model){.net = net, .backend = backend};
    remat_status status = take_parameters(m, error);
    if (!status)
        status = take_states_and_inputs(m, error);
    m->calls = (remat_exec_network){.data = m,
                                    .forward = forward,
                                    .backward = backward,
                                    .save_state = save_state,
                                    .restore_state = restore_state,
                                    .graph_inputs = (const void *const *)m->inputs};
    if (status)
        model_clear(m);
    return status;
}

void model_clear(model *m)
{
    if (!m->backend)
        return;
    const remat_exec_backend *memory = m->backend->memory;
    memory->release(memory->data, m->weights);
    memory->release(memory->data, m->velocity);
    memory->release(memory->data, m->slopes);
    for (uint32_t k = 0; m->states && k < m->net->n_states; k++)
        memory->release(memory->data, m->states[k]);
    for (uint32_t k = 0; m->inputs && k < m->net->n_inputs; k++)
        memory->release_host(memory->data, m->inputs[k]);
    memory->release_host(memory->data, m->loss);
    free(m->states);
    free(m->inputs);
    free(m->used);
    *m = (model){0};
}

uint64_t model_bytes(const net_graph *net)
{
    return (2 * net->weights + net->slopes) * sizeof(float);
}

/* ---- the start ---- */

uint64_t model_random(uint64_t seed, uint64_t n)
{
    uint64_t z = seed + (n + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Sums of four uniform numbers: near enough to normal, and the same on every machine. */
static float normal(uint64_t seed, uint64_t n)
{
    uint64_t bits = model_random(seed, n);
    int64_t sum = 0;
    for (int i = 0; i < 4; i++, bits >>= 16)
        sum += (int64_t)(bits & 0xffff);
    return (float)(sum - 2 * 0xffff) * (1.7320508f / 0xffff);
}

static remat_status copied(const model *m, int code, remat_error *error)
{
    return code ? remat_fail(error, REMAT_INTERNAL, NULL, "a copy to the device returned %d%s",
                             code, remat_exec_fault(m->backend->memory))
                : REMAT_OK;
}

static remat_status reset_weights(model *m, uint64_t seed, remat_error *error)
{
    const remat_exec_backend *memory = m->backend->memory;
    float *host = calloc(m->net->weights + 1, sizeof *host);
    uint64_t number = 0;
    if (!host)
        return remat_fail_memory(error);
    for (uint32_t i = 0; i < m->net->n_parameters; i++) {
        const net_parameter *p = &m->net->parameters[i];
        for (size_t j = 0; j < p->count; j++, number++)
            host[p->offset + j] =
                p->mean + (p->deviation > 0 ? p->deviation * normal(seed, number) : 0);
    }
    int code = memory->copy_in(memory->data, m->weights, host, m->net->weights * sizeof *host);
    free(host);
    if (!code)
        code = memory->fill(memory->data, m->velocity, 0, m->net->weights * sizeof(float));
    if (!code)
        code = memory->fill(memory->data, m->slopes, 0, m->net->slopes * sizeof(float));
    return copied(m, code, error);
}

/* Means 0 and variances 1; a generator at its first number. */
static remat_status reset_state(model *m, uint32_t k, uint64_t seed, remat_error *error)
{
    const remat_exec_backend *memory = m->backend->memory;
    const net_state *state = &m->net->states[k];
    void *host = calloc(1, state->bytes);
    if (!host)
        return remat_fail_memory(error);
    if (state->kind == NET_DROPOUT)
        memcpy(host, &seed, sizeof seed);
    for (size_t i = state->bytes / 8; state->kind == NET_BATCH_NORM && i < state->bytes / 4; i++)
        ((float *)host)[i] = 1;
    int code = memory->copy_in(memory->data, m->states[k], host, state->bytes);
    free(host);
    return copied(m, code, error);
}

remat_status model_reset(model *m, uint64_t seed, remat_error *error)
{
    remat_status status = reset_weights(m, seed, error);
    for (uint32_t k = 0; k < m->net->n_states && !status; k++)
        status = reset_state(m, k, seed, error);
    return status;
}

/* ---- steps ---- */

void model_begin(model *m)
{
    memset(m->used, 0, m->net->n_gradients * sizeof *m->used);
}

remat_status model_update(model *m, float rate, float momentum, remat_error *error)
{
    for (uint32_t i = 0; i < m->net->n_parameters; i++) {
        const net_parameter *p = &m->net->parameters[i];
        int code = m->backend->update(m->weights + p->offset, m->velocity + p->offset,
                                      m->slopes + p->slope, p->count, p->lanes, rate, momentum);
        if (code)
            return remat_fail(error, REMAT_INTERNAL, NULL,
                              "the update of parameter %u returned %d%s", i, code,
                              remat_exec_fault(m->backend->memory));
    }
    return REMAT_OK;
}
