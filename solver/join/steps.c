#include "join/steps.h"
#include "remat/table.h"

#include <math.h>
#include <stdlib.h>

/* The kinds of a list's operations are F, A, B, D and, here, X: D of saved values. */
enum { KIND_SHIFT = 24, NODE_MASK = (1 << KIND_SHIFT) - 1, KIND_X = REMAT_D + 1 };

static uint32_t encode(const remat_operation *operation)
{
    uint32_t kind = operation->target == REMAT_SAVED ? (uint32_t)KIND_X : operation->kind;
    return kind << KIND_SHIFT | operation->index;
}

static remat_status push(remat_operations *list, uint32_t code)
{
    uint32_t kind = code >> KIND_SHIFT, node = code & NODE_MASK;
    return kind == KIND_X ? remat_push_drop_saved(list, node) : remat_push(list, kind, node);
}

remat_join_steps *remat_join_steps_new(const remat_profile *profile)
{
    remat_join_steps *t = calloc(1, sizeof *t);
    if (t) {
        t->unit = 1;
        t->constant_bytes = profile->input_bytes;
        t->store_all = remat_store_all_makespan(profile);
    }
    return t;
}

void remat_join_steps_free(void *table)
{
    remat_join_steps *t = table;
    if (!t)
        return;
    for (size_t i = 0; i < t->n_steps; i++)
        free(t->steps[i].operations);
    free(t->steps);
    free(t->bound);
    free(t);
}

/* ---- adding ---- */

/* Room for one more step of n operations; its list is zero. */
static remat_join_step *step_new(remat_join_steps *t, size_t n)
{
    if (t->n_steps == t->capacity) {
        size_t capacity = t->capacity ? 2 * t->capacity : 32;
        remat_join_step *steps = realloc(t->steps, capacity * sizeof *steps);
        if (!steps)
            return NULL;
        t->steps = steps;
        t->capacity = capacity;
    }
    remat_join_step *step = &t->steps[t->n_steps];
    *step = (remat_join_step){.n_operations = n};
    step->operations = calloc(n + 1, sizeof *step->operations);
    if (!step->operations)
        return NULL;
    t->n_steps++;
    return step;
}

remat_status remat_join_steps_add(remat_join_steps *t, const remat_profile *profile,
                                  const remat_operations *operations, remat_error *error)
{
    remat_join_step *step = step_new(t, operations->length);
    if (!step)
        return remat_fail_memory(error);
    for (size_t i = 0; i < operations->length; i++)
        step->operations[i] = encode(&operations->items[i]);
    return remat_join_measure(profile, operations, &step->budget, &step->makespan, error);
}

static int by_budget(const void *left, const void *right)
{
    const remat_join_step *a = left, *b = right;
    if (a->budget != b->budget)
        return a->budget < b->budget ? -1 : 1;
    return (a->makespan > b->makespan) - (a->makespan < b->makespan);
}

void remat_join_steps_sort(remat_join_steps *t)
{
    size_t kept = 0;
    if (t->n_steps > 0)
        qsort(t->steps, t->n_steps, sizeof *t->steps, by_budget);
    for (size_t i = 0; i < t->n_steps; i++)
        if (kept == 0 || t->steps[i].makespan < t->steps[kept - 1].makespan)
            t->steps[kept++] = t->steps[i];
        else
            free(t->steps[i].operations);
    t->n_steps = kept;
}

/* ---- answers ---- */

uint64_t remat_join_steps_bytes(const void *table)
{
    const remat_join_steps *t = table;
    uint64_t bytes = sizeof *t + t->capacity * sizeof *t->steps + t->n_bound * sizeof *t->bound;
    for (size_t i = 0; i < t->n_steps; i++)
        bytes += (t->steps[i].n_operations + 1) * sizeof *t->steps[i].operations;
    return bytes;
}

uint64_t remat_join_steps_max_budget(const void *table)
{
    return ((const remat_join_steps *)table)->max_budget;
}

size_t remat_join_steps_count(const void *table)
{
    return ((const remat_join_steps *)table)->n_steps;
}

uint64_t remat_join_steps_budget(const void *table, size_t step)
{
    return ((const remat_join_steps *)table)->steps[step].budget;
}

double remat_join_steps_makespan(const void *table, size_t step)
{
    return ((const remat_join_steps *)table)->steps[step].makespan;
}

remat_status remat_join_steps_trace(const void *table, const remat_problem *problem, size_t step,
                                    remat_operations *operations, remat_error *error)
{
    (void)problem;
    const remat_join_step *one = &((const remat_join_steps *)table)->steps[step];
    for (size_t i = 0; i < one->n_operations; i++)
        if (push(operations, one->operations[i]))
            return remat_fail_memory(error);
    return REMAT_OK;
}

double remat_join_steps_lower_bound(const void *table, uint64_t budget)
{
    const remat_join_steps *t = table;
    if (budget < t->constant_bytes)
        return INFINITY;
    uint64_t slot = (budget - t->constant_bytes) / t->unit;
    if (slot >= t->n_bound || t->bound[slot] < t->store_all)
        return t->store_all;
    return t->bound[slot];
}

/* ---- save and load ---- */

remat_status remat_join_steps_save(const void *table, remat_buffer *buffer, remat_error *error)
{
    const remat_join_steps *t = table;
    bool failed =
        remat_buffer_put_u64(buffer, t->max_budget) ||
        remat_buffer_put_u64(buffer, t->constant_bytes) || remat_buffer_put_u64(buffer, t->unit) ||
        remat_buffer_put_u64(buffer, t->n_bound) || remat_buffer_put_u64(buffer, t->n_steps);
    for (size_t i = 0; i < t->n_bound && !failed; i++)
        failed = remat_buffer_put_f64(buffer, t->bound[i]);
    for (size_t i = 0; i < t->n_steps && !failed; i++) {
        failed = remat_buffer_put_u64(buffer, t->steps[i].n_operations);
        for (size_t n = 0; n < t->steps[i].n_operations && !failed; n++)
            failed = remat_buffer_put_u32(buffer, t->steps[i].operations[n]);
    }
    return failed ? remat_fail_memory(error) : REMAT_OK;
}

static remat_status load_bound(remat_join_steps *t, uint64_t count, remat_reader *reader)
{
    t->bound = malloc((size_t)(count + 1) * sizeof *t->bound);
    if (!t->bound)
        return REMAT_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        t->bound[i] = remat_reader_f64(reader);
        if (!(t->bound[i] >= 0) || (i > 0 && t->bound[i] > t->bound[i - 1]))
            return REMAT_CORRUPT;
    }
    t->n_bound = (size_t)count;
    return reader->failed ? REMAT_CORRUPT : REMAT_OK;
}

static remat_status load_list(const remat_profile *profile, remat_reader *reader,
                              remat_operations *list)
{
    uint64_t count = remat_reader_u64(reader);
    if (reader->failed || count > (reader->length - reader->position) / sizeof(uint32_t))
        return REMAT_CORRUPT;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t code = remat_reader_u32(reader);
        if (code >> KIND_SHIFT > KIND_X || (code & NODE_MASK) >= profile->n_nodes)
            return REMAT_CORRUPT;
        if (push(list, code))
            return REMAT_NO_MEMORY;
    }
    return REMAT_OK;
}

static remat_status load_steps(remat_join_steps *t, const remat_profile *profile, uint64_t count,
                               remat_reader *reader)
{
    remat_operations list = {0};
    remat_status status = REMAT_OK;
    for (uint64_t i = 0; i < count && !status; i++) {
        list.length = 0;
        status = load_list(profile, reader, &list);
        if (!status)
            status = remat_join_steps_add(t, profile, &list, NULL);
    }
    remat_operations_clear(&list);
    return status;
}

static bool in_order(const remat_join_steps *t)
{
    for (size_t i = 1; i < t->n_steps; i++)
        if (t->steps[i].budget <= t->steps[i - 1].budget ||
            t->steps[i].makespan >= t->steps[i - 1].makespan)
            return false;
    return true;
}

static remat_status load_all(remat_join_steps *t, const remat_profile *profile,
                             remat_reader *reader, remat_error *error)
{
    t->max_budget = remat_reader_u64(reader);
    t->constant_bytes = remat_reader_u64(reader);
    t->unit = remat_reader_u64(reader);
    uint64_t n_bound = remat_reader_u64(reader), n_steps = remat_reader_u64(reader);
    uint64_t room = (reader->length - reader->position) / sizeof(uint64_t);
    bool possible = !reader->failed && t->unit > 0 && n_bound <= room && n_steps <= room;
    remat_status status = possible ? load_bound(t, n_bound, reader) : REMAT_CORRUPT;
    if (!status)
        status = load_steps(t, profile, n_steps, reader);
    if (status == REMAT_NO_MEMORY)
        return remat_fail_memory(error);
    if (status || !in_order(t))
        return remat_fail(error, REMAT_CORRUPT, NULL, "the join's table is damaged");
    return REMAT_OK;
}

remat_status remat_join_steps_load(const remat_problem *problem, remat_reader *reader,
                                   void **ret_table, remat_error *error)
{
    remat_join_steps *t = remat_join_steps_new(problem->profile);
    if (!t)
        return remat_fail_memory(error);
    remat_status status = load_all(t, problem->profile, reader, error);
    if (status) {
        remat_join_steps_free(t);
        return status;
    }
    *ret_table = t;
    return REMAT_OK;
}
