#include "jobs/job.h"

#include "host/machine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool job_is_unsaved(const job *one)
{
    return one->acknowledged && one->saved_state != (int)one->state;
}

static void save_work(task *t)
{
    job *one = (job *)((char *)t - offsetof(job, save));
    one->save_status =
        remat_store_put_job(one->jobs->service->store, &one->record, &one->save_error);
}

static void save_done(task *t)
{
    job *one = (job *)((char *)t - offsetof(job, save));
    free(one->record.problem.data);
    free(one->record.question.data);
    one->record = (remat_job_record){0};
    one->saving = false;
    if (one->save_status)
        log_line(LOG_ERROR, "a job could not be stored",
                 json_pack("{s:s, s:s}", "job_id", one->id, "why", one->save_error.message));
    else
        one->saved_state = (int)one->saving_state;
    job_answer_acknowledgements(one);
    if (!one->save_status)
        job_save(one);
}

/* The question's text and, in its member "job", what a question says not; NULL: out of memory. */
static char *stored_question(const job *one)
{
    json_t *json = json_loads(one->question.text, 0, NULL);
    json_t *own = json_pack("{s:s*, s:s, s:I, s:s*}", "profile_name", one->profile_name, "asked_by",
                            one->asked_by, "asked", (json_int_t)one->asked, "traceparent",
                            one->traceparent[0] ? one->traceparent : NULL);
    remat_json_set(&json, "job", own);
    char *text = json ? remat_json_text(json) : NULL;
    json_decref(json);
    return text;
}

void job_save(job *one)
{
    if (one->saving || !job_is_unsaved(one))
        return;
    char *problem = NULL, *question = stored_question(one);
    if (!question) /* no memory: it is written when the job ends, or by jobs_save_again */
        return;
    if (job_has_problem(one)) {
        json_t *json = remat_problem_encode(remat_problem_of(&one->error), &one->error);
        problem = json ? remat_json_text(json) : NULL;
        json_decref(json);
    }
    one->record = (remat_job_record){.id = one->id,
                                     .state = (char *)job_state_name(one->state),
                                     .profile_id = one->question.profile_id,
                                     .question = {question, question ? strlen(question) : 0},
                                     .schedule_id = (char *)job_schedule_id(one),
                                     .problem = {problem, problem ? strlen(problem) : 0},
                                     .created = one->created,
                                     .ended = one->ended};
    one->saving = true;
    one->saving_state = one->state;
    one->save = (task){.work = save_work, .done = save_done, .lane = LANE_LIGHT};
    queue_submit(one->jobs->service->queue, &one->save);
}

/* What stored_question kept beside the question. */
static void take_own(job *one, const remat_job_record *record)
{
    json_t *json = json_loadb(record->question.data, record->question.length, 0, NULL);
    const json_t *own = json_object_get(json, "job");
    const char *name = json_string_value(json_object_get(own, "profile_name"));
    const char *by = json_string_value(json_object_get(own, "asked_by"));
    const char *parent = json_string_value(json_object_get(own, "traceparent"));
    one->profile_name = name ? strdup(name) : NULL;
    one->asked = (unsigned)json_integer_value(json_object_get(own, "asked"));
    snprintf(one->asked_by, sizeof one->asked_by, "%s", by ? by : "");
    snprintf(one->traceparent, sizeof one->traceparent, "%s", parent ? parent : "");
    json_decref(json);
}

/* A stored job that this process now has. It waits for its turn among the parked, whatever the
 * queue holds. */
static remat_status adopt(jobs *j, const remat_job_record *record, remat_error *error)
{
    remat_question q;
    job *one = NULL;
    HASH_FIND(by_id, j->by_id, record->id, strlen(record->id), one);
    if (one)
        return REMAT_OK;
    remat_status status =
        remat_question_read(record->question.data, record->question.length, &q, error);
    if (status)
        return status;
    bool second = job_of_key(j, q.id) != NULL;
    one = job_new(j, record->id, second ? record->id : q.id, INFINITY);
    if (!one) {
        remat_question_clear(&q);
        return remat_fail_memory(error);
    }
    one->question = q;
    take_own(one, record);
    one->second = second;
    one->created = record->created;
    const int64_t age = machine_clock() - record->created; /* it was asked before this daemon was */
    one->begun -= age > 0 ? (uint64_t)age * 1000000 : 0;
    one->acknowledged = true;
    one->saved_state = JOB_QUEUED;
    one->parked = true;
    if (!job_know(one)) {
        job_free(one);
        return remat_fail_memory(error);
    }
    j->n_unfinished++;
    job_wake(one);
    return REMAT_OK;
}

void jobs_adopt(jobs *j, const remat_job_record *record)
{
    remat_error error;
    if (adopt(j, record, &error))
        log_line(LOG_WARNING, "a stored job cannot be read and is left",
                 json_pack("{s:s, s:s}", "job_id", record->id, "why", error.message));
}

remat_status jobs_resume(jobs *j, remat_error *error)
{
    enum { AT_ONCE = 1000 };
    size_t claimed;
    do {
        remat_job_list list = {0};
        remat_status status = remat_store_claim_jobs(j->service->store, AT_ONCE, &list, error);
        if (status)
            return status;
        for (size_t i = 0; i < list.length; i++)
            jobs_adopt(j, &list.items[i]);
        claimed = list.length;
        remat_job_list_clear(&list);
    } while (claimed == AT_ONCE);
    return REMAT_OK;
}

void jobs_save_again(jobs *j)
{
    for (job *one = j->by_id, *after; one; one = after) {
        after = one->by_id.next;
        if (one->state >= JOB_DONE)
            job_save(one);
    }
}
