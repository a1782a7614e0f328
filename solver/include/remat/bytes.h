/* Bytes as they are stored: numbers written little endian, and read back. */
#ifndef REMAT_BYTES_H
#define REMAT_BYTES_H

#include "remat/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes under construction; {0} is empty. Owns data. */
typedef struct remat_buffer {
    uint8_t *data;
    size_t length, capacity;
} remat_buffer;

remat_status remat_buffer_put(remat_buffer *buffer, const void *bytes, size_t length);
remat_status remat_buffer_put_u32(remat_buffer *buffer, uint32_t value);
remat_status remat_buffer_put_u64(remat_buffer *buffer, uint64_t value);
remat_status remat_buffer_put_f64(remat_buffer *buffer, double value);
void remat_buffer_clear(remat_buffer *buffer);

/* A cursor over bytes somebody else owns. A read past the end sets failed, yields 0 and stays
 * failed. */
typedef struct remat_reader {
    const uint8_t *data;
    size_t length, position;
    bool failed;
} remat_reader;

uint32_t remat_reader_u32(remat_reader *reader);
uint64_t remat_reader_u64(remat_reader *reader);
double remat_reader_f64(remat_reader *reader);
/* The next length bytes, or NULL. */
const uint8_t *remat_reader_bytes(remat_reader *reader, size_t length);

#endif
