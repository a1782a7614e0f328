/* Packing in two steps. First each operation becomes a byte or some: what it is, and how far its
 * index lies from that of the operation before of the same kind; along a chain that is +1 forward
 * and -1 backward, wherever in the chain it happens. So what recurs in the list recurs byte by
 * byte, and the second step replaces it: "copy so many bytes from so far back", as in LZ77 (Ziv,
 * Lempel 1977). A copy may overlap what it writes, which makes runs of any length a few bytes. */
#include "answer/compact.h"

#include <stdlib.h>
#include <string.h>

enum {
    TARGET_SHIFT = 3,
    STEP_SHIFT = 5,
    STEP_FAR = 0, /* the distance follows; else it is below */
    STEP_DOWN = 1,
    STEP_UP = 2,
    STEP_SAME = 3,
    EXTRA = 128,     /* alternative or version follows */
    MOST_BYTES = 11, /* of one operation: five each for distance and extra */
    STREAMS = 32,    /* kinds and targets */
    LEAST_COPY = 4,
    HASH_BITS = 10
};

static uint8_t *write_number(uint8_t *at, uint64_t value)
{
    for (; value >= 128; value >>= 7)
        *at++ = (uint8_t)(value | 128);
    *at++ = (uint8_t)value;
    return at;
}

static remat_status put_number(remat_buffer *buffer, uint64_t value)
{
    uint8_t bytes[10];
    return remat_buffer_put(buffer, bytes, (size_t)(write_number(bytes, value) - bytes));
}

static uint64_t read_number(remat_reader *reader)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        const uint8_t *byte = remat_reader_bytes(reader, 1);
        if (!byte)
            return 0;
        value |= (uint64_t)(*byte & 127) << shift;
        if (*byte < 128)
            return value;
    }
    reader->failed = true;
    return 0;
}

/* ---- operations as bytes ---- */

/* Others have an alternative. */
static bool has_version(unsigned kind)
{
    return kind >= REMAT_D;
}

static uint8_t *write_operation(uint8_t *at, const remat_operation *o, uint32_t *last)
{
    unsigned stream = o->kind | (unsigned)o->target << TARGET_SHIFT;
    uint32_t extra = has_version(o->kind) ? o->version : o->alternative;
    uint32_t far = o->index - last[stream]; /* wraps around, and back when read */
    unsigned step = far == 1 ? STEP_UP : far == UINT32_MAX ? STEP_DOWN : far ? STEP_FAR : STEP_SAME;
    *at++ = (uint8_t)(stream | step << STEP_SHIFT | (extra ? EXTRA : 0));
    if (step == STEP_FAR)
        at = write_number(at, far << 1 ^ (far >> 31 ? UINT32_MAX : 0));
    if (extra)
        at = write_number(at, extra);
    last[stream] = o->index;
    return at;
}

static bool read_operation(remat_reader *reader, uint32_t *last, remat_operation *ret)
{
    static const uint32_t steps[] = {0, UINT32_MAX, 1, 0};
    const uint8_t *byte = remat_reader_bytes(reader, 1);
    if (!byte)
        return false;
    unsigned stream = *byte % STREAMS, step = *byte >> STEP_SHIFT & 3, kind = stream & 7;
    uint32_t far = steps[step], extra = 0;
    if (step == STEP_FAR) {
        uint32_t coded = (uint32_t)read_number(reader);
        far = coded >> 1 ^ (coded & 1 ? UINT32_MAX : 0);
    }
    if (*byte & EXTRA)
        extra = (uint32_t)read_number(reader);
    last[stream] += far;
    *ret = (remat_operation){.kind = (uint8_t)kind,
                             .target = (uint8_t)(stream >> TARGET_SHIFT),
                             .alternative = has_version(kind) ? 0 : (uint16_t)extra,
                             .index = last[stream],
                             .version = has_version(kind) ? extra : 0};
    return !reader->failed && ret->target <= REMAT_INPUT;
}

/* ---- copies ---- */

static uint32_t hash(const uint8_t *at)
{
    uint32_t word;
    memcpy(&word, at, sizeof word);
    return word * UINT32_C(2654435761) >> (32 - HASH_BITS);
}

/* Bytes literal as they are, then a copy; length 0: the end. */
static remat_status put_copy(remat_buffer *buffer, const uint8_t *literal, size_t n_literal,
                             size_t length, size_t back)
{
    if (put_number(buffer, n_literal) || remat_buffer_put(buffer, literal, n_literal) ||
        (length > 0 && (put_number(buffer, length - LEAST_COPY) || put_number(buffer, back))))
        return REMAT_NO_MEMORY;
    return REMAT_OK;
}

static remat_status compress(const uint8_t *bytes, size_t length, remat_buffer *buffer)
{
    uint32_t places[1 << HASH_BITS] = {0}; /* one past the last place with this hash; 0: none */
    size_t done = 0, at = 0;
    remat_status status = REMAT_OK;
    while (at + LEAST_COPY <= length && !status) {
        uint32_t *place = &places[hash(bytes + at)];
        size_t from = *place, n = 0;
        *place = (uint32_t)at + 1;
        if (from-- > 0)
            while (at + n < length && bytes[from + n] == bytes[at + n])
                n++;
        if (n < LEAST_COPY) {
            at++;
            continue;
        }
        status = put_copy(buffer, bytes + done, at - done, n, at - from);
        done = at += n;
    }
    return status ? status : put_copy(buffer, bytes + done, length - done, 0, 0);
}

static bool expand(remat_reader *reader, uint8_t *bytes, size_t length)
{
    size_t at = 0;
    while (!reader->failed) {
        uint64_t n = read_number(reader);
        const uint8_t *literal = n <= length - at ? remat_reader_bytes(reader, (size_t)n) : NULL;
        if (!literal)
            return false;
        memcpy(bytes + at, literal, (size_t)n);
        at += (size_t)n;
        if (at == length)
            return true;
        n = read_number(reader);
        uint64_t back = read_number(reader);
        if (n > length || n + LEAST_COPY > length - at || back == 0 || back > at)
            return false;
        for (n += LEAST_COPY; n > 0; n--, at++)
            bytes[at] = bytes[at - back];
    }
    return false;
}

/* ---- lists ---- */

remat_status answer_compact_list(const remat_operations *operations, remat_buffer *buffer,
                                 remat_error *error)
{
    size_t n = operations->length;
    if (n > REMAT_MOST_OPERATIONS)
        return remat_fail(error, REMAT_TOO_LARGE, NULL, "a list of %zu operations is too long", n);
    uint32_t last[STREAMS] = {0};
    uint8_t *bytes = malloc(n * MOST_BYTES + 1), *end = bytes;
    if (!bytes)
        return remat_fail_memory(error);
    for (size_t i = 0; i < n; i++)
        end = write_operation(end, &operations->items[i], last);
    size_t n_bytes = (size_t)(end - bytes);
    bool failed =
        put_number(buffer, n) || put_number(buffer, n_bytes) || compress(bytes, n_bytes, buffer);
    free(bytes);
    return failed ? remat_fail_memory(error) : REMAT_OK;
}

static bool read_list(const uint8_t *bytes, size_t length, size_t n, remat_operations *list)
{
    uint32_t last[STREAMS] = {0};
    remat_reader reader = {.data = bytes, .length = length};
    for (list->length = 0; list->length < n; list->length++)
        if (!read_operation(&reader, last, &list->items[list->length]))
            return false;
    return reader.position == length;
}

remat_status answer_expand_list(const uint8_t *bytes, size_t length,
                                remat_operations *ret_operations, remat_error *error)
{
    remat_reader reader = {.data = bytes, .length = length};
    uint64_t n = read_number(&reader), n_bytes = read_number(&reader);
    if (reader.failed || n > REMAT_MOST_OPERATIONS || n_bytes < n || n_bytes > n * MOST_BYTES)
        return remat_fail(error, REMAT_CORRUPT, NULL, "a packed list is damaged");
    uint8_t *raw = malloc((size_t)n_bytes + 1);
    remat_operations list = {.items = malloc((size_t)(n + 1) * sizeof *list.items),
                             .capacity = (size_t)n + 1};
    remat_status status = raw && list.items ? REMAT_OK : remat_fail_memory(error);
    if (!status && (!expand(&reader, raw, (size_t)n_bytes) || reader.position != length ||
                    !read_list(raw, (size_t)n_bytes, (size_t)n, &list)))
        status = remat_fail(error, REMAT_CORRUPT, NULL, "a packed list is damaged");
    free(raw);
    if (status)
        remat_operations_clear(&list);
    else
        *ret_operations = list;
    return status;
}
