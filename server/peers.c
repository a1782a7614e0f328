#include "peers.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <utlist.h>

enum { LOOK_MILLISECONDS = 1000 };

typedef struct peer {
    struct MHD_Connection *connection;
    struct peer *prev, *next;
    uint64_t waiting_since; /* uv_hrtime; 0: its request is there and being answered */
} peer;

struct peers {
    peer *list;
    uint64_t limit; /* nanoseconds */
    uv_timer_t timer;
};

static void on_look(uv_timer_t *timer)
{
    peers *p = timer->data;
    uint64_t now = uv_hrtime();
    peer *one;
    DL_FOREACH(p->list, one)
    {
        if (!one->waiting_since || now - one->waiting_since < p->limit)
            continue;
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(one->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        if (info)
            shutdown(info->connect_fd, SHUT_RDWR);
        one->waiting_since = now;
    }
}

peers *peers_new(uv_loop_t *loop, unsigned seconds)
{
    peers *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->limit = seconds * UINT64_C(1000000000);
    uv_timer_init(loop, &p->timer);
    p->timer.data = p;
    uv_timer_start(&p->timer, on_look, LOOK_MILLISECONDS, LOOK_MILLISECONDS);
    return p;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void peers_free(peers *p)
{
    if (p)
        uv_close((uv_handle_t *)&p->timer, on_closed);
}

void *peers_add(peers *p, struct MHD_Connection *connection)
{
    peer *one = p ? calloc(1, sizeof *one) : NULL;
    if (!one)
        return NULL;
    *one = (peer){.connection = connection, .waiting_since = uv_hrtime()};
    DL_APPEND(p->list, one);
    return one;
}

void peers_remove(peers *p, void *context)
{
    peer *one = context;
    if (!one)
        return;
    DL_DELETE(p->list, one);
    free(one);
}

void peers_waiting(struct MHD_Connection *connection, bool waiting)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    peer *one = info ? info->socket_context : NULL;
    if (one)
        one->waiting_since = waiting ? uv_hrtime() : 0;
}
