/* Statements on PostgreSQL: prepared once for each connection, values and rows in binary. */
#include "postgres.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAME_AS "IS NOT DISTINCT FROM"
#define NAME_CONTAINS "strpos(lower(p.name COLLATE \"C\"), lower(?3 COLLATE \"C\")) > 0"
/* In the words of the index tables_by_key. */
#define TABLE_OF_PROFILE                                                                           \
    "coalesce(profile, 0) = CASE WHEN ?1 = '' THEN 0 "                                             \
    "ELSE coalesce((SELECT seq FROM profiles WHERE id = ?1), -1) END"
#define SKIP_LOCKED " FOR UPDATE SKIP LOCKED"
#define UNOWNED                                                                                    \
    "j.owner <> ?1 AND NOT EXISTS (SELECT 1 FROM replicas r WHERE r.id = j.owner "                 \
    "AND r.expires > " POSTGRES_NOW ")"

static const char *const texts[] = {
#define X(name, sql) sql,
    STORAGE_STATEMENTS(X) POSTGRES_STATEMENTS(X)
#undef X
};

enum { VALUES_MAX = 16 };
#define BYTES_MAX 1000000000 /* a value is less than 1 GiB, as sent */

typedef struct parameters {
    int count;
    Oid types[VALUES_MAX];
    const char *values[VALUES_MAX];
    int lengths[VALUES_MAX], formats[VALUES_MAX];
    uint64_t numbers[VALUES_MAX]; /* big-endian */
} parameters;

enum { OID_BYTEA = 17, OID_INT8 = 20, OID_TEXT = 25, OID_FLOAT8 = 701 };

static void add(parameters *p, Oid type, const void *value, size_t length)
{
    p->types[p->count] = type;
    p->values[p->count] = value;
    p->lengths[p->count] = (int)length;
    p->formats[p->count] = 1;
    p->count++;
}

static void add_number(parameters *p, Oid type, uint64_t bits)
{
    uint64_t *number = &p->numbers[p->count];
    *number = htobe64(bits);
    add(p, type, number, sizeof *number);
}

static remat_status bind(parameters *p, const char *types, va_list values, remat_error *error)
{
    p->count = 0;
    for (; *types; types++) {
        if (*types == 't') {
            const char *text = va_arg(values, const char *);
            add(p, OID_TEXT, text, text ? strlen(text) : 0);
        } else if (*types == 'r') {
            double real = va_arg(values, double);
            uint64_t bits;
            memcpy(&bits, &real, sizeof bits);
            add_number(p, OID_FLOAT8, bits);
        } else if (*types == 'b') {
            const remat_blob *blob = va_arg(values, const remat_blob *);
            if (blob->length > BYTES_MAX)
                return remat_fail(error, REMAT_TOO_LARGE, NULL,
                                  "a blob of %zu bytes compressed is past the limit of %d",
                                  blob->length, BYTES_MAX);
            add(p, OID_BYTEA, blob->data, blob->length);
        } else {
            int64_t number = va_arg(values, int64_t);
            if (*types == 'n' && number == 0)
                add(p, OID_INT8, NULL, 0);
            else
                add_number(p, OID_INT8, (uint64_t)number);
        }
    }
    return REMAT_OK;
}

static const char *act_of(int statement)
{
    return strncmp(texts[statement], "SELECT", 6) == 0 ? "read" : "write to";
}

/* The texts number their values as SQLite does. */
static remat_status prepare(postgres_connection *connection, int statement, const char *name,
                            const parameters *p, remat_error *error)
{
    PGresult *result;
    char *text = strdup(texts[statement]);
    if (!text)
        return remat_fail_memory(error);
    for (char *c = text; (c = strchr(c, '?')) != NULL;)
        *c = '$';
    int sent = PQsendPrepare(connection->db, name, text, p->count, p->types);
    free(text);
    if (!sent)
        connection->broken = true;
    remat_status status = postgres_receive(connection, act_of(statement), &result, error);
    if (status == REMAT_OK)
        PQclear(result);
    connection->prepared[statement] = status == REMAT_OK;
    return status;
}

remat_status postgres_query(storage_connection *base, storage_statement statement,
                            storage_rows *rows, remat_error *error, const char *types,
                            va_list values)
{
    postgres_connection *connection = (postgres_connection *)base;
    parameters p;
    PGresult *result;
    char name[16];
    int number = (int)statement;
    snprintf(name, sizeof name, "s%d", number);
    remat_status status = bind(&p, types, values, error);
    if (status == REMAT_OK && !connection->prepared[number])
        status = prepare(connection, number, name, &p, error);
    if (status != REMAT_OK)
        return status;
    if (!PQsendQueryPrepared(connection->db, name, p.count, p.values, p.lengths, p.formats, 1))
        connection->broken = true;
    status = postgres_receive(connection, act_of(number), &result, error);
    if (status != REMAT_OK)
        return status;
    connection->changes = strtoull(PQcmdTuples(result), NULL, 10);
    *rows = (storage_rows){.connection = base, .result = result, .row = -1};
    return REMAT_OK;
}

remat_status postgres_step(storage_rows *rows, bool *ret_row, remat_error *error)
{
    *ret_row = ++rows->row < PQntuples(rows->result);
    return REMAT_OK;
}

void postgres_done(storage_rows *rows)
{
    PQclear(rows->result);
}

uint64_t postgres_changes(storage_connection *connection)
{
    return ((postgres_connection *)connection)->changes;
}

/* ---- columns ---- */

bool postgres_is_null(const storage_rows *rows, int column)
{
    return PQgetisnull(rows->result, rows->row, column);
}

static uint64_t bits(const storage_rows *rows, int column)
{
    uint64_t number = 0;
    if (PQgetlength(rows->result, rows->row, column) == sizeof number)
        memcpy(&number, PQgetvalue(rows->result, rows->row, column), sizeof number);
    return be64toh(number);
}

int64_t postgres_integer(const storage_rows *rows, int column)
{
    return (int64_t)bits(rows, column);
}

double postgres_real(const storage_rows *rows, int column)
{
    uint64_t number = bits(rows, column);
    double real;
    memcpy(&real, &number, sizeof real);
    return real;
}

const char *postgres_text(const storage_rows *rows, int column)
{
    return postgres_is_null(rows, column) ? NULL : PQgetvalue(rows->result, rows->row, column);
}

remat_status postgres_bytes(const storage_rows *rows, int column, const void **ret_bytes,
                            size_t *ret_length, remat_error *error)
{
    *ret_bytes = postgres_text(rows, column);
    *ret_length = (size_t)PQgetlength(rows->result, rows->row, column);
    return REMAT_OK;
}
