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

/* Whether it is the answer to the question about the subject, whose profile is there. */
static remat_status judge(struct cli *cli, const struct subject *s, const json_t *question,
                          const json_t *answer)
{
    json_t *json;
    remat_request request;
    remat_question q;
    remat_status status =
        local_request(s, question, REMAT_ASK_SCHEDULE, &json, &request, &cli->error);
    if (status)
        return status;
    status =
        remat_question_resolve(&request, s->id, s->profile, s->store_all_peak, &q, &cli->error);
    json_decref(json);
    if (status)
        return status;
    status = remat_schedule_judge(s->profile, s->id, &q, answer, NULL, &cli->error);
    remat_question_clear(&q);
    return status ? cli_fail_server(cli, "schedule", cli->error.message) : REMAT_OK;
}

/* A schedule is judged on the profile before it is printed. */
static int print_judged(struct cli *cli, const struct subject *s, const json_t *question,
                        const remat_client_answer *answer, cli_print *print)
{
    struct subject fetched = {0};
    remat_status status = s->profile ? REMAT_OK : subject_fetch(cli, s->id, &fetched);
    const struct subject *known = s->profile ? s : &fetched;
    if (!status)
        status = judge(cli, known, question, answer->json);
    int code =
        status ? cli_failed(cli) : print(cli, known, answer->json, answer->text, answer->cache);
    subject_clear(&fetched);
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
               : curve              ? print(cli, s, answer.json, answer.text, answer.cache)
                                    : print_judged(cli, s, question, &answer, print);
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
