#include "private.h"

#include <stdlib.h>

enum { SCHEDULE_ID = COLUMN_FIRST, CREATED, BODY };
#define CHECKED "ti" /* SCHEDULE_ID, CREATED */

static uint64_t body_owner(const char *schedule_id, int64_t created)
{
    return storage_checksum("tti", "measurement", schedule_id, created);
}

static remat_status read_measurement(sqlite3_stmt *row, void *item, remat_error *error)
{
    remat_measurement_record *measurement = item;
    if ((uint64_t)sqlite3_column_int64(row, COLUMN_CHECKSUM) !=
        storage_row_checksum(row, COLUMN_FIRST, CHECKED))
        return remat_fail(error, REMAT_CORRUPT, NULL, "its checksum does not match");
    *measurement = (remat_measurement_record){.id = sqlite3_column_int64(row, COLUMN_SEQ),
                                              .created = sqlite3_column_int64(row, CREATED)};
    const char *schedule_id = (const char *)sqlite3_column_text(row, SCHEDULE_ID);
    return storage_take_blob(row, BODY, body_owner(schedule_id, measurement->created),
                             &measurement->body, error);
}

/* ---- put ---- */

typedef struct put_measurement {
    const char *schedule_id;
    int64_t created, id;
    remat_blob body; /* encoded */
} put_measurement;

static remat_status run_put(storage_connection *connection, void *argument, remat_error *error)
{
    put_measurement *put = argument;
    sqlite3_stmt *query;
    bool row;
    int64_t schedule = 0;
    remat_status status =
        storage_query(connection, SQL_FIND_SCHEDULE, &query, error, "t", put->schedule_id);
    if (status != REMAT_OK)
        return status;
    status = storage_step(connection, query, &row, error);
    if (status == REMAT_OK && row)
        schedule = sqlite3_column_int64(query, 0);
    storage_done(query);
    if (status == REMAT_OK && !schedule)
        status =
            remat_fail(error, REMAT_NOT_FOUND, NULL, "there is no schedule %s", put->schedule_id);
    if (status != REMAT_OK)
        return status;
    uint64_t checksum = storage_checksum(CHECKED, put->schedule_id, put->created);
    status = storage_run(connection, SQL_PUT_MEASUREMENT, error, "iiib", schedule, put->created,
                         (int64_t)checksum, &put->body);
    put->id = sqlite3_last_insert_rowid(connection->db);
    return status;
}

remat_status remat_store_put_measurement(remat_store *store, const char *schedule_id,
                                         remat_measurement_record *measurement, remat_error *error)
{
    put_measurement put = {.schedule_id = schedule_id, .created = measurement->created};
    remat_status status =
        storage_encode(body_owner(schedule_id, measurement->created), measurement->body.data,
                       measurement->body.length, &put.body, error);
    if (status == REMAT_OK)
        status = storage_submit(store, run_put, &put, error);
    if (status == REMAT_OK)
        measurement->id = put.id;
    free(put.body.data);
    return status;
}

/* ---- list ---- */

static void clear(void *item)
{
    remat_measurement_record *measurement = item;
    free(measurement->body.data);
    *measurement = (remat_measurement_record){0};
}

remat_status remat_store_list_measurements(remat_store *store, const char *schedule_id,
                                           remat_page page, remat_measurement_list *ret_list,
                                           remat_error *error)
{
    storage_list list = {.kind = KIND_MEASUREMENT,
                         .statement = SQL_LIST_MEASUREMENTS,
                         .letter = 'm',
                         .filters = {schedule_id},
                         .item_size = sizeof(remat_measurement_record),
                         .read = read_measurement,
                         .clear = clear};
    remat_measurement_list found;
    void *items;
    remat_status status =
        storage_list_page(store, &list, page, &items, &found.length, &found.next, error);
    if (status != REMAT_OK)
        return status;
    found.items = items;
    *ret_list = found;
    return REMAT_OK;
}

void remat_measurement_list_clear(remat_measurement_list *list)
{
    for (size_t i = 0; i < list->length; i++)
        clear(&list->items[i]);
    free(list->items);
    free(list->next);
    *list = (remat_measurement_list){0};
}

/* ---- check ---- */

static remat_status verify(storage_connection *connection, sqlite3_stmt *row, remat_error *error)
{
    remat_measurement_record measurement = {0};
    remat_status status = read_measurement(row, &measurement, error);
    clear(&measurement);
    return status;
}

remat_status storage_verify_measurements(storage_connection *connection, uint64_t *damaged,
                                         remat_error *error)
{
    return storage_verify_rows(connection, SQL_CHECK_MEASUREMENTS, "measurement of schedule",
                               verify, damaged, error);
}
