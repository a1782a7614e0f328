#include "http/connection.h"

#include "security/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <utlist.h>

enum {
    HEAD_BYTES = 32768, /* of a head, at most */
    FIRST_HEAD = 1024,
    RECEIVE_BYTES = 65536,
    ACCEPT_AT_ONCE = 64,
    TICK_MILLISECONDS = 500,
    HEADS_AT_ONCE = 2,  /* of requests that came in one piece */
    LINGER_SECONDS = 2, /* that a peer may be silent after its last answer, before it is closed */
    LEAST_RATE = 8192,  /* bytes a second at which an answer must be taken */
};
#define SECOND UINT64_C(1000000000)
#define TURN (SECOND / 500) /* that such requests get before other connections are looked at */

typedef enum connection_state {
    HANDSHAKE,
    READ_HEAD,
    READ_BODY,
    WORK,   /* the request is there and being answered */
    SEND,   /* its answer is under way */
    STREAM, /* so is one that goes on */
    LINGER, /* closed for writing; what still comes is dropped, so that the peer reads its answer */
    CLOSED
} connection_state;

struct connection {
    connections *all;
    struct connection *prev, *next;
    uv_poll_t poll;
    int fd, events;
    connection_state state;
    tls_session *tls;
    char address[INET6_ADDRSTRLEN];

    /* the request */
    void *request;
    char *text; /* of its head */
    size_t text_length, text_capacity;
    head_scan scan;
    head head;
    chunks chunks;
    uint64_t body_left;
    char *ahead; /* came after it */
    size_t ahead_length;

    /* the answer */
    char *out; /* head, or piece of a stream */
    size_t out_length, out_sent, out_capacity;
    body *body;
    const char *body_data;
    size_t body_length, body_sent;
    int file; /* the body's, to be sent without a copy; -1: none */
    bool keep, stream_over;
    bool feeding; /* what came is being read: what is left of it follows by itself */

    uint64_t since, heard, taken; /* uv_hrtime: request awaited, last byte from and to the peer */
    uint64_t send_by;
    uint64_t dropped; /* bytes, in LINGER */
};

struct connections {
    uv_loop_t *loop;
    uv_poll_t poll;
    uv_timer_t timer;
    uv_idle_t idle; /* while requests that came ahead wait for their turn */
    int listener;
    bool accepting;
    unsigned n, open_handles;
    connection *list;
    connection_limits limits;
    const connection_events *events;
    void *data;
    char received[RECEIVE_BYTES];
};

static void feed(connection *c, const char *data, size_t length);
static void on_idle(uv_idle_t *idle);
static void update_poll(connection *c);
static void set_accepting(connections *all, bool accepting);

/* ---- closing ---- */

static void on_closed(uv_handle_t *handle)
{
    connection *c = handle->data;
    free(c->text);
    free(c->ahead);
    free(c->out);
    free(c);
}

static void end_request(connection *c)
{
    void *request = c->request;
    c->request = NULL;
    body_release(c->body);
    c->body = NULL;
    if (request)
        c->all->events->end(request);
}

static void close_connection(connection *c)
{
    connections *all = c->all;
    if (c->state == CLOSED)
        return;
    c->state = CLOSED;
    tls_session_free(c->tls);
    c->tls = NULL;
    DL_DELETE(all->list, c);
    all->n--;
    uv_close((uv_handle_t *)&c->poll, on_closed);
    close(c->fd);
    end_request(c);
    if (!all->accepting && all->listener >= 0)
        set_accepting(all, true);
}

static void linger(connection *c)
{
    c->state = LINGER;
    c->since = c->heard = uv_hrtime();
    tls_session_bye(c->tls);
    if (shutdown(c->fd, SHUT_WR) != 0)
        close_connection(c);
}

/* ---- reading ---- */

/* Bytes; 0: the peer has closed; -1 with EAGAIN: later. */
static ssize_t receive(connection *c)
{
    connections *all = c->all;
    return c->tls ? tls_session_read(c->tls, all->received, sizeof all->received)
                  : recv(c->fd, all->received, sizeof all->received, 0);
}

static bool reads(const connection *c)
{
    return (c->state == READ_HEAD && c->ahead_length == 0) || c->state == READ_BODY ||
           c->state == LINGER;
}

/* False: there is nothing now. */
static bool read_once(connection *c)
{
    ssize_t n = receive(c);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        close_connection(c);
        return false;
    }
    c->heard = uv_hrtime();
    feed(c, c->all->received, (size_t)n);
    return true;
}

/* Of TLS no byte may stay in its buffers, of which the loop knows nothing. */
static void on_readable(connection *c)
{
    c->feeding = true;
    while (read_once(c) && c->tls && reads(c) && tls_session_pending(c->tls))
        ;
    c->feeding = false;
}

/* A new request is awaited. */
static void await_request(connection *c)
{
    c->state = READ_HEAD;
    c->scan = (head_scan){0};
    c->chunks = (chunks){0};
    c->text_length = 0;
    c->since = c->heard = uv_hrtime();
}

static bool append(char **text, size_t *length, size_t *capacity, size_t first, const char *more,
                   size_t n)
{
    size_t room = *capacity ? *capacity : first;
    while (room - *length < n)
        room *= 2;
    if (room > *capacity) {
        char *grown = realloc(*text, room);
        if (!grown)
            return false;
        *text = grown;
        *capacity = room;
    }
    memcpy(*text + *length, more, n);
    *length += n;
    return true;
}

static void body_is_there(connection *c)
{
    c->state = WORK;
    c->all->events->whole(c->request);
}

static void tell_to_continue(connection *c)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    ssize_t n = c->tls ? tls_session_write(c->tls, text, sizeof text - 1)
                       : send(c->fd, text, sizeof text - 1, MSG_NOSIGNAL);
    if (n != sizeof text - 1)
        close_connection(c);
}

static void begin_request(connection *c, int refusal, const char *why)
{
    c->state = READ_BODY;
    c->body_left = c->head.length;
    c->request = c->all->events->open(c->all->data, c);
    if (!c->request) {
        close_connection(c);
        return;
    }
    c->all->events->begin(c->request, refusal, why);
    if (c->state != READ_BODY)
        return;
    if (!c->head.chunked && c->body_left == 0)
        body_is_there(c);
    else if (c->head.expects_continue)
        tell_to_continue(c);
}

/* Returns how many bytes belong to the head. */
static size_t feed_head(connection *c, const char *data, size_t length)
{
    static char nothing[1];
    size_t used = 0;
    const char *why = "the lines of a head end with CRLF and hold no control characters";
    framing_state state = head_scan_feed(&c->scan, data, length, &used);
    int refusal = state == FRAMING_BAD ? 400 : 0;
    if (!refusal && c->text_length + used > HEAD_BYTES) {
        refusal = 431;
        why = "the head is larger than 32768 bytes";
    }
    if (!refusal && !append(&c->text, &c->text_length, &c->text_capacity, FIRST_HEAD, data, used)) {
        close_connection(c);
        return length;
    }
    if (!refusal && state == FRAMING_MORE)
        return used;
    if (!refusal)
        refusal = head_read(&c->head, c->text, c->text_length, &why);
    if (refusal)
        c->head = (head){.method = "", .target = nothing, .chunked = true};
    begin_request(c, refusal, why);
    return used;
}

static size_t feed_chunks(connection *c, const char *data, size_t length)
{
    size_t used = 0, content = 0;
    framing_state state = chunks_feed(&c->chunks, data, length, &used, &content);
    if (state == FRAMING_BAD)
        c->all->events->broken(c->request, "the chunks of the body are not well-formed");
    else if (state == FRAMING_WHOLE)
        body_is_there(c);
    else if (content > 0)
        c->all->events->receive(c->request, data + used - content, content);
    return used;
}

static size_t feed_body(connection *c, const char *data, size_t length)
{
    if (c->head.chunked)
        return feed_chunks(c, data, length);
    size_t n = c->body_left < length ? (size_t)c->body_left : length;
    c->body_left -= n;
    c->all->events->receive(c->request, data, n);
    if (c->state == READ_BODY && c->body_left == 0)
        body_is_there(c);
    return n;
}

/* What comes before the answer has gone is kept for later. */
static bool keep_ahead(connection *c, const char *data, size_t length)
{
    c->ahead = malloc(length);
    if (!c->ahead) {
        c->head.keep_alive = false;
        return false;
    }
    memcpy(c->ahead, data, length);
    c->ahead_length = length;
    return true;
}

/* Requests that could be answered at once wait all the same: a connection takes its turn with the
 * others, however many it sends in one piece. */
static void take_turns(connection *c, const char *data, size_t length)
{
    if (keep_ahead(c, data, length))
        uv_idle_start(&c->all->idle, on_idle);
    else
        close_connection(c);
}

static void feed(connection *c, const char *data, size_t length)
{
    unsigned heads = 0;
    while (length > 0) {
        size_t used = length;
        if (c->state == READ_HEAD && heads++ < HEADS_AT_ONCE) {
            used = feed_head(c, data, length);
        } else if (c->state == READ_HEAD) {
            take_turns(c, data, length);
        } else if (c->state == READ_BODY) {
            used = feed_body(c, data, length);
        } else if (c->state == WORK || c->state == SEND) {
            (void)keep_ahead(c, data, length);
        } else if (c->state == LINGER) {
            c->dropped += length;
            if (c->dropped > c->all->limits.drain_bytes)
                close_connection(c);
        } else {
            c->keep = false; /* a request in the middle of a stream is not read */
        }
        data += used;
        length -= used;
    }
}

/* What came before the answer had gone. */
static void feed_ahead(connection *c)
{
    if (c->state != READ_HEAD || c->feeding)
        return;
    c->feeding = true;
    char *ahead = c->ahead;
    size_t length = c->ahead_length;
    c->ahead = NULL;
    c->ahead_length = 0;
    if (ahead)
        feed(c, ahead, length);
    free(ahead);
    c->feeding = false;
    if (c->tls && reads(c) && tls_session_pending(c->tls))
        on_readable(c);
}

static bool waits(const connection *c)
{
    return c->state == READ_HEAD && c->ahead_length > 0;
}

/* What waits goes on, each connection behind the others, until the turn is over. */
static void on_idle(uv_idle_t *idle)
{
    connections *all = idle->data;
    uint64_t end = uv_hrtime() + TURN;
    bool left = false;
    connection *c, *next;
    DL_FOREACH_SAFE(all->list, c, next)
    {
        if (!waits(c))
            continue;
        if (uv_hrtime() > end) {
            left = true;
            break;
        }
        DL_DELETE(all->list, c);
        DL_APPEND(all->list, c);
        feed_ahead(c);
        update_poll(c);
        left = left || waits(c);
    }
    if (!left)
        uv_idle_stop(idle);
}

/* ---- writing ---- */

/* One attempt; -1 with EAGAIN: later. */
static ssize_t write_some(connection *c)
{
    size_t out = c->out_length - c->out_sent, rest = c->body_length - c->body_sent;
    struct iovec parts[2] = {{c->out + c->out_sent, out},
                             {(void *)(c->body_data + c->body_sent), rest}};
    if (c->tls)
        return out ? tls_session_write(c->tls, parts[0].iov_base, out)
                   : tls_session_write(c->tls, parts[1].iov_base, rest);
    if (c->file < 0 || rest == 0)
        return writev(c->fd, out ? parts : parts + 1, out && rest ? 2 : 1);
    if (out)
        return send(c->fd, parts[0].iov_base, out, MSG_NOSIGNAL | MSG_MORE);
    off_t at = (off_t)c->body_sent;
    return sendfile(c->fd, c->file, &at, rest);
}

static void sent(connection *c, size_t n)
{
    size_t out = c->out_length - c->out_sent, of_out = n < out ? n : out;
    c->out_sent += of_out;
    c->body_sent += n - of_out;
    c->taken = uv_hrtime();
}

static bool drained(const connection *c)
{
    return c->out_sent == c->out_length && c->body_sent == c->body_length;
}

/* The answer has gone: the next request, or the end. */
static void after_answer(connection *c)
{
    bool unread = c->state == SEND && !c->keep;
    c->state = WORK; /* for feed, if the end of the request should lead there */
    end_request(c);
    if (c->keep)
        await_request(c);
    else if (unread)
        linger(c);
    else
        close_connection(c);
}

/* False: not all has gone, or the connection is closed. */
static bool flush(connection *c)
{
    while (!drained(c)) {
        ssize_t n = write_some(c);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return false;
        if (n < 0) {
            close_connection(c);
            return false;
        }
        sent(c, (size_t)n);
    }
    return true;
}

static bool put_out(connection *c, const char *text, size_t length)
{
    c->out_length = c->out_sent = 0;
    c->taken = uv_hrtime();
    return append(&c->out, &c->out_length, &c->out_capacity, FIRST_HEAD, text, length);
}

bool connection_keeps(const connection *c)
{
    bool whole = c->state == WORK || (!c->head.chunked && c->body_left == 0);
    return whole && c->head.keep_alive;
}

void connection_send(connection *c, const char *text, size_t length, const body *b,
                     body_coding coding, bool keep)
{
    c->keep = keep && connection_keeps(c);
    c->state = SEND;
    c->body_sent = c->body_length = 0;
    c->file = -1;
    if (b) {
        c->body = body_retain((body *)b);
        c->body_data = b->data[coding];
        c->body_length = b->length[coding];
        c->file = c->tls ? -1 : body_file(b, coding);
    }
    if (!put_out(c, text, length)) {
        close_connection(c);
        return;
    }
    const connection_limits *limits = &c->all->limits;
    c->send_by = c->taken + SECOND * (limits->idle_seconds + limits->receive_seconds +
                                      c->body_length / LEAST_RATE);
    if (flush(c))
        after_answer(c);
    feed_ahead(c);
    update_poll(c);
}

/* ---- streams ---- */

void connection_stream(connection *c, const char *text, size_t length)
{
    c->keep = !c->head.http_1_0 && c->head.keep_alive;
    c->state = STREAM;
    c->stream_over = false;
    c->body_sent = c->body_length = 0;
    c->file = -1;
    if (!put_out(c, text, length))
        close_connection(c);
    else
        flush(c);
    update_poll(c);
}

bool connection_drained(const connection *c)
{
    return drained(c);
}

static void go_on_streaming(connection *c)
{
    if (!flush(c) || !c->stream_over)
        return;
    after_answer(c);
    feed_ahead(c);
}

static void put_piece(connection *c, const char *text, size_t length)
{
    char size[24];
    int digits = snprintf(size, sizeof size, "%zx\r\n", length);
    bool whole = c->head.http_1_0
                     ? put_out(c, text, length)
                     : put_out(c, size, (size_t)digits) &&
                           append(&c->out, &c->out_length, &c->out_capacity, 0, text, length) &&
                           append(&c->out, &c->out_length, &c->out_capacity, 0, "\r\n", 2);
    if (!whole)
        close_connection(c);
}

void connection_stream_piece(connection *c, char *text, size_t length)
{
    if (c->state == STREAM && drained(c) && length > 0) {
        put_piece(c, text, length);
        if (c->state == STREAM)
            go_on_streaming(c);
        update_poll(c);
    }
    free(text);
}

void connection_stream_end(connection *c)
{
    if (c->state != STREAM || c->stream_over)
        return;
    c->stream_over = true;
    if (drained(c))
        c->out_length = c->out_sent = 0;
    if (!c->head.http_1_0 &&
        !append(&c->out, &c->out_length, &c->out_capacity, FIRST_HEAD, "0\r\n\r\n", 5)) {
        close_connection(c);
        return;
    }
    go_on_streaming(c);
    update_poll(c);
}

/* The peer of a stream says something, or goes. */
static void on_stream_readable(connection *c)
{
    ssize_t n = receive(c);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        close_connection(c);
    else if (n > 0)
        c->keep = false; /* a request in the middle of a stream is not read */
}

/* ---- the loop ---- */

static void shake_hands(connection *c)
{
    int result = tls_session_shake(c->tls);
    if (result == 0)
        await_request(c);
    if (result >= 0)
        return;
    tls_session_free(c->tls);
    c->tls = NULL;
    linger(c);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    connection *c = poll->data;
    if (status < 0) {
        close_connection(c);
        return;
    }
    if (c->state == HANDSHAKE) {
        shake_hands(c);
        if (c->state == READ_HEAD && c->tls && tls_session_pending(c->tls))
            on_readable(c);
    } else if (c->state == SEND) {
        if (flush(c))
            after_answer(c);
        feed_ahead(c);
    } else if (c->state == STREAM) {
        if (events & UV_WRITABLE)
            go_on_streaming(c);
        if (c->state == STREAM && (events & UV_READABLE))
            on_stream_readable(c);
    } else if (reads(c)) {
        on_readable(c);
    }
    update_poll(c);
}

/* What the state of the connection waits for. */
static void update_poll(connection *c)
{
    int events = 0;
    if (c->state == CLOSED)
        return;
    if (c->state == HANDSHAKE)
        events = tls_session_wants_write(c->tls) ? UV_WRITABLE : UV_READABLE;
    else if (c->state == SEND)
        events = UV_WRITABLE;
    else if (c->state == STREAM)
        events = UV_READABLE | (drained(c) ? 0 : UV_WRITABLE);
    else if (reads(c))
        events = UV_READABLE;
    if (events == c->events)
        return;
    c->events = events;
    if (events)
        uv_poll_start(&c->poll, events, on_poll);
    else
        uv_poll_stop(&c->poll);
}

static bool overdue(const connection *c, uint64_t now)
{
    const connection_limits *limits = &c->all->limits;
    uint64_t idle = limits->idle_seconds * SECOND;
    switch (c->state) {
    case HANDSHAKE:
    case READ_HEAD:
    case READ_BODY:
        return now - c->heard > idle || now - c->since > idle + limits->receive_seconds * SECOND;
    case SEND:
        return now - c->taken > idle || now > c->send_by;
    case STREAM:
        return !drained(c) && now - c->taken > idle;
    case LINGER:
        return now - c->heard > LINGER_SECONDS * SECOND ||
               now - c->since > limits->receive_seconds * SECOND;
    case WORK:
    case CLOSED:
        break;
    }
    return false;
}

static void on_tick(uv_timer_t *timer)
{
    connections *all = timer->data;
    uint64_t now = uv_hrtime();
    connection *c, *next;
    DL_FOREACH_SAFE(all->list, c, next)
    {
        if (overdue(c, now))
            close_connection(c);
    }
    if (!all->accepting && all->listener >= 0 && all->n < all->limits.connections)
        set_accepting(all, true);
}

/* ---- accepting ---- */

static void name_address(connection *c, const struct sockaddr_storage *address)
{
    const void *number = address->ss_family == AF_INET6
                             ? (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr
                             : (const void *)&((const struct sockaddr_in *)address)->sin_addr;
    if ((address->ss_family != AF_INET && address->ss_family != AF_INET6) ||
        !inet_ntop(address->ss_family, number, c->address, sizeof c->address))
        snprintf(c->address, sizeof c->address, "unknown");
}

static bool address_is_full(const connections *all, const connection *one)
{
    unsigned most = all->limits.address_connections, n = 0;
    const connection *c;
    if (most == 0)
        return false;
    DL_FOREACH(all->list, c)
    {
        n += strcmp(c->address, one->address) == 0;
    }
    return n >= most;
}

static void add_connection(connections *all, int fd, const struct sockaddr_storage *address)
{
    int on = 1;
    connection *c = calloc(1, sizeof *c);
    if (!c) {
        close(fd);
        return;
    }
    *c = (connection){.all = all, .fd = fd, .file = -1};
    name_address(c, address);
    if (address_is_full(all, c) || (all->limits.tls && !(c->tls = tls_session_new(fd))) ||
        uv_poll_init(all->loop, &c->poll, fd) != 0) {
        tls_session_free(c->tls);
        close(fd);
        free(c);
        return;
    }
    c->poll.data = c;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    DL_APPEND(all->list, c);
    all->n++;
    await_request(c);
    if (c->tls)
        c->state = HANDSHAKE;
    update_poll(c);
}

static void on_listener(uv_poll_t *poll, int status, int events)
{
    connections *all = poll->data;
    (void)events;
    for (int i = 0; status == 0 && i < ACCEPT_AT_ONCE; i++) {
        if (all->n >= all->limits.connections) {
            set_accepting(all, false);
            return;
        }
        struct sockaddr_storage address = {0};
        socklen_t length = sizeof address;
        int fd = accept4(all->listener, (struct sockaddr *)&address, &length,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            /* out of descriptors or memory: the clock tries again */
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
                set_accepting(all, false);
            return;
        }
        add_connection(all, fd, &address);
    }
}

static void set_accepting(connections *all, bool accepting)
{
    all->accepting = accepting;
    if (accepting)
        uv_poll_start(&all->poll, UV_READABLE, on_listener);
    else
        uv_poll_stop(&all->poll);
}

connections *connections_new(uv_loop_t *loop, int listener, const connection_limits *limits,
                             const connection_events *events, void *data, remat_error *error)
{
    connections *all = calloc(1, sizeof *all);
    if (!all) {
        remat_fail_memory(error);
        return NULL;
    }
    all->loop = loop;
    all->limits = *limits;
    all->events = events;
    all->data = data;
    if (uv_poll_init(loop, &all->poll, listener) != 0) {
        remat_fail(error, REMAT_IO, "listen", "the listening socket cannot be polled");
        free(all);
        return NULL;
    }
    all->listener = listener;
    uv_timer_init(loop, &all->timer);
    uv_idle_init(loop, &all->idle);
    all->poll.data = all->timer.data = all->idle.data = all;
    uv_timer_start(&all->timer, on_tick, TICK_MILLISECONDS, TICK_MILLISECONDS);
    set_accepting(all, true);
    return all;
}

unsigned connections_count(const connections *all)
{
    return all->n;
}

void connections_quiesce(connections *all)
{
    if (all->listener < 0)
        return;
    set_accepting(all, false);
    close(all->listener);
    all->listener = -1;
}

static void on_all_closed(uv_handle_t *handle)
{
    connections *all = handle->data;
    if (--all->open_handles == 0)
        free(all);
}

void connections_free(connections *all)
{
    connection *c, *next;
    connections_quiesce(all);
    DL_FOREACH_SAFE(all->list, c, next)
    {
        close_connection(c);
    }
    all->open_handles = 3;
    uv_close((uv_handle_t *)&all->poll, on_all_closed);
    uv_close((uv_handle_t *)&all->timer, on_all_closed);
    uv_close((uv_handle_t *)&all->idle, on_all_closed);
}

const head *connection_head(const connection *c)
{
    return &c->head;
}

char *connection_target(const connection *c)
{
    return c->head.target;
}

const char *connection_address(const connection *c)
{
    return c->address;
}
