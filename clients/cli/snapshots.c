/* remat snapshots: what a checkpoint must save, for authors of AD tools. */
#include "cli.h"
#include "snapshot/snapshot.h"

#include <string.h>

/* "a b c", or "-" for the empty set. */
static void print_set(const struct cli *cli, const char *label, const json_t *set)
{
    char text[2048] = "";
    for (size_t i = 0; i < json_array_size(set); i++) {
        size_t length = strlen(text);
        const char *name = json_string_value(json_array_get(set, i));
        snprintf(text + length, sizeof text - length, "%s%s", i ? " " : "", name ? name : "");
    }
    summary_line(cli, label, "%s", text[0] ? text : "-");
}

static void print_sets(const struct cli *cli, const json_t *holder, const char *const *names,
                       size_t n)
{
    for (size_t i = 0; i < n; i++)
        print_set(cli, names[i], json_object_get(holder, names[i]));
}

static const char *const solution_sets[] = {"Sbk", "Snp", "Req_D", "Req_C"};

static void print_priced(const struct cli *cli, const char *title, const json_t *priced)
{
    if (!json_is_object(priced))
        return;
    printf("%s%s%s: peak %.17g, pushed %.17g\n", draw_paint(cli, PAINT_BOLD), title,
           draw_plain(cli), json_get_number(priced, "peak"), json_get_number(priced, "pushed"));
    print_sets(cli, json_object_get(priced, "solution"), solution_sets, 4);
}

static bool holds(const json_t *check)
{
    return json_is_true(json_object_get(check, "condition_3")) &&
           json_is_true(json_object_get(check, "condition_4"));
}

static void print_checks(const struct cli *cli, const json_t *checks)
{
    for (size_t i = 0; i < json_array_size(checks); i++) {
        const json_t *check = json_array_get(checks, i);
        printf("proposal %zu: %s%s\n", i, holds(check) ? "valid" : "NOT valid",
               json_is_true(json_object_get(check, "minimal")) ? ", minimal" : "");
        if (!holds(check)) {
            print_set(cli, "breaks (3)", json_object_get(check, "violated_3"));
            print_set(cli, "breaks (4)", json_object_get(check, "violated_4"));
        }
    }
}

static void print_fragment(const struct cli *cli, const json_t *answer)
{
    static const char *const published[] = {"Snp0", "Opt1", "Opt2", "Opt3", "out"};
    print_sets(cli, answer, published, 5);
    summary_line(cli, "minimal", "%.17g solutions", json_get_number(answer, "minimal_count"));
    print_priced(cli, "lazy", json_object_get(answer, "lazy"));
    print_priced(cli, "eager", json_object_get(answer, "eager"));
    print_priced(cli, "cheapest", json_object_get(answer, "cheapest"));
    print_checks(cli, json_object_get(answer, "checks"));
}

static void print_sequence(const struct cli *cli, const json_t *answer, const char *strategy)
{
    const json_t *checkpoints = json_object_get(answer, strategy);
    printf("%s%s%s\n", draw_paint(cli, PAINT_BOLD), strategy, draw_plain(cli));
    for (size_t i = 0; i < json_array_size(checkpoints); i++) {
        const json_t *one = json_array_get(checkpoints, i);
        const json_t *path = json_object_get(one, "path");
        printf("checkpoint ");
        for (size_t k = 0; k < json_array_size(path); k++)
            printf("%s%lld", k ? "." : "", (long long)json_integer_value(json_array_get(path, k)));
        putchar('\n');
        print_sets(cli, one, solution_sets, 4);
    }
}

static int print_answer(struct cli *cli, const json_t *answer, const char *text)
{
    bool done = false, good = true;
    remat_status status =
        text ? cli_write_json(cli, text, &done) : cli_write_json_value(cli, answer, &done);
    if (status)
        return cli_failed(cli);
    const json_t *checks = json_object_get(answer, "checks");
    for (size_t i = 0; i < json_array_size(checks); i++)
        good &= holds(json_array_get(checks, i));
    if (!done && json_object_get(answer, "cheapest")) {
        print_fragment(cli, answer);
    } else if (!done) {
        print_sequence(cli, answer, "lazy");
        print_sequence(cli, answer, "eager");
    }
    return good ? CLI_OK : CLI_NO;
}

static int ask(struct cli *cli, const json_t *question)
{
    remat_client_answer answer = {0};
    json_t *local = NULL;
    remat_status status = cli->local ? REMAT_OK : cli_connect(cli);
    if (!status && cli->local)
        status = remat_answer_snapshots(question, &local, &cli->error);
    else if (!status)
        status = remat_client_request(cli->client, "POST", "/v1/snapshots", question, &answer,
                                      &cli->error);
    if (status)
        return cli_failed(cli);
    int code = print_answer(cli, cli->local ? local : answer.json, cli->local ? NULL : answer.text);
    json_decref(local);
    if (!cli->local)
        remat_client_answer_clear(&answer);
    return code;
}

int command_snapshots(struct cli *cli)
{
    json_t *question = NULL;
    if (cli->n_arguments != 1)
        return cli_usage(cli, "snapshots takes one FILE");
    if (file_read_json(cli->arguments[0], &question, &cli->error))
        return cli_failed(cli);
    int code = ask(cli, question);
    json_decref(question);
    return code;
}
