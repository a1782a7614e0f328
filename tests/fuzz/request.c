/* Any bytes as each kind of request. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *json = NULL, *record = NULL;
    remat_schedule_request schedule;
    remat_simulation_request simulation;
    remat_error error;
    uint64_t budget;
    if (remat_json_parse((const char *)data, size, &json, &error))
        return 0;
    remat_tradeoff_request *tradeoff = malloc(sizeof *tradeoff);
    if (tradeoff)
        remat_tradeoff_request_decode(json, tradeoff, &error);
    free(tradeoff);
    if (!remat_schedule_request_decode(json, &schedule, &error))
        remat_budget_resolve(&schedule, 1000, &budget, &error);
    if (!remat_simulation_request_decode(json, &simulation, &error) && simulation.link) {
        remat_profile *profile = fuzz_profile();
        remat_link link;
        remat_link_decode(simulation.link, profile, &link, &error);
        remat_profile_free(profile);
    }
    if (!remat_measurement_decode(json, &record, &error))
        json_decref(record);
    json_decref(json);
    return 0;
}
