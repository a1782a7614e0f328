/* Server-sent events: what becomes of a job, told while it goes on. Loop thread only. */
#ifndef REMAT_SERVER_STREAMS_H
#define REMAT_SERVER_STREAMS_H

#include "http/http.h"

typedef struct streams streams;

streams *streams_new(struct service *s); /* NULL: out of memory */
void streams_free(streams *list);        /* accepts NULL; no stream may be open */

/* Makes the reply of r a stream of the job's events: "progress" at least once a second, "end" as
 * the last. first: what the job is now; taken. */
void streams_open(request *r, json_t *first);

/* Sends it, as long as the request lives, whose stream it stays. NULL: out of memory. */
struct MHD_Response *stream_response(stream *one);
/* Its reader has gone: when libmicrohttpd asks next, the connection is closed. */
void stream_hung_up(stream *one);
/* Its request has ended; it is freed. */
void streams_closed(stream *one);

/* Ends every stream: the daemon is stopping. */
void streams_stop(streams *list);

#endif
