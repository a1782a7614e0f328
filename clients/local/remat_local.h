/* The solver in the caller's own process: what POST /v1/schedules, /v1/simulations and /v1/plans
 * answer, without a server. libremat-local.so exports these functions and nothing else.
 *
 * Text is UTF-8 JSON. Thread-safe: calls share nothing. A call for a schedule uses every core that
 * the process may use, on threads that end with it; the answer does not depend on their number.
 * Nothing is written, no table outlives its call. */
#ifndef REMAT_LOCAL_H
#define REMAT_LOCAL_H

#include <stddef.h>

/* progress: called from the calling thread alone, every few milliseconds while solvers run, with
 * the fraction that is done, which never falls; true, once, ends the call: with the problem
 * "cancelled" unless the answer is there before the solvers look. NULL: nobody asks. */
typedef int (*remat_local_progress)(void *data, double fraction);

/* The answer to the body of a POST: path is "/v1/schedules", "/v1/simulations" or "/v1/plans", and
 * the body holds the profile itself. *ret_status: of HTTP, 200 for an answer, else that of the
 * problem document (RFC 9457) that is returned. A schedule has been replayed by the judge. Freed
 * with remat_local_free; NULL: out of memory. A problem too where a schedule wants a thread and the
 * process may start none. */
char *remat_local_post(const char *path, const char *body, size_t length,
                       remat_local_progress progress, void *data, int *ret_status);
void remat_local_free(char *text); /* accepts NULL */

/* Of the build, such as "0.1.0"; static. */
const char *remat_local_version(void);

#endif
