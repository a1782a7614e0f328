/* Tables of breakpoints as bytes, and back. */
#include "chain/breakpoints_table.h"

remat_status remat_breakpoints_save(const remat_breakpoints *table, remat_buffer *buffer,
                                    remat_error *error)
{
    remat_status status = remat_buffer_put_u32(buffer, table->n);
    for (size_t c = 0; c < remat_chain_cells(table->n) && !status; c++) {
        const remat_breakpoint_list *points = &table->cells[c];
        status = remat_buffer_put_u64(buffer, points->count);
        for (size_t i = 0; i < points->count && !status; i++) {
            status = remat_buffer_put_u64(buffer, points->points[i].bytes);
            if (!status)
                status = remat_buffer_put_u64(buffer, (uint64_t)points->points[i].ticks);
        }
    }
    return status ? remat_fail_memory(error) : REMAT_OK;
}

/* REMAT_CORRUPT unless the list increases in bytes and decreases in ticks, all of a possible size.
 */
static remat_status read_list(remat_reader *reader, remat_arena *arena, remat_breakpoint_list *ret)
{
    uint64_t count = remat_reader_u64(reader);
    if (reader->failed || count == 0 ||
        count > (reader->length - reader->position) / (2 * sizeof(uint64_t)))
        return REMAT_CORRUPT;
    remat_breakpoint *points = remat_arena_array(arena, (size_t)count, sizeof *points);
    if (!points)
        return REMAT_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        uint64_t bytes = remat_reader_u64(reader), ticks = remat_reader_u64(reader);
        points[i] = (remat_breakpoint){bytes, (int64_t)ticks};
        if (bytes > UINT64_MAX / 4 || ticks > (uint64_t)INT64_MAX / 4)
            return REMAT_CORRUPT;
        if (i > 0 && (bytes <= points[i - 1].bytes || points[i].ticks >= points[i - 1].ticks))
            return REMAT_CORRUPT;
    }
    *ret = (remat_breakpoint_list){points, (size_t)count};
    return REMAT_OK;
}

remat_status remat_breakpoints_load(const remat_chain *chain, bool inputs_only,
                                    remat_reader *reader, remat_breakpoints **ret,
                                    remat_error *error)
{
    uint32_t n = remat_reader_u32(reader);
    if (reader->failed || n != chain->n ||
        remat_chain_cells(n) > (reader->length - reader->position) / (3 * sizeof(uint64_t)))
        return remat_fail(error, REMAT_CORRUPT, NULL, "the table is not one of %u stages",
                          chain->n);
    remat_breakpoints *table = remat_breakpoints_allocate(n, inputs_only, 1);
    if (!table)
        return remat_fail_memory(error);
    remat_status status = REMAT_OK;
    for (size_t c = 0; c < remat_chain_cells(n) && !status; c++) {
        status = read_list(reader, &table->arenas[0], &table->cells[c]);
        table->n_points += table->cells[c].count;
    }
    if (status) {
        remat_breakpoints_free(table);
        return status == REMAT_CORRUPT
                   ? remat_fail(error, status, NULL, "a list of the table is damaged")
                   : remat_fail_memory(error);
    }
    *ret = table;
    return REMAT_OK;
}
