/* rematd: serve, or take care of a store. */
#include "api.h"
#include "host/machine.h"
#include "http/listen.h"
#include "security/tls.h"
#include "service.h"

#include <stdio.h>
#include <string.h>

enum { BAD_CONFIGURATION = 2 };

static int report(const remat_error *error)
{
    fprintf(stderr, "rematd: %s\n", error->message);
    return 1;
}

/* ---- commands on the store ---- */

static remat_status check(const char *operand, remat_store *store, remat_error *error)
{
    remat_store_statistics statistics;
    remat_status status = remat_store_check(store, error);
    if (!status)
        status = remat_store_statistics_get(store, &statistics, error);
    if (!status)
        printf("%s is sound: %llu profiles, %llu schedules, %llu tables, %llu unfinished jobs\n",
               remat_store_name(store), (unsigned long long)statistics.profiles,
               (unsigned long long)statistics.schedules, (unsigned long long)statistics.tables,
               (unsigned long long)statistics.unfinished_jobs);
    return status;
}

static remat_status backup(const char *path, remat_store *store, remat_error *error)
{
    remat_status status = remat_store_backup(store, path, error);
    if (!status)
        printf("%s is a copy of %s\n", path, remat_store_name(store));
    return status;
}

/* Opening it to write has done it. */
static remat_status migrate(const char *operand, remat_store *store, remat_error *error)
{
    remat_store_statistics statistics;
    remat_status status = remat_store_statistics_get(store, &statistics, error);
    if (!status)
        printf("%s has schema version %d\n", remat_store_name(store), statistics.schema_version);
    return status;
}

static remat_status prune(const char *keep, remat_store *store, remat_error *error)
{
    uint64_t keep_bytes;
    remat_store_pruned pruned;
    if (!config_bytes("--keep-bytes", keep, &keep_bytes))
        return remat_fail(error, REMAT_INVALID, NULL, "nothing was pruned");
    remat_status status = remat_store_prune(store, keep_bytes, &pruned, error);
    if (!status)
        printf("%s: dropped %llu tables, %llu schedules, %llu profiles\n", remat_store_name(store),
               (unsigned long long)pruned.tables, (unsigned long long)pruned.schedules,
               (unsigned long long)pruned.profiles);
    return status;
}

/* words: of the command, of which the last is its operand. */
typedef struct command {
    const char *name, *flag;
    int words;
    service_use use;
    remat_status (*run)(const char *operand, remat_store *store, remat_error *error);
    const char *needs;
} command;

static const command commands[] = {
    {"check", NULL, 1, SERVICE_READS, check, NULL},
    {"backup", NULL, 2, SERVICE_READS, backup, "the FILE to write"},
    {"migrate", NULL, 1, SERVICE_WRITES, migrate, NULL},
    {"prune", "--keep-bytes", 3, SERVICE_PRUNES, prune, "--keep-bytes BYTES"},
};

static const command *find_command(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof commands / sizeof *commands; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return &commands[i];
    return NULL;
}

/* An operand is no option: `rematd backup --store PATH` forgot its file. */
static bool lacks_operand(const command *c, int argc, char **argv)
{
    if (argc <= c->words || (c->flag && strcmp(argv[2], c->flag) != 0))
        return true;
    return c->words > 1 && strncmp(argv[c->words], "--", 2) == 0;
}

static int run_command(const command *c, const config *settings, const char *operand)
{
    remat_store *store = NULL;
    remat_error error;
    remat_status status = service_open_store(settings, c->use, NULL, &store, &error);
    if (!status)
        status = c->run(operand, store, &error);
    remat_store_close(store);
    return status ? report(&error) : 0;
}

/* Sizes that can never be had: the daemon starts, and fails where they are used. */
static remat_status check_sizes(const config *settings, remat_error *error)
{
    if (settings->max_body > settings->body_memory)
        return remat_fail(error, REMAT_INVALID, "max-body",
                          "max-body is %llu; no body may be larger than body-memory, %llu",
                          (unsigned long long)settings->max_body,
                          (unsigned long long)settings->body_memory);
    if (settings->memory_limit > machine_memory())
        return remat_fail(error, REMAT_INVALID, "memory-limit",
                          "memory-limit is %llu; the daemon may use %llu bytes",
                          (unsigned long long)settings->memory_limit,
                          (unsigned long long)machine_memory());
    return REMAT_OK;
}

/* --check-config: what the settings name must be there, or could be made. */
static int check_files(const config *settings)
{
    tokens t = {0};
    remat_error error;
    remat_status status = listen_check(settings->listen, &error);
    if (!status)
        status = check_sizes(settings, &error);
    if (!status)
        status = service_check_store(settings, &error);
    if (!status && settings->tokens[0])
        status = tokens_load(settings->tokens, &t, &error);
    if (!status && settings->tls_cert[0])
        status = tls_load(settings->tls_cert, settings->tls_key, &error);
    tokens_clear(&t);
    tls_free();
    if (!status)
        return 0;
    report(&error);
    return BAD_CONFIGURATION;
}

/* rematd token ...: the words before the first option are the command's. */
static int token_command(int argc, char **argv)
{
    config settings;
    int words = 1;
    while (words < argc && strncmp(argv[words], "--", 2) != 0)
        words++;
    char **options = argv + words - 1;
    char *first = options[0];
    options[0] = argv[0];
    config_outcome outcome = config_read(&settings, argc - words + 1, options);
    options[0] = first;
    if (outcome != CONFIG_RUN)
        return outcome == CONFIG_DONE ? 0 : BAD_CONFIGURATION;
    return tokens_command(settings.tokens, words - 1, argv + 1);
}

int main(int argc, char **argv)
{
    config settings;
    machine_keep_streams();
    machine_keep_writing();
    remat_json_watch_memory();
    if (argc > 1 && strcmp(argv[1], "token") == 0)
        return token_command(argc, argv);
    const command *c = find_command(argc, argv);
    bool help = c && argc > 2 && strcmp(argv[2], "--help") == 0;
    int words = help ? 1 : c ? c->words : 0;
    if (c && !help && lacks_operand(c, argc, argv)) {
        fprintf(stderr, "rematd: %s needs %s; see rematd --help\n", c->name, c->needs);
        return 2;
    }
    const char *operand = words > 1 ? argv[words] : NULL;
    argv[words] = argv[0];
    config_outcome outcome = config_read(&settings, argc - words, argv + words);
    if (outcome != CONFIG_RUN)
        return outcome == CONFIG_DONE ? 0 : BAD_CONFIGURATION;
    log_set_level(settings.log_level);
    if (c)
        return run_command(c, &settings, operand);
    if (settings.check_only)
        return check_files(&settings);
    return service_run(&settings, argc - words, argv + words);
}
