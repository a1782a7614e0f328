/* Any bytes as an operation list, three bytes an operation: the simulator judges it, and what it
 * calls valid stays valid through liveness and the states pass. */
#include "fuzz.h"

static void judge(const remat_profile *profile, const remat_operations *operations)
{
    remat_simulation before, after;
    const remat_link link = {.to_host = 1, .to_device = 2, .latency = 1};
    remat_operations live = {0}, whole = {0};
    if (remat_simulate(profile, operations, &link, NULL, NULL, &before, NULL))
        abort();
    if (before.valid) {
        if (remat_liveness(profile, operations, &live, NULL) ||
            remat_insert_states(profile, &live, &whole, NULL) ||
            remat_simulate(profile, &whole, &link, NULL, NULL, &after, NULL) || !after.valid)
            abort();
    }
    remat_operations_clear(&live);
    remat_operations_clear(&whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    remat_profile *profile = fuzz_profile();
    remat_operations operations = {0};
    for (size_t i = 0; i + 3 <= size && i < 3000; i += 3)
        if (remat_operations_push(&operations, (remat_operation){.kind = data[i] % 9,
                                                                 .target = data[i] / 9 % 4,
                                                                 .index = data[i + 1] % 5,
                                                                 .version = data[i + 2] % 3}))
            abort();
    judge(profile, &operations);
    remat_operations_clear(&operations);
    remat_profile_free(profile);
    return 0;
}
