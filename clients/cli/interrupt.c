/* Ctrl-C: the job that was started goes with the command that started it. */
#include "cli.h"

#include <signal.h>
#include <string.h>

static volatile sig_atomic_t came;

static void on_interrupt(int number)
{
    (void)number;
    came = 1;
}

void interrupt_catch(void)
{
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    struct sigaction before;
    if (sigaction(SIGINT, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(SIGINT, &action, NULL);
}

bool interrupt_came(void *data)
{
    (void)data;
    return came != 0;
}

/* Who pressed Ctrl-C wants the terminal back: a server that does not answer within PATIENCE seconds
 * keeps its job. */
#define PATIENCE 3.0

static remat_status connect_again(struct cli *cli)
{
    remat_client_settings settings = {.server = cli->server,
                                      .request_id = cli->request_id,
                                      .connect_timeout = PATIENCE,
                                      .timeout = PATIENCE,
                                      .patience = -1};
    remat_client_free(cli->client);
    cli->client = NULL;
    return remat_client_new(&settings, &cli->client, &cli->error);
}

/* The job of the question, by asking it again without waiting for it. */
static remat_status find_started(struct cli *cli, const char *path, const json_t *question,
                                 const struct subject *subject, remat_client_answer *ret_answer)
{
    json_t *body = json_copy((json_t *)question);
    remat_json_set(&body, "wait", json_integer(0));
    if (subject)
        remat_json_set(&body, "profile_id", json_string(subject->id));
    remat_status status = body ? connect_again(cli) : remat_fail_memory(&cli->error);
    if (!status)
        status = remat_client_request(cli->client, "POST", path, body, ret_answer, &cli->error);
    json_decref(body);
    return status;
}

int interrupt_cancel(struct cli *cli, const char *path, const json_t *question,
                     const struct subject *subject)
{
    remat_client_answer answer, cancelled;
    if (!came)
        return cli_failed(cli);
    if (find_started(cli, path, question, subject, &answer)) {
        fprintf(stderr, "remat %s: interrupted\n", cli->command);
        return CLI_INTERRUPTED;
    }
    const char *id = json_get_text(answer.json, "job_id");
    if (!id[0])
        fprintf(stderr, "remat %s: interrupted; the answer had come\n", cli->command);
    else if (!remat_client_cancel_job(cli->client, id, &cancelled, &cli->error)) {
        bool others = json_get_number(cancelled.json, "asked") > 0;
        fprintf(stderr, "remat %s: interrupted; job %.12s %s\n", cli->command, id,
                others ? "goes on for others who asked" : "is cancelled");
        remat_client_answer_clear(&cancelled);
    } else {
        fprintf(stderr, "remat %s: interrupted; job %.12s could not be cancelled\n", cli->command,
                id);
    }
    remat_client_answer_clear(&answer);
    return CLI_INTERRUPTED;
}
