/* What the files of jobs share: a job, and what they do with one. job.c makes and frees it,
 * record.c keeps its record, run.c runs it, jobs.c answers those who ask. */
#ifndef REMAT_SERVER_JOB_H
#define REMAT_SERVER_JOB_H

#include "jobs/jobs.h"
#include "service.h"

#define HASH_NONFATAL_OOM 1
#define uthash_nonfatal_oom(element) ((element)->unhashed = 1)
#include <uthash.h>

enum { JOB_ID_SIZE = 33, ASKER_SIZE = sizeof((request *)0)->request_id, MOST_ASKERS = 256 };

/* JOB_INFEASIBLE: it ran to its end, and the answer is that nothing fits. */
typedef enum job_state {
    JOB_QUEUED,
    JOB_RUNNING,
    JOB_DONE,
    JOB_FAILED,
    JOB_CANCELLED,
    JOB_INFEASIBLE
} job_state;

/* Who asked: a request of a client. */
typedef struct job_asker {
    char request_id[ASKER_SIZE], client[CLIENT_SIZE];
    bool told; /* of the job, instead of an answer */
} job_asker;

typedef struct job {
    task task; /* the solve; first member */
    jobs *jobs;
    UT_hash_handle by_id, by_key;
    int unhashed;
    struct job *prev, *next; /* ended ones, oldest first */
    char id[JOB_ID_SIZE];
    char key[REMAT_ID_SIZE]; /* its question's id; of a second job of it its own id */
    char owner[CLIENT_SIZE]; /* whose limit of unfinished solves it counts in; "": nobody's */
    remat_question question;
    char *profile_name;         /* owned; NULL: not known */
    char asked_by[CLIENT_SIZE]; /* who asked first: "token ci", "address 10.0.0.7"; "": not known */
    char traceparent[TRACEPARENT_SIZE]; /* of who asked first; "": none */
    unsigned asked;                     /* requests that asked for it and did not take that back */
    job_asker *askers; /* owned: of the first MOST_ASKERS, and behind them those who left */
    unsigned n_askers, n_known;
    job_state state;
    asker *waiters;
    atomic_bool cancel;
    bool interrupted; /* cancelled by the stop of the daemon */
    bool elsewhere;   /* result: another process has the question */
    bool parked;      /* neither queued nor running: woken from time to time */
    bool second;      /* of a question that this process had another job of */
    atomic_uint permille;
    _Atomic double best_makespan, lower_bound; /* so far, in the profile's unit; 0: none */
    uint64_t begun;                            /* uv_hrtime of the asking */
    int64_t created, ended;
    double seconds; /* elapsed at the end */
    engine_terms terms;
    engine_outcome outcome;
    body *body;
    remat_error error;
    remat_status status;
    /* Durability. */
    task save; /* writes the job's record */
    bool acknowledged, saving;
    int saved_state; /* last one in the store, -1: none */
    job_state saving_state;
    remat_job_record record; /* being written */
    remat_error save_error;
    remat_status save_status;
} job;

struct jobs {
    service *service;
    job *by_id, *by_key; /* by_key: unfinished ones only */
    job *ended;
    unsigned n_ended, n_unfinished;
    uv_timer_t timer;
    unsigned n_waiting; /* askers */
    bool stopping;
};

/* "queued" and so on, as the wire and the store have them. */
const char *job_state_name(job_state state);

/* Whether it ended by a problem. */
bool job_has_problem(const job *one);

/* Of a schedule that is done, else NULL: an answer to a trade-off is found by its question. */
const char *job_schedule_id(const job *one);

/* A job to be filled in and started; NULL: out of memory. id NULL: a new one. */
job *job_new(jobs *j, const char *id, const char *key, double cost);
void job_free(job *one);
/* False: out of memory, and nobody knows it. */
bool job_know(job *one);
/* It counts no longer among the unfinished solves of its client. */
void job_disown(job *one);
/* NULL: none that answers somebody new. */
job *job_of_key(jobs *j, const char *key);
/* A running job is seen as such by everyone who looks; the pool starts it without telling. */
void job_refresh_state(job *one);
/* Of the ended jobs in memory the oldest go. */
void job_forget_oldest(jobs *j);

/* Whether the store's record is behind. */
bool job_is_unsaved(const job *one);
/* Brings the job's record up to date, if anybody was told of it. */
void job_save(job *one);

void job_run(task *t);      /* its work */
void job_run_done(task *t); /* and what follows on the loop thread */
void job_end(job *one, job_state state);
/* Runs a parked job again. */
void job_wake(job *one);
/* Takes the job back from where it waits; false when it runs. */
bool job_withdraw(job *one);
/* One that waits waits as if it had that cost. */
void job_put_back(job *one, double cost);

void job_answer_waiters(job *one);
/* Those who were promised an acknowledgement get it once the job is in the store. */
void job_answer_acknowledgements(job *one);
/* Everyone who waits is told to ask again: the daemon stops. */
void job_send_away(job *one);

#endif
