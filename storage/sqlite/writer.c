/* The writer thread: every write of a store in order, as many as wait in one transaction, so that
 * 32 writers pay for little more than one flush of the disk. Marks of use are kept in a table, one
 * per record, and join the next transaction, or make one of their own after a second. */
#include "sqlite.h"

#include <stdlib.h>
#include <string.h>

#define BATCH_MAX 256
/* Pages of 4096 bytes in the log: when to move them to the database; from when on to wait for
 * readers, so that the log can start over. Without that, readers that overlap let it grow for ever.
 */
#define CHECKPOINT_PAGES 1000
#define RESTART_PAGES 16000
#define RETRY_PAGES 2000
#define RESTART_MILLISECONDS 100
#define TOUCH_SECONDS 1

struct sqlite_write {
    sqlite_write *next;
    storage_write_run *run;
    void *argument;
    remat_status status;
    remat_error error;
    bool done;
    pthread_cond_t settled;
};

/* ---- marks of use ---- */

void sqlite_touch(remat_store *base, const char *const texts[4])
{
    sqlite_store *store = (sqlite_store *)base;
    pthread_mutex_lock(&store->queue_lock);
    if (storage_touches_add(&store->touches, texts)) {
        clock_gettime(CLOCK_MONOTONIC, &store->touches_due);
        store->touches_due.tv_sec += TOUCH_SECONDS;
        pthread_cond_signal(&store->queue_filled);
    }
    pthread_mutex_unlock(&store->queue_lock);
}

/* ---- transactions ---- */

/* One write inside the transaction of its batch; what it did is undone if it fails. False when
 * SQLite gave up the whole transaction, as it does when the disk is full. */
static bool run_one(sqlite_connection *connection, sqlite_write *write)
{
    remat_error *error = &write->error;
    write->status = sqlite_run(connection, SQLITE_SAVEPOINT_ONE, error);
    if (write->status != REMAT_OK)
        return !sqlite3_get_autocommit(connection->db);
    write->status = write->run(&connection->base, write->argument, error);
    if (sqlite3_get_autocommit(connection->db))
        return false;
    if (write->status != REMAT_OK) /* keeps its own reason, whatever else fails */
        return sqlite_run(connection, SQLITE_ROLLBACK_TO, NULL) == REMAT_OK &&
               sqlite_run(connection, SQLITE_RELEASE, NULL) == REMAT_OK;
    write->status = sqlite_run(connection, SQLITE_RELEASE, error);
    return write->status == REMAT_OK;
}

static void fail_all(sqlite_write *batch, const sqlite_write *end, remat_status status,
                     const remat_error *error)
{
    for (sqlite_write *write = batch; write != end; write = write->next) {
        if (write->status != REMAT_OK)
            continue; /* it has a reason of its own */
        write->status = status;
        write->error = *error;
    }
}

static void roll_back(sqlite_connection *connection)
{
    if (!sqlite3_get_autocommit(connection->db))
        sqlite_run(connection, SQLITE_ROLLBACK_ALL, NULL);
}

/* The writes from batch up to end in one transaction. False when the transaction failed, not (only)
 * a write of it: then none is stored, and each says why. */
static bool commit(sqlite_connection *connection, sqlite_write *batch, const sqlite_write *end)
{
    remat_error error = {0};
    for (sqlite_write *write = batch; write != end; write = write->next)
        write->status = REMAT_OK;
    roll_back(connection); /* what could not be for want of memory the last time */
    remat_status status = sqlite_run(connection, SQLITE_BEGIN_WRITE, &error);
    if (status != REMAT_OK) {
        fail_all(batch, end, status, &error);
        return true; /* the lock, the disk: each alone would fare no better */
    }
    for (sqlite_write *write = batch; write != end; write = write->next) {
        if (run_one(connection, write))
            continue;
        status = write->status;
        error = write->error;
        if (status == REMAT_OK)
            status = remat_fail(&error, REMAT_IO, NULL, "cannot write to %s: the transaction broke",
                                connection->path);
        roll_back(connection);
        fail_all(batch, end, status, &error);
        return false;
    }
    status = sqlite_run(connection, SQLITE_COMMIT, &error);
    if (status == REMAT_OK)
        return true;
    roll_back(connection);
    fail_all(batch, end, status, &error);
    return false;
}

/* One write that does not fit on the disk must not fail those it happened to meet in a transaction.
 */
static void commit_batch(sqlite_connection *connection, sqlite_write *batch)
{
    if (commit(connection, batch, NULL) || !batch->next)
        return;
    for (sqlite_write *write = batch; write; write = write->next)
        commit(connection, write, write->next);
}

/* ---- the log ---- */

static int committed(void *data, sqlite3 *db, const char *name, int pages)
{
    sqlite_store *store = data;
    store->wal_pages = pages;
    return SQLITE_OK;
}

/* Between two batches, not inside a commit as SQLite would: nobody waits for it then. */
static void checkpoint(sqlite_store *store)
{
    sqlite_connection *writer = store->writer;
    if (store->wal_pages < CHECKPOINT_PAGES)
        return;
    bool restart = store->wal_pages >= store->restart_at;
    if (restart)
        sqlite3_busy_timeout(writer->db, RESTART_MILLISECONDS);
    int code = sqlite3_wal_checkpoint_v2(
        writer->db, NULL, restart ? SQLITE_CHECKPOINT_RESTART : SQLITE_CHECKPOINT_PASSIVE, NULL,
        NULL);
    if (restart) {
        sqlite3_busy_timeout(writer->db, SQLITE_BUSY_MILLISECONDS);
        /* A reader stays long (a backup, or a processor that is elsewhere): try again soon, but
         * not after every write, which would cost each of them the wait. */
        store->restart_at = code == SQLITE_BUSY ? store->wal_pages + RETRY_PAGES : RESTART_PAGES;
    }
    bool failed = code != SQLITE_OK && code != SQLITE_BUSY;
    if (failed && !store->checkpoint_failed) {
        remat_error error;
        sqlite_fail(writer, &error, "move the log into");
        storage_log(&store->base, "%s; nothing is lost, the log grows until it succeeds",
                    error.message);
    } else if (!failed && store->checkpoint_failed) {
        storage_log(&store->base, "the log of %s is moved again", store->base.name);
    }
    store->checkpoint_failed = failed;
}

/* ---- the thread ---- */

static bool is_due(const struct timespec *due)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > due->tv_sec || (now.tv_sec == due->tv_sec && now.tv_nsec >= due->tv_nsec);
}

/* Waits, with the lock held, for something to write. False: there is nothing, and the store closes.
 */
static bool wait_for_work(sqlite_store *store)
{
    for (;;) {
        if (store->first || (store->touches && (store->stopping || is_due(&store->touches_due))))
            return true;
        if (store->stopping)
            return false;
        if (store->touches)
            pthread_cond_timedwait(&store->queue_filled, &store->queue_lock, &store->touches_due);
        else
            pthread_cond_wait(&store->queue_filled, &store->queue_lock);
    }
}

/* Up to BATCH_MAX writes off the queue, as a list of their own. */
static sqlite_write *take_batch(sqlite_store *store)
{
    sqlite_write *batch = store->first, **end = &store->first;
    for (int i = 0; i < BATCH_MAX && *end; i++)
        end = &(*end)->next;
    store->first = *end;
    *end = NULL;
    if (!store->first)
        store->last = &store->first;
    return batch == *end ? NULL : batch;
}

/* Under the lock: a write is its caller's memory, and gone as soon as that has seen done. */
static void settle(sqlite_write *batch)
{
    while (batch) {
        sqlite_write *next = batch->next;
        batch->done = true;
        pthread_cond_signal(&batch->settled);
        batch = next;
    }
}

static void *writer_main(void *data)
{
    sqlite_store *store = data;
    pthread_mutex_lock(&store->queue_lock);
    while (wait_for_work(store)) {
        sqlite_write marks = {.run = storage_touches_run, .argument = store->touches};
        sqlite_write *batch = take_batch(store);
        storage_touches *touches = store->touches;
        store->touches = NULL;
        pthread_mutex_unlock(&store->queue_lock);

        if (touches)
            marks.next = batch;
        commit_batch(store->writer, touches ? &marks : batch);
        storage_touches_free(touches);

        pthread_mutex_lock(&store->queue_lock);
        settle(batch);
        pthread_mutex_unlock(&store->queue_lock);
        checkpoint(store);
        pthread_mutex_lock(&store->queue_lock);
    }
    pthread_mutex_unlock(&store->queue_lock);
    return NULL;
}

remat_status sqlite_submit(remat_store *base, storage_write_run *run, void *argument,
                           remat_error *error)
{
    sqlite_store *store = (sqlite_store *)base;
    sqlite_write write = {.run = run, .argument = argument};
    pthread_cond_init(&write.settled, NULL);
    pthread_mutex_lock(&store->queue_lock);
    *store->last = &write;
    store->last = &write.next;
    pthread_cond_signal(&store->queue_filled);
    while (!write.done)
        pthread_cond_wait(&write.settled, &store->queue_lock);
    pthread_mutex_unlock(&store->queue_lock);
    pthread_cond_destroy(&write.settled);
    if (write.status != REMAT_OK && error)
        *error = write.error;
    return write.status;
}

remat_status sqlite_writer_start(sqlite_store *store, remat_error *error)
{
    store->last = &store->first;
    store->restart_at = RESTART_PAGES;
    sqlite3_wal_hook(store->writer->db, committed,
                     store); /* in place of the automatic checkpoint */
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&store->queue_lock, NULL);
    pthread_cond_init(&store->queue_filled, &attributes);
    pthread_condattr_destroy(&attributes);
    int failure = pthread_create(&store->thread, NULL, writer_main, store);
    if (failure != 0) {
        pthread_cond_destroy(&store->queue_filled);
        pthread_mutex_destroy(&store->queue_lock);
        return remat_fail(error, REMAT_NO_MEMORY, NULL, "cannot start the writer thread: %s",
                          strerror(failure));
    }
    store->thread_runs = true;
    return REMAT_OK;
}

void sqlite_writer_stop(sqlite_store *store)
{
    if (!store->thread_runs)
        return;
    pthread_mutex_lock(&store->queue_lock);
    store->stopping = true;
    pthread_cond_signal(&store->queue_filled);
    pthread_mutex_unlock(&store->queue_lock);
    pthread_join(store->thread, NULL);
    store->thread_runs = false;
    storage_touches_free(store->touches);
    pthread_cond_destroy(&store->queue_filled);
    pthread_mutex_destroy(&store->queue_lock);
}
