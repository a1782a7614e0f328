/* What the files of this room share. Nothing outside storage/ and its tests includes it.
 *
 *   store.c         open, close, connections, the pool of readers, errors
 *   schema.c        migrations; whether a file is a store, and of which version
 *   statements.h    every SQL statement but the schema
 *   writer.c        the writer thread, group commit, marks of use
 *   codec.c         compression and checksums
 *   records.c       what the kinds of record share: reading a row, pages, damage
 *   profiles.c schedules.c tables.c jobs.c measurements.c
 *   care.c          statistics, ping, check, backup */
#ifndef REMAT_STORAGE_PRIVATE_H
#define REMAT_STORAGE_PRIVATE_H

#include "statements.h"
#include "storage.h"

#include <pthread.h>
#include <sqlite3.h>

typedef enum storage_statement {
#define X(name, sql) SQL_##name,
    STORAGE_STATEMENTS(X)
#undef X
        SQL_COUNT
} storage_statement;

/* Only other processes (a shell of sqlite3, a check) can hold a lock that we wait for. */
#define STORAGE_BUSY_MILLISECONDS 10000

/* A connection is used by one thread at a time. */
typedef struct storage_connection {
    struct storage_connection *next; /* in the pool */
    const char *path;
    sqlite3 *db;
    sqlite3_stmt *statements[SQL_COUNT]; /* prepared on first use */
} storage_connection;

typedef struct storage_write storage_write;
typedef struct storage_touches storage_touches;

struct remat_store {
    char *path; /* absolute: the service may change its working directory */
    remat_store_options options;
    int lock_file; /* -1 when read_only */

    pthread_mutex_t pool_lock; /* of the three below */
    pthread_cond_t pool_free;
    storage_connection *idle;
    unsigned int connections;

    storage_connection *writer; /* the writer thread's alone once that runs */
    pthread_t thread;
    bool thread_runs;
    pthread_mutex_t queue_lock; /* of everything below down to the blank line */
    pthread_cond_t queue_filled;
    storage_write *first, **last;
    storage_touches *touches;
    bool stopping;

    int wal_pages, restart_at; /* the writer thread's */
    bool checkpoint_failed;
};

/* ---- store.c ---- */

enum { STORAGE_READ, STORAGE_WRITE, STORAGE_CREATE };

remat_status storage_connection_open(const char *path, int mode,
                                     storage_connection **ret_connection, remat_error *error);
void storage_connection_close(storage_connection *connection);

/* The connection's last failure as a status, in words: "cannot <act> <path>: <why>". */
remat_status storage_fail(storage_connection *connection, remat_error *error, const char *act);
/* The same for a result code that the connection does not remember. */
remat_status storage_fail_code(int code, int system_error, const char *detail, const char *path,
                               remat_error *error, const char *act);
remat_status storage_exec(storage_connection *connection, const char *sql, remat_error *error);
/* The one number that a pragma answers. */
remat_status storage_number(storage_connection *connection, const char *sql, int64_t *ret_number,
                            remat_error *error);

/* Prepares (once) and binds. types has a letter for each parameter, in order: t const char *,
 * i int64_t, n int64_t with 0 for NULL, r double, b const remat_blob *. What is bound must outlive
 * the statement's use, which ends with storage_done. */
remat_status storage_query(storage_connection *connection, storage_statement statement,
                           sqlite3_stmt **ret_query, remat_error *error, const char *types, ...);
remat_status storage_step(storage_connection *connection, sqlite3_stmt *query, bool *ret_row,
                          remat_error *error);
void storage_done(sqlite3_stmt *query);
/* A statement that answers no rows, from start to end. */
remat_status storage_run(storage_connection *connection, storage_statement statement,
                         remat_error *error, const char *types, ...);

/* A reader out of the pool, inside a transaction: all its statements see one state of the store. */
remat_status storage_read_begin(remat_store *store, storage_connection **ret_connection,
                                remat_error *error);
void storage_read_end(remat_store *store, storage_connection *connection);

__attribute__((format(printf, 2, 3))) void storage_log(const remat_store *store, const char *format,
                                                       ...);
int64_t storage_now(void);

/* ---- schema.c ---- */

typedef struct storage_migration {
    const char *sql;
} storage_migration;

extern const storage_migration storage_migrations[];
extern const int storage_version; /* how many there are */

/* REMAT_NEWER, REMAT_INVALID (not a store), or the version; 0 for a new file. Changes nothing. */
remat_status storage_inspect(storage_connection *connection, int *ret_version, remat_error *error);
/* Brings a store of the given version to `count`, each step in one transaction. */
remat_status storage_migrate(storage_connection *connection, int version,
                             const storage_migration *migrations, int count, remat_error *error);

/* ---- writer.c ---- */

/* What a write does, on the writer's connection, inside a transaction. It may be run again after it
 * succeeded, when the transaction around it was lost. */
typedef remat_status storage_write_run(storage_connection *connection, void *argument,
                                       remat_error *error);

remat_status storage_writer_start(remat_store *store, remat_error *error);
void storage_writer_stop(remat_store *store);
/* Returns when the write is durable or has failed. */
remat_status storage_submit(remat_store *store, storage_write_run *run, void *argument,
                            remat_error *error);

/* ---- codec.c ---- */

/* XXH64. Chained over several fields by giving the hash of one as the seed of the next. */
uint64_t storage_hash(const void *data, size_t length, uint64_t seed);
/* Over values; types as in storage_query, without b. */
uint64_t storage_checksum(const char *types, ...);
/* Over the columns of a row from `first` on: equal to storage_checksum of the same values. */
uint64_t storage_row_checksum(sqlite3_stmt *row, int first, const char *types);

/* A blob as it is stored. owner says whose it is, so that one that got under another record is
 * known as damaged. The caller frees ret_stored->data / ret_blob->data. */
remat_status storage_encode(uint64_t owner, const void *data, size_t length, remat_blob *ret_stored,
                            remat_error *error);
remat_status storage_decode(uint64_t owner, const void *stored, size_t length, remat_blob *ret_blob,
                            remat_error *error);

/* ---- records.c ---- */

/* Every statement that reads records begins with these columns. */
enum {
    COLUMN_SEQ,   /* insertion order; the cursor */
    COLUMN_GUARD, /* changes when the record is replaced: what was damaged is dropped only if it is
                     still this one */
    COLUMN_CHECKSUM,
    COLUMN_FIRST
};

typedef enum storage_kind {
    KIND_PROFILE,
    KIND_SCHEDULE,
    KIND_SCHEDULE_BODY,
    KIND_TABLE,
    KIND_JOB,
    KIND_MEASUREMENT
} storage_kind;

typedef struct storage_damage {
    int64_t seq, guard;
} storage_damage;

storage_damage storage_damage_of(sqlite3_stmt *row);
/* Drops a damaged record, telling the log. A failure to do so is told there too. */
void storage_drop(remat_store *store, storage_kind kind, storage_damage damage, const char *id,
                  const char *why);

/* Copies of a column. */
remat_status storage_take_text(sqlite3_stmt *row, int column, char **ret_text, remat_error *error);
remat_status storage_take_blob(sqlite3_stmt *row, int column, uint64_t owner, remat_blob *ret_blob,
                               remat_error *error);
/* The blob of that number in table blobs. */
remat_status storage_load_blob(storage_connection *connection, int64_t id, uint64_t owner,
                               remat_blob *ret_blob, remat_error *error);
/* Stores an encoded blob there. */
remat_status storage_save_blob(storage_connection *connection, const remat_blob *stored,
                               int64_t *ret_id, remat_error *error);

/* Reads the record out of a row; REMAT_CORRUPT when it is damaged. *item is cleared on failure. */
typedef remat_status storage_read_item(sqlite3_stmt *row, void *item, remat_error *error);

typedef struct storage_list {
    storage_kind kind;
    storage_statement statement; /* ?1 cursor, ?2 limit, ?3 and ?4 the filters */
    char letter;                 /* marks the cursors of this list */
    bool oldest_first;
    const char *filters[2];
    size_t item_size;
    storage_read_item *read;
    void (*clear)(void *item);
} storage_list;

remat_status storage_list_page(remat_store *store, const storage_list *list, remat_page page,
                               void **ret_items, size_t *ret_length, char **ret_next,
                               remat_error *error);

/* Verify every record of their kind; ret_damaged counts, error describes the first. */
typedef remat_status storage_verify(storage_connection *connection, uint64_t *damaged,
                                    remat_error *error);
remat_status storage_verify_rows(storage_connection *connection, storage_statement statement,
                                 const char *what,
                                 remat_status (*verify)(storage_connection *connection,
                                                        sqlite3_stmt *row, remat_error *error),
                                 uint64_t *damaged, remat_error *error);
storage_verify storage_verify_profiles, storage_verify_schedules, storage_verify_tables,
    storage_verify_jobs, storage_verify_measurements;

#endif
