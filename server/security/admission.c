#include "security/security.h"

#include "http/reply.h"
#include "service.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* The token of the request; NULL: r->reply says that there is none. */
static const token *authenticate(request *r)
{
    const char *given = http_header(r, "Authorization");
    const token *one = NULL;
    if (given && strncasecmp(given, "Bearer ", 7) == 0) {
        given += 7 + strspn(given + 7, " ");
        one = tokens_find(&r->service->tokens, given);
    }
    if (one)
        return one;
    reply_refuse(r, REMAT_PROBLEM_UNAUTHORIZED, "",
                 given ? "this bearer token is not known, or was revoked"
                       : "Authorization: Bearer and a token is needed here");
    r->reply.authenticate = true;
    return NULL;
}

bool security_admit(request *r, unsigned needed)
{
    const config *c = &r->service->config;
    double rate = c->address_rate;
    unsigned seconds = 1;
    if (needed == SCOPE_NONE)
        return true;
    r->most_jobs = c->address_jobs;
    r->admin = !c->tokens[0];
    if (c->tokens[0]) {
        const token *one = authenticate(r);
        if (!one)
            return false;
        if (!(one->scopes & needed))
            return reply_refuse(r, REMAT_PROBLEM_FORBIDDEN, "", "the token needs the scope %s",
                                needed == SCOPE_READ   ? "read"
                                : needed & SCOPE_SOLVE ? "solve"
                                                       : "admin");
        snprintf(r->client, sizeof r->client, "token %s", one->name);
        rate = one->rate;
        r->most_jobs = one->jobs;
        r->admin = one->scopes & SCOPE_ADMIN;
    }
    if (limits_admit(r->service->limits, r->client, rate, &seconds))
        return true;
    reply_refuse(r, REMAT_PROBLEM_RATE_LIMITED, "",
                 "too many requests; Retry-After says when to come again");
    r->reply.retry_after = seconds;
    return false;
}
