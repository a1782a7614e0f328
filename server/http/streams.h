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

/* The head of a stream has gone: its events may follow. The stream may be gone after. */
void streams_begin(stream *one);
/* Its connection has ended; it is freed. */
void streams_closed(stream *one);

/* Ends every stream: the daemon is stopping. */
void streams_stop(streams *list);

unsigned streams_count(const streams *list);

#endif
