/* Opening and closing, connections, the pool of readers, and SQLite's failures in our words. */
#include "sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

/* Readers are short; more of them than cores would only wait for each other. */
#define CONNECTIONS_MAX 16

/* ---- failures ---- */

static remat_status status_of(int code)
{
    if (code == SQLITE_IOERR_NOMEM)
        return REMAT_NO_MEMORY;
    if (code == SQLITE_CONSTRAINT_NOTNULL)
        return REMAT_INVALID;
    switch (code & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
        return REMAT_OK;
    case SQLITE_NOMEM:
        return REMAT_NO_MEMORY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return REMAT_CORRUPT;
    case SQLITE_TOOBIG:
        return REMAT_TOO_LARGE;
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
    case SQLITE_NOLFS:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return REMAT_IO;
    default:
        return REMAT_INTERNAL;
    }
}

remat_status sqlite_fail_code(int code, int system_error, const char *detail, const char *path,
                              remat_error *error, const char *act)
{
    remat_status status = status_of(code);
    if (status == REMAT_OK) /* a failure that SQLite has no code for is not a success */
        status = REMAT_INTERNAL;
    if (status == REMAT_NO_MEMORY)
        return remat_fail_memory(error);
    if ((code & 0xff) == SQLITE_FULL || code == SQLITE_IOERR_WRITE ||
        code == SQLITE_IOERR_FSYNC) /* whatever was on its way */
        act = "write";
    const char *why = (code & 0xff) == SQLITE_FULL   ? "the disk is full"
                      : (code & 0xff) == SQLITE_BUSY ? "another process holds its lock"
                                                     : detail;
    bool system = status == REMAT_IO && system_error != 0 && (code & 0xff) != SQLITE_BUSY;
    return remat_fail(error, status, NULL, "cannot %s %s: %s%s%s (SQLite code %d)", act, path, why,
                      system ? ": " : "", system ? strerror(system_error) : "", code);
}

remat_status sqlite_fail(sqlite_connection *connection, remat_error *error, const char *act)
{
    sqlite3 *db = connection->db;
    return sqlite_fail_code(sqlite3_extended_errcode(db), sqlite3_system_errno(db),
                            sqlite3_errmsg(db), connection->path, error, act);
}

/* ---- pragmas ---- */

remat_status sqlite_exec(sqlite_connection *connection, const char *sql, remat_error *error)
{
    if (sqlite3_exec(connection->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        return sqlite_fail(connection, error, "set up");
    return REMAT_OK;
}

remat_status sqlite_number(sqlite_connection *connection, const char *sql, int64_t *ret_number,
                           remat_error *error)
{
    sqlite3_stmt *query;
    if (sqlite3_prepare_v2(connection->db, sql, -1, &query, NULL) != SQLITE_OK)
        return sqlite_fail(connection, error, "read");
    remat_status status = REMAT_OK;
    if (sqlite3_step(query) == SQLITE_ROW)
        *ret_number = sqlite3_column_int64(query, 0);
    else
        status = sqlite_fail(connection, error, "read");
    sqlite3_finalize(query);
    return status;
}

/* ---- connections ---- */

static bool has_log(const char *path)
{
    char *log = NULL;
    if (asprintf(&log, "%s-wal", path) < 0)
        return false;
    struct stat entry;
    bool found = stat(log, &entry) == 0 && entry.st_size > 0;
    free(log);
    return found;
}

/* Whether nobody writes the file: SQLite, which must be able to make a log beside it, can be told
 * so. */
static bool is_immutable(const char *path)
{
    struct statvfs system;
    return statvfs(path, &system) == 0 && (system.f_flag & ST_RDONLY) && !has_log(path);
}

static int open_immutable(const char *path, sqlite3 **ret_db)
{
    char *uri = malloc(3 * strlen(path) + sizeof "file:?immutable=1");
    if (!uri)
        return SQLITE_NOMEM;
    char *end = uri + sprintf(uri, "file:");
    for (const char *c = path; *c; c++)
        end += sprintf(end, strchr("?#%", *c) ? "%%%02X" : "%c", (unsigned)*c);
    strcpy(end, "?immutable=1");
    int code = sqlite3_open_v2(uri, ret_db,
                               SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI, NULL);
    free(uri);
    return code;
}

/* synchronous=FULL: the log is flushed at every commit. NORMAL would flush it only at checkpoints,
 * and a power failure could then undo what a client was told is stored. The price is one flush per
 * commit, which the writer thread spreads over all the writes that wait. */
static const char set_up[] = "PRAGMA synchronous = FULL;"
                             "PRAGMA foreign_keys = ON;"
                             "PRAGMA cell_size_check = ON;"
                             "PRAGMA temp_store = MEMORY;"
                             "PRAGMA journal_size_limit = 67108864;";

remat_status sqlite_connection_open(const remat_store *store, const char *path, int mode,
                                    sqlite_connection **ret_connection, remat_error *error)
{
    sqlite_connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return remat_fail_memory(error);
    connection->base = (storage_connection){.backend = &storage_sqlite, .store = store};
    connection->path = path;
    /* Readers too are opened for writing: the first process that finds the log of a killed one has
     * to recover it. query_only keeps them from more. */
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX |
                (mode == SQLITE_CREATE ? SQLITE_OPEN_CREATE : 0);
    remat_status status = REMAT_OK;
    if ((mode == SQLITE_READ_ONLY && is_immutable(path)
             ? open_immutable(path, &connection->db)
             : sqlite3_open_v2(path, &connection->db, flags, NULL)) != SQLITE_OK)
        status = connection->db ? sqlite_fail(connection, error, "open") : remat_fail_memory(error);
    if (status == REMAT_OK) {
        sqlite3_extended_result_codes(connection->db, 1);
        sqlite3_busy_timeout(connection->db, SQLITE_BUSY_MILLISECONDS);
        /* Not for CREATE: nothing is to touch the file before it is known to be ours. */
        if (mode != SQLITE_CREATE)
            status = sqlite_exec(connection, set_up, error);
        if (status == REMAT_OK && mode == SQLITE_READ_ONLY)
            status = sqlite_exec(connection, "PRAGMA query_only = ON", error);
    }
    if (status != REMAT_OK)
        sqlite_connection_close(connection);
    else
        *ret_connection = connection;
    return status;
}

void sqlite_connection_close(sqlite_connection *connection)
{
    if (!connection)
        return;
    for (int i = 0; i < SQLITE_STATEMENT_COUNT; i++)
        sqlite3_finalize(connection->statements[i]);
    sqlite3_close(connection->db);
    free(connection);
}

static remat_status take_reader(sqlite_store *store, sqlite_connection **ret_connection,
                                remat_error *error)
{
    storage_connection *idle = storage_pool_take(&store->readers, CONNECTIONS_MAX);
    if (idle) {
        *ret_connection = (sqlite_connection *)idle;
        return REMAT_OK;
    }
    remat_status status = sqlite_connection_open(&store->base, store->base.name, SQLITE_READ_ONLY,
                                                 ret_connection, error);
    if (status != REMAT_OK)
        storage_pool_give(&store->readers, NULL);
    return status;
}

static remat_status read_begin(remat_store *base, storage_connection **ret_connection,
                               remat_error *error)
{
    sqlite_store *store = (sqlite_store *)base;
    sqlite_connection *connection;
    remat_status status = take_reader(store, &connection, error);
    if (status != REMAT_OK)
        return status;
    status = sqlite_run(connection, SQLITE_BEGIN_READ, error);
    if (status != REMAT_OK) {
        storage_pool_give(&store->readers, &connection->base);
        return status;
    }
    *ret_connection = &connection->base;
    return REMAT_OK;
}

static void read_end(remat_store *base, storage_connection *ended)
{
    sqlite_store *store = (sqlite_store *)base;
    sqlite_connection *connection = (sqlite_connection *)ended;
    /* Ending a transaction that only read fails for want of memory alone. A connection that stayed
     * in it would hold the log for ever. */
    if (sqlite3_get_autocommit(connection->db) ||
        sqlite_run(connection, SQLITE_COMMIT, NULL) == REMAT_OK) {
        storage_pool_give(&store->readers, &connection->base);
        return;
    }
    sqlite_connection_close(connection);
    storage_pool_give(&store->readers, NULL);
}

/* ---- open and close ---- */

/* SQLite takes ":memory:" and "file:.." for something else than a file of that name: an absolute
 * path is neither. */
static remat_status absolute_path(const char *path, char **ret_path, remat_error *error)
{
    if (!path[0])
        return remat_fail(error, REMAT_INVALID, NULL, "the path of the store is empty");
    char *directory = NULL;
    if (path[0] != '/' && !(directory = getcwd(NULL, 0)))
        return remat_fail(error, REMAT_IO, NULL, "cannot find the current directory: %s",
                          strerror(errno));
    size_t size = (directory ? strlen(directory) : 0) + strlen(path) + 2;
    char *absolute = malloc(size);
    if (absolute)
        snprintf(absolute, size, "%s%s%s", directory ? directory : "", directory ? "/" : "", path);
    free(directory);
    if (!absolute)
        return remat_fail_memory(error);
    *ret_path = absolute;
    return REMAT_OK;
}

static remat_status lock_file(const char *path, const char *name, mode_t mode, int *ret_file,
                              remat_error *error)
{
    *ret_file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, mode);
    if (*ret_file < 0)
        return remat_fail(error, REMAT_IO, NULL, "cannot open %s: %s", path, strerror(errno));
    if (flock(*ret_file, LOCK_EX | LOCK_NB) == 0)
        return REMAT_OK;
    return errno == EWOULDBLOCK
               ? remat_fail(error, REMAT_IO, NULL, "%s is in use by another process", name)
               : remat_fail(error, REMAT_IO, NULL, "cannot lock %s: %s", path, strerror(errno));
}

/* One daemon per store: a second would be safe for the data, but neither would know of the other's
 * jobs and drops, and through a hard link each would have a log of its own. So the file itself is
 * locked, whatever name led to it; flock and SQLite's locks do not see each other. Closing any
 * descriptor of the store would release SQLite's own locks in this process: therefore a file beside
 * it is locked first, which keeps a second opening by the same name away from the store itself, and
 * the descriptor is closed after the last connection. */
static remat_status lock(sqlite_store *store, remat_error *error)
{
    size_t size = strlen(store->base.name) + sizeof ".lock";
    char *path = malloc(size);
    if (!path)
        return remat_fail_memory(error);
    snprintf(path, size, "%s.lock", store->base.name);
    remat_status status = lock_file(path, store->base.name, 0644, &store->lock_file, error);
    free(path);
    if (status == REMAT_OK)
        status = lock_file(store->base.name, store->base.name, 0644, &store->own_lock, error);
    return status;
}

/* The file beside the store holds some of the disk, which pruning needs where the disk is full:
 * even a deletion is written to the log first. */
#define ROOM (4 << 20)

static void keep_room(const sqlite_store *store)
{
    (void)posix_fallocate(store->lock_file, 0,
                          ROOM); /* where there is none to keep, none is kept */
}

/* Where it fails the file stays longer, which does no harm. */
static void shorten(int file, off_t size)
{
    if (ftruncate(file, size))
        return;
}

static void make_room(remat_store *base)
{
    shorten(((sqlite_store *)base)->lock_file, 0);
}

/* Behind what is kept. A small write may find pages that are there already: only this sees what
 * larger ones will meet. */
static remat_status probe_room(remat_store *base, remat_error *error)
{
    const int file = ((sqlite_store *)base)->lock_file;
    const int failure = posix_fallocate(file, ROOM, ROOM);
    shorten(file, ROOM);
    if (failure == EROFS || failure == EIO) /* SQLite would not say which of the two */
        return remat_fail(error, REMAT_IO, NULL, "cannot write %s: %s", base->name,
                          strerror(failure));
    if (failure != ENOSPC && failure != EDQUOT && failure != EFBIG)
        return REMAT_OK; /* what else there is, a real write will say */
    return remat_fail(error, REMAT_IO, NULL,
                      "cannot write %s: the disk is full: it has no %d MiB left", base->name,
                      ROOM >> 20);
}

static remat_status use_wal(sqlite_connection *connection, remat_error *error)
{
    sqlite3_stmt *query;
    if (sqlite3_prepare_v2(connection->db, "PRAGMA journal_mode = WAL", -1, &query, NULL) !=
        SQLITE_OK)
        return sqlite_fail(connection, error, "open");
    remat_status status = REMAT_OK;
    if (sqlite3_step(query) != SQLITE_ROW)
        status = sqlite_fail(connection, error, "open");
    else if (strcmp((const char *)sqlite3_column_text(query, 0), "wal") != 0)
        status = remat_fail(error, REMAT_IO, NULL,
                            "cannot open %s: its file system cannot share memory between "
                            "processes, which a write-ahead log needs",
                            connection->path);
    sqlite3_finalize(query);
    return status;
}

/* The writer's connection, on a store that is of this version when this returns. */
static remat_status open_to_write(sqlite_store *store, remat_error *error)
{
    bool unclean = has_log(store->base.name);
    remat_status status = sqlite_connection_open(&store->base, store->base.name, SQLITE_CREATE,
                                                 &store->writer, error);
    if (status != REMAT_OK)
        return status;
    sqlite_connection *writer = store->writer;
    /* Until the file is known to be ours even its log is left alone. */
    sqlite3_db_config(writer->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    int version = 0;
    status = sqlite_inspect(writer, &version, error);
    if (status == REMAT_OK)
        status = use_wal(writer, error);
    if (status == REMAT_OK)
        status = sqlite_migrate(writer, version, sqlite_migrations, sqlite_version, error);
    if (status == REMAT_OK)
        status = sqlite_exec(writer, set_up, error);
    if (status != REMAT_OK)
        return status;
    sqlite3_db_config(writer->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
    if (unclean)
        storage_log(&store->base, "%s was not closed the last time; recovered from its log",
                    store->base.name);
    return REMAT_OK;
}

static remat_status open_to_read(sqlite_store *store, remat_error *error)
{
    sqlite_connection *connection;
    remat_status status = take_reader(store, &connection, error);
    if (status == REMAT_CORRUPT)
        return remat_fail(error, REMAT_INVALID, NULL,
                          "%s is not a remat store, or its first page is damaged",
                          store->base.name);
    if (status != REMAT_OK)
        return status;
    sqlite3_db_config(connection->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    int version = 0;
    status = sqlite_inspect(connection, &version, error);
    storage_pool_give(&store->readers, &connection->base);
    if (status == REMAT_OK && version < sqlite_version)
        return remat_fail(error, REMAT_INVALID, NULL,
                          "%s has schema version %d and this program reads %d: the daemon brings "
                          "it up to date when it opens it",
                          store->base.name, version, sqlite_version);
    return status;
}

static remat_status open_store(sqlite_store *store, const char *path,
                               const remat_store_options *options, remat_error *error)
{
    remat_status status = storage_init(&store->base, &storage_sqlite, path, options, error);
    if (status != REMAT_OK)
        return status;
    if (store->base.options.read_only)
        return open_to_read(store, error);
    if (store->base.options.prunes && access(store->base.name, F_OK) != 0)
        return remat_fail(error, REMAT_IO, NULL, "cannot open %s: %s", store->base.name,
                          strerror(errno));
    status = lock(store, error);
    if (status == REMAT_OK && store->base.options.prunes)
        make_room(&store->base);
    if (status == REMAT_OK)
        status = open_to_write(store, error);
    if (status == REMAT_OK)
        status = sqlite_writer_start(store, error);
    if (status == REMAT_OK && !store->base.options.prunes)
        keep_room(store);
    return status;
}

static void close_store(remat_store *base)
{
    sqlite_store *store = (sqlite_store *)base;
    sqlite_writer_stop(store);
    while (store->readers.idle)
        sqlite_connection_close((sqlite_connection *)storage_pool_take(&store->readers, 0));
    /* The last connection to close moves the log into the database. */
    sqlite_connection_close(store->writer);
    if (store->own_lock >= 0)
        close(store->own_lock);
    if (store->lock_file >= 0) {
        keep_room(store);
        close(store->lock_file);
    }
    storage_pool_clear(&store->readers);
    free(store->base.name);
    free(store);
}

static remat_status open_new(const char *path, const remat_store_options *options,
                             remat_store **ret_store, remat_error *error)
{
    sqlite_store *store = calloc(1, sizeof *store);
    if (!store)
        return remat_fail_memory(error);
    store->lock_file = store->own_lock = -1;
    storage_pool_init(&store->readers);
    remat_status status = open_store(store, path, options, error);
    if (status != REMAT_OK)
        close_store(&store->base);
    else
        *ret_store = &store->base;
    return status;
}

static int schema_version(void)
{
    return sqlite_version;
}

/* One process has the store: nobody else is to be told. */
static remat_status notify(storage_connection *connection, remat_store_event event,
                           const char *name, remat_error *error)
{
    return REMAT_OK;
}

const storage_backend storage_sqlite = {
    .name = absolute_path,
    .open = open_new,
    .close = close_store,
    .read_begin = read_begin,
    .read_end = read_end,
    .submit = sqlite_submit,
    .touch = sqlite_touch,
    .notify = notify,
    .query = sqlite_query,
    .step = sqlite_step,
    .done = sqlite_done,
    .changes = sqlite_changes,
    .is_null = sqlite_is_null,
    .integer = sqlite_integer,
    .real = sqlite_real,
    .text = sqlite_text,
    .bytes = sqlite_bytes,
    .size = sqlite_size,
    .make_room = make_room,
    .probe_room = probe_room,
    .schema_version = schema_version,
    .check_begin = sqlite_check_begin,
    .check_end = sqlite_check_end,
    .backup = sqlite_backup,
};
