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

static uint64_t question_owner(const char *id)
{
    return storage_checksum("tt", "question", id);
}

static uint64_t body_owner(const char *id)
{
    return storage_checksum("tt", "body", id);
}

/* Without its blobs. */
static remat_status read_fields(sqlite3_stmt *row, void *item, remat_error *error)
{
    remat_schedule_record *schedule = item;
    if ((uint64_t)sqlite3_column_int64(row, COLUMN_CHECKSUM) !=
        storage_row_checksum(row, COLUMN_FIRST, CHECKED))
        return remat_fail(error, REMAT_CORRUPT, NULL, "its checksum does not match");
    *schedule = (remat_schedule_record){
        .budget = (uint64_t)sqlite3_column_int64(row, BUDGET),
        .peak = (uint64_t)sqlite3_column_int64(row, PEAK),
        .makespan = sqlite3_column_double(row, MAKESPAN),
        .overhead = sqlite3_column_double(row, OVERHEAD),
        .created = sqlite3_column_int64(row, CREATED),
        .last_used = sqlite3_column_int64(row, LAST_USED),
    };
    remat_status status = storage_take_text(row, ID, &schedule->id, error);
    if (status == REMAT_OK)
        status = storage_take_text(row, PROFILE_ID, &schedule->profile_id, error);
    if (status == REMAT_OK)
        status = storage_take_text(row, SOLVER, &schedule->solver, error);
    if (status == REMAT_OK)
        status = storage_take_text(row, REQUESTED_SOLVER, &schedule->requested_solver, error);
    if (status != REMAT_OK)
        remat_schedule_record_clear(schedule);
    return status;
}

/* All but the body. */
static remat_status read_question(sqlite3_stmt *row, remat_schedule_record *schedule,
                                  remat_error *error)
{
    remat_status status = read_fields(row, schedule, error);
    if (status != REMAT_OK)
        return status;
    status =
        storage_take_blob(row, QUESTION, question_owner(schedule->id), &schedule->question, error);
    if (status != REMAT_OK)
        remat_schedule_record_clear(schedule);
    return status;
}

static remat_status read_body(storage_connection *connection, sqlite3_stmt *row,
                              remat_schedule_record *schedule, remat_error *error)
{
    if (sqlite3_column_type(row, COLUMN_GUARD) == SQLITE_NULL)
        return remat_fail(error, REMAT_CORRUPT, NULL,
                          "the body of schedule %s was damaged and has been dropped", schedule->id);
    return storage_load_blob(connection, sqlite3_column_int64(row, COLUMN_GUARD),
                             body_owner(schedule->id), &schedule->body, error);
}

/* ---- put ---- */

typedef struct put_schedule {
    const remat_schedule_record *schedule;
    remat_blob body, question; /* encoded */
    bool created;
} put_schedule;

/* Two numbers of the record of that id; 0 for NULL and when there is none. */
static remat_status find(storage_connection *connection, storage_statement statement,
                         const char *id, int64_t *ret_seq, int64_t *ret_blob, remat_error *error)
{
    sqlite3_stmt *query;
    bool row;
    remat_status status = storage_query(connection, statement, &query, error, "t", id);
    if (status != REMAT_OK)
        return status;
    status = storage_step(connection, query, &row, error);
    if (status == REMAT_OK) {
        *ret_seq = row ? sqlite3_column_int64(query, 0) : 0;
        *ret_blob = row ? sqlite3_column_int64(query, 1) : 0;
    }
    storage_done(query);
    return status;
}

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
    int64_t profile, document, seq, body;
    put->created = false;
    remat_status status =
        find(connection, SQL_FIND_PROFILE, schedule->profile_id, &profile, &document, error);
    if (status == REMAT_OK && !document)
        status = remat_fail(error, REMAT_NOT_FOUND, NULL, "there is no profile %s",
                            schedule->profile_id);
    if (status == REMAT_OK)
        status = find(connection, SQL_FIND_SCHEDULE, schedule->id, &seq, &body, error);
    if (status != REMAT_OK || body)
        return status;
    status = storage_save_blob(connection, &put->body, &body, error);
    if (status == REMAT_OK)
        status = insert(connection, put, profile, body, error);
    put->created = status == REMAT_OK;
    return status;
}

static remat_status put_new(remat_store *store, const remat_schedule_record *schedule,
                            bool *ret_created, remat_error *error)
{
    put_schedule put = {.schedule = schedule};
    remat_status status = storage_encode(body_owner(schedule->id), schedule->body.data,
                                         schedule->body.length, &put.body, error);
    if (status == REMAT_OK)
        status = storage_encode(question_owner(schedule->id), schedule->question.data,
                                schedule->question.length, &put.question, error);
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
    remat_schedule_record schedule;
    storage_damage damage; /* seq is 0: nothing to drop */
    storage_kind kind;
} found_schedule;

static remat_status get(storage_connection *connection, const char *id, found_schedule *found,
                        remat_error *error)
{
    sqlite3_stmt *query;
    bool row;
    remat_status status = storage_query(connection, SQL_GET_SCHEDULE, &query, error, "t", id);
    if (status != REMAT_OK)
        return status;
    status = storage_step(connection, query, &row, error);
    if (status == REMAT_OK && !row)
        status = remat_fail(error, REMAT_NOT_FOUND, NULL, "there is no schedule %s", id);
    if (status == REMAT_OK) {
        found->damage = storage_damage_of(query);
        found->kind = KIND_SCHEDULE;
        status = read_question(query, &found->schedule, error);
        if (status == REMAT_OK) {
            found->kind = KIND_SCHEDULE_BODY;
            status = read_body(connection, query, &found->schedule, error);
        }
    }
    storage_done(query);
    return status;
}

remat_status remat_store_get_schedule(remat_store *store, const char *id,
                                      remat_schedule_record *ret_schedule, remat_error *error)
{
    storage_connection *connection;
    remat_status status = storage_read_begin(store, &connection, error);
    if (status != REMAT_OK) {
        if (status == REMAT_CORRUPT)
            *ret_schedule = (remat_schedule_record){0};
        return status;
    }
    found_schedule found = {0};
    remat_error why = {0};
    status = get(connection, id, &found, &why);
    storage_read_end(store, connection);
    if (status == REMAT_OK || status == REMAT_CORRUPT)
        *ret_schedule = found.schedule;
    else
        remat_schedule_record_clear(&found.schedule);
    if (status != REMAT_OK && error)
        *error = why;
    bool dropped_before = found.kind == KIND_SCHEDULE_BODY && !found.damage.guard;
    if (status == REMAT_CORRUPT && found.damage.seq && !dropped_before)
        storage_drop(store, found.kind, found.damage, id, why.message);
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

remat_status remat_store_list_schedules(remat_store *store, const char *profile_id,
                                        const char *solver, remat_page page,
                                        remat_schedule_list *ret_list, remat_error *error)
{
    storage_list list = {.kind = KIND_SCHEDULE,
                         .statement = profile_id && solver ? SQL_LIST_SCHEDULES_OF_BOTH
                                      : profile_id         ? SQL_LIST_SCHEDULES_OF_PROFILE
                                      : solver             ? SQL_LIST_SCHEDULES_OF_SOLVER
                                                           : SQL_LIST_SCHEDULES,
                         .letter = 's',
                         .filters = {profile_id, solver},
                         .item_size = sizeof(remat_schedule_record),
                         .read = read_fields,
                         .clear = clear};
    remat_schedule_list found;
    void *items;
    remat_status status =
        storage_list_page(store, &list, page, &items, &found.length, &found.next, error);
    if (status != REMAT_OK)
        return status;
    found.items = items;
    *ret_list = found;
    return REMAT_OK;
}

void remat_schedule_list_clear(remat_schedule_list *list)
{
    for (size_t i = 0; i < list->length; i++)
        remat_schedule_record_clear(&list->items[i]);
    free(list->items);
    free(list->next);
    *list = (remat_schedule_list){0};
}

/* ---- check ---- */

/* A body that was dropped is not damage: its question is there to be solved again. */
static remat_status verify(storage_connection *connection, sqlite3_stmt *row, remat_error *error)
{
    remat_schedule_record schedule;
    remat_status status = read_question(row, &schedule, error);
    if (status != REMAT_OK)
        return status;
    if (sqlite3_column_type(row, COLUMN_GUARD) != SQLITE_NULL)
        status = read_body(connection, row, &schedule, error);
    remat_schedule_record_clear(&schedule);
    return status;
}

remat_status storage_verify_schedules(storage_connection *connection, uint64_t *damaged,
                                      remat_error *error)
{
    return storage_verify_rows(connection, SQL_CHECK_SCHEDULES, "schedule", verify, damaged, error);
}
