/* Results and failures, for people and for machines. */
#include "cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* A problem of the command's own, which no server described. */
static json_t *own_problem(const struct cli *cli)
{
    const remat_error *error = &cli->error;
    if (cli->bad_usage)
        return json_pack("{s:s, s:s, s:s}", "type", "/problems/usage", "title",
                         "The command line is not valid", "detail", error->message);
    if (error->status == REMAT_IO)
        return json_pack("{s:s, s:s, s:s}", "type", "/problems/no-answer", "title",
                         "The server gave no usable answer", "detail", error->message);
    if (exit_code_of(error->status) == CLI_INTERNAL)
        return json_pack("{s:s, s:s, s:s}", "type", "/problems/failed", "title",
                         "The command failed", "detail", error->message);
    return remat_problem_encode(remat_problem_of(error), error);
}

static void print_problem(const struct cli *cli)
{
    const json_t *sent = cli->client ? remat_client_problem(cli->client) : NULL;
    json_t *own = sent ? NULL : own_problem(cli);
    char *text = sent || own ? remat_json_text(sent ? sent : own) : NULL;
    fprintf(stderr, "%s\n", text ? text : "{\"title\": \"Out of memory\"}");
    free(text);
    json_decref(own);
}

/* Commands that --local would have answered. */
enum { TAKE_LOCAL = SOLVE | CURVE | SIMULATE | SNAPSHOTS | SOLVERS };

/* What a problem's budgets leave out. */
static double reserved_bytes(const struct cli *cli)
{
    remat_amount reserved = {0};
    json_t *text = cli->reserved ? json_string(cli->reserved) : NULL;
    if (text && remat_amount_decode(text, "reserved", false, &reserved, NULL))
        reserved.value = 0;
    json_decref(text);
    return reserved.value;
}

static void print_message(const struct cli *cli)
{
    char bytes[TEXT_SIZE];
    fprintf(stderr, "remat%s%s: ", cli->command ? " " : "", cli->command ? cli->command : "");
    text_safe(stderr, cli->error.message);
    putc('\n', stderr);
    if (cli->error.status == REMAT_INFEASIBLE && cli->error.number > 0) {
        const double enough = (double)cli->error.number + reserved_bytes(cli);
        fprintf(stderr, "A budget that can be served: --budget %.0f (%s).\n", enough,
                text_bytes(enough, bytes));
    }
    if ((cli->flag & TAKE_LOCAL) && cli->error.status == REMAT_IO &&
        strcmp(cli->error.field, "server") == 0)
        fprintf(stderr, "Start one with rematd, or add --local to do it in this process.\n");
    if (cli->bad_usage)
        fprintf(stderr, "'remat%s%s --help' says more.\n", cli->command ? " " : "",
                cli->command ? cli->command : "");
}

int cli_failed(struct cli *cli)
{
    fflush(stdout);
    if (cli->error.status == REMAT_CANCELLED && interrupt_came(NULL)) {
        fprintf(stderr, "remat %s: interrupted\n", cli->command);
        return CLI_INTERRUPTED;
    }
    if (cli->json)
        print_problem(cli);
    else
        print_message(cli);
    return cli->bad_usage ? CLI_USAGE : exit_code_of(cli->error.status);
}

int cli_usage(struct cli *cli, const char *format, ...)
{
    char message[REMAT_MESSAGE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    remat_fail(&cli->error, REMAT_INVALID, NULL, "%s", message);
    cli->bad_usage = true;
    return cli_failed(cli);
}

int cli_unknown(struct cli *cli, const char *word, const char *const *words, size_t n,
                const char *what)
{
    const char *meant = remat_nearest(word, words, n);
    return cli_usage(cli, "%s \"%.40s\"%s%s%s", what, word, meant ? "; did you mean " : "",
                     meant ? meant : "", meant ? "?" : "");
}

/* Writes a number of 16 or 17 digits with as few as give the same double. Its end in the text. */
static char *shorten(const char *number, size_t length, char *to)
{
    char digits[40], fewer[40];
    memcpy(digits, number, length);
    digits[length] = '\0';
    double value = strtod(digits, NULL);
    for (int precision = 15; precision <= 16; precision++) {
        size_t n = (size_t)snprintf(fewer, sizeof fewer, "%.*g", precision, value);
        bool whole = !fewer[strcspn(fewer, ".e")]; /* a real number stays one */
        if (strtod(fewer, NULL) != value || n + 2 * whole >= length)
            continue;
        memcpy(to, fewer, n);
        to += n;
        return whole ? stpcpy(to, ".0") : to;
    }
    memmove(to, digits, length);
    return to + length;
}

/* The numbers of a JSON text are exact, but 0.1 need not be 0.10000000000000001. */
static void shorten_numbers(char *text)
{
    char *to = text;
    bool quoted = false;
    for (const char *from = text; *from;) {
        size_t length = quoted ? 0 : strspn(from, "0123456789+-.eE");
        if (length > 16 && length < 40 && memchr(from, '.', length)) {
            to = shorten(from, length, to);
            from += length;
        } else if (length > 0) {
            memmove(to, from, length);
            to += length;
            from += length;
        } else {
            quoted ^= *from == '"';
            if (quoted && *from == '\\')
                *to++ = *from++;
            *to++ = *from++;
        }
    }
    *to = '\0';
}

remat_status cli_write_json(struct cli *cli, const char *text, bool *ret_done)
{
    char *shortened = strdup(text);
    if (!shortened)
        return remat_fail_memory(&cli->error);
    shorten_numbers(shortened);
    *ret_done = cli->json;
    remat_status status =
        cli->output ? file_write_text(cli->output, shortened, &cli->error) : REMAT_OK;
    if (!cli->output && cli->json)
        printf("%s\n", shortened);
    free(shortened);
    return status;
}

remat_status cli_write_json_value(struct cli *cli, const json_t *json, bool *ret_done)
{
    char *text = remat_json_text(json);
    if (!text)
        return remat_fail_memory(&cli->error);
    remat_status status = cli_write_json(cli, text, ret_done);
    free(text);
    return status;
}

remat_status cli_connect(struct cli *cli)
{
    if (cli->client)
        return REMAT_OK;
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return remat_fail(&cli->error, REMAT_INTERNAL, NULL, "there are no random numbers");
    snprintf(cli->request_id, sizeof cli->request_id, "remat-%016llx", (unsigned long long)random);
    remat_client_settings settings = {.server = cli->server,
                                      .request_id = cli->request_id,
                                      .timeout = cli->timeout,
                                      .cancelled = interrupt_came};
    interrupt_catch();
    remat_status status = remat_client_new(&settings, &cli->client, &cli->error);
    cli->bad_usage = status == REMAT_INVALID;
    return status;
}

static remat_status fail_answer(struct cli *cli, remat_client_answer *answer, const char *why)
{
    remat_client_answer_clear(answer);
    return remat_fail(&cli->error, REMAT_IO, NULL,
                      "%.200s sent something that is not an answer: %.200s",
                      remat_client_server(cli->client), why);
}

remat_status cli_fail_server(struct cli *cli, const char *thing, const char *why)
{
    char reason[REMAT_MESSAGE_SIZE];
    if (cli->error.status == REMAT_NO_MEMORY)
        return REMAT_NO_MEMORY;
    snprintf(reason, sizeof reason, "%s", why);
    return remat_fail(&cli->error, REMAT_IO, NULL, "%.200s sent a %s that is wrong: %.600s",
                      remat_client_server(cli->client), thing, reason);
}

remat_status cli_expect(struct cli *cli, remat_status status, remat_client_answer *answer,
                        const char *format, ...)
{
    json_error_t why;
    va_list names;
    if (status)
        return status;
    va_start(names, format);
    int wrong = json_vunpack_ex(answer->json, &why, JSON_VALIDATE_ONLY, format, names);
    va_end(names);
    return wrong ? fail_answer(cli, answer, answer->json ? why.text : "it is empty") : REMAT_OK;
}

remat_status cli_expect_list(struct cli *cli, remat_status status, remat_client_answer *answer,
                             const char *list, const char *format, const char *member)
{
    json_error_t why;
    status = list ? cli_expect(cli, status, answer, "{s:[]}", list)
                  : cli_expect(cli, status, answer, "[]");
    json_t *items = status ? NULL : list ? json_object_get(answer->json, list) : answer->json;
    for (size_t i = 0; i < json_array_size(items); i++)
        if (json_unpack_ex(json_array_get(items, i), &why, JSON_VALIDATE_ONLY, format, member))
            return fail_answer(cli, answer, why.text);
    return status;
}

int cli_waiting(struct cli *cli, const remat_client_answer *answer)
{
    const char *id = json_get_text(answer->json, "job_id");
    bool done;
    if (cli_write_json(cli, answer->text, &done))
        return cli_failed(cli);
    if (!done) {
        fputs("The job ", stdout);
        text_safe(stdout, id);
        fputs(" is under way; 'remat jobs show ", stdout);
        text_safe(stdout, id);
        puts("' says how far it is.");
    }
    return cli->wait > 0 ? CLI_SERVER : CLI_OK;
}
