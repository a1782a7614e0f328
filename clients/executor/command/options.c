/* The command line of remat-train. */
#include "train.h"

#include <getopt.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef enum option_kind { TEXT, PATH, COUNT, WHOLE, NUMBER, FLAG } option_kind;

static const struct {
    const char *name;
    char letter; /* 0: none */
    option_kind kind;
    size_t offset;
    double least, most; /* of COUNT, WHOLE (a double) and NUMBER */
} options[] = {
    {"model", 'm', TEXT, offsetof(train_options, model), 0, 0},
    {"batch", 0, COUNT, offsetof(train_options, settings.batch), 1, 1 << 20},
    {"image", 0, COUNT, offsetof(train_options, settings.image), 1, 1 << 14},
    {"time", 0, COUNT, offsetof(train_options, settings.time), 1, 1 << 16},
    {"classes", 0, COUNT, offsetof(train_options, settings.classes), 2, 1 << 20},
    {"width", 0, NUMBER, offsetof(train_options, settings.width), 1.0 / 64, 16},
    {"parts", 0, COUNT, offsetof(train_options, settings.parts), 1, NETWORK_PARTS},
    {"budget", 'b', TEXT, offsetof(train_options, budget), 0, 0},
    {"server", 0, TEXT, offsetof(train_options, server), 0, 0},
    {"timeout", 0, NUMBER, offsetof(train_options, timeout), 0.001, 1e6},
    {"local", 0, FLAG, offsetof(train_options, local), 0, 0},
    {"schedule", 0, PATH, offsetof(train_options, schedule), 0, 0},
    {"profile", 0, PATH, offsetof(train_options, profile), 0, 0},
    {"profile-only", 0, FLAG, offsetof(train_options, profile_only), 0, 0},
    {"rounds", 0, COUNT, offsetof(train_options, rounds), 1, 1000},
    {"solver", 0, TEXT, offsetof(train_options, solver), 0, 0},
    {"link", 0, TEXT, offsetof(train_options, link), 0, 0},
    {"compare", 0, FLAG, offsetof(train_options, compare), 0, 0},
    {"exact", 0, FLAG, offsetof(train_options, exact), 0, 0},
    {"steps", 0, COUNT, offsetof(train_options, steps), 1, 1 << 30},
    {"rate", 0, NUMBER, offsetof(train_options, rate), 0, 1e6},
    {"momentum", 0, NUMBER, offsetof(train_options, momentum), 0, 1},
    {"seed", 0, WHOLE, offsetof(train_options, seed), 0, 9007199254740992.0},
    {"data", 0, PATH, offsetof(train_options, data), 0, 0},
    {"backend", 0, TEXT, offsetof(train_options, backend), 0, 0},
    {"threads", 0, COUNT, offsetof(train_options, threads), 1, 1024},
    {"guard", 0, FLAG, offsetof(train_options, guard), 0, 0},
    {"overhead", 0, FLAG, offsetof(train_options, overhead), 0, 0},
    {"json", 0, FLAG, offsetof(train_options, json), 0, 0},
    {"quiet", 'q', FLAG, offsetof(train_options, quiet), 0, 0},
    {"output", 'o', PATH, offsetof(train_options, output), 0, 0},
    {"plan", 0, FLAG, offsetof(train_options, plan), 0, 0},
    {"device", 0, PATH, offsetof(train_options, device), 0, 0},
    {"check", 0, FLAG, offsetof(train_options, check), 0, 0},
    {"calibrate", 0, FLAG, offsetof(train_options, calibrate), 0, 0},
    {"list", 0, FLAG, offsetof(train_options, list), 0, 0},
    {"help", 'h', FLAG, offsetof(train_options, help), 0, 0},
    {"version", 'V', FLAG, offsetof(train_options, version), 0, 0},
};

enum { N_OPTIONS = sizeof options / sizeof *options, FIRST_LONG = 256 /* what getopt returns */ };

static bool usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

static bool usage(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("remat-train: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs("\n'remat-train --help' says more.\n", stderr);
    va_end(arguments);
    return false;
}

static bool take(size_t i, const char *text, train_options *o)
{
    void *to = (char *)o + options[i].offset;
    char *end;
    if (options[i].kind == FLAG) {
        *(bool *)to = true;
        return true;
    }
    json_t *utf8 = options[i].kind == TEXT ? json_string(text) : NULL;
    if (options[i].kind == TEXT && !utf8)
        return usage("--%s is not UTF-8", options[i].name);
    json_decref(utf8);
    if (options[i].kind == TEXT || options[i].kind == PATH) {
        *(const char **)to = text;
        return true;
    }
    double number = strtod(text, &end);
    bool whole = options[i].kind == NUMBER || number == floor(number);
    if (end == text || *end || !whole || !(number >= options[i].least && number <= options[i].most))
        return usage("--%s is \"%.60s\"; it must be %s from %.16g to %.16g", options[i].name, text,
                     options[i].kind == NUMBER ? "a number" : "a whole number", options[i].least,
                     options[i].most);
    if (options[i].kind == COUNT)
        *(uint32_t *)to = (uint32_t)number;
    else
        *(double *)to = number;
    return true;
}

/* ---- what goes together ---- */

/* None of the options does anything beside one of the others. */
static const option_rule excludes[] = {
    {"version", "* json output", "it is all that is printed"},
    {"list", "* json output quiet", "it is all that is printed"},
    {"calibrate", "* json output quiet", "it measures kernels, not a network"},
    {"plan", "server timeout schedule profile", "it solves here"},
    {"plan", "profile-only rounds exact link compare overhead", "it is made from shapes"},
    {"plan", "backend threads", "it is of one thread of the CPU"},
    {"schedule", "local server timeout", "nothing is solved"},
    {"schedule", "budget solver link compare", "it is a schedule already"},
    {"schedule", "rounds exact", "nothing is measured"},
    {"profile-only", "local server timeout schedule solver link", "it solves nothing"},
    {"profile-only", "compare steps rate momentum guard overhead", "it trains nothing"},
    {"profile", "profile-only rounds exact", "it is measured already"},
    {"local", "server timeout", "it asks no server"},
};

/* Each of the options does nothing without one of the others. */
static const option_rule needs[] = {
    {"device check", "plan", "it is about a plan"},
    {"output", "json profile-only calibrate", "it is for what is JSON"},
};

/* Each of the options does nothing beside --plan without the other. */
static const option_rule plan_needs[] = {
    {"steps rate momentum seed data guard", "check", "a plan trains nothing"},
    {"solver", "budget", "storing everything needs no solver"},
};

#define N(rules) (sizeof(rules) / sizeof *(rules))

static bool check_pairs(const char *const *given, size_t n)
{
    char message[OPTIONS_MESSAGE];
    bool good = true;
    for (size_t i = 0; i < N(excludes) && good; i++)
        good = options_exclude(given, n, &excludes[i], message);
    for (size_t i = 0; i < N(needs) && good; i++)
        good = options_need(given, n, &needs[i], "", message);
    const bool plans = options_given(given, n, "plan", "");
    for (size_t i = 0; i < N(plan_needs) && plans && good; i++)
        good = options_need(given, n, &plan_needs[i], " beside --plan", message);
    return good || usage("%s", message);
}

static bool check(const train_options *o, const char *const *given, size_t n)
{
    if (o->help)
        return true;
    if (!check_pairs(given, n))
        return false;
    if (options_given(given, n, "threads", "") && strcmp(o->backend, "cuda") == 0)
        return usage("--threads does nothing beside --backend cuda: they are the CPU's");
    if (o->version || o->list || o->calibrate)
        return true;
    if (!o->model)
        return usage("which network? --model NAME; --list names them");
    if (!o->schedule && !o->budget && !o->profile_only && !o->plan)
        return usage("how much memory? --budget BYTES, as 4GiB or 50%%");
    return true;
}

/* What getopt stopped at: argument is the word it has read, unless that is a bundle of letters. */
static bool refuse(int found, const char *argument)
{
    char letter[3] = {'-', (char)optopt, '\0'};
    if (optopt > 0 && optopt < FIRST_LONG)
        argument = letter;
    if (found == ':')
        return usage("%.60s needs a value", argument);
    if (optopt >= FIRST_LONG)
        return usage("--%s takes no value", options[optopt - FIRST_LONG].name);
    return usage("there is no option %.60s", argument);
}

bool train_options_parse(int argc, char **argv, train_options *ret_options)
{
    train_options o = {.backend = "cpu",
                       .steps = 10,
                       .rounds = 5,
                       .threads = 1,
                       .rate = 0.01,
                       .momentum = 0.9,
                       .seed = 1};
    struct option longs[N_OPTIONS + 1] = {0};
    bool taken[N_OPTIONS] = {false};
    const char *given[N_OPTIONS];
    size_t n = 0;
    char shorts[2 * N_OPTIONS + 2] = ":";
    for (size_t i = 0; i < N_OPTIONS; i++) {
        int takes = options[i].kind == FLAG ? no_argument : required_argument;
        longs[i] = (struct option){options[i].name, takes, NULL, FIRST_LONG + (int)i};
        if (options[i].letter)
            snprintf(shorts + strlen(shorts), 3, "%c%s", options[i].letter, takes ? ":" : "");
    }
    for (int found; (found = getopt_long(argc, argv, shorts, longs, NULL)) != -1;) {
        size_t i = found >= FIRST_LONG ? (size_t)found - FIRST_LONG : 0;
        while (found < FIRST_LONG && i < N_OPTIONS && options[i].letter != found)
            i++;
        if (found == ':' || found == '?')
            return refuse(found, argv[optind - 1]);
        if (!take(i, optarg, &o))
            return false;
        if (!taken[i])
            given[n++] = options[i].name;
        taken[i] = true;
    }
    if (optind < argc)
        return usage("\"%.60s\" is one word too many", argv[optind]);
    if (!check(&o, given, n))
        return false;
    *ret_options = o;
    return true;
}

void train_help(void)
{
    fputs("remat-train: trains a real network inside a memory budget\n"
          "\n"
          "usage: remat-train --model NAME --budget BYTES [OPTIONS]\n"
          "       remat-train --model NAME --schedule FILE [OPTIONS]\n"
          "       remat-train --model NAME --profile-only [-o FILE]\n"
          "       remat-train --model NAME --plan [--budget BYTES] [--device FILE] [--check]\n"
          "       remat-train --calibrate [-o FILE]\n"
          "       remat-train --list [--json]\n"
          "\n"
          "Measures the network on this device, asks for the fastest schedule that fits the\n"
          "budget, and trains under it: values, their gradients and all workspaces lie in one\n"
          "block of at most that many bytes. Parameters, their gradients and momenta lie\n"
          "beside it.\n"
          "\n"
          "The network:\n"
          "  -m, --model NAME     one of --list\n"
          "  --batch N            examples of a step\n"
          "  --image N            height and width, of networks on images\n"
          "  --time N             length, of networks on sequences\n"
          "  --classes N          of networks that classify images\n"
          "  --width F            of every layer; 1 is as published, 0.25 a quarter\n"
          "  --parts N            runs the first stage of vgg19 on N parts of the batch in turn:\n"
          "                       its largest convolution takes more than half of the memory\n"
          "  --data FILE          text for gpt and lstm, read byte by byte; without it, and\n"
          "                       for all others, data are made up by a rule\n"
          "\n"
          "The schedule:\n"
          "  -b, --budget BYTES   4294967296, 4GiB, or 50% of what storing everything takes\n"
          "  --server URL         the rematd to ask (default: $REMAT_SERVER, then\n"
          "                       http://127.0.0.1:7070); its token is $REMAT_TOKEN\n"
          "  --timeout SECONDS    longest time of one request (default 60)\n"
          "  --local              solve in this process, as --plan always does\n"
          "  --schedule FILE      one that was solved before: 'remat solve -o FILE'\n"
          "  --solver NAME        instead of auto\n"
          "  --link LINK          values may also be copied to the host, that fast: pcie4-x16\n"
          "                       or 24GB/s, each way; measured: here, at the start\n"
          "  --profile FILE       do not measure: take the times of this profile\n"
          "  --profile-only       print the measured profile and stop; measured within\n"
          "                       --budget where that is given\n"
          "  --rounds N           steps that measuring takes, each way (default 5)\n"
          "  --exact              one implementation of each node: schedules cannot choose,\n"
          "                       and all of them give the same bits\n"
          "\n"
          "Planning:\n"
          "  --plan               say what a step takes and how long it is, from shapes: no\n"
          "                       weights are allocated. Within --budget, or storing everything\n"
          "  --device FILE        with the times of this device, as --calibrate wrote it\n"
          "  --check              then train --steps steps, and say what they took\n"
          "  --calibrate          measure what the CPU's kernels reach and print a device for\n"
          "                       this and for 'remat plan'\n"
          "\n"
          "Training:\n"
          "  --steps N            default 10\n"
          "  --rate F, --momentum F, --seed N\n"
          "                       of gradient descent; 0.01, 0.9 and 1\n"
          "  --compare            train storing everything, by Chen's square root and by auto,\n"
          "                       and compare what they learnt\n"
          "  --guard              fill what is dropped with NaN and watch for stray writes\n"
          "  --overhead           time the calls of each step too: what it takes beyond them,\n"
          "                       and by the wall clock when the host had enqueued them all\n"
          "  --backend NAME       cpu (the default) or cuda\n"
          "  --threads N          of products of matrices on the CPU (default 1)\n"
          "\n"
          "Times of steps are CPU time of this process with one thread on the CPU, by the wall\n"
          "clock with more, and by the device's clock on a device.\n"
          "\n"
          "  --json               the result as JSON on stdout; what --profile-only and\n"
          "                       --calibrate print is JSON anyway\n"
          "  -o, --output FILE    write that JSON to FILE\n"
          "  -q, --quiet          no progress bar\n"
          "  -h, --help; -V, --version\n"
          "\n"
          "An option that does nothing beside another is refused.\n"
          "\n"
          "exit codes: 0 done; 1 the answer is no (nothing fits the budget, the results of a\n"
          "comparison differ); 2 wrong command line; 3 bad input (network, file, profile,\n"
          "schedule, too little memory); 4 the server cannot be reached or has no answer;\n"
          "5 internal (memory, output, a bug)\n",
          stdout);
}
