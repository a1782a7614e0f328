#include "private.h"

#include <math.h>
#include <stdlib.h>

enum {
    ID = COLUMN_FIRST,
    PROFILE_ID,
    SOLVER,
    REQUESTED_SOLVER,
    BUDGET,
    PEAK,
    MAKESPAN,
    OVERHEAD,
    CREATED,
    LAST_USED,
    QUESTION
};
#define CHECKED "ttttiirri" /* ID to CREATED */

/* Without its blobs. */
static remat_status read_fields(const storage_rows *rows, void *item, remat_error *error)
{
    remat_schedule_record *schedule = item;
    remat_status status = storage_check_row(rows, CHECKED, error);
    if (status != REMAT_OK)
        return status;
    *schedule = (remat_schedule_record){
        .budget = (uint64_t)storage_integer(rows, BUDGET),
        .peak = (uint64_t)storage_integer(rows, PEAK),
        .makespan = storage_real(rows, MAKESPAN),
        .overhead = storage_real(rows, OVERHEAD),
        .created = storage_integer(rows, CREATED),
        .last_used = storage_integer(rows, LAST_USED),
    };
    const storage_text_column texts[] = {{ID, &schedule->id},
                                         {PROFILE_ID, &schedule->profile_id},
                                         {SOLVER, &schedule->solver},
                                         {REQUESTED_SOLVER, &schedule->requested_solver}};
    status = storage_take_texts(rows, texts, 4, error);
    if (status != REMAT_OK)
        remat_schedule_record_clear(schedule);
    return status;
}

/* All but the body. */
static remat_status read_question(const storage_rows *rows, remat_schedule_record *schedule,
                                  remat_error *error)
{
    remat_status status = read_fields(rows, schedule, error);
    if (status != REMAT_OK)
        return status;
    status = storage_take_blob(rows, QUESTION, storage_owner("question", schedule->id),
                               &schedule->question, error);
    if (status != REMAT_OK)
        remat_schedule_record_clear(schedule);
    return status;
}

static remat_status read_body(const storage_rows *rows, remat_schedule_record *schedule,
                              remat_error *error)
{
    if (storage_is_null(rows, COLUMN_GUARD))
        return remat_fail(error, REMAT_CORRUPT, NULL,
                          "the body of schedule %s was damaged and has been dropped", schedule->id);
    return storage_load_blob(rows->connection, storage_integer(rows, COLUMN_GUARD),
                             storage_owner("body", schedule->id), &schedule->body, error);
}

/* ---- put ---- */

typedef struct put_schedule {
    const remat_schedule_record *schedule;
    remat_blob body, question; /* encoded */
    bool created;
} put_schedule;

static remat_status insert(storage_connection *connection, const put_schedule *put, int64_t profile,
                           int64_t body, remat_error *error)
{
    const remat_schedule_record *s = put->schedule;
    int64_t budget = (int64_t)s->budget, peak = (int64_t)s->peak;
    uint64_t checksum =
        storage_checksum(CHECKED, s->id, s->profile_id, s->solver, s->requested_solver, budget,
                         peak, s->makespan, s->overhead, s->created);
    return storage_run(connection, SQL_PUT_SCHEDULE, error, "tittiirriiinb", s->id, profile,
                       s->solver, s->requested_solver, budget, peak, s->makespan, s->overhead,
                       s->created, s->last_used, (int64_t)checksum, body, &put->question);
}

static remat_status run_put(storage_connection *connection, void *argument, remat_error *error)
{
    put_schedule *put = argument;
    const remat_schedule_record *schedule = put->schedule;
    int64_t profile[2], known[2], body; /* seq and blob */
    put->created = false;
    remat_status status =
        storage_numbers(connection, SQL_FIND_PROFILE, 2, profile, error, "t", schedule->profile_id);
    if (status == REMAT_OK && !profile[1])
        status = remat_fail(error, REMAT_NOT_FOUND, NULL, "there is no profile %s",
                            schedule->profile_id);
    if (status == REMAT_OK)
        status = storage_numbers(connection, SQL_FIND_SCHEDULE, 2, known, error, "t", schedule->id);
    if (status != REMAT_OK || known[1])
        return status;
    status = storage_save_blob(connection, &put->body, &body, error);
    if (status == REMAT_OK)
        status = insert(connection, put, profile[0], body, error);
    put->created = status == REMAT_OK;
    return status;
}

static remat_status put_new(remat_store *store, const remat_schedule_record *schedule,
                            bool *ret_created, remat_error *error)
{
    put_schedule put = {.schedule = schedule};
    remat_status status =
        storage_encode(storage_owner("body", schedule->id), &schedule->body, &put.body, error);
    if (status == REMAT_OK)
        status = storage_encode(storage_owner("question", schedule->id), &schedule->question,
                                &put.question, error);
    if (status == REMAT_OK)
        status = storage_submit(store, run_put, &put, error);
    if (status == REMAT_OK)
        *ret_created = put.created;
    free(put.body.data);
    free(put.question.data);
    return status;
}

remat_status remat_store_put_schedule(remat_store *store, const remat_schedule_record *schedule,
                                      bool *ret_created, remat_error *error)
{
    if (!isfinite(schedule->makespan) || !isfinite(schedule->overhead))
        return remat_fail(error, REMAT_INVALID,
                          isfinite(schedule->makespan) ? "overhead" : "makespan",
                          "a schedule's makespan and overhead are finite numbers");
    /* This also drops a damaged body, which the new one then replaces. */
    remat_schedule_record stored;
    remat_status status = remat_store_get_schedule(store, schedule->id, &stored, error);
    if (status == REMAT_OK || status == REMAT_CORRUPT)
        remat_schedule_record_clear(&stored);
    if (status == REMAT_OK)
        *ret_created = false;
    if (status != REMAT_NOT_FOUND && status != REMAT_CORRUPT)
        return status;
    return put_new(store, schedule, ret_created, error);
}

/* ---- get, list ---- */

typedef struct found_schedule {
    remat_schedule_record schedule; /* also where its body is damaged */
    storage_key key;
} found_schedule;

static remat_status read_schedule(const storage_rows *rows, void *item, remat_error *error)
{
    found_schedule *found = item;
    remat_status status = read_question(rows, &found->schedule, error);
    if (status != REMAT_OK)
        return status;
    found->key.kind = KIND_SCHEDULE_BODY;
    return read_body(rows, &found->schedule, error);
}

remat_status remat_store_get_schedule(remat_store *store, const char *id,
                                      remat_schedule_record *ret_schedule, remat_error *error)
{
    found_schedule found = {.key = {KIND_SCHEDULE, SQL_GET_SCHEDULE, {id}}};
    remat_status status = storage_get(store, &found.key, read_schedule, &found, error);
    if (status == REMAT_OK || status == REMAT_CORRUPT)
        *ret_schedule = found.schedule;
    else
        remat_schedule_record_clear(&found.schedule);
    return status;
}

void remat_schedule_record_clear(remat_schedule_record *schedule)
{
    free(schedule->id);
    free(schedule->profile_id);
    free(schedule->solver);
    free(schedule->requested_solver);
    free(schedule->question.data);
    free(schedule->body.data);
    *schedule = (remat_schedule_record){0};
}

static void clear(void *item)
{
    remat_schedule_record_clear(item);
}

static const storage_items items = {sizeof(remat_schedule_record), read_fields, clear};

remat_status remat_store_list_schedules(remat_store *store, const char *profile_id,
                                        const char *solver, remat_page page,
                                        remat_schedule_list *ret_list, remat_error *error)
{
    storage_list list = {.items = &items,
                         .kind = KIND_SCHEDULE,
                         .statement = profile_id && solver ? SQL_LIST_SCHEDULES_OF_BOTH
                                      : profile_id         ? SQL_LIST_SCHEDULES_OF_PROFILE
                                      : solver             ? SQL_LIST_SCHEDULES_OF_SOLVER
                                                           : SQL_LIST_SCHEDULES,
                         .letter = 's',
                         .filters = {profile_id, solver}};
    storage_page found;
    remat_status status = storage_list_page(store, &list, page, &found, error);
    if (status == REMAT_OK)
        *ret_list = (remat_schedule_list){found.items, found.length, found.next};
    return status;
}

void remat_schedule_list_clear(remat_schedule_list *list)
{
    storage_page_clear((storage_page){list->items, list->length, list->next}, &items);
    *list = (remat_schedule_list){0};
}

/* ---- check ---- */

/* A body that was dropped is not damage: its question is there to be solved again. */
static remat_status read_whole(const storage_rows *rows, void *item, remat_error *error)
{
    remat_status status = read_question(rows, item, error);
    if (status != REMAT_OK || storage_is_null(rows, COLUMN_GUARD))
        return status;
    status = read_body(rows, item, error);
    if (status != REMAT_OK)
        clear(item);
    return status;
}

const storage_check storage_check_schedules = {
    SQL_CHECK_SCHEDULES, "schedule", {sizeof(remat_schedule_record), read_whole, clear}};
