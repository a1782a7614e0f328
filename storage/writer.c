/* The writer thread: every write of a store in order, as many as wait in one transaction, so that
 * 32 writers pay for little more than one flush of the disk. Marks of use are kept in a table, one
 * per record, and join the next transaction, or make one of their own after a second. */
#include "private.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCH_MAX 256
/* Pages of 4096 bytes in the log: when to move them to the database; from when on to wait for
 * readers, so that the log can start over. Without that, readers that overlap let it grow for ever.
 */
#define CHECKPOINT_PAGES 1000
#define RESTART_PAGES 16000
#define RESTART_MILLISECONDS 100

#define TOUCHES_MAX 1024 /* half of the slots, so that probing is short */
#define TOUCH_SLOTS 2048
#define TOUCH_SECONDS 1

struct storage_write {
    storage_write *next;
    storage_write_run *run;
    void *argument;
    remat_status status;
    remat_error error;
    bool done;
    pthread_cond_t settled;
};

typedef struct touch {
    uint64_t hash;
    int64_t when;
    const char *texts[4]; /* profile, schedule, solver, options; into memory behind this struct */
} touch;

struct storage_touches {
    touch *slots[TOUCH_SLOTS];
    size_t count;
    struct timespec due; /* of the first mark */
};

/* ---- marks of use ---- */

static void touches_free(storage_touches *touches)
{
    if (!touches)
        return;
    for (size_t i = 0; i < TOUCH_SLOTS; i++)
        free(touches->slots[i]);
    free(touches);
}

static touch *touch_new(const char *const texts[4], uint64_t hash)
{
    size_t lengths[4], total = 0;
    for (int i = 0; i < 4; i++)
        total += lengths[i] = texts[i] ? strlen(texts[i]) + 1 : 0;
    touch *mark = malloc(sizeof *mark + total);
    if (!mark)
        return NULL;
    mark->hash = hash;
    char *end = (char *)(mark + 1);
    for (int i = 0; i < 4; i++) {
        mark->texts[i] = texts[i] ? memcpy(end, texts[i], lengths[i]) : NULL;
        end += lengths[i];
    }
    return mark;
}

/* The slot of that mark, or the empty one where it belongs. Two marks of one 64-bit hash would lose
 * one of them, which is harmless. */
static touch **touch_slot(storage_touches *touches, uint64_t hash)
{
    size_t i = hash % TOUCH_SLOTS;
    while (touches->slots[i] && touches->slots[i]->hash != hash)
        i = (i + 1) % TOUCH_SLOTS;
    return &touches->slots[i];
}

/* Whether the writer has to be woken. */
static bool touch_add(remat_store *store, const char *const texts[4], uint64_t hash)
{
    if (!store->touches && !(store->touches = calloc(1, sizeof *store->touches)))
        return false;
    storage_touches *touches = store->touches;
    touch **slot = touch_slot(touches, hash);
    if (!*slot) {
        if (touches->count == TOUCHES_MAX || !(*slot = touch_new(texts, hash)))
            return false;
        touches->count++;
    }
    (*slot)->when = storage_now();
    if (touches->count > 1)
        return false;
    clock_gettime(CLOCK_MONOTONIC, &touches->due);
    touches->due.tv_sec += TOUCH_SECONDS;
    return true;
}

void remat_store_touch(remat_store *store, const char *profile_id, const char *schedule_id,
                       const char *solver, const char *options)
{
    if (!store->thread_runs || !profile_id)
        return;
    const char *const texts[4] = {profile_id, schedule_id, solver, options};
    uint64_t hash = storage_checksum("tttt", profile_id, schedule_id, solver, options);
    pthread_mutex_lock(&store->queue_lock);
    if (touch_add(store, texts, hash))
        pthread_cond_signal(&store->queue_filled);
    pthread_mutex_unlock(&store->queue_lock);
}

static remat_status run_touches(storage_connection *connection, void *argument, remat_error *error)
{
    const storage_touches *touches = argument;
    remat_status status = REMAT_OK;
    for (size_t i = 0; i < TOUCH_SLOTS && status == REMAT_OK; i++) {
        const touch *mark = touches->slots[i];
        if (!mark)
            continue;
        const char *profile = mark->texts[0], *schedule = mark->texts[1];
        const char *solver = mark->texts[2], *options = mark->texts[3];
        status = storage_run(connection, SQL_TOUCH_PROFILE, error, "ti", profile, mark->when);
        if (status == REMAT_OK && schedule)
            status = storage_run(connection, SQL_TOUCH_SCHEDULE, error, "ti", schedule, mark->when);
        if (status == REMAT_OK && solver && options)
            status = storage_run(connection, SQL_TOUCH_TABLE, error, "ttti", profile, solver,
                                 options, mark->when);
    }
    return status;
}

/* ---- transactions ---- */

/* One write inside the transaction of its batch; what it did is undone if it fails. False when
 * SQLite gave up the whole transaction, as it does when the disk is full. */
static bool run_one(storage_connection *connection, storage_write *write)
{
    remat_error *error = &write->error;
    write->status = storage_run(connection, SQL_SAVEPOINT, error, "");
    if (write->status != REMAT_OK)
        return !sqlite3_get_autocommit(connection->db);
    write->status = write->run(connection, write->argument, error);
    if (sqlite3_get_autocommit(connection->db))
        return false;
    if (write->status != REMAT_OK) /* keeps its own reason, whatever else fails */
        return storage_run(connection, SQL_ROLLBACK_TO, NULL, "") == REMAT_OK &&
               storage_run(connection, SQL_RELEASE, NULL, "") == REMAT_OK;
    write->status = storage_run(connection, SQL_RELEASE, error, "");
    return write->status == REMAT_OK;
}

static void fail_all(storage_write *batch, const storage_write *end, remat_status status,
                     const remat_error *error)
{
    for (storage_write *write = batch; write != end; write = write->next) {
        if (write->status != REMAT_OK)
            continue; /* it has a reason of its own */
        write->status = status;
        write->error = *error;
    }
}

static void roll_back(storage_connection *connection)
{
    if (!sqlite3_get_autocommit(connection->db))
        storage_run(connection, SQL_ROLLBACK, NULL, "");
}

/* The writes from batch up to end in one transaction. False when the transaction failed, not (only)
 * a write of it: then none is stored, and each says why. */
static bool commit(storage_connection *connection, storage_write *batch, const storage_write *end)
{
    remat_error error = {0};
    for (storage_write *write = batch; write != end; write = write->next)
        write->status = REMAT_OK;
    roll_back(connection); /* what could not be for want of memory the last time */
    remat_status status = storage_run(connection, SQL_BEGIN_WRITE, &error, "");
    if (status != REMAT_OK) {
        fail_all(batch, end, status, &error);
        return true; /* the lock, the disk: each alone would fare no better */
    }
    for (storage_write *write = batch; write != end; write = write->next) {
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
    status = storage_run(connection, SQL_COMMIT, &error, "");
    if (status == REMAT_OK)
        return true;
    roll_back(connection);
    fail_all(batch, end, status, &error);
    return false;
}

/* One write that does not fit on the disk must not fail those it happened to meet in a transaction.
 */
static void commit_batch(storage_connection *connection, storage_write *batch)
{
    if (commit(connection, batch, NULL) || !batch->next)
        return;
    for (storage_write *write = batch; write; write = write->next)
        commit(connection, write, write->next);
}

/* ---- the log ---- */

static int committed(void *data, sqlite3 *db, const char *name, int pages)
{
    remat_store *store = data;
    store->wal_pages = pages;
    return SQLITE_OK;
}

/* Between two batches, not inside a commit as SQLite would: nobody waits for it then. */
static void checkpoint(remat_store *store)
{
    storage_connection *writer = store->writer;
    if (store->wal_pages < CHECKPOINT_PAGES)
        return;
    bool restart = store->wal_pages >= store->restart_at;
    if (restart)
        sqlite3_busy_timeout(writer->db, RESTART_MILLISECONDS);
    int code = sqlite3_wal_checkpoint_v2(
        writer->db, NULL, restart ? SQLITE_CHECKPOINT_RESTART : SQLITE_CHECKPOINT_PASSIVE, NULL,
        NULL);
    if (restart) {
        sqlite3_busy_timeout(writer->db, STORAGE_BUSY_MILLISECONDS);
        /* A reader stays long (a backup): try again when the log has grown as much again. */
        store->restart_at = code == SQLITE_BUSY ? store->wal_pages + RESTART_PAGES : RESTART_PAGES;
    }
    bool failed = code != SQLITE_OK && code != SQLITE_BUSY;
    if (failed && !store->checkpoint_failed) {
        remat_error error;
        storage_fail(writer, &error, "move the log into");
        storage_log(store, "%s; nothing is lost, the log grows until it succeeds", error.message);
    } else if (!failed && store->checkpoint_failed) {
        storage_log(store, "the log of %s is moved again", store->path);
    }
    store->checkpoint_failed = failed;
}

/* ---- the thread ---- */

static bool is_due(const storage_touches *touches)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > touches->due.tv_sec ||
           (now.tv_sec == touches->due.tv_sec && now.tv_nsec >= touches->due.tv_nsec);
}

/* Waits, with the lock held, for something to write. False: there is nothing, and the store closes.
 */
static bool wait_for_work(remat_store *store)
{
    for (;;) {
        if (store->first || (store->touches && (store->stopping || is_due(store->touches))))
            return true;
        if (store->stopping)
            return false;
        if (store->touches)
            pthread_cond_timedwait(&store->queue_filled, &store->queue_lock, &store->touches->due);
        else
            pthread_cond_wait(&store->queue_filled, &store->queue_lock);
    }
}

/* Up to BATCH_MAX writes off the queue, as a list of their own. */
static storage_write *take_batch(remat_store *store)
{
    storage_write *batch = store->first, **end = &store->first;
    for (int i = 0; i < BATCH_MAX && *end; i++)
        end = &(*end)->next;
    store->first = *end;
    *end = NULL;
    if (!store->first)
        store->last = &store->first;
    return batch == *end ? NULL : batch;
}

/* Under the lock: a write is its caller's memory, and gone as soon as that has seen done. */
static void settle(storage_write *batch)
{
    while (batch) {
        storage_write *next = batch->next;
        batch->done = true;
        pthread_cond_signal(&batch->settled);
        batch = next;
    }
}

static void *writer_main(void *data)
{
    remat_store *store = data;
    pthread_mutex_lock(&store->queue_lock);
    while (wait_for_work(store)) {
        storage_write marks = {.run = run_touches, .argument = store->touches};
        storage_write *batch = take_batch(store);
        storage_touches *touches = store->touches;
        store->touches = NULL;
        pthread_mutex_unlock(&store->queue_lock);

        if (touches)
            marks.next = batch;
        commit_batch(store->writer, touches ? &marks : batch);
        touches_free(touches);

        pthread_mutex_lock(&store->queue_lock);
        settle(batch);
        pthread_mutex_unlock(&store->queue_lock);
        checkpoint(store);
        pthread_mutex_lock(&store->queue_lock);
    }
    pthread_mutex_unlock(&store->queue_lock);
    return NULL;
}

remat_status storage_submit(remat_store *store, storage_write_run *run, void *argument,
                            remat_error *error)
{
    if (!store->thread_runs)
        return remat_fail(error, REMAT_INVALID, NULL, "%s was opened for reading only",
                          store->path);
    storage_write write = {.run = run, .argument = argument};
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

remat_status storage_writer_start(remat_store *store, remat_error *error)
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

void storage_writer_stop(remat_store *store)
{
    if (!store->thread_runs)
        return;
    pthread_mutex_lock(&store->queue_lock);
    store->stopping = true;
    pthread_cond_signal(&store->queue_filled);
    pthread_mutex_unlock(&store->queue_lock);
    pthread_join(store->thread, NULL);
    store->thread_runs = false;
    touches_free(store->touches);
    pthread_cond_destroy(&store->queue_filled);
    pthread_mutex_destroy(&store->queue_lock);
}
