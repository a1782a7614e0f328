/* One node by itself on either side: its operands, its calls, what they made, compared. All results
 * are poison before, all arrays have exactly their bytes with a guard behind them, and a backward
 * gets what its profile says it reads. */
#ifndef REMAT_TESTS_CUDA_TRIAL_H
#define REMAT_TESTS_CUDA_TRIAL_H

#include "backend.h"
#include "cuda.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_INPUTS = 40, GUARD = 256, GUARD_BYTE = 0xa5, POISON = 0xff, BLOBS = 160 };

/* ---- numbers ---- */

static uint64_t random_bits(uint64_t seed, uint64_t i)
{
    uint64_t z = (seed << 32) + (i + 1) * UINT64_C(0x9e3779b97f4a7c15); /* SplitMix */
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Uniform, of variance 1. */
static float number(uint64_t seed, uint64_t i)
{
    return ((float)(random_bits(seed, i) >> 40) * 0x1p-24f - 0.5f) * 3.4641016f;
}

static float *numbers(size_t n, uint64_t seed)
{
    float *x = malloc((n + 1) * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = number(seed, i);
    return x;
}

/* ---- a node by itself ---- */

typedef struct trial {
    net_graph net;
    net_node *node; /* the last */
    kernel_backend cpu, cuda;
    float offset;  /* of all inputs from 0 */
    double coarse; /* how many times the usual rounding is allowed */
} trial;

/* What a run made, on the host. */
typedef struct made {
    uint8_t *output, *saved, *state, *dx[MOST_INPUTS], *slopes[4];
    double loss;
} made;

typedef struct manner {
    bool device, forward_only, in_place, accumulate, unwanted;
    uint32_t alternative;
} manner;

static size_t input_numbers(const net_node *node, uint32_t k)
{
    const net_tensor x = node->inputs[k];
    return (size_t)x.n * x.of * x.h * x.w;
}

static const net_input *ids_of(const trial *t, uint32_t k)
{
    const uint32_t value = t->node->inputs[k].value;
    const net_input *in = &t->net.inputs[value & ~NET_INPUT];
    return value & NET_INPUT && in->kind == NET_IDS ? in : NULL;
}

/* Four bytes each. */
static void *input_of(const trial *t, uint32_t k)
{
    const size_t n = input_numbers(t->node, k);
    const net_input *ids = ids_of(t, k);
    if (!ids) {
        float *shifted = numbers(n, 1 + k);
        for (size_t i = 0; i < n; i++)
            shifted[i] += t->offset;
        return shifted;
    }
    int32_t *x = malloc((n + 1) * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = (int32_t)(random_bits(1 + k, i) % ids->range);
    return x;
}

static void *state_of(const trial *t)
{
    const net_state *state = &t->net.states[t->node->state];
    if (state->kind != NET_DROPOUT)
        return numbers(state->bytes / sizeof(float), 77);
    uint64_t *generator = malloc(state->bytes);
    generator[0] = UINT64_C(0x0123456789abcdef);
    generator[1] = UINT64_C(0xfffffffe); /* the counter goes past 32 bits */
    return generator;
}

static size_t parameter_bytes(const trial *t, uint32_t i)
{
    return t->net.parameters[t->node->parameters[i]].count * sizeof(float);
}

/* ---- memory of either side ---- */

typedef struct blob {
    uint8_t *at;
    size_t bytes;
} blob;

typedef struct memory {
    bool device;
    blob blobs[BLOBS];
    uint32_t n;
} memory;

static void *take(memory *m, const void *content, size_t bytes)
{
    uint8_t *host = malloc(bytes + GUARD), *at;
    void *taken = NULL;
    memset(host, POISON, bytes);
    memset(host + bytes, GUARD_BYTE, GUARD);
    if (content)
        memcpy(host, content, bytes);
    if (m->device) {
        assert_int_equal(cudaMalloc(&taken, bytes + GUARD), 0);
        assert_int_equal(cudaMemcpy(taken, host, bytes + GUARD, cudaMemcpyHostToDevice), 0);
        free(host);
        at = taken;
    } else {
        at = host;
    }
    assert_true(m->n < BLOBS);
    m->blobs[m->n++] = (blob){at, bytes};
    return at;
}

/* The content is the caller's to free. */
static void *take_own(memory *m, void *content, size_t bytes)
{
    void *at = take(m, content, bytes);
    free(content);
    return at;
}

static uint8_t *fetch(const memory *m, const void *at, size_t bytes)
{
    uint8_t *host = malloc(bytes + 1);
    if (m->device)
        assert_int_equal(cudaMemcpy(host, at, bytes, cudaMemcpyDeviceToHost), 0);
    else
        memcpy(host, at, bytes);
    return host;
}

static void give_back(memory *m)
{
    for (uint32_t i = 0; i < m->n; i++) {
        uint8_t *guard = fetch(m, m->blobs[i].at + m->blobs[i].bytes, GUARD);
        for (size_t k = 0; k < GUARD; k++)
            if (guard[k] != GUARD_BYTE)
                fail_msg("byte %zu behind the %zu of array %u was written", k, m->blobs[i].bytes,
                         i);
        free(guard);
        if (m->device)
            assert_int_equal(cudaFree(m->blobs[i].at), 0);
        else
            free(m->blobs[i].at);
    }
    m->n = 0;
}

/* ---- running ---- */

static size_t output_bytes(const trial *t)
{
    return (size_t)net_output_bytes(t->node);
}

static const kernel *kernel_of(const trial *t, manner how)
{
    return (how.device ? &t->cuda : &t->cpu)->kernels[t->node->kind];
}

static kernel_call call_of(const trial *t, manner how, memory *m, const void **inputs)
{
    kernel_call call = {.node = t->node, .alternative = how.alternative, .inputs = inputs};
    for (uint32_t k = 0; k < t->node->n_inputs; k++)
        inputs[k] = take_own(m, input_of(t, k), input_numbers(t->node, k) * sizeof(float));
    for (uint32_t i = 0; i < t->node->n_parameters; i++) {
        const size_t bytes = parameter_bytes(t, i);
        call.weights[i] = take_own(m, numbers(bytes / sizeof(float), 50 + i), bytes);
        call.slopes[i] = take_own(m, numbers(bytes / sizeof(float), 60 + i), bytes);
    }
    return call;
}

/* Loss of the host: pinned where copies want that. */
static double *take_loss(manner how)
{
    void *loss = NULL;
    if (how.device)
        assert_int_equal(cudaMallocHost(&loss, sizeof(double)), 0);
    else
        loss = malloc(sizeof(double));
    *(double *)loss = NAN;
    return loss;
}

/* Before a call, too: copies from pageable memory may arrive late. */
static void wait_for_device(manner how)
{
    if (how.device)
        assert_int_equal(cudaDeviceSynchronize(), 0);
}

static void run_forward(const trial *t, manner how, memory *m, kernel_call *call, made *ret_made)
{
    const kernel_cost cost = kernel_of(t, how)->cost(t->node, how.alternative);
    const size_t state_bytes = t->node->state == NET_NONE ? 0 : t->net.states[t->node->state].bytes;
    call->save = !how.forward_only;
    call->output =
        how.in_place ? (void *)(uintptr_t)call->inputs[0] : take(m, NULL, output_bytes(t));
    call->saved = call->save ? take(m, NULL, cost.saved) : NULL;
    call->state = state_bytes > 0 ? take_own(m, state_of(t), state_bytes) : NULL;
    call->workspace = take(m, NULL, call->save ? cost.save_workspace : cost.forward_workspace);
    call->loss = take_loss(how);
    wait_for_device(how);
    assert_int_equal(kernel_of(t, how)->forward(call), 0);
    wait_for_device(how);
    ret_made->output = fetch(m, call->output, output_bytes(t));
    ret_made->saved = call->save ? fetch(m, call->saved, cost.saved) : NULL;
    ret_made->state = state_bytes > 0 ? fetch(m, call->state, state_bytes) : NULL;
    ret_made->loss = *call->loss;
    if (how.device)
        assert_int_equal(cudaFreeHost(call->loss), 0);
    else
        free(call->loss);
}

/* What the forward made stays where it is, but for what is not read again. */
static void run_backward(const trial *t, manner how, memory *m, kernel_call *call, made *ret_made)
{
    const net_node *node = t->node;
    float *dx[MOST_INPUTS] = {0};
    bool accumulate[MOST_INPUTS] = {0};
    const void *none[MOST_INPUTS] = {0}, *inputs[MOST_INPUTS];
    float *dy = output_bytes(t) == 0
                    ? NULL
                    : take_own(m, numbers(net_numbers(node->output), 99), output_bytes(t));
    for (uint32_t k = 0; k < node->n_inputs; k++) {
        const size_t n = input_numbers(node, k);
        inputs[k] = take_own(m, input_of(t, k), n * sizeof(float));
        if (ids_of(t, k) || how.unwanted)
            continue;
        accumulate[k] = how.accumulate;
        dx[k] = how.in_place && k == 0 ? dy
                : how.accumulate       ? take_own(m, numbers(n, 20 + k), n * sizeof(float))
                                       : take(m, NULL, n * sizeof(float));
    }
    call->inputs = net_uses_inputs(node) ? inputs : none;
    call->output = net_uses_output(node) ? take(m, ret_made->output, output_bytes(t)) : NULL;
    call->gradient = dy;
    call->input_gradients = dx;
    call->accumulate = accumulate;
    call->workspace =
        take(m, NULL, kernel_of(t, how)->cost(node, how.alternative).backward_workspace);
    wait_for_device(how);
    assert_int_equal(kernel_of(t, how)->backward(call), 0);
    wait_for_device(how);
    for (uint32_t k = 0; k < node->n_inputs; k++)
        ret_made->dx[k] = dx[k] ? fetch(m, dx[k], input_numbers(node, k) * sizeof(float)) : NULL;
    for (uint32_t i = 0; i < node->n_parameters; i++)
        ret_made->slopes[i] = fetch(m, call->slopes[i], parameter_bytes(t, i));
}

static made run(const trial *t, manner how)
{
    memory m = {.device = how.device};
    made r = {0};
    const void *inputs[MOST_INPUTS];
    kernel_call call = call_of(t, how, &m, inputs);
    run_forward(t, how, &m, &call, &r);
    if (!how.forward_only)
        run_backward(t, how, &m, &call, &r);
    give_back(&m);
    return r;
}

static void forget(made *r)
{
    free(r->output);
    free(r->saved);
    free(r->state);
    for (uint32_t k = 0; k < MOST_INPUTS; k++)
        free(r->dx[k]);
    for (uint32_t i = 0; i < 4; i++)
        free(r->slopes[i]);
    *r = (made){0};
}

/* ---- comparing ---- */

static void same(const trial *t, const char *what, const uint8_t *a, const uint8_t *b, size_t bytes)
{
    for (size_t i = 0; a && b && i < bytes; i++)
        if (a[i] != b[i])
            fail_msg("%s, %s: byte %zu of %zu is not the same", t->node->id, what, i, bytes);
}

/* Sums of the two sides have other orders. Of n numbers of about 1, whose sum is about sqrt n, the
 * error of either is about sqrt n times half a unit of float32, 6e-8; exponentials and quotients of
 * it a few times as much. `terms` is the n. */
static void near(const trial *t, const char *what, const uint8_t *got, const uint8_t *wanted,
                 size_t bytes, double terms)
{
    const float *a = (const float *)(const void *)got, *b = (const float *)(const void *)wanted;
    double largest = 1;
    for (size_t i = 0; i < bytes / sizeof *a; i++)
        largest = fmax(largest, fabs((double)b[i]));
    for (size_t i = 0; i < bytes / sizeof *a; i++)
        if (!(fabs((double)a[i] - (double)b[i]) <= 6e-7 * t->coarse * sqrt(terms) * largest))
            fail_msg("%s, %s: number %zu is %.9g, not %.9g; the largest is %g", t->node->id, what,
                     i, (double)a[i], (double)b[i], largest);
}

/* How many numbers go into a sum of this node, at most. */
static double terms_of(const trial *t)
{
    const net_tensor x = t->node->inputs[0], y = t->node->output;
    const double window = (double)t->node->kernel * t->node->kernel;
    const double rows = (double)x.n * x.h * x.w, columns = (double)x.c * x.h * x.w;
    const double one = window > 1 ? window * fmax(x.c, y.c) : fmax(columns, y.c);
    return fmax(fmax(rows, fmax((double)y.n * y.h * y.w, one)), t->node->time);
}

/* The bytes of what is saved are the same where they are bits, places or generators. */
static void compare_saved(const trial *t, const made *got, const made *wanted, double terms)
{
    const size_t bytes = t->cpu.kernels[t->node->kind]->cost(t->node, 0).saved;
    const net_kind kind = t->node->kind;
    if (kind == NET_BATCH_NORM || kind == NET_LSTM)
        near(t, "saved", got->saved, wanted->saved, bytes, terms);
    else
        same(t, "saved", got->saved, wanted->saved, bytes);
}

static void compare_sides(const trial *t, const made *got, const made *wanted)
{
    const double terms = terms_of(t);
    const net_node *node = t->node;
    near(t, "output", got->output, wanted->output, output_bytes(t), terms);
    compare_saved(t, got, wanted, terms);
    if (node->kind == NET_DROPOUT)
        same(t, "state", got->state, wanted->state, t->net.states[node->state].bytes);
    else if (node->state != NET_NONE)
        near(t, "state", got->state, wanted->state, t->net.states[node->state].bytes, terms);
    if (output_bytes(t) == 0 && !(fabs(got->loss - wanted->loss) <= 1e-6 * fmax(1, wanted->loss)))
        fail_msg("%s: the loss is %.9g, not %.9g", node->id, got->loss, wanted->loss);
    for (uint32_t k = 0; k < node->n_inputs; k++)
        if (wanted->dx[k])
            near(t, "gradient of input", got->dx[k], wanted->dx[k],
                 input_numbers(node, k) * sizeof(float), terms);
    for (uint32_t i = 0; i < node->n_parameters; i++)
        near(t, "gradient of parameter", got->slopes[i], wanted->slopes[i], parameter_bytes(t, i),
             terms);
}

/* Of what both have. */
static void compare_bits(const trial *t, const char *what, const made *a, const made *b)
{
    const net_node *node = t->node;
    same(t, what, a->output, b->output, output_bytes(t));
    same(t, what, a->saved, b->saved, t->cuda.kernels[node->kind]->cost(node, 0).saved);
    if (node->state != NET_NONE)
        same(t, what, a->state, b->state, t->net.states[node->state].bytes);
    same(t, what, (const uint8_t *)&a->loss, (const uint8_t *)&b->loss,
         output_bytes(t) == 0 ? sizeof a->loss : 0);
    for (uint32_t k = 0; k < node->n_inputs; k++)
        same(t, what, a->dx[k], b->dx[k], input_numbers(node, k) * sizeof(float));
    for (uint32_t i = 0; i < node->n_parameters; i++)
        same(t, what, a->slopes[i], b->slopes[i], parameter_bytes(t, i));
}

/* A share that is added: by one rounded addition to what was there. */
static void compare_added(const trial *t, const made *added, const made *written)
{
    for (uint32_t k = 0; k < t->node->n_inputs; k++) {
        const size_t n = input_numbers(t->node, k);
        float *sum = numbers(n, 20 + k);
        const float *share = (const float *)(const void *)written->dx[k];
        for (size_t i = 0; share && i < n; i++)
            sum[i] += share[i];
        same(t, "added share", added->dx[k], (const uint8_t *)sum, share ? n * sizeof *sum : 0);
        free(sum);
    }
}

#endif
