/* Opening and closing, the pool of connections, transactions.
 *
 * Every write is one transaction at REPEATABLE READ, so what it reads before it writes holds until
 * it commits; when another process was faster the server refuses it, and it runs again and sees
 * what that one wrote. */
#include "postgres.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define BEGIN_READ "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
#define BEGIN_WRITE "BEGIN ISOLATION LEVEL REPEATABLE READ"
#define BEGIN_CHORE "BEGIN; SET LOCAL synchronous_commit = off"

/* Milliseconds between attempts to connect. */
enum { BACKOFF_FIRST = 100, BACKOFF_MAX = 2000 };
/* How often a write that met others runs again: after 1, 2, 4, .. milliseconds at most. */
enum { ATTEMPTS = 10 };

/* ---- the pool ---- */

/* While the server is away most callers are told at once what the last attempt to connect met. */
static remat_status connect_new(postgres_store *store, postgres_connection **ret_connection,
                                remat_error *error)
{
    remat_error why = {0};
    pthread_mutex_lock(&store->pool.lock);
    bool down = postgres_clock() < store->down_until;
    if (down)
        why = store->down;
    pthread_mutex_unlock(&store->pool.lock);
    if (down)
        return remat_fail(error, why.status, NULL, "%s", why.message);
    remat_status status = postgres_connect(&store->base, store->url, ret_connection, &why);
    pthread_mutex_lock(&store->pool.lock);
    if (status == REMAT_OK) {
        store->backoff = 0;
        store->down_until = 0;
    } else {
        int twice = store->backoff ? 2 * store->backoff : BACKOFF_FIRST;
        store->backoff = twice < BACKOFF_MAX ? twice : BACKOFF_MAX;
        store->down_until = postgres_clock() + store->backoff;
        store->down = why;
    }
    pthread_mutex_unlock(&store->pool.lock);
    return status == REMAT_OK ? REMAT_OK : remat_fail(error, status, NULL, "%s", why.message);
}

static void give_back(postgres_store *store, postgres_connection *connection)
{
    bool broken = connection->broken;
    storage_pool_give(&store->pool, broken ? NULL : &connection->base);
    if (broken)
        postgres_disconnect(connection);
}

static remat_status take(postgres_store *store, postgres_connection **ret_connection,
                         bool *ret_fresh, remat_error *error)
{
    storage_connection *idle = storage_pool_take(&store->pool, store->base.options.connections);
    *ret_fresh = !idle;
    *ret_connection = (postgres_connection *)idle;
    remat_status status = idle ? REMAT_OK : connect_new(store, ret_connection, error);
    if (status != REMAT_OK)
        storage_pool_give(&store->pool, NULL);
    return status;
}

/* A connection in a transaction. One that broke while it was idle, as all do when the server starts
 * again, is replaced without a word. */
static remat_status begin(postgres_store *store, const char *sql, const char *act,
                          postgres_connection **ret_connection, remat_error *error)
{
    for (;;) {
        postgres_connection *connection;
        bool fresh;
        remat_status status = take(store, &connection, &fresh, error);
        if (status != REMAT_OK)
            return status;
        status = postgres_exec(connection, sql, act, error);
        if (status == REMAT_OK) {
            *ret_connection = connection;
            return REMAT_OK;
        }
        bool again = connection->broken && !fresh;
        connection->broken = true; /* whatever it has begun */
        give_back(store, connection);
        if (!again)
            return status;
    }
}

/* ---- transactions ---- */

static remat_status read_begin(remat_store *store, storage_connection **ret_connection,
                               remat_error *error)
{
    postgres_connection *connection;
    remat_status status = begin((postgres_store *)store, BEGIN_READ, "read", &connection, error);
    if (status == REMAT_OK)
        *ret_connection = &connection->base;
    return status;
}

static void read_end(remat_store *store, storage_connection *ended)
{
    postgres_connection *connection = (postgres_connection *)ended;
    if (!connection->broken && postgres_exec(connection, "COMMIT", "read", NULL) != REMAT_OK)
        connection->broken = true;
    give_back((postgres_store *)store, connection);
}

static remat_status finish(postgres_connection *connection, storage_write_run *run, void *argument,
                           remat_error *error)
{
    connection->state[0] = '\0';
    remat_status status = run(&connection->base, argument, error);
    if (status == REMAT_OK && PQtransactionStatus(connection->db) != PQTRANS_INTRANS)
        status =
            remat_fail(error, REMAT_INTERNAL, NULL, "cannot write to %s: the transaction broke",
                       connection->base.store->name);
    if (status == REMAT_OK)
        status = postgres_exec(connection, "COMMIT", "write to", error);
    if (status != REMAT_OK && !connection->broken &&
        postgres_exec(connection, "ROLLBACK", "write to", NULL) != REMAT_OK)
        connection->broken = true;
    return status;
}

remat_status postgres_chore(postgres_connection *connection, storage_write_run *run, void *argument,
                            remat_error *error)
{
    remat_status status = postgres_exec(connection, BEGIN_CHORE, "write to", error);
    return status != REMAT_OK ? status : finish(connection, run, argument, error);
}

static void pause_before(int attempt)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t most = UINT64_C(1000) << attempt; /* microseconds */
    usleep((useconds_t)(storage_hash(&now, sizeof now, 0) % most));
}

static remat_status submit(remat_store *base, storage_write_run *run, void *argument,
                           remat_error *error)
{
    postgres_store *store = (postgres_store *)base;
    for (int attempt = 0;; attempt++) {
        postgres_connection *connection;
        remat_status status = begin(store, BEGIN_WRITE, "write to", &connection, error);
        if (status != REMAT_OK)
            return status;
        status = finish(connection, run, argument, error);
        bool again = status != REMAT_OK && postgres_conflicted(connection);
        give_back(store, connection);
        if (!again || attempt == ATTEMPTS)
            return status;
        pause_before(attempt);
    }
}

/* ---- open and close ---- */

/* One connection migrates, joins and then listens. */
static remat_status join(postgres_store *store, remat_error *error)
{
    postgres_connection *connection;
    bool read_only = store->base.options.read_only;
    remat_status status = postgres_connect(&store->base, store->url, &connection, error);
    if (status != REMAT_OK)
        return status;
    status = postgres_migrate(connection, read_only, error);
    if (status == REMAT_OK && !read_only)
        status = postgres_beat(connection, error);
    if (status != REMAT_OK || read_only) {
        postgres_disconnect(connection);
        return status;
    }
    return postgres_listen(store, connection, error);
}

static void close_store(remat_store *base)
{
    postgres_store *store = (postgres_store *)base;
    postgres_stop_listening(store);
    while (store->pool.idle)
        postgres_disconnect((postgres_connection *)storage_pool_take(&store->pool, 0));
    if (store->wake >= 0)
        close(store->wake);
    pthread_mutex_destroy(&store->touches_lock);
    storage_pool_clear(&store->pool);
    free(store->url);
    free(store->base.name);
    free(store);
}

static remat_status open_new(const char *url, const remat_store_options *options,
                             remat_store **ret_store, remat_error *error)
{
    postgres_store *store = calloc(1, sizeof *store);
    if (!store)
        return remat_fail_memory(error);
    storage_pool_init(&store->pool);
    pthread_mutex_init(&store->touches_lock, NULL);
    store->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    remat_status status = storage_init(&store->base, &storage_postgres, url, options, error);
    if (status == REMAT_OK && (store->wake < 0 || !(store->url = strdup(url))))
        status = remat_fail_memory(error);
    if (status == REMAT_OK)
        status = join(store, error);
    if (status != REMAT_OK)
        close_store(&store->base);
    else
        *ret_store = &store->base;
    return status;
}

/* ---- care ---- */

static remat_status size(storage_connection *connection, uint64_t *ret_bytes, remat_error *error)
{
    int64_t bytes;
    remat_status status =
        storage_numbers(connection, (storage_statement)POSTGRES_SIZE, 1, &bytes, error, "");
    if (status == REMAT_OK)
        *ret_bytes = (uint64_t)bytes;
    return status;
}

/* The server watches over its own pages (data checksums, amcheck). */
static remat_status check_begin(remat_store *store, storage_connection **ret_connection,
                                uint64_t *damaged, remat_error *error)
{
    return read_begin(store, ret_connection, error);
}

static remat_status backup(remat_store *store, const char *path, remat_error *error)
{
    return remat_fail(error, REMAT_INVALID, NULL,
                      "a store on PostgreSQL is copied by its own tool: "
                      "pg_dump --format=custom --schema=remat --file='%s' '%s'",
                      path, store->name);
}

static int schema_version(void)
{
    return postgres_version;
}

const storage_backend storage_postgres = {
    .shared = true,
    .name = postgres_name,
    .open = open_new,
    .close = close_store,
    .read_begin = read_begin,
    .read_end = read_end,
    .submit = submit,
    .touch = postgres_touch,
    .notify = postgres_notify,
    .query = postgres_query,
    .step = postgres_step,
    .done = postgres_done,
    .changes = postgres_changes,
    .is_null = postgres_is_null,
    .integer = postgres_integer,
    .real = postgres_real,
    .text = postgres_text,
    .bytes = postgres_bytes,
    .take_lease = postgres_take_lease,
    .release_lease = postgres_release_lease,
    .size = size,
    .schema_version = schema_version,
    .check_begin = check_begin,
    .check_end = read_end,
    .backup = backup,
};
