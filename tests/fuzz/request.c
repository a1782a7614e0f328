/* Any bytes as each kind of request. */
#include "fuzz.h"

static void schedule(const json_t *json, const remat_profile *profile)
{
    remat_schedule_request request;
    remat_question question, again;
    remat_error error;
    char id[REMAT_ID_SIZE];
    if (remat_schedule_request_decode(json, &request, &error))
        return;
    remat_profile_id(profile, id);
    if (remat_question_resolve(&request, id, profile, 1000, &question, &error))
        return;
    json_t *text = remat_question_encode(&question);
    if (!text || remat_question_decode(text, &again, &error))
        abort();
    json_t *twice = remat_question_encode(&again);
    if (!twice || !json_equal(text, twice))
        abort();
    json_decref(text);
    json_decref(twice);
}

static void simulation(const json_t *json, const remat_profile *profile)
{
    remat_simulation_request request;
    remat_way way;
    remat_error error;
    remat_operations operations = {0};
    if (remat_simulation_request_decode(json, &request, &error))
        return;
    remat_subject_link(&request.subject, profile, &way, &error);
    if (!remat_operations_decode(request.operations, profile, "operations", &operations, &error))
        json_decref(remat_operations_encode(&operations, profile));
    remat_operations_clear(&operations);
}

static void tradeoff(const json_t *json)
{
    remat_error error;
    remat_tradeoff_request *request = malloc(sizeof *request);
    if (request)
        remat_tradeoff_request_decode(json, request, &error);
    free(request);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *json = NULL, *record = NULL;
    remat_error error;
    if (remat_json_parse((const char *)data, size, &json, &error))
        return 0;
    remat_profile *profile = fuzz_profile();
    schedule(json, profile);
    simulation(json, profile);
    tradeoff(json);
    if (!remat_measurement_decode(json, &record, &error))
        json_decref(record);
    remat_profile_free(profile);
    json_decref(json);
    return 0;
}
