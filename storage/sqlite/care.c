/* What only SQLite's files have: their size, the integrity check of the pages, the backup. */
#include "sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- size ---- */

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

remat_status sqlite_size(storage_connection *connection, uint64_t *ret_bytes, remat_error *error)
{
    const char *path = connection->store->name;
    *ret_bytes = file_size(path, "") + file_size(path, "-wal");
    return REMAT_OK;
}

/* ---- check ---- */

/* integrity_check lists a page that it could not read for want of memory, or because the disk
 * failed, as damaged. Its words say so, and only they do. */
static remat_status check_was_complete(const sqlite_connection *connection, const char *text,
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
    return sqlite_fail_code(code, 0, sqlite3_errstr(code), connection->path, error, "check");
}

/* Counts the complaints of a pragma. integrity_check answers one row "ok" when it has none;
 * foreign_key_check answers none, else the table first. */
static remat_status check_pages(sqlite_connection *connection, const char *pragma,
                                uint64_t *damaged, remat_error *error)
{
    bool integrity = strcmp(pragma, "integrity_check") == 0;
    sqlite3_stmt *query;
    int code;
    char text[64];
    snprintf(text, sizeof text, integrity ? "PRAGMA %s(20)" : "PRAGMA %s", pragma);
    if (sqlite3_prepare_v2(connection->db, text, -1, &query, NULL) != SQLITE_OK)
        return sqlite_fail(connection, error, "read");
    remat_status status = REMAT_OK;
    while (status == REMAT_OK && (code = sqlite3_step(query)) == SQLITE_ROW) {
        const char *found = (const char *)sqlite3_column_text(query, 0);
        if (integrity && found && strcmp(found, "ok") == 0)
            continue;
        if (found && (status = check_was_complete(connection, found, error)) != REMAT_OK)
            break;
        if ((*damaged)++ == 0)
            remat_fail(error, REMAT_CORRUPT, NULL, "%s%s",
                       integrity ? "" : "a missing reference in table ", found ? found : "");
    }
    if (status == REMAT_OK && code != SQLITE_DONE)
        status = sqlite_fail(connection, error, "read");
    sqlite3_finalize(query);
    return status;
}

/* On a connection of its own: the pages come from the disk, not from what a reader has in memory.
 */
remat_status sqlite_check_begin(remat_store *store, storage_connection **ret_connection,
                                uint64_t *damaged, remat_error *error)
{
    sqlite_connection *connection;
    remat_status status =
        sqlite_connection_open(store, store->name, SQLITE_READ_ONLY, &connection, error);
    if (status != REMAT_OK)
        return status;
    status = sqlite_run(connection, SQLITE_BEGIN_READ, error);
    if (status == REMAT_OK)
        status = check_pages(connection, "integrity_check", damaged, error);
    if (status == REMAT_OK)
        status = check_pages(connection, "foreign_key_check", damaged, error);
    if (status != REMAT_OK)
        sqlite_connection_close(connection);
    else
        *ret_connection = &connection->base;
    return status;
}

void sqlite_check_end(remat_store *store, storage_connection *connection)
{
    sqlite_connection_close((sqlite_connection *)connection);
}

/* ---- backup ---- */

/* The copy is of one state of the store: inside a read transaction writers do not make it start
 * over. */
static remat_status copy_pages(sqlite_connection *source, sqlite3 *target, const char *path,
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
    return sqlite_fail_code(code, sqlite3_system_errno(target), sqlite3_errmsg(target), path, error,
                            "write the backup");
}

static remat_status copy_store(const char *from, const char *path, remat_error *error)
{
    sqlite_connection *source = NULL;
    sqlite3 *target = NULL;
    int64_t entries;
    remat_status status = sqlite_connection_open(NULL, from, SQLITE_READ_ONLY, &source, error);
    if (status != REMAT_OK)
        return status;
    status = sqlite_run(source, SQLITE_BEGIN_READ, error);
    if (status == REMAT_OK) /* a transaction begins with its first read */
        status = sqlite_number(source, "SELECT count(*) FROM pulse", &entries, error);
    if (status == REMAT_OK) {
        int code = sqlite3_open_v2(
            path, &target, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
        if (code != SQLITE_OK)
            status = sqlite_fail_code(code, sqlite3_system_errno(target), sqlite3_errmsg(target),
                                      path, error, "create the backup");
        else
            status = copy_pages(source, target, path, error);
    }
    sqlite3_close(target);
    sqlite_connection_close(source);
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

remat_status sqlite_backup(remat_store *store, const char *path, remat_error *error)
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
        status = copy_store(store->name, temporary, error);
        if (status == REMAT_OK)
            status = publish(temporary, path, error);
        if (status != REMAT_OK)
            unlink(temporary);
    }
    free(temporary);
    return status;
}
