/* Who may ask what: names and origins here, bearer tokens in tokens.h, how much one client may ask
 * in limits.h, TLS in tls.h. Loop thread only. */
#ifndef REMAT_SERVER_SECURITY_H
#define REMAT_SERVER_SECURITY_H

#include "http/http.h"

/* Whose name a request is for, and whose page sends it. Without tokens a browser on this machine is
 * all that an attacker needs: a page that rebinds its own name to this address would be let in, but
 * it cannot make the browser name another host than its own.
 *
 * False: r->reply is 421, since the request is for a host that is not served here, or 403, since a
 * page of another origin would change something. Hosts that are served: localhost, every address (a
 * page of an address has that address's origin, which cannot be rebound), the host of --listen, and
 * those of --host. With tokens and without --host every name is served. */
bool security_allow_origin(request *r);

/* Address or bearer token, scope, rate. Fills r->client, r->most_jobs and r->admin. False: r->reply
 * is 401, 403 or 429. needed: the scope that the route asks for; SCOPE_NONE: anybody, at any rate.
 */
bool security_admit(request *r, unsigned needed);

#endif
