/* remat profile */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_LIMIT 100
#define PAGE 100
#define LEAST_WAIT 20 /* seconds */

/* The least that auto serves, the beginning of the page's slider and of curve: the server finds it
 * once. The minima in the summary are those of the quick solvers alone, and may be far above. */
static void print_least(struct cli *cli, const json_t *summary)
{
    const remat_client_wait wait = {.seconds = LEAST_WAIT};
    char bytes[TEXT_SIZE];
    remat_client_answer answer = {0};
    json_t *question =
        json_pack("{s:O, s:i}", "profile_id", json_object_get(summary, "profile_id"), "points", 2);
    remat_status status =
        question ? remat_client_tradeoffs(cli->client, question, NULL, &wait, &answer, NULL)
                 : REMAT_NO_MEMORY;
    const json_t *first = status ? NULL : json_array_get(answer.json, 0);
    if (first && json_is_true(json_object_get(first, "feasible")))
        summary_line(cli, "least budget", "%s by %s",
                     text_bytes(json_get_number(first, "budget"), bytes),
                     json_get_text(first, "solver"));
    else if (!status && answer.status == 202)
        summary_line(cli, "least budget", "still being found; 'remat curve' waits for it");
    remat_client_answer_clear(&answer);
    json_decref(question);
}

static void print_minima(struct cli *cli, const json_t *summary)
{
    char bytes[TEXT_SIZE];
    if (cli->client)
        print_least(cli, summary);
    double floor = json_get_number(summary, "floor");
    if (!isnan(floor))
        summary_line(cli, "proven", "no schedule without offloading does with less than %s",
                     text_bytes(floor, bytes));
}

static void print_summary(struct cli *cli, const json_t *summary)
{
    char peak[TEXT_SIZE], makespan[TEXT_SIZE];
    const json_t *store_all = json_object_get(summary, "store_all");
    bool homogeneous = json_is_true(json_object_get(summary, "homogeneous"));
    printf("%s", draw_paint(cli, PAINT_BOLD));
    text_safe(stdout, json_get_text(summary, "name"));
    printf("%s\n", draw_plain(cli));
    double nodes = json_get_number(summary, "nodes"), edges = json_get_number(summary, "edges");
    summary_line(cli, "kind", "%s%s of %.0f node%s and %.0f edge%s",
                 homogeneous                         ? "homogeneous "
                 : json_object_get(summary, "graph") ? "joint "
                                                     : "",
                 json_get_text(summary, "kind"), nodes, nodes == 1 ? "" : "s", edges,
                 edges == 1 ? "" : "s");
    summary_line(cli, "store all", "%s in %s", text_bytes(json_get_number(store_all, "peak"), peak),
                 text_time(json_get_number(store_all, "makespan"),
                           json_get_text(summary, "time_unit"), makespan));
    print_minima(cli, summary);
    const json_t *names = json_object_get(summary, "names");
    for (size_t i = 1; i < json_array_size(names); i++)
        summary_line(cli, i == 1 ? "also called" : "", "%s",
                     json_string_value(json_array_get(names, i)));
    summary_line(cli, "profile", "%.64s", json_get_text(summary, "profile_id"));
}

/* Prints the answer that a call came to, and frees it. */
static int finish(struct cli *cli, remat_status status, remat_client_answer *answer)
{
    bool done;
    if (cli_expect(cli, status, answer, "{s:s, s:s, s:F, s:F}", "profile_id", "name", "nodes",
                   "edges"))
        return cli_failed(cli);
    status = cli_write_json(cli, answer->text, &done);
    if (!status && !done)
        print_summary(cli, answer->json);
    if (!status && !done && answer->status == 200 && strcmp(cli->arguments[0], "push") == 0)
        puts(json_object_get(answer->json, "names")
                 ? "  (it was there already, and has all these names)"
                 : "  (it was there already)");
    remat_client_answer_clear(answer);
    return status ? cli_failed(cli) : CLI_OK;
}

static int check(struct cli *cli)
{
    struct subject s = {0};
    bool done;
    remat_status status = subject_load(cli->arguments[1], &s, &cli->error);
    if (!status && !s.document)
        status = remat_fail(&cli->error, REMAT_INVALID, NULL, "cannot open %.64s: no such file",
                            cli->arguments[1]);
    json_t *summary = status ? NULL : remat_profile_summary(s.profile, s.store_all_peak, NULL, 0);
    if (!status)
        status =
            summary ? cli_write_json_value(cli, summary, &done) : remat_fail_memory(&cli->error);
    if (!status && !done)
        print_summary(cli, summary);
    json_decref(summary);
    subject_clear(&s);
    return status ? cli_failed(cli) : CLI_OK;
}

static int push(struct cli *cli)
{
    json_t *document = NULL;
    remat_client_answer answer;
    remat_status status = file_read_json(cli->arguments[1], &document, &cli->error);
    if (!status)
        status = cli_connect(cli);
    if (!status)
        status = remat_client_request(cli->client, "POST", "/v1/profiles", document, &answer,
                                      &cli->error);
    json_decref(document);
    return finish(cli, status, &answer);
}

static int show(struct cli *cli)
{
    remat_client_answer answer;
    char id[REMAT_ID_SIZE];
    if (cli_connect(cli) || find_profile(cli, cli->arguments[1], id))
        return cli_failed(cli);
    return finish(cli, remat_client_get(cli->client, "profiles", id, "", &answer, &cli->error),
                  &answer);
}

/* The file's name without folder and ending. */
static void name_of(const char *path, char name[201])
{
    const char *base = strrchr(path, '/');
    snprintf(name, 201, "%.200s", strcmp(path, "-") == 0 ? "imported" : base ? base + 1 : path);
    char *dot = strrchr(name, '.');
    if (dot && dot != name)
        *dot = '\0';
}

static int import(struct cli *cli)
{
    char *text = NULL, name[201];
    json_t *document = NULL;
    remat_profile *profile = NULL;
    bool done = false;
    name_of(cli->arguments[1], name);
    remat_status status = file_read_text(cli->arguments[1], &text, &cli->error);
    if (!status)
        status = import_profile(text, cli->name ? cli->name : name, &document, &cli->error);
    if (!status)
        status = remat_profile_decode(document, "", &profile, &cli->error);
    cli->json |= !status; /* an answer in JSON or none */
    if (!status)
        status = cli_write_json_value(cli, document, &done);
    free(text);
    json_decref(document);
    remat_profile_free(profile);
    return status ? cli_failed(cli) : CLI_OK;
}

/* ---- list ---- */

static void print_row(const json_t *profile)
{
    fputs("  ", stdout);
    text_cell(stdout, json_get_text(profile, "name"), 28);
    printf("  %-6.6s  %6.0f  ", json_get_text(profile, "kind"), json_get_number(profile, "nodes"));
    text_cell(stdout, json_get_text(profile, "created"), 24);
    fputs("  ", stdout);
    text_safe(stdout, json_get_text(profile, "profile_id"));
    putchar('\n');
}

/* Prints the profiles of a page, at most *left. The cursor of the next page, or NULL. */
static const char *print_page(const json_t *answer, unsigned *left)
{
    const json_t *list = json_object_get(answer, "profiles");
    for (size_t i = 0; i < json_array_size(list) && *left > 0; i++, --*left)
        print_row(json_array_get(list, i));
    return json_array_size(list) > 0 ? json_string_value(json_object_get(answer, "next")) : NULL;
}

static int list_pages(struct cli *cli)
{
    unsigned left = cli->limit ? cli->limit : DEFAULT_LIMIT;
    json_t *kept = NULL; /* the page whose cursor is in use */
    const char *cursor = cli->cursor;
    remat_status status = REMAT_OK;
    do {
        remat_client_answer answer;
        status = remat_client_profiles(cli->client, cli->name, cursor, left < PAGE ? left : PAGE,
                                       &answer, &cli->error);
        status = cli_expect_list(cli, status, &answer, "profiles", "{s:s}", "profile_id");
        if (status)
            break;
        if (!kept)
            printf("%s  %-28s  %-6s  %6s  %-24s  profile%s\n", draw_paint(cli, PAINT_DIM), "name",
                   "kind", "nodes", "created", draw_plain(cli));
        json_decref(kept);
        kept = json_incref(answer.json);
        remat_client_answer_clear(&answer);
        cursor = print_page(kept, &left);
    } while (cursor && left > 0);
    if (!status && cursor)
        printf("  More: --cursor %s\n", cursor);
    json_decref(kept);
    return status ? cli_failed(cli) : CLI_OK;
}

static int list(struct cli *cli)
{
    remat_client_answer answer;
    bool done;
    if (cli_connect(cli))
        return cli_failed(cli);
    if (!cli->json && !cli->output)
        return list_pages(cli);
    remat_status status = remat_client_profiles(cli->client, cli->name, cli->cursor, cli->limit,
                                                &answer, &cli->error);
    if (cli_expect_list(cli, status, &answer, "profiles", "{s:s}", "profile_id"))
        return cli_failed(cli);
    status = cli_write_json(cli, answer.text, &done);
    remat_client_answer_clear(&answer);
    return status ? cli_failed(cli) : CLI_OK;
}

int command_profile(struct cli *cli)
{
    static const struct {
        const char *name;
        int (*run)(struct cli *cli);
        int arguments;
        const char *idle; /* options that do nothing */
    } verbs[] = {{"check", check, 2, "name limit cursor server timeout"},
                 {"push", push, 2, "name limit cursor"},
                 {"list", list, 1, ""},
                 {"show", show, 2, "name limit cursor"},
                 {"import", import, 2, "limit cursor server timeout"}};
    char beside[24];
    if (cli->n_arguments == 0)
        return cli_usage(cli, "profile needs check, push, list, show or import");
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (strcmp(verbs[i].name, cli->arguments[0]) != 0)
            continue;
        if (cli->n_arguments != verbs[i].arguments)
            return cli_usage(cli, "profile %s takes %s", verbs[i].name,
                             verbs[i].arguments == 1 ? "no argument" : "one argument");
        snprintf(beside, sizeof beside, "profile %s", verbs[i].name);
        if (options_refuse(cli, verbs[i].idle, beside))
            return CLI_USAGE;
        return verbs[i].run(cli);
    }
    static const char *const names[] = {"check", "push", "list", "show", "import"};
    return cli_unknown(cli, cli->arguments[0], names, sizeof names / sizeof *names,
                       "profile knows check, push, list, show and import, not");
}
