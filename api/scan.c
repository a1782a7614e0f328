/* JSON text looked through as it comes in: how deep, how much, and what a tree of it would take. */
#include "api.h"

#include <string.h>

/* What jansson takes for each thing on glibc, its allocator's headers and rounding included. A
 * table of members or elements begins with room for eight and doubles. */
enum {
    OBJECT_BYTES = 224,
    ARRAY_BYTES = 128,
    NUMBER_BYTES = 32,
    STRING_BYTES = 72, /* and its length */
    KEY_BYTES = 16,    /* more than a string */
    FIRST_ROOM = 8,
    MEMBER_ROOM = 32, /* of a doubled table, for each that it held */
    ELEMENT_ROOM = 16
};

void remat_json_scan_init(remat_json_scan *scan, const remat_json_limits *limits)
{
    *scan = (remat_json_scan){.limits = *limits};
}

/* One member or element more in the container under way. */
static void add_item(remat_json_scan *s, uint64_t room)
{
    if (s->depth == 0)
        return;
    uint64_t n = ++s->levels[s->depth - 1].items;
    if (n >= FIRST_ROOM && (n & (n - 1)) == 0)
        s->tree_bytes += n * room;
}

static void add_value(remat_json_scan *s, uint64_t bytes)
{
    s->values++;
    s->tree_bytes += bytes;
    if (s->depth > 0 && s->levels[s->depth - 1].array)
        add_item(s, ELEMENT_ROOM);
}

static void open_container(remat_json_scan *s, bool array)
{
    const remat_json_level *above = s->depth > 0 ? &s->levels[s->depth - 1] : NULL;
    if (!array && above && above->nodes)
        s->nodes++;
    add_value(s, array ? ARRAY_BYTES : OBJECT_BYTES);
    s->levels[s->depth++] =
        (remat_json_level){.array = array, .nodes = array && above && !above->array && s->named};
    s->named = false;
}

/* A string ends: of its text only matters whether it is "nodes". */
static void end_string(remat_json_scan *s)
{
    s->quoted = false;
    s->named = s->string_length == 5 && memcmp(s->start, "nodes", 5) == 0;
    add_value(s, STRING_BYTES + s->string_length);
}

static void in_string(remat_json_scan *s, char c)
{
    if (s->escaped) {
        s->escaped = false;
    } else if (c == '"') {
        end_string(s);
        return;
    } else {
        s->escaped = c == '\\';
    }
    if (s->string_length < sizeof s->start)
        s->start[s->string_length] = c;
    s->string_length++;
}

/* A string was a key, not a value of its own. */
static void make_key(remat_json_scan *s)
{
    s->values--;
    s->tree_bytes += KEY_BYTES;
    add_item(s, MEMBER_ROOM);
}

/* One character outside of strings. False: nested too deep. */
static bool outside(remat_json_scan *s, char c)
{
    bool scalar = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '+' ||
                  c == '.' || c == 'E';
    if (scalar && !s->scalar)
        add_value(s, NUMBER_BYTES);
    s->scalar = scalar;
    if (c == '"') {
        s->quoted = true;
        s->string_length = 0;
    } else if (c == ':') {
        make_key(s);
    } else if (c == '[' || c == '{') {
        if (s->depth == REMAT_MAX_JSON_DEPTH)
            return false;
        open_container(s, c == '[');
    } else if ((c == ']' || c == '}') && s->depth > 0) {
        s->depth--;
    }
    if (c == ',' || scalar)
        s->named = false;
    return true;
}

remat_status remat_json_scan_feed(remat_json_scan *s, const char *text, size_t length,
                                  remat_error *error)
{
    const remat_json_limits *limits = &s->limits;
    for (size_t i = 0; i < length; i++) {
        if (s->quoted)
            in_string(s, text[i]);
        else if (!outside(s, text[i]))
            return remat_fail(error, REMAT_INVALID, NULL, "the JSON is nested more than %d deep",
                              REMAT_MAX_JSON_DEPTH);
        if (s->nodes > limits->nodes)
            return remat_fail(error, REMAT_TOO_LARGE, "nodes",
                              "the profile has %llu nodes or more; this server takes %llu",
                              (unsigned long long)s->nodes, (unsigned long long)limits->nodes);
        if (s->values > limits->values)
            return remat_fail(error, REMAT_TOO_LARGE, NULL,
                              "the body holds %llu values or more; this server takes %llu here",
                              (unsigned long long)s->values, (unsigned long long)limits->values);
    }
    return REMAT_OK;
}
