#include "body.h"

#include "api.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>
#include <zstd.h>

enum { COMPRESS_FROM = 1024, GZIP_WINDOW = 15 + 16 };

static void add_zstd(body *b)
{
    size_t bound = ZSTD_compressBound(b->length[BODY_IDENTITY]);
    char *out = malloc(bound);
    if (!out)
        return;
    size_t n = ZSTD_compress(out, bound, b->data[BODY_IDENTITY], b->length[BODY_IDENTITY], 3);
    if (ZSTD_isError(n) || n >= b->length[BODY_IDENTITY]) {
        free(out);
        return;
    }
    char *fitted = realloc(out, n);
    b->data[BODY_ZSTD] = fitted ? fitted : out;
    b->length[BODY_ZSTD] = n;
}

static void add_gzip(body *b)
{
    z_stream z = {0};
    if (b->length[BODY_IDENTITY] > UINT32_MAX / 2 ||
        deflateInit2(&z, 5, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return;
    size_t bound = deflateBound(&z, (uLong)b->length[BODY_IDENTITY]);
    char *out = malloc(bound);
    if (out) {
        z.next_in = (Bytef *)b->data[BODY_IDENTITY];
        z.avail_in = (uInt)b->length[BODY_IDENTITY];
        z.next_out = (Bytef *)out;
        z.avail_out = (uInt)bound;
        if (deflate(&z, Z_FINISH) == Z_STREAM_END && z.total_out < b->length[BODY_IDENTITY]) {
            b->data[BODY_GZIP] = out;
            b->length[BODY_GZIP] = z.total_out;
        } else {
            free(out);
        }
    }
    deflateEnd(&z);
}

body *body_new(char *text, size_t length, bool compress)
{
    body *b = calloc(1, sizeof *b);
    if (!b) {
        free(text);
        return NULL;
    }
    atomic_init(&b->references, 1);
    b->data[BODY_IDENTITY] = text;
    b->length[BODY_IDENTITY] = length;
    if (compress && length >= COMPRESS_FROM) {
        add_zstd(b);
        add_gzip(b);
    }
    return b;
}

body *body_from_json(json_t *json, bool compress)
{
    if (!json)
        return NULL;
    char *text = remat_json_text(json);
    json_decref(json);
    return text ? body_new(text, strlen(text), compress) : NULL;
}

body *body_retain(body *b)
{
    if (b)
        atomic_fetch_add(&b->references, 1);
    return b;
}

void body_release(body *b)
{
    if (!b || atomic_fetch_sub(&b->references, 1) != 1)
        return;
    for (int i = 0; i < BODY_CODINGS; i++)
        free(b->data[i]);
    free(b);
}

size_t body_cost(const body *b)
{
    size_t cost = sizeof *b;
    for (int i = 0; i < BODY_CODINGS; i++)
        cost += b->length[i];
    return cost;
}

/* ---- requests ---- */

typedef struct sink {
    char *data;
    size_t length, capacity, limit;
} sink;

/* Room for at least one more byte; false when out of memory or past the limit (of which one byte
 * more is allowed, so that reaching it can be told from passing it). */
static bool sink_grow(sink *s)
{
    if (s->length < s->capacity)
        return true;
    size_t capacity = s->capacity ? s->capacity * 2 : 65536;
    if (capacity > s->limit + 1)
        capacity = s->limit + 1;
    char *data = capacity > s->capacity ? realloc(s->data, capacity) : NULL;
    if (!data)
        return false;
    s->data = data;
    s->capacity = capacity;
    return true;
}

static bool gunzip(const char *data, size_t length, sink *s)
{
    z_stream z = {.next_in = (Bytef *)data, .avail_in = (uInt)length};
    if (length > UINT32_MAX / 2 || inflateInit2(&z, GZIP_WINDOW) != Z_OK)
        return false;
    int result = Z_OK;
    while (result == Z_OK && sink_grow(s)) {
        z.next_out = (Bytef *)s->data + s->length;
        z.avail_out = (uInt)(s->capacity - s->length);
        result = inflate(&z, Z_NO_FLUSH);
        s->length = s->capacity - z.avail_out;
        if (result == Z_BUF_ERROR && z.avail_in == 0)
            break;
        if (result == Z_BUF_ERROR)
            result = Z_OK;
    }
    bool whole = result == Z_STREAM_END && z.avail_in == 0;
    inflateEnd(&z);
    return whole;
}

static bool unzstd(const char *data, size_t length, sink *s)
{
    ZSTD_DStream *stream = ZSTD_createDStream();
    if (!stream)
        return false;
    ZSTD_DCtx_setParameter(stream, ZSTD_d_windowLogMax, 23); /* 8 MiB, as RFC 9659 asks */
    ZSTD_inBuffer in = {data, length, 0};
    size_t left = 1;
    while (left != 0 && !ZSTD_isError(left) && sink_grow(s)) {
        ZSTD_outBuffer out = {s->data, s->capacity, s->length};
        size_t before = in.pos;
        left = ZSTD_decompressStream(stream, &out, &in);
        bool stuck = in.pos == before && out.pos == s->length;
        s->length = out.pos;
        if (stuck)
            break;
    }
    ZSTD_freeDStream(stream);
    return left == 0 && in.pos == length;
}

remat_status body_decode(const char *coding, const char *data, size_t length, size_t limit,
                         char **ret_data, size_t *ret_length, remat_error *error)
{
    sink s = {.limit = limit};
    bool gzip = strcasecmp(coding, "gzip") == 0;
    if (!gzip && strcasecmp(coding, "zstd") != 0)
        return remat_fail(error, REMAT_INVALID, "Content-Encoding",
                          "Content-Encoding is \"%.40s\"; gzip and zstd are read", coding);
    bool whole = gzip ? gunzip(data, length, &s) : unzstd(data, length, &s);
    if (s.length > limit) {
        free(s.data);
        return remat_fail(error, REMAT_TOO_LARGE, NULL, "the decoded body is larger than %zu bytes",
                          limit);
    }
    if (!whole) {
        free(s.data);
        return remat_fail(error, REMAT_INVALID, NULL, "the body is not whole %s data",
                          gzip ? "gzip" : "zstd");
    }
    *ret_data = s.data;
    *ret_length = s.length;
    return REMAT_OK;
}
