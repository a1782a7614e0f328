/* Any bytes as a profile: an error or a profile that can be encoded, solved and replayed. */
#include "fuzz.h"

static void store_all(const remat_profile *profile)
{
    const remat_problem problem = {.profile = profile, .max_budget = UINT64_MAX};
    remat_table *table = NULL;
    if (remat_tabulate(remat_solver_find("store-all"), &problem, NULL, &table, NULL))
        abort();
    remat_table_free(table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *json = NULL;
    remat_profile *profile = NULL;
    remat_error error;
    char id[REMAT_ID_SIZE];
    if (remat_json_parse((const char *)data, size, &json, &error))
        return 0;
    if (!remat_profile_decode(json, "", &profile, &error)) {
        remat_profile_id(profile, id);
        store_all(profile);
        remat_profile_free(profile);
    } else {
        json_decref(remat_problem_encode(remat_problem_of(&error), &error));
    }
    json_decref(json);
    return 0;
}
