#include "http.h"

#include "admission.h"
#include "listen.h"
#include "peers.h"

#include "routes.h"
#include "service.h"
#include "tls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CONNECTION_MEMORY = 32768,
    FIRST_BODY_BUFFER = 4096,
    SMALL_UPLOAD = 65536,
    LARGE_BODY = 1 << 20,
    DRAIN_FACTOR =
        4, /* a body past the limit is read to this many limits, so that its sender reads 413 */
    RECEIVE_SECONDS = 30, /* to send a request, beyond the time a connection may be silent */
    WATCH_MILLISECONDS = 1000
};

struct http {
    service *service;
    struct MHD_Daemon *daemon;
    uv_poll_t poll;
    uv_timer_t timer;
    uv_idle_t idle;
    unsigned port, connections;
    bool again; /* libmicrohttpd has to be run again though nothing has happened */
    uint64_t request_prefix, request_count;
    unsigned open_handles;
    peers *peers;
};

/* ---- the loop ---- */

static void on_timer(uv_timer_t *timer);
static void on_idle(uv_idle_t *idle);

/* libmicrohttpd's sockets are edge-triggered inside its epoll: after every run it must be asked
 * whether more is to be done at once. That is done from uv_idle: a zero timer re-armed in its own
 * callback would never leave the timer phase (libuv 1.44). */
static void run(http *h)
{
    MHD_UNSIGNED_LONG_LONG timeout;
    MHD_run(h->daemon);
    uv_timer_stop(&h->timer);
    uv_idle_stop(&h->idle);
    bool at_once = h->again;
    h->again = false;
    if (MHD_get_timeout(h->daemon, &timeout) != MHD_YES && !at_once)
        return;
    if (at_once || timeout == 0)
        uv_idle_start(&h->idle, on_idle);
    else
        uv_timer_start(&h->timer, on_timer, timeout, 0);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    run(poll->data);
}

static void on_timer(uv_timer_t *timer)
{
    run(timer->data);
}

static void on_idle(uv_idle_t *idle)
{
    run(idle->data);
}

/* ---- receiving ---- */

static void copy_text(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from ? from : "");
}

static const char *header(const request *r, const char *name)
{
    return MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

static const char *query(const request *r, const char *name)
{
    return MHD_lookup_connection_value(r->connection, MHD_GET_ARGUMENT_KIND, name);
}

/* A client's own request id is kept if it is plain; else one is made. */
static void name_request(http *h, request *r)
{
    const char *given = header(r, "X-Request-Id");
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t length = given ? strlen(given) : 0;
    if (length > 0 && length < sizeof r->request_id && strspn(given, plain) == length)
        copy_text(r->request_id, sizeof r->request_id, given);
    else
        snprintf(r->request_id, sizeof r->request_id, "%012llx%08llx",
                 (unsigned long long)(h->request_prefix & UINT64_C(0xFFFFFFFFFFFF)),
                 (unsigned long long)++h->request_count);
}

static bool invalid(request *r, const char *field, const char *message)
{
    remat_error error;
    remat_fail(&error, REMAT_INVALID, field, "%s", message);
    reply_problem(r, REMAT_PROBLEM_INVALID_REQUEST, &error);
    return false;
}

static bool read_limit(request *r)
{
    const char *text = query(r, "limit");
    char *end;
    r->limit = 100;
    if (!text)
        return true;
    unsigned long limit = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || limit < 1 || limit > 1000)
        return invalid(r, "limit", "limit must be an integer from 1 to 1000");
    r->limit = (unsigned)limit;
    return true;
}

static bool read_query(request *r)
{
    static const char *const known[] = {"cursor", "name", "profile_id", "solver"};
    char *const targets[] = {r->cursor, r->name, r->profile_id, r->solver};
    const size_t sizes[] = {sizeof r->cursor, sizeof r->name, sizeof r->profile_id,
                            sizeof r->solver};
    for (size_t i = 0; i < 4; i++) {
        const char *value = query(r, known[i]);
        if (value && strlen(value) >= sizes[i])
            return invalid(r, known[i], "a query parameter is too long");
        copy_text(targets[i], sizes[i], value);
    }
    return read_limit(r);
}

static enum MHD_Result count_header(void *count, enum MHD_ValueKind kind, const char *name,
                                    const char *value)
{
    (void)kind;
    (void)value;
    if (strcasecmp(name, "Content-Length") == 0)
        ((unsigned *)count)[0]++;
    if (strcasecmp(name, "Transfer-Encoding") == 0)
        ((unsigned *)count)[1]++;
    return MHD_YES;
}

/* Framing that two readers could understand differently is refused (request smuggling). */
static bool framing_is_clear(request *r)
{
    unsigned counts[2] = {0, 0};
    MHD_get_connection_values(r->connection, MHD_HEADER_KIND, count_header, counts);
    if (counts[0] > 1 || counts[0] + counts[1] > 1)
        return invalid(r, "Content-Length",
                       "Content-Length and Transfer-Encoding may be given once, and not both");
    return true;
}

/* Bytes of the body; 0: it does not say. */
static uint64_t announced_length(const request *r)
{
    const char *length = header(r, "Content-Length");
    return length ? strtoull(length, NULL, 10) : 0;
}

/* What can be said before the body is read. False: r->reply is the answer. */
static bool admit(request *r, const char *url)
{
    if (!routes_find(r, url) || !admission_allow(r, routes_scope(r)) || !framing_is_clear(r) ||
        !read_query(r))
        return false;
    if (!routes_takes_body(r))
        return true;
    const char *type = header(r, "Content-Type");
    size_t length = type ? strcspn(type, "; ") : 0;
    if (length != 16 || strncasecmp(type, "application/json", 16) != 0) {
        remat_error error;
        remat_fail(&error, REMAT_INVALID, "Content-Type",
                   "Content-Type is \"%.60s\"; it must be application/json", type ? type : "");
        reply_problem(r, REMAT_PROBLEM_UNSUPPORTED_MEDIA_TYPE, &error);
        return false;
    }
    const char *coding = header(r, "Content-Encoding");
    if (coding && strcasecmp(coding, "identity") != 0)
        copy_text(r->coding, sizeof r->coding, coding);
    return true;
}

static void refuse_large(request *r)
{
    remat_error error;
    body_release(r->reply.body);
    remat_fail(&error, REMAT_TOO_LARGE, NULL, "the body is larger than %llu bytes",
               (unsigned long long)routes_body_limit(r));
    reply_problem(r, REMAT_PROBLEM_TOO_LARGE, &error);
}

/* The answer to a request whose body was not kept. */
static void refuse_body(request *r)
{
    if (r->busy)
        reply_busy(r);
    else
        refuse_large(r);
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

/* Appends to the body. False: the connection should be closed. */
static bool receive(request *r, const char *data, size_t size)
{
    uint64_t limit = r->refused ? r->service->config.max_body : routes_body_limit(r);
    bool fits = !r->refused && !r->too_large && !r->busy && size <= limit - r->length;
    if (fits && r->capacity - r->length < size && !make_room(r, size)) {
        if (!r->busy)
            return false;
        fits = false;
        http_forget_body(r);
    }
    if (fits)
        memcpy(r->content + r->length, data, size);
    r->too_large |= !fits && !r->refused && !r->busy;
    r->length += size;
    return fits || r->length <= DRAIN_FACTOR * limit;
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
    const char *accepted = header(r, "Accept-Encoding");
    const body *b = r->reply.body;
    if (b->data[BODY_ZSTD] && accepts_coding(accepted, "zstd"))
        return BODY_ZSTD;
    if (b->data[BODY_GZIP] && accepts_coding(accepted, "gzip"))
        return BODY_GZIP;
    return BODY_IDENTITY;
}

static void free_body(void *data)
{
    body_release(data);
}

static struct MHD_Response *add_type(struct MHD_Response *response, const char *type)
{
    if (response)
        MHD_add_response_header(response, "Content-Type", type);
    return response;
}

static struct MHD_Response *make_response(request *r, size_t *ret_sent)
{
    static const char *const codings[] = {NULL, "gzip", "zstd"};
    reply *out = &r->reply;
    const char *match = header(r, "If-None-Match");
    if (out->status == 200 && out->etag[0] && match &&
        (strstr(match, out->etag) || strcmp(match, "*") == 0)) {
        out->status = 304;
        body_release(out->body);
        out->body = NULL;
    }
    *ret_sent = 0;
    if (out->stream)
        return add_type(stream_response(out->stream), out->content_type);
    if (!out->body)
        return MHD_create_response_from_buffer(0, (void *)"", MHD_RESPMEM_PERSISTENT);
    body_coding coding = choose_coding(r);
    body *b = body_retain(out->body);
    struct MHD_Response *response = MHD_create_response_from_buffer_with_free_callback_cls(
        b->length[coding], b->data[coding], free_body, b);
    if (!response) {
        body_release(b);
        return NULL;
    }
    *ret_sent = b->length[coding];
    if (codings[coding])
        MHD_add_response_header(response, "Content-Encoding", codings[coding]);
    if (b->data[BODY_ZSTD] || b->data[BODY_GZIP])
        MHD_add_response_header(response, "Vary", "Accept-Encoding");
    return add_type(response, out->content_type ? out->content_type : "application/json");
}

/* No script, style or connection but the daemon's own files, no inline script, in no frame. */
static void add_policy(struct MHD_Response *response)
{
    MHD_add_response_header(
        response, "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(response, "Cross-Origin-Opener-Policy", "same-origin");
}

static void add_headers(const request *r, struct MHD_Response *response)
{
    const reply *out = &r->reply;
    char number[16];
    MHD_add_response_header(response, "X-Request-Id", r->request_id);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    /* what needs a token must not be handed on by a cache that asks for none */
    const char *kept = r->service->config.tokens[0] ? "private, max-age=31536000, immutable"
                                                    : "public, max-age=31536000, immutable";
    MHD_add_response_header(response, "Cache-Control", out->immutable ? kept : "no-store");
    if (out->page)
        add_policy(response);
    if (out->etag[0])
        MHD_add_response_header(response, "ETag", out->etag);
    if (out->location[0])
        MHD_add_response_header(response, "Location", out->location);
    if (out->cache)
        MHD_add_response_header(response, "X-Remat-Cache", out->cache);
    if (out->allow)
        MHD_add_response_header(response, "Allow", out->allow);
    if (out->authenticate)
        MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    if (out->retry_after) {
        snprintf(number, sizeof number, "%u", out->retry_after);
        MHD_add_response_header(response, "Retry-After", number);
    }
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

static enum MHD_Result send_reply(request *r)
{
    size_t sent;
    struct MHD_Response *response = make_response(r, &sent);
    if (!response)
        return MHD_NO;
    add_headers(r, response);
    if (r->service->stopping || r->too_large || r->refused || r->busy)
        MHD_add_response_header(response, "Connection", "close");
    double seconds = (double)(uv_hrtime() - r->start) / 1e9;
    metrics_request(&r->service->metrics, r->route, r->reply.status, seconds);
    log_request(r, sent, seconds);
    enum MHD_Result result = MHD_queue_response(r->connection, (unsigned)r->reply.status, response);
    MHD_destroy_response(response);
    return result;
}

/* ---- libmicrohttpd's callbacks ---- */

static request *begin(http *h, struct MHD_Connection *connection, const char *url,
                      const char *method)
{
    request *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->service = h->service;
    r->connection = connection;
    r->start = uv_hrtime();
    copy_text(r->method, sizeof r->method, method);
    name_request(h, r);
    r->refused = !admit(r, url);
    return r;
}

/* libmicrohttpd would let %00 end a path or a parameter early; such text stays escaped and matches
 * nothing. */
static size_t unescape(void *data, struct MHD_Connection *connection, char *text)
{
    (void)data;
    (void)connection;
    return strstr(text, "%00") ? strlen(text) : MHD_http_unescape(text);
}

static enum MHD_Result on_request(void *data, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **context)
{
    (void)version;
    request *r = *context;
    if (!r) {
        *context = r = begin(data, connection, url, method);
        if (!r)
            return MHD_NO;
        uint64_t length = announced_length(r);
        uint64_t limit = r->refused ? r->service->config.max_body : routes_body_limit(r);
        r->too_large = !r->refused && length > limit; /* nothing of it is kept */
        if (length <= DRAIN_FACTOR * limit)
            return MHD_YES;
        if (!r->refused)
            refuse_large(r);
        r->refused = true;
        return send_reply(r);
    }
    if (*upload_size > 0) {
        bool good = receive(r, upload, *upload_size);
        *upload_size = 0;
        return good ? MHD_YES : MHD_NO;
    }
    if (r->answered || r->refused)
        return send_reply(r);
    peers_waiting(connection, false);
    if (r->dispatched) /* a spurious wake-up while it is suspended cannot be; be safe */
        return MHD_YES;
    r->dispatched = true;
    if (r->too_large || r->busy) {
        refuse_body(r);
        return send_reply(r);
    }
    if (routes_dispatch(r))
        return send_reply(r);
    MHD_suspend_connection(connection);
    return MHD_YES;
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

/* The kernel takes milliseconds to take large memory back, in which the loop would answer nobody. */
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

static void on_completed(void *data, struct MHD_Connection *connection, void **context,
                         enum MHD_RequestTerminationCode code)
{
    (void)data;
    (void)code;
    request *r = *context;
    peers_waiting(connection, true);
    if (!r)
        return;
    body_release(r->reply.body);
    http_forget_body(r);
    free(r);
    *context = NULL;
}

static void on_connection(void *data, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    http *h = data;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        h->connections++;
        *context = peers_add(h->peers, connection);
    } else {
        /* at its limit libmicrohttpd accepts again only when it is run after this */
        h->again |= h->connections-- >= h->service->config.max_connections;
        peers_remove(h->peers, *context);
    }
}

static void on_mhd_log(void *data, const char *format, va_list arguments)
{
    (void)data;
    char text[512];
    vsnprintf(text, sizeof text, format, arguments);
    text[strcspn(text, "\n")] = '\0';
    log_line(LOG_DEBUG, "libmicrohttpd", json_pack("{s:s}", "text", text));
}

/* Resuming signals nothing in external mode; the daemon is run in this turn of the loop. */
void http_wake(http *h)
{
    uv_idle_start(&h->idle, on_idle);
}

void http_answer(request *r)
{
    r->answered = true;
    MHD_resume_connection(r->connection);
    http_wake(r->service->http);
}

/* ---- starting and stopping ---- */

static remat_status watch(http *h, remat_error *error)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (!info || uv_poll_init(h->service->loop, &h->poll, info->epoll_fd) != 0)
        return remat_fail(error, REMAT_IO, NULL, "libmicrohttpd has no epoll here");
    uv_timer_init(h->service->loop, &h->timer);
    uv_idle_init(h->service->loop, &h->idle);
    h->poll.data = h->timer.data = h->idle.data = h;
    uv_poll_start(&h->poll, UV_READABLE, on_poll);
    run(h);
    return REMAT_OK;
}

http *http_new(service *s, remat_error *error)
{
    http *h = calloc(1, sizeof *h);
    if (!h) {
        remat_fail_memory(error);
        return NULL;
    }
    h->service = s;
    if (uv_random(NULL, NULL, &h->request_prefix, sizeof h->request_prefix, 0, NULL) != 0)
        h->request_prefix = uv_hrtime();
    int fd = listen_open(s->config.listen, &h->port, error);
    if (fd < 0) {
        free(h);
        return NULL;
    }
    h->peers = peers_new(s->loop, s->config.idle_seconds + s->config.receive_seconds);
    bool tls = s->config.tls_cert[0] != '\0';
    const struct MHD_OptionItem secure[] = {
        {tls ? MHD_OPTION_HTTPS_CERT_CALLBACK : MHD_OPTION_END, 0, tls ? tls_callback() : NULL},
        {MHD_OPTION_END, 0, NULL}};
    h->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | (tls ? MHD_USE_TLS : 0), 0,
        NULL, NULL, on_request, h, MHD_OPTION_ARRAY, secure, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        s->config.address_connections, MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL,
        MHD_OPTION_EXTERNAL_LOGGER, on_mhd_log, h, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, h, MHD_OPTION_NOTIFY_CONNECTION, on_connection,
        h, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
        MHD_OPTION_CONNECTION_LIMIT, s->config.max_connections, MHD_OPTION_CONNECTION_TIMEOUT,
        s->config.idle_seconds, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
    if (!h->daemon) {
        remat_fail(error, REMAT_IO, "listen", "libmicrohttpd could not start");
        close(fd);
        peers_free(h->peers);
        free(h);
        return NULL;
    }
    if (watch(h, error)) {
        MHD_stop_daemon(h->daemon);
        peers_free(h->peers);
        free(h);
        return NULL;
    }
    return h;
}

unsigned http_port(const http *h)
{
    return h->port;
}

unsigned http_connections(const http *h)
{
    return h->connections;
}

void http_quiesce(http *h)
{
    MHD_socket fd = MHD_quiesce_daemon(h->daemon);
    if (fd != MHD_INVALID_SOCKET)
        close(fd);
}

static void on_closed(uv_handle_t *handle)
{
    http *h = handle->data;
    if (--h->open_handles == 0)
        free(h);
}

void http_free(http *h)
{
    MHD_run(h->daemon);
    uv_poll_stop(&h->poll);
    h->open_handles = 3;
    uv_close((uv_handle_t *)&h->poll, on_closed);
    uv_close((uv_handle_t *)&h->timer, on_closed);
    uv_close((uv_handle_t *)&h->idle, on_closed);
    MHD_stop_daemon(h->daemon);
    peers_free(h->peers);
}
