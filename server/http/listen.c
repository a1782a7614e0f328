#include "http/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { FIRST_HANDED_OVER = 3 };

static unsigned port_of(int fd)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    char name[16] = "0";
    if (getsockname(fd, (struct sockaddr *)&address, &length) == 0)
        getnameinfo((struct sockaddr *)&address, length, NULL, 0, name, sizeof name,
                    NI_NUMERICSERV);
    return (unsigned)strtoul(name, NULL, 10);
}

/* "127.0.0.1:7070", "[::1]:7070", "localhost:0" */
static bool split_address(const char *listen_text, char *host, size_t size, const char **ret_port)
{
    const char *colon = strrchr(listen_text, ':');
    size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
    if (digits == 0 || digits > 5 || colon[1 + digits] || strtoul(colon + 1, NULL, 10) > 65535)
        return false;
    size_t length = (size_t)(colon - listen_text);
    const char *start = listen_text;
    if (length >= 2 && start[0] == '[' && start[length - 1] == ']') {
        start++;
        length -= 2;
    }
    if (length >= size)
        return false;
    memcpy(host, start, length);
    host[length] = '\0';
    *ret_port = colon + 1;
    return true;
}

/* The caller frees *ret_found. */
static remat_status find_address(const char *listen_text, struct addrinfo **ret_found,
                                 remat_error *error)
{
    char host[256];
    const char *port;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    if (!split_address(listen_text, host, sizeof host, &port))
        return remat_fail(error, REMAT_INVALID, "listen",
                          "listen is \"%s\"; it must be ADDRESS:PORT, and a port is at most 65535",
                          listen_text);
    int code = getaddrinfo(host[0] ? host : NULL, port, &hints, ret_found);
    if (code != 0)
        return remat_fail(error, REMAT_INVALID, "listen", "listen \"%s\": %s", listen_text,
                          gai_strerror(code));
    return REMAT_OK;
}

/* Whether a socket can have the address, at any port. */
static bool is_own(const struct addrinfo *found)
{
    struct sockaddr_storage any = {0};
    memcpy(&any, found->ai_addr, found->ai_addrlen);
    if (any.ss_family == AF_INET)
        ((struct sockaddr_in *)&any)->sin_port = 0;
    else if (any.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&any)->sin6_port = 0;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool own = fd >= 0 && bind(fd, (struct sockaddr *)&any, found->ai_addrlen) == 0;
    if (fd >= 0)
        close(fd);
    return own;
}

remat_status listen_check(const char *address, remat_error *error)
{
    struct addrinfo *found = NULL;
    remat_status status = find_address(address, &found, error);
    if (!status && !is_own(found))
        status = remat_fail(error, REMAT_INVALID, "listen",
                            "listen \"%s\": that is no address of this machine", address);
    if (found)
        freeaddrinfo(found);
    return status;
}

static int open_socket(const char *listen_text, remat_error *error)
{
    struct addrinfo *found = NULL;
    if (find_address(listen_text, &found, error))
        return -1;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, SOMAXCONN) != 0) {
        remat_fail(error, REMAT_IO, "listen", "cannot listen on %s: %s", listen_text,
                   strerror(errno));
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    return fd;
}

/* -1: none was. */
static int handed_over(void)
{
    const char *process = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
    if (!process || !count || strtol(process, NULL, 10) != getpid() || strtol(count, NULL, 10) < 1)
        return -1;
    int flags = fcntl(FIRST_HANDED_OVER, F_GETFL);
    if (flags < 0 || fcntl(FIRST_HANDED_OVER, F_SETFL, flags | O_NONBLOCK) < 0 ||
        fcntl(FIRST_HANDED_OVER, F_SETFD, FD_CLOEXEC) < 0)
        return -1;
    return FIRST_HANDED_OVER;
}

int listen_open(const char *address, unsigned *ret_port, remat_error *error)
{
    int fd = handed_over();
    if (fd < 0)
        fd = open_socket(address, error);
    if (fd >= 0)
        *ret_port = port_of(fd);
    return fd;
}

void listen_notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!path || strlen(path) >= sizeof address.sun_path)
        return;
    memcpy(address.sun_path, path, strlen(path));
    if (address.sun_path[0] == '@')
        address.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address, length);
    close(fd);
}
