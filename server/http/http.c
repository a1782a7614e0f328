#include "http/http.h"

#include "http/listen.h"
#include "http/reply.h"
#include "http/respond.h"
#include "http/routes.h"
#include "http/streams.h"
#include "security/security.h"
#include "security/tls.h"
#include "service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum {
    FIRST_BODY_BUFFER = 4096,
    SMALL_UPLOAD = 65536,
    LARGE_BODY = 1 << 20,
    TICK_MILLISECONDS = 500,
    UNWANTED_BODY = 65536, /* of a request whose route takes none: read and dropped */
    DRAIN_FACTOR = 4       /* a body past the limit is read to this many limits, so that its sender
                              reads 413 */
};

struct http {
    service *service;
    struct MHD_Daemon *daemon;
    peers *peers;
    uv_poll_t poll;
    uv_timer_t timer;
    uv_idle_t idle;
    unsigned port, unanswered, open_handles;
    bool again; /* libmicrohttpd has to be run again though nothing has happened */
    uint64_t request_prefix, request_count;
};

/* ---- the loop ---- */

static void on_idle(uv_idle_t *idle);

/* libmicrohttpd's sockets are edge-triggered inside its epoll: after every run it must be asked
 * whether more is to be done at once. That is done from uv_idle: a zero timer re-armed in its own
 * callback would never leave the timer phase (libuv 1.44). */
static void run(http *h)
{
    MHD_UNSIGNED_LONG_LONG timeout = 1;
    uv_idle_stop(&h->idle);
    h->again = false;
    MHD_run(h->daemon);
    MHD_get_timeout(h->daemon, &timeout);
    if (timeout == 0 || h->again)
        uv_idle_start(&h->idle, on_idle);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    run(poll->data);
}

/* Silent connections are closed by the clock, and gone with the run after that. */
static void on_timer(uv_timer_t *timer)
{
    http *h = timer->data;
    MHD_run(h->daemon);
    run(h);
}

static void on_idle(uv_idle_t *idle)
{
    run(idle->data);
}

/* Resuming signals nothing; libmicrohttpd is run in the next turn of the loop. */
static void wake(http *h)
{
    uv_idle_start(&h->idle, on_idle);
}

void http_suspend(request *r)
{
    peer_suspend(r->peer);
}

void http_resume(request *r)
{
    peer_resume(r->peer);
    wake(r->service->http);
}

/* ---- receiving ---- */

static void copy_text(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from ? from : "");
}

const char *http_header(const request *r, const char *name)
{
    return MHD_lookup_connection_value(r->peer->connection, MHD_HEADER_KIND, name);
}

/* Whether every % is followed by two hex digits. */
static bool is_escaped_well(const char *text)
{
    for (; (text = strchr(text, '%')) != NULL; text++)
        if (http_hex_digit(text[1]) < 0 || http_hex_digit(text[2]) < 0)
            return false;
    return true;
}

/* In place, of text that is escaped well. Text with %00, which would end early, stays, and so does
 * a slash of a path, which others take for a part of a name: they match nothing. */
static void unescape(char *text, bool plus_is_space)
{
    if (strstr(text, "%00"))
        return;
    char *to = text;
    for (const char *s = text; *s; s++) {
        bool escaped = s[0] == '%' && (plus_is_space || strncasecmp(s, "%2f", 3) != 0);
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

static bool is_hex(const char *text, size_t n)
{
    return strspn(text, "0123456789abcdef") >= n;
}

/* W3C Trace Context: 00-TRACE-PARENT-FLAGS, the trace and the parent not all 0; later versions may
 * have more behind it. What is not so is as if it were not there. */
static void read_traceparent(request *r)
{
    enum { TRACE = 3, PARENT = 36, FLAGS = 53, END = 55 };
    const char *given = http_header(r, "traceparent");
    const size_t length = given ? strlen(given) : 0;
    if (length < END || given[2] != '-' || given[PARENT - 1] != '-' || given[FLAGS - 1] != '-' ||
        !is_hex(given, 2) || !is_hex(given + TRACE, 32) || !is_hex(given + PARENT, 16) ||
        !is_hex(given + FLAGS, 2) || strncmp(given, "ff", 2) == 0 ||
        strspn(given + TRACE, "0") >= 32 || strspn(given + PARENT, "0") >= 16)
        return;
    if (length == END || (strncmp(given, "00", 2) != 0 && given[END] == '-'))
        snprintf(r->traceparent, sizeof r->traceparent, "%.55s", given);
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

/* One parameter, which the route must know. */
static bool read_parameter(request *r, const char *name, const char *value, unsigned *seen)
{
    static const char *const known[] = {"cursor", "name", "profile_id", "solver", "limit"};
    char *const targets[] = {r->cursor, r->name, r->profile_id, r->solver, NULL};
    const size_t sizes[] = {sizeof r->cursor, sizeof r->name, sizeof r->profile_id,
                            sizeof r->solver, SIZE_MAX};
    unsigned i = 0;
    while (i < 5 && strcmp(name, known[i]) != 0)
        i++;
    if (i == 5 || !routes_takes_parameter(r, name))
        return reply_refuse(r, REMAT_PROBLEM_INVALID_REQUEST, "",
                            "this call has no query parameter \"%.60s\"", name);
    if (*seen & 1u << i)
        return reply_refuse(r, REMAT_PROBLEM_INVALID_REQUEST, known[i],
                            "the query parameter %s is given twice", name);
    *seen |= 1u << i;
    if (strlen(value) >= sizes[i])
        return reply_refuse(r, REMAT_PROBLEM_INVALID_REQUEST, known[i],
                            "the query parameter %s is too long", name);
    if (!targets[i])
        return read_limit(r, value);
    if (targets[i] == r->profile_id && !remat_is_id(value))
        return reply_refuse(r, REMAT_PROBLEM_INVALID_REQUEST, known[i],
                            "profile_id is \"%.80s\"; it must be 64 lower-case hex digits", value);
    copy_text(targets[i], sizes[i], value);
    return true;
}

/* Cuts the query up: NULL there is none. */
static bool read_query(request *r, char *text)
{
    unsigned seen = 0;
    r->limit = 100;
    if (text && !is_escaped_well(text))
        return reply_refuse(r, REMAT_PROBLEM_INVALID_REQUEST, "",
                            "a %% of the query is not followed by two hex digits");
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
        if ((value || *text) && !read_parameter(r, text, value ? value : "", &seen))
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
    if (!is_escaped_well(target))
        return reply_refuse(r, REMAT_PROBLEM_INVALID_REQUEST, "",
                            "a %% of the path is not followed by two hex digits");
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

/* Of a body that is not kept the rest is dropped. */
static void refuse_rest(request *r)
{
    r->early = true;
    http_forget_body(r);
}

/* The next bytes of a body. False: it is more than anybody should send. */
static bool receive(request *r, const char *bytes, size_t size)
{
    bool fits = !r->early && size <= body_limit(r) - r->length, kept = routes_takes_body(r);
    if (fits && (!kept || r->capacity - r->length >= size || make_room(r, size))) {
        if (kept)
            memcpy(r->content + r->length, bytes, size);
        r->length += size;
        return true;
    }
    if (!fits && !r->early)
        refuse_large(r);
    else if (r->busy)
        reply_busy(r);
    else if (!r->early)
        reply_body(r, 200, NULL);
    refuse_rest(r);
    r->length += size;
    return r->length <= DRAIN_FACTOR * r->service->config.max_body;
}

/* ---- answering ---- */

static void log_request(const request *r, size_t sent, double seconds)
{
    if (!log_enabled(LOG_INFO))
        return;
    size_t n;
    log_line(LOG_INFO, "request",
             json_pack("{s:s, s:s*, s:s, s:s, s:s, s:s, s:i, s:f, s:I, s:I}", "request_id",
                       r->request_id, "traceparent", r->traceparent[0] ? r->traceparent : NULL,
                       "asked_by", r->client, "method", r->method, "route",
                       routes_names(&n)[r->route], "id", r->id, "status", r->reply.status,
                       "seconds", seconds, "received", (json_int_t)r->length, "sent",
                       (json_int_t)sent));
}

/* Hands the reply to libmicrohttpd. */
static enum MHD_Result send_reply(request *r)
{
    uint64_t length;
    struct MHD_Response *made = respond_make(r, &length);
    if (!made)
        return MHD_NO;
    double seconds = (double)(uv_hrtime() - r->start) / 1e9;
    metrics_request(&r->service->metrics, r->route, r->reply.status, seconds);
    log_request(r, length, seconds);
    if (r->reply.stream)
        peer_rest(r->peer);
    else
        peer_answer(r->peer, length);
    enum MHD_Result result =
        MHD_queue_response(r->peer->connection, (unsigned)r->reply.status, made);
    MHD_destroy_response(made);
    return result;
}

static void end(request *r)
{
    if (r->reply.stream)
        streams_closed(r->reply.stream);
    r->service->http->unanswered -= r->whole;
    body_release(r->reply.body);
    http_forget_body(r);
    memory_give(r->service->memory, MEMORY_WORK, r->answer_held);
    free(r->target);
    free(r);
}

void http_answer(request *r)
{
    r->pending = false;
    r->answered = true;
    if (r->peer)
        http_resume(r);
    else
        end(r);
}

/* ---- libmicrohttpd's callbacks ---- */

/* The first line is there: a request begins. The parameters are read by read_query: each would take
 * 64 bytes of libmicrohttpd's memory for the connection, and when that ends 0.9.75 never answers.
 */
static void *on_target(void *data, const char *target, struct MHD_Connection *connection)
{
    http *h = data;
    peer *one = peer_of(connection);
    request *r = one ? calloc(1, sizeof *r) : NULL;
    if (!r || !(r->target = strdup(target))) {
        free(r);
        return NULL;
    }
    r->service = h->service;
    r->peer = one;
    r->start = uv_hrtime();
    one->request = r;
    char *parameters = strchr((char *)target, '?');
    if (parameters && parameters[1])
        parameters[1] = '\0';
    return r;
}

/* Paths and parameters are unescaped by admit. */
static size_t keep_escaped(void *data, struct MHD_Connection *connection, char *text)
{
    (void)data;
    (void)connection;
    return strlen(text);
}

/* A head that is refused; nothing after it is read. */
static enum MHD_Result refuse(request *r, int status, const char *why)
{
    remat_problem_type type = status == 411   ? REMAT_PROBLEM_LENGTH
                              : status == 417 ? REMAT_PROBLEM_EXPECTATION
                              : status == 431 ? REMAT_PROBLEM_HEAD_TOO_LARGE
                              : status == 505 ? REMAT_PROBLEM_VERSION
                                              : REMAT_PROBLEM_MALFORMED;
    reply_refuse(r, type, "", "%s", why);
    r->reply.close = true;
    return send_reply(r);
}

/* The head is there. An answer that is given now ends the connection: only who would send a body in
 * vain gets it, and whose head is doubtful. */
static enum MHD_Result begin(http *h, request *r, const char *method, const char *version)
{
    const char *why;
    char *target;
    r->begun = true;
    copy_text(r->method, sizeof r->method, method);
    snprintf(r->client, sizeof r->client, "address %s",
             r->peer->address); /* until a token is known */
    int refusal =
        http_head_read(&r->head, r->peer->connection, method, version, r->target, &target, &why);
    name_request(h, r);
    read_traceparent(r);
    if (refusal)
        return refuse(r, refusal, why);
    r->early = !admit(r, target) || (r->head.length > body_limit(r) && !refuse_large(r));
    return r->early && (r->head.chunked || r->head.length > 0) ? send_reply(r) : MHD_YES;
}

/* All of it is there. */
static enum MHD_Result dispatch(request *r)
{
    r->whole = true;
    r->service->http->unanswered++;
    peer_rest(r->peer);
    if (r->early || routes_dispatch(r))
        return send_reply(r);
    r->pending = true;
    http_suspend(r);
    return MHD_YES;
}

static enum MHD_Result on_request(void *data, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **context)
{
    request *r = *context;
    (void)url;
    if (!r)
        return MHD_NO;
    if (!r->begun)
        return begin(data, r, method, version);
    if (*upload_size > 0) {
        bool good = receive(r, upload, *upload_size);
        *upload_size = 0;
        return good ? MHD_YES : MHD_NO;
    }
    if (r->pending) /* its peer has hung up */
        return MHD_NO;
    return r->answered ? send_reply(r) : dispatch(r);
}

/* Answered, or nobody listens. Work under way ends before the request does. */
static void on_completed(void *data, struct MHD_Connection *connection, void **context,
                         enum MHD_RequestTerminationCode code)
{
    request *r = *context;
    (void)data;
    (void)code;
    *context = NULL;
    if (!r)
        return;
    peer_await(r->peer);
    r->peer->request = NULL;
    r->peer = NULL;
    atomic_store(&r->gone, true);
    if (!r->pending) {
        end(r);
        return;
    }
    log_line(LOG_INFO, "hung up",
             json_pack("{s:s, s:s*}", "request_id", r->request_id, "traceparent",
                       r->traceparent[0] ? r->traceparent : NULL));
    if (r->leave)
        r->leave(r);
}

static void on_hung_up(peer *one)
{
    request *r = one->request;
    if (!one->suspended)
        return;
    if (r->reply.stream)
        stream_hung_up(r->reply.stream);
    http_resume(r);
}

static void on_connection(void *data, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    http *h = data;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = peers_add(h->peers, connection);
        return;
    }
    /* at its limit libmicrohttpd accepts again only when it is run after this */
    h->again |= peers_count(h->peers) >= h->service->config.max_connections;
    if (*context)
        peer_remove(*context);
    *context = NULL;
}

static void on_mhd_log(void *data, const char *format, va_list arguments)
{
    char text[512];
    (void)data;
    vsnprintf(text, sizeof text, format, arguments);
    text[strcspn(text, "\n")] = '\0';
    log_line(LOG_DEBUG, "libmicrohttpd", json_pack("{s:s}", "text", text));
}

/* ---- what is freed beside the loop ---- */

typedef struct leftover {
    task task;
    memory *memory;
    char *content;
    uint64_t held; /* of the account until all of it has gone */
} leftover;

static void free_work(task *t)
{
    leftover *one = (leftover *)t;
    free(one->content);
    memory_return();
}

static void free_done(task *t)
{
    leftover *one = (leftover *)t;
    memory_give(one->memory, MEMORY_WORK, one->held);
    free(one);
}

/* The kernel takes milliseconds to take large memory back, in which the loop would answer nobody;
 * who is given it meanwhile would add to what is still there. */
void http_forget_body(request *r)
{
    service *s = r->service;
    bool large = r->content && r->capacity >= LARGE_BODY && !s->stopping;
    leftover *one = large ? calloc(1, sizeof *one) : NULL;
    if (one) {
        *one = (leftover){.task = {.work = free_work, .done = free_done, .lane = LANE_LIGHT},
                          .memory = s->memory,
                          .content = r->content,
                          .held = r->held};
        queue_submit(s->queue, &one->task);
    } else {
        free(r->content);
        memory_give(s->memory, MEMORY_WORK, r->held);
    }
    r->held = 0;
    r->content = NULL;
    r->capacity = 0;
}

/* ---- starting and stopping ---- */

static struct MHD_Daemon *start_daemon(http *h, int listener)
{
    const config *c = &h->service->config;
    bool tls = c->tls_cert[0] != '\0';
    const struct MHD_OptionItem secure[] = {
        {tls ? MHD_OPTION_HTTPS_CERT_CALLBACK : MHD_OPTION_END, 0, tls ? tls_callback() : NULL},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)tls_priorities},
        {MHD_OPTION_END, 0, NULL}};
    return MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | (tls ? MHD_USE_TLS : 0), 0,
        NULL, NULL, on_request, h, MHD_OPTION_EXTERNAL_LOGGER, on_mhd_log, h, MHD_OPTION_ARRAY,
        secure, MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_URI_LOG_CALLBACK, on_target, h,
        MHD_OPTION_UNESCAPE_CALLBACK, keep_escaped, NULL, MHD_OPTION_NOTIFY_COMPLETED, on_completed,
        h, MHD_OPTION_NOTIFY_CONNECTION, on_connection, h, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        c->address_connections, MHD_OPTION_CONNECTION_LIMIT, c->max_connections,
        MHD_OPTION_CONNECTION_TIMEOUT, c->idle_seconds, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)HTTP_HEAD_BYTES,
#if MHD_VERSION >= 0x01000000
        MHD_OPTION_CLIENT_DISCIPLINE_LVL, 2,
#endif
        MHD_OPTION_END);
}

static void watch(http *h)
{
    uv_loop_t *loop = h->service->loop;
    uv_poll_init(loop, &h->poll,
                 MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd);
    uv_timer_init(loop, &h->timer);
    uv_idle_init(loop, &h->idle);
    h->poll.data = h->timer.data = h->idle.data = h;
    uv_poll_start(&h->poll, UV_READABLE, on_poll);
    uv_timer_start(&h->timer, on_timer, 0, TICK_MILLISECONDS);
}

static remat_status start(http *h, remat_error *error)
{
    const config *c = &h->service->config;
    const peer_limits most = {.connections = c->max_connections,
                              .idle_seconds = c->idle_seconds,
                              .receive_seconds = c->receive_seconds,
                              .drain_bytes = DRAIN_FACTOR * c->max_body};
    int listener = listen_open(c->listen, &h->port, error);
    if (listener < 0)
        return error->status;
    h->peers = peers_new(h->service->loop, &most, on_hung_up);
    h->daemon = h->peers ? start_daemon(h, listener) : NULL;
    if (h->daemon)
        return REMAT_OK;
    close(listener);
    return remat_fail(error, REMAT_IO, "listen", "libmicrohttpd could not start");
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
    if (start(h, error)) {
        peers_free(h->peers);
        free(h);
        return NULL;
    }
    watch(h);
    return h;
}

unsigned http_port(const http *h)
{
    return h->port;
}

unsigned http_connections(const http *h)
{
    return peers_count(h->peers);
}

unsigned http_unanswered(const http *h)
{
    return h->unanswered;
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

/* libmicrohttpd ends the process where it is stopped with a suspended connection. */
void http_free(http *h)
{
    peers_each_suspended(h->peers, on_hung_up);
    MHD_run(h->daemon);
    uv_poll_stop(&h->poll);
    MHD_stop_daemon(h->daemon);
    peers_free(h->peers);
    h->open_handles = 3;
    uv_close((uv_handle_t *)&h->poll, on_closed);
    uv_close((uv_handle_t *)&h->timer, on_closed);
    uv_close((uv_handle_t *)&h->idle, on_closed);
}
