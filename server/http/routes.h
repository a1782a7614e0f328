/* Which request means what. */
#ifndef REMAT_SERVER_ROUTES_H
#define REMAT_SERVER_ROUTES_H

#include "http/http.h"

/* Finds the route of r->method and path, and fills r->route and r->id. False: r->reply is the
 * problem. */
bool routes_find(request *r, const char *path);

/* The scope that a token needs for the request. */
unsigned routes_scope(const request *r);

/* Whether the route takes a body. */
bool routes_takes_body(const request *r);

/* Whether the query of the request may have that parameter; name: of one that some route has. */
bool routes_takes_parameter(const request *r, const char *name);

/* Bytes of a body that the route takes, also after decoding; of a route that was found. */
uint64_t routes_body_limit(const request *r);

/* Counts bytes against the budget of all requests, to the end of this one. REMAT_TOO_LARGE: there
 * is no room, with r->busy because others have it. */
remat_status routes_take_memory(request *r, uint64_t bytes, remat_error *error);

/* Starts the work of a request whose body is there. Either r->reply is filled and true is returned,
 * or http_answer is called later. */
bool routes_dispatch(request *r);

/* Names for metrics; index 0 is "unknown". */
const char *const *routes_names(size_t *ret_count);

#endif
