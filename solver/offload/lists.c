#include "offload/lists.h"
#include "remat/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct step {
    uint64_t peak;
    double makespan;
    remat_operations operations;
} step;

/* Steps in increasing order of peak, with strictly decreasing makespan. */
struct remat_lists {
    step *steps;
    size_t n_steps, capacity;
    uint64_t max_budget;
    double least; /* makespan that no list can beat */
    remat_link link;
};

remat_status remat_lists_new(const remat_problem *problem, remat_lists **ret_lists,
                             remat_error *error)
{
    remat_lists *lists = calloc(1, sizeof *lists);
    if (!lists)
        return remat_fail_memory(error);
    lists->max_budget = problem->max_budget;
    lists->least = remat_store_all_makespan(problem->profile);
    lists->link = *problem->link;
    *ret_lists = lists;
    return REMAT_OK;
}

void remat_lists_free(void *table)
{
    remat_lists *lists = table;
    if (!lists)
        return;
    for (size_t i = 0; i < lists->n_steps; i++)
        remat_operations_clear(&lists->steps[i].operations);
    free(lists->steps);
    free(lists);
}

/* ---- building ---- */

/* What the table will do with the list: *ret_operations is what is replayed. */
static remat_status settle(const remat_problem *problem, const remat_operations *operations,
                           remat_operations *ret_operations, remat_simulation *ret_simulation,
                           remat_error *error)
{
    remat_operations live = {0}, whole = {0};
    remat_status status = remat_liveness(problem->profile, operations, &live, error);
    if (!status)
        status = remat_insert_states(problem->profile, &live, &whole, error);
    if (!status)
        status = remat_simulate(problem->profile, &whole, problem->link, NULL, NULL, ret_simulation,
                                error);
    remat_operations_clear(&live);
    if (status)
        remat_operations_clear(&whole);
    else
        *ret_operations = whole;
    return status;
}

/* Takes the operations of the step, or frees them. */
static remat_status insert(remat_lists *lists, step one, remat_error *error)
{
    size_t at = 0, end;
    while (at < lists->n_steps && lists->steps[at].peak < one.peak)
        at++;
    bool beaten = (at > 0 && lists->steps[at - 1].makespan <= one.makespan) ||
                  (at < lists->n_steps && lists->steps[at].peak == one.peak &&
                   lists->steps[at].makespan <= one.makespan);
    if (beaten || one.peak > lists->max_budget) {
        remat_operations_clear(&one.operations);
        return REMAT_OK;
    }
    if (lists->n_steps == lists->capacity) {
        size_t capacity = lists->capacity * 2 + 16;
        step *steps = realloc(lists->steps, capacity * sizeof *steps);
        if (!steps) {
            remat_operations_clear(&one.operations);
            return remat_fail_memory(error);
        }
        lists->steps = steps;
        lists->capacity = capacity;
    }
    for (end = at; end < lists->n_steps && lists->steps[end].makespan >= one.makespan; end++)
        remat_operations_clear(&lists->steps[end].operations);
    memmove(&lists->steps[at + 1], &lists->steps[end],
            (lists->n_steps - end) * sizeof *lists->steps);
    lists->steps[at] = one;
    lists->n_steps += at + 1 - end;
    return REMAT_OK;
}

remat_status remat_lists_consider(remat_lists *lists, const remat_problem *problem,
                                  const remat_operations *operations, remat_error *error)
{
    remat_operations whole = {0};
    remat_simulation simulation;
    remat_status status = settle(problem, operations, &whole, &simulation, error);
    if (status || !simulation.valid) {
        remat_operations_clear(&whole);
        return status;
    }
    return insert(lists, (step){simulation.peak, simulation.makespan, whole}, error);
}

typedef struct made {
    step step; /* without operations: there is none */
    remat_status status;
    remat_error error;
} made;

typedef struct gathering {
    const remat_problem *problem;
    const remat_host *host;
    remat_lists_make make;
    void *context;
    size_t first;
    made *made;
} gathering;

static void make_one(void *context, size_t index, unsigned worker)
{
    (void)worker;
    gathering *g = context;
    made *one = &g->made[index];
    remat_operations operations = {0};
    remat_simulation simulation;
    *one = (made){0};
    if (remat_host_cancelled(g->host))
        return;
    one->status = g->make(g->context, g->first + index, &operations, &one->error);
    if (!one->status)
        one->status =
            settle(g->problem, &operations, &one->step.operations, &simulation, &one->error);
    if (one->status == REMAT_INFEASIBLE)
        one->status = REMAT_OK;
    else if (!one->status && !simulation.valid)
        remat_operations_clear(&one->step.operations);
    else if (!one->status)
        one->step = (step){simulation.peak, simulation.makespan, one->step.operations};
    remat_operations_clear(&operations);
}

/* Lists that wait for their turn at once. */
enum { BATCH = 64 };

static remat_status insert_batch(remat_lists *lists, made *batch, size_t count, remat_error *error)
{
    remat_status status = REMAT_OK;
    for (size_t k = 0; k < count; k++) {
        made *one = &batch[k];
        if (!status && one->status) {
            status = one->status;
            if (error)
                *error = one->error;
        }
        if (status)
            remat_operations_clear(&one->step.operations);
        else if (one->step.operations.length > 0)
            status = insert(lists, one->step, error);
    }
    return status;
}

remat_status remat_lists_gather(remat_lists *lists, const remat_problem *problem,
                                const remat_host *host, size_t count, remat_lists_make make,
                                void *context, remat_error *error)
{
    made *batch = malloc(BATCH * sizeof *batch);
    if (!batch)
        return remat_fail_memory(error);
    gathering g = {
        .problem = problem, .host = host, .make = make, .context = context, .made = batch};
    remat_status status = REMAT_OK;
    for (; g.first < count && !status; g.first += BATCH) {
        size_t n = count - g.first < BATCH ? count - g.first : BATCH;
        remat_host_parallel_for(host, n, make_one, &g);
        status = insert_batch(lists, batch, n, error);
        if (!status && remat_host_cancelled(host))
            status = remat_fail(error, REMAT_CANCELLED, NULL, "cancelled");
    }
    free(batch);
    return status;
}

/* ---- reading ---- */

double remat_lists_best(const remat_lists *lists, uint64_t budget)
{
    double best = INFINITY;
    for (size_t i = 0; i < lists->n_steps && lists->steps[i].peak <= budget; i++)
        best = lists->steps[i].makespan;
    return best;
}

uint64_t remat_lists_bytes(const void *table)
{
    const remat_lists *lists = table;
    uint64_t bytes = sizeof *lists + lists->capacity * sizeof *lists->steps;
    for (size_t i = 0; i < lists->n_steps; i++)
        bytes += lists->steps[i].operations.capacity * sizeof(remat_operation);
    return bytes;
}

/* A list that takes no longer than storing everything serves every larger budget. */
uint64_t remat_lists_max_budget(const void *table)
{
    const remat_lists *lists = table;
    bool all = lists->n_steps > 0 && lists->steps[lists->n_steps - 1].makespan <= lists->least;
    return all ? UINT64_MAX : lists->max_budget;
}

size_t remat_lists_n_steps(const void *table)
{
    return ((const remat_lists *)table)->n_steps;
}

uint64_t remat_lists_step_budget(const void *table, size_t i)
{
    return ((const remat_lists *)table)->steps[i].peak;
}

double remat_lists_step_makespan(const void *table, size_t i)
{
    return ((const remat_lists *)table)->steps[i].makespan;
}

remat_status remat_lists_trace(const void *table, const remat_problem *problem, size_t i,
                               remat_operations *operations, remat_error *error)
{
    (void)problem;
    const remat_operations *from = &((const remat_lists *)table)->steps[i].operations;
    for (size_t k = 0; k < from->length; k++)
        if (remat_operations_push(operations, from->items[k]))
            return remat_fail_memory(error);
    return REMAT_OK;
}

/* ---- bytes on disk ---- */

static remat_status save_step(const step *one, remat_buffer *buffer)
{
    remat_status status = remat_buffer_put_u64(buffer, one->operations.length);
    for (size_t k = 0; k < one->operations.length && !status; k++) {
        const remat_operation *operation = &one->operations.items[k];
        status = remat_buffer_put_u32(buffer, operation->kind | (uint32_t)operation->target << 8);
        if (!status)
            status = remat_buffer_put_u32(buffer, operation->index);
        if (!status)
            status = remat_buffer_put_u32(buffer, operation->version);
    }
    return status;
}

remat_status remat_lists_save(const void *table, remat_buffer *buffer, remat_error *error)
{
    const remat_lists *lists = table;
    const remat_link *link = &lists->link;
    remat_status status = remat_buffer_put_f64(buffer, link->to_host);
    if (!status)
        status = remat_buffer_put_f64(buffer, link->to_device);
    if (!status)
        status = remat_buffer_put_f64(buffer, link->latency);
    if (!status)
        status = remat_buffer_put_u32(buffer, link->shared);
    if (!status)
        status = remat_buffer_put_u64(buffer, lists->max_budget);
    if (!status)
        status = remat_buffer_put_u64(buffer, lists->n_steps);
    for (size_t i = 0; i < lists->n_steps && !status; i++)
        status = save_step(&lists->steps[i], buffer);
    return status ? remat_fail_memory(error) : REMAT_OK;
}

static remat_status load_operations(remat_reader *reader, remat_operations *operations,
                                    remat_error *error)
{
    uint64_t length = remat_reader_u64(reader);
    if (reader->failed || length > (reader->length - reader->position) / 12)
        return remat_fail(error, REMAT_CORRUPT, NULL, "a list of the table is damaged");
    for (uint64_t k = 0; k < length; k++) {
        uint32_t what = remat_reader_u32(reader);
        remat_operation operation = {.kind = (uint8_t)what, .target = (uint8_t)(what >> 8)};
        operation.index = remat_reader_u32(reader);
        operation.version = remat_reader_u32(reader);
        if (remat_operations_push(operations, operation))
            return remat_fail_memory(error);
    }
    return REMAT_OK;
}

/* The simulator tells a damaged list from a good one; the passes trust theirs, so it comes first. */
static remat_status load_step(remat_lists *lists, const remat_problem *problem,
                              remat_reader *reader, remat_error *error)
{
    remat_operations operations = {0};
    remat_simulation simulation;
    remat_status status = load_operations(reader, &operations, error);
    if (!status)
        status = remat_simulate(problem->profile, &operations, problem->link, NULL, NULL,
                                &simulation, error);
    if (!status && !simulation.valid)
        status = remat_fail(error, REMAT_CORRUPT, NULL, "a list of the table is no schedule");
    size_t before = lists->n_steps;
    if (!status)
        status = remat_lists_consider(lists, problem, &operations, error);
    if (!status &&
        (lists->n_steps != before + 1 || lists->steps[before].makespan != simulation.makespan))
        status = remat_fail(error, REMAT_CORRUPT, NULL, "the table's lists are not in order");
    remat_operations_clear(&operations);
    return status;
}

static remat_status load_link(const remat_link *link, remat_reader *reader, remat_error *error)
{
    double to_host = remat_reader_f64(reader), to_device = remat_reader_f64(reader);
    double latency = remat_reader_f64(reader);
    uint32_t shared = remat_reader_u32(reader);
    if (reader->failed || shared > 1)
        return remat_fail(error, REMAT_CORRUPT, NULL, "the table's link is damaged");
    if (to_host != link->to_host || to_device != link->to_device || latency != link->latency ||
        (shared == 1) != link->shared)
        return remat_fail(error, REMAT_INVALID, NULL, "the table belongs to another link");
    return REMAT_OK;
}

remat_status remat_lists_load(const remat_problem *problem, remat_reader *reader, void **ret_table,
                              remat_error *error)
{
    remat_lists *lists = NULL;
    remat_status status = load_link(problem->link, reader, error);
    if (!status)
        status = remat_lists_new(problem, &lists, error);
    if (status)
        return status;
    lists->max_budget = remat_reader_u64(reader);
    uint64_t n_steps = remat_reader_u64(reader);
    if (reader->failed)
        status = remat_fail(error, REMAT_CORRUPT, NULL, "the table's lists are damaged");
    for (uint64_t i = 0; i < n_steps && !status; i++)
        status = load_step(lists, problem, reader, error);
    if (status) {
        remat_lists_free(lists);
        return status;
    }
    *ret_table = lists;
    return REMAT_OK;
}
