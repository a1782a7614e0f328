#include "http/framing.h"

#include <string.h>
#include <strings.h>

enum { MOST_BLANK_LINES = 1, LENGTH_DIGITS = 18, CHUNK_DIGITS = 15 };

/* ---- heads ---- */

/* An empty line before the first one is skipped, as RFC 9112 asks; a second is not. */
static framing_state end_line(head_scan *s)
{
    bool empty = s->line == 0;
    s->line = 0;
    if (!empty)
        s->lines++;
    else if (s->lines > 0)
        return FRAMING_WHOLE;
    else if (++s->blank > MOST_BLANK_LINES)
        return FRAMING_BAD;
    return FRAMING_MORE;
}

framing_state head_scan_feed(head_scan *s, const char *text, size_t length, size_t *ret_used)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (s->cr != (c == '\n'))
            return FRAMING_BAD; /* LF without CR, or CR without LF */
        s->cr = c == '\r';
        if (c == '\n') {
            framing_state state = end_line(s);
            *ret_used = i + 1;
            if (state != FRAMING_MORE)
                return state;
        } else if (c != '\r') {
            if ((c < ' ' && c != '\t') || c == 0x7F)
                return FRAMING_BAD;
            s->line++;
        }
    }
    *ret_used = length;
    return FRAMING_MORE;
}

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

/* "http://host/path" becomes "/path", and the host is that of the target. */
static bool read_target(head *h, char *target)
{
    if (!target[0] || strpbrk(target, " \t"))
        return false;
    h->target = target;
    if (target[0] == '/' || strcmp(target, "*") == 0)
        return true;
    size_t scheme = strncasecmp(target, "http://", 7) == 0    ? 7
                    : strncasecmp(target, "https://", 8) == 0 ? 8
                                                              : 0;
    size_t name = scheme ? strcspn(target + scheme, "/?#") : 0;
    if (name == 0 || target[scheme + name] != '/')
        return false;
    /* moved to the front, to make room for its end */
    memmove(target, target + scheme, name);
    target[name] = '\0';
    h->host = target;
    h->target = target + scheme + name;
    return true;
}

/* "GET /path HTTP/1.1" */
static int read_request_line(head *h, char *line, const char **ret_why)
{
    char *space = strchr(line, ' '), *last = strrchr(line, ' ');
    *ret_why = "the request line is not like GET /path HTTP/1.1";
    if (!space || last == space || !is_token(line, (size_t)(space - line)))
        return 400;
    *space = *last = '\0';
    h->method = line;
    const char *version = last + 1;
    if (strncmp(version, "HTTP/", 5) != 0 || strlen(version) != 8 || version[6] != '.' ||
        version[5] < '0' || version[5] > '9' || version[7] < '0' || version[7] > '9')
        return 400;
    if (!read_target(h, space + 1))
        return 400;
    *ret_why = "HTTP/1.1 and HTTP/1.0 are spoken here";
    h->http_1_0 = strcmp(version, "HTTP/1.0") == 0;
    return h->http_1_0 || strcmp(version, "HTTP/1.1") == 0 ? 0 : 505;
}

/* "Name: value", the space around the value cut off. */
static int read_field(head *h, char *line, size_t length, const char **ret_why)
{
    char *colon = strchr(line, ':');
    *ret_why = "a header line is not like Name: value, or is folded";
    if (!colon || !is_token(line, (size_t)(colon - line)))
        return 400;
    *ret_why = "the head has too many header fields";
    if (h->n_fields == HEAD_FIELDS)
        return 431;
    char *value = colon + 1 + strspn(colon + 1, " \t"), *end = line + length;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    *colon = *end = '\0';
    h->fields[h->n_fields++] = (head_field){line, value};
    return 0;
}

const char *head_value(const head *h, const char *name)
{
    for (size_t i = 0; i < h->n_fields; i++)
        if (strcasecmp(h->fields[i].name, name) == 0)
            return h->fields[i].value;
    return NULL;
}

static size_t count(const head *h, const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < h->n_fields; i++)
        n += strcasecmp(h->fields[i].name, name) == 0;
    return n;
}

/* Whether a comma-separated field, given in one line or several, holds a token. */
static bool lists(const head *h, const char *name, const char *token)
{
    size_t length = strlen(token);
    for (size_t i = 0; i < h->n_fields; i++) {
        if (strcasecmp(h->fields[i].name, name) != 0)
            continue;
        for (const char *s = h->fields[i].value; *s; s += strcspn(s, ",")) {
            s += strspn(s, ", \t");
            if (strcspn(s, ", \t") == length && strncasecmp(s, token, length) == 0)
                return true;
        }
    }
    return false;
}

static bool read_length(head *h, const char *text)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > LENGTH_DIGITS || text[digits])
        return false;
    for (size_t i = 0; i < digits; i++)
        h->length = h->length * 10 + (uint64_t)(text[i] - '0');
    return true;
}

/* Where the body ends. */
static int read_body_length(head *h, const char **ret_why)
{
    const char *length = head_value(h, "Content-Length"),
               *coding = head_value(h, "Transfer-Encoding");
    *ret_why = "Content-Length and Transfer-Encoding may be given once, and not both";
    if (count(h, "Content-Length") + count(h, "Transfer-Encoding") > 1)
        return 400;
    *ret_why = "Content-Length must be a number of bytes";
    if (length && !read_length(h, length))
        return 400;
    *ret_why = "Transfer-Encoding must be chunked, in HTTP/1.1";
    h->chunked = coding != NULL;
    return coding && (h->http_1_0 || strcasecmp(coding, "chunked") != 0) ? 400 : 0;
}

static int read_meaning(head *h, const char **ret_why)
{
    int status = read_body_length(h, ret_why);
    if (status)
        return status;
    size_t hosts = count(h, "Host");
    *ret_why = "a request has one Host";
    if (hosts > 1 || (hosts == 0 && !h->http_1_0))
        return 400;
    if (!h->host)
        h->host = head_value(h, "Host");
    *ret_why = "a request has one Authorization and one Origin";
    if (count(h, "Authorization") > 1 || count(h, "Origin") > 1)
        return 400;
    const char *expected = head_value(h, "Expect");
    *ret_why = "only 100-continue may be expected";
    if (expected && !h->http_1_0 && strcasecmp(expected, "100-continue") != 0)
        return 417;
    h->expects_continue = expected && !h->http_1_0;
    h->keep_alive =
        h->http_1_0 ? lists(h, "Connection", "keep-alive") : !lists(h, "Connection", "close");
    return 0;
}

int head_read(head *h, char *text, size_t length, const char **ret_why)
{
    char *end = text + length;
    *h = (head){0};
    while (*text == '\r')
        text += 2;
    for (bool first = true; *text != '\r'; first = false) {
        char *cr = memchr(text, '\r', (size_t)(end - text));
        *cr = '\0';
        int status = first ? read_request_line(h, text, ret_why)
                           : read_field(h, text, (size_t)(cr - text), ret_why);
        if (status)
            return status;
        text = cr + 2;
    }
    return read_meaning(h, ret_why);
}

/* ---- chunked bodies ---- */

int http_hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* One character of the framing. */
static framing_state chunk_mark(chunks *c, char mark)
{
    int digit = http_hex_digit(mark);
    switch (c->at) {
    case CHUNK_SIZE:
        if (digit >= 0 && c->digits++ < CHUNK_DIGITS) {
            c->left = c->left * 16 + (uint64_t)digit;
            return FRAMING_MORE;
        }
        c->at = CHUNK_SIZE_END;
        return mark == '\r' && c->digits > 0 ? FRAMING_MORE : FRAMING_BAD;
    case CHUNK_SIZE_END:
        c->at = c->left > 0 ? CHUNK_DATA : LAST_CR;
        return mark == '\n' ? FRAMING_MORE : FRAMING_BAD;
    case CHUNK_CR:
        c->at = CHUNK_END;
        return mark == '\r' ? FRAMING_MORE : FRAMING_BAD;
    case CHUNK_END:
        *c = (chunks){.at = CHUNK_SIZE};
        return mark == '\n' ? FRAMING_MORE : FRAMING_BAD;
    case LAST_CR:
        c->at = LAST_END;
        return mark == '\r' ? FRAMING_MORE : FRAMING_BAD;
    case LAST_END:
        return mark == '\n' ? FRAMING_WHOLE : FRAMING_BAD;
    case CHUNK_DATA:
        break;
    }
    return FRAMING_BAD;
}

framing_state chunks_feed(chunks *c, const char *data, size_t length, size_t *ret_used,
                          size_t *ret_content)
{
    *ret_content = 0;
    for (size_t i = 0; i < length;) {
        if (c->at == CHUNK_DATA) {
            size_t left = length - i, n = c->left < left ? (size_t)c->left : left;
            c->left -= n;
            c->at = c->left > 0 ? CHUNK_DATA : CHUNK_CR;
            *ret_used = i + n;
            *ret_content = n;
            return FRAMING_MORE;
        }
        framing_state state = chunk_mark(c, data[i++]);
        *ret_used = i;
        if (state != FRAMING_MORE)
            return state;
    }
    return FRAMING_MORE;
}
