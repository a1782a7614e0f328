/* What the files of this room share. Nothing outside storage/ and its tests includes it.
 *
 *   store.c         open and close; which engine a place is for
 *   backend.h       what an engine offers: SQLite (sqlite/), PostgreSQL (postgres/)
 *   statements.h    every SQL statement of the records, in both dialects
 *   pool.c          connections that take turns
 *   codec.c         compression and checksums
 *   touches.c       marks of use on their way to the store
 *   records.c       what the kinds of record share: reading a row, pages, damage
 *   profiles.c schedules.c tables.c jobs.c measurements.c leases.c
 *   care.c          statistics, ping, check, backup, pruning */
#ifndef REMAT_STORAGE_PRIVATE_H
#define REMAT_STORAGE_PRIVATE_H

#include "backend.h"

#include <pthread.h>

/* ---- store.c ---- */

/* For an engine's open: fills in a new store. Its close frees the name, also after a failure. */
remat_status storage_init(remat_store *store, const storage_backend *backend, const char *place,
                          const remat_store_options *options, remat_error *error);
/* Returns when the write is durable or has failed. */
remat_status storage_submit(remat_store *store, storage_write_run *run, void *argument,
                            remat_error *error);

__attribute__((format(printf, 2, 3))) void storage_log(const remat_store *store, const char *format,
                                                       ...);

/* ---- statements, on any engine: records.c ---- */

/* Prepares (once) and binds. types has a letter for each parameter, in order: t const char *,
 * i int64_t, n int64_t with 0 for NULL, r double, b const remat_blob *. A statement is always used
 * with the same types. What is bound must outlive the statement's use, which ends with
 * storage_done; on failure there is nothing to end. */
remat_status storage_query(storage_connection *connection, storage_statement statement,
                           storage_rows *rows, remat_error *error, const char *types, ...);
/* A statement that answers no rows, from start to end. */
remat_status storage_run(storage_connection *connection, storage_statement statement,
                         remat_error *error, const char *types, ...);
/* The first numbers of the first row; 0 for NULL, and when there is no row. */
remat_status storage_numbers(storage_connection *connection, storage_statement statement, int count,
                             int64_t numbers[], remat_error *error, const char *types, ...);

static inline remat_status storage_step(storage_rows *rows, bool *ret_row, remat_error *error)
{
    return rows->connection->backend->step(rows, ret_row, error);
}

static inline void storage_done(storage_rows *rows)
{
    rows->connection->backend->done(rows);
}

static inline bool storage_is_null(const storage_rows *rows, int column)
{
    return rows->connection->backend->is_null(rows, column);
}

static inline int64_t storage_integer(const storage_rows *rows, int column)
{
    return rows->connection->backend->integer(rows, column);
}

static inline double storage_real(const storage_rows *rows, int column)
{
    return rows->connection->backend->real(rows, column);
}

static inline const char *storage_text(const storage_rows *rows, int column)
{
    return rows->connection->backend->text(rows, column);
}

/* ---- pool.c ---- */

typedef struct storage_pool {
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t free;
    storage_connection *idle;
    unsigned connections; /* idle or taken */
} storage_pool;

void storage_pool_init(storage_pool *pool);
/* Of a pool that is empty. */
void storage_pool_clear(storage_pool *pool);
/* An idle connection, or NULL while there are fewer than most: the caller opens one. Else the next
 * that comes free. */
storage_connection *storage_pool_take(storage_pool *pool, unsigned most);
/* Back into the pool; NULL: one that was taken is no more. */
void storage_pool_give(storage_pool *pool, storage_connection *connection);

/* ---- touches.c ---- */

/* Adds a mark now; profile, schedule, solver and options, NULL where there is none. True when it is
 * the first of *touches, which is made when NULL. Without memory or room it is lost. */
bool storage_touches_add(storage_touches **touches, const char *const texts[4]);
void storage_touches_free(storage_touches *touches); /* accepts NULL */
/* A storage_write_run of storage_touches. */
remat_status storage_touches_run(storage_connection *connection, void *touches, remat_error *error);

/* ---- codec.c ---- */

/* XXH64. Chained over several fields by giving the hash of one as the seed of the next. */
uint64_t storage_hash(const void *data, size_t length, uint64_t seed);
/* Over values; types as in storage_query, without b. */
uint64_t storage_checksum(const char *types, ...);
/* Over the columns of a row from `first` on: equal to storage_checksum of the same values. */
uint64_t storage_row_checksum(const storage_rows *rows, int first, const char *types);

/* A blob as it is stored. owner says whose it is, so that one that got under another record is
 * known as damaged. The caller frees ret_stored->data / ret_blob->data. */
remat_status storage_encode(uint64_t owner, const remat_blob *blob, remat_blob *ret_stored,
                            remat_error *error);
/* Of the blob of that sort of a record. */
uint64_t storage_owner(const char *sort, const char *id);
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

/* REMAT_CORRUPT unless the row's checksum is that of its columns from COLUMN_FIRST on. */
remat_status storage_check_row(const storage_rows *rows, const char *types, remat_error *error);

storage_damage storage_damage_of(const storage_rows *rows);

/* Copies of a column. */
typedef struct storage_text_column {
    int column;
    char **ret_text;
} storage_text_column;
remat_status storage_take_texts(const storage_rows *rows, const storage_text_column *columns,
                                size_t n, remat_error *error);
remat_status storage_take_blob(const storage_rows *rows, int column, uint64_t owner,
                               remat_blob *ret_blob, remat_error *error);
/* The blob of that number in table blobs. */
remat_status storage_load_blob(storage_connection *connection, int64_t id, uint64_t owner,
                               remat_blob *ret_blob, remat_error *error);
/* Stores an encoded blob there. */
remat_status storage_save_blob(storage_connection *connection, const remat_blob *stored,
                               int64_t *ret_id, remat_error *error);

/* Reads a row. REMAT_CORRUPT when it is damaged; *item is cleared on failure. */
typedef remat_status storage_read(const storage_rows *rows, void *item, remat_error *error);

/* One record, by a statement with one key or three. */
typedef struct storage_key {
    storage_kind kind; /* of what is damaged, when it is: read may say it closer */
    storage_statement statement;
    const char *texts[3];
} storage_key;

/* Reads it. REMAT_NOT_FOUND: there is none; a damaged one is dropped. */
remat_status storage_get(remat_store *store, storage_key *key, storage_read *read, void *item,
                         remat_error *error);
/* The same within a write; a damaged one stays. */
remat_status storage_find(storage_connection *connection, const storage_key *key,
                          storage_read *read, void *item, storage_damage *ret_damage,
                          remat_error *error);

/* How the records of a kind are read and let go. */
typedef struct storage_items {
    size_t size;
    storage_read *read;
    void (*clear)(void *item);
} storage_items;

typedef struct storage_list {
    const storage_items *items;
    storage_kind kind;
    storage_statement statement; /* ?1 cursor, ?2 limit, then the filters */
    char letter;                 /* marks the cursors of this list */
    bool oldest_first;
    const char *filters[2]; /* those that the statement has, from the front */
} storage_list;

/* What every list of storage.h is. */
typedef struct storage_page {
    void *items;
    size_t length;
    char *next;
} storage_page;

remat_status storage_list_page(remat_store *store, const storage_list *list, remat_page page,
                               storage_page *ret_page, remat_error *error);
void storage_page_clear(storage_page page, const storage_items *items);

/* What reads every record of a kind, with all that belongs to it. */
typedef struct storage_check {
    storage_statement statement; /* ?1 cursor, ?2 limit */
    const char *what;
    storage_items items;
} storage_check;

/* *damaged counts, error describes the first. */
remat_status storage_check_rows(storage_connection *connection, const storage_check *check,
                                uint64_t *damaged, remat_error *error);
extern const storage_check storage_check_profiles, storage_check_schedules, storage_check_tables,
    storage_check_jobs, storage_check_measurements;

#endif
