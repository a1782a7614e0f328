/* remat solvers */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Appends ", name" to text. */
static void add_word(char *text, size_t size, const char *word)
{
    size_t length = strlen(text);
    snprintf(text + length, size - length, "%s%s", length ? ", " : "", word);
}

static void print_accepts(const struct cli *cli, const json_t *solver)
{
    char text[160] = "";
    const json_t *shapes = json_object_get(solver, "accepts");
    for (size_t i = 0; i < json_array_size(shapes); i++) {
        const char *shape = json_string_value(json_array_get(shapes, i));
        add_word(text, sizeof text, shape ? shape : "");
    }
    if (json_is_true(json_object_get(solver, "homogeneous_only")))
        add_word(text, sizeof text, "homogeneous costs only");
    if (json_is_true(json_object_get(solver, "needs_link")))
        add_word(text, sizeof text, "needs a link to the host");
    summary_line(cli, "accepts", "%s", text);
}

static void print_option(const struct cli *cli, const json_t *option)
{
    char range[96] = "";
    const json_t *value = json_object_get(option, "default");
    double low = json_get_number(option, "minimum"), high = json_get_number(option, "maximum");
    const json_t *choices = json_object_get(option, "choices");
    for (size_t i = 0; i < json_array_size(choices); i++) {
        const char *choice = json_string_value(json_array_get(choices, i));
        add_word(range, sizeof range, choice ? choice : "");
    }
    if (!isnan(low) && !isnan(high))
        snprintf(range, sizeof range, "%g to %g", low, high);
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    summary_line(cli, "option", "%s: %s (%s%sdefault %s)", json_get_text(option, "name"),
                 json_get_text(option, "summary"), range, range[0] ? "; " : "", text ? text : "-");
    free(text);
}

static void print_solver(const struct cli *cli, const json_t *solver)
{
    printf("%s", draw_paint(cli, PAINT_BOLD));
    text_safe(stdout, json_get_text(solver, "name"));
    printf("%s  ", draw_plain(cli));
    text_safe(stdout, json_get_text(solver, "summary"));
    putchar('\n');
    print_accepts(cli, solver);
    if (json_get_text(solver, "optimal_for")[0])
        summary_line(cli, "optimal for", "%s", json_get_text(solver, "optimal_for"));
    if (json_get_text(solver, "source")[0])
        summary_line(cli, "source", "%s", json_get_text(solver, "source"));
    const json_t *options = json_object_get(solver, "options");
    for (size_t i = 0; i < json_array_size(options); i++)
        print_option(cli, json_array_get(options, i));
}

static int print(struct cli *cli, const json_t *answer, const char *text)
{
    const json_t *list = json_object_get(answer, "solvers");
    bool done;
    remat_status status =
        text ? cli_write_json(cli, text, &done) : cli_write_json_value(cli, answer, &done);
    if (status)
        return cli_failed(cli);
    for (size_t i = 0; i < json_array_size(list) && !done; i++) {
        if (i > 0)
            putchar('\n');
        print_solver(cli, json_array_get(list, i));
    }
    const json_t *links = json_object_get(answer, "links");
    for (size_t i = 0; i < json_array_size(links) && !done; i++) {
        const json_t *link = json_array_get(links, i);
        printf("%s--link %s  ", i > 0 ? "" : "\n", json_get_text(link, "preset"));
        text_safe(stdout, json_get_text(link, "summary"));
        printf(" (%g GB/s each way)\n",
               json_number_value(json_object_get(link, "bytes_per_second")) / 1e9);
    }
    return CLI_OK;
}

static int print_own(struct cli *cli)
{
    json_t *answer = remat_solvers_encode();
    if (!answer) {
        remat_fail_memory(&cli->error);
        return cli_failed(cli);
    }
    int code = print(cli, answer, NULL);
    json_decref(answer);
    return code;
}

int command_solvers(struct cli *cli)
{
    remat_client_answer answer;
    if (cli->n_arguments > 0)
        return cli_usage(cli, "solvers takes no argument");
    if (cli->local)
        return print_own(cli);
    remat_status status = cli_connect(cli);
    if (!status)
        status = remat_client_solvers(cli->client, &answer, &cli->error);
    if (cli_expect_list(cli, status, &answer, "solvers", "{s:s}", "name"))
        return cli_failed(cli);
    int code = print(cli, answer.json, answer.text);
    remat_client_answer_clear(&answer);
    return code;
}
