#include "graph/plans.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 64 << 20 };

typedef struct plan {
    uint64_t budget, model_peak;
    double makespan;
    uint32_t *segment; /* by node */
} plan;

struct remat_plans {
    uint32_t n;
    size_t count, capacity;
    plan *plans;
    uint32_t *segments; /* capacity times n */
    remat_bound *bound;
    remat_graph equation_2; /* of the profile, while plans are added; its arena is empty later */
};

size_t remat_plans_limit(uint32_t n, size_t wanted)
{
    size_t most = MOST_BYTES / (n * sizeof(uint32_t)) + 1;
    return wanted < most ? wanted : most;
}

uint64_t remat_plans_estimate(const remat_profile *profile, size_t count)
{
    uint64_t n = profile->n_nodes;
    uint64_t one = n * sizeof(uint32_t) + sizeof(plan);
    uint64_t operations = 4 * n * sizeof(remat_operation);
    return count * one + operations + n * (2 * sizeof(double) + 64);
}

remat_status remat_plans_new(const remat_profile *profile, size_t capacity, remat_plans **ret_plans,
                             remat_error *error)
{
    remat_plans *plans = calloc(1, sizeof *plans);
    if (!plans)
        return remat_fail_memory(error);
    plans->n = profile->n_nodes;
    plans->capacity = capacity;
    plans->plans = calloc(capacity + 1, sizeof *plans->plans);
    plans->segments = calloc((capacity + 1) * plans->n, sizeof *plans->segments);
    remat_status status = plans->plans && plans->segments ? REMAT_OK : remat_fail_memory(error);
    if (!status)
        status = remat_bound_new(profile, &plans->bound, error);
    if (!status)
        status = remat_graph_init(&plans->equation_2, profile, REMAT_MODEL_EQUATION_2, error);
    if (status) {
        remat_plans_free(plans);
        return status;
    }
    *ret_plans = plans;
    return REMAT_OK;
}

uint32_t *remat_plans_room(remat_plans *plans)
{
    return plans->count < plans->capacity ? plans->segments + plans->count * plans->n : NULL;
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

static bool is_double(const remat_plans *plans, const uint32_t *segment)
{
    for (size_t i = 0; i < plans->count; i++)
        if (memcmp(plans->plans[i].segment, segment, plans->n * sizeof *segment) == 0)
            return true;
    return false;
}

remat_status remat_plans_add(remat_plans *plans, const remat_graph *graph, remat_error *error)
{
    uint32_t *segment = remat_plans_room(plans);
    if (is_double(plans, segment))
        return REMAT_OK;
    remat_plan_cost cost, equation_2;
    remat_operations operations = {0};
    remat_status status = remat_plan_measure(graph, segment, &cost, error);
    if (!status)
        status = remat_plan_measure(&plans->equation_2, segment, &equation_2, error);
    if (!status)
        status = remat_plan_emit(graph->profile, segment, &operations, error);
    if (!status)
        plans->plans[plans->count++] = (plan){.budget = cost.bytes,
                                              .model_peak = equation_2.bytes,
                                              .makespan = makespan_of(graph->profile, &operations),
                                              .segment = segment};
    remat_operations_clear(&operations);
    return status;
}

static int compare_plans(const void *left, const void *right)
{
    const plan *a = left, *b = right;
    if (a->budget != b->budget)
        return a->budget < b->budget ? -1 : 1;
    if (a->makespan != b->makespan)
        return a->makespan < b->makespan ? -1 : 1;
    return (a->segment > b->segment) - (a->segment < b->segment); /* the order of adding */
}

/* The segments follow the order of the plans; nothing more is kept than they need. */
remat_status remat_plans_finish(remat_plans *plans, remat_error *error)
{
    uint32_t *segments = malloc((plans->count * plans->n + 1) * sizeof *segments);
    if (!segments)
        return remat_fail_memory(error);
    if (plans->count > 0)
        qsort(plans->plans, plans->count, sizeof *plans->plans, compare_plans);
    for (size_t i = 0; i < plans->count; i++) {
        uint32_t *to = segments + i * plans->n;
        memcpy(to, plans->plans[i].segment, plans->n * sizeof *to);
        plans->plans[i].segment = to;
    }
    free(plans->segments);
    plans->segments = segments;
    plans->capacity = plans->count;
    remat_graph_clear(&plans->equation_2);
    return REMAT_OK;
}

uint64_t remat_plans_model_peak(const void *table, size_t step)
{
    const remat_plans *plans = table;
    return plans->plans[step].model_peak;
}

/* ---- members of remat_solver ---- */

void remat_plans_free(void *table)
{
    remat_plans *plans = table;
    if (!plans)
        return;
    free(plans->plans);
    free(plans->segments);
    remat_bound_free(plans->bound);
    remat_graph_clear(&plans->equation_2);
    free(plans);
}

uint64_t remat_plans_bytes(const void *table)
{
    const remat_plans *plans = table;
    return sizeof *plans + remat_bound_bytes(plans->bound) +
           plans->count * (sizeof(plan) + plans->n * sizeof(uint32_t));
}

uint64_t remat_plans_max_budget(const void *table)
{
    (void)table;
    return UINT64_MAX;
}

size_t remat_plans_n_steps(const void *table)
{
    return ((const remat_plans *)table)->count;
}

uint64_t remat_plans_step_budget(const void *table, size_t step)
{
    return ((const remat_plans *)table)->plans[step].budget;
}

double remat_plans_step_makespan(const void *table, size_t step)
{
    return ((const remat_plans *)table)->plans[step].makespan;
}

remat_status remat_plans_trace(const void *table, const remat_problem *problem, size_t step,
                               remat_operations *operations, remat_error *error)
{
    const remat_plans *plans = table;
    return remat_plan_emit(problem->profile, plans->plans[step].segment, operations, error);
}

double remat_plans_lower_bound(const void *table, uint64_t budget)
{
    return remat_bound_makespan(((const remat_plans *)table)->bound, budget);
}

remat_status remat_plans_save(const void *table, remat_buffer *buffer, remat_error *error)
{
    const remat_plans *plans = table;
    remat_status status = remat_buffer_put_u64(buffer, plans->count);
    for (size_t i = 0; i < plans->count && !status; i++) {
        const plan *one = &plans->plans[i];
        status = remat_buffer_put_u64(buffer, one->budget);
        status = status ? status : remat_buffer_put_u64(buffer, one->model_peak);
        status = status ? status : remat_buffer_put_f64(buffer, one->makespan);
        for (uint32_t v = 0; v < plans->n && !status; v++)
            status = remat_buffer_put_u32(buffer, one->segment[v]);
    }
    return status ? remat_fail_memory(error) : REMAT_OK;
}

static bool read_plan(const remat_order *order, remat_reader *reader, plan *one)
{
    one->budget = remat_reader_u64(reader);
    one->model_peak = remat_reader_u64(reader);
    one->makespan = remat_reader_f64(reader);
    for (uint32_t v = 0; v < order->n; v++)
        one->segment[v] = remat_reader_u32(reader);
    return !reader->failed && one->makespan >= 0 && isfinite(one->makespan) &&
           remat_plan_valid(order, one->segment);
}

remat_status remat_plans_load(const remat_problem *problem, remat_reader *reader, void **ret_table,
                              remat_error *error)
{
    const remat_profile *profile = problem->profile;
    uint64_t count = remat_reader_u64(reader), n = profile->n_nodes;
    if (reader->failed || count > (reader->length - reader->position) / (24 + 4 * n))
        return remat_fail(error, REMAT_CORRUPT, NULL, "the table's list of plans is damaged");
    remat_plans *plans = NULL;
    remat_status status = remat_plans_new(profile, (size_t)count, &plans, error);
    for (uint64_t i = 0; i < count && !status; i++) {
        plan *one = &plans->plans[plans->count];
        one->segment = remat_plans_room(plans);
        plans->count++;
        if (!read_plan(&plans->equation_2.order, reader, one) ||
            (i > 0 && one->budget < one[-1].budget))
            status = remat_fail(error, REMAT_CORRUPT, NULL, "plan %llu of the table is damaged",
                                (unsigned long long)i);
    }
    if (status) {
        remat_plans_free(plans);
        return status;
    }
    remat_graph_clear(&plans->equation_2);
    *ret_table = plans;
    return REMAT_OK;
}
