/* Results and failures, for people and for machines. */
#include "cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

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

static void print_message(const struct cli *cli)
{
    char bytes[TEXT_SIZE];
    fprintf(stderr, "remat%s%s: ", cli->command ? " " : "", cli->command ? cli->command : "");
    text_safe(stderr, cli->error.message);
    putc('\n', stderr);
    if (cli->error.status == REMAT_INFEASIBLE && cli->error.number > 0)
        fprintf(stderr, "A budget that can be served: --budget %llu (%s).\n",
                (unsigned long long)cli->error.number,
                text_bytes((double)cli->error.number, bytes));
    if (cli->bad_usage)
        fprintf(stderr, "'remat%s%s --help' says more.\n", cli->command ? " " : "",
                cli->command ? cli->command : "");
}

int cli_failed(struct cli *cli)
{
    fflush(stdout);
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

remat_status cli_write_json(struct cli *cli, const char *text, bool *ret_done)
{
    *ret_done = cli->json;
    if (cli->output)
        return file_write_text(cli->output, text, &cli->error);
    if (cli->json)
        printf("%s\n", text);
    return REMAT_OK;
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
    remat_client_settings settings = {.server = cli->server, .timeout = cli->timeout};
    remat_status status = remat_client_new(&settings, &cli->client, &cli->error);
    cli->bad_usage = status == REMAT_INVALID;
    return status;
}

int cli_waiting(struct cli *cli, const remat_client_answer *answer)
{
    const char *id = json_get_text(answer->json, "job_id");
    bool done;
    if (cli_write_json(cli, answer->text, &done))
        return cli_failed(cli);
    if (!done)
        printf("The job %s is under way; 'remat jobs show %s' says how far it is.\n", id, id);
    return cli->wait > 0 ? CLI_SERVER : CLI_OK;
}
