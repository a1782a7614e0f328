/* Connections: sockets on the libuv loop, TLS over them, requests read off them and answers written
 * to them, each within its time. What a request means is not known here. Loop thread only. */
#ifndef REMAT_SERVER_CONNECTION_H
#define REMAT_SERVER_CONNECTION_H

#include "http/body.h"
#include "http/framing.h"

#include <uv.h>

typedef struct connection connection;
typedef struct connections connections;

/* What becomes of a request; the first argument of all but open is what open returned. */
typedef struct connection_events {
    void *(*open)(void *data, connection *c); /* NULL: no memory; the connection is closed */
    /* Its head is there. refusal: 0, or the status that it deserves, and why: answer now. Else may
     * be answered now, whatever is still to come of the body. */
    void (*begin)(void *request, int refusal, const char *why);
    void (*receive)(void *request, const char *data, size_t length); /* of the body */
    void (*whole)(void *request);                   /* the body is there: answer now or later */
    void (*broken)(void *request, const char *why); /* the body makes no sense: answer now */
    void (*end)(void *request);                     /* it was answered, or nobody listens */
} connection_events;

typedef struct connection_limits {
    unsigned connections;         /* at a time */
    unsigned address_connections; /* of one address; 0: any */
    unsigned idle_seconds;        /* that a peer may be silent, or take nothing */
    unsigned receive_seconds;     /* to send a request, beyond that */
    uint64_t drain_bytes;         /* read and dropped of a body after an early answer */
    bool tls;
} connection_limits;

/* Takes listener, a listening socket, and serves it. */
connections *connections_new(uv_loop_t *loop, int listener, const connection_limits *limits,
                             const connection_events *events, void *data, remat_error *error);
unsigned connections_count(const connections *all);
/* Accepts no more; what is open goes on. */
void connections_quiesce(connections *all);
/* Closes what is open. Every request must have been answered. */
void connections_free(connections *all);

/* Whether the connection can go on after an answer now: the peer wishes it, and the request is
 * there to its end. */
bool connection_keeps(const connection *c);
const head *connection_head(const connection *c);
char *connection_target(const connection *c);        /* may be cut up */
const char *connection_address(const connection *c); /* of the peer, as text */

/* Answers the request under way: head, with its empty line, and b (NULL: none) in that coding. The
 * request may have ended when this returns. keep: the connection may go on after it. */
void connection_send(connection *c, const char *head, size_t length, const body *b,
                     body_coding coding, bool keep);

/* Answers with a stream: head now, then pieces. text is taken. A piece is lost while the one before
 * is still under way. */
void connection_stream(connection *c, const char *head, size_t length);
bool connection_drained(const connection *c);
void connection_stream_piece(connection *c, char *text, size_t length);
void connection_stream_end(connection *c);

#endif
