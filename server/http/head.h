/* What a request's head must be beyond what libmicrohttpd asks of it: so plain that no other reader
 * can take the request, or where it ends, for something else. What is doubtful is refused, never
 * mended. */
#ifndef REMAT_SERVER_HEAD_H
#define REMAT_SERVER_HEAD_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

/* Of a head, at most; libmicrohttpd refuses more. */
enum { HTTP_HEAD_BYTES = 32768 };

typedef struct http_head {
    const char *host; /* of an absolute target, else of the field; NULL: HTTP/1.0 without one */
    uint64_t length;  /* of the body, unless it is chunked */
    bool chunked;
} http_head;

/* Reads the fields of the connection's request. target: as it was sent; cut up in place where it
 * is absolute, and *ret_target is what follows the host. Returns 0, or the status of the refusal
 * (400, 411, 417, 431, 505), of which *ret_why says why. */
int http_head_read(http_head *h, struct MHD_Connection *connection, const char *method,
                   const char *version, char *target, char **ret_target, const char **ret_why);

/* Of either case; -1: it is none. */
int http_hex_digit(char c);

#endif
