/* The connections of libmicrohttpd, and what it does not do for them: limits of time while a
 * request is sent and an answer is taken, peers that hang up while they wait, and sockets that are
 * closed before all that was sent to them was read. Loop thread only. */
#ifndef REMAT_SERVER_PEERS_H
#define REMAT_SERVER_PEERS_H

#include <microhttpd.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

typedef struct peers peers;

typedef struct peer {
    struct peers *all;
    struct peer *prev, *next;
    struct MHD_Connection *connection; /* NULL: it is closed, and its socket lingers */
    void *request;                     /* under way; NULL: none */
    int fd;
    bool suspended;
    uint64_t deadline; /* uv_hrtime; 0: none */
    uint64_t heard;    /* while it lingers: uv_hrtime, and how much came since */
    uint64_t dropped;
    char address[INET6_ADDRSTRLEN];
} peer;

typedef struct peer_limits {
    unsigned connections, idle_seconds, receive_seconds;
    uint64_t drain_bytes;
} peer_limits;

/* hung_up: a suspended peer has closed its end. NULL: out of memory or descriptors. */
peers *peers_new(uv_loop_t *loop, const peer_limits *limits, void (*hung_up)(peer *one));
void peers_free(peers *all); /* accepts NULL; every connection must have been closed */

/* Connections; without those that linger. */
unsigned peers_count(const peers *all);

/* For MHD_OPTION_NOTIFY_CONNECTION. NULL: no memory. */
peer *peers_add(peers *all, struct MHD_Connection *connection);
/* Its socket is about to be closed. What the peer still sends is read and dropped for a while:
 * else the system would tell it that the connection was lost, and its last answer with it. */
void peer_remove(peer *one);

peer *peer_of(struct MHD_Connection *connection);

/* From now on a request must come within its time. */
void peer_await(peer *one);
/* An answer of that many bytes must be taken within its time. */
void peer_answer(peer *one, uint64_t length);
/* Nothing is awaited of it. */
void peer_rest(peer *one);

/* Within a callback of libmicrohttpd, which lets the connection rest. */
void peer_suspend(peer *one);
/* Outside of them; libmicrohttpd must be run after it. */
void peer_resume(peer *one);

/* Calls of every peer that is suspended. */
void peers_each_suspended(peers *all, void (*call)(peer *one));

#endif
