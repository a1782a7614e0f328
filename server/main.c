/* rematd: serve, or take care of a store. */
#include "service.h"

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

int main(int argc, char **argv)
{
    config settings;
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
    return settings.check_only ? 0 : service_run(&settings);
}
