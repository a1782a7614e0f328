#include "private.h"

#include <stdlib.h>

enum { SCHEDULE_ID = COLUMN_FIRST, CREATED, BODY };
#define CHECKED "ti" /* SCHEDULE_ID, CREATED */

static uint64_t body_owner(const char *schedule_id, int64_t created)
{
    return storage_checksum("tti", "measurement", schedule_id, created);
}

static remat_status read_measurement(const storage_rows *rows, void *item, remat_error *error)
{
    remat_measurement_record *measurement = item;
    remat_status status = storage_check_row(rows, CHECKED, error);
    if (status != REMAT_OK)
        return status;
    *measurement = (remat_measurement_record){.id = storage_integer(rows, COLUMN_SEQ),
                                              .created = storage_integer(rows, CREATED)};
    const char *schedule_id = storage_text(rows, SCHEDULE_ID);
    return storage_take_blob(rows, BODY, body_owner(schedule_id, measurement->created),
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
    int64_t schedule, seq;
    remat_status status =
        storage_numbers(connection, SQL_FIND_SCHEDULE, 1, &schedule, error, "t", put->schedule_id);
    if (status == REMAT_OK && !schedule)
        status =
            remat_fail(error, REMAT_NOT_FOUND, NULL, "there is no schedule %s", put->schedule_id);
    if (status != REMAT_OK)
        return status;
    uint64_t checksum = storage_checksum(CHECKED, put->schedule_id, put->created);
    status = storage_numbers(connection, SQL_PUT_MEASUREMENT, 1, &seq, error, "iiib", schedule,
                             put->created, (int64_t)checksum, &put->body);
    if (status == REMAT_OK)
        put->id = seq;
    return status;
}

remat_status remat_store_put_measurement(remat_store *store, const char *schedule_id,
                                         remat_measurement_record *measurement, remat_error *error)
{
    put_measurement put = {.schedule_id = schedule_id, .created = measurement->created};
    remat_status status = storage_encode(body_owner(schedule_id, measurement->created),
                                         &measurement->body, &put.body, error);
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

static const storage_items items = {sizeof(remat_measurement_record), read_measurement, clear};

remat_status remat_store_list_measurements(remat_store *store, const char *schedule_id,
                                           remat_page page, remat_measurement_list *ret_list,
                                           remat_error *error)
{
    storage_list list = {.items = &items,
                         .kind = KIND_MEASUREMENT,
                         .statement = SQL_LIST_MEASUREMENTS,
                         .letter = 'm',
                         .filters = {schedule_id}};
    storage_page found;
    remat_status status = storage_list_page(store, &list, page, &found, error);
    if (status == REMAT_OK)
        *ret_list = (remat_measurement_list){found.items, found.length, found.next};
    return status;
}

void remat_measurement_list_clear(remat_measurement_list *list)
{
    storage_page_clear((storage_page){list->items, list->length, list->next}, &items);
    *list = (remat_measurement_list){0};
}

const storage_check storage_check_measurements = {
    SQL_CHECK_MEASUREMENTS,
    "measurement of schedule",
    {sizeof(remat_measurement_record), read_measurement, clear}};
