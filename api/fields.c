#include "fields.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

remat_status remat_json_parse(const char *text, size_t length, json_t **ret_json,
                              remat_error *error)
{
    static const remat_json_limits any = {UINT64_MAX, UINT64_MAX};
    remat_json_scan scan;
    remat_json_scan_init(&scan, &any);
    remat_status status = remat_json_scan_feed(&scan, text, length, error);
    return status ? status : remat_json_load(text, length, ret_json, error);
}

/* jansson reads on where a token could not grow: what comes out may be called a syntax error, or be
 * another text. */
static _Thread_local bool starved;

static void *watched_malloc(size_t size)
{
    void *given = malloc(size);
    starved = starved || !given;
    return given;
}

void remat_json_watch_memory(void)
{
    json_set_alloc_funcs(watched_malloc, free);
}

/* Where in a text something is, as "nodes[3].forward_time". */
typedef struct text_level {
    const char *key; /* of the member under way; NULL: none yet, or in an array */
    int key_length;
    size_t index; /* of the element under way */
    bool array;
} text_level;

/* Past the string that begins there. */
static size_t skip_string(const char *text, size_t i, size_t length)
{
    for (i++; i < length && text[i] != '"'; i++)
        i += text[i] == '\\';
    return i;
}

static void write_place(const text_level *levels, size_t depth, char *path, size_t size)
{
    size_t n = 0;
    for (size_t k = 0; k < depth && n < size; k++) {
        const text_level *l = &levels[k];
        if (l->array)
            n += (size_t)snprintf(path + n, size - n, "[%zu]", l->index);
        else if (l->key)
            n += (size_t)snprintf(path + n, size - n, "%s%.*s", n > 0 ? "." : "", l->key_length,
                                  l->key);
    }
}

/* What the text up to there is in the midst of; nothing where that is deeper than any field. */
static void find_place(const char *text, size_t length, char *path, size_t size)
{
    enum { DEEPEST = 8 };
    text_level levels[DEEPEST + 1] = {{0}}; /* the first is what is around the value */
    size_t depth = 0, from = 0, to = 0;     /* of the last string */
    *path = '\0';
    for (size_t i = 0; i < length; i++) {
        text_level *l = &levels[depth];
        switch (text[i]) {
        case '"':
            from = i + 1;
            i = to = skip_string(text, i, length);
            break;
        case ':':
            l->key = text + from;
            l->key_length = to > from ? (int)(to - from) : 0;
            break;
        case ',':
            l->key = NULL;
            l->index++;
            break;
        case '{':
        case '[':
            if (depth == DEEPEST)
                return;
            levels[++depth] = (text_level){.array = text[i] == '['};
            break;
        case '}':
        case ']':
            if (depth == 0)
                return;
            depth--;
        }
    }
    write_place(levels + 1, depth, path, size);
}

remat_status remat_json_load(const char *text, size_t length, json_t **ret_json, remat_error *error)
{
    char place[REMAT_FIELD_SIZE];
    json_error_t where;
    starved = false;
    json_t *json = json_loadb(text, length, JSON_REJECT_DUPLICATES, &where);
    if (starved) {
        json_decref(json);
        return remat_fail_memory(error);
    }
    if (!json) {
        /* jansson does not always say that memory ran out, but then it says nothing. */
        if (where.text[0] == '\0' || json_error_code(&where) == json_error_out_of_memory)
            return remat_fail_memory(error);
        find_place(text, (size_t)where.position < length ? (size_t)where.position : length, place,
                   sizeof place);
        if (json_error_code(&where) == json_error_numeric_overflow)
            return remat_fail(error, REMAT_INVALID, place,
                              "line %d, column %d: the number is too large: %s", where.line,
                              where.column, where.text);
        if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
            return remat_fail(error, REMAT_INVALID, NULL,
                              "the body is not JSON: it begins with a byte order mark");
        const bool null = json_error_code(&where) == json_error_null_character ||
                          json_error_code(&where) == json_error_null_byte_in_key;
        return remat_fail(error, REMAT_INVALID, place,
                          "the body is not JSON: line %d, column %d: %s", where.line, where.column,
                          null ? "a string with \\u0000 in it, which none here has" : where.text);
    }
    *ret_json = json;
    return REMAT_OK;
}

/* jansson does not always say that its sink failed, and goes on: the sink remembers. */
typedef struct text_sink {
    remat_buffer text;
    bool failed;
} text_sink;

static int take_text(const char *text, size_t length, void *data)
{
    text_sink *sink = data;
    sink->failed = sink->failed || remat_buffer_put(&sink->text, text, length);
    return sink->failed ? -1 : 0;
}

bool api_text_put(remat_buffer *text, const json_t *json)
{
    text_sink sink = {.text = *text};
    const size_t flags = JSON_COMPACT | JSON_REAL_PRECISION(17) | JSON_ENCODE_ANY;
    bool failed = json_dump_callback(json, take_text, &sink, flags) || sink.failed;
    *text = sink.text;
    return !failed;
}

char *remat_json_text(const json_t *json)
{
    remat_buffer text = {0};
    if (!api_text_put(&text, json) || remat_buffer_put(&text, "", 1)) {
        remat_buffer_clear(&text);
        return NULL;
    }
    char *fitted = realloc(text.data, text.length);
    return fitted ? fitted : (char *)text.data;
}

double remat_json_number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

const char *remat_json_string(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

enum { MOST_RULES = 64 }; /* of one object: what is seen is kept in the bits of a word */

static const char *type_name(const json_t *json)
{
    static const char *const names[] = {"an object",     "an array", "a string", "an integer",
                                        "a real number", "true",     "false",    "null"};
    return names[json_typeof(json)];
}

static remat_status take(const field_rule *rule, const char *path, const json_t *value,
                         remat_error *error)
{
    static const char *const wanted[] = {"a string", "a number",  "true or false",
                                         "an array", "an object", "anything"};
    bool fits = rule->type == FIELD_STRING    ? json_is_string(value)
                : rule->type == FIELD_NUMBER  ? json_is_number(value)
                : rule->type == FIELD_BOOLEAN ? json_is_boolean(value)
                : rule->type == FIELD_ARRAY   ? json_is_array(value)
                : rule->type == FIELD_OBJECT  ? json_is_object(value)
                                              : true;
    if (!fits) {
        char field[REMAT_FIELD_SIZE];
        snprintf(field, sizeof field, "%s%s", path, rule->name);
        return remat_fail(error, REMAT_INVALID, field, "%s must be %s, not %s", field,
                          wanted[rule->type], type_name(value));
    }
    if (rule->type == FIELD_STRING)
        *(const char **)rule->target = json_string_value(value);
    else if (rule->type == FIELD_NUMBER)
        *(remat_number *)rule->target =
            (remat_number){.value = json_number_value(value), .given = true};
    else if (rule->type == FIELD_BOOLEAN)
        *(bool *)rule->target = json_is_true(value);
    else
        *(const json_t **)rule->target = value;
    return REMAT_OK;
}

static const char *nearest_rule(const char *key, const field_rule *rules, size_t n_rules)
{
    const char *names[MOST_RULES];
    for (size_t i = 0; i < n_rules && i < MOST_RULES; i++)
        names[i] = rules[i].name;
    return remat_nearest(key, names, n_rules < MOST_RULES ? n_rules : MOST_RULES);
}

remat_status api_read(const json_t *json, const char *path, const field_rule *rules, size_t n_rules,
                      remat_error *error)
{
    char field[REMAT_FIELD_SIZE];
    if (!json_is_object(json)) {
        size_t length = strlen(path);
        snprintf(field, sizeof field, "%.*s", (int)(length ? length - 1 : 0), path);
        return remat_fail(error, REMAT_INVALID, field, "%s must be an object, not %s",
                          length ? field : "the body", type_name(json));
    }
    uint64_t seen = 0;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)json, key, value)
    {
        size_t i = 0;
        while (i < n_rules && strcmp(rules[i].name, key) != 0)
            i++;
        if (i == n_rules) {
            const char *meant = nearest_rule(key, rules, n_rules);
            snprintf(field, sizeof field, "%s%.100s", path, key);
            return remat_fail(error, REMAT_INVALID, field, "%s is not a known field%s%s%s", field,
                              meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
        }
        remat_status status = take(&rules[i], path, value, error);
        if (status)
            return status;
        seen |= UINT64_C(1) << i;
    }
    for (size_t i = 0; i < n_rules; i++)
        if (rules[i].required && !(seen & UINT64_C(1) << i)) {
            snprintf(field, sizeof field, "%s%s", path, rules[i].name);
            return remat_fail(error, REMAT_INVALID, field, "%s is missing", field);
        }
    return REMAT_OK;
}

remat_status api_strings(const json_t *json, const char *field, const char ***ret_strings,
                         size_t *ret_n, remat_error *error)
{
    size_t n = json_array_size(json);
    const char **strings = calloc(n + 1, sizeof *strings);
    if (!strings)
        return remat_fail_memory(error);
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(json, i);
        if (!json_is_string(item)) {
            char place[REMAT_FIELD_SIZE];
            snprintf(place, sizeof place, "%.200s[%zu]", field, i);
            free(strings);
            return remat_fail(error, REMAT_INVALID, place, "%s must be a string, not %s", place,
                              type_name(item));
        }
        strings[i] = json_string_value(item);
    }
    *ret_strings = strings;
    *ret_n = n;
    return REMAT_OK;
}

remat_status api_whole(const remat_number *number, const char *field, uint64_t least, uint64_t most,
                       uint64_t *ret_value, remat_error *error)
{
    const double value = number->value;
    if (!number->given)
        return REMAT_OK;
    if (!(value >= (double)least && value <= (double)most) || value != floor(value))
        return remat_fail(error, REMAT_INVALID, field,
                          "%s is %.17g; it must be a whole number from %llu to %llu", field, value,
                          (unsigned long long)least, (unsigned long long)most);
    *ret_value = (uint64_t)value;
    return REMAT_OK;
}

remat_status api_alignment(const remat_number *number, const char *field, uint64_t *ret_alignment,
                           remat_error *error)
{
    const double bytes = number->value;
    const bool within = bytes >= 1 && bytes <= (double)REMAT_MAX_ALIGNMENT;
    const uint64_t whole = within ? (uint64_t)bytes : 0;
    if (!number->given)
        return REMAT_OK;
    if (whole == 0 || (double)whole != bytes || (whole & (whole - 1)) != 0)
        return remat_fail(error, REMAT_INVALID, field,
                          "%s is %.17g; it must be a power of two from 1 to %u", field, bytes,
                          (unsigned)REMAT_MAX_ALIGNMENT);
    *ret_alignment = whole;
    return REMAT_OK;
}

remat_status api_wait(const remat_number *number, double *ret_seconds, remat_error *error)
{
    const double most = 3600, seconds = number->given ? number->value : 30;
    if (!(seconds >= 0 && seconds <= most))
        return remat_fail(error, REMAT_INVALID, "wait",
                          "wait is %.17g; it must be from 0 to %g seconds", seconds, most);
    *ret_seconds = seconds;
    return REMAT_OK;
}

void remat_json_set(json_t **object, const char *name, json_t *value)
{
    if (json_object_set_new(*object, name, value)) {
        json_decref(*object);
        *object = NULL;
    }
}

void remat_json_append(json_t **list, json_t *item)
{
    if (json_array_append_new(*list, item)) {
        json_decref(*list);
        *list = NULL;
    }
}
