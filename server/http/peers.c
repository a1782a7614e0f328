#include "http/peers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

enum {
    TICK_MILLISECONDS = 500,
    LINGER_SECONDS = 2, /* that a peer may be silent after its last answer */
    LEAST_RATE = 8192,  /* bytes a second at which an answer must be taken */
    EVENTS = 64
};
#define SECOND UINT64_C(1000000000)

struct peers {
    peer *list;
    unsigned n, n_lingering, open_handles;
    peer_limits limits;
    void (*hung_up)(peer *one);
    int watch; /* epoll: suspended peers, for their hanging up, and lingering ones */
    uv_poll_t poll;
    uv_timer_t timer;
};

/* ---- lingering ---- */

static void forget(peer *one)
{
    peers *all = one->all;
    DL_DELETE(all->list, one);
    free(one);
}

static void close_lingering(peer *one)
{
    one->all->n_lingering--;
    close(one->fd);
    forget(one);
}

/* Reads what there is and drops it. False: there will be no more, or it is too much. */
static bool drain(peer *one)
{
    static char dropped[65536];
    ssize_t n;
    while ((n = recv(one->fd, dropped, sizeof dropped, MSG_DONTWAIT)) > 0) {
        one->heard = uv_hrtime();
        one->dropped += (uint64_t)n;
        if (one->dropped > one->all->limits.drain_bytes)
            return false;
    }
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static bool watch(peer *one, uint32_t events)
{
    struct epoll_event event = {.events = events, .data = {.ptr = one}};
    return epoll_ctl(one->all->watch, EPOLL_CTL_ADD, one->fd, &event) == 0;
}

static void unwatch(peer *one)
{
    epoll_ctl(one->all->watch, EPOLL_CTL_DEL, one->fd, NULL);
}

void peer_remove(peer *one)
{
    peers *all = one->all;
    all->n--;
    one->connection = NULL;
    if (one->suspended)
        unwatch(one);
    one->suspended = false;
    if (all->n_lingering >= all->limits.connections || !drain(one) ||
        (one->fd = fcntl(one->fd, F_DUPFD_CLOEXEC, 0)) < 0) {
        forget(one);
        return;
    }
    all->n_lingering++;
    one->heard = uv_hrtime();
    one->deadline = one->heard + all->limits.receive_seconds * SECOND;
    if (shutdown(one->fd, SHUT_WR) != 0 || !watch(one, EPOLLIN | EPOLLRDHUP))
        close_lingering(one);
}

/* ---- the loop ---- */

static void on_watch(uv_poll_t *poll, int status, int events)
{
    peers *all = poll->data;
    struct epoll_event found[EVENTS];
    int n = epoll_wait(all->watch, found, EVENTS, 0);
    (void)status;
    (void)events;
    for (int i = 0; i < n; i++) {
        peer *one = found[i].data.ptr;
        if (one->connection)
            all->hung_up(one);
        else if (!drain(one))
            close_lingering(one);
    }
}

static void on_tick(uv_timer_t *timer)
{
    peers *all = timer->data;
    uint64_t now = uv_hrtime();
    peer *one, *next;
    DL_FOREACH_SAFE(all->list, one, next)
    {
        bool silent = !one->connection && now - one->heard > LINGER_SECONDS * SECOND;
        if (!silent && (one->deadline == 0 || now < one->deadline))
            continue;
        if (!one->connection) {
            close_lingering(one);
            continue;
        }
        shutdown(one->fd, SHUT_RDWR); /* which libmicrohttpd sees */
        one->deadline = 0;
    }
}

/* ---- peers ---- */

static void name_address(peer *one, const struct sockaddr *address)
{
    const void *number = address->sa_family == AF_INET6
                             ? (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr
                             : (const void *)&((const struct sockaddr_in *)address)->sin_addr;
    if ((address->sa_family != AF_INET && address->sa_family != AF_INET6) ||
        !inet_ntop(address->sa_family, number, one->address, sizeof one->address))
        snprintf(one->address, sizeof one->address, "unknown");
}

peer *peers_add(peers *all, struct MHD_Connection *connection)
{
    peer *one = calloc(1, sizeof *one);
    if (!one)
        return NULL;
    one->all = all;
    one->connection = connection;
    one->fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    name_address(
        one, MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr);
    DL_APPEND(all->list, one);
    all->n++;
    peer_await(one);
    return one;
}

peer *peer_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

unsigned peers_count(const peers *all)
{
    return all->n;
}

static uint64_t patience(const peer *one)
{
    const peer_limits *limits = &one->all->limits;
    return uv_hrtime() + SECOND * (limits->idle_seconds + limits->receive_seconds);
}

void peer_await(peer *one)
{
    one->deadline = patience(one);
}

void peer_answer(peer *one, uint64_t length)
{
    one->deadline = patience(one) + SECOND * (length / LEAST_RATE);
}

void peer_rest(peer *one)
{
    one->deadline = 0;
}

/* libmicrohttpd looks at no socket of a suspended connection. */
void peer_suspend(peer *one)
{
    one->suspended = true;
    MHD_suspend_connection(one->connection);
    if (!watch(one, EPOLLRDHUP))
        one->deadline = patience(one); /* no descriptors, no memory: it may not stay for ever */
}

void peer_resume(peer *one)
{
    one->suspended = false;
    unwatch(one);
    MHD_resume_connection(one->connection);
}

void peers_each_suspended(peers *all, void (*call)(peer *one))
{
    peer *one, *next;
    DL_FOREACH_SAFE(all->list, one, next)
    {
        if (one->suspended)
            call(one);
    }
}

/* ---- starting and stopping ---- */

peers *peers_new(uv_loop_t *loop, const peer_limits *limits, void (*hung_up)(peer *one))
{
    peers *all = calloc(1, sizeof *all);
    if (!all)
        return NULL;
    all->limits = *limits;
    all->hung_up = hung_up;
    all->watch = epoll_create1(EPOLL_CLOEXEC);
    if (all->watch < 0 || uv_poll_init(loop, &all->poll, all->watch) != 0) {
        if (all->watch >= 0)
            close(all->watch);
        free(all);
        return NULL;
    }
    uv_timer_init(loop, &all->timer);
    all->poll.data = all->timer.data = all;
    uv_poll_start(&all->poll, UV_READABLE, on_watch);
    uv_timer_start(&all->timer, on_tick, TICK_MILLISECONDS, TICK_MILLISECONDS);
    return all;
}

static void on_closed(uv_handle_t *handle)
{
    peers *all = handle->data;
    if (--all->open_handles > 0)
        return;
    close(all->watch);
    free(all);
}

void peers_free(peers *all)
{
    peer *one, *next;
    if (!all)
        return;
    DL_FOREACH_SAFE(all->list, one, next)
    {
        close_lingering(one);
    }
    all->open_handles = 2;
    uv_close((uv_handle_t *)&all->poll, on_closed);
    uv_close((uv_handle_t *)&all->timer, on_closed);
}
