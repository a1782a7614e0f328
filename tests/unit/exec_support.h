/* What the tests of networks share: a network on a device, trained while every byte is watched. */
#ifndef REMAT_TESTS_EXEC_SUPPORT_H
#define REMAT_TESTS_EXEC_SUPPORT_H

#include "networks.h"
#include "training.h"

#include "api.h"
#include "remat/table.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define assert_ok(status, error)                                                                   \
    do {                                                                                           \
        if (status)                                                                                \
            fail_msg("%s", (error).message);                                                       \
    } while (0)

/* A network with its device and profile. */
typedef struct bench {
    net_graph net;
    kernel_backend backend;
    model model;
    uint32_t *chosen; /* implementation by node */
    remat_profile *profile;
    uint64_t peak; /* of storing everything */
} bench;

/* The profile, with times by formula so that schedules are the same everywhere. in_place: as the
 * network says, or for no node. */
static remat_profile *profile_of(const bench *b, bool in_place)
{
    remat_error error;
    remat_profile *profile;
    json_t *document = model_profile(&b->net, &b->backend, NULL, b->chosen), *node;
    size_t v;
    assert_non_null(document);
    json_array_foreach(json_object_get(document, "nodes"), v, node)
    {
        if (!in_place)
            json_object_set_new(node, "in_place", json_false());
    }
    assert_ok(remat_profile_decode(document, "", &profile, &error), error);
    json_decref(document);
    return profile;
}

/* net: finished. implementation: its name, taken where a node has one of it; NULL: the first. */
static void bench_open_on(bench *b, const char *backend, const char *implementation)
{
    remat_error error;
    assert_ok(backend_find(backend, 1, &b->backend, &error), error);
    assert_ok(model_init(&b->model, &b->net, &b->backend, &error), error);
    b->chosen = calloc(b->net.n_nodes, sizeof *b->chosen);
    for (uint32_t v = 0; v < b->net.n_nodes && implementation; v++) {
        const net_node *node = &b->net.nodes[v];
        const kernel *own = b->backend.kernels[node->kind];
        for (uint32_t a = 0; a < model_implementations(&b->backend, node); a++)
            if (strcmp(own->implementation(node, a), implementation) == 0)
                b->chosen[v] = a;
    }
    b->model.chosen = b->chosen;
    b->profile = profile_of(b, true);
    assert_ok(remat_store_all_peak(b->profile, &b->peak, &error), error);
}

__attribute__((unused)) static void bench_open(bench *b, const char *implementation)
{
    bench_open_on(b, "cpu", implementation);
}

static void bench_close(bench *b)
{
    model_clear(&b->model);
    if (b->backend.close)
        b->backend.close();
    remat_profile_free(b->profile);
    free(b->chosen);
    net_clear(&b->net);
}

static training_result train_with(bench *b, const remat_plan *plan, uint32_t steps, float rate,
                                  unsigned flags, double *ret_loss)
{
    remat_error error;
    training_result result;
    training_outcome outcome;
    const training_settings settings = {
        .steps = steps, .rate = rate, .momentum = 0.9f, .seed = 7, .flags = flags};
    assert_ok(training_run(&b->model, plan, &settings, &outcome, &error), error);
    assert_ok(training_result_take(&b->model, &result, &error), error);
    assert_int_equal(outcome.arena, plan->layout.arena);
    if (ret_loss)
        *ret_loss = outcome.losses[steps - 1];
    free(outcome.losses);
    return result;
}

/* Trains under a plan, every byte watched. */
static training_result train(bench *b, const remat_plan *plan, uint32_t steps, float rate,
                             double *ret_loss)
{
    return train_with(b, plan, steps, rate, REMAT_EXEC_GUARD, ret_loss);
}

/* Storing everything, with nothing in place: every value has bytes of its own through the step. */
__attribute__((unused)) static training_result train_apart(bench *b, uint32_t steps)
{
    remat_error error;
    remat_plan plan;
    uint64_t peak;
    remat_profile *apart = profile_of(b, false);
    assert_ok(remat_store_all_peak(apart, &peak, &error), error);
    assert_ok(remat_plan_solve(apart, "store-all", 2 * peak, NULL, 256, &plan, &error), error);
    training_result result = train(b, &plan, steps, 0.01f, NULL);
    remat_plan_clear(&plan);
    remat_profile_free(apart);
    return result;
}

#endif
