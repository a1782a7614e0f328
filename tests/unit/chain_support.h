/* Chains for tests: a claim in plain arrays, made into a profile. */
#ifndef TESTS_UNIT_CHAIN_SUPPORT_H
#define TESTS_UNIT_CHAIN_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "remat/table.h"

#include "steps.h"

#include <stdio.h>
#include <stdlib.h>

enum { SUPPORT_INPUTS = 4 };

typedef struct support_stage {
    uint64_t a, saved, delta, of, os, ob;
    double uf, ub;
    bool uses_output, in_place;
    bool reads_input[SUPPORT_INPUTS]; /* graph inputs 1.. of the chain; input 0 feeds stage 1 */
} support_stage;

typedef struct support_chain {
    uint32_t n, n_inputs;
    uint64_t input_bytes[SUPPORT_INPUTS], input_gradient[SUPPORT_INPUTS];
    support_stage *stages; /* 0-based */
} support_chain;

static inline remat_number support_number(double value)
{
    return (remat_number){.value = value, .given = true};
}

static inline remat_node_spec support_node(const support_stage *stage, const char *id,
                                           const char *const *inputs, size_t n_inputs)
{
    return (remat_node_spec){
        .id = id,
        .inputs = inputs,
        .n_inputs = n_inputs,
        .forward_time = support_number(stage->uf),
        .backward_time = support_number(stage->ub),
        .output_bytes = support_number((double)stage->a),
        .saved_bytes = support_number((double)stage->saved),
        .gradient_bytes = support_number((double)stage->delta),
        .forward_workspace_bytes = support_number((double)stage->of),
        .backward_workspace_bytes = support_number((double)stage->ob),
        .save_workspace_bytes = support_number((double)stage->os),
        .backward_uses_inputs = true,
        .backward_uses_output = stage->uses_output,
        .in_place = stage->in_place,
    };
}

static inline remat_profile *support_profile(const support_chain *chain)
{
    uint32_t n = chain->n;
    remat_node_spec *nodes = calloc(n, sizeof *nodes);
    const char *(*inputs)[SUPPORT_INPUTS + 1] = calloc(n, sizeof *inputs);
    char(*ids)[16] = calloc(n, sizeof *ids);
    char input_ids[SUPPORT_INPUTS][16];
    remat_input_spec input_specs[SUPPORT_INPUTS] = {{0}};
    for (uint32_t k = 0; k < chain->n_inputs; k++) {
        snprintf(input_ids[k], sizeof input_ids[k], "x%u", k);
        input_specs[k] =
            (remat_input_spec){.id = input_ids[k],
                               .bytes = support_number((double)chain->input_bytes[k]),
                               .gradient_bytes = support_number((double)chain->input_gradient[k])};
    }
    for (uint32_t i = 0; i < n; i++) {
        const support_stage *stage = &chain->stages[i];
        snprintf(ids[i], sizeof ids[i], "v%u", i + 1);
        size_t count = 0;
        inputs[i][count++] = i ? ids[i - 1] : input_ids[0];
        for (uint32_t k = 1; k < chain->n_inputs; k++)
            if (stage->reads_input[k])
                inputs[i][count++] = input_ids[k];
        if (i && stage->reads_input[0])
            inputs[i][count++] = input_ids[0];
        nodes[i] = support_node(stage, ids[i], inputs[i], count);
    }
    remat_profile_spec spec = {.format = "remat-profile/1",
                               .name = "test",
                               .inputs = input_specs,
                               .n_inputs = chain->n_inputs,
                               .nodes = nodes,
                               .n_nodes = n};
    remat_profile *profile = NULL;
    remat_error error = {0};
    if (remat_profile_new(&spec, &profile, &error))
        fail_msg("profile: %s: %s", error.field, error.message);
    free(nodes);
    free(inputs);
    free(ids);
    return profile;
}

/* A small generator of its own, the same on every machine (splitmix64). */
static inline uint64_t support_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline uint64_t support_below(uint64_t *state, uint64_t bound)
{
    return support_random(state) % bound;
}

static inline remat_problem support_problem(const char *solver, const remat_profile *profile,
                                            uint64_t max_budget)
{
    return (remat_problem){.profile = profile,
                           .options = remat_options_default(remat_solver_find(solver)),
                           .max_budget = max_budget};
}

/* Replays every step just as offered: valid, with exactly the nominal budget as its peak (in_place:
 * at most) and exactly the predicted makespan (integer times). */
static inline void support_check_offers(const char *name, const steps *s,
                                        const remat_problem *problem, bool exact_peak)
{
    for (size_t i = 0; i < s->n; i++) {
        remat_error error = {0};
        remat_simulation simulation;
        const remat_model *model = &s->items[i].model;
        assert_int_equal(remat_simulate(problem->profile, &s->items[i].operations, NULL, NULL, NULL,
                                        &simulation, &error),
                         REMAT_OK);
        if (!simulation.valid)
            fail_msg("%s: step %zu: operation %zu: %s", name, i, simulation.bad_operation,
                     simulation.reason);
        if (simulation.makespan != model->makespan)
            fail_msg("%s: step %zu: makespan %.17g, predicted %.17g", name, i, simulation.makespan,
                     model->makespan);
        if (exact_peak ? simulation.peak != model->budget : simulation.peak > model->budget)
            fail_msg("%s: step %zu: peak %llu, nominal %llu", name, i,
                     (unsigned long long)simulation.peak, (unsigned long long)model->budget);
    }
}

/* The same, and budgets increase and makespans decrease. */
static inline void support_check_steps(const char *name, const steps *s,
                                       const remat_problem *problem, bool exact_peak)
{
    support_check_offers(name, s, problem, exact_peak);
    for (size_t i = 1; i < s->n; i++) {
        assert_true(s->items[i].model.budget > s->items[i - 1].model.budget);
        assert_true(s->items[i].model.makespan < s->items[i - 1].model.makespan);
    }
}

#endif
