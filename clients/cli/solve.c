/* remat solve */
#include "cli.h"

#include <stdio.h>

/* That of the server, or made here; without one (an older server) nothing is said. */
static void explain(struct cli *cli, const struct subject *s, const json_t *schedule)
{
    remat_client_answer answer = {0};
    json_t *own = NULL;
    if (cli->local)
        own = local_explanation(s, schedule);
    else if (remat_client_get(cli->client, "schedules", json_get_text(schedule, "schedule_id"),
                              "/explanation", &answer, NULL))
        return;
    explanation_print(cli, own ? own : answer.json);
    json_decref(own);
    remat_client_answer_clear(&answer);
}

static int print_answer(struct cli *cli, const struct subject *s, const json_t *schedule,
                        const char *text, const char *cache)
{
    bool done;
    remat_status status =
        text ? cli_write_json(cli, text, &done) : cli_write_json_value(cli, schedule, &done);
    if (status)
        return cli_failed(cli);
    if (done)
        return CLI_OK;
    summary_print(cli, schedule, cache);
    explain(cli, s, schedule);
    return CLI_OK;
}

int command_solve(struct cli *cli)
{
    struct subject s = {0};
    if (cli->n_arguments != 1)
        return cli_usage(cli, "solve takes one PROFILE");
    if (!cli->budget)
        return cli_usage(cli, "solve needs --budget, like 4GiB or 60%%");
    if (subject_find(cli, cli->arguments[0], &s))
        return cli_failed(cli);
    if (cli->local && !s.document)
        return cli_usage(cli, "--local needs the profile itself, not its id");
    int code = subject_check_amounts(cli, &s);
    if (!code && cli->whole_device)
        code = plan_whole_device(cli, &s);
    if (!code)
        code = ask_question(cli, &s, REMAT_ASK_SCHEDULE, print_answer);
    subject_clear(&s);
    return code;
}
