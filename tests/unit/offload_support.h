/* Chains of tests/data/pofo_small.json, and the programs of solver/offload run on them directly. */
#ifndef TESTS_UNIT_OFFLOAD_SUPPORT_H
#define TESTS_UNIT_OFFLOAD_SUPPORT_H

#include "../unit/chain_support.h"

#include "start/offload/forward.h"
#include "start/offload/labels.h"
#include "start/offload/place.h"

#include <math.h>
#include <string.h>

static inline remat_link support_link(double bandwidth)
{
    return (remat_link){.to_host = bandwidth, .to_device = bandwidth};
}

static inline void support_good(remat_status status, const remat_error *error)
{
    if (status)
        fail_msg("%s: %s", remat_status_name(status), error->message);
}

/* The program over slots for budget bytes: its value, and its plan if ret_plan is not NULL. */
static inline double support_program(const remat_profile *profile, const remat_link *link,
                                     uint64_t budget, uint32_t slots, bool relaxed,
                                     offload_plan *ret_plan)
{
    remat_error error = {0};
    chain_costs *chain = NULL;
    offload_model model;
    offload_backward backward;
    offload_forward forward;
    support_good(chain_new(profile, &chain, &error), &error);
    support_good(offload_model_init(&model, profile, chain, link, slots, budget, !relaxed, &error),
                 &error);
    assert_true(budget > model.resident);
    support_good(offload_backward_init(&backward, &model, budget - model.resident, slots, relaxed,
                                       NULL, &error),
                 &error);
    support_good(offload_forward_init(&forward, &backward, NULL, &error), &error);
    double value = offload_forward_value(&forward, slots) / model.units_per_time;
    if (ret_plan && isfinite(value))
        support_good(offload_forward_plan(&forward, slots, ret_plan, &error), &error);
    offload_forward_clear(&forward);
    offload_backward_clear(&backward);
    offload_model_clear(&model);
    chain_free(chain);
    return value;
}

static inline double support_slots(const remat_profile *profile, const remat_link *link,
                                   uint64_t budget, uint32_t slots, offload_plan *ret_plan)
{
    return support_program(profile, link, budget, slots, false, ret_plan);
}

static inline double support_relaxed(const remat_profile *profile, const remat_link *link,
                                     uint64_t budget, uint32_t slots)
{
    return support_program(profile, link, budget, slots, true, NULL);
}

/* The exact optimum of the class, and its plan. The caller clears ret_result->plan. */
static inline void support_labels(const remat_profile *profile, const remat_link *link,
                                  uint64_t budget, offload_labels_result *ret_result)
{
    remat_error error = {0};
    chain_costs *chain = NULL;
    offload_model model;
    support_good(chain_new(profile, &chain, &error), &error);
    support_good(offload_model_init(&model, profile, chain, link, 1, budget, false, &error),
                 &error);
    support_good(
        offload_labels_search(&model, NULL, budget, INFINITY, 1e9, NULL, ret_result, &error),
        &error);
    offload_model_clear(&model);
    chain_free(chain);
}

#endif
