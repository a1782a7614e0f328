#include "http/http.h"

#include "http/listen.h"
#include "http/reply.h"
#include "http/routes.h"
#include "security/security.h"
#include "service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum {
    FIRST_BODY_BUFFER = 4096,
    SMALL_UPLOAD = 65536,
    LARGE_BODY = 1 << 20,
    UNWANTED_BODY = 65536, /* of a request whose route takes none: read and dropped */
    DRAIN_FACTOR = 4,      /* a body past the limit is read to this many limits, so that its sender
                              reads 413 */
    HEAD_SIZE = 2048       /* of an answer; its longest is half of that */
};

struct http {
    service *service;
    connections *connections;
    unsigned port;
    uint64_t request_prefix, request_count;
    time_t second; /* of date */
    char date[40];
};

/* ---- receiving ---- */

static void copy_text(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from ? from : "");
}

const char *http_header(const request *r, const char *name)
{
    return head_value(connection_head(r->connection), name);
}

/* In place. What is not of two hex digits stays, and so does text with %00, which would end early,
 * and a slash of a path, which others take for a part of a name: they match nothing. */
static void unescape(char *text, bool plus_is_space)
{
    if (strstr(text, "%00"))
        return;
    char *to = text;
    for (const char *s = text; *s; s++) {
        bool escaped = s[0] == '%' && http_hex_digit(s[1]) >= 0 && http_hex_digit(s[2]) >= 0 &&
                       (plus_is_space || strncasecmp(s, "%2f", 3) != 0);
        *to++ = escaped ? (char)(http_hex_digit(s[1]) * 16 + http_hex_digit(s[2]))
                : plus_is_space && *s == '+' ? ' '
                                             : *s;
        s += escaped ? 2 : 0;
    }
    *to = '\0';
}

/* A client's own request id is kept if it is plain; else one is made. */
static void name_request(http *h, request *r)
{
    const char *given = http_header(r, "X-Request-Id");
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t length = given ? strlen(given) : 0;
    if (length > 0 && length < sizeof r->request_id && strspn(given, plain) == length)
        copy_text(r->request_id, sizeof r->request_id, given);
    else
        snprintf(r->request_id, sizeof r->request_id, "%012llx%08llx",
                 (unsigned long long)(h->request_prefix & UINT64_C(0xFFFFFFFFFFFF)),
                 (unsigned long long)++h->request_count);
}

static bool read_limit(request *r, const char *text)
{
    char *end;
    unsigned long limit = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || limit < 1 || limit > 1000)
        return reply_refuse(r, REMAT_PROBLEM_INVALID_REQUEST, "limit",
                            "limit must be an integer from 1 to 1000");
    r->limit = (unsigned)limit;
    return true;
}

/* One parameter; unknown ones mean nothing, and of two the first counts. */
static bool read_parameter(request *r, const char *name, const char *value, unsigned *seen)
{
    static const char *const known[] = {"cursor", "name", "profile_id", "solver", "limit"};
    char *const targets[] = {r->cursor, r->name, r->profile_id, r->solver, NULL};
    const size_t sizes[] = {sizeof r->cursor, sizeof r->name, sizeof r->profile_id,
                            sizeof r->solver, SIZE_MAX};
    unsigned i = 0;
    while (i < 5 && strcmp(name, known[i]) != 0)
        i++;
    if (i == 5 || *seen & 1u << i)
        return true;
    *seen |= 1u << i;
    if (strlen(value) >= sizes[i])
        return reply_refuse(r, REMAT_PROBLEM_INVALID_REQUEST, known[i],
                            "a query parameter is too long");
    if (!targets[i])
        return read_limit(r, value);
    copy_text(targets[i], sizes[i], value);
    return true;
}

/* Cuts the query up: NULL there is none. */
static bool read_query(request *r, char *text)
{
    unsigned seen = 0;
    r->limit = 100;
    while (text && *text) {
        char *next = strchr(text, '&');
        if (next)
            *next++ = '\0';
        char *value = strchr(text, '=');
        if (value)
            *value++ = '\0';
        unescape(text, true);
        if (value)
            unescape(value, true);
        if (!read_parameter(r, text, value ? value : "", &seen))
            return false;
        text = next;
    }
    return true;
}

static bool check_type(request *r)
{
    const char *type = http_header(r, "Content-Type");
    size_t length = type ? strcspn(type, "; ") : 0;
    if (length == 16 && strncasecmp(type, "application/json", 16) == 0)
        return true;
    return reply_refuse(r, REMAT_PROBLEM_UNSUPPORTED_MEDIA_TYPE, "Content-Type",
                        "Content-Type is \"%.60s\"; it must be application/json", type ? type : "");
}

/* What can be said before the body is read. False: r->reply is the answer. */
static bool admit(request *r, char *target)
{
    char *parameters = strchr(target, '?');
    if (parameters)
        *parameters++ = '\0';
    unescape(target, false);
    if (!security_allow_origin(r) || !routes_find(r, target) ||
        !security_admit(r, routes_scope(r)) || !read_query(r, parameters))
        return false;
    if (!routes_takes_body(r))
        return true;
    if (!check_type(r))
        return false;
    const char *coding = http_header(r, "Content-Encoding");
    if (coding && strcasecmp(coding, "identity") != 0)
        copy_text(r->coding, sizeof r->coding, coding);
    return true;
}

static uint64_t body_limit(const request *r)
{
    return routes_takes_body(r) ? routes_body_limit(r) : UNWANTED_BODY;
}

static bool refuse_large(request *r)
{
    return reply_refuse(r, REMAT_PROBLEM_TOO_LARGE, "", "the body is larger than %llu bytes",
                        (unsigned long long)body_limit(r));
}

/* Room for size bytes more. False: memory is short; r->busy if other requests have it. */
static bool make_room(request *r, size_t size)
{
    uint64_t limit = routes_body_limit(r);
    size_t capacity = r->capacity ? r->capacity : FIRST_BODY_BUFFER;
    while (capacity - r->length < size)
        capacity *= 2;
    if (capacity > limit)
        capacity = limit;
    memory_use use = capacity <= SMALL_UPLOAD ? MEMORY_SMALL_UPLOAD : MEMORY_UPLOAD;
    if (!memory_take(r->service->memory, use, capacity - r->capacity)) {
        r->busy = true;
        return false;
    }
    r->held += capacity - r->capacity;
    char *content = realloc(r->content, capacity);
    if (!content)
        return false;
    r->content = content;
    r->capacity = capacity;
    return true;
}

static void send_reply(request *r);

/* The next bytes of a body. One that cannot be kept is answered at once: the connection reads the
 * rest of it and closes. */
static void on_receive(void *data, const char *bytes, size_t size)
{
    request *r = data;
    bool fits = size <= body_limit(r) - r->length, kept = routes_takes_body(r);
    if (fits && (!kept || r->capacity - r->length >= size || make_room(r, size))) {
        if (kept)
            memcpy(r->content + r->length, bytes, size);
        r->length += size;
        return;
    }
    if (!fits)
        refuse_large(r);
    else if (r->busy)
        reply_busy(r);
    else
        reply_body(r, 200, NULL);
    http_forget_body(r);
    send_reply(r);
}

/* ---- sending ---- */

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

/* A head under way. What does not fit is left out, and nothing is as long as that. */
typedef struct head_text {
    char text[HEAD_SIZE];
    size_t length;
} head_text;

static void put(head_text *to, const char *name, const char *value)
{
    size_t names = strlen(name), values = strlen(value);
    if (names + values + 6 > sizeof to->text - to->length)
        return;
    char *at = mempcpy(to->text + to->length, name, names);
    at = mempcpy(mempcpy(at, ": ", 2), value, values);
    at = mempcpy(at, "\r\n", 2);
    to->length = (size_t)(at - to->text);
}

static const char *reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {{200, "OK"},
                   {201, "Created"},
                   {202, "Accepted"},
                   {204, "No Content"},
                   {304, "Not Modified"},
                   {400, "Bad Request"},
                   {401, "Unauthorized"},
                   {403, "Forbidden"},
                   {404, "Not Found"},
                   {405, "Method Not Allowed"},
                   {409, "Conflict"},
                   {413, "Content Too Large"},
                   {415, "Unsupported Media Type"},
                   {417, "Expectation Failed"},
                   {421, "Misdirected Request"},
                   {422, "Unprocessable Content"},
                   {429, "Too Many Requests"},
                   {431, "Request Header Fields Too Large"},
                   {500, "Internal Server Error"},
                   {503, "Service Unavailable"},
                   {505, "HTTP Version Not Supported"}};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Unknown";
}

static const char *date_now(http *h)
{
    time_t now = time(NULL);
    struct tm parts;
    if (now != h->second && gmtime_r(&now, &parts)) {
        strftime(h->date, sizeof h->date, "%a, %d %b %Y %H:%M:%S GMT", &parts);
        h->second = now;
    }
    return h->date;
}

/* No script, style or connection but the daemon's own files, no inline script, in no frame. */
static void put_policy(head_text *to)
{
    put(to, "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'");
    put(to, "Referrer-Policy", "no-referrer");
    put(to, "Cross-Origin-Opener-Policy", "same-origin");
}

static void put_number(head_text *to, const char *name, uint64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    put(to, name, text);
}

/* What the reply says of itself. */
static void put_reply(const request *r, head_text *to)
{
    const reply *out = &r->reply;
    /* what needs a token must not be handed on by a cache that asks for none */
    const char *kept = r->service->config.tokens[0] ? "private, max-age=31536000, immutable"
                                                    : "public, max-age=31536000, immutable";
    put(to, "X-Request-Id", r->request_id);
    put(to, "X-Content-Type-Options", "nosniff");
    put(to, "Cache-Control", out->immutable ? kept : "no-store");
    if (out->page)
        put_policy(to);
    if (out->etag[0])
        put(to, "ETag", out->etag);
    if (out->location[0])
        put(to, "Location", out->location);
    if (out->cache)
        put(to, "X-Remat-Cache", out->cache);
    if (out->allow)
        put(to, "Allow", out->allow);
    if (out->authenticate)
        put(to, "WWW-Authenticate", "Bearer");
    if (out->retry_after)
        put_number(to, "Retry-After", out->retry_after);
}

/* Of the body, in the coding in which it is sent. */
static void put_body(const request *r, head_text *to, body_coding coding)
{
    static const char *const codings[] = {NULL, "gzip", "zstd"};
    const reply *out = &r->reply;
    const body *b = out->body;
    if (b) {
        put(to, "Content-Type", out->content_type ? out->content_type : "application/json");
        if (codings[coding])
            put(to, "Content-Encoding", codings[coding]);
        if (b->data[BODY_ZSTD] || b->data[BODY_GZIP])
            put(to, "Vary", "Accept-Encoding");
    }
    if (out->status != 204 && out->status != 304)
        put_number(to, "Content-Length", b ? b->length[coding] : 0);
}

static void log_request(const request *r, size_t sent, double seconds)
{
    if (!log_enabled(LOG_INFO))
        return;
    size_t n;
    log_line(LOG_INFO, "request",
             json_pack("{s:s, s:s, s:s, s:s, s:i, s:f, s:I, s:I}", "request_id", r->request_id,
                       "method", r->method, "route", routes_names(&n)[r->route], "id", r->id,
                       "status", r->reply.status, "seconds", seconds, "received",
                       (json_int_t)r->length, "sent", (json_int_t)sent));
}

static void begin_head(request *r, head_text *to, bool keep)
{
    bool old = connection_head(r->connection)->http_1_0;
    to->length = (size_t)snprintf(to->text, sizeof to->text, "HTTP/1.1 %d %s\r\n", r->reply.status,
                                  reason(r->reply.status));
    put(to, "Date", date_now(r->service->http));
    if (!keep || old)
        put(to, "Connection", keep ? "keep-alive" : "close");
}

static void send_stream(request *r)
{
    head_text to;
    const head *asked = connection_head(r->connection);
    begin_head(r, &to, !asked->http_1_0 && asked->keep_alive);
    put(&to, "Content-Type", r->reply.content_type);
    if (!asked->http_1_0)
        put(&to, "Transfer-Encoding", "chunked");
    put_reply(r, &to);
    memcpy(to.text + to.length, "\r\n", 2);
    stream *one = r->reply.stream;
    connection_stream(r->connection, to.text, to.length + 2);
    streams_begin(one);
}

/* ---- files of bodies ---- */

typedef struct filing {
    task task;
    body *body;
    body_coding coding;
    int file;
} filing;

static void file_work(task *t)
{
    filing *one = (filing *)t;
    one->file = body_make_file(one->body, one->coding);
}

static void file_done(task *t)
{
    filing *one = (filing *)t;
    body_set_file(one->body, one->coding, one->file);
    body_release(one->body);
    free(one);
}

/* A disk can keep its caller waiting, so a pool thread writes the file. */
static void make_file(service *s, body *b, body_coding coding)
{
    filing *one = s->stopping ? NULL : calloc(1, sizeof *one);
    if (!one)
        return;
    one->body = body_retain(b);
    one->coding = coding;
    one->task = (task){.work = file_work, .done = file_done, .lane = LANE_LIGHT};
    queue_submit(s->queue, &one->task);
}

/* ---- replies ---- */

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

/* r may be gone after. */
static void send_reply(request *r)
{
    head_text to;
    service *s = r->service;
    double seconds = (double)(uv_hrtime() - r->start) / 1e9;
    become_unmodified(r);
    body *b = r->reply.body;
    body_coding coding = b ? choose_coding(r) : BODY_IDENTITY;
    bool bare = strcmp(r->method, "HEAD") == 0;
    metrics_request(&s->metrics, r->route, r->reply.status, seconds);
    log_request(r, b && !bare ? b->length[coding] : 0, seconds);
    if (r->reply.stream && !bare) {
        send_stream(r);
        return;
    }
    /* of a request whose body has not come the connection knows that it cannot be kept */
    bool keep = connection_keeps(r->connection) && !s->stopping;
    begin_head(r, &to, keep);
    put_body(r, &to, coding);
    put_reply(r, &to);
    memcpy(to.text + to.length, "\r\n", 2);
    if (b && !bare && !s->config.tls_cert[0] && body_wants_file(b, coding))
        make_file(s, b, coding);
    connection_send(r->connection, to.text, to.length + 2, bare ? NULL : b, coding, keep);
}

/* ---- what the connections tell ---- */

static void *on_open(void *data, connection *c)
{
    http *h = data;
    request *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->service = h->service;
    r->connection = c;
    r->start = uv_hrtime();
    copy_text(r->method, sizeof r->method, connection_head(c)->method);
    name_request(h, r);
    return r;
}

/* A head or a body that cannot be read. */
static void refuse(request *r, int status, const char *why)
{
    remat_problem_type type = status == 417   ? REMAT_PROBLEM_EXPECTATION
                              : status == 431 ? REMAT_PROBLEM_HEAD_TOO_LARGE
                              : status == 505 ? REMAT_PROBLEM_VERSION
                                              : REMAT_PROBLEM_MALFORMED;
    reply_refuse(r, type, "", "%s", why);
    send_reply(r);
}

static void on_begin(void *data, int refusal, const char *why)
{
    request *r = data;
    if (refusal) {
        refuse(r, refusal, why);
        return;
    }
    if (!admit(r, connection_target(r->connection)) ||
        (connection_head(r->connection)->length > body_limit(r) && !refuse_large(r)))
        send_reply(r);
}

static void on_whole(void *data)
{
    request *r = data;
    if (routes_dispatch(r))
        send_reply(r);
}

static void on_broken(void *data, const char *why)
{
    request *r = data;
    http_forget_body(r);
    refuse(r, 400, why);
}

/* ---- what is freed beside the loop ---- */

typedef struct leftover {
    task task;
    char *content;
} leftover;

static void free_work(task *t)
{
    leftover *one = (leftover *)t;
    free(one->content);
    one->content = NULL;
}

static void free_done(task *t)
{
    free(t);
}

/* The kernel takes milliseconds to take large memory back, in which the loop would answer
 * nobody. */
void http_forget_body(request *r)
{
    service *s = r->service;
    leftover *one = r->capacity >= LARGE_BODY && !s->stopping ? calloc(1, sizeof *one) : NULL;
    memory_give(s->memory, r->held);
    r->held = 0;
    if (one) {
        one->content = r->content;
        one->task = (task){.work = free_work, .done = free_done, .lane = LANE_LIGHT};
        queue_submit(s->queue, &one->task);
    } else {
        free(r->content);
    }
    r->content = NULL;
    r->capacity = 0;
}

static void on_end(void *data)
{
    request *r = data;
    if (r->reply.stream)
        streams_closed(r->reply.stream);
    body_release(r->reply.body);
    http_forget_body(r);
    memory_give(r->service->memory, r->answer_held);
    free(r);
}

void http_answer(request *r)
{
    send_reply(r);
}

/* ---- starting and stopping ---- */

http *http_new(service *s, remat_error *error)
{
    static const connection_events events = {.open = on_open,
                                             .begin = on_begin,
                                             .receive = on_receive,
                                             .whole = on_whole,
                                             .broken = on_broken,
                                             .end = on_end};
    const connection_limits most = {.connections = s->config.max_connections,
                                    .address_connections = s->config.address_connections,
                                    .idle_seconds = s->config.idle_seconds,
                                    .receive_seconds = s->config.receive_seconds,
                                    .drain_bytes = DRAIN_FACTOR * s->config.max_body,
                                    .tls = s->config.tls_cert[0] != '\0'};
    http *h = calloc(1, sizeof *h);
    if (!h) {
        remat_fail_memory(error);
        return NULL;
    }
    h->service = s;
    if (uv_random(NULL, NULL, &h->request_prefix, sizeof h->request_prefix, 0, NULL) != 0)
        h->request_prefix = uv_hrtime();
    int fd = listen_open(s->config.listen, &h->port, error);
    if (fd >= 0)
        h->connections = connections_new(s->loop, fd, &most, &events, h, error);
    if (h->connections)
        return h;
    free(h);
    return NULL;
}

unsigned http_port(const http *h)
{
    return h->port;
}

unsigned http_connections(const http *h)
{
    return connections_count(h->connections);
}

void http_quiesce(http *h)
{
    connections_quiesce(h->connections);
}

void http_free(http *h)
{
    connections_free(h->connections);
    free(h);
}
