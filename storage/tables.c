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

/* ---- put, delete, trim ---- */

/* 0: of no profile. */
static remat_status profile_seq(storage_connection *connection, const char *id, int64_t *ret_seq,
                                remat_error *error)
{
    *ret_seq = 0;
    if (!id[0])
        return REMAT_OK;
    sqlite3_stmt *query;
    bool row;
    remat_status status = storage_query(connection, SQL_FIND_PROFILE, &query, error, "t", id);
    if (status != REMAT_OK)
        return status;
    status = storage_step(connection, query, &row, error);
    if (status == REMAT_OK && (!row || sqlite3_column_type(query, 1) == SQLITE_NULL))
        status = remat_fail(error, REMAT_NOT_FOUND, NULL, "there is no profile %s", id);
    if (status == REMAT_OK)
        *ret_seq = sqlite3_column_int64(query, 0);
    storage_done(query);
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
                       key->options, bytes, storage_now(), (int64_t)checksum, data);
}

remat_status remat_store_put_table(remat_store *store, const char *profile_id, const char *solver,
                                   const char *options, const void *table, size_t length,
                                   remat_error *error)
{
    put_table put = {.key = {profile_id, solver, options}};
    remat_status status = storage_encode(table_owner(put.key), table, length, &put.table, error);
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

typedef struct trimming {
    uint64_t keep_bytes, count;
} trimming;

static remat_status first_numbers(storage_connection *connection, storage_statement statement,
                                  int64_t numbers[2], remat_error *error)
{
    sqlite3_stmt *query;
    bool row;
    remat_status status = storage_query(connection, statement, &query, error, "");
    if (status != REMAT_OK)
        return status;
    status = storage_step(connection, query, &row, error);
    for (int i = 0; status == REMAT_OK && i < 2; i++)
        numbers[i] = row ? sqlite3_column_int64(query, i) : 0;
    storage_done(query);
    return status;
}

static remat_status run_trim(storage_connection *connection, void *argument, remat_error *error)
{
    trimming *trim = argument;
    int64_t total[2], oldest[2]; /* bytes, -; seq, bytes */
    trim->count = 0;
    remat_status status = first_numbers(connection, SQL_TABLE_BYTES, total, error);
    while (status == REMAT_OK && total[0] > 0 && (uint64_t)total[0] > trim->keep_bytes) {
        status = first_numbers(connection, SQL_OLDEST_TABLE, oldest, error);
        if (status != REMAT_OK || !oldest[0])
            break;
        status = storage_run(connection, SQL_EVICT_TABLE, error, "i", oldest[0]);
        total[0] -= oldest[1];
        trim->count++;
    }
    return status;
}

remat_status remat_store_trim_tables(remat_store *store, uint64_t keep_bytes, uint64_t *ret_count,
                                     remat_error *error)
{
    trimming trim = {.keep_bytes = keep_bytes};
    remat_status status = storage_submit(store, run_trim, &trim, error);
    if (status == REMAT_OK)
        *ret_count = trim.count;
    return status;
}

/* ---- get ---- */

static remat_status read_table(storage_connection *connection, sqlite3_stmt *row,
                               remat_blob *ret_table, remat_error *error)
{
    if ((uint64_t)sqlite3_column_int64(row, COLUMN_CHECKSUM) !=
        storage_row_checksum(row, COLUMN_FIRST, CHECKED))
        return remat_fail(error, REMAT_CORRUPT, NULL, "its checksum does not match");
    table_key key = {(const char *)sqlite3_column_text(row, PROFILE_ID),
                     (const char *)sqlite3_column_text(row, SOLVER),
                     (const char *)sqlite3_column_text(row, OPTIONS)};
    return storage_load_blob(connection, sqlite3_column_int64(row, COLUMN_GUARD), table_owner(key),
                             ret_table, error);
}

static remat_status get(storage_connection *connection, table_key key, remat_blob *ret_table,
                        storage_damage *ret_damage, remat_error *error)
{
    sqlite3_stmt *query;
    bool row;
    remat_status status = storage_query(connection, SQL_GET_TABLE, &query, error, "ttt",
                                        key.profile_id, key.solver, key.options);
    if (status != REMAT_OK)
        return status;
    status = storage_step(connection, query, &row, error);
    if (status == REMAT_OK && !row)
        status = remat_fail(error, REMAT_NOT_FOUND, NULL, "profile %s has no table of %s",
                            key.profile_id, key.solver);
    if (status == REMAT_OK) {
        *ret_damage = storage_damage_of(query);
        status = read_table(connection, query, ret_table, error);
    }
    storage_done(query);
    return status;
}

remat_status remat_store_get_table(remat_store *store, const char *profile_id, const char *solver,
                                   const char *options, remat_blob *ret_table, remat_error *error)
{
    storage_connection *connection;
    remat_status status = storage_read_begin(store, &connection, error);
    if (status != REMAT_OK)
        return status;
    storage_damage damage = {0};
    remat_error why = {0};
    table_key key = {profile_id, solver, options};
    status = get(connection, key, ret_table, &damage, &why);
    storage_read_end(store, connection);
    if (status != REMAT_OK && error)
        *error = why;
    if (status == REMAT_CORRUPT && damage.seq)
        storage_drop(store, KIND_TABLE, damage, profile_id, why.message);
    return status;
}

/* ---- check ---- */

static remat_status verify(storage_connection *connection, sqlite3_stmt *row, remat_error *error)
{
    remat_blob table = {0};
    remat_status status = read_table(connection, row, &table, error);
    free(table.data);
    return status;
}

remat_status storage_verify_tables(storage_connection *connection, uint64_t *damaged,
                                   remat_error *error)
{
    return storage_verify_rows(connection, SQL_CHECK_TABLES, "table of profile", verify, damaged,
                               error);
}
