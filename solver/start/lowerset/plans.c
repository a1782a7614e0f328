#include "start/lowerset/plans.h"

#include "start/lowerset/bound.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 64 << 20 }; /* of segments */

typedef struct planned {
    uint64_t budget, model_peak;
    graph_plan plan;
} planned;

struct graph_plans {
    const remat_profile *profile;
    uint32_t n;
    size_t count, capacity;
    planned *steps;
    uint32_t *segments; /* of the plans: capacity times n */
    bool *lean;
    graph_view equation_2; /* of the profile */
};

size_t graph_plans_limit(uint32_t n, size_t wanted)
{
    size_t most = MOST_BYTES / (n * sizeof(uint32_t)) + 1;
    return wanted < most ? wanted : most;
}

static uint64_t plan_bytes(uint64_t n)
{
    return n * (sizeof(uint32_t) + sizeof(bool)) + sizeof(planned);
}

uint64_t graph_plans_estimate(const remat_profile *profile, size_t count)
{
    uint64_t n = profile->n_nodes, one = plan_bytes(n);
    uint64_t operations = 4 * n * sizeof(remat_operation);
    return count * one + operations + n * (2 * sizeof(double) + 96);
}

remat_status graph_plans_new(const remat_profile *profile, size_t capacity, graph_plans **ret_plans,
                             remat_error *error)
{
    graph_plans *plans = calloc(1, sizeof *plans);
    if (!plans)
        return remat_fail_memory(error);
    plans->profile = profile;
    plans->n = profile->n_nodes;
    plans->capacity = capacity;
    plans->steps = calloc(capacity + 1, sizeof *plans->steps);
    plans->segments = calloc((capacity + 1) * plans->n, sizeof *plans->segments);
    plans->lean = calloc((capacity + 1) * plans->n, sizeof *plans->lean);
    remat_status status =
        plans->steps && plans->segments && plans->lean ? REMAT_OK : remat_fail_memory(error);
    if (!status)
        status = graph_init(&plans->equation_2, profile, GRAPH_MODEL_EQUATION_2, error);
    if (status) {
        graph_plans_free(plans);
        return status;
    }
    *ret_plans = plans;
    return REMAT_OK;
}

static graph_plan plan_at(const graph_plans *plans, size_t i)
{
    return (graph_plan){.segment = plans->segments + i * plans->n,
                        .lean = plans->lean + i * plans->n};
}

bool graph_plans_room(graph_plans *plans, graph_plan *ret_plan)
{
    if (plans->count == plans->capacity)
        return false;
    *ret_plan = plan_at(plans, plans->count);
    return true;
}

/* Time of the operations in the order in which they run. */
static double makespan_of(const remat_profile *profile, const remat_operations *operations)
{
    double makespan = 0;
    for (size_t i = 0; i < operations->length; i++) {
        const remat_node *node = &profile->nodes[operations->items[i].index];
        makespan += operations->items[i].kind == REMAT_B ? node->backward_time : node->forward_time;
    }
    return makespan;
}

static bool is_double(const graph_plans *plans, const graph_plan *plan)
{
    for (size_t i = 0; i < plans->count; i++) {
        const graph_plan *other = &plans->steps[i].plan;
        if (memcmp(other->segment, plan->segment, plans->n * sizeof *plan->segment) == 0 &&
            memcmp(other->lean, plan->lean, plans->n * sizeof *plan->lean) == 0)
            return true;
    }
    return false;
}

remat_status graph_plans_add(graph_plans *plans, const graph_view *graph, remat_error *error)
{
    graph_plan plan = plan_at(plans, plans->count);
    graph_plan_trim(graph->profile, &plan);
    if (is_double(plans, &plan))
        return REMAT_OK;
    uint64_t budget, equation_2;
    remat_status status = graph_plan_measure(graph, &plan, &budget, error);
    if (!status)
        status = graph_plan_measure(&plans->equation_2, &plan, &equation_2, error);
    if (!status)
        plans->steps[plans->count++] =
            (planned){.budget = budget, .model_peak = equation_2, .plan = plan};
    return status;
}

static remat_status trace(void *context, size_t index, remat_operations *operations,
                          remat_model *model, remat_error *error)
{
    const graph_plans *plans = context;
    const planned *one = &plans->steps[index];
    remat_status status = graph_plan_emit(plans->profile, &one->plan, operations, error);
    if (!status)
        *model = (remat_model){.budget = one->budget,
                               .model_peak = one->model_peak,
                               .makespan = makespan_of(plans->profile, operations)};
    return status;
}

remat_status graph_plans_offer(const graph_plans *plans, const remat_sink *sink, remat_error *error)
{
    remat_status status = remat_sink_hold(sink, plans->capacity * plan_bytes(plans->n), error);
    if (!status)
        status = remat_offer_lists(sink, plans->count, trace, (void *)plans, error);
    return status ? status : graph_bound_offer(plans->profile, sink, error);
}

void graph_plans_free(graph_plans *plans)
{
    if (!plans)
        return;
    free(plans->steps);
    free(plans->segments);
    free(plans->lean);
    graph_clear(&plans->equation_2);
    free(plans);
}
