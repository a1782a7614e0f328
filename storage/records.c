/* What the kinds of record share: reading columns, pages of a list, damage. */
#include "private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- statements ---- */

remat_status storage_query(storage_connection *connection, storage_statement statement,
                           storage_rows *rows, remat_error *error, const char *types, ...)
{
    va_list values;
    va_start(values, types);
    remat_status status =
        connection->backend->query(connection, statement, rows, error, types, values);
    va_end(values);
    return status;
}

static remat_status run_for_numbers(storage_connection *connection, storage_statement statement,
                                    int count, int64_t numbers[], remat_error *error,
                                    const char *types, va_list values)
{
    storage_rows rows;
    bool row;
    remat_status status =
        connection->backend->query(connection, statement, &rows, error, types, values);
    if (status != REMAT_OK)
        return status;
    status = storage_step(&rows, &row, error);
    for (int i = 0; status == REMAT_OK && i < count; i++)
        numbers[i] = row ? storage_integer(&rows, i) : 0;
    storage_done(&rows);
    return status;
}

remat_status storage_run(storage_connection *connection, storage_statement statement,
                         remat_error *error, const char *types, ...)
{
    va_list values;
    va_start(values, types);
    remat_status status = run_for_numbers(connection, statement, 0, NULL, error, types, values);
    va_end(values);
    return status;
}

remat_status storage_numbers(storage_connection *connection, storage_statement statement, int count,
                             int64_t numbers[], remat_error *error, const char *types, ...)
{
    va_list values;
    va_start(values, types);
    remat_status status =
        run_for_numbers(connection, statement, count, numbers, error, types, values);
    va_end(values);
    return status;
}

/* ---- columns ---- */

remat_status storage_check_row(const storage_rows *rows, const char *types, remat_error *error)
{
    if ((uint64_t)storage_integer(rows, COLUMN_CHECKSUM) !=
        storage_row_checksum(rows, COLUMN_FIRST, types))
        return remat_fail(error, REMAT_CORRUPT, NULL, "its checksum does not match");
    return REMAT_OK;
}

remat_status storage_take_texts(const storage_rows *rows, const storage_text_column *columns,
                                size_t n, remat_error *error)
{
    for (size_t i = 0; i < n; i++) {
        if (storage_is_null(rows, columns[i].column))
            continue;
        const char *text = storage_text(rows, columns[i].column);
        if (!text || !(*columns[i].ret_text = strdup(text)))
            return remat_fail_memory(error);
    }
    return REMAT_OK;
}

remat_status storage_take_blob(const storage_rows *rows, int column, uint64_t owner,
                               remat_blob *ret_blob, remat_error *error)
{
    const void *stored;
    size_t length;
    remat_status status = rows->connection->backend->bytes(rows, column, &stored, &length, error);
    return status != REMAT_OK ? status : storage_decode(owner, stored, length, ret_blob, error);
}

remat_status storage_load_blob(storage_connection *connection, int64_t id, uint64_t owner,
                               remat_blob *ret_blob, remat_error *error)
{
    storage_rows rows;
    bool row = false;
    remat_status status = storage_query(connection, SQL_GET_BLOB, &rows, error, "i", id);
    if (status != REMAT_OK)
        return status;
    status = storage_step(&rows, &row, error);
    if (status == REMAT_OK && !row)
        status = remat_fail(error, REMAT_CORRUPT, NULL, "a blob is missing");
    if (status == REMAT_OK)
        status = storage_take_blob(&rows, 0, owner, ret_blob, error);
    storage_done(&rows);
    return status;
}

remat_status storage_save_blob(storage_connection *connection, const remat_blob *stored,
                               int64_t *ret_id, remat_error *error)
{
    storage_rows rows;
    bool row;
    remat_status status = storage_query(connection, SQL_PUT_BLOB, &rows, error, "b", stored);
    if (status != REMAT_OK)
        return status;
    status = storage_step(&rows, &row, error);
    if (status == REMAT_OK)
        *ret_id = storage_integer(&rows, 0);
    storage_done(&rows);
    return status;
}

/* ---- damage ---- */

/* detach takes seq and guard, and is enough where a record is one row; remove takes seq, and
 * removes what detach has marked. */
static const struct {
    const char *what;
    storage_statement detach, remove;
} kinds[] = {
    [KIND_PROFILE] = {"profile", SQL_DROP_PROFILE, SQL_COUNT},
    [KIND_SCHEDULE] = {"schedule", SQL_DROP_BODY, SQL_DROP_SCHEDULE},
    [KIND_SCHEDULE_BODY] = {"body of schedule", SQL_DROP_BODY, SQL_COUNT},
    [KIND_TABLE] = {"table", SQL_QUARANTINE_TABLE, SQL_DROP_TABLE},
    [KIND_JOB] = {"job", SQL_DROP_JOB, SQL_COUNT},
    [KIND_MEASUREMENT] = {"measurement", SQL_DROP_MEASUREMENT, SQL_COUNT},
};

typedef struct dropping {
    storage_kind kind;
    storage_damage damage;
} dropping;

storage_damage storage_damage_of(const storage_rows *rows)
{
    return (storage_damage){storage_integer(rows, COLUMN_SEQ), storage_integer(rows, COLUMN_GUARD)};
}

static remat_status run_drop(storage_connection *connection, void *argument, remat_error *error)
{
    const dropping *drop = argument;
    int64_t seq = drop->damage.seq, guard = drop->damage.guard;
    remat_status status =
        storage_run(connection, kinds[drop->kind].detach, error, "in", seq, guard);
    if (status == REMAT_OK && kinds[drop->kind].remove != SQL_COUNT)
        status = storage_run(connection, kinds[drop->kind].remove, error, "i", seq);
    return status;
}

/* Drops a damaged record, telling the log. A failure to do so is told there too. */
static void drop_damaged(remat_store *store, storage_kind kind, storage_damage damage,
                         const char *id, const char *why)
{
    const bool before = kind == KIND_SCHEDULE_BODY && !damage.guard; /* it was dropped */
    if (store->options.read_only || before)                          /* reported, not repaired */
        return;
    dropping argument = {kind, damage};
    remat_error error;
    if (storage_submit(store, run_drop, &argument, &error) == REMAT_OK)
        storage_log(store, "dropped the damaged %s %s: %s", kinds[kind].what, id, why);
    else
        storage_log(store, "cannot drop the damaged %s %s (%s): %s", kinds[kind].what, id, why,
                    error.message);
}

/* ---- one record ---- */

remat_status storage_find(storage_connection *connection, const storage_key *key,
                          storage_read *read, void *item, storage_damage *ret_damage,
                          remat_error *error)
{
    storage_rows rows;
    bool row;
    const char *const *texts = key->texts;
    remat_status status = storage_query(connection, key->statement, &rows, error,
                                        texts[1] ? "ttt" : "t", texts[0], texts[1], texts[2]);
    if (status != REMAT_OK)
        return status;
    status = storage_step(&rows, &row, error);
    if (status == REMAT_OK && !row)
        status = remat_fail(error, REMAT_NOT_FOUND, NULL, "there is no %s %s",
                            kinds[key->kind].what, texts[0]);
    if (status == REMAT_OK) {
        *ret_damage = storage_damage_of(&rows);
        status = read(&rows, item, error);
    }
    storage_done(&rows);
    return status;
}

remat_status storage_get(remat_store *store, storage_key *key, storage_read *read, void *item,
                         remat_error *error)
{
    storage_connection *connection;
    storage_damage damage = {0};
    remat_error why = {0};
    remat_status status = store->backend->read_begin(store, &connection, error);
    if (status != REMAT_OK)
        return status;
    status = storage_find(connection, key, read, item, &damage, &why);
    store->backend->read_end(store, connection);
    if (status != REMAT_OK && error)
        *error = why;
    if (status == REMAT_CORRUPT && damage.seq)
        drop_damaged(store, key->kind, damage, key->texts[0], why.message);
    return status;
}

/* ---- pages ---- */

#define LIMIT_MAX 1000
/* Damaged records that one page drops; what is left, the next call does. */
#define DAMAGED_MAX 16

typedef struct page_state {
    storage_damage damaged[DAMAGED_MAX];
    size_t damaged_count;
    char *items;
    size_t length;
    int64_t last; /* seq of the last record of the page */
    bool more;
} page_state;

static remat_status parse_cursor(const storage_list *list, const char *cursor, int64_t *ret_seq,
                                 remat_error *error)
{
    if (!cursor || !cursor[0]) {
        *ret_seq = list->oldest_first ? 0 : INT64_MAX;
        return REMAT_OK;
    }
    int64_t seq = 0;
    const char *digit = cursor + 1;
    for (; *digit >= '0' && *digit <= '9' && seq < INT64_MAX / 10 - 1; digit++)
        seq = seq * 10 + (*digit - '0');
    if (cursor[0] != list->letter || digit == cursor + 1 || *digit || seq == 0)
        return remat_fail(error, REMAT_INVALID, "cursor",
                          "the cursor is not one that this list gave");
    *ret_seq = seq;
    return REMAT_OK;
}

static char *make_cursor(const storage_list *list, int64_t seq)
{
    char *cursor = malloc(24);
    if (cursor)
        snprintf(cursor, 24, "%c%" PRId64, list->letter, seq);
    return cursor;
}

static remat_status read_rows(storage_rows *rows, const storage_list *list, uint32_t limit,
                              page_state *page, remat_error *error)
{
    const storage_items *items = list->items;
    for (uint32_t count = 0;; count++) {
        bool row;
        remat_status status = storage_step(rows, &row, error);
        if (status != REMAT_OK || !row)
            return status;
        if (count == limit) {
            page->more = true;
            return REMAT_OK;
        }
        page->last = storage_integer(rows, COLUMN_SEQ);
        status = items->read(rows, page->items + page->length * items->size, error);
        if (status == REMAT_OK)
            page->length++;
        else if (status != REMAT_CORRUPT)
            return status;
        else if (page->damaged_count < DAMAGED_MAX)
            page->damaged[page->damaged_count++] = storage_damage_of(rows);
    }
}

static remat_status read_page(remat_store *store, const storage_list *list, int64_t from,
                              uint32_t limit, page_state *page, remat_error *error)
{
    storage_connection *connection;
    remat_status status = store->backend->read_begin(store, &connection, error);
    if (status != REMAT_OK)
        return status;
    /* Bound from the front: a list without filters has two parameters. */
    const char *types = list->filters[1] ? "iitt" : list->filters[0] ? "iit" : "ii";
    storage_rows rows;
    status = storage_query(connection, list->statement, &rows, error, types, from,
                           (int64_t)limit + 1, list->filters[0], list->filters[1]);
    if (status == REMAT_OK) {
        status = read_rows(&rows, list, limit, page, error);
        storage_done(&rows);
    }
    store->backend->read_end(store, connection);
    return status;
}

remat_status storage_list_page(remat_store *store, const storage_list *list, remat_page page,
                               storage_page *ret_page, remat_error *error)
{
    int64_t from = 0;
    if (page.limit < 1 || page.limit > LIMIT_MAX)
        return remat_fail(error, REMAT_INVALID, "limit", "limit is %" PRIu32 "; it is 1 to %d",
                          page.limit, LIMIT_MAX);
    remat_status status = parse_cursor(list, page.cursor, &from, error);
    if (status != REMAT_OK)
        return status;
    page_state state = {.items = calloc(page.limit, list->items->size)};
    if (!state.items)
        return remat_fail_memory(error);
    status = read_page(store, list, from, page.limit, &state, error);
    storage_page found = {state.items, state.length, NULL};
    if (status == REMAT_OK && state.more && !(found.next = make_cursor(list, state.last)))
        status = remat_fail_memory(error);
    if (status != REMAT_OK) {
        storage_page_clear(found, list->items);
        return status;
    }
    for (size_t i = 0; i < state.damaged_count; i++)
        drop_damaged(store, list->kind, state.damaged[i], "of a list",
                     "its checksum does not match");
    *ret_page = found;
    return REMAT_OK;
}

void storage_page_clear(storage_page page, const storage_items *items)
{
    for (size_t i = 0; i < page.length; i++)
        items->clear((char *)page.items + i * items->size);
    free(page.items);
    free(page.next);
}

/* ---- check ---- */

enum { CHECK_ROWS = 500 };

/* Reads the rows of one part of a table; *seq becomes that of the last. */
static remat_status check_part(storage_rows *rows, const storage_check *check, void *item,
                               int64_t *seq, int *ret_count, uint64_t *damaged, remat_error *error)
{
    bool row;
    remat_status status;
    *ret_count = 0;
    while ((status = storage_step(rows, &row, error)) == REMAT_OK && row) {
        remat_error why = {0};
        status = check->items.read(rows, item, &why);
        if (status == REMAT_OK) {
            check->items.clear(item);
        } else if (status == REMAT_CORRUPT) {
            if ((*damaged)++ == 0)
                remat_fail(error, REMAT_CORRUPT, NULL, "%s %s: %s", check->what,
                           storage_text(rows, COLUMN_FIRST), why.message);
        } else {
            if (error)
                *error = why;
            return status;
        }
        *seq = storage_integer(rows, COLUMN_SEQ);
        (*ret_count)++;
    }
    return status;
}

remat_status storage_check_rows(storage_connection *connection, const storage_check *check,
                                uint64_t *damaged, remat_error *error)
{
    int64_t seq = 0;
    int count = CHECK_ROWS;
    remat_status status = REMAT_OK;
    void *item = calloc(1, check->items.size);
    if (!item)
        return remat_fail_memory(error);
    while (status == REMAT_OK && count == CHECK_ROWS) {
        storage_rows rows;
        status = storage_query(connection, check->statement, &rows, error, "ii", seq,
                               (int64_t)CHECK_ROWS);
        if (status != REMAT_OK)
            break;
        status = check_part(&rows, check, item, &seq, &count, damaged, error);
        storage_done(&rows);
    }
    free(item);
    return status;
}
