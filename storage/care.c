/* Statistics, readiness, the integrity check and the backup. */
#include "private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- statistics and ping ---- */

static uint64_t file_size(const char *path, const char *suffix)
{
    size_t size = strlen(path) + strlen(suffix) + 1;
    char *name = malloc(size);
    if (!name)
        return 0;
    snprintf(name, size, "%s%s", path, suffix);
    struct stat entry;
    uint64_t bytes = stat(name, &entry) == 0 ? (uint64_t)entry.st_size : 0;
    free(name);
    return bytes;
}

static remat_status count(storage_connection *connection, remat_store_statistics *statistics,
                          remat_error *error)
{
    sqlite3_stmt *query;
    bool row;
    remat_status status = storage_query(connection, SQL_STATISTICS, &query, error, "");
    if (status != REMAT_OK)
        return status;
    status = storage_step(connection, query, &row, error);
    if (status == REMAT_OK)
        *statistics = (remat_store_statistics){
            .profiles = (uint64_t)sqlite3_column_int64(query, 0),
            .schedules = (uint64_t)sqlite3_column_int64(query, 1),
            .tables = (uint64_t)sqlite3_column_int64(query, 2),
            .unfinished_jobs = (uint64_t)sqlite3_column_int64(query, 3),
            .measurements = (uint64_t)sqlite3_column_int64(query, 4),
            .table_bytes = (uint64_t)sqlite3_column_int64(query, 5),
            .file_bytes = file_size(connection->path, "") + file_size(connection->path, "-wal"),
            .schema_version = storage_version,
        };
    storage_done(query);
    return status;
}

remat_status remat_store_statistics_get(remat_store *store, remat_store_statistics *ret_statistics,
                                        remat_error *error)
{
    storage_connection *connection;
    remat_status status = storage_read_begin(store, &connection, error);
    if (status != REMAT_OK)
        return status;
    status = count(connection, ret_statistics, error);
    storage_read_end(store, connection);
    return status;
}

static remat_status run_pulse(storage_connection *connection, void *argument, remat_error *error)
{
    return storage_run(connection, SQL_PULSE, error, "i", storage_now());
}

/* A real write: only that sees a full disk. */
remat_status remat_store_ping(remat_store *store, remat_error *error)
{
    storage_connection *connection;
    int64_t entries;
    remat_status status = storage_read_begin(store, &connection, error);
    if (status != REMAT_OK)
        return status;
    status = storage_number(connection, "SELECT count(*) FROM pulse", &entries, error);
    storage_read_end(store, connection);
    if (status != REMAT_OK || store->options.read_only)
        return status;
    return storage_submit(store, run_pulse, NULL, error);
}

/* ---- check ---- */

/* integrity_check lists a page that it could not read for want of memory, or because the disk
 * failed, as damaged. Its words say so, and only they do. */
static remat_status check_was_complete(const storage_connection *connection, const char *text,
                                       remat_error *error)
{
    static const char with_code[] = "unable to get the page. error code=";
    const char *place = strstr(text, with_code);
    int code = SQLITE_OK;
    if (place)
        code = atoi(place + sizeof with_code - 1);
    else if (strstr(text, "failed to get page")) /* SQLite does not say why */
        return remat_fail(error, REMAT_IO, NULL, "cannot check %s: a page could not be read",
                          connection->path);
    if (code == SQLITE_OK || (code & 0xff) == SQLITE_CORRUPT)
        return REMAT_OK;
    return storage_fail_code(code, 0, sqlite3_errstr(code), connection->path, error, "check");
}

/* Counts the complaints of a pragma. integrity_check answers one row "ok" when it has none;
 * foreign_key_check answers none, else the table first. */
static remat_status check_pages(storage_connection *connection, storage_statement statement,
                                uint64_t *damaged, remat_error *error)
{
    sqlite3_stmt *query;
    bool row;
    remat_status status = storage_query(connection, statement, &query, error, "");
    if (status != REMAT_OK)
        return status;
    while ((status = storage_step(connection, query, &row, error)) == REMAT_OK && row) {
        const char *text = (const char *)sqlite3_column_text(query, 0);
        if (statement == SQL_INTEGRITY_CHECK && text && strcmp(text, "ok") == 0)
            continue;
        if (text && (status = check_was_complete(connection, text, error)) != REMAT_OK)
            break;
        if ((*damaged)++ == 0)
            remat_fail(error, REMAT_CORRUPT, NULL, "%s%s",
                       statement == SQL_INTEGRITY_CHECK ? "" : "a missing reference in table ",
                       text ? text : "");
    }
    storage_done(query);
    return status;
}

static remat_status check(storage_connection *connection, remat_error *error)
{
    static storage_verify *const verify[] = {
        storage_verify_profiles, storage_verify_schedules,    storage_verify_tables,
        storage_verify_jobs,     storage_verify_measurements,
    };
    uint64_t damaged = 0;
    remat_error first = {0};
    remat_status status = check_pages(connection, SQL_INTEGRITY_CHECK, &damaged, &first);
    if (status == REMAT_OK)
        status = check_pages(connection, SQL_FOREIGN_KEY_CHECK, &damaged, &first);
    for (size_t i = 0; status == REMAT_OK && i < sizeof verify / sizeof *verify; i++)
        status = verify[i](connection, &damaged, &first);
    if (status != REMAT_OK)
        return remat_fail(error, status, NULL, "%s", first.message);
    if (damaged > 0)
        return remat_fail(error, REMAT_CORRUPT, NULL, "%s is damaged in %" PRIu64 " place%s; %s%s",
                          connection->path, damaged, damaged == 1 ? "" : "s",
                          damaged == 1 ? "" : "the first: ", first.message);
    return REMAT_OK;
}

/* On a connection of its own: the pages come from the disk, not from what a reader has in memory.
 */
remat_status remat_store_check(remat_store *store, remat_error *error)
{
    storage_connection *connection;
    remat_status status = storage_connection_open(store->path, STORAGE_READ, &connection, error);
    if (status != REMAT_OK)
        return status;
    status = storage_run(connection, SQL_BEGIN_READ, error, "");
    if (status == REMAT_OK)
        status = check(connection, error);
    storage_connection_close(connection);
    return status;
}

/* ---- backup ---- */

/* The copy is of one state of the store: inside a read transaction writers do not make it start
 * over. */
static remat_status copy_pages(storage_connection *source, sqlite3 *target, const char *path,
                               remat_error *error)
{
    sqlite3_backup *backup = sqlite3_backup_init(target, "main", source->db, "main");
    if (backup) {
        sqlite3_backup_step(backup, -1);
        sqlite3_backup_finish(backup); /* leaves the failure of either with target */
    }
    int code = sqlite3_extended_errcode(target);
    if (code == SQLITE_OK)
        return REMAT_OK;
    return storage_fail_code(code, sqlite3_system_errno(target), sqlite3_errmsg(target), path,
                             error, "write the backup");
}

static remat_status copy_store(const char *from, const char *path, remat_error *error)
{
    storage_connection *source = NULL;
    sqlite3 *target = NULL;
    int64_t entries;
    remat_status status = storage_connection_open(from, STORAGE_READ, &source, error);
    if (status != REMAT_OK)
        return status;
    status = storage_run(source, SQL_BEGIN_READ, error, "");
    if (status == REMAT_OK) /* a transaction begins with its first read */
        status = storage_number(source, "SELECT count(*) FROM pulse", &entries, error);
    if (status == REMAT_OK) {
        int code = sqlite3_open_v2(
            path, &target, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
        if (code != SQLITE_OK)
            status = storage_fail_code(code, sqlite3_system_errno(target), sqlite3_errmsg(target),
                                       path, error, "create the backup");
        else
            status = copy_pages(source, target, path, error);
    }
    sqlite3_close(target);
    storage_connection_close(source);
    return status;
}

static int sync_directory_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *name = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    if (!name)
        return -1;
    int directory = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(name);
    if (directory < 0)
        return -1;
    int result = fsync(directory);
    close(directory);
    return result;
}

/* Gives the finished copy its name, unless something has it. link() works where RENAME_NOREPLACE is
 * not supported. */
static remat_status publish(const char *temporary, const char *path, remat_error *error)
{
    int result = renameat2(AT_FDCWD, temporary, AT_FDCWD, path, RENAME_NOREPLACE);
    if (result != 0 && (errno == EINVAL || errno == ENOSYS)) {
        result = link(temporary, path);
        if (result == 0)
            unlink(temporary);
    }
    if (result != 0 && errno == EEXIST)
        return remat_fail(error, REMAT_INVALID, NULL, "%s exists already", path);
    if (result != 0 || sync_directory_of(path) != 0)
        return remat_fail(error, REMAT_IO, NULL, "cannot write the backup %s: %s", path,
                          strerror(errno));
    return REMAT_OK;
}

remat_status remat_store_backup(remat_store *store, const char *path, remat_error *error)
{
    struct stat entry;
    if (lstat(path, &entry) == 0)
        return remat_fail(error, REMAT_INVALID, NULL, "%s exists already", path);
    size_t size = strlen(path) + sizeof "./.partial-XXXXXX";
    char *temporary = malloc(size);
    if (!temporary)
        return remat_fail_memory(error);
    /* "./" so that SQLite takes no name for a URI or for memory. */
    snprintf(temporary, size, "%s%s.partial-XXXXXX", path[0] == '/' ? "" : "./", path);
    int file = mkstemp(temporary);
    remat_status status = REMAT_OK;
    if (file < 0)
        status = remat_fail(error, REMAT_IO, NULL, "cannot create the backup %s: %s", path,
                            strerror(errno));
    else
        close(file); /* SQLite takes an empty file for an empty database */
    if (status == REMAT_OK) {
        status = copy_store(store->path, temporary, error);
        if (status == REMAT_OK)
            status = publish(temporary, path, error);
        if (status != REMAT_OK)
            unlink(temporary);
    }
    free(temporary);
    return status;
}
