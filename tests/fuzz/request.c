/* Any bytes as each kind of request. */
#include "fuzz.h"

#include <string.h>

static void question(const json_t *json, remat_request_kind kind, const remat_profile *profile)
{
    remat_request request;
    remat_question asked, again;
    remat_error error;
    char id[REMAT_ID_SIZE];
    if (remat_request_decode(json, kind, &request, &error))
        return;
    remat_profile_id(profile, id);
    if (remat_question_resolve(&request, id, profile, 1000, &asked, &error))
        return;
    if (remat_question_read(asked.text, strlen(asked.text), &again, &error) ||
        strcmp(asked.text, again.text) != 0)
        abort();
    remat_question_clear(&asked);
    remat_question_clear(&again);
}

static void simulation(const json_t *json, const remat_profile *profile)
{
    remat_request request;
    remat_error error;
    remat_operations operations = {0};
    if (remat_request_decode(json, REMAT_ASK_SIMULATION, &request, &error))
        return;
    if (!remat_operations_decode(request.operations, profile, "operations", &operations, &error))
        json_decref(remat_operations_encode(&operations, profile));
    remat_operations_clear(&operations);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *json = NULL, *record = NULL;
    remat_error error;
    if (remat_json_parse((const char *)data, size, &json, &error))
        return 0;
    remat_profile *profile = fuzz_profile();
    question(json, REMAT_ASK_SCHEDULE, profile);
    question(json, REMAT_ASK_TRADEOFF, profile);
    simulation(json, profile);
    if (!remat_measurement_decode(json, &record, &error))
        json_decref(record);
    remat_profile_free(profile);
    json_decref(json);
    return 0;
}
