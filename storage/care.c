/* Statistics, readiness, the check of every record, pruning. */
#include "private.h"

#include <inttypes.h>

/* ---- statistics and ping ---- */

static remat_status count(storage_connection *connection, remat_store_statistics *statistics,
                          remat_error *error)
{
    storage_rows rows;
    bool row;
    remat_status status = storage_query(connection, SQL_STATISTICS, &rows, error, "");
    if (status != REMAT_OK)
        return status;
    status = storage_step(&rows, &row, error);
    if (status == REMAT_OK)
        *statistics = (remat_store_statistics){
            .profiles = (uint64_t)storage_integer(&rows, 0),
            .schedules = (uint64_t)storage_integer(&rows, 1),
            .tables = (uint64_t)storage_integer(&rows, 2),
            .unfinished_jobs = (uint64_t)storage_integer(&rows, 3),
            .measurements = (uint64_t)storage_integer(&rows, 4),
            .table_bytes = (uint64_t)storage_integer(&rows, 5),
            .schema_version = connection->backend->schema_version(),
        };
    storage_done(&rows);
    return status;
}

remat_status remat_store_statistics_get(remat_store *store, remat_store_statistics *ret_statistics,
                                        remat_error *error)
{
    const storage_backend *backend = store->backend;
    storage_connection *connection;
    remat_store_statistics statistics = {0};
    remat_status status = backend->read_begin(store, &connection, error);
    if (status != REMAT_OK)
        return status;
    status = count(connection, &statistics, error);
    if (status == REMAT_OK)
        status = backend->size(connection, &statistics.file_bytes, error);
    backend->read_end(store, connection);
    if (status == REMAT_OK)
        *ret_statistics = statistics;
    return status;
}

static remat_status run_pulse(storage_connection *connection, void *argument, remat_error *error)
{
    return storage_run(connection, SQL_PULSE, error, "i", remat_store_now());
}

/* A real write, and room for larger ones. */
remat_status remat_store_ping(remat_store *store, remat_error *error)
{
    storage_connection *connection;
    int64_t entries;
    remat_status status = store->backend->read_begin(store, &connection, error);
    if (status != REMAT_OK)
        return status;
    status = storage_numbers(connection, SQL_ENTRIES, 1, &entries, error, "");
    store->backend->read_end(store, connection);
    if (status != REMAT_OK || store->options.read_only)
        return status;
    if (store->backend->probe_room && (status = store->backend->probe_room(store, error)))
        return status;
    return storage_submit(store, run_pulse, NULL, error);
}

/* ---- check ---- */

static remat_status check(storage_connection *connection, uint64_t damaged, remat_error *first,
                          remat_error *error)
{
    static const storage_check *const checks[] = {
        &storage_check_profiles, &storage_check_schedules,    &storage_check_tables,
        &storage_check_jobs,     &storage_check_measurements,
    };
    remat_status status = REMAT_OK;
    for (size_t i = 0; status == REMAT_OK && i < sizeof checks / sizeof *checks; i++)
        status = storage_check_rows(connection, checks[i], &damaged, first);
    if (status != REMAT_OK)
        return remat_fail(error, status, NULL, "%s", first->message);
    if (damaged > 0)
        return remat_fail(error, REMAT_CORRUPT, NULL, "%s is damaged in %" PRIu64 " place%s; %s%s",
                          connection->store->name, damaged, damaged == 1 ? "" : "s",
                          damaged == 1 ? "" : "the first: ", first->message);
    return REMAT_OK;
}

remat_status remat_store_check(remat_store *store, remat_error *error)
{
    storage_connection *connection;
    uint64_t damaged = 0;
    remat_error first = {0};
    remat_status status = store->backend->check_begin(store, &connection, &damaged, &first);
    if (status != REMAT_OK)
        return remat_fail(error, status, NULL, "%s", first.message);
    status = check(connection, damaged, &first, error);
    store->backend->check_end(store, connection);
    return status;
}

/* ---- pruning ---- */

enum { PRUNE_AT_ONCE = 5000 }; /* so that nobody waits long for the transaction */

typedef struct pruning {
    uint64_t keep_bytes;
    remat_store_pruned pruned;
    bool more;
} pruning;

/* Deletes by one statement what is too much; *ret_count records. */
static remat_status prune(storage_connection *connection, storage_statement statement, pruning *p,
                          uint64_t *ret_count, remat_error *error)
{
    int64_t total;
    if (p->more)
        return REMAT_OK;
    remat_status status = storage_numbers(connection, SQL_BLOB_BYTES, 1, &total, error, "");
    if (status != REMAT_OK || (uint64_t)total <= p->keep_bytes)
        return status;
    status = storage_run(connection, statement, error, "ii", total - (int64_t)p->keep_bytes,
                         (int64_t)PRUNE_AT_ONCE);
    if (status != REMAT_OK)
        return status;
    *ret_count = connection->backend->changes(connection);
    p->more = *ret_count == PRUNE_AT_ONCE;
    return REMAT_OK;
}

static remat_status run_prune(storage_connection *connection, void *argument, remat_error *error)
{
    pruning *p = argument;
    p->pruned = (remat_store_pruned){0};
    p->more = false;
    remat_status status = prune(connection, SQL_PRUNE_TABLES, p, &p->pruned.tables, error);
    if (status == REMAT_OK)
        status = prune(connection, SQL_PRUNE_SCHEDULES, p, &p->pruned.schedules, error);
    if (status == REMAT_OK)
        status = prune(connection, SQL_PRUNE_PROFILES, p, &p->pruned.profiles, error);
    return status;
}

remat_status remat_store_prune(remat_store *store, uint64_t keep_bytes,
                               remat_store_pruned *ret_pruned, remat_error *error)
{
    pruning p = {.keep_bytes = keep_bytes < INT64_MAX ? keep_bytes : INT64_MAX};
    remat_store_pruned sum = {0};
    do {
        remat_status status = storage_submit(store, run_prune, &p, error);
        if (status == REMAT_IO && store->backend->make_room) {
            store->backend->make_room(store);
            status = storage_submit(store, run_prune, &p, error);
        }
        if (status != REMAT_OK)
            return status;
        sum.tables += p.pruned.tables;
        sum.schedules += p.pruned.schedules;
        sum.profiles += p.pruned.profiles;
    } while (p.more);
    *ret_pruned = sum;
    return REMAT_OK;
}

/* ---- backup ---- */

remat_status remat_store_backup(remat_store *store, const char *path, remat_error *error)
{
    return store->backend->backup(store, path, error);
}
