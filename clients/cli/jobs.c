/* remat jobs */
#include "cli.h"

#include <math.h>
#include <string.h>

/* What was asked, and by whom. */
static void print_question(const struct cli *cli, const json_t *job)
{
    char bytes[TEXT_SIZE];
    const char *name = json_get_text(job, "profile_name"), *by = json_get_text(job, "asked_by");
    double budget = json_get_number(job, "budget"), asked = json_get_number(job, "asked");
    if (json_get_text(job, "profile_id")[0])
        summary_line(cli, "profile", "%s%s%.12s", name, name[0] ? ", " : "",
                     json_get_text(job, "profile_id"));
    if (!isnan(budget))
        summary_line(cli, "budget", "%s", text_bytes(budget, bytes));
    else
        summary_line(cli, "budget", "a curve");
    summary_line(cli, "solver", "%.60s", json_get_text(job, "solver"));
    if (by[0] && asked > 1)
        summary_line(cli, "asked by", "%.80s, and %.0f more request%s", by, asked - 1,
                     asked > 2 ? "s" : "");
    else if (by[0])
        summary_line(cli, "asked by", "%.80s", by);
}

static void print_job(const struct cli *cli, const json_t *job)
{
    char elapsed[TEXT_SIZE];
    const json_t *position = json_object_get(job, "queue_position");
    const json_t *problem = json_object_get(job, "problem");
    double fraction = json_get_number(job, "progress");
    const double best = json_get_number(job, "best_makespan"),
                 bound = json_get_number(job, "lower_bound");
    summary_line(cli, "job", "%.100s", json_get_text(job, "job_id"));
    summary_line(cli, "state", "%.20s", json_get_text(job, "state"));
    print_question(cli, job);
    if (json_is_integer(position) && json_integer_value(position) > 0)
        summary_line(cli, "before it", "%.0f", json_number_value(position));
    if (!isnan(fraction) && !problem)
        summary_line(cli, "progress", "%.0f %%", 100 * fraction);
    if (best > 0 && bound > 0 && !problem)
        summary_line(cli, "gap", "%.2f %% so far", 100 * fmax(0, best / bound - 1));
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

/* Columns beyond which a list tells more. */
enum { WIDE = 132 };

static void print_row(const struct cli *cli, const json_t *job)
{
    char text[TEXT_SIZE];
    double fraction = json_get_number(job, "progress");
    const char *name = json_get_text(job, "profile_name");
    printf("  %-10.10s  %4.0f %%  %9s  ", json_get_text(job, "state"),
           isnan(fraction) ? 0 : 100 * fraction,
           text_seconds(json_get_number(job, "elapsed_seconds"), text));
    printf("%9s  %-11.11s  ", text_bytes(json_get_number(job, "budget"), text),
           json_get_text(job, "solver"));
    text_cell(stdout, name[0] ? name : json_get_text(job, "profile_id"), 16);
    fputs("  ", stdout);
    printf("%.12s", json_get_text(job, "job_id")); /* its beginning is as good */
    if (cli->width >= WIDE) {
        fputs("  ", stdout);
        text_cell(stdout, json_get_text(job, "created"), 24);
        fputs("  ", stdout);
        text_safe(stdout, json_get_text(job, "asked_by"));
    }
    putchar('\n');
}

static void print_list(const struct cli *cli, const json_t *answer)
{
    const json_t *jobs = json_object_get(answer, "jobs");
    if (json_array_size(jobs) == 0) {
        puts("No jobs.");
        return;
    }
    printf("%s  %-10s  %6s  %9s  %9s  %-11s  %-16s  %-12s%s%s\n", draw_paint(cli, PAINT_DIM),
           "state", "done", "elapsed", "budget", "solver", "profile", "job",
           cli->width >= WIDE ? "  created                   asked by" : "", draw_plain(cli));
    for (size_t i = 0; i < json_array_size(jobs); i++)
        print_row(cli, json_array_get(jobs, i));
    if (json_get_text(answer, "next")[0])
        printf("  More: --cursor %s\n", json_get_text(answer, "next"));
}

static int list(struct cli *cli)
{
    remat_client_answer answer;
    bool done;
    char path[400];
    if (cli->n_arguments > 1)
        return cli_usage(cli, "jobs list takes no argument");
    snprintf(path, sizeof path, "/v1/jobs?limit=%u%s%.200s", cli->limit ? cli->limit : 100,
             cli->cursor ? "&cursor=" : "", cli->cursor ? cli->cursor : "");
    if (cli->cursor && strspn(cli->cursor, "0123456789abcdefTZ:._-") != strlen(cli->cursor))
        return cli_usage(cli, "--cursor is not one of a list of jobs");
    remat_status status = cli_connect(cli);
    if (!status)
        status = remat_client_request(cli->client, "GET", path, NULL, &answer, &cli->error);
    if (cli_expect_list(cli, status, &answer, "jobs", "{s:s}", "job_id"))
        return cli_failed(cli);
    status = cli_write_json(cli, answer.text, &done);
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
    char id[REMAT_ID_SIZE];
    if (options_refuse(cli, "limit cursor", cancel ? "jobs cancel" : "jobs show"))
        return CLI_USAGE;
    if (cli_connect(cli) || find_job(cli, cli->arguments[1], id))
        return cli_failed(cli);
    remat_status status = cancel
                              ? remat_client_cancel_job(cli->client, id, &answer, &cli->error)
                              : remat_client_get(cli->client, "jobs", id, "", &answer, &cli->error);
    if (cli_expect(cli, status, &answer, "{s:s, s:s}", "job_id", "state"))
        return cli_failed(cli);
    status = cli_write_json(cli, answer.text, &done);
    if (!status && !done) {
        print_job(cli, answer.json);
        if (cancel && strcmp(json_get_text(answer.json, "state"), "running") == 0)
            puts("  (it is being cancelled)");
    }
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
    static const char *const names[] = {"list", "show", "cancel"};
    return cli_unknown(cli, verb, names, sizeof names / sizeof *names,
                       "jobs knows list, show and cancel, not");
}
