/* Little-endian bytes, written and read. */
#include "remat/bytes.h"

#include "model/arrays.h"

remat_status remat_buffer_put(remat_buffer *buffer, const void *bytes, size_t length)
{
    if (length > SIZE_MAX / 2 - buffer->length ||
        !model_reserve(&buffer->data, &buffer->capacity, buffer->length + length, 1))
        return REMAT_NO_MEMORY;
    if (length > 0)
        memcpy(buffer->data + buffer->length, bytes, length);
    buffer->length += length;
    return REMAT_OK;
}

remat_status remat_buffer_put_u32(remat_buffer *buffer, uint32_t value)
{
    uint8_t bytes[4];
    for (int i = 0; i < 4; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
    return remat_buffer_put(buffer, bytes, sizeof bytes);
}

remat_status remat_buffer_put_u64(remat_buffer *buffer, uint64_t value)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
    return remat_buffer_put(buffer, bytes, sizeof bytes);
}

remat_status remat_buffer_put_f64(remat_buffer *buffer, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return remat_buffer_put_u64(buffer, bits);
}

void remat_buffer_clear(remat_buffer *buffer)
{
    free(buffer->data);
    *buffer = (remat_buffer){0};
}

const uint8_t *remat_reader_bytes(remat_reader *reader, size_t length)
{
    if (reader->failed || reader->length - reader->position < length) {
        reader->failed = true;
        return NULL;
    }
    const uint8_t *bytes = reader->data + reader->position;
    reader->position += length;
    return bytes;
}

uint32_t remat_reader_u32(remat_reader *reader)
{
    const uint8_t *bytes = remat_reader_bytes(reader, 4);
    uint32_t value = 0;
    for (int i = 0; bytes && i < 4; i++)
        value |= (uint32_t)bytes[i] << (8 * i);
    return value;
}

uint64_t remat_reader_u64(remat_reader *reader)
{
    const uint8_t *bytes = remat_reader_bytes(reader, 8);
    uint64_t value = 0;
    for (int i = 0; bytes && i < 8; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

double remat_reader_f64(remat_reader *reader)
{
    uint64_t bits = remat_reader_u64(reader);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
