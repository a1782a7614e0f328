#include "private.h"

#include <stdlib.h>

enum { ID = COLUMN_FIRST, STATE, SCHEDULE_ID, CREATED, ENDED, QUESTION, PROBLEM };
#define CHECKED "tttii" /* ID to ENDED */

static uint64_t question_owner(const char *id)
{
    return storage_checksum("tt", "job question", id);
}

static uint64_t problem_owner(const char *id)
{
    return storage_checksum("tt", "job problem", id);
}

static remat_status read_job(sqlite3_stmt *row, void *item, remat_error *error)
{
    remat_job_record *job = item;
    if ((uint64_t)sqlite3_column_int64(row, COLUMN_CHECKSUM) !=
        storage_row_checksum(row, COLUMN_FIRST, CHECKED))
        return remat_fail(error, REMAT_CORRUPT, NULL, "its checksum does not match");
    *job = (remat_job_record){.created = sqlite3_column_int64(row, CREATED),
                              .ended = sqlite3_column_int64(row, ENDED)};
    remat_status status = storage_take_text(row, ID, &job->id, error);
    if (status == REMAT_OK)
        status = storage_take_text(row, STATE, &job->state, error);
    if (status == REMAT_OK)
        status = storage_take_text(row, SCHEDULE_ID, &job->schedule_id, error);
    if (status == REMAT_OK)
        status = storage_take_blob(row, QUESTION, question_owner(job->id), &job->question, error);
    if (status == REMAT_OK)
        status = storage_take_blob(row, PROBLEM, problem_owner(job->id), &job->problem, error);
    if (status != REMAT_OK)
        remat_job_record_clear(job);
    return status;
}

/* ---- put, forget ---- */

typedef struct put_job {
    const remat_job_record *job;
    remat_blob question, problem; /* encoded */
} put_job;

static remat_status run_put(storage_connection *connection, void *argument, remat_error *error)
{
    const put_job *put = argument;
    const remat_job_record *job = put->job;
    uint64_t checksum =
        storage_checksum(CHECKED, job->id, job->state, job->schedule_id, job->created, job->ended);
    return storage_run(connection, SQL_PUT_JOB, error, "tttiiibb", job->id, job->state,
                       job->schedule_id, job->created, job->ended, (int64_t)checksum,
                       &put->question, &put->problem);
}

remat_status remat_store_put_job(remat_store *store, const remat_job_record *job,
                                 remat_error *error)
{
    put_job put = {.job = job};
    remat_status status = storage_encode(question_owner(job->id), job->question.data,
                                         job->question.length, &put.question, error);
    if (status == REMAT_OK)
        status = storage_encode(problem_owner(job->id), job->problem.data, job->problem.length,
                                &put.problem, error);
    if (status == REMAT_OK)
        status = storage_submit(store, run_put, &put, error);
    free(put.question.data);
    free(put.problem.data);
    return status;
}

typedef struct forgetting {
    int64_t before;
    uint64_t count;
} forgetting;

static remat_status run_forget(storage_connection *connection, void *argument, remat_error *error)
{
    forgetting *forget = argument;
    remat_status status = storage_run(connection, SQL_FORGET_JOBS, error, "i", forget->before);
    if (status == REMAT_OK)
        forget->count = (uint64_t)sqlite3_changes64(connection->db);
    return status;
}

remat_status remat_store_forget_jobs(remat_store *store, int64_t ended_before, uint64_t *ret_count,
                                     remat_error *error)
{
    forgetting forget = {.before = ended_before};
    remat_status status = storage_submit(store, run_forget, &forget, error);
    if (status == REMAT_OK)
        *ret_count = forget.count;
    return status;
}

/* ---- get, list ---- */

static remat_status get(storage_connection *connection, const char *id, remat_job_record *ret_job,
                        storage_damage *ret_damage, remat_error *error)
{
    sqlite3_stmt *query;
    bool row;
    remat_status status = storage_query(connection, SQL_GET_JOB, &query, error, "t", id);
    if (status != REMAT_OK)
        return status;
    status = storage_step(connection, query, &row, error);
    if (status == REMAT_OK && !row)
        status = remat_fail(error, REMAT_NOT_FOUND, NULL, "there is no job %s", id);
    if (status == REMAT_OK) {
        *ret_damage = storage_damage_of(query);
        status = read_job(query, ret_job, error);
    }
    storage_done(query);
    return status;
}

remat_status remat_store_get_job(remat_store *store, const char *id, remat_job_record *ret_job,
                                 remat_error *error)
{
    storage_connection *connection;
    remat_status status = storage_read_begin(store, &connection, error);
    if (status != REMAT_OK)
        return status;
    storage_damage damage = {0};
    remat_error why = {0};
    remat_job_record job;
    status = get(connection, id, &job, &damage, &why);
    storage_read_end(store, connection);
    if (status == REMAT_OK)
        *ret_job = job;
    else if (error)
        *error = why;
    if (status == REMAT_CORRUPT && damage.seq)
        storage_drop(store, KIND_JOB, damage, id, why.message);
    return status;
}

void remat_job_record_clear(remat_job_record *job)
{
    free(job->id);
    free(job->state);
    free(job->schedule_id);
    free(job->question.data);
    free(job->problem.data);
    *job = (remat_job_record){0};
}

static void clear(void *item)
{
    remat_job_record_clear(item);
}

remat_status remat_store_list_jobs(remat_store *store, bool unfinished_only, remat_page page,
                                   remat_job_list *ret_list, remat_error *error)
{
    storage_list list = {.kind = KIND_JOB,
                         .statement = unfinished_only ? SQL_LIST_UNFINISHED_JOBS : SQL_LIST_JOBS,
                         .letter = unfinished_only ? 'u' : 'j',
                         .oldest_first = unfinished_only,
                         .item_size = sizeof(remat_job_record),
                         .read = read_job,
                         .clear = clear};
    remat_job_list found;
    void *items;
    remat_status status =
        storage_list_page(store, &list, page, &items, &found.length, &found.next, error);
    if (status != REMAT_OK)
        return status;
    found.items = items;
    *ret_list = found;
    return REMAT_OK;
}

void remat_job_list_clear(remat_job_list *list)
{
    for (size_t i = 0; i < list->length; i++)
        remat_job_record_clear(&list->items[i]);
    free(list->items);
    free(list->next);
    *list = (remat_job_list){0};
}

/* ---- check ---- */

static remat_status verify(storage_connection *connection, sqlite3_stmt *row, remat_error *error)
{
    remat_job_record job;
    remat_status status = read_job(row, &job, error);
    if (status == REMAT_OK)
        remat_job_record_clear(&job);
    return status;
}

remat_status storage_verify_jobs(storage_connection *connection, uint64_t *damaged,
                                 remat_error *error)
{
    return storage_verify_rows(connection, SQL_CHECK_JOBS, "job", verify, damaged, error);
}
