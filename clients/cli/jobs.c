/* remat jobs */
#include "cli.h"

#include <math.h>
#include <string.h>

static void print_job(const struct cli *cli, const json_t *job)
{
    char elapsed[TEXT_SIZE];
    const json_t *position = json_object_get(job, "queue_position");
    const json_t *problem = json_object_get(job, "problem");
    double fraction = json_get_number(job, "progress");
    summary_line(cli, "job", "%.100s", json_get_text(job, "job_id"));
    summary_line(cli, "state", "%.20s", json_get_text(job, "state"));
    if (json_is_integer(position))
        summary_line(cli, "before it", "%.0f", json_number_value(position));
    if (!isnan(fraction))
        summary_line(cli, "progress", "%.0f %%", 100 * fraction);
    summary_line(cli, "elapsed", "%s",
                 text_seconds(json_get_number(job, "elapsed_seconds"), elapsed));
    summary_line(cli, "created", "%.40s", json_get_text(job, "created"));
    if (json_get_text(job, "schedule_id")[0])
        summary_line(cli, "schedule", "%.64s", json_get_text(job, "schedule_id"));
    if (problem)
        summary_line(
            cli, "problem", "%.700s",
            json_get_text(problem, json_object_get(problem, "detail") ? "detail" : "title"));
}

static void print_row(const json_t *job)
{
    char elapsed[TEXT_SIZE];
    double fraction = json_get_number(job, "progress");
    printf("  %-9.9s  %4.0f %%  %9s  ", json_get_text(job, "state"),
           isnan(fraction) ? 0 : 100 * fraction,
           text_seconds(json_get_number(job, "elapsed_seconds"), elapsed));
    text_cell(stdout, json_get_text(job, "created"), 24);
    fputs("  ", stdout);
    text_safe(stdout, json_get_text(job, "job_id"));
    putchar('\n');
}

static void print_list(const struct cli *cli, const json_t *answer)
{
    const json_t *jobs = json_object_get(answer, "jobs");
    if (json_array_size(jobs) == 0) {
        puts("No jobs.");
        return;
    }
    printf("%s  %-9s  %6s  %9s  %-24s  job%s\n", draw_paint(cli, PAINT_DIM), "state", "done",
           "elapsed", "created", draw_plain(cli));
    for (size_t i = 0; i < json_array_size(jobs); i++)
        print_row(json_array_get(jobs, i));
}

static int list(struct cli *cli)
{
    remat_client_answer answer;
    bool done;
    if (cli->n_arguments > 1)
        return cli_usage(cli, "jobs list takes no argument");
    if (cli_connect(cli) || remat_client_jobs(cli->client, &answer, &cli->error))
        return cli_failed(cli);
    remat_status status = cli_write_json(cli, answer.text, &done);
    if (!status && !done)
        print_list(cli, answer.json);
    remat_client_answer_clear(&answer);
    return status ? cli_failed(cli) : CLI_OK;
}

static int one(struct cli *cli, bool cancel)
{
    remat_client_answer answer;
    bool done;
    if (cli->n_arguments != 2)
        return cli_usage(cli, "jobs %s takes one job id", cli->arguments[0]);
    const char *id = cli->arguments[1];
    if (cli_connect(cli) || (cancel ? remat_client_cancel_job(cli->client, id, &answer, &cli->error)
                                    : remat_client_get_job(cli->client, id, &answer, &cli->error)))
        return cli_failed(cli);
    remat_status status = REMAT_OK;
    if (answer.json)
        status = cli_write_json(cli, answer.text, &done);
    else
        done = cli->json;
    if (!status && !done && answer.json)
        print_job(cli, answer.json);
    else if (!status && !done)
        printf("The job %s is cancelled.\n", id);
    remat_client_answer_clear(&answer);
    return status ? cli_failed(cli) : CLI_OK;
}

int command_jobs(struct cli *cli)
{
    const char *verb = cli->n_arguments > 0 ? cli->arguments[0] : "list";
    if (strcmp(verb, "list") == 0)
        return list(cli);
    if (strcmp(verb, "show") == 0)
        return one(cli, false);
    if (strcmp(verb, "cancel") == 0)
        return one(cli, true);
    return cli_usage(cli, "jobs knows list, show and cancel, not \"%.40s\"", verb);
}
