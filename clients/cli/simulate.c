/* remat simulate: replays an operation list on a profile, here. Of the server it asks the profile,
 * where only its id is given. */
#include "cli.h"

#include <math.h>
#include <string.h>

static void print_recomputed(const struct cli *cli, const json_t *answer, const char *unit)
{
    const json_t *nodes = json_object_get(answer, "recomputed");
    const char *id;
    json_t *time;
    char text[TEXT_SIZE];
    if (json_object_size(nodes) == 0)
        return;
    printf("\n%srecomputed%s  (%zu node%s)\n\n", draw_paint(cli, PAINT_BOLD), draw_plain(cli),
           json_object_size(nodes), json_object_size(nodes) == 1 ? "" : "s");
    json_object_foreach((json_t *)nodes, id, time)
    {
        printf("  %14s  ", text_time(json_number_value(time), unit, text));
        text_safe(stdout, id);
        putchar('\n');
    }
}

static void print_valid(const struct cli *cli, const json_t *answer)
{
    char a[TEXT_SIZE], b[TEXT_SIZE];
    const char *unit = json_get_text(answer, "time_unit");
    double idle = json_get_number(answer, "idle_time");
    double host = json_get_number(answer, "host_peak");
    puts("valid");
    summary_in_flight(cli, answer);
    summary_line(cli, "peak", "%s at operation %.0f",
                 text_bytes(json_get_number(answer, "peak"), a),
                 json_get_number(answer, "peak_operation"));
    summary_line(cli, "makespan", "%s, overhead %s",
                 text_time(json_get_number(answer, "makespan"), unit, a),
                 text_percent(json_get_number(answer, "overhead"), b));
    summary_line(cli, "recomputed", "%s",
                 text_time(json_get_number(answer, "recomputed_time"), unit, a));
    if (idle > 0)
        summary_line(cli, "idle", "%s", text_time(idle, unit, a));
    if (host > 0)
        summary_line(cli, "on the host", "%s", text_bytes(host, a));
    print_recomputed(cli, answer, unit);
}

static int print_answer(struct cli *cli, const json_t *answer)
{
    bool done, valid = json_is_true(json_object_get(answer, "valid"));
    remat_status status = cli_write_json_value(cli, answer, &done);
    if (status)
        return cli_failed(cli);
    if (!done && valid) {
        print_valid(cli, answer);
    } else if (!done) {
        printf("not valid: operation %.0f: ", json_get_number(answer, "bad_operation"));
        text_safe(stdout, json_get_text(answer, "reason"));
        putchar('\n');
    }
    return valid ? CLI_OK : CLI_NO;
}

static int simulate_here(struct cli *cli, const struct subject *s, const json_t *operations,
                         const json_t *link)
{
    json_t *answer = NULL;
    const remat_request request = {
        .operations = operations, .link = link, .in_flight = cli->in_flight};
    if (remat_answer_simulation(&request, s->profile, &answer, &cli->error))
        return cli_failed(cli);
    int code = print_answer(cli, answer);
    json_decref(answer);
    return code;
}

/* A schedule file is an answer of solve, or its operations alone. */
static int simulate(struct cli *cli, const struct subject *s, const json_t *file)
{
    const json_t *operations = json_is_array(file) ? file : json_object_get(file, "operations");
    const json_t *link = json_object_get(file, "link");
    const char *wanted = json_get_text(file, "profile_id");
    if (!operations) {
        remat_fail(&cli->error, REMAT_INVALID, "operations", "%.200s has no operations",
                   cli->arguments[1]);
        return cli_failed(cli);
    }
    if (cli->in_flight == 0 && json_get_number(file, "in_flight") > 1)
        cli->in_flight = (unsigned)json_get_number(file, "in_flight");
    if (wanted[0] && strcmp(wanted, s->id) != 0)
        fprintf(stderr, "remat simulate: the schedule was made for another profile, %.12s..\n",
                wanted);
    struct subject fetched = {0};
    if (!s->profile && subject_fetch(cli, s->id, &fetched))
        return cli_failed(cli);
    int code = simulate_here(cli, s->profile ? s : &fetched, operations, link);
    subject_clear(&fetched);
    return code;
}

int command_simulate(struct cli *cli)
{
    struct subject s = {0};
    json_t *file = NULL;
    if (cli->n_arguments != 2)
        return cli_usage(cli, "simulate takes a PROFILE and a SCHEDULE-FILE");
    if (strcmp(cli->arguments[0], "-") == 0 && strcmp(cli->arguments[1], "-") == 0)
        return cli_usage(cli, "only one of PROFILE and SCHEDULE-FILE can be standard input");
    if (subject_find(cli, cli->arguments[0], &s))
        return cli_failed(cli);
    if (cli->local && !s.document)
        return cli_usage(cli, "--local needs the profile itself, not its id");
    int code = file_read_json(cli->arguments[1], &file, &cli->error) ? cli_failed(cli)
                                                                     : simulate(cli, &s, file);
    json_decref(file);
    subject_clear(&s);
    return code;
}
