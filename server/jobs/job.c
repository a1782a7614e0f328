#include "jobs/job.h"

#include "host/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum { ENDED_KEPT = 1000 };

const char *job_state_name(job_state state)
{
    static const char *const names[] = {"queued", "running",   "done",
                                        "failed", "cancelled", "infeasible"};
    return names[state];
}

bool job_has_problem(const job *one)
{
    return one->state > JOB_DONE;
}

const char *job_schedule_id(const job *one)
{
    bool schedule = one->question.kind == REMAT_ASK_SCHEDULE;
    return schedule && one->state == JOB_DONE ? one->outcome.id : NULL;
}

void job_refresh_state(job *one)
{
    if (one->state == JOB_QUEUED && one->task.running)
        one->state = JOB_RUNNING;
}

/* ---- making ---- */

static void make_id(char id[JOB_ID_SIZE])
{
    uint64_t words[2] = {uv_hrtime(), 0};
    uv_random(NULL, NULL, words, sizeof words, 0, NULL);
    snprintf(id, JOB_ID_SIZE, "%016llx%016llx", (unsigned long long)words[0],
             (unsigned long long)words[1]);
}

job *job_new(jobs *j, const char *id, const char *key, double cost)
{
    job *one = calloc(1, sizeof *one);
    if (!one)
        return NULL;
    one->jobs = j;
    one->begun = uv_hrtime();
    one->created = machine_clock();
    one->saved_state = -1;
    one->task = (task){.work = job_run, .done = job_run_done, .lane = LANE_HEAVY, .cost = cost};
    if (id)
        snprintf(one->id, sizeof one->id, "%s", id);
    else
        make_id(one->id);
    snprintf(one->key, sizeof one->key, "%s", key);
    return one;
}

bool job_know(job *one)
{
    jobs *j = one->jobs;
    HASH_ADD(by_id, j->by_id, id, strlen(one->id), one);
    if (one->unhashed)
        return false;
    HASH_ADD(by_key, j->by_key, key, strlen(one->key), one);
    if (!one->unhashed)
        return true;
    HASH_DELETE(by_id, j->by_id, one);
    return false;
}

job *job_of_key(jobs *j, const char *key)
{
    job *one = NULL;
    HASH_FIND(by_key, j->by_key, key, strlen(key), one);
    /* A cancelled job that is still running answers nobody new. */
    return one && !atomic_load(&one->cancel) ? one : NULL;
}

/* ---- freeing ---- */

void job_disown(job *one)
{
    if (one->owner[0])
        limits_end_job(one->jobs->service->limits, one->owner);
    one->owner[0] = '\0';
}

void job_free(job *one)
{
    job_disown(one);
    remat_question_clear(&one->question);
    body_release(one->body);
    free(one->profile_name);
    free(one->askers);
    free(one);
}

void job_forget_oldest(jobs *j)
{
    job *one, *next;
    DL_FOREACH_SAFE(j->ended, one, next)
    {
        if (j->n_ended <= ENDED_KEPT)
            return;
        if (one->saving || job_is_unsaved(one))
            continue;
        DL_DELETE(j->ended, one);
        j->n_ended--;
        HASH_DELETE(by_id, j->by_id, one);
        job_free(one);
    }
}
