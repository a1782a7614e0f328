/* Blobs as they are stored: 8 bytes checksum, 8 bytes raw length (both little-endian), a zstd
 * frame.
 *
 * Three things watch over one another. Our checksum (XXH64) covers owner, raw length and compressed
 * bytes: it detects damage on disk, and a blob that got under another record, before anything is
 * allocated or decompressed. The raw length, checked against the frame's own and a limit, bounds
 * what is allocated. zstd's checksum covers the content: it detects a wrong result of the
 * decompression itself, and damage that happened in memory between the two. */
#include "private.h"

#include <endian.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

#define HEADER_SIZE 16
/* Tables reach hundreds of megabytes; no honest blob is past this. */
#define RAW_MAX (UINT64_C(8) << 30)
/* Level 3 packs schedules nearly as well as the levels that take ten times as long. */
#define LEVEL 3

/* ---- checksums ---- */

/* XXH64 by Yann Collet, github.com/Cyan4973/xxHash, doc/xxhash_spec.md. */
#define PRIME_1 UINT64_C(0x9E3779B185EBCA87)
#define PRIME_2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define PRIME_3 UINT64_C(0x165667B19E3779F9)
#define PRIME_4 UINT64_C(0x85EBCA77C2B2AE63)
#define PRIME_5 UINT64_C(0x27D4EB2F165667C5)

static uint64_t load_64(const unsigned char *p)
{
    uint64_t value;
    memcpy(&value, p, sizeof value);
    return le64toh(value);
}

static void store_64(unsigned char *p, uint64_t value)
{
    value = htole64(value);
    memcpy(p, &value, sizeof value);
}

static uint64_t rotate(uint64_t value, int bits)
{
    return value << bits | value >> (64 - bits);
}

static uint64_t lane(uint64_t lane, uint64_t input)
{
    return rotate(lane + input * PRIME_2, 31) * PRIME_1;
}

static uint64_t merge(uint64_t hash, uint64_t value)
{
    return (hash ^ lane(0, value)) * PRIME_1 + PRIME_4;
}

uint64_t storage_hash(const void *data, size_t length, uint64_t seed)
{
    const unsigned char *p = data;
    size_t left = length;
    uint64_t hash = seed + PRIME_5;
    if (length >= 32) {
        uint64_t a = seed + PRIME_1 + PRIME_2, b = seed + PRIME_2, c = seed, d = seed - PRIME_1;
        for (; left >= 32; left -= 32, p += 32) {
            a = lane(a, load_64(p));
            b = lane(b, load_64(p + 8));
            c = lane(c, load_64(p + 16));
            d = lane(d, load_64(p + 24));
        }
        hash = rotate(a, 1) + rotate(b, 7) + rotate(c, 12) + rotate(d, 18);
        hash = merge(merge(merge(merge(hash, a), b), c), d);
    }
    hash += length;
    for (; left >= 8; left -= 8, p += 8)
        hash = rotate(hash ^ lane(0, load_64(p)), 27) * PRIME_1 + PRIME_4;
    if (left >= 4) {
        uint64_t word =
            (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24;
        hash = rotate(hash ^ word * PRIME_1, 23) * PRIME_2 + PRIME_3;
        left -= 4, p += 4;
    }
    for (; left > 0; left--, p++)
        hash = rotate(hash ^ *p * PRIME_5, 11) * PRIME_1;
    hash = (hash ^ hash >> 33) * PRIME_2;
    hash = (hash ^ hash >> 29) * PRIME_3;
    return hash ^ hash >> 32;
}

static uint64_t hash_number(char type, uint64_t number, uint64_t seed)
{
    unsigned char bytes[9] = {(unsigned char)type};
    store_64(bytes + 1, number);
    return storage_hash(bytes, sizeof bytes, seed);
}

static uint64_t hash_real(double real, uint64_t seed)
{
    uint64_t bits;
    real += 0.0; /* SQLite keeps no negative zero */
    memcpy(&bits, &real, sizeof bits);
    return hash_number('r', bits, seed);
}

/* NULL is no text, and no number either. */
static uint64_t hash_text(const char *text, uint64_t seed)
{
    return text ? storage_hash(text, strlen(text), seed) : hash_number('n', 0, seed);
}

uint64_t storage_checksum(const char *types, ...)
{
    uint64_t hash = 0;
    va_list values;
    va_start(values, types);
    for (const char *type = types; *type; type++) {
        if (*type == 't')
            hash = hash_text(va_arg(values, const char *), hash);
        else if (*type == 'r')
            hash = hash_real(va_arg(values, double), hash);
        else
            hash = hash_number('i', (uint64_t)va_arg(values, int64_t), hash);
    }
    va_end(values);
    return hash;
}

uint64_t storage_row_checksum(const storage_rows *rows, int first, const char *types)
{
    uint64_t hash = 0;
    for (int i = 0; types[i]; i++) {
        if (types[i] == 't')
            hash = hash_text(storage_text(rows, first + i), hash);
        else if (types[i] == 'r')
            hash = hash_real(storage_real(rows, first + i), hash);
        else
            hash = hash_number('i', (uint64_t)storage_integer(rows, first + i), hash);
    }
    return hash;
}

/* ---- blobs ---- */

static uint64_t blob_checksum(uint64_t owner, const unsigned char *stored, size_t length)
{
    return storage_hash(stored + 8, length - 8, owner);
}

static remat_status fail_zstd(size_t code, const char *act, remat_error *error)
{
    if (ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation)
        return remat_fail_memory(error);
    return remat_fail(error, REMAT_INTERNAL, NULL, "cannot %s: %s", act, ZSTD_getErrorName(code));
}

static size_t compress(void *target, size_t room, const void *data, size_t length)
{
    ZSTD_CCtx *context = ZSTD_createCCtx();
    if (!context)
        return (size_t)-ZSTD_error_memory_allocation;
    size_t result = ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, LEVEL);
    if (!ZSTD_isError(result))
        result = ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    if (!ZSTD_isError(result))
        result = ZSTD_compress2(context, target, room, data, length);
    ZSTD_freeCCtx(context);
    return result;
}

uint64_t storage_owner(const char *sort, const char *id)
{
    return storage_checksum("tt", sort, id);
}

remat_status storage_encode(uint64_t owner, const remat_blob *blob, remat_blob *ret_stored,
                            remat_error *error)
{
    const size_t length = blob->length;
    if (length > RAW_MAX)
        return remat_fail(error, REMAT_TOO_LARGE, NULL,
                          "a blob of %zu bytes is past the limit of %" PRIu64, length, RAW_MAX);
    size_t bound = ZSTD_compressBound(length);
    unsigned char *stored = malloc(HEADER_SIZE + bound);
    if (!stored)
        return remat_fail_memory(error);
    size_t packed = compress(stored + HEADER_SIZE, bound, blob->data ? blob->data : "", length);
    if (ZSTD_isError(packed)) {
        free(stored);
        return fail_zstd(packed, "compress", error);
    }
    size_t total = HEADER_SIZE + packed;
    store_64(stored + 8, length);
    store_64(stored, blob_checksum(owner, stored, total));
    unsigned char *shrunk = realloc(stored, total); /* it waits for its commit at this size */
    *ret_stored = (remat_blob){shrunk ? shrunk : stored, total};
    return REMAT_OK;
}

remat_status storage_decode(uint64_t owner, const void *stored, size_t length, remat_blob *ret_blob,
                            remat_error *error)
{
    const unsigned char *bytes = stored;
    if (length < HEADER_SIZE)
        return remat_fail(error, REMAT_CORRUPT, NULL, "a blob was cut to %zu bytes", length);
    if (load_64(bytes) != blob_checksum(owner, bytes, length))
        return remat_fail(error, REMAT_CORRUPT, NULL, "a blob's checksum does not match");
    uint64_t raw = load_64(bytes + 8);
    const unsigned char *frame = bytes + HEADER_SIZE;
    size_t packed = length - HEADER_SIZE;
    if (raw > RAW_MAX || raw >= SIZE_MAX || raw != ZSTD_getFrameContentSize(frame, packed))
        return remat_fail(error, REMAT_CORRUPT, NULL, "a blob's length %" PRIu64 " is wrong", raw);
    char *data = malloc((size_t)raw + 1);
    if (!data)
        return remat_fail_memory(error);
    size_t result = ZSTD_decompress(data, (size_t)raw, frame, packed);
    if (result != raw) {
        free(data);
        if (ZSTD_isError(result) && ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation)
            return remat_fail_memory(error);
        return remat_fail(error, REMAT_CORRUPT, NULL, "a blob does not decompress: %s",
                          ZSTD_isError(result) ? ZSTD_getErrorName(result) : "wrong length");
    }
    data[raw] = '\0';
    *ret_blob = (remat_blob){data, (size_t)raw};
    return REMAT_OK;
}
