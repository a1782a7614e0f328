#include "http/respond.h"

#include "http/streams.h"
#include "service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- what is sent ---- */

/* Whether a comma-separated header value holds a token, and not with q=0. */
static bool accepts_coding(const char *list, const char *coding)
{
    size_t length = strlen(coding);
    for (const char *s = list; s && *s;) {
        s += strspn(s, ", \t");
        size_t item = strcspn(s, ","), name = strcspn(s, ",; \t");
        if (name == length && strncasecmp(s, coding, length) == 0) {
            const char *q = memmem(s, item, "q=", 2);
            return !q || strtod(q + 2, NULL) > 0;
        }
        s += item;
    }
    return false;
}

static body_coding choose_coding(const request *r)
{
    const char *accepted = http_header(r, "Accept-Encoding");
    const body *b = r->reply.body;
    if (b->data[BODY_ZSTD] && accepts_coding(accepted, "zstd"))
        return BODY_ZSTD;
    if (b->data[BODY_GZIP] && accepts_coding(accepted, "gzip"))
        return BODY_GZIP;
    return BODY_IDENTITY;
}

/* The client has what was asked for. */
static void become_unmodified(request *r)
{
    reply *out = &r->reply;
    const char *match = http_header(r, "If-None-Match");
    if (out->status != 200 || !out->etag[0] || !match ||
        (!strstr(match, out->etag) && strcmp(match, "*") != 0))
        return;
    out->status = 304;
    body_release(out->body);
    out->body = NULL;
}

/* ---- bodies ---- */

static void free_body(void *data)
{
    body_release(data);
}

/* Without a copy; the body lives until it is sent. A file, which libmicrohttpd sends by sendfile,
 * costs more: its head goes in a packet of its own, and then 128 KiB at a time
 * (tests/bench/http_results.md). */
static struct MHD_Response *send_body(body *b, body_coding coding)
{
    struct MHD_Response *made = MHD_create_response_from_buffer_with_free_callback_cls(
        b->length[coding], b->data[coding], free_body, body_retain(b));
    if (!made)
        body_release(b);
    return made;
}

/* ---- its head ---- */

static void add(struct MHD_Response *to, const char *name, const char *value)
{
    if (value && value[0])
        MHD_add_response_header(to, name, value);
}

/* No script, style or connection but the daemon's own files, no inline script, in no frame. */
static void add_policy(struct MHD_Response *to)
{
    MHD_add_response_header(
        to, "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'");
    MHD_add_response_header(to, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(to, "Cross-Origin-Opener-Policy", "same-origin");
}

/* What the reply says of itself. */
static void add_reply(const request *r, struct MHD_Response *to)
{
    const reply *out = &r->reply;
    char number[16];
    /* what needs a token must not be handed on by a cache that asks for none */
    const char *kept = r->service->config.tokens[0] ? "private, max-age=31536000, immutable"
                                                    : "public, max-age=31536000, immutable";
    add(to, "X-Request-Id", r->request_id);
    add(to, "X-Content-Type-Options", "nosniff");
    add(to, "Cache-Control", out->immutable ? kept : "no-store");
    if (out->page)
        add_policy(to);
    add(to, "ETag", out->etag);
    add(to, "Location", out->location);
    add(to, "X-Remat-Cache", out->cache);
    add(to, "Allow", out->allow);
    if (out->authenticate)
        add(to, "WWW-Authenticate", "Bearer");
    if (out->retry_after) {
        snprintf(number, sizeof number, "%u", out->retry_after);
        add(to, "Retry-After", number);
    }
    if (out->close || r->service->stopping)
        add(to, "Connection", "close");
}

/* Of the body, in the coding in which it is sent. */
static void add_body(const request *r, struct MHD_Response *to, body_coding coding)
{
    static const char *const codings[] = {NULL, "gzip", "zstd"};
    const body *b = r->reply.body;
    add(to, "Content-Encoding", codings[coding]);
    if (b->data[BODY_ZSTD] || b->data[BODY_GZIP])
        add(to, "Vary", "Accept-Encoding");
}

struct MHD_Response *respond_make(request *r, uint64_t *ret_length)
{
    reply *out = &r->reply;
    become_unmodified(r);
    body *b = out->body;
    body_coding coding = b ? choose_coding(r) : BODY_IDENTITY;
    bool bare = strcmp(r->method, "HEAD") == 0;
    struct MHD_Response *made = NULL;
    *ret_length = b && !bare ? b->length[coding] : 0;
    if (out->stream && !bare)
        made = stream_response(out->stream);
    else if (b)
        made = send_body(b, coding);
    else
        made = MHD_create_response_from_buffer(0, (void *)"", MHD_RESPMEM_PERSISTENT);
    if (!made)
        return NULL;
    if (b || out->stream)
        add(made, "Content-Type", out->content_type ? out->content_type : "application/json");
    if (b)
        add_body(r, made, coding);
    add_reply(r, made);
    return made;
}
