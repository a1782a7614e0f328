/* The command line: one table of all options and who takes them. */
#include "cli.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PROFILE = 1,
    SOLVE = 2,
    CURVE = 4,
    SHOW = 8,
    SIMULATE = 16,
    JOBS = 32,
    SOLVERS = 64,
    VERSION = 128,
    SNAPSHOTS = 256,
    GLOBAL = 512,
    PLAN = 1024,
    CALIBRATE = 2048,
    ASKING = PROFILE | SOLVE | CURVE | SHOW | SIMULATE | SNAPSHOTS | JOBS | SOLVERS | PLAN,
    EVERY = ASKING | VERSION | CALIBRATE
};

typedef enum option_id {
    OPTION_HELP = 'h',
    OPTION_VERSION = 'V',
    OPTION_OUTPUT = 'o',
    OPTION_BUDGET = 'b',
    OPTION_ALL = 'a',
    OPTION_JSON = 256, /* from here on: no short form */
    OPTION_SERVER,
    OPTION_TIMEOUT,
    OPTION_RESERVED,
    OPTION_SOLVER,
    OPTION_OPTION,
    OPTION_WAIT,
    OPTION_LOCAL,
    OPTION_POINTS,
    OPTION_BUDGETS,
    OPTION_PROFILE,
    OPTION_ASCII,
    OPTION_NAME,
    OPTION_CURSOR,
    OPTION_LIMIT,
    OPTION_LINK,
    OPTION_ALIGNMENT,
    OPTION_EFFORT,
    OPTION_NO_LAYOUT,
    OPTION_DEVICE,
    OPTION_WHOLE_DEVICE,
    OPTION_PLAN /* from here on: members of a plan's request, in the order of the table */
} option_id;

static const struct {
    const char *name;
    option_id id;
    bool argument;
    unsigned commands;
} options[] = {
    {"help", OPTION_HELP, false, EVERY | GLOBAL},
    {"version", OPTION_VERSION, false, GLOBAL},
    {"json", OPTION_JSON, false, EVERY | GLOBAL},
    {"server", OPTION_SERVER, true, ASKING | GLOBAL},
    {"timeout", OPTION_TIMEOUT, true, ASKING | GLOBAL},
    {"output", OPTION_OUTPUT, true, ASKING | CALIBRATE},
    {"budget", OPTION_BUDGET, true, SOLVE},
    {"reserved", OPTION_RESERVED, true, SOLVE},
    {"solver", OPTION_SOLVER, true, SOLVE | CURVE | PLAN},
    {"option", OPTION_OPTION, true, SOLVE | CURVE | PLAN},
    {"link", OPTION_LINK, true, SOLVE | CURVE},
    {"alignment", OPTION_ALIGNMENT, true, SOLVE},
    {"no-layout", OPTION_NO_LAYOUT, false, SOLVE},
    {"effort", OPTION_EFFORT, true, SOLVE | PLAN},
    {"wait", OPTION_WAIT, true, SOLVE | CURVE | PLAN},
    {"local", OPTION_LOCAL, false, SOLVE | CURVE | SIMULATE | SNAPSHOTS | SOLVERS | PLAN},
    {"points", OPTION_POINTS, true, CURVE},
    {"budgets", OPTION_BUDGETS, true, CURVE},
    {"profile", OPTION_PROFILE, true, SHOW},
    {"all", OPTION_ALL, false, SHOW},
    {"ascii", OPTION_ASCII, false, SHOW | CURVE},
    {"name", OPTION_NAME, true, PROFILE},
    {"cursor", OPTION_CURSOR, true, PROFILE | JOBS},
    {"limit", OPTION_LIMIT, true, PROFILE | JOBS},
    {"device", OPTION_DEVICE, true, PLAN | SOLVE},
    {"whole-device", OPTION_WHOLE_DEVICE, false, SOLVE},
    {"batch", OPTION_PLAN, true, PLAN},
    {"sequence", OPTION_PLAN + 1, true, PLAN},
    {"image", OPTION_PLAN + 2, true, PLAN},
    {"layers", OPTION_PLAN + 3, true, PLAN},
    {"parameters", OPTION_PLAN + 4, true, PLAN | SOLVE},
    {"attention", OPTION_PLAN + 5, true, PLAN},
    {"optimizer", OPTION_PLAN + 6, true, PLAN | SOLVE},
    {"precision", OPTION_PLAN + 7, true, PLAN | SOLVE},
    {"no-master", OPTION_PLAN + 8, false, PLAN | SOLVE},
    {"parallel", OPTION_PLAN + 9, true, PLAN | SOLVE},
    {"ranks", OPTION_PLAN + 10, true, PLAN | SOLVE},
    {"view-buckets", OPTION_PLAN + 11, false, PLAN | SOLVE},
    {"no-prefetch", OPTION_PLAN + 12, false, PLAN | SOLVE},
    {"offload", OPTION_PLAN + 13, false, PLAN},
    {"no-sweep", OPTION_PLAN + 14, false, PLAN},
};

enum { N_OPTIONS = sizeof options / sizeof *options };

static unsigned command_flag(const char *command)
{
    static const struct {
        const char *name;
        unsigned flag;
    } commands[] = {{"profile", PROFILE},     {"solve", SOLVE},        {"curve", CURVE},
                    {"show", SHOW},           {"simulate", SIMULATE},  {"jobs", JOBS},
                    {"snapshots", SNAPSHOTS}, {"solvers", SOLVERS},    {"version", VERSION},
                    {"plan", PLAN},           {"calibrate", CALIBRATE}};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(commands[i].name, command) == 0)
            return commands[i].flag;
    return 0;
}

/* ---- values ---- */

static int take_number(struct cli *cli, const char *name, const char *text, double least,
                       double most, double *ret_number)
{
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end || !(number >= least && number <= most))
        return cli_usage(cli, "--%s is \"%.60s\"; it must be a number from %g to %g", name, text,
                         least, most);
    *ret_number = number;
    return CLI_OK;
}

static int take_count(struct cli *cli, const char *name, const char *text, unsigned least,
                      unsigned most, unsigned *ret_count)
{
    double number = 0;
    int code = take_number(cli, name, text, least, most, &number);
    if (code)
        return code;
    if (number != floor(number))
        return cli_usage(cli, "--%s is \"%.60s\"; it must be an integer", name, text);
    *ret_count = (unsigned)number;
    return CLI_OK;
}

/* Bytes are read by the one parser there is, that of requests. */
static int check_amount(struct cli *cli, const char *name, const char *text, bool percent_allowed)
{
    remat_amount amount;
    char field[24];
    snprintf(field, sizeof field, "--%s", name);
    json_t *json = json_string(text);
    if (!json)
        return cli_usage(cli, "%s is not UTF-8", field);
    remat_status status = remat_amount_decode(json, field, percent_allowed, &amount, &cli->error);
    json_decref(json);
    return status ? cli_usage(cli, "%s", cli->error.message) : CLI_OK;
}

static int take_amount(struct cli *cli, const char *name, const char *text, bool percent_allowed,
                       const char **ret_text)
{
    int code = check_amount(cli, name, text, percent_allowed);
    if (!code)
        *ret_text = text;
    return code;
}

static int take_budgets(struct cli *cli, const char *text)
{
    json_decref(cli->budgets);
    cli->budgets = json_array();
    char *copy = strdup(text), *rest = copy, *item;
    int code = cli->budgets && copy ? CLI_OK : CLI_INTERNAL;
    while (!code && (item = strsep(&rest, ",")) != NULL) {
        code = check_amount(cli, "budgets", item, true);
        if (!code && json_array_append_new(cli->budgets, json_string(item)))
            code = CLI_INTERNAL;
    }
    free(copy);
    if (code == CLI_INTERNAL) {
        remat_fail_memory(&cli->error);
        return cli_failed(cli);
    }
    return code;
}

/* A number, true or false; anything else is a string. */
static json_t *option_value(const char *text)
{
    json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);
    if (json_is_number(json) || json_is_boolean(json))
        return json;
    json_decref(json);
    return json_string(text);
}

static int take_option(struct cli *cli, const char *text)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return cli_usage(cli, "--option is \"%.60s\"; it must be like name=value", text);
    if (!cli->solver_options)
        cli->solver_options = json_object();
    char *name = strndup(text, (size_t)(equals - text));
    int failed = !name || !cli->solver_options ||
                 json_object_set_new(cli->solver_options, name, option_value(equals + 1));
    free(name);
    return failed ? cli_usage(cli, "--option %.60s is not UTF-8", text) : CLI_OK;
}

/* A preset's name, a bandwidth, bytes per time unit, or the object of the request itself. */
static int take_link(struct cli *cli, const char *text)
{
    json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);
    json_decref(cli->link);
    if (json_is_object(json))
        cli->link = json;
    else if (json_is_number(json))
        cli->link = json_pack("{s:o}", "bytes_per_time_unit", json);
    else
        cli->link = json_pack("{s:s}", strchr(text, '/') ? "bandwidth" : "preset", text);
    if (cli->link != json && !json_is_number(json))
        json_decref(json);
    return cli->link ? CLI_OK : cli_usage(cli, "--link is not UTF-8");
}

static int take_alignment(struct cli *cli, const char *text)
{
    unsigned bytes;
    int code = take_count(cli, "alignment", text, 1, (unsigned)REMAT_MAX_ALIGNMENT, &bytes);
    json_decref(cli->layout);
    cli->layout = code ? NULL : json_pack("{s:i}", "alignment", (int)bytes);
    return code;
}

static int take_plan(struct cli *cli, option_id id, const char *value)
{
    size_t i = 0;
    while (options[i].id != id)
        i++;
    return plan_take(cli, options[i].name, value);
}

static int take(struct cli *cli, option_id id, const char *value)
{
    switch (id) {
    case OPTION_JSON:
        cli->json = true;
        return CLI_OK;
    case OPTION_LOCAL:
        cli->local = true;
        return CLI_OK;
    case OPTION_ALL:
        cli->all = true;
        return CLI_OK;
    case OPTION_ASCII:
        cli->ascii = true;
        return CLI_OK;
    case OPTION_SERVER:
        cli->server = value;
        return CLI_OK;
    case OPTION_OUTPUT:
        cli->output = value;
        return CLI_OK;
    case OPTION_SOLVER:
        cli->solver = value;
        return CLI_OK;
    case OPTION_EFFORT:
        cli->effort = value;
        return CLI_OK;
    case OPTION_PROFILE:
        cli->profile = value;
        return CLI_OK;
    case OPTION_NAME:
        cli->name = value;
        return CLI_OK;
    case OPTION_CURSOR:
        cli->cursor = value;
        return CLI_OK;
    case OPTION_BUDGET:
        return take_amount(cli, "budget", value, true, &cli->budget);
    case OPTION_RESERVED:
        return take_amount(cli, "reserved", value, false, &cli->reserved);
    case OPTION_BUDGETS:
        return take_budgets(cli, value);
    case OPTION_OPTION:
        return take_option(cli, value);
    case OPTION_WAIT:
        return take_number(cli, "wait", value, 0, 1e9, &cli->wait);
    case OPTION_TIMEOUT:
        return take_number(cli, "timeout", value, 0.001, 1e6, &cli->timeout);
    case OPTION_POINTS:
        return take_count(cli, "points", value, 2, REMAT_MAX_TRADEOFF_POINTS, &cli->points);
    case OPTION_LIMIT:
        return take_count(cli, "limit", value, 1, 1000000, &cli->limit);
    case OPTION_LINK:
        return take_link(cli, value);
    case OPTION_ALIGNMENT:
        return take_alignment(cli, value);
    case OPTION_NO_LAYOUT:
        json_decref(cli->layout);
        cli->layout = json_false();
        return CLI_OK;
    case OPTION_DEVICE:
        cli->device = value;
        return CLI_OK;
    case OPTION_WHOLE_DEVICE:
        cli->whole_device = true;
        return CLI_OK;
    case OPTION_HELP:
    case OPTION_VERSION:
        return CLI_OK;
    case OPTION_PLAN:
        break;
    }
    return take_plan(cli, id, value);
}

/* ---- getopt ---- */

typedef struct grammar {
    struct option longs[N_OPTIONS + 1];
    char shorts[2 * N_OPTIONS + 3];
} grammar;

/* The options of those commands. order: "+" stops at the first argument, "" finds options behind
 * it. */
static void make_grammar(grammar *g, unsigned commands, const char *order)
{
    size_t n = 0;
    char *end = stpcpy(stpcpy(g->shorts, order), ":");
    memset(g->longs, 0, sizeof g->longs);
    for (size_t i = 0; i < N_OPTIONS; i++) {
        if (!(options[i].commands & commands))
            continue;
        int argument = options[i].argument ? required_argument : no_argument;
        g->longs[n++] = (struct option){options[i].name, argument, NULL, (int)options[i].id};
        if (options[i].id >= OPTION_JSON)
            continue;
        *end++ = (char)options[i].id;
        if (options[i].argument)
            *end++ = ':';
    }
    *end = '\0';
}

static int refuse(struct cli *cli, int code, char **argv, unsigned commands)
{
    const char *text = argv[optind - 1];
    char letter[3] = {'-', (char)optopt, '\0'};
    if (optopt > 0 && optopt < OPTION_JSON && strncmp(text, "--", 2) != 0)
        text = letter;
    if (code == ':')
        return cli_usage(cli, "%.60s needs a value", text);
    const char *names[N_OPTIONS];
    size_t n = 0;
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (options[i].commands & commands)
            names[n++] = options[i].name;
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)strcspn(text + 2 * (text[1] == '-'), "="),
             text + 2 * (text[1] == '-'));
    const char *meant = text[1] == '-' ? remat_nearest(word, names, n) : NULL;
    return cli_usage(cli, "%.60s is not an option here%s%s%s", text,
                     meant ? "; did you mean --" : "", meant ? meant : "", meant ? "?" : "");
}

/* --json decides how the first complaint is written, so it is looked for before anything else. */
static void look_for_json(struct cli *cli, int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        cli->json |= strcmp(argv[i], "--json") == 0;
}

static int parse(struct cli *cli, int argc, char **argv, unsigned commands, const char *order,
                 bool *ret_help, bool *ret_version)
{
    grammar g;
    int id, code = CLI_OK;
    make_grammar(&g, commands, order);
    look_for_json(cli, argc, argv);
    optind = 0; /* glibc: start anew */
    opterr = 0;
    while (!code && (id = getopt_long(argc, argv, g.shorts, g.longs, NULL)) != -1) {
        if (id == '?' || id == ':')
            return refuse(cli, id, argv, commands);
        *ret_help |= id == OPTION_HELP;
        *ret_version |= id == OPTION_VERSION;
        code = take(cli, (option_id)id, optarg);
    }
    return code;
}

int options_parse_global(struct cli *cli, int argc, char **argv, bool *ret_help, bool *ret_version)
{
    int code = parse(cli, argc, argv, GLOBAL, "+", ret_help, ret_version);
    return code ? -1 : optind;
}

int options_parse(struct cli *cli, int argc, char **argv, bool *ret_help)
{
    bool version = false;
    int code = parse(cli, argc, argv, command_flag(cli->command), "", ret_help, &version);
    cli->arguments = argv + optind;
    cli->n_arguments = argc - optind;
    return code;
}
