/* What solvers call to offer their lists. */
#include "remat/solver.h"

#include "core/lists.h"

remat_status remat_offer_lists(const remat_sink *sink, size_t count, remat_tracer *trace,
                               void *context, remat_error *error)
{
    return sink->offer(sink->data, count, trace, context, error);
}

typedef struct single {
    const remat_operations *operations;
    const remat_model *model;
} single;

static remat_status copy_single(void *context, size_t index, remat_operations *operations,
                                remat_model *model, remat_error *error)
{
    (void)index;
    const single *one = context;
    if (one->model)
        *model = *one->model;
    return core_copy_list(one->operations, operations) ? remat_fail_memory(error) : REMAT_OK;
}

remat_status remat_offer(const remat_sink *sink, const remat_operations *operations,
                         const remat_model *model, remat_error *error)
{
    single one = {operations, model};
    return sink->offer(sink->data, 1, copy_single, &one, error);
}

remat_status remat_offer_bound(const remat_sink *sink, uint64_t budget, double makespan,
                               remat_error *error)
{
    return sink->bound(sink->data, budget, makespan, error);
}

remat_status remat_sink_hold(const remat_sink *sink, uint64_t bytes, remat_error *error)
{
    return sink->hold(sink->data, bytes, error);
}

double remat_sink_best(const remat_sink *sink, uint64_t budget)
{
    return sink->best(sink->data, budget);
}

void remat_sink_bind(const remat_sink *sink, uint64_t low, uint64_t high)
{
    sink->bind(sink->data, low, high);
}
