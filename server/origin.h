/* Whose name a request is for, and whose page sends it. Without tokens a browser on this machine is
 * all that an attacker needs: a page that rebinds its own name to this address would be let in, but it
 * cannot make the browser name another host than its own. */
#ifndef REMAT_SERVER_ORIGIN_H
#define REMAT_SERVER_ORIGIN_H

#include "http.h"

/* False: r->reply is 421, since the request is for a host that is not served here, or 403, since a page
 * of another origin would change something. Hosts that are served: localhost, every address (a page of
 * an address has that address's origin, which cannot be rebound), the host of --listen, and those of
 * --host. With tokens and without --host every name is served. */
bool origin_allow(request *r);

#endif
