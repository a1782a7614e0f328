/* Tables as bytes, and back. */
#include "answer/compact.h"
#include "answer/table_private.h"

#include <stdlib.h>
#include <string.h>

static const uint8_t magic[8] = {'R', 'E', 'M', 'A', 'T', 'T', 'A', 'B'};
/* 1 and 2: tables of the solvers' own; 3: bound to one budget or to none; 4: the frontier alone */
enum { VERSION = 5 };

/* Eight bytes a step; every step is a bijection of the state, so one damaged word always shows. */
static uint64_t checksum(const uint8_t *bytes, size_t length)
{
    uint64_t hash = UINT64_C(0x9E3779B97F4A7C15) ^ length;
    for (size_t i = 0; i < length; i += 8) {
        uint64_t word = 0;
        size_t n = length - i < 8 ? length - i : 8;
        for (size_t k = 0; k < n; k++)
            word |= (uint64_t)bytes[i + k] << (8 * k);
        hash = (hash ^ word) * UINT64_C(0xD6E8FEB86659FD93);
        hash ^= hash >> 32;
    }
    return hash;
}

/* What follows is true when there is no memory. */
static bool put_header(const remat_table *table, remat_buffer *buffer)
{
    const remat_solver *solver = table->solver;
    uint32_t name_length = (uint32_t)strlen(solver->name);
    return remat_buffer_put(buffer, magic, sizeof magic) || remat_buffer_put_u32(buffer, VERSION) ||
           remat_buffer_put_u32(buffer, solver->version) ||
           remat_buffer_put_u64(buffer, table->fingerprint) ||
           remat_buffer_put_u32(buffer, name_length) ||
           remat_buffer_put(buffer, solver->name, name_length) ||
           remat_buffer_put_u64(buffer, table->least_budget) ||
           remat_buffer_put_u64(buffer, table->most_budget);
}

static bool put_bounds(const remat_table *table, remat_buffer *buffer)
{
    bool failed = remat_buffer_put_u64(buffer, table->n_bounds);
    for (size_t i = 0; i < table->n_bounds && !failed; i++)
        failed = remat_buffer_put_u64(buffer, table->bounds[i].budget) ||
                 remat_buffer_put_f64(buffer, table->bounds[i].makespan);
    return failed;
}

static bool put_points(const remat_point *points, size_t n, remat_buffer *buffer)
{
    bool failed = remat_buffer_put_u64(buffer, n);
    for (size_t i = 0; i < n && !failed; i++) {
        const remat_point *point = &points[i];
        failed = remat_buffer_put_u64(buffer, point->peak) ||
                 remat_buffer_put_u64(buffer, point->held) ||
                 remat_buffer_put_f64(buffer, point->makespan) ||
                 remat_buffer_put_u64(buffer, point->nominal_budget) ||
                 remat_buffer_put_u64(buffer, point->model_peak) ||
                 remat_buffer_put_u64(buffer, point->list_bytes) ||
                 remat_buffer_put(buffer, point->list, point->list_bytes);
    }
    return failed;
}

remat_status remat_table_save(const remat_table *table, remat_buffer *buffer, remat_error *error)
{
    if (table->machine)
        return table->machine->save(table->raw, buffer, error);
    if (put_header(table, buffer) || put_bounds(table, buffer) ||
        put_points(table->frontier, table->n_frontier, buffer) ||
        put_points(table->beside, table->n_beside, buffer) ||
        remat_buffer_put_u64(buffer, checksum(buffer->data, buffer->length)))
        return remat_fail_memory(error);
    return REMAT_OK;
}

static remat_status read_header(remat_table *table, remat_reader *reader, remat_error *error)
{
    const remat_solver *solver = table->solver;
    const uint8_t *start = remat_reader_bytes(reader, sizeof magic);
    if (!start || memcmp(start, magic, sizeof magic) != 0)
        return remat_fail(error, REMAT_CORRUPT, NULL, "these bytes are not a table");
    uint32_t format = remat_reader_u32(reader), version = remat_reader_u32(reader);
    if (format != VERSION || version != solver->version)
        return remat_fail(error, REMAT_NEWER, NULL,
                          "table of format %u, version %u; this build reads format %u, version %u "
                          "of %s",
                          format, version, VERSION, solver->version, solver->name);
    uint64_t found = remat_reader_u64(reader);
    uint32_t name_length = remat_reader_u32(reader);
    const uint8_t *name = remat_reader_bytes(reader, name_length);
    if (!name || name_length != strlen(solver->name) ||
        memcmp(name, solver->name, name_length) != 0)
        return remat_fail(error, REMAT_INVALID, NULL, "the table is not one of %s", solver->name);
    if (found != table->fingerprint)
        return remat_fail(error, REMAT_INVALID, NULL,
                          "the table belongs to another profile, link or options");
    table->least_budget = remat_reader_u64(reader);
    table->most_budget = remat_reader_u64(reader);
    return REMAT_OK;
}

static remat_status read_bounds(remat_table *table, remat_reader *reader, remat_error *error)
{
    uint64_t n = remat_reader_u64(reader);
    if (reader->failed || n > (reader->length - reader->position) / 16)
        return remat_fail(error, REMAT_CORRUPT, NULL, "the table's bounds are damaged");
    table->bounds = malloc(((size_t)n + 1) * sizeof *table->bounds);
    if (!table->bounds)
        return remat_fail_memory(error);
    table->n_bounds = table->bounds_capacity = (size_t)n;
    for (size_t i = 0; i < n; i++) {
        answer_table_bound *bound = &table->bounds[i];
        bound->budget = remat_reader_u64(reader);
        bound->makespan = remat_reader_f64(reader);
        if (!(bound->makespan >= 0) ||
            (i > 0 && !(bound[-1].budget < bound->budget && bound[-1].makespan > bound->makespan)))
            return remat_fail(error, REMAT_CORRUPT, NULL, "the table's bounds are not in order");
    }
    return REMAT_OK;
}

/* A list is unpacked once, to see that it is one. */
static remat_status read_list(remat_point *point, remat_reader *reader, remat_error *error)
{
    remat_operations list = {0};
    uint64_t length = remat_reader_u64(reader);
    const uint8_t *bytes =
        length < reader->length ? remat_reader_bytes(reader, (size_t)length) : NULL;
    if (!bytes)
        return remat_fail(error, REMAT_CORRUPT, NULL, "a list of the table is cut short");
    remat_status status = answer_expand_list(bytes, (size_t)length, &list, error);
    remat_operations_clear(&list);
    if (status)
        return status;
    point->list = malloc((size_t)length + 1);
    if (!point->list)
        return remat_fail_memory(error);
    memcpy(point->list, bytes, (size_t)length);
    point->list_bytes = (size_t)length;
    return REMAT_OK;
}

static remat_status read_point(remat_table *table, remat_reader *reader, remat_point *point,
                               remat_error *error)
{
    *point = (remat_point){.peak = remat_reader_u64(reader)};
    point->held = remat_reader_u64(reader);
    point->makespan = remat_reader_f64(reader);
    point->nominal_budget = remat_reader_u64(reader);
    point->model_peak = remat_reader_u64(reader);
    if (point->peak >= REMAT_MAX_BYTES || point->held > point->peak)
        return remat_fail(error, REMAT_CORRUPT, NULL, "a point of the table is damaged");
    remat_status status = read_list(point, reader, error);
    table->bytes += point->list_bytes;
    return status;
}

static remat_status read_points(remat_table *table, remat_reader *reader, remat_point **ret_points,
                                size_t *ret_n, size_t *ret_capacity, remat_error *error)
{
    uint64_t n = remat_reader_u64(reader);
    if (reader->failed || n > (reader->length - reader->position) / 48)
        return remat_fail(error, REMAT_CORRUPT, NULL, "the table's frontier is damaged");
    *ret_points = malloc(((size_t)n + 1) * sizeof **ret_points);
    if (!*ret_points)
        return remat_fail_memory(error);
    *ret_capacity = (size_t)n;
    remat_status status = REMAT_OK;
    while (*ret_n < n && !status)
        status = read_point(table, reader, &(*ret_points)[(*ret_n)++], error);
    return status;
}

static remat_status read_frontier(remat_table *table, remat_reader *reader, remat_error *error)
{
    remat_status status =
        read_points(table, reader, &table->frontier, &table->n_frontier, &table->capacity, error);
    const remat_point *points = table->frontier;
    for (size_t i = 1; i < table->n_frontier && !status; i++)
        if (!(points[i - 1].peak < points[i].peak && points[i - 1].makespan > points[i].makespan))
            return remat_fail(error, REMAT_CORRUPT, NULL, "the table's frontier is not in order");
    return status ? status
                  : read_points(table, reader, &table->beside, &table->n_beside,
                                &table->beside_capacity, error);
}

static remat_status read_table(remat_table *table, remat_reader *reader, remat_error *error)
{
    remat_status status = read_header(table, reader, error);
    if (!status)
        status = read_bounds(table, reader, error);
    if (!status)
        status = read_frontier(table, reader, error);
    if (!status && reader->position != reader->length)
        status = remat_fail(error, REMAT_CORRUPT, NULL, "bytes are left over after the table");
    return status;
}

remat_status remat_table_load(const remat_solver *solver, const remat_problem *problem,
                              const void *bytes, size_t length, remat_table **ret_table,
                              remat_error *error)
{
    const remat_machine *machine = remat_machine_of(solver, &problem->options);
    if (machine)
        return answer_load_raw(solver, machine, bytes, length, ret_table, error);
    if (length < 8)
        return remat_fail(error, REMAT_CORRUPT, NULL, "a table of %zu bytes is too short", length);
    remat_reader tail = {.data = (const uint8_t *)bytes + length - 8, .length = 8};
    if (checksum(bytes, length - 8) != remat_reader_u64(&tail))
        return remat_fail(error, REMAT_CORRUPT, NULL, "the table's checksum does not hold");
    remat_table *table = NULL;
    remat_reader reader = {.data = bytes, .length = length - 8};
    remat_status status = answer_table_new(solver, problem, &table, error);
    if (status)
        return status;
    status = read_table(table, &reader, error);
    if (status) {
        remat_table_free(table);
        return status;
    }
    *ret_table = table;
    return REMAT_OK;
}
