/* The command line of remat-train: an option that does nothing beside another is refused, and the
 * message names both. Every option is tried beside every way of running it. */
#include "../../clients/executor/command/options.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

enum { MOST_WORDS = 16 };

/* What does something beside each way; all else must be refused. */
#define SIZES "batch image time classes width parts "
#define TRAINING                                                                                   \
    SIZES "data steps rate momentum seed guard quiet json overhead backend threads profile "
#define SOLVING TRAINING "compare solver link "
static const struct {
    const char *given, *meant;
} ways[] = {
    {"help", "*"},
    {"version", "help json"},
    {"version json", "help output"},
    {"list", "help json quiet"},
    {"list json", "help output quiet"},
    {"calibrate", "help json output quiet"},
    {"model budget", SOLVING "help server timeout local rounds exact profile-only plan"},
    {"model budget json",
     SOLVING "help server timeout local rounds exact profile-only plan output"},
    {"model budget local", SOLVING "help rounds exact plan"},
    {"model budget profile", SOLVING "help server timeout local"},
    {"model budget server", SOLVING "help timeout rounds exact"},
    {"model budget compare", SOLVING "help server timeout local rounds exact"},
    {"model schedule", TRAINING "help"},
    {"model profile-only",
     SIZES "help budget data seed quiet json output backend threads rounds exact"},
    {"model plan", SIZES "help budget local device check quiet json"},
    {"model plan budget", SIZES "help local device check solver quiet json"},
    {"model plan check",
     SIZES "help budget local device steps rate momentum seed data guard quiet json"},
};

static bool is_in(const char *list, const char *name)
{
    return options_given(&name, 1, list, "");
}

/* Writes "--name value", or "--name" of a flag, to the end of words. */
static void add(char (*words)[64], int *n, const char *name)
{
    size_t i = 0;
    while (strcmp(options[i].name, name) != 0)
        i++;
    snprintf(words[(*n)++], 64, "--%s", name);
    if (options[i].least < options[i].most)
        snprintf(words[(*n)++], 64, "%g", options[i].least);
    else if (options[i].kind != FLAG)
        snprintf(words[(*n)++], 64, "%s", "x");
}

/* Whether the words are accepted; what was said where not. */
static bool parse_words(char (*words)[64], int n, char *said, size_t size)
{
    char *arguments[MOST_WORDS + 1] = {NULL};
    train_options o;
    FILE *kept = stderr, *memory = fmemopen(said, size, "w");
    for (int i = 0; i < n; i++)
        arguments[i] = words[i];
    optind = 0; /* glibc: start anew */
    stderr = memory;
    bool accepted = train_options_parse(n, arguments, &o);
    stderr = kept;
    fclose(memory);
    return accepted;
}

static void try_beside(const char *given, const char *meant, const char *name)
{
    char words[MOST_WORDS][64] = {"remat-train"}, said[512] = "", part[64], option[64];
    int n = 1;
    bool named = false;
    snprintf(option, sizeof option, "--%s ", name);
    for (const char *at = given; *at; at += strcspn(at, " "), at += *at == ' ') {
        snprintf(part, sizeof part, "%.*s", (int)strcspn(at, " "), at);
        add(words, &n, part);
    }
    add(words, &n, name);
    const bool accepted = parse_words(words, n, said, sizeof said);
    if (accepted != is_in(meant, name))
        fail_msg("--%s beside %s is %s: %s", name, given, accepted ? "accepted" : "refused", said);
    if (accepted)
        return;
    char *why =
        strchr(said + strlen("remat-train: "), ':'); /* what comes before it names options */
    assert_non_null(why);
    *why = ' ';
    why[1] = '\0';
    for (int i = 1; i < n; i++)
        named = named || (strncmp(words[i], "--", 2) == 0 && strcmp(words[i] + 2, name) != 0 &&
                          strstr(said, words[i]));
    if (!strstr(said, option) || !(named || strstr(said, " needs --")))
        fail_msg("--%s beside %s: \"%s\"", name, given, said);
}

static void test_every_option_beside_every_way(void **state)
{
    (void)state;
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        for (size_t i = 0; i < N_OPTIONS; i++)
            if (!is_in(ways[w].given, options[i].name))
                try_beside(ways[w].given, ways[w].meant, options[i].name);
}

/* A name in a rule that is no option's would refuse nothing. */
static void check_names(const char *list)
{
    const char *names[N_OPTIONS];
    char word[64];
    for (size_t i = 0; i < N_OPTIONS; i++)
        names[i] = options[i].name;
    for (list += *list == '*' ? 2 : 0; *list; list += strcspn(list, " "), list += *list == ' ') {
        snprintf(word, sizeof word, "%.*s", (int)strcspn(list, " "), list);
        if (!options_given(names, N_OPTIONS, word, ""))
            fail_msg("there is no option \"%s\"", word);
    }
}

static void test_rules_name_options(void **state)
{
    (void)state;
    const struct {
        const option_rule *rules;
        size_t n;
    } all[] = {{excludes, N(excludes)}, {needs, N(needs)}, {plan_needs, N(plan_needs)}};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        for (size_t i = 0; i < all[k].n; i++) {
            check_names(all[k].rules[i].options);
            check_names(all[k].rules[i].others);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_option_beside_every_way),
        cmocka_unit_test(test_rules_name_options),
    };
    return cmocka_run_group_tests_name("train-options", tests, NULL, NULL);
}
