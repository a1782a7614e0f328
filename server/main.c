/* rematd: serve, or take care of a store. */
#include "service.h"
#include "tls.h"

#include <stdio.h>
#include <string.h>

static int report(const remat_error *error)
{
    fprintf(stderr, "rematd: %s\n", error->message);
    return 1;
}

static int check(const config *settings)
{
    remat_store *store = NULL;
    remat_error error;
    remat_store_statistics statistics;
    remat_status status = service_open_store(settings, true, &store, &error);
    if (!status)
        status = remat_store_check(store, &error);
    if (!status)
        status = remat_store_statistics_get(store, &statistics, &error);
    remat_store_close(store);
    if (status)
        return report(&error);
    printf("%s is sound: %llu profiles, %llu schedules, %llu tables, %llu unfinished jobs\n",
           settings->store, (unsigned long long)statistics.profiles,
           (unsigned long long)statistics.schedules, (unsigned long long)statistics.tables,
           (unsigned long long)statistics.unfinished_jobs);
    return 0;
}

static int backup(const config *settings, const char *path)
{
    remat_store *store = NULL;
    remat_error error;
    remat_status status = service_open_store(settings, true, &store, &error);
    if (!status)
        status = remat_store_backup(store, path, &error);
    remat_store_close(store);
    if (status)
        return report(&error);
    printf("%s is a copy of %s\n", path, settings->store);
    return 0;
}

/* --check-config: what the settings name must be readable. */
static int check_files(const config *settings)
{
    tokens t = {0};
    remat_error error;
    remat_status status = REMAT_OK;
    if (settings->tokens[0])
        status = tokens_load(settings->tokens, &t, &error);
    if (!status && settings->tls_cert[0])
        status = tls_load(settings->tls_cert, settings->tls_key, &error);
    tokens_clear(&t);
    tls_free();
    return status ? report(&error) : 0;
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
        return outcome == CONFIG_DONE ? 0 : 2;
    return tokens_command(settings.tokens, words - 1, argv + 1);
}

int main(int argc, char **argv)
{
    config settings;
    if (argc > 1 && strcmp(argv[1], "token") == 0)
        return token_command(argc, argv);
    bool is_check = argc > 1 && strcmp(argv[1], "check") == 0;
    bool is_backup = argc > 2 && strcmp(argv[1], "backup") == 0;
    int words = is_backup ? 2 : is_check ? 1 : 0;
    const char *target = is_backup ? argv[2] : NULL;
    if (argc == 2 && strcmp(argv[1], "backup") == 0) {
        fprintf(stderr, "rematd: backup needs the FILE to write; see rematd --help\n");
        return 2;
    }
    argv[words] = argv[0];
    config_outcome outcome = config_read(&settings, argc - words, argv + words);
    if (outcome != CONFIG_RUN)
        return outcome == CONFIG_DONE ? 0 : 2;
    log_set_level(settings.log_level);
    if (is_check)
        return check(&settings);
    if (is_backup)
        return backup(&settings, target);
    if (settings.check_only)
        return check_files(&settings);
    return service_run(&settings, argc - words, argv + words);
}
