/* The thread of a process: hears what others tell, says that this one lives, and brings marks of
 * use to the store. When its connection is lost it looks for a new one, and lets the process know
 * that it may have missed something. */
#include "postgres.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>

enum { MARKS_MILLISECONDS = 1000, BACKOFF_FIRST = 100, BACKOFF_MAX = 2000, BEAT_AGAIN = 500 };

/* ---- marks of use ---- */

void postgres_touch(remat_store *base, const char *const texts[4])
{
    postgres_store *store = (postgres_store *)base;
    pthread_mutex_lock(&store->touches_lock);
    storage_touches_add(&store->touches, texts);
    pthread_mutex_unlock(&store->touches_lock);
}

static remat_status write_marks(postgres_store *store, remat_error *error)
{
    pthread_mutex_lock(&store->touches_lock);
    storage_touches *touches = store->touches;
    store->touches = NULL;
    pthread_mutex_unlock(&store->touches_lock);
    if (!touches)
        return REMAT_OK;
    remat_status status = postgres_chore(store->listening, storage_touches_run, touches, error);
    storage_touches_free(touches);
    return status;
}

/* ---- the connection ---- */

/* An engine without LISTEN is as good, only slower: everything is asked again from time to time. */
static remat_status start_to_hear(postgres_connection *connection, remat_error *error)
{
    remat_error why = {0};
    remat_status status = postgres_exec(connection, "LISTEN remat", "listen to", &why);
    if (status == REMAT_OK || connection->broken)
        return status == REMAT_OK ? REMAT_OK : remat_fail(error, status, NULL, "%s", why.message);
    storage_log(connection->base.store, "%s; polling instead", why.message);
    return REMAT_OK;
}

static void lose(postgres_store *store, const remat_error *why)
{
    postgres_disconnect(store->listening);
    store->listening = NULL;
    if (!store->lost_told)
        storage_log(&store->base, "%s; trying again", why->message);
    store->lost_told = true;
}

static bool reconnect(postgres_store *store)
{
    remat_error why;
    if (postgres_connect(&store->base, store->url, &store->listening, &why) != REMAT_OK)
        return false;
    if (postgres_beat(store->listening, &why) != REMAT_OK ||
        start_to_hear(store->listening, &why) != REMAT_OK) {
        lose(store, &why);
        return false;
    }
    storage_log(&store->base, "connected to %s again", store->base.name);
    store->lost_told = false;
    if (store->base.options.event)
        store->base.options.event(store->base.options.data, REMAT_STORE_RECONNECTED, "");
    return true;
}

static void hear(postgres_store *store)
{
    PGconn *db = store->listening->db;
    PGnotify *news;
    while ((news = PQnotifies(db)) != NULL) {
        postgres_tell(&store->base, news->extra);
        PQfreemem(news);
    }
}

/* ---- the thread ---- */

static bool is_stopping(postgres_store *store)
{
    pthread_mutex_lock(&store->touches_lock);
    bool stopping = store->stopping;
    pthread_mutex_unlock(&store->touches_lock);
    return stopping;
}

/* What is due on a connection that is there. */
static remat_status do_chores(postgres_store *store, remat_error *error)
{
    remat_status status = write_marks(store, error);
    if (status != REMAT_OK || postgres_clock() < store->beat_due)
        return status;
    store->beat_due = postgres_clock() + BEAT_AGAIN;
    status = postgres_beat(store->listening, error);
    if (status == REMAT_OK)
        status = postgres_tell_cancelled(store->listening, error);
    if (status == REMAT_OK)
        store->beat_due = postgres_clock() + (int64_t)store->base.options.lease_seconds * 300;
    return status;
}

static void wait_for_news(postgres_store *store, int milliseconds)
{
    struct pollfd entries[2] = {{.fd = store->wake, .events = POLLIN},
                                {.fd = -1, .events = POLLIN}};
    if (store->listening)
        entries[1].fd = PQsocket(store->listening->db);
    poll(entries, 2, milliseconds);
}

static void *listener_main(void *data)
{
    postgres_store *store = data;
    int backoff = BACKOFF_FIRST;
    remat_error why = {0};
    while (!is_stopping(store)) {
        if (!store->listening) {
            wait_for_news(store, backoff);
            backoff = 2 * backoff < BACKOFF_MAX ? 2 * backoff : BACKOFF_MAX;
            if (!is_stopping(store) && reconnect(store))
                backoff = BACKOFF_FIRST;
            continue;
        }
        hear(store);
        int64_t left = store->beat_due - postgres_clock();
        wait_for_news(store, left < 0                    ? 0
                             : left < MARKS_MILLISECONDS ? (int)left
                                                         : MARKS_MILLISECONDS);
        postgres_connection *connection = store->listening;
        if (!PQconsumeInput(connection->db))
            postgres_exec(connection, "SELECT 1", "listen to", &why); /* fails with the reason */
        else
            do_chores(store, &why);
        if (connection->broken || PQstatus(connection->db) != CONNECTION_OK)
            lose(store, &why);
    }
    return NULL;
}

remat_status postgres_listen(postgres_store *store, postgres_connection *connection,
                             remat_error *error)
{
    store->listening = connection;
    remat_status status = start_to_hear(connection, error);
    if (status != REMAT_OK)
        return status;
    int failure = pthread_create(&store->thread, NULL, listener_main, store);
    if (failure != 0)
        return remat_fail_memory(error);
    store->thread_runs = true;
    return REMAT_OK;
}

void postgres_stop_listening(postgres_store *store)
{
    if (store->thread_runs) {
        pthread_mutex_lock(&store->touches_lock);
        store->stopping = true;
        pthread_mutex_unlock(&store->touches_lock);
        eventfd_write(store->wake, 1);
        pthread_join(store->thread, NULL);
    }
    if (store->thread_runs && store->listening && write_marks(store, NULL) == REMAT_OK)
        postgres_leave(store->listening, NULL);
    storage_touches_free(store->touches);
    postgres_disconnect(store->listening);
}
