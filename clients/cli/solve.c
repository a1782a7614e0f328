/* remat solve */
#include "cli.h"

#include <stdio.h>

static void explain(struct cli *cli, const struct subject *s, const json_t *schedule)
{
    json_t *explanation = local_explanation(s, schedule);
    explanation_print(cli, explanation);
    json_decref(explanation);
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
