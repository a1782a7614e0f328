#include "http/body.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>
#include <zstd.h>

enum {
    COMPRESS_FROM = 1024,
    GZIP_WINDOW = 15 + 16,
};

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

/* Where decoded bytes go. A first pass looks at them, in a buffer of fixed size that is written
 * over and over, so that a bomb takes no memory; a second keeps them. */
typedef struct sink {
    char *data;
    size_t at, room, total, limit;
    remat_json_scan *scan; /* of the first pass */
    remat_error *error;
    remat_status status;
} sink;

enum { LOOKING_ROOM = 65536 };

/* Takes note of n bytes written at data + at. */
static void sink_take(sink *s, size_t n)
{
    s->total += n;
    if (!s->scan) {
        s->at += n;
        return;
    }
    if (s->total > s->limit)
        s->status = remat_fail(s->error, REMAT_TOO_LARGE, NULL,
                               "the decoded body is larger than %zu bytes", s->limit);
    else
        s->status = remat_json_scan_feed(s->scan, s->data, n, s->error);
}

static bool gunzip(const char *data, size_t length, sink *s)
{
    z_stream z = {.next_in = (Bytef *)data, .avail_in = (uInt)length};
    if (length > UINT32_MAX / 2 || inflateInit2(&z, GZIP_WINDOW) != Z_OK)
        return false;
    int result = Z_OK;
    while (result == Z_OK && !s->status) {
        z.next_out = (Bytef *)s->data + s->at;
        z.avail_out = (uInt)(s->room - s->at);
        size_t before = z.avail_out;
        result = inflate(&z, Z_NO_FLUSH);
        sink_take(s, before - z.avail_out);
        if (result == Z_STREAM_END && z.avail_in > 0) /* another member */
            result = inflateReset(&z);
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
    bool stuck = false;
    while (left != 0 && !ZSTD_isError(left) && !stuck && !s->status) {
        ZSTD_outBuffer out = {s->data, s->room, s->at};
        size_t before = in.pos;
        left = ZSTD_decompressStream(stream, &out, &in);
        stuck = in.pos == before && out.pos == s->at;
        sink_take(s, out.pos - s->at);
    }
    ZSTD_freeDStream(stream);
    return left == 0 && in.pos == length;
}

static bool decode(const char *coding, const char *data, size_t length, sink *s)
{
    return strcasecmp(coding, "gzip") == 0 ? gunzip(data, length, s) : unzstd(data, length, s);
}

remat_status body_measure(const char *coding, const char *data, size_t length, size_t limit,
                          remat_json_scan *scan, size_t *ret_length, remat_error *error)
{
    char looked_at[LOOKING_ROOM];
    sink s = {
        .data = looked_at, .room = sizeof looked_at, .limit = limit, .scan = scan, .error = error};
    if (strcasecmp(coding, "gzip") != 0 && strcasecmp(coding, "zstd") != 0)
        return remat_fail(error, REMAT_INVALID, "Content-Encoding",
                          "Content-Encoding is \"%.40s\"; gzip and zstd are read", coding);
    bool whole = decode(coding, data, length, &s);
    if (s.status)
        return s.status;
    if (!whole)
        return remat_fail(error, REMAT_INVALID, NULL, "the body is not whole %s data", coding);
    *ret_length = s.total;
    return REMAT_OK;
}

remat_status body_decode(const char *coding, const char *data, size_t length, size_t decoded,
                         char **ret_data, remat_error *error)
{
    sink s = {.room = decoded + 1};
    s.data = malloc(s.room);
    if (!s.data || !decode(coding, data, length, &s)) {
        free(s.data);
        return remat_fail_memory(error);
    }
    *ret_data = s.data;
    return REMAT_OK;
}
