/* What an engine offers to the rest of storage: connections, statements, rows, transactions. The
 * records, their checksums, pages and damage are the same for all of them, and know only this. */
#ifndef REMAT_STORAGE_BACKEND_H
#define REMAT_STORAGE_BACKEND_H

#include "statements.h"
#include "storage.h"

#include <stdarg.h>

typedef enum storage_statement {
#define X(name, sql) SQL_##name,
    STORAGE_STATEMENTS(X)
#undef X
        SQL_COUNT
} storage_statement;

typedef struct storage_backend storage_backend;
typedef struct storage_touches storage_touches;

/* Used by one thread at a time. First member of each engine's own. */
typedef struct storage_connection {
    const storage_backend *backend;
    const remat_store *store;
    struct storage_connection *next; /* in the pool */
} storage_connection;

/* Rows under way, from storage_query to storage_done. */
typedef struct storage_rows {
    storage_connection *connection;
    void *result; /* the engine's */
    int row;
} storage_rows;

/* First member of each engine's own. */
struct remat_store {
    const storage_backend *backend;
    char *name;     /* for messages: an absolute path, or a URL without its password */
    char owner[33]; /* who holds the leases and jobs of this process: random, in hex */
    remat_store_options options;
};

/* What a write does, inside a transaction. It may be run again after it succeeded, when the
 * transaction around it was lost. */
typedef remat_status storage_write_run(storage_connection *connection, void *argument,
                                       remat_error *error);

struct storage_backend {
    bool shared; /* other processes may write to the same store */

    /* For people: an absolute path, or the URL without its password. */
    remat_status (*name)(const char *place, char **ret_name, remat_error *error);
    remat_status (*open)(const char *place, const remat_store_options *options,
                         remat_store **ret_store, remat_error *error);
    void (*close)(remat_store *store);

    /* A connection out of the pool, inside a transaction that sees one state of the store. */
    remat_status (*read_begin)(remat_store *store, storage_connection **ret_connection,
                               remat_error *error);
    void (*read_end)(remat_store *store, storage_connection *connection);
    /* Returns when the write is durable or has failed. */
    remat_status (*submit)(remat_store *store, storage_write_run *run, void *argument,
                           remat_error *error);
    /* Marks of use (touches.c), to be written within about a second. */
    void (*touch)(remat_store *store, const char *const texts[4]);
    /* Within a write: tells every process of the store once it is committed. */
    remat_status (*notify)(storage_connection *connection, remat_store_event event,
                           const char *name, remat_error *error);

    /* Statements: storage_query and so on (private.h) come here. */
    remat_status (*query)(storage_connection *connection, storage_statement statement,
                          storage_rows *rows, remat_error *error, const char *types,
                          va_list values);
    remat_status (*step)(storage_rows *rows, bool *ret_row, remat_error *error);
    void (*done)(storage_rows *rows);
    /* Rows that the last statement of the connection changed. */
    uint64_t (*changes)(storage_connection *connection);

    /* A column of the row that the last step found. Text and bytes live until the next step. */
    bool (*is_null)(const storage_rows *rows, int column);
    int64_t (*integer)(const storage_rows *rows, int column); /* 0 for NULL */
    double (*real)(const storage_rows *rows, int column);
    const char *(*text)(const storage_rows *rows, int column); /* NULL for NULL */
    /* *ret_bytes is NULL for NULL or when there is none. */
    remat_status (*bytes)(const storage_rows *rows, int column, const void **ret_bytes,
                          size_t *ret_length, remat_error *error);

    /* Of shared stores only. */
    remat_status (*take_lease)(remat_store *store, const char *name, bool *ret_taken,
                               remat_error *error);
    remat_status (*release_lease)(remat_store *store, const char *name, remat_error *error);

    /* Within read_begin .. read_end: bytes on disk. */
    remat_status (*size)(storage_connection *connection, uint64_t *ret_bytes, remat_error *error);
    /* Of stores on a disk only: gives up what they hold of it for when it is full. */
    void (*make_room)(remat_store *store);
    /* The same: whether it takes some megabytes more. */
    remat_status (*probe_room)(remat_store *store, remat_error *error);
    int (*schema_version)(void);
    /* A connection for a check, which ends with check_end; counts what the engine itself finds
     * damaged, error describing the first. */
    remat_status (*check_begin)(remat_store *store, storage_connection **ret_connection,
                                uint64_t *damaged, remat_error *error);
    void (*check_end)(remat_store *store, storage_connection *connection);
    remat_status (*backup)(remat_store *store, const char *path, remat_error *error);
};

extern const storage_backend storage_sqlite;
extern const storage_backend storage_postgres; /* where the build has it */

#endif
