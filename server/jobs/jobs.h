/* Solves under way. Identical questions are one job; requests wait for it, are told its id when
 * their patience ends, and can watch or cancel it. Loop thread only.
 *
 * A job whose id was told to somebody (202) is durable: it is in the store before it is told, and a
 * restart goes on with it. */
#ifndef REMAT_SERVER_JOBS_H
#define REMAT_SERVER_JOBS_H

#include "engine/engine.h"
#include "http/http.h"

typedef struct jobs jobs;

jobs *jobs_new(struct service *s);
void jobs_free(jobs *j); /* accepts NULL; no job may be unfinished */

/* Goes on with the unfinished jobs of the store that no other process has. */
remat_status jobs_resume(jobs *j, remat_error *error);
/* Goes on with one that remat_store_claim_jobs gave. */
void jobs_adopt(jobs *j, const remat_job_record *record);

/* Runs jobs again whose question another process had, or whose store was away: that of a key, or
 * all (NULL). */
void jobs_wake(jobs *j, const char *key);
/* Writes what could not be written when it came about. */
void jobs_save_again(jobs *j);

/* One who asks a question, from the reading of the request to its answer. */
enum { BODY_NAME_SIZE = REMAT_ID_SIZE + 16 };

typedef struct asker {
    request *request;
    remat_question question;
    double cost, wait;              /* what the queue orders by; seconds */
    char body_name[BODY_NAME_SIZE]; /* the request's body is remembered by it; "": not at all */
    /* What becomes of the reply, which is there; answers the request. NULL: it is sent. */
    void (*finish)(request *r, void *data);
    void *data;         /* of finish, which takes it */
    char *profile_name; /* owned; NULL: not known */
    /* The jobs' own. */
    struct asker *prev, *next;
    struct job *job;   /* waited for */
    uint64_t deadline; /* uv_hrtime */
    bool awaits_acknowledgement;
} asker;

/* Solves the question; answers the request, or promises an answer when the wait is over. Takes the
 * asker, which was malloc'ed. */
void jobs_ask(jobs *j, asker *a);
/* The request of an asker has its reply, or has gone: finishes it and frees the asker. */
void jobs_answer(asker *a);

/* NULL: memory knows no such job (the store may). */
json_t *jobs_describe(jobs *j, const char *job_id);
/* Those that memory knows, in any order; of a client (NULL: of all). The ids of all become members
 * of known. */
json_t *jobs_describe_all(jobs *j, const char *client, json_t *known);
/* A job of the store. */
json_t *jobs_describe_record(const remat_job_record *record);

/* For all who asked. What is not in memory, or has ended, stays as it is. */
void jobs_cancel(jobs *j, const char *job_id);

/* JOBS_UNKNOWN: memory knows no such job. JOBS_OTHERS: the client never asked for it. */
typedef enum jobs_taken { JOBS_TAKEN, JOBS_UNKNOWN, JOBS_OTHERS } jobs_taken;

/* On behalf of a request: under the id of one that asked for the job, it takes that back; else an
 * admin cancels it for all, and a client takes back what it asked; the same request again changes
 * nothing. Nobody asks any longer: it is cancelled. */
jobs_taken jobs_cancel_by(jobs *j, const char *job_id, const request *r);

unsigned jobs_unfinished(const jobs *j);

/* Stops taking part: waiting jobs stay in the store or are answered 503, running ones are waited
 * for; with now they are cancelled. */
void jobs_stop(jobs *j, bool now);

#endif
