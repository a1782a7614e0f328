/* What tests of plans share: devices and networks by name. */
#ifndef REMAT_TESTS_PLAN_SUPPORT_H
#define REMAT_TESTS_PLAN_SUPPORT_H

#include "unit/core_support.h"

#include "plan/plan.h"

static inline remat_device plan_device(const char *name)
{
    remat_device d;
    remat_error error;
    json_t *json = json_string(name);
    if (remat_device_decode(json, "device", &d, &error))
        fail_msg("%s: %s", name, error.message);
    json_decref(json);
    return d;
}

static inline remat_network_graph *plan_network(const char *name, uint64_t batch,
                                                remat_precision precision, uint32_t layers,
                                                bool eager)
{
    remat_network_graph *graph = NULL;
    remat_error error;
    const remat_device d = plan_device("a100-80gb");
    const remat_network_settings s = {
        .batch = batch, .precision = precision, .layers = layers, .eager_attention = eager};
    if (remat_network_graph_new(name, &s, &d, &graph, &error))
        fail_msg("%s: %s", name, error.message);
    return graph;
}

static inline remat_profile *plan_checked(const remat_network_graph *graph)
{
    remat_profile *profile = NULL;
    remat_error error;
    if (remat_profile_new(&graph->spec, &profile, &error))
        fail_msg("%s: %s", graph->spec.name, error.message);
    return profile;
}

static inline remat_step_table plan_table_of(const remat_tensor *tensors, size_t n,
                                             const remat_step_settings *settings)
{
    remat_step_table table;
    remat_error error;
    const remat_device d = plan_device("a100-80gb");
    if (remat_step_bytes(tensors, n, settings, &d, &table, &error))
        fail_msg("%s", error.message);
    return table;
}

#endif
