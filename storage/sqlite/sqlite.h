/* SQLite behind the store: one process, one writer thread, readers in a pool.
 *
 *   store.c       open, close, connections, the pool of readers, errors
 *   statements.c  statements, their values and rows
 *   schema.c      migrations; whether a file is a store, and of which version
 *   writer.c      the writer thread, group commit
 *   care.c        size, integrity check, backup */
#ifndef REMAT_STORAGE_SQLITE_H
#define REMAT_STORAGE_SQLITE_H

#include "private.h"

#include <pthread.h>
#include <sqlite3.h>
#include <time.h>

/* Transactions; the statements of the records come first. */
enum {
    SQLITE_BEGIN_READ = SQL_COUNT,
    SQLITE_BEGIN_WRITE,
    SQLITE_COMMIT,
    SQLITE_ROLLBACK_ALL,
    SQLITE_SAVEPOINT_ONE,
    SQLITE_ROLLBACK_TO,
    SQLITE_RELEASE,
    SQLITE_STATEMENT_COUNT
};

/* Only other processes (a shell of sqlite3, a check) can hold a lock that we wait for. */
#define SQLITE_BUSY_MILLISECONDS 10000

typedef struct sqlite_connection {
    storage_connection base;
    const char *path;
    sqlite3 *db;
    sqlite3_stmt *statements[SQLITE_STATEMENT_COUNT]; /* prepared on first use */
} sqlite_connection;

typedef struct sqlite_write sqlite_write;

typedef struct sqlite_store {
    remat_store base;
    int lock_file, own_lock; /* of the file beside the store and of itself; -1 when read_only */

    storage_pool readers;

    sqlite_connection *writer; /* the writer thread's alone once that runs */
    pthread_t thread;
    bool thread_runs;
    pthread_mutex_t queue_lock; /* of everything below down to the blank line */
    pthread_cond_t queue_filled;
    sqlite_write *first, **last;
    storage_touches *touches;
    struct timespec touches_due;
    bool stopping;

    int wal_pages, restart_at; /* the writer thread's */
    bool checkpoint_failed;
} sqlite_store;

/* ---- store.c ---- */

enum { SQLITE_READ_ONLY, SQLITE_READ_WRITE, SQLITE_CREATE };

/* store may be NULL, for migrations alone. */
remat_status sqlite_connection_open(const remat_store *store, const char *path, int mode,
                                    sqlite_connection **ret_connection, remat_error *error);
void sqlite_connection_close(sqlite_connection *connection);

/* The connection's last failure as a status, in words: "cannot <act> <path>: <why>". */
remat_status sqlite_fail(sqlite_connection *connection, remat_error *error, const char *act);
/* The same for a result code that the connection does not remember. */
remat_status sqlite_fail_code(int code, int system_error, const char *detail, const char *path,
                              remat_error *error, const char *act);
remat_status sqlite_exec(sqlite_connection *connection, const char *sql, remat_error *error);
/* The one number that a pragma answers. */
remat_status sqlite_number(sqlite_connection *connection, const char *sql, int64_t *ret_number,
                           remat_error *error);

/* ---- statements.c: those of the backend ---- */

remat_status sqlite_query(storage_connection *connection, storage_statement statement,
                          storage_rows *rows, remat_error *error, const char *types,
                          va_list values);
remat_status sqlite_step(storage_rows *rows, bool *ret_row, remat_error *error);
void sqlite_done(storage_rows *rows);
uint64_t sqlite_changes(storage_connection *connection);
bool sqlite_is_null(const storage_rows *rows, int column);
int64_t sqlite_integer(const storage_rows *rows, int column);
double sqlite_real(const storage_rows *rows, int column);
const char *sqlite_text(const storage_rows *rows, int column);
remat_status sqlite_bytes(const storage_rows *rows, int column, const void **ret_bytes,
                          size_t *ret_length, remat_error *error);

/* A statement without values or rows. */
remat_status sqlite_run(sqlite_connection *connection, int statement, remat_error *error);

/* ---- schema.c ---- */

typedef struct sqlite_migration {
    const char *sql;
} sqlite_migration;

extern const sqlite_migration sqlite_migrations[];
extern const int sqlite_version; /* how many there are */

/* REMAT_NEWER, REMAT_INVALID (not a store), or the version; 0 for a new file. Changes nothing. */
remat_status sqlite_inspect(sqlite_connection *connection, int *ret_version, remat_error *error);
/* Brings a store of the given version to `count`, each step in one transaction. */
remat_status sqlite_migrate(sqlite_connection *connection, int version,
                            const sqlite_migration *migrations, int count, remat_error *error);

/* ---- writer.c ---- */

remat_status sqlite_writer_start(sqlite_store *store, remat_error *error);
void sqlite_writer_stop(sqlite_store *store);
remat_status sqlite_submit(remat_store *store, storage_write_run *run, void *argument,
                           remat_error *error);
void sqlite_touch(remat_store *store, const char *const texts[4]);

/* ---- care.c ---- */

remat_status sqlite_size(storage_connection *connection, uint64_t *ret_bytes, remat_error *error);
remat_status sqlite_check_begin(remat_store *store, storage_connection **ret_connection,
                                uint64_t *damaged, remat_error *error);
void sqlite_check_end(remat_store *store, storage_connection *connection);
remat_status sqlite_backup(remat_store *store, const char *path, remat_error *error);

#endif
