#include "http/head.h"

#include <string.h>
#include <strings.h>

enum { MOST_FIELDS = 100, LENGTH_DIGITS = 18 };

/* Fields that may be given once. */
typedef enum known_field { HOST, LENGTH, CODING, EXPECT, AUTHORIZATION, ORIGIN, KNOWN } known_field;

/* What a look at all fields finds. */
typedef struct findings {
    const char *why; /* of a field that is none; NULL: there is no such */
    const char *end; /* of the last value */
    unsigned fields, counts[KNOWN];
    const char *values[KNOWN];
} findings;

static bool is_token(const char *text, size_t length)
{
    static const char marks[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && !memchr(marks, c, sizeof marks - 1))
            return false;
    }
    return length > 0;
}

static bool has_control(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (((unsigned char)text[i] < ' ' && text[i] != '\t') || text[i] == 0x7F)
            return true;
    return false;
}

/* Values end at a NUL for libmicrohttpd 0.9.75, whatever follows it; but it hands out pointers into
 * the head as it came, where the next field, or the empty line, follows behind one line's end. What
 * was moved elsewhere, as a folded line, is not within a head's length. */
static bool hides_text(const char *end, const char *next, size_t most_between)
{
    return MHD_VERSION < 0x01000000 && end && next > end + most_between &&
           next - end < HTTP_HEAD_BYTES;
}

/* libmicrohttpd 0.9.75 leaves them at the end of a value. */
static void cut_blanks(char *value, size_t length)
{
    while (length > 0 && (value[length - 1] == ' ' || value[length - 1] == '\t'))
        value[--length] = '\0';
}

static enum MHD_Result look(void *data, enum MHD_ValueKind kind, const char *name,
                            size_t name_length, const char *value, size_t value_length)
{
    static const char *const known[KNOWN] = {"Host",   "Content-Length", "Transfer-Encoding",
                                             "Expect", "Authorization",  "Origin"};
    findings *f = data;
    (void)kind;
    if (name_length > 0 && !is_token(name, name_length))
        f->why = "a header line is not like Name: value, or is folded";
    else if (has_control(value, value_length) || hides_text(f->end, name, 2))
        f->why = "a header field holds a control character";
    f->end = value + value_length;
    f->fields++;
    unsigned i = 0;
    while (i < KNOWN && strcasecmp(name, known[i]) != 0)
        i++;
    if (i < KNOWN && f->counts[i]++ == 0)
        f->values[i] = value;
    if (i != CODING) /* by which libmicrohttpd went as it was */
        cut_blanks((char *)value, value_length);
    return MHD_YES;
}

/* "http://host/path" is "/path", and the host is that of the target. */
static bool read_target(http_head *h, char *target, char **ret_target)
{
    size_t length = strlen(target);
    if (length == 0 || has_control(target, length) || strpbrk(target, " \t"))
        return false;
    *ret_target = target;
    if (target[0] == '/' || strcmp(target, "*") == 0)
        return true;
    size_t scheme = strncasecmp(target, "http://", 7) == 0    ? 7
                    : strncasecmp(target, "https://", 8) == 0 ? 8
                                                              : 0;
    size_t name = scheme ? strcspn(target + scheme, "/?#") : 0;
    if (name == 0 || target[scheme + name] != '/')
        return false;
    memmove(target, target + scheme, name); /* to the front, to make room for its end */
    target[name] = '\0';
    h->host = target;
    *ret_target = target + scheme + name;
    return true;
}

static bool read_length(http_head *h, const char *text)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > LENGTH_DIGITS || text[digits])
        return false;
    for (size_t i = 0; i < digits; i++)
        h->length = h->length * 10 + (uint64_t)(text[i] - '0');
    return true;
}

/* Where the body ends. */
static int read_body_length(http_head *h, const findings *f, const char *method, bool old,
                            const char **ret_why)
{
    const char *length = f->values[LENGTH], *coding = f->values[CODING];
    *ret_why = "Content-Length and Transfer-Encoding may be given once, and not both";
    if (f->counts[LENGTH] + f->counts[CODING] > 1)
        return 400;
    *ret_why = "Content-Length must be a number of bytes";
    if (length && !read_length(h, length))
        return 400;
    *ret_why = "Transfer-Encoding must be chunked, in HTTP/1.1";
    h->chunked = coding != NULL;
    if (coding && (old || strcasecmp(coding, "chunked") != 0))
        return 400;
    *ret_why = "POST and PUT need a Content-Length or a Transfer-Encoding";
    bool sends = strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0;
    return sends && !length && !coding ? 411 : 0;
}

static int read_fields(http_head *h, const findings *f, const char *method, bool old,
                       const char **ret_why)
{
    *ret_why = f->why;
    if (f->why)
        return 400;
    *ret_why = "the head has too many header fields";
    if (f->fields > MOST_FIELDS)
        return 431;
    int status = read_body_length(h, f, method, old, ret_why);
    if (status)
        return status;
    *ret_why = "a request has one Host";
    if (f->counts[HOST] > 1 || (f->counts[HOST] == 0 && !old))
        return 400;
    if (!h->host)
        h->host = f->values[HOST];
    *ret_why = "a request has one Authorization and one Origin";
    if (f->counts[AUTHORIZATION] > 1 || f->counts[ORIGIN] > 1)
        return 400;
    *ret_why = "only 100-continue may be expected";
    const char *expected = f->values[EXPECT];
    return expected && !old && strcasecmp(expected, "100-continue") != 0 ? 417 : 0;
}

int http_head_read(http_head *h, struct MHD_Connection *connection, const char *method,
                   const char *version, char *target, char **ret_target, const char **ret_why)
{
    findings f = {0};
    bool old = strcmp(version, "HTTP/1.0") == 0;
    *h = (http_head){0};
    *ret_target = target;
    *ret_why = "HTTP/1.1 and HTTP/1.0 are spoken here";
    if (!old && strcmp(version, "HTTP/1.1") != 0)
        return 505;
    *ret_why = "the request line is not like GET /path HTTP/1.1";
    if (!is_token(method, strlen(method)) || !read_target(h, target, ret_target))
        return 400;
    MHD_get_connection_values_n(connection, MHD_HEADER_KIND, look, &f);
    const char *end =
        method +
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)->header_size;
    if (hides_text(f.end, end, 4))
        f.why = "a header field holds a control character";
    return read_fields(h, &f, method, old, ret_why);
}

int http_hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}
