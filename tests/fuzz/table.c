/* Any bytes as a saved table: whole, with header and checksum, and straight into each solver's
 * load. What loads can be traced or says that it is damaged; nothing crashes. */
#include "fuzz.h"

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
    void *inner = NULL;
    remat_reader reader = {.data = data + 1, .length = size - 1};
    if (!remat_table_load(solver, &problem, data + 1, size - 1, &table, NULL)) {
        trace_all(table, &problem);
        remat_table_free(table);
    }
    if (!remat_solver_accepts(solver, &problem, NULL) &&
        !solver->load(&problem, &reader, &inner, NULL)) {
        for (size_t step = 0; step < solver->n_steps(inner) && step < 8; step++) {
            remat_operations operations = {0};
            solver->trace(inner, &problem, step, &operations, NULL);
            remat_operations_clear(&operations);
        }
        solver->table_free(inner);
    }
    remat_profile_free(profile);
    return 0;
}
