#include "security/security.h"

#include "http/reply.h"
#include "service.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { NAME_SIZE = 256 };

/* The name in "name:port", "[::1]:port" or "name." False: it is none. */
static bool name_of(const char *authority, char name[NAME_SIZE])
{
    bool bracket = authority[0] == '[';
    const char *start = authority + bracket;
    size_t length = strcspn(start, bracket ? "]" : ":");
    const char *rest = start + length + (bracket && start[length] == ']');
    if (length == 0 || length >= NAME_SIZE || (bracket && start[length] != ']') ||
        (*rest && (*rest != ':' || strspn(rest + 1, "0123456789") != strlen(rest + 1))))
        return false;
    memcpy(name, start, length);
    name[length] = '\0';
    if (length > 1 && name[length - 1] == '.')
        name[length - 1] = '\0';
    return true;
}

static bool is_address(const char *name)
{
    unsigned char room[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, name, room) == 1 || inet_pton(AF_INET6, name, room) == 1;
}

static bool is_local(const char *name)
{
    size_t length = strlen(name);
    return strcasecmp(name, "localhost") == 0 ||
           (length > 10 && strcasecmp(name + length - 10, ".localhost") == 0);
}

/* Whether the comma-separated list holds the name, or any. */
static bool is_listed(const char *list, const char *name, bool any_counts)
{
    size_t length = strlen(name);
    for (const char *s = list; *s; s += strcspn(s, ",")) {
        s += strspn(s, ", ");
        size_t item = strcspn(s, ", ");
        if ((item == length && strncasecmp(s, name, length) == 0) ||
            (any_counts && item == 1 && *s == '*'))
            return true;
    }
    return false;
}

static bool is_served(const config *c, const char *host)
{
    char name[NAME_SIZE], listen[NAME_SIZE];
    if (c->tokens[0] && !c->hosts[0])
        return true;
    if (!name_of(host, name))
        return false;
    return is_address(name) || is_local(name) || is_listed(c->hosts, name, true) ||
           (name_of(c->listen, listen) && strcasecmp(listen, name) == 0);
}

/* Whether a page of that origin is the daemon's own, under the name of this request or of
 * --host. */
static bool is_own(const config *c, const char *origin, const char *host)
{
    char name[NAME_SIZE];
    const char *authority = strstr(origin, "://");
    if (!authority)
        return false;
    authority += 3;
    return (host && strcasecmp(authority, host) == 0) ||
           (name_of(authority, name) && is_listed(c->hosts, name, false));
}

bool security_allow_origin(request *r)
{
    const config *c = &r->service->config;
    const char *host = r->head.host, *origin = http_header(r, "Origin");
    bool changes = strcmp(r->method, "GET") != 0 && strcmp(r->method, "HEAD") != 0;
    if (host && !is_served(c, host))
        return reply_refuse(
            r, REMAT_PROBLEM_MISDIRECTED, "Host",
            "Host is \"%.80s\", a name that this server does not have; --host gives it one", host);
    if (!changes || !origin || is_own(c, origin, host))
        return true;
    return reply_refuse(r, REMAT_PROBLEM_FOREIGN_ORIGIN, "Origin",
                        "Origin is \"%.80s\"; pages of other origins may only read", origin);
}
