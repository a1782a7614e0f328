/* store-all: every node forward once with everything saved, every node backward once; of a joint
 * graph every node once in the profile's order. The makespan
 * is a lower bound for every schedule; after liveness the peak is the store-all peak the service
 * reports. */
#include "model/lists.h"
#include "remat/table.h"

static remat_status solve(const remat_problem *problem, const remat_host *host,
                          const remat_sink *sink, remat_error *error)
{
    (void)host;
    const remat_model model = {.makespan = remat_store_all_makespan(problem->profile)};
    remat_operations list = {0};
    remat_status status = model_store_everything(problem->profile, &list)
                              ? remat_fail_memory(error)
                              : remat_offer(sink, &list, &model, error);
    remat_operations_clear(&list);
    return status ? status : remat_offer_bound(sink, UINT64_MAX, model.makespan, error);
}

const remat_solver remat_solver_store_all = {
    .name = "store-all",
    .summary = "Keeps every value until its last use; computes nothing twice.",
    .source = "the usual backpropagation; the baseline of every paper",
    .optimal_for = "the makespan, whenever it fits",
    .accepts = REMAT_ACCEPTS_ANY_SHAPE | REMAT_ACCEPTS_JOINT | REMAT_ACCEPTS_PINS,
    .class_name = "all schedules",
    .solve = solve,
};
