/* Opening and closing, connections, the pool of readers, and SQLite's failures in our words. */
#include "private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Readers are short; more of them than cores would only wait for each other. */
#define CONNECTIONS_MAX 16

static const char *const statement_texts[] = {
#define X(name, sql) sql,
    STORAGE_STATEMENTS(X)
#undef X
};

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

remat_status storage_fail_code(int code, int system_error, const char *detail, const char *path,
                               remat_error *error, const char *act)
{
    remat_status status = status_of(code);
    if (status == REMAT_OK) /* a failure that SQLite has no code for is not a success */
        status = REMAT_INTERNAL;
    if (status == REMAT_NO_MEMORY)
        return remat_fail_memory(error);
    const char *why = (code & 0xff) == SQLITE_FULL   ? "the disk is full"
                      : (code & 0xff) == SQLITE_BUSY ? "another process holds its lock"
                                                     : detail;
    bool system = status == REMAT_IO && system_error != 0 && (code & 0xff) != SQLITE_BUSY;
    return remat_fail(error, status, NULL, "cannot %s %s: %s%s%s (SQLite code %d)", act, path, why,
                      system ? ": " : "", system ? strerror(system_error) : "", code);
}

remat_status storage_fail(storage_connection *connection, remat_error *error, const char *act)
{
    sqlite3 *db = connection->db;
    return storage_fail_code(sqlite3_extended_errcode(db), sqlite3_system_errno(db),
                             sqlite3_errmsg(db), connection->path, error, act);
}

void storage_log(const remat_store *store, const char *format, ...)
{
    if (!store->options.log)
        return;
    char message[REMAT_MESSAGE_SIZE + 256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    store->options.log(store->options.data, message);
}

int64_t storage_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- statements ---- */

remat_status storage_exec(storage_connection *connection, const char *sql, remat_error *error)
{
    if (sqlite3_exec(connection->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        return storage_fail(connection, error, "set up");
    return REMAT_OK;
}

remat_status storage_number(storage_connection *connection, const char *sql, int64_t *ret_number,
                            remat_error *error)
{
    sqlite3_stmt *query;
    if (sqlite3_prepare_v2(connection->db, sql, -1, &query, NULL) != SQLITE_OK)
        return storage_fail(connection, error, "read");
    remat_status status = REMAT_OK;
    if (sqlite3_step(query) == SQLITE_ROW)
        *ret_number = sqlite3_column_int64(query, 0);
    else
        status = storage_fail(connection, error, "read");
    sqlite3_finalize(query);
    return status;
}

static int bind(sqlite3_stmt *query, const char *types, va_list values)
{
    int code = SQLITE_OK;
    for (int i = 1; types[i - 1] && code == SQLITE_OK; i++) {
        switch (types[i - 1]) {
        case 't':
            code = sqlite3_bind_text(query, i, va_arg(values, const char *), -1, SQLITE_STATIC);
            break;
        case 'i':
            code = sqlite3_bind_int64(query, i, va_arg(values, int64_t));
            break;
        case 'n': {
            int64_t number = va_arg(values, int64_t);
            code = number ? sqlite3_bind_int64(query, i, number) : sqlite3_bind_null(query, i);
            break;
        }
        case 'r':
            code = sqlite3_bind_double(query, i, va_arg(values, double));
            break;
        case 'b': {
            const remat_blob *blob = va_arg(values, const remat_blob *);
            code = sqlite3_bind_blob64(query, i, blob->data, blob->length, SQLITE_STATIC);
            break;
        }
        default:
            code = SQLITE_MISUSE;
        }
    }
    return code;
}

static remat_status query_values(storage_connection *connection, storage_statement statement,
                                 sqlite3_stmt **ret_query, remat_error *error, const char *types,
                                 va_list values)
{
    sqlite3_stmt **cached = &connection->statements[statement];
    if (!*cached && sqlite3_prepare_v3(connection->db, statement_texts[statement], -1,
                                       SQLITE_PREPARE_PERSISTENT, cached, NULL) != SQLITE_OK)
        return storage_fail(connection, error, "use");
    if (bind(*cached, types, values) != SQLITE_OK) {
        remat_status status = storage_fail(connection, error, "use");
        storage_done(*cached);
        return status;
    }
    *ret_query = *cached;
    return REMAT_OK;
}

remat_status storage_query(storage_connection *connection, storage_statement statement,
                           sqlite3_stmt **ret_query, remat_error *error, const char *types, ...)
{
    va_list values;
    va_start(values, types);
    remat_status status = query_values(connection, statement, ret_query, error, types, values);
    va_end(values);
    return status;
}

remat_status storage_step(storage_connection *connection, sqlite3_stmt *query, bool *ret_row,
                          remat_error *error)
{
    int code = sqlite3_step(query);
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        return storage_fail(connection, error, sqlite3_stmt_readonly(query) ? "read" : "write to");
    *ret_row = code == SQLITE_ROW;
    return REMAT_OK;
}

void storage_done(sqlite3_stmt *query)
{
    sqlite3_reset(query);
    sqlite3_clear_bindings(query);
}

remat_status storage_run(storage_connection *connection, storage_statement statement,
                         remat_error *error, const char *types, ...)
{
    sqlite3_stmt *query;
    va_list values;
    va_start(values, types);
    remat_status status = query_values(connection, statement, &query, error, types, values);
    va_end(values);
    if (status != REMAT_OK)
        return status;
    bool row;
    status = storage_step(connection, query, &row, error);
    storage_done(query);
    return status;
}

/* ---- connections ---- */

/* synchronous=FULL: the log is flushed at every commit. NORMAL would flush it only at checkpoints,
 * and a power failure could then undo what a client was told is stored. The price is one flush per
 * commit, which the writer thread spreads over all the writes that wait. */
static const char set_up[] = "PRAGMA synchronous = FULL;"
                             "PRAGMA foreign_keys = ON;"
                             "PRAGMA cell_size_check = ON;"
                             "PRAGMA temp_store = MEMORY;"
                             "PRAGMA journal_size_limit = 67108864;";

remat_status storage_connection_open(const char *path, int mode,
                                     storage_connection **ret_connection, remat_error *error)
{
    storage_connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return remat_fail_memory(error);
    connection->path = path;
    /* Readers too are opened for writing: the first process that finds the log of a killed one has
     * to recover it. query_only keeps them from more. */
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX |
                (mode == STORAGE_CREATE ? SQLITE_OPEN_CREATE : 0);
    remat_status status = REMAT_OK;
    if (sqlite3_open_v2(path, &connection->db, flags, NULL) != SQLITE_OK)
        status =
            connection->db ? storage_fail(connection, error, "open") : remat_fail_memory(error);
    if (status == REMAT_OK) {
        sqlite3_extended_result_codes(connection->db, 1);
        sqlite3_busy_timeout(connection->db, STORAGE_BUSY_MILLISECONDS);
        /* Not for CREATE: nothing is to touch the file before it is known to be ours. */
        if (mode != STORAGE_CREATE)
            status = storage_exec(connection, set_up, error);
        if (status == REMAT_OK && mode == STORAGE_READ)
            status = storage_exec(connection, "PRAGMA query_only = ON", error);
    }
    if (status != REMAT_OK)
        storage_connection_close(connection);
    else
        *ret_connection = connection;
    return status;
}

void storage_connection_close(storage_connection *connection)
{
    if (!connection)
        return;
    for (int i = 0; i < SQL_COUNT; i++)
        sqlite3_finalize(connection->statements[i]);
    sqlite3_close(connection->db);
    free(connection);
}

static void forget_reader(remat_store *store)
{
    pthread_mutex_lock(&store->pool_lock);
    store->connections--;
    pthread_cond_signal(&store->pool_free);
    pthread_mutex_unlock(&store->pool_lock);
}

/* An idle connection, or a new one while there are few, or the next that comes free. */
static remat_status take_reader(remat_store *store, storage_connection **ret_connection,
                                remat_error *error)
{
    pthread_mutex_lock(&store->pool_lock);
    while (!store->idle && store->connections == CONNECTIONS_MAX)
        pthread_cond_wait(&store->pool_free, &store->pool_lock);
    storage_connection *connection = store->idle;
    if (connection)
        store->idle = connection->next;
    else
        store->connections++;
    pthread_mutex_unlock(&store->pool_lock);
    if (connection) {
        *ret_connection = connection;
        return REMAT_OK;
    }
    remat_status status = storage_connection_open(store->path, STORAGE_READ, ret_connection, error);
    if (status != REMAT_OK)
        forget_reader(store);
    return status;
}

static void return_reader(remat_store *store, storage_connection *connection)
{
    pthread_mutex_lock(&store->pool_lock);
    connection->next = store->idle;
    store->idle = connection;
    pthread_cond_signal(&store->pool_free);
    pthread_mutex_unlock(&store->pool_lock);
}

remat_status storage_read_begin(remat_store *store, storage_connection **ret_connection,
                                remat_error *error)
{
    storage_connection *connection;
    remat_status status = take_reader(store, &connection, error);
    if (status != REMAT_OK)
        return status;
    status = storage_run(connection, SQL_BEGIN_READ, error, "");
    if (status != REMAT_OK) {
        return_reader(store, connection);
        return status;
    }
    *ret_connection = connection;
    return REMAT_OK;
}

void storage_read_end(remat_store *store, storage_connection *connection)
{
    /* Ending a transaction that only read fails for want of memory alone. A connection that stayed
     * in it would hold the log for ever. */
    if (sqlite3_get_autocommit(connection->db) ||
        storage_run(connection, SQL_COMMIT, NULL, "") == REMAT_OK) {
        return_reader(store, connection);
        return;
    }
    storage_connection_close(connection);
    forget_reader(store);
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

/* One daemon per store: a second would be safe for the data, but neither would know of the other's
 * jobs and drops. The lock is on a file beside the store, since closing any descriptor of the store
 * itself would release SQLite's own locks. It stays behind, empty, and means nothing without its
 * holder. */
static remat_status lock(remat_store *store, remat_error *error)
{
    size_t size = strlen(store->path) + sizeof ".lock";
    char *path = malloc(size);
    if (!path)
        return remat_fail_memory(error);
    snprintf(path, size, "%s.lock", store->path);
    remat_status status = REMAT_OK;
    store->lock_file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (store->lock_file < 0)
        status = remat_fail(error, REMAT_IO, NULL, "cannot open %s: %s", path, strerror(errno));
    else if (flock(store->lock_file, LOCK_EX | LOCK_NB) != 0)
        status =
            errno == EWOULDBLOCK
                ? remat_fail(error, REMAT_IO, NULL, "%s is in use by another process", store->path)
                : remat_fail(error, REMAT_IO, NULL, "cannot lock %s: %s", path, strerror(errno));
    free(path);
    return status;
}

static bool has_log(const remat_store *store)
{
    size_t size = strlen(store->path) + sizeof "-wal";
    char *path = malloc(size);
    if (!path)
        return false;
    snprintf(path, size, "%s-wal", store->path);
    struct stat entry;
    bool found = stat(path, &entry) == 0 && entry.st_size > 0;
    free(path);
    return found;
}

static remat_status use_wal(storage_connection *connection, remat_error *error)
{
    sqlite3_stmt *query;
    if (sqlite3_prepare_v2(connection->db, "PRAGMA journal_mode = WAL", -1, &query, NULL) !=
        SQLITE_OK)
        return storage_fail(connection, error, "open");
    remat_status status = REMAT_OK;
    if (sqlite3_step(query) != SQLITE_ROW)
        status = storage_fail(connection, error, "open");
    else if (strcmp((const char *)sqlite3_column_text(query, 0), "wal") != 0)
        status = remat_fail(error, REMAT_IO, NULL,
                            "cannot open %s: its file system cannot share memory between "
                            "processes, which a write-ahead log needs",
                            connection->path);
    sqlite3_finalize(query);
    return status;
}

/* The writer's connection, on a store that is of this version when this returns. */
static remat_status open_to_write(remat_store *store, remat_error *error)
{
    bool unclean = has_log(store);
    remat_status status =
        storage_connection_open(store->path, STORAGE_CREATE, &store->writer, error);
    if (status != REMAT_OK)
        return status;
    storage_connection *writer = store->writer;
    /* Until the file is known to be ours even its log is left alone. */
    sqlite3_db_config(writer->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    int version = 0;
    status = storage_inspect(writer, &version, error);
    if (status == REMAT_OK)
        status = use_wal(writer, error);
    if (status == REMAT_OK)
        status = storage_migrate(writer, version, storage_migrations, storage_version, error);
    if (status == REMAT_OK)
        status = storage_exec(writer, set_up, error);
    if (status != REMAT_OK)
        return status;
    sqlite3_db_config(writer->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
    if (unclean)
        storage_log(store, "%s was not closed the last time; recovered from its log", store->path);
    return REMAT_OK;
}

static remat_status open_to_read(remat_store *store, remat_error *error)
{
    storage_connection *connection;
    remat_status status = take_reader(store, &connection, error);
    if (status == REMAT_CORRUPT)
        return remat_fail(error, REMAT_INVALID, NULL,
                          "%s is not a remat store, or its first page is damaged", store->path);
    if (status != REMAT_OK)
        return status;
    sqlite3_db_config(connection->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    int version = 0;
    status = storage_inspect(connection, &version, error);
    return_reader(store, connection);
    if (status == REMAT_OK && version < storage_version)
        return remat_fail(error, REMAT_INVALID, NULL,
                          "%s has schema version %d and this program reads %d: the daemon brings "
                          "it up to date when it opens it",
                          store->path, version, storage_version);
    return status;
}

static remat_status open_store(remat_store *store, const char *path, remat_error *error)
{
    remat_status status = absolute_path(path, &store->path, error);
    if (status != REMAT_OK)
        return status;
    if (store->options.read_only)
        return open_to_read(store, error);
    status = lock(store, error);
    if (status == REMAT_OK)
        status = open_to_write(store, error);
    if (status == REMAT_OK)
        status = storage_writer_start(store, error);
    return status;
}

remat_status remat_store_open(const char *path, const remat_store_options *options,
                              remat_store **ret_store, remat_error *error)
{
    remat_store *store = calloc(1, sizeof *store);
    if (!store)
        return remat_fail_memory(error);
    if (options)
        store->options = *options;
    store->lock_file = -1;
    pthread_mutex_init(&store->pool_lock, NULL);
    pthread_cond_init(&store->pool_free, NULL);
    remat_status status = open_store(store, path, error);
    if (status != REMAT_OK)
        remat_store_close(store);
    else
        *ret_store = store;
    return status;
}

void remat_store_close(remat_store *store)
{
    if (!store)
        return;
    storage_writer_stop(store);
    while (store->idle) {
        storage_connection *connection = store->idle;
        store->idle = connection->next;
        storage_connection_close(connection);
    }
    /* The last connection to close moves the log into the database. */
    storage_connection_close(store->writer);
    if (store->lock_file >= 0)
        close(store->lock_file);
    pthread_cond_destroy(&store->pool_free);
    pthread_mutex_destroy(&store->pool_lock);
    free(store->path);
    free(store);
}
