/* Who is asking, and may they: address or bearer token, scope, rate. Loop thread only. */
#ifndef REMAT_SERVER_ADMISSION_H
#define REMAT_SERVER_ADMISSION_H

#include "http.h"

/* Fills r->client and r->most_jobs. False: r->reply is 401, 403 or 429. needed: the scope that the
 * route asks for; SCOPE_NONE: anybody, at any rate. */
bool admission_allow(request *r, unsigned needed);

#endif
