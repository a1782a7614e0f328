/* Who is alive, who holds what, and telling one another.
 *
 * A process is alive while its row of replicas has not expired by the database's clock; it renews
 * the row, and so everything that it holds, with one statement. Leases and jobs name their owner.
 */
#include "postgres.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- leases ---- */

typedef struct taking {
    const char *name;
    bool taken;
} taking;

static remat_status run_take(storage_connection *connection, void *argument, remat_error *error)
{
    taking *take = argument;
    int64_t taken;
    remat_status status =
        storage_numbers(connection, (storage_statement)POSTGRES_TAKE_LEASE, 1, &taken, error, "tt",
                        take->name, connection->store->owner);
    take->taken = status == REMAT_OK && taken;
    return status;
}

remat_status postgres_take_lease(remat_store *store, const char *name, bool *ret_taken,
                                 remat_error *error)
{
    taking take = {.name = name};
    remat_status status = storage_submit(store, run_take, &take, error);
    if (status == REMAT_OK)
        *ret_taken = take.taken;
    return status;
}

static remat_status run_release(storage_connection *connection, void *argument, remat_error *error)
{
    const char *name = argument;
    remat_status status = postgres_run(connection, POSTGRES_RELEASE_LEASE, error, "tt", name,
                                       connection->store->owner);
    if (status != REMAT_OK || postgres_changes(connection) == 0)
        return status;
    return postgres_notify(connection, REMAT_STORE_RELEASED, name, error);
}

remat_status postgres_release_lease(remat_store *store, const char *name, remat_error *error)
{
    return storage_submit(store, run_release, (void *)(uintptr_t)name, error);
}

/* ---- life ---- */

static remat_status run_beat(storage_connection *connection, void *argument, remat_error *error)
{
    const remat_store *store = connection->store;
    remat_status status = postgres_run(connection, POSTGRES_BEAT, error, "ti", store->owner,
                                       (int64_t)store->options.lease_seconds * 1000);
    if (status == REMAT_OK)
        status = postgres_run(connection, POSTGRES_FORGET_REPLICAS, error, "");
    if (status == REMAT_OK && postgres_changes(connection) > 0)
        status = postgres_run(connection, POSTGRES_FORGET_LEASES, error, "");
    return status;
}

remat_status postgres_beat(postgres_connection *connection, remat_error *error)
{
    return postgres_chore(connection, run_beat, NULL, error);
}

static remat_status run_leave(storage_connection *connection, void *argument, remat_error *error)
{
    remat_status status =
        postgres_run(connection, POSTGRES_LEAVE, error, "t", connection->store->owner);
    return status != REMAT_OK ? status
                              : postgres_run(connection, POSTGRES_FORGET_LEASES, error, "");
}

remat_status postgres_leave(postgres_connection *connection, remat_error *error)
{
    return postgres_chore(connection, run_leave, NULL, error);
}

/* ---- telling ---- */

static const char letters[] = {
    [REMAT_STORE_RELEASED] = 'r', [REMAT_STORE_CANCELLED] = 'c', [REMAT_STORE_DELETED] = 'd'};

remat_status postgres_notify(storage_connection *connection, remat_store_event event,
                             const char *name, remat_error *error)
{
    char *text = NULL;
    if (asprintf(&text, "%c%s", letters[event], name) < 0)
        return remat_fail_memory(error);
    remat_status status = postgres_run(connection, POSTGRES_NOTIFY, error, "t", text);
    free(text);
    return status;
}

void postgres_tell(const remat_store *store, const char *text)
{
    if (!store->options.event)
        return;
    for (remat_store_event event = 0; event < sizeof letters; event++)
        if (letters[event] == text[0])
            store->options.event(store->options.data, event, text + 1);
}

remat_status postgres_tell_cancelled(postgres_connection *connection, remat_error *error)
{
    const remat_store *store = connection->base.store;
    storage_rows rows;
    bool row;
    remat_status status = storage_query(&connection->base, (storage_statement)POSTGRES_CANCELLING,
                                        &rows, error, "t", store->owner);
    if (status != REMAT_OK)
        return status;
    while ((status = storage_step(&rows, &row, error)) == REMAT_OK && row)
        if (store->options.event)
            store->options.event(store->options.data, REMAT_STORE_CANCELLED,
                                 storage_text(&rows, 0));
    storage_done(&rows);
    return status;
}
