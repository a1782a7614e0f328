/* Tables as bytes, and back. */
#include "core/table_inside.h"

#include <stdlib.h>
#include <string.h>

static const uint8_t magic[8] = {'R', 'E', 'M', 'A', 'T', 'T', 'A', 'B'};
enum { VERSION = 1, VERSION_CHOOSING = 2 };

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

/* Tables of profiles with alternatives have a form of their own: points with rooms, and views. */
static uint32_t version_of(const remat_table *table)
{
    return table->chooses ? VERSION_CHOOSING : VERSION;
}

static remat_status put_header(const remat_table *table, remat_buffer *buffer)
{
    const remat_solver *solver = table->solver;
    uint32_t name_length = (uint32_t)strlen(solver->name);
    remat_status status = remat_buffer_put(buffer, magic, sizeof magic);
    if (!status)
        status = remat_buffer_put_u32(buffer, version_of(table));
    if (!status)
        status = remat_buffer_put_u32(buffer, solver->table_version);
    if (!status)
        status = remat_buffer_put_u64(buffer, table->fingerprint);
    if (!status)
        status = remat_buffer_put_u32(buffer, name_length);
    return status ? status : remat_buffer_put(buffer, solver->name, name_length);
}

static remat_status put_frontier(const remat_table *table, remat_buffer *buffer)
{
    remat_status status = remat_buffer_put_u64(buffer, table->n_frontier);
    for (size_t i = 0; i < table->n_frontier && !status; i++) {
        const remat_point *point = &table->frontier[i];
        if (remat_buffer_put_u64(buffer, point->peak) ||
            remat_buffer_put_f64(buffer, point->makespan) ||
            remat_buffer_put_u32(buffer, point->step) ||
            (table->chooses && remat_buffer_put_u64(buffer, point->room)))
            status = REMAT_NO_MEMORY;
    }
    return status;
}

remat_status remat_table_save(const remat_table *table, remat_buffer *buffer, remat_error *error)
{
    const remat_solver *solver = table->solver;
    remat_status status = put_header(table, buffer);
    if (!status)
        status = put_frontier(table, buffer);
    if (!status)
        status = solver->save(table->inner[REMAT_VIEW_OWN], buffer, error);
    const void *least = table->inner[REMAT_VIEW_LEAST];
    if (!status && least)
        status = solver->save(least, buffer, error);
    if (!status)
        status = remat_buffer_put_u64(buffer, checksum(buffer->data, buffer->length));
    return status == REMAT_NO_MEMORY ? remat_fail_memory(error) : status;
}

static remat_status read_header(const remat_table *table, remat_reader *reader, remat_error *error)
{
    const remat_solver *solver = table->solver;
    const uint8_t *start = remat_reader_bytes(reader, sizeof magic);
    if (!start || memcmp(start, magic, sizeof magic) != 0)
        return remat_fail(error, REMAT_CORRUPT, NULL, "these bytes are not a table");
    uint32_t format = remat_reader_u32(reader), version = remat_reader_u32(reader);
    if (format != version_of(table) || version != solver->table_version)
        return remat_fail(error, REMAT_NEWER, NULL,
                          "table of format %u, version %u; this build reads format %u, version %u "
                          "of %s",
                          format, version, version_of(table), solver->table_version, solver->name);
    uint64_t found = remat_reader_u64(reader);
    uint32_t name_length = remat_reader_u32(reader);
    const uint8_t *name = remat_reader_bytes(reader, name_length);
    if (!name || name_length != strlen(solver->name) ||
        memcmp(name, solver->name, name_length) != 0)
        return remat_fail(error, REMAT_INVALID, NULL, "the table is not one of %s", solver->name);
    if (found != table->fingerprint)
        return remat_fail(error, REMAT_INVALID, NULL, "the table belongs to another profile");
    return REMAT_OK;
}

static remat_status read_frontier(remat_table *table, remat_reader *reader, remat_error *error)
{
    uint64_t n = remat_reader_u64(reader);
    size_t each = table->chooses ? 28 : 20;
    if (reader->failed || n > (reader->length - reader->position) / each)
        return remat_fail(error, REMAT_CORRUPT, NULL, "the table's frontier is damaged");
    table->frontier = calloc((size_t)n + 1, sizeof *table->frontier);
    if (!table->frontier)
        return remat_fail_memory(error);
    table->n_frontier = (size_t)n;
    for (size_t i = 0; i < n; i++) {
        remat_point *point = &table->frontier[i];
        point->peak = remat_reader_u64(reader);
        point->makespan = remat_reader_f64(reader);
        point->step = remat_reader_u32(reader);
        point->room = table->chooses ? remat_reader_u64(reader) : 0;
        if (i > 0 && !(point[-1].peak < point->peak && point[-1].makespan > point->makespan))
            return remat_fail(error, REMAT_CORRUPT, NULL, "the table's frontier is not in order");
    }
    return REMAT_OK;
}

static remat_status read_views(remat_table *table, const remat_problem *problem,
                               remat_reader *reader, remat_error *error)
{
    remat_table_views views;
    remat_status status = remat_table_views_init(table->solver, problem, &views, error);
    if (status)
        return status;
    table->own_view = views.owned[REMAT_VIEW_OWN] != NULL;
    for (unsigned i = 0; i < views.n && !status; i++)
        status = table->solver->load(&views.problems[i], reader, &table->inner[i], error);
    remat_table_views_clear(&views);
    return status;
}

static remat_status read_table(remat_table *table, const remat_problem *problem,
                               remat_reader *reader, remat_error *error)
{
    remat_status status;
    if ((status = read_header(table, reader, error)) ||
        (status = read_frontier(table, reader, error)) ||
        (status = read_views(table, problem, reader, error)))
        return status;
    size_t steps = remat_table_steps(table);
    for (size_t i = 0; i < table->n_frontier; i++)
        if (table->frontier[i].step >= steps)
            return remat_fail(error, REMAT_CORRUPT, NULL, "the table's frontier names step %u",
                              table->frontier[i].step);
    if (reader->position != reader->length)
        return remat_fail(error, REMAT_CORRUPT, NULL, "bytes are left over after the table");
    return REMAT_OK;
}

remat_status remat_table_load(const remat_solver *solver, const remat_problem *problem,
                              const void *bytes, size_t length, remat_table **ret_table,
                              remat_error *error)
{
    if (length < 8)
        return remat_fail(error, REMAT_CORRUPT, NULL, "a table of %zu bytes is too short", length);
    remat_reader tail = {.data = (const uint8_t *)bytes + length - 8, .length = 8};
    if (checksum(bytes, length - 8) != remat_reader_u64(&tail))
        return remat_fail(error, REMAT_CORRUPT, NULL, "the table's checksum does not hold");
    remat_table *table = NULL;
    remat_reader reader = {.data = bytes, .length = length - 8};
    remat_status status = remat_table_new(solver, problem, &table, error);
    if (status)
        return status;
    status = read_table(table, problem, &reader, error);
    if (status) {
        remat_table_free(table);
        return status;
    }
    *ret_table = table;
    return REMAT_OK;
}
