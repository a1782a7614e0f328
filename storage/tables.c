#include "private.h"

#include <stdlib.h>

enum { PROFILE_ID = COLUMN_FIRST, SOLVER, OPTIONS, BYTES };
#define CHECKED "ttti" /* PROFILE_ID to BYTES */

typedef struct table_key {
    const char *profile_id, *solver, *options;
} table_key;

typedef struct put_table {
    table_key key;
    remat_blob table; /* encoded */
} put_table;

static uint64_t table_owner(table_key key)
{
    return storage_checksum("tttt", "table", key.profile_id, key.solver, key.options);
}

/* ---- put, delete ---- */

/* 0: of no profile. */
static remat_status profile_seq(storage_connection *connection, const char *id, int64_t *ret_seq,
                                remat_error *error)
{
    int64_t known[2]; /* seq and document */
    *ret_seq = 0;
    if (!id[0])
        return REMAT_OK;
    remat_status status = storage_numbers(connection, SQL_FIND_PROFILE, 2, known, error, "t", id);
    if (status == REMAT_OK && !known[1])
        status = remat_fail(error, REMAT_NOT_FOUND, NULL, "there is no profile %s", id);
    if (status == REMAT_OK)
        *ret_seq = known[0];
    return status;
}

static remat_status run_delete(storage_connection *connection, void *argument, remat_error *error)
{
    const table_key *key = argument;
    return storage_run(connection, SQL_DELETE_TABLE, error, "ttt", key->profile_id, key->solver,
                       key->options);
}

static remat_status run_put(storage_connection *connection, void *argument, remat_error *error)
{
    put_table *put = argument;
    const table_key *key = &put->key;
    int64_t profile, data, bytes = (int64_t)put->table.length;
    remat_status status = profile_seq(connection, key->profile_id, &profile, error);
    if (status == REMAT_OK)
        status = run_delete(connection, &put->key, error);
    if (status == REMAT_OK)
        status = storage_save_blob(connection, &put->table, &data, error);
    if (status != REMAT_OK)
        return status;
    uint64_t checksum =
        storage_checksum(CHECKED, key->profile_id, key->solver, key->options, bytes);
    return storage_run(connection, SQL_PUT_TABLE, error, "ittiiin", profile, key->solver,
                       key->options, bytes, remat_store_now(), (int64_t)checksum, data);
}

remat_status remat_store_put_table(remat_store *store, const char *profile_id, const char *solver,
                                   const char *options, const void *table, size_t length,
                                   remat_error *error)
{
    put_table put = {.key = {profile_id, solver, options}};
    const remat_blob raw = {(void *)(uintptr_t)table, length};
    remat_status status = storage_encode(table_owner(put.key), &raw, &put.table, error);
    if (status == REMAT_OK)
        status = storage_submit(store, run_put, &put, error);
    free(put.table.data);
    return status;
}

remat_status remat_store_delete_table(remat_store *store, const char *profile_id,
                                      const char *solver, const char *options, remat_error *error)
{
    table_key key = {profile_id, solver, options};
    return storage_submit(store, run_delete, &key, error);
}

/* ---- get ---- */

static remat_status read_table(const storage_rows *rows, void *item, remat_error *error)
{
    remat_status status = storage_check_row(rows, CHECKED, error);
    if (status != REMAT_OK)
        return status;
    table_key key = {storage_text(rows, PROFILE_ID), storage_text(rows, SOLVER),
                     storage_text(rows, OPTIONS)};
    return storage_load_blob(rows->connection, storage_integer(rows, COLUMN_GUARD),
                             table_owner(key), item, error);
}

remat_status remat_store_get_table(remat_store *store, const char *profile_id, const char *solver,
                                   const char *options, remat_blob *ret_table, remat_error *error)
{
    storage_key key = {KIND_TABLE, SQL_GET_TABLE, {profile_id, solver, options}};
    return storage_get(store, &key, read_table, ret_table, error);
}

/* ---- check ---- */

static void clear(void *item)
{
    free(((remat_blob *)item)->data);
}

const storage_check storage_check_tables = {
    SQL_CHECK_TABLES, "table of profile", {sizeof(remat_blob), read_table, clear}};
