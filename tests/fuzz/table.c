/* Any bytes as a saved table, and as one of its packed lists. What loads can be traced or says that
 * it is damaged; nothing crashes. */
#include "fuzz.h"

#include "answer/compact.h"

#include <string.h>

static void trace_all(const remat_table *table, const remat_problem *problem)
{
    size_t n;
    const remat_point *frontier = remat_table_frontier(table, &n);
    for (size_t i = 0; i < n && i < 8; i++) {
        remat_schedule schedule;
        if (!remat_table_schedule(table, problem, frontier[i].peak, &schedule, NULL))
            remat_schedule_clear(&schedule);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t n;
    const remat_solver *const *solvers = remat_solvers(&n);
    if (size < 1)
        return 0;
    const remat_solver *solver = solvers[data[0] % n];
    remat_profile *profile = fuzz_profile();
    remat_problem problem = {.profile = profile, .max_budget = 1000};
    problem.options = remat_options_default(solver);
    remat_table *table = NULL;
    remat_operations list = {0};
    if (!remat_table_load(solver, &problem, data + 1, size - 1, &table, NULL)) {
        trace_all(table, &problem);
        remat_table_free(table);
    }
    if (!answer_expand_list(data + 1, size - 1, &list, NULL)) {
        remat_simulation simulation;
        remat_simulate(profile, &list, NULL, NULL, NULL, &simulation, NULL);
        remat_operations_clear(&list);
    }
    remat_profile_free(profile);
    return 0;
}
