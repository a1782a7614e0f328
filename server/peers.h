/* Connections that take too long to send a request. libmicrohttpd closes silent ones; one that sends
 * a byte now and then it would keep for ever. Loop thread only. */
#ifndef REMAT_SERVER_PEERS_H
#define REMAT_SERVER_PEERS_H

#include <microhttpd.h>
#include <stdbool.h>
#include <uv.h>

typedef struct peers peers;

/* seconds: from the end of one request to the whole of the next. NULL: out of memory, and nobody is
 * watched; every function accepts it. */
peers *peers_new(uv_loop_t *loop, unsigned seconds);
void peers_free(peers *p); /* every connection must be gone */

/* What to keep as the connection's socket_context. */
void *peers_add(peers *p, struct MHD_Connection *connection);
void peers_remove(peers *p, void *peer);

/* Whether the connection's request is still being sent, or the next one. */
void peers_waiting(struct MHD_Connection *connection, bool waiting);

#endif
