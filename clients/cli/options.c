/* The command line: one table of all options and who takes them. */
#include "cli.h"

#include <ctype.h>
#include <getopt.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    ASKING = PROFILE | SOLVE | CURVE | SHOW | SIMULATE | SNAPSHOTS | JOBS | SOLVERS | PLAN |
             LAYOUT | TRACE,
    EVERY = ASKING | VERSION | CALIBRATE
};

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

static int take_budgets(struct cli *cli, const char *name, const char *text)
{
    json_decref(cli->budgets);
    cli->budgets = json_array();
    char *copy = strdup(text), *rest = copy, *item;
    int code = cli->budgets && copy ? CLI_OK : CLI_INTERNAL;
    while (!code && (item = strsep(&rest, ",")) != NULL) {
        code = check_amount(cli, name, item, true);
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

static int take_option(struct cli *cli, const char *option, const char *text)
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
static int take_link(struct cli *cli, const char *name, const char *text)
{
    json_error_t where;
    json_t *json = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &where);
    const bool large = !json && json_error_code(&where) == json_error_numeric_overflow;
    if (large || (!json && strpbrk(text, "{}[]\"")))
        return cli_usage(cli, "--link is neither a name nor JSON: line %d, column %d: %s",
                         where.line, where.column, where.text);
    if (json && !json_is_object(json) && !json_is_number(json)) {
        json_decref(json);
        return cli_usage(cli,
                         "--link %.100s is neither a name, as pcie4-x16, nor a bandwidth, as "
                         "12GB/s, nor bytes per time unit, as 900, nor an object",
                         text);
    }
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

static int take_alignment(struct cli *cli, const char *name, const char *text)
{
    unsigned bytes = 0;
    int code = take_count(cli, name, text, 1, (unsigned)REMAT_MAX_ALIGNMENT, &bytes);
    json_decref(cli->layout);
    cli->layout = code ? NULL : json_pack("{s:i}", "alignment", (int)bytes);
    return code;
}

static int take_no_layout(struct cli *cli, const char *name, const char *value)
{
    json_decref(cli->layout);
    cli->layout = json_false();
    return CLI_OK;
}

/* ---- the table ---- */

/* What becomes of an option's value. */
typedef enum option_kind {
    FLAG,   /* true */
    TEXT,   /* the text as it is */
    NUMBER, /* double from least to most */
    COUNT,  /* unsigned, the same */
    BYTES,  /* the text, once it is known to be an amount */
    SHARE,  /* the same; also one of storing everything */
    OWN,    /* taken by a function */
    OWN_FLAG
} option_kind;

#define AT(member) .offset = offsetof(struct cli, member)
static const struct known_option {
    const char *name;
    char letter; /* 0: none */
    option_kind kind;
    unsigned commands;
    size_t offset; /* in struct cli */
    double least, most;
    int (*take)(struct cli *cli, const char *name, const char *value); /* of OWN */
} options[] = {
    {"help", 'h', FLAG, EVERY | MCP | GLOBAL, AT(help)},
    {"version", 'V', FLAG, GLOBAL, AT(version)},
    {"json", 0, FLAG, EVERY | GLOBAL, AT(json)},
    {"server", 0, TEXT, ASKING | GLOBAL, AT(server)},
    {"timeout", 0, NUMBER, ASKING | GLOBAL, AT(timeout), 0.001, 1e6},
    {"output", 'o', TEXT, ASKING | CALIBRATE, AT(output)},
    {"budget", 'b', SHARE, SOLVE, AT(budget)},
    {"reserved", 0, BYTES, SOLVE, AT(reserved)},
    {"solver", 0, TEXT, SOLVE | CURVE | PLAN, AT(solver)},
    {"option", 0, OWN, SOLVE | CURVE | PLAN, .take = take_option},
    {"link", 0, OWN, SOLVE | CURVE, .take = take_link},
    {"capacity", 0, BYTES, LAYOUT, AT(capacity)},
    {"alignment", 0, OWN, SOLVE | LAYOUT, .take = take_alignment},
    {"no-layout", 0, OWN_FLAG, SOLVE, .take = take_no_layout},
    {"effort", 0, TEXT, SOLVE | PLAN, AT(effort)},
    {"in-flight", 0, COUNT, SOLVE | CURVE | SIMULATE, AT(in_flight), 1, REMAT_MOST_IN_FLIGHT},
    {"wait", 0, NUMBER, SOLVE | CURVE | PLAN, AT(wait), 0, 1e9},
    {"local", 0, FLAG, SOLVE | CURVE | SIMULATE | SNAPSHOTS | SOLVERS | PLAN | LAYOUT, AT(local)},
    {"points", 0, COUNT, CURVE, AT(points), 2, REMAT_MAX_TRADEOFF_POINTS},
    {"budgets", 0, OWN, CURVE, .take = take_budgets},
    {"profile", 0, TEXT, SHOW | TRACE, AT(profile)},
    {"all", 'a', FLAG, SHOW, AT(all)},
    {"ascii", 0, FLAG, SHOW | CURVE, AT(ascii)},
    {"name", 0, TEXT, PROFILE, AT(name)},
    {"cursor", 0, TEXT, PROFILE | JOBS, AT(cursor)},
    {"limit", 0, COUNT, PROFILE | JOBS, AT(limit), 1, 1000000},
    {"device", 0, TEXT, PLAN | SOLVE, AT(device)},
    {"whole-device", 0, FLAG, SOLVE, AT(whole_device)},
    {"batch", 0, OWN, PLAN, .take = plan_take},
    {"sequence", 0, OWN, PLAN, .take = plan_take},
    {"image", 0, OWN, PLAN, .take = plan_take},
    {"layers", 0, OWN, PLAN, .take = plan_take},
    {"hidden", 0, OWN, PLAN, .take = plan_take},
    {"heads", 0, OWN, PLAN, .take = plan_take},
    {"kv-heads", 0, OWN, PLAN, .take = plan_take},
    {"head-width", 0, OWN, PLAN, .take = plan_take},
    {"ffn", 0, OWN, PLAN, .take = plan_take},
    {"vocab", 0, OWN, PLAN, .take = plan_take},
    {"window", 0, OWN, PLAN, .take = plan_take},
    {"experts", 0, OWN, PLAN, .take = plan_take},
    {"experts-per-token", 0, OWN, PLAN, .take = plan_take},
    {"parameters", 0, OWN, PLAN | SOLVE, .take = plan_take},
    {"attention", 0, OWN, PLAN, .take = plan_take},
    {"kernels", 0, OWN, PLAN, .take = plan_take},
    {"autocast", 0, OWN_FLAG, PLAN, .take = plan_take},
    {"fp8", 0, OWN, PLAN, .take = plan_take},
    {"channels-last", 0, OWN_FLAG, PLAN, .take = plan_take},
    {"keep-gradients", 0, OWN_FLAG, PLAN, .take = plan_take},
    {"capacity-factor", 0, OWN, PLAN, .take = plan_take},
    {"expert-load", 0, OWN, PLAN, .take = plan_take},
    {"lora", 0, OWN, PLAN, .take = plan_take},
    {"lora-targets", 0, OWN, PLAN, .take = plan_take},
    {"lora-dropout", 0, OWN_FLAG, PLAN, .take = plan_take},
    {"lora-base", 0, OWN, PLAN, .take = plan_take},
    {"optimizer", 0, OWN, PLAN | SOLVE, .take = plan_take},
    {"optimizer-in-backward", 0, OWN_FLAG, PLAN, .take = plan_take},
    {"precision", 0, OWN, PLAN | SOLVE, .take = plan_take},
    {"memory", 0, OWN, PLAN, .take = plan_take},
    {"no-master", 0, OWN_FLAG, PLAN | SOLVE, .take = plan_take},
    {"parallel", 0, OWN, PLAN | SOLVE, .take = plan_take},
    {"ranks", 0, OWN, PLAN | SOLVE, .take = plan_take},
    {"mesh", 0, OWN, PLAN, .take = plan_take},
    {"microbatches", 0, OWN, PLAN, .take = plan_take},
    {"schedule", 0, OWN, PLAN, .take = plan_take},
    {"chunks", 0, OWN, PLAN, .take = plan_take},
    {"runtime", 0, OWN, PLAN, .take = plan_take},
    {"network", 0, OWN, PLAN, .take = plan_take},
    {"node-ranks", 0, OWN, PLAN, .take = plan_take},
    {"view-buckets", 0, OWN_FLAG, PLAN | SOLVE, .take = plan_take},
    {"no-prefetch", 0, OWN_FLAG, PLAN | SOLVE, .take = plan_take},
    {"measured-on", 0, TEXT, PLAN, AT(measured_on)},
    {"offload", 0, OWN_FLAG, PLAN, .take = plan_take},
    {"no-sweep", 0, OWN_FLAG, PLAN, .take = plan_take},
};

enum { N_OPTIONS = sizeof options / sizeof *options, FIRST_LONG = 256 /* what getopt returns */ };
_Static_assert(N_OPTIONS <= sizeof((struct cli *)0)->given, "struct cli has a place for each");

static int take(struct cli *cli, const struct known_option *o, const char *value)
{
    void *to = (char *)cli + o->offset;
    int code = CLI_OK;
    switch (o->kind) {
    case FLAG:
        *(bool *)to = true;
        return CLI_OK;
    case NUMBER:
        return take_number(cli, o->name, value, o->least, o->most, to);
    case COUNT:
        return take_count(cli, o->name, value, (unsigned)o->least, (unsigned)o->most, to);
    case OWN:
    case OWN_FLAG:
        return o->take(cli, o->name, value);
    case BYTES:
    case SHARE:
        code = check_amount(cli, o->name, value, o->kind == SHARE);
        break;
    case TEXT:
        break;
    }
    if (!code)
        *(const char **)to = value;
    return code;
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
        bool bare = options[i].kind == FLAG || options[i].kind == OWN_FLAG;
        g->longs[n++] = (struct option){options[i].name, bare ? no_argument : required_argument,
                                        NULL, FIRST_LONG + (int)i};
        if (options[i].letter)
            *end++ = options[i].letter;
        if (options[i].letter && !bare)
            *end++ = ':';
    }
    *end = '\0';
}

static int refuse(struct cli *cli, int code, char **argv, unsigned commands)
{
    const char *text = argv[optind - 1];
    char letter[3] = {'-', (char)optopt, '\0'};
    if (optopt > 0 && optopt < FIRST_LONG && strncmp(text, "--", 2) != 0)
        text = letter;
    if (code == ':')
        return cli_usage(cli, "%.60s needs a value", text);
    if (optopt >= FIRST_LONG)
        return cli_usage(cli, "--%s takes no value", options[optopt - FIRST_LONG].name);
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

static const struct known_option *option_of(int id)
{
    size_t i = 0;
    if (id >= FIRST_LONG)
        return &options[id - FIRST_LONG];
    while (options[i].letter != id)
        i++;
    return &options[i];
}

/* ---- what goes together ---- */

static const struct {
    unsigned commands;
    option_rule rule;
} excludes[] = {{SOLVE | CURVE | SIMULATE | SNAPSHOTS | SOLVERS | PLAN | LAYOUT,
                 {"local", "server timeout", "it asks no server"}},
                {SOLVE | CURVE | PLAN, {"local", "wait", "there is no job"}},
                {SOLVE, {"no-layout", "alignment", "nothing is given an address"}},
                {SOLVE, {"whole-device", "reserved", "it says what is reserved"}},
                {CURVE, {"budgets", "points", "they are the points"}},
                {CURVE, {"json", "ascii", "nothing is drawn"}},
                {SHOW, {"json", "all ascii profile", "the schedule is printed as it came"}}},
  needs[] = {
      {SOLVE,
       {"device parameters optimizer precision no-master parallel ranks "
        "view-buckets no-prefetch",
        "whole-device", "it says what weights take of the device"}},
      {SOLVE, {"ranks view-buckets no-prefetch", "parallel", "one rank has none"}},
      {PLAN, {"ranks", "parallel", "a mesh says its own, and else there is one"}},
      {PLAN, {"lora-targets lora-dropout lora-base", "lora", "everything is trained"}},
      {PLAN, {"view-buckets no-prefetch network node-ranks", "parallel mesh", "one rank has none"}},
      {PLAN, {"microbatches schedule chunks runtime", "parallel mesh", "one rank has none"}},
      {PLAN, {"wait timeout", "server", "a plan is made here unless one is named"}},
      {LAYOUT, {"timeout", "server", "a layout is made here unless one is named"}}};

/* The names of the options given. Returns how many. */
static size_t list_given(const struct cli *cli, const char *names[N_OPTIONS])
{
    size_t n = 0;
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (cli->given[i])
            names[n++] = options[i].name;
    return n;
}

int options_refuse(struct cli *cli, const char *list, const char *beside)
{
    const char *given[N_OPTIONS];
    const char *option = options_given(given, list_given(cli, given), list, "");
    return option ? cli_usage(cli, "--%s does nothing beside %s", option, beside) : CLI_OK;
}

static int check_given(struct cli *cli)
{
    const char *given[N_OPTIONS];
    const size_t n = list_given(cli, given);
    char message[OPTIONS_MESSAGE];
    bool good = true;
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (cli->given[i] && !(options[i].commands & cli->flag))
            return options_refuse(cli, options[i].name, cli->command);
    for (size_t i = 0; i < sizeof excludes / sizeof *excludes && good; i++)
        if (excludes[i].commands & cli->flag)
            good = options_exclude(given, n, &excludes[i].rule, message);
    for (size_t i = 0; i < sizeof needs / sizeof *needs && good; i++)
        if (needs[i].commands & cli->flag)
            good = options_need(given, n, &needs[i].rule, "", message);
    return good ? CLI_OK : cli_usage(cli, "%s", message);
}

/* ---- amounts in two words ---- */

static bool is_unit(const char *text)
{
    remat_amount amount;
    char one[24];
    if (strcmp(text, "%") == 0)
        return true;
    if (!isalpha((unsigned char)*text) || strlen(text) > 3)
        return false;
    snprintf(one, sizeof one, "1 %s", text);
    json_t *json = json_string(one);
    const remat_status status = remat_amount_decode(json, "", false, &amount, NULL);
    json_decref(json);
    return !status;
}

static bool takes_amount(const struct cli *cli, const char *text)
{
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct known_option *o = &options[i];
        if ((o->kind != BYTES && o->kind != SHARE) || !(o->commands & cli->flag))
            continue;
        if (strncmp(text, "--", 2) == 0
                ? strcmp(text + 2, o->name) == 0
                : o->letter && text[0] == '-' && text[1] == o->letter && !text[2])
            return true;
    }
    return false;
}

/* "-b 6 GiB" is "-b 6GiB". Returns how many arguments are left. */
static int join_amounts(struct cli *cli, int argc, char **argv)
{
    size_t n = 0;
    for (int i = 1; i + 2 < argc && n < sizeof cli->joined / sizeof *cli->joined; i++) {
        const char *number = argv[i + 1];
        if (!takes_amount(cli, argv[i]) || !*number || number[strspn(number, "0123456789.")] ||
            strlen(number) > 20 || !is_unit(argv[i + 2]) || access(argv[i + 2], F_OK) == 0)
            continue;
        snprintf(cli->joined[n], sizeof cli->joined[n], "%.20s%.3s", number, argv[i + 2]);
        argv[i + 1] = cli->joined[n++];
        memmove(&argv[i + 2], &argv[i + 3], (size_t)(argc - i - 2) * sizeof *argv);
        argc--;
    }
    return argc;
}

/* ---- both ---- */

static int parse(struct cli *cli, int argc, char **argv, unsigned commands, const char *order)
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
        code = take(cli, option_of(id), optarg);
        cli->given[option_of(id) - options] = true;
    }
    return code;
}

int options_parse_global(struct cli *cli, int argc, char **argv)
{
    int code = parse(cli, argc, argv, GLOBAL, "+");
    return code ? -1 : optind;
}

int options_parse(struct cli *cli, int argc, char **argv)
{
    argc = join_amounts(cli, argc, argv);
    int code = parse(cli, argc, argv, cli->flag, "");
    cli->arguments = argv + optind;
    cli->n_arguments = argc - optind;
    return code || cli->help ? code : check_given(cli);
}
