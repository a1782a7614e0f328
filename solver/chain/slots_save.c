/* Slot tables as bytes, row after row: that does not depend on the blocks. */
#include "chain/slots_table.h"

remat_status remat_slots_save(const remat_slots *slots, remat_buffer *buffer, remat_error *error)
{
    remat_status status = remat_buffer_put_u32(buffer, slots->n);
    if (!status)
        status = remat_buffer_put_u32(buffer, slots->n_slots);
    if (!status)
        status = remat_buffer_put_u64(buffer, slots->unit);
    if (!status)
        status = remat_buffer_put_u64(buffer, (uint64_t)slots->divisor);
    for (size_t cell = 0; cell < remat_chain_cells(slots->n) && !status; cell++)
        for (uint32_t m = 0; m <= slots->n_slots && !status; m++)
            status = remat_buffer_put_u32(buffer, (uint32_t)remat_slots_value(slots, cell, m));
    return status ? remat_fail_memory(error) : REMAT_OK;
}

/* Rows never increase and stay between 0 and INFINITE. */
static bool read_rows(remat_reader *reader, remat_slots *slots)
{
    for (size_t cell = 0; cell < remat_chain_cells(slots->n); cell++) {
        uint32_t before = REMAT_SLOTS_INFINITE;
        for (uint32_t m = 0; m <= slots->n_slots; m++) {
            uint32_t value = remat_reader_u32(reader);
            if (value > before)
                return false;
            before = value;
            *remat_slots_place(slots, cell, m) = (int32_t)value;
        }
    }
    return !reader->failed;
}

remat_status remat_slots_load(const remat_chain *chain, bool inputs_only, remat_reader *reader,
                              remat_slots **ret, remat_error *error)
{
    uint32_t n = remat_reader_u32(reader), n_slots = remat_reader_u32(reader);
    uint64_t unit = remat_reader_u64(reader), divisor = remat_reader_u64(reader);
    uint64_t values = (reader->length - reader->position) / sizeof(uint32_t);
    if (reader->failed || n != chain->n || unit == 0 || unit > REMAT_MAX_BYTES ||
        divisor != (uint64_t)remat_slots_choose_divisor(chain) || n_slots >= values ||
        remat_chain_cells(n) > values / ((uint64_t)n_slots + 1))
        return remat_fail(error, REMAT_CORRUPT, NULL, "the table is not one of %u stages",
                          chain->n);
    remat_slots *slots = remat_slots_allocate(n, n_slots);
    if (!slots)
        return remat_fail_memory(error);
    slots->unit = unit;
    slots->divisor = (int64_t)divisor;
    slots->inputs_only = inputs_only;
    if (!read_rows(reader, slots)) {
        remat_slots_free(slots);
        return remat_fail(error, REMAT_CORRUPT, NULL, "a row of the table is damaged");
    }
    remat_slots_copy_answer(slots);
    *ret = slots;
    return REMAT_OK;
}
