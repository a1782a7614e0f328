/* How much one client may ask for: a token bucket of requests and a number of unfinished solves for
 * each client, who is a token or, without tokens, an address. Loop thread only. */
#ifndef REMAT_SERVER_LIMITS_H
#define REMAT_SERVER_LIMITS_H

#include <stdbool.h>

enum { CLIENT_SIZE = 80 }; /* of a client's name: "token ci", "address 10.0.0.7" */

typedef struct limits limits;

limits *limits_new(void); /* NULL: out of memory */
void limits_free(limits *l);

/* Takes one request out of the client's bucket, which fills at rate a second (0: no limit) and
 * holds two seconds' worth, at least ten. False: *ret_seconds until the next one. */
bool limits_admit(limits *l, const char *client, double rate, unsigned *ret_seconds);

/* One unfinished solve more; false: the client has most of them (0: no limit) already. */
bool limits_start_job(limits *l, const char *client, unsigned most);
void limits_end_job(limits *l, const char *client);

#endif
