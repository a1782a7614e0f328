/* remat layout: addresses for buffers of any origin. */
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- files ---- */

enum { COLUMNS = 4 };
static const char *const columns[COLUMNS] = {"id", "lower", "upper", "size"};

/* A table of buffers, line by line. */
typedef struct table {
    const char *path;
    unsigned place[COLUMNS]; /* of each column among the fields of a line */
    unsigned n_fields;
    size_t line;
} table;

__attribute__((format(printf, 3, 4))) static remat_status
fail_line(const table *t, remat_error *error, const char *format, ...)
{
    char text[160];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return remat_fail(error, REMAT_INVALID, NULL, "%.200s, line %zu: %s", t->path, t->line, text);
}

/* Which column stands where. */
static remat_status read_head(table *t, char *line, remat_error *error)
{
    bool named[COLUMNS] = {false};
    for (char *word; (word = strsep(&line, ",")) != NULL; t->n_fields++) {
        size_t k = 0;
        while (k < COLUMNS && strcmp(word, columns[k]) != 0)
            k++;
        if (k == COLUMNS || named[k])
            return fail_line(t, error, "\"%.40s\" is none of the columns id, lower, upper, size%s",
                             word, k == COLUMNS ? "" : " any more");
        named[k] = true;
        t->place[k] = t->n_fields;
    }
    if (!named[1] || !named[2] || !named[3])
        return fail_line(t, error, "the columns lower, upper and size are needed");
    if (!named[0])
        t->place[0] = COLUMNS;
    return REMAT_OK;
}

/* Whole numbers stay what they are. NULL: it is no number, or a whole one past 2^63. */
static json_t *read_number(const char *text)
{
    char *end;
    errno = 0;
    const long long whole = strtoll(text, &end, 10);
    if (end > text && *end == '\0')
        return errno ? NULL : json_integer(whole);
    const double value = strtod(text, &end);
    if (end == text || *end || isnan(value) || isinf(value))
        return NULL;
    return value == floor(value) && fabs(value) < 0x1p53 ? json_integer((json_int_t)value)
                                                         : json_real(value);
}

static remat_status read_line(const table *t, char *line, json_t *buffers, remat_error *error)
{
    char *fields[COLUMNS + 1] = {NULL};
    unsigned n = 0;
    for (char *word; (word = strsep(&line, ",")) != NULL; n++)
        fields[n < COLUMNS ? n : COLUMNS] = word;
    if (n != t->n_fields)
        return fail_line(t, error, "there are %u fields, and %u columns", n, t->n_fields);
    json_t *buffer = json_object();
    if (t->place[0] < COLUMNS)
        remat_json_set(&buffer, "id", json_string(fields[t->place[0]]));
    if (!buffer)
        return fail_line(t, error, "the id is no UTF-8");
    for (size_t k = 1; k < COLUMNS; k++) {
        const char *text = fields[t->place[k]];
        if (json_object_set_new(buffer, columns[k], read_number(text))) {
            json_decref(buffer);
            return fail_line(t, error, "%s is \"%.40s\", which is no number below 2^63", columns[k],
                             text);
        }
    }
    return json_array_append_new(buffers, buffer) ? remat_fail_memory(error) : REMAT_OK;
}

static remat_status read_table(const char *path, char *text, json_t **ret_buffers,
                               remat_error *error)
{
    table t = {.path = path};
    json_t *buffers = json_array();
    remat_status status = buffers ? REMAT_OK : remat_fail_memory(error);
    for (char *line; !status && (line = strsep(&text, "\n")) != NULL;) {
        t.line++;
        line[strcspn(line, "\r")] = '\0';
        if (t.n_fields == 0)
            status = read_head(&t, line, error);
        else if (*line)
            status = read_line(&t, line, buffers, error);
    }
    if (status)
        json_decref(buffers);
    else
        *ret_buffers = buffers;
    return status;
}

/* The request's body: the file's, or around its list. */
static remat_status read_request(struct cli *cli, const char *path, json_t **ret_request)
{
    char *text = NULL;
    json_t *json = NULL;
    remat_status status = file_read_text(path, &text, &cli->error);
    const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
    if (status)
        return status;
    const char first = text[strspn(text, " \t\r\n")];
    if (first == '{' || first == '[') {
        remat_error reason;
        status = remat_json_parse(text, strlen(text), &json, &reason);
        if (status)
            file_blame(path, "", &reason, &cli->error);
    } else {
        status = read_table(name, text, &json, &cli->error);
    }
    free(text);
    if (status)
        return status;
    if (json_is_array(json))
        json = json_pack("{s:o}", "buffers", json);
    if (cli->capacity)
        remat_json_set(&json, "capacity", json_string(cli->capacity));
    if (cli->layout)
        remat_json_set(&json, "alignment", json_incref(json_object_get(cli->layout, "alignment")));
    *ret_request = json;
    return json ? REMAT_OK : remat_fail_memory(&cli->error);
}

/* ---- the answer ---- */

/* The table of the buffers with a column more, as minimalloc writes it. */
static remat_status write_table(struct cli *cli, const json_t *buffers, const json_t *offsets)
{
    FILE *file = fopen(cli->output, "w");
    bool failed = !file || fputs("id,lower,upper,size,offset\n", file) < 0;
    for (size_t i = 0; i < json_array_size(buffers) && !failed; i++) {
        const json_t *one = json_array_get(buffers, i);
        const char *id = json_string_value(json_object_get(one, "id"));
        failed = (id ? fputs(id, file) : fprintf(file, "%zu", i)) < 0;
        for (size_t k = 1; k < COLUMNS && !failed; k++) {
            const json_t *number = json_object_get(one, columns[k]);
            failed = (json_is_integer(number)
                          ? fprintf(file, ",%lld", (long long)json_integer_value(number))
                          : fprintf(file, ",%.17g", json_real_value(number))) < 0;
        }
        failed = failed || fprintf(file, ",%lld\n",
                                   (long long)json_integer_value(json_array_get(offsets, i))) < 0;
    }
    failed |= file && fclose(file);
    return failed
               ? remat_fail(&cli->error, REMAT_INTERNAL, NULL, "cannot write %.200s", cli->output)
               : REMAT_OK;
}

static void print_bytes(const struct cli *cli, const char *name, double bytes, const char *behind)
{
    char text[TEXT_SIZE];
    summary_line(cli, name, "%s (%.0f bytes)%s", text_bytes(bytes, text), bytes, behind);
}

static void print_layout(const struct cli *cli, const json_t *answer)
{
    char text[TEXT_SIZE], behind[64] = ", optimal";
    const char *verdict = json_get_text(answer, "verdict");
    const double arena = json_get_number(answer, "arena");
    const double bound = json_get_number(answer, "lower_bound_bytes");
    if (!json_is_true(json_object_get(answer, "optimal")))
        snprintf(behind, sizeof behind, ", %s above the bound",
                 text_percent(arena / bound - 1, text));
    summary_line(cli, "buffers", "%zu", json_array_size(json_object_get(answer, "offsets")));
    print_bytes(cli, "arena", arena, behind);
    print_bytes(cli, "lower bound", bound, ": the most that is alive at once");
    if (verdict[0])
        print_bytes(cli, "capacity", json_get_number(answer, "capacity"),
                    strcmp(verdict, "fits") == 0         ? ": fits"
                    : strcmp(verdict, "impossible") == 0 ? ": impossible, it is below the bound"
                                                         : ": no layout within it was found");
}

/* A file's name that ends so asks for a table. */
static bool wants_table(const struct cli *cli)
{
    const size_t length = cli->output ? strlen(cli->output) : 0;
    return length > 4 && strcmp(cli->output + length - 4, ".csv") == 0;
}

static int print_answer(struct cli *cli, const json_t *request, const json_t *answer,
                        const char *text)
{
    bool done = false;
    const char *verdict = json_get_text(answer, "verdict");
    remat_status status = wants_table(cli) ? write_table(cli, json_object_get(request, "buffers"),
                                                         json_object_get(answer, "offsets"))
                          : text           ? cli_write_json(cli, text, &done)
                                           : cli_write_json_value(cli, answer, &done);
    if (status)
        return cli_failed(cli);
    if (!done)
        print_layout(cli, answer);
    return !verdict[0] || strcmp(verdict, "fits") == 0 ? CLI_OK : CLI_NO;
}

static int layout_here(struct cli *cli, const json_t *request)
{
    remat_layout_request asked = {0};
    const remat_host host = {.workers = 1, .cancelled = interrupt_came};
    json_t *answer = NULL;
    interrupt_catch();
    remat_status status = remat_layout_decode(request, &asked, &cli->error);
    if (!status)
        status = remat_answer_layout(&asked, &host, &answer, &cli->error);
    int code = status ? cli_failed(cli) : print_answer(cli, request, answer, NULL);
    json_decref(answer);
    remat_layout_request_clear(&asked);
    return code;
}

static int layout_there(struct cli *cli, const json_t *request)
{
    remat_client_answer answer = {0};
    remat_status status = cli_connect(cli);
    if (!status)
        status =
            remat_client_request(cli->client, "POST", "/v1/layouts", request, &answer, &cli->error);
    if (cli_expect(cli, status, &answer, "{s:I, s:b, s:o}", "arena", "optimal", "offsets"))
        return cli_failed(cli);
    int code = print_answer(cli, request, answer.json, answer.text);
    remat_client_answer_clear(&answer);
    return code;
}

int command_layout(struct cli *cli)
{
    json_t *request = NULL;
    if (cli->n_arguments != 1)
        return cli_usage(cli, "layout takes one FILE");
    if (read_request(cli, cli->arguments[0], &request))
        return cli_failed(cli);
    int code = cli->server ? layout_there(cli, request) : layout_here(cli, request);
    json_decref(request);
    return code;
}
