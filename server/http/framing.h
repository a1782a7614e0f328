/* HTTP/1.1 as bytes (RFC 9112), read so strictly that no other reader can take it for something
 * else: lines end with CRLF alone, nothing is folded, names end at their colon, a length is given
 * once and one way. What is doubtful is refused, never mended. No I/O, no allocation. */
#ifndef REMAT_SERVER_FRAMING_H
#define REMAT_SERVER_FRAMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum framing_state { FRAMING_MORE, FRAMING_WHOLE, FRAMING_BAD } framing_state;

/* ---- heads ---- */

/* Looks for the end of a head while it comes in; begins all zero. */
typedef struct head_scan {
    bool cr; /* the last character */
    unsigned lines, blank;
    size_t line; /* characters of the line under way */
} head_scan;

/* The next length characters. FRAMING_WHOLE: *ret_used of them belong to the head, with its empty
 * line. FRAMING_BAD: a line does not end with CRLF, or holds a control character. */
framing_state head_scan_feed(head_scan *scan, const char *text, size_t length, size_t *ret_used);

enum { HEAD_FIELDS = 100 };

typedef struct head_field {
    const char *name, *value;
} head_field;

typedef struct head {
    const char *method;
    char *target;     /* begins with a slash, or is "*" */
    const char *host; /* of an absolute target, else of the field; NULL: HTTP/1.0 without one */
    head_field fields[HEAD_FIELDS];
    size_t n_fields;
    uint64_t length; /* of the body, unless it is chunked */
    bool chunked, http_1_0, keep_alive, expects_continue;
} head;

/* Reads a whole head, which is cut up in place and must last as long as *h. Returns 0, or the
 * status of the refusal (400, 417, 431, 505), of which *ret_why says why. */
int head_read(head *h, char *text, size_t length, const char **ret_why);

/* The first value of that name; NULL: none. */
const char *head_value(const head *h, const char *name);

/* Of either case; -1: it is none. */
int http_hex_digit(char c);

/* ---- chunked bodies ---- */

/* Begins all zero. */
typedef struct chunks {
    enum { CHUNK_SIZE, CHUNK_SIZE_END, CHUNK_DATA, CHUNK_CR, CHUNK_END, LAST_CR, LAST_END } at;
    unsigned digits;
    uint64_t left; /* of the chunk under way */
} chunks;

/* Takes the next length bytes up to the first piece of content: *ret_content bytes of it are the
 * last of the *ret_used that were taken. FRAMING_WHOLE: the body has ended. Chunk extensions and
 * trailers are refused. */
framing_state chunks_feed(chunks *c, const char *data, size_t length, size_t *ret_used,
                          size_t *ret_content);

#endif
