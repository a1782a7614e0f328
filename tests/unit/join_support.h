/* Joins for tests: a claim in plain arrays, made into a profile. Branch j reads graph input j. */
#ifndef TESTS_UNIT_JOIN_SUPPORT_H
#define TESTS_UNIT_JOIN_SUPPORT_H

#include "../unit/chain_support.h"

enum { JOIN_BRANCHES = 6, JOIN_NODES = 128 };

typedef struct support_join {
    uint32_t k, length[JOIN_BRANCHES];
    uint64_t input_bytes[JOIN_BRANCHES], input_gradient[JOIN_BRANCHES];
    support_stage steps[JOIN_BRANCHES][JOIN_NODES];
    support_stage loss;
} support_join;

static inline remat_profile *support_join_profile(const support_join *join)
{
    static char ids[JOIN_BRANCHES][JOIN_NODES + 1][16];
    static const char *inputs[JOIN_BRANCHES * JOIN_NODES], *ends[JOIN_BRANCHES];
    static remat_node_spec nodes[JOIN_BRANCHES * JOIN_NODES + 1];
    remat_input_spec input_specs[JOIN_BRANCHES] = {{0}};
    size_t n = 0;
    for (uint32_t j = 0; j < join->k; j++) {
        for (uint32_t i = 0; i <= join->length[j]; i++)
            snprintf(ids[j][i], sizeof ids[j][i], "x%u_%u", j, i);
        input_specs[j] =
            (remat_input_spec){.id = ids[j][0],
                               .bytes = support_number((double)join->input_bytes[j]),
                               .gradient_bytes = support_number((double)join->input_gradient[j])};
        for (uint32_t i = 0; i < join->length[j]; i++, n++) {
            inputs[n] = ids[j][i];
            nodes[n] = support_node(&join->steps[j][i], ids[j][i + 1], &inputs[n], 1);
        }
        ends[j] = ids[j][join->length[j]];
    }
    nodes[n++] = support_node(&join->loss, "loss", ends, join->k);
    remat_profile_spec spec = {.format = "remat-profile/1",
                               .name = "test",
                               .inputs = input_specs,
                               .n_inputs = join->k,
                               .nodes = nodes,
                               .n_nodes = n};
    remat_profile *profile = NULL;
    remat_error error = {0};
    if (remat_profile_new(&spec, &profile, &error))
        fail_msg("profile: %s: %s", error.field, error.message);
    return profile;
}

#endif
