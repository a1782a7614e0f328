#include "private.h"

#include <inttypes.h>
#include <stdlib.h>

enum { CLAIM_MAX = 1000 };

enum { ID = COLUMN_FIRST, STATE, SCHEDULE_ID, CREATED, ENDED, QUESTION, PROBLEM };
#define CHECKED "tttii" /* ID to ENDED */

static remat_status read_job(const storage_rows *rows, void *item, remat_error *error)
{
    remat_job_record *job = item;
    remat_status status = storage_check_row(rows, CHECKED, error);
    if (status != REMAT_OK)
        return status;
    *job = (remat_job_record){.created = storage_integer(rows, CREATED),
                              .ended = storage_integer(rows, ENDED)};
    const storage_text_column texts[] = {
        {ID, &job->id}, {STATE, &job->state}, {SCHEDULE_ID, &job->schedule_id}};
    status = storage_take_texts(rows, texts, 3, error);
    if (status == REMAT_OK)
        status = storage_take_blob(rows, QUESTION, storage_owner("job question", job->id),
                                   &job->question, error);
    if (status == REMAT_OK)
        status = storage_take_blob(rows, PROBLEM, storage_owner("job problem", job->id),
                                   &job->problem, error);
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
    return storage_run(connection, SQL_PUT_JOB, error, "tttiiibbtt", job->id, job->state,
                       job->schedule_id, job->created, job->ended, (int64_t)checksum,
                       &put->question, &put->problem, job->profile_id ? job->profile_id : "",
                       connection->store->owner);
}

remat_status remat_store_put_job(remat_store *store, const remat_job_record *job,
                                 remat_error *error)
{
    put_job put = {.job = job};
    remat_status status = storage_encode(storage_owner("job question", job->id), &job->question,
                                         &put.question, error);
    if (status == REMAT_OK)
        status = storage_encode(storage_owner("job problem", job->id), &job->problem, &put.problem,
                                error);
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
        forget->count = connection->backend->changes(connection);
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

remat_status remat_store_get_job(remat_store *store, const char *id, remat_job_record *ret_job,
                                 remat_error *error)
{
    storage_key key = {KIND_JOB, SQL_GET_JOB, {id}};
    remat_job_record job;
    remat_status status = storage_get(store, &key, read_job, &job, error);
    if (status == REMAT_OK)
        *ret_job = job;
    return status;
}

void remat_job_record_clear(remat_job_record *job)
{
    free(job->id);
    free(job->state);
    free(job->profile_id);
    free(job->schedule_id);
    free(job->question.data);
    free(job->problem.data);
    *job = (remat_job_record){0};
}

static void clear(void *item)
{
    remat_job_record_clear(item);
}

static const storage_items items = {sizeof(remat_job_record), read_job, clear};

remat_status remat_store_list_jobs(remat_store *store, bool unfinished_only, remat_page page,
                                   remat_job_list *ret_list, remat_error *error)
{
    storage_list list = {.items = &items,
                         .kind = KIND_JOB,
                         .statement = unfinished_only ? SQL_LIST_UNFINISHED_JOBS : SQL_LIST_JOBS,
                         .letter = unfinished_only ? 'u' : 'j',
                         .oldest_first = unfinished_only};
    storage_page found;
    remat_status status = storage_list_page(store, &list, page, &found, error);
    if (status == REMAT_OK)
        *ret_list = (remat_job_list){found.items, found.length, found.next};
    return status;
}

void remat_job_list_clear(remat_job_list *list)
{
    storage_page_clear((storage_page){list->items, list->length, list->next}, &items);
    *list = (remat_job_list){0};
}

/* ---- claim, cancel ---- */

typedef struct claiming {
    uint32_t limit;
    remat_job_list list; /* items has room for limit */
} claiming;

/* Nobody can finish a damaged one, and nothing but its row is lost with it. */
static remat_status drop_claimed(storage_connection *connection, storage_damage damage,
                                 remat_error *error)
{
    storage_log(connection->store, "dropped the damaged unfinished job %" PRId64, damage.seq);
    return storage_run(connection, SQL_DROP_JOB, error, "in", damage.seq, damage.guard);
}

static void clear_claimed(claiming *claim)
{
    while (claim->list.length > 0)
        remat_job_record_clear(&claim->list.items[--claim->list.length]);
}

static int compare_created(const void *a, const void *b)
{
    const remat_job_record *x = a, *y = b;
    return (x->created > y->created) - (x->created < y->created);
}

static remat_status run_claim(storage_connection *connection, void *argument, remat_error *error)
{
    claiming *claim = argument;
    storage_damage damaged[CLAIM_MAX];
    size_t damaged_count = 0;
    storage_rows rows;
    bool row;
    clear_claimed(claim);
    remat_status status = storage_query(connection, SQL_CLAIM_JOBS, &rows, error, "ti",
                                        connection->store->owner, (int64_t)claim->limit);
    if (status != REMAT_OK)
        return status;
    while ((status = storage_step(&rows, &row, error)) == REMAT_OK && row) {
        status = read_job(&rows, &claim->list.items[claim->list.length], error);
        if (status == REMAT_OK)
            claim->list.length++;
        else if (status == REMAT_CORRUPT)
            damaged[damaged_count++] = storage_damage_of(&rows);
        else
            break;
    }
    storage_done(&rows);
    for (size_t i = 0; status == REMAT_OK && i < damaged_count; i++)
        status = drop_claimed(connection, damaged[i], error);
    return status;
}

remat_status remat_store_claim_jobs(remat_store *store, uint32_t limit, remat_job_list *ret_list,
                                    remat_error *error)
{
    if (limit < 1 || limit > CLAIM_MAX)
        return remat_fail(error, REMAT_INVALID, "limit", "limit is %" PRIu32 "; it is 1 to %d",
                          limit, CLAIM_MAX);
    claiming claim = {.limit = limit, .list.items = calloc(limit, sizeof *claim.list.items)};
    if (!claim.list.items)
        return remat_fail_memory(error);
    remat_status status = storage_submit(store, run_claim, &claim, error);
    if (status != REMAT_OK) {
        clear_claimed(&claim);
        free(claim.list.items);
        return status;
    }
    qsort(claim.list.items, claim.list.length, sizeof *claim.list.items, compare_created);
    *ret_list = claim.list;
    return REMAT_OK;
}

static remat_status run_cancel(storage_connection *connection, void *argument, remat_error *error)
{
    const char *id = argument;
    const storage_backend *backend = connection->backend;
    remat_status status = storage_run(connection, SQL_CANCEL_JOB, error, "t", id);
    if (status != REMAT_OK || backend->changes(connection) == 0)
        return status;
    return backend->notify(connection, REMAT_STORE_CANCELLED, id, error);
}

remat_status remat_store_cancel_job(remat_store *store, const char *id, remat_error *error)
{
    return storage_submit(store, run_cancel, (void *)(uintptr_t)id, error);
}

const storage_check storage_check_jobs = {
    SQL_CHECK_JOBS, "job", {sizeof(remat_job_record), read_job, clear}};
