#include "graph/plans.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 64 << 20 }; /* of segments */

typedef struct planned {
    uint64_t budget, model_peak;
    double makespan;
    remat_plan plan;
} planned;

struct remat_plans {
    uint32_t n;
    size_t count, capacity;
    planned *steps;
    uint32_t *segments; /* of the plans: capacity times n */
    bool *lean;
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
    uint64_t one = n * (sizeof(uint32_t) + sizeof(bool)) + sizeof(planned);
    uint64_t operations = 4 * n * sizeof(remat_operation);
    return count * one + operations + n * (2 * sizeof(double) + 96);
}

remat_status remat_plans_new(const remat_profile *profile, size_t capacity, remat_plans **ret_plans,
                             remat_error *error)
{
    remat_plans *plans = calloc(1, sizeof *plans);
    if (!plans)
        return remat_fail_memory(error);
    plans->n = profile->n_nodes;
    plans->capacity = capacity;
    plans->steps = calloc(capacity + 1, sizeof *plans->steps);
    plans->segments = calloc((capacity + 1) * plans->n, sizeof *plans->segments);
    plans->lean = calloc((capacity + 1) * plans->n, sizeof *plans->lean);
    remat_status status =
        plans->steps && plans->segments && plans->lean ? REMAT_OK : remat_fail_memory(error);
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

static remat_plan plan_at(const remat_plans *plans, size_t i)
{
    return (remat_plan){.segment = plans->segments + i * plans->n,
                        .lean = plans->lean + i * plans->n};
}

bool remat_plans_room(remat_plans *plans, remat_plan *ret_plan)
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

static bool is_double(const remat_plans *plans, const remat_plan *plan)
{
    for (size_t i = 0; i < plans->count; i++) {
        const remat_plan *other = &plans->steps[i].plan;
        if (memcmp(other->segment, plan->segment, plans->n * sizeof *plan->segment) == 0 &&
            memcmp(other->lean, plan->lean, plans->n * sizeof *plan->lean) == 0)
            return true;
    }
    return false;
}

remat_status remat_plans_add(remat_plans *plans, const remat_graph *graph, remat_error *error)
{
    remat_plan plan = plan_at(plans, plans->count);
    remat_plan_trim(graph->profile, &plan);
    if (is_double(plans, &plan))
        return REMAT_OK;
    remat_plan_cost cost, equation_2;
    remat_operations operations = {0};
    remat_status status = remat_plan_measure(graph, &plan, &cost, error);
    if (!status)
        status = remat_plan_measure(&plans->equation_2, &plan, &equation_2, error);
    if (!status)
        status = remat_plan_emit(graph->profile, &plan, &operations, error);
    if (!status)
        plans->steps[plans->count++] =
            (planned){.budget = cost.bytes,
                      .model_peak = equation_2.bytes,
                      .makespan = makespan_of(graph->profile, &operations),
                      .plan = plan};
    remat_operations_clear(&operations);
    return status;
}

static int compare_plans(const void *left, const void *right)
{
    const planned *a = left, *b = right;
    if (a->budget != b->budget)
        return a->budget < b->budget ? -1 : 1;
    if (a->makespan != b->makespan)
        return a->makespan < b->makespan ? -1 : 1;
    const uint32_t *first = a->plan.segment, *second = b->plan.segment;
    return (first > second) - (first < second); /* the order of adding */
}

/* The segments follow the order of the plans; nothing more is kept than they need. */
remat_status remat_plans_finish(remat_plans *plans, remat_error *error)
{
    uint32_t *segments = malloc((plans->count * plans->n + 1) * sizeof *segments);
    bool *lean = malloc((plans->count * plans->n + 1) * sizeof *lean);
    if (!segments || !lean) {
        free(segments);
        free(lean);
        return remat_fail_memory(error);
    }
    if (plans->count > 0)
        qsort(plans->steps, plans->count, sizeof *plans->steps, compare_plans);
    for (size_t i = 0; i < plans->count; i++) {
        remat_plan *plan = &plans->steps[i].plan;
        memcpy(segments + i * plans->n, plan->segment, plans->n * sizeof *segments);
        memcpy(lean + i * plans->n, plan->lean, plans->n * sizeof *lean);
        *plan = (remat_plan){.segment = segments + i * plans->n, .lean = lean + i * plans->n};
    }
    free(plans->segments);
    free(plans->lean);
    plans->segments = segments;
    plans->lean = lean;
    plans->capacity = plans->count;
    remat_graph_clear(&plans->equation_2);
    return REMAT_OK;
}

uint64_t remat_plans_model_peak(const void *table, size_t step)
{
    const remat_plans *plans = table;
    return plans->steps[step].model_peak;
}

/* ---- members of remat_solver ---- */

void remat_plans_free(void *table)
{
    remat_plans *plans = table;
    if (!plans)
        return;
    free(plans->steps);
    free(plans->segments);
    free(plans->lean);
    remat_bound_free(plans->bound);
    remat_graph_clear(&plans->equation_2);
    free(plans);
}

uint64_t remat_plans_bytes(const void *table)
{
    const remat_plans *plans = table;
    return sizeof *plans + remat_bound_bytes(plans->bound) +
           plans->count * (sizeof(planned) + plans->n * (sizeof(uint32_t) + sizeof(bool)));
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
    return ((const remat_plans *)table)->steps[step].budget;
}

double remat_plans_step_makespan(const void *table, size_t step)
{
    return ((const remat_plans *)table)->steps[step].makespan;
}

remat_status remat_plans_trace(const void *table, const remat_problem *problem, size_t step,
                               remat_operations *operations, remat_error *error)
{
    const remat_plans *plans = table;
    return remat_plan_emit(problem->profile, &plans->steps[step].plan, operations, error);
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
        const planned *one = &plans->steps[i];
        status = remat_buffer_put_u64(buffer, one->budget);
        status = status ? status : remat_buffer_put_u64(buffer, one->model_peak);
        status = status ? status : remat_buffer_put_f64(buffer, one->makespan);
        for (uint32_t v = 0; v < plans->n && !status; v++)
            status = remat_buffer_put_u32(buffer, 2 * one->plan.segment[v] + one->plan.lean[v]);
    }
    return status ? remat_fail_memory(error) : REMAT_OK;
}

static bool read_step(const remat_graph *graph, remat_reader *reader, planned *one)
{
    one->budget = remat_reader_u64(reader);
    one->model_peak = remat_reader_u64(reader);
    one->makespan = remat_reader_f64(reader);
    for (uint32_t v = 0; v < graph->n; v++) {
        uint32_t value = remat_reader_u32(reader);
        one->plan.segment[v] = value / 2;
        one->plan.lean[v] = value % 2;
    }
    return !reader->failed && one->makespan >= 0 && isfinite(one->makespan) &&
           remat_plan_valid(graph, &one->plan);
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
        planned *one = &plans->steps[plans->count];
        one->plan = plan_at(plans, plans->count++);
        if (!read_step(&plans->equation_2, reader, one) || (i > 0 && one->budget < one[-1].budget))
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
