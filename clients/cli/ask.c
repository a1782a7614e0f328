/* A question about a profile: here, or of a server. */
#include "cli.h"

static int ask_here(struct cli *cli, const struct subject *s, const json_t *question,
                    remat_request_kind kind, cli_print *print)
{
    json_t *answer = NULL;
    if (local_answer(cli, s, question, kind, &answer, &cli->error))
        return cli_failed(cli);
    int code = print(cli, s, answer, NULL, "");
    json_decref(answer);
    return code;
}

static int ask_there(struct cli *cli, const struct subject *s, const json_t *question,
                     remat_request_kind kind, cli_print *print)
{
    const bool curve = kind == REMAT_ASK_TRADEOFF;
    remat_client_answer answer;
    struct progress bar;
    progress_begin(&bar, cli->show_progress, cli->ascii);
    remat_client_wait wait = {.seconds = cli->wait,
                              .progress = cli->show_progress ? progress_of_job : NULL,
                              .data = &bar};
    remat_status status = cli_connect(cli);
    if (!status)
        status = (curve ? remat_client_tradeoffs : remat_client_schedule)(
            cli->client, question, s->document, &wait, &answer, &cli->error);
    if (!status && answer.status == 202)
        status = cli_expect(cli, status, &answer, "{s:s}", "job_id");
    else if (curve)
        status = cli_expect_list(cli, status, &answer, NULL, "{s:F}", "budget");
    else
        status = cli_expect(cli, status, &answer, "{s:s, s:F, s:F, s:[]}", "schedule_id",
                            "makespan", "peak", "operations");
    progress_end(&bar);
    if (status == REMAT_CANCELLED)
        return interrupt_cancel(cli, curve ? "/v1/tradeoffs" : "/v1/schedules", question, s);
    if (status)
        return cli_failed(cli);
    int code = answer.status == 202 ? cli_waiting(cli, &answer)
                                    : print(cli, s, answer.json, answer.text, answer.cache);
    remat_client_answer_clear(&answer);
    return code;
}

int ask_question(struct cli *cli, const struct subject *s, remat_request_kind kind,
                 cli_print *print)
{
    json_t *question = subject_question(cli, s);
    if (!question) {
        remat_fail_memory(&cli->error);
        return cli_failed(cli);
    }
    int code = (cli->local ? ask_here : ask_there)(cli, s, question, kind, print);
    json_decref(question);
    return code;
}
