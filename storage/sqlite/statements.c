/* Statements on SQLite: prepared once for each connection, their values, the columns of a row. */
#include "sqlite.h"

#define SAME_AS "IS"
#define NAME_CONTAINS "instr(lower(p.name), lower(?3)) > 0"
#define TABLE_OF_PROFILE                                                                           \
    "profile IS (SELECT seq FROM profiles WHERE id = ?1) AND (?1 = '' OR profile IS NOT NULL)"
#define SKIP_LOCKED "" /* one writer */
#define UNOWNED "j.owner <> ?1"

static const char *const texts[] = {
#define X(name, sql) sql,
    STORAGE_STATEMENTS(X)
#undef X
        [SQLITE_BEGIN_READ] = "BEGIN",
    [SQLITE_BEGIN_WRITE] = "BEGIN IMMEDIATE",
    [SQLITE_COMMIT] = "COMMIT",
    [SQLITE_ROLLBACK_ALL] = "ROLLBACK",
    [SQLITE_SAVEPOINT_ONE] = "SAVEPOINT one",
    [SQLITE_ROLLBACK_TO] = "ROLLBACK TO one",
    [SQLITE_RELEASE] = "RELEASE one",
};

static int bind(sqlite3_stmt *query, const char *types, va_list values)
{
    int code = SQLITE_OK;
    for (int i = 1; types[i - 1] && code == SQLITE_OK; i++) {
        switch (types[i - 1]) {
        case 't':
            code = sqlite3_bind_text(query, i, va_arg(values, const char *), -1, SQLITE_STATIC);
            break;
        case 'i':
            code = sqlite3_bind_int64(query, i, va_arg(values, int64_t));
            break;
        case 'n': {
            int64_t number = va_arg(values, int64_t);
            code = number ? sqlite3_bind_int64(query, i, number) : sqlite3_bind_null(query, i);
            break;
        }
        case 'r':
            code = sqlite3_bind_double(query, i, va_arg(values, double));
            break;
        case 'b': {
            const remat_blob *blob = va_arg(values, const remat_blob *);
            code = sqlite3_bind_blob64(query, i, blob->data, blob->length, SQLITE_STATIC);
            break;
        }
        default:
            code = SQLITE_MISUSE;
        }
    }
    return code;
}

static remat_status prepare(sqlite_connection *connection, int statement, sqlite3_stmt **ret_query,
                            remat_error *error)
{
    sqlite3_stmt **cached = &connection->statements[statement];
    if (!*cached && sqlite3_prepare_v3(connection->db, texts[statement], -1,
                                       SQLITE_PREPARE_PERSISTENT, cached, NULL) != SQLITE_OK)
        return sqlite_fail(connection, error, "use");
    *ret_query = *cached;
    return REMAT_OK;
}

static void reset(sqlite3_stmt *query)
{
    sqlite3_reset(query);
    sqlite3_clear_bindings(query);
}

remat_status sqlite_query(storage_connection *base, storage_statement statement, storage_rows *rows,
                          remat_error *error, const char *types, va_list values)
{
    sqlite_connection *connection = (sqlite_connection *)base;
    sqlite3_stmt *query = NULL;
    remat_status status = prepare(connection, (int)statement, &query, error);
    if (status == REMAT_OK && bind(query, types, values) != SQLITE_OK) {
        status = sqlite_fail(connection, error, "use");
        reset(query);
    }
    if (status == REMAT_OK)
        *rows = (storage_rows){.connection = base, .result = query};
    return status;
}

static remat_status step(sqlite_connection *connection, sqlite3_stmt *query, bool *ret_row,
                         remat_error *error)
{
    int code = sqlite3_step(query);
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        return sqlite_fail(connection, error, sqlite3_stmt_readonly(query) ? "read" : "write to");
    *ret_row = code == SQLITE_ROW;
    return REMAT_OK;
}

remat_status sqlite_step(storage_rows *rows, bool *ret_row, remat_error *error)
{
    return step((sqlite_connection *)rows->connection, rows->result, ret_row, error);
}

void sqlite_done(storage_rows *rows)
{
    reset(rows->result);
}

remat_status sqlite_run(sqlite_connection *connection, int statement, remat_error *error)
{
    sqlite3_stmt *query = NULL;
    bool row;
    remat_status status = prepare(connection, statement, &query, error);
    if (status != REMAT_OK)
        return status;
    status = step(connection, query, &row, error);
    reset(query);
    return status;
}

uint64_t sqlite_changes(storage_connection *connection)
{
    return (uint64_t)sqlite3_changes64(((sqlite_connection *)connection)->db);
}

/* ---- columns ---- */

bool sqlite_is_null(const storage_rows *rows, int column)
{
    return sqlite3_column_type(rows->result, column) == SQLITE_NULL;
}

int64_t sqlite_integer(const storage_rows *rows, int column)
{
    return sqlite3_column_int64(rows->result, column);
}

double sqlite_real(const storage_rows *rows, int column)
{
    return sqlite3_column_double(rows->result, column);
}

const char *sqlite_text(const storage_rows *rows, int column)
{
    return (const char *)sqlite3_column_text(rows->result, column);
}

remat_status sqlite_bytes(const storage_rows *rows, int column, const void **ret_bytes,
                          size_t *ret_length, remat_error *error)
{
    const void *bytes = sqlite3_column_blob(rows->result, column);
    if (!bytes && sqlite3_errcode(((sqlite_connection *)rows->connection)->db) == SQLITE_NOMEM)
        return remat_fail_memory(error);
    *ret_bytes = bytes;
    *ret_length = bytes ? (size_t)sqlite3_column_bytes(rows->result, column) : 0;
    return REMAT_OK;
}
