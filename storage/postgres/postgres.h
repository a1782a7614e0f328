/* PostgreSQL behind the store: any number of processes, each with a pool of connections and one
 * thread that listens.
 *
 *   store.c       open, close, the pool, transactions
 *   connection.c  one connection: its URL, its timeouts, waiting, failures in our words
 *   statements.c  statements, their values and rows
 *   schema.c      migrations
 *   leases.c      who is alive, leases
 *   listener.c    the thread: notifications, heartbeat, marks of use */
#ifndef REMAT_STORAGE_POSTGRES_H
#define REMAT_STORAGE_POSTGRES_H

#include "private.h"

#include <libpq-fe.h>
#include <pthread.h>

/* Milliseconds since 1970 by the database's clock. */
#define POSTGRES_NOW "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"

/* Those that only this engine has; the statements of the records come first. */
#define POSTGRES_STATEMENTS(X)                                                                     \
    X(NOTIFY, "SELECT pg_notify('remat', ?1)")                                                     \
    X(SIZE, "SELECT CAST(coalesce(sum(pg_total_relation_size(c.oid)), 0) AS BIGINT) "              \
            "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "                       \
            "WHERE n.nspname = 'remat' AND c.relkind = 'r'")                                       \
    X(BEAT, "INSERT INTO replicas (id, expires) VALUES (?1, " POSTGRES_NOW " + ?2) "               \
            "ON CONFLICT (id) DO UPDATE SET expires = excluded.expires")                           \
    X(LEAVE, "DELETE FROM replicas WHERE id = ?1")                                                 \
    X(FORGET_REPLICAS, "DELETE FROM replicas WHERE expires < " POSTGRES_NOW " - 3600000")          \
    X(FORGET_LEASES, "DELETE FROM leases l "                                                       \
                     "WHERE NOT EXISTS (SELECT 1 FROM replicas r WHERE r.id = l.owner)")           \
    X(TAKE_LEASE,                                                                                  \
      "INSERT INTO leases AS l (name, owner) VALUES (?1, ?2) "                                     \
      "ON CONFLICT (name) DO UPDATE SET owner = ?2 WHERE l.owner = ?2 OR NOT EXISTS "              \
      "(SELECT 1 FROM replicas r WHERE r.id = l.owner AND r.expires > " POSTGRES_NOW ") "          \
      "RETURNING CAST(1 AS BIGINT)")                                                               \
    X(RELEASE_LEASE, "DELETE FROM leases WHERE name = ?1 AND owner = ?2")                          \
    X(CANCELLING, "SELECT id FROM jobs WHERE ended = 0 AND cancelling <> 0 AND owner = ?1")

enum {
    POSTGRES_FIRST = SQL_COUNT - 1,
#define X(name, sql) POSTGRES_##name,
    POSTGRES_STATEMENTS(X)
#undef X
        POSTGRES_STATEMENT_COUNT
};

typedef struct postgres_connection {
    storage_connection base;
    PGconn *db;
    bool prepared[POSTGRES_STATEMENT_COUNT];
    uint64_t changes;
    int patience;  /* milliseconds without a byte before the server counts as gone */
    bool broken;   /* good for nothing but to be closed */
    char state[6]; /* SQLSTATE of the last failure; "" if it had none */
} postgres_connection;

typedef struct postgres_store {
    remat_store base;
    char *url;

    storage_pool pool;  /* its lock is also of everything down to the blank line */
    int64_t down_until; /* milliseconds (monotonic); connecting failed, and is not tried before */
    int backoff;        /* milliseconds, 0 while it goes well */
    remat_error down;   /* why */

    postgres_connection *listening; /* the listener's; NULL while it is lost */
    pthread_t thread;
    bool thread_runs;
    int wake;                     /* eventfd */
    pthread_mutex_t touches_lock; /* of the two below */
    storage_touches *touches;
    bool stopping;

    int64_t beat_due; /* the thread's */
    bool lost_told;
} postgres_store;

int64_t postgres_clock(void); /* milliseconds, monotonic */

/* ---- connection.c ---- */

remat_status postgres_name(const char *url, char **ret_name, remat_error *error);
remat_status postgres_connect(const remat_store *store, const char *url,
                              postgres_connection **ret_connection, remat_error *error);
void postgres_disconnect(postgres_connection *connection); /* accepts NULL */

/* What was sent is answered: the result, or what failed in words "cannot <act> <store>: <why>". The
 * caller clears *ret_result. */
remat_status postgres_receive(postgres_connection *connection, const char *act,
                              PGresult **ret_result, remat_error *error);
/* Statements without values or rows. */
remat_status postgres_exec(postgres_connection *connection, const char *sql, const char *act,
                           remat_error *error);
/* The first column of the only row as a number; *ret_number is untouched when there is no row. */
remat_status postgres_number(postgres_connection *connection, const char *sql, int64_t *ret_number,
                             remat_error *error);
/* Whether the transaction that failed would go well in another moment. */
bool postgres_conflicted(const postgres_connection *connection);

/* ---- statements.c: those of the backend ---- */

remat_status postgres_query(storage_connection *connection, storage_statement statement,
                            storage_rows *rows, remat_error *error, const char *types,
                            va_list values);
remat_status postgres_step(storage_rows *rows, bool *ret_row, remat_error *error);
void postgres_done(storage_rows *rows);
uint64_t postgres_changes(storage_connection *connection);
bool postgres_is_null(const storage_rows *rows, int column);
int64_t postgres_integer(const storage_rows *rows, int column);
double postgres_real(const storage_rows *rows, int column);
const char *postgres_text(const storage_rows *rows, int column);
remat_status postgres_bytes(const storage_rows *rows, int column, const void **ret_bytes,
                            size_t *ret_length, remat_error *error);

/* storage_run of a statement of this engine. */
#define postgres_run(connection, statement, ...)                                                   \
    storage_run(connection, (storage_statement)(statement), __VA_ARGS__)

/* ---- schema.c ---- */

extern const int postgres_version;

/* Brings the schema of the database up to date; with read_only it has to be. */
remat_status postgres_migrate(postgres_connection *connection, bool read_only, remat_error *error);

/* ---- store.c ---- */

/* A transaction for marks and signs of life: it meets others without failing, and its last moments
 * may be lost with the server. */
remat_status postgres_chore(postgres_connection *connection, storage_write_run *run, void *argument,
                            remat_error *error);

/* ---- leases.c ---- */

remat_status postgres_take_lease(remat_store *store, const char *name, bool *ret_taken,
                                 remat_error *error);
remat_status postgres_release_lease(remat_store *store, const char *name, remat_error *error);
/* Says that this process lives, for another lease_seconds. */
remat_status postgres_beat(postgres_connection *connection, remat_error *error);
/* This process holds nothing any more. */
remat_status postgres_leave(postgres_connection *connection, remat_error *error);
/* Hands on what a notification says. */
void postgres_tell(const remat_store *store, const char *text);
/* Tells of this process's jobs that are to be cancelled. */
remat_status postgres_tell_cancelled(postgres_connection *connection, remat_error *error);
remat_status postgres_notify(storage_connection *connection, remat_store_event event,
                             const char *name, remat_error *error);

/* ---- listener.c ---- */

/* Takes the connection over, which has been heard of by postgres_beat. */
remat_status postgres_listen(postgres_store *store, postgres_connection *connection,
                             remat_error *error);
void postgres_stop_listening(postgres_store *store);
void postgres_touch(remat_store *store, const char *const texts[4]);

#endif
