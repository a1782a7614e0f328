/* Replies as responses of libmicrohttpd. Loop thread only. */
#ifndef REMAT_SERVER_RESPOND_H
#define REMAT_SERVER_RESPOND_H

#include "http/http.h"

/* The response to send for r->reply, which becomes 304 where the client has what was asked for; its
 * stream, if it has one, is the response's. *ret_length: bytes of its body. NULL: out of memory. */
struct MHD_Response *respond_make(request *r, uint64_t *ret_length);

#endif
