/* The work behind the requests: profiles, tables and schedules, from memory, from the store, or
 * made now. Everything here may block and runs on pool threads; every function is thread-safe. */
#ifndef REMAT_SERVER_ENGINE_H
#define REMAT_SERVER_ENGINE_H

#include "api.h"
#include "config.h"
#include "host/team.h"
#include "http/body.h"
#include "memory.h"
#include "metrics.h"
#include "storage.h"

typedef struct engine engine;

/* account: what it takes is counted there. */
engine *engine_new(const config *settings, remat_store *store, metrics *counters, team *workers,
                   memory *account);
void engine_free(engine *e); /* accepts NULL */

/* Whether a call failed only because others have the memory now. Jobs wait for it instead. */
bool engine_is_busy(const remat_error *error);

/* A profile in memory. Release with engine_profile_release. */
typedef struct known_profile {
    atomic_uint references;
    remat_profile *profile;
    char id[REMAT_ID_SIZE];
    uint64_t store_all_peak;
} known_profile;

remat_status engine_profile(engine *e, const char *id, known_profile **ret_profile,
                            remat_error *error);
void engine_profile_release(known_profile *profile); /* accepts NULL */
/* The record of a profile, its summary as today's answers spell it. What is damaged counts as not
 * there. Clear with remat_profile_record_clear. */
remat_status engine_profile_record(engine *e, const char *id, remat_profile_record *ret_record,
                                   remat_error *error);

/* Stores a profile; ret_summary (NULL: not wanted) gets the answer to its POST. */
remat_status engine_profile_post(engine *e, const json_t *json, const char *prefix,
                                 known_profile **ret_profile, bool *ret_created, body **ret_summary,
                                 remat_error *error);

/* What a request about a profile asks for, for its profile: known by id, or stored now;
 * *ret_name is what that is called (free it). */
remat_status engine_question(engine *e, const remat_request *request, remat_question *ret_question,
                             char **ret_name, remat_error *error);
/* The profile alone. */
remat_status engine_profile_of(engine *e, const remat_request *request, known_profile **ret_profile,
                               remat_error *error);

/* The answer that is there: REMAT_NOT_FOUND if none is. A damaged one has been dropped and counts
 * as not there; then *ret_question, if not NULL, gets its question text (free it) so that it can be
 * solved again, else NULL. */
remat_status engine_schedule(engine *e, const char *schedule_id, body **ret_body,
                             char **ret_question, remat_error *error);

/* What a solve may do. */
typedef struct engine_terms {
    remat_host host;   /* progress and cancellation; the engine adds its team and limits */
    uint64_t deadline; /* uv_hrtime; 0: none. With auto the solvers done by then answer */
    bool kept_only;    /* no table is made and nothing is improved */
} engine_terms;

/* What it did. */
typedef struct engine_outcome {
    bool needs_solve;   /* kept_only was not enough */
    double cost;        /* with needs_solve: expected inner updates */
    cache_result cache; /* where the answer came from */
    char
        id[REMAT_ID_SIZE]; /* of the answer: the question's, or its own of one that was cut short */
} engine_outcome;

/* Answers a question and remembers the answer; that of a schedule is stored, that of a trade-off
 * comes out of stored tables. A schedule that was cut short by the deadline is stored under an id
 * of its own, and the question stays without an answer. With kept_only and a table missing,
 * REMAT_OK, needs_solve and no body. *ret_outcome is written on failure too. */
remat_status engine_solve(engine *e, const remat_question *q, const engine_terms *terms,
                          engine_outcome *ret_outcome, body **ret_body, remat_error *error);

remat_status engine_timeline(engine *e, const char *schedule_id, body **ret_body,
                             remat_error *error);
remat_status engine_trace(engine *e, const char *schedule_id, body **ret_body, remat_error *error);
/* Remembered in memory only. */
remat_status engine_explanation(engine *e, const char *schedule_id, body **ret_body,
                                remat_error *error);

/* Forgets what memory holds of a profile that has been deleted. */
void engine_forget_profile(engine *e, const char *id);
/* The same of all: some may have been deleted unheard. */
void engine_forget_everything(engine *e);

/* Remembers under a name, which is that of no question, that a request's body asks a question. */
void engine_remember_request(engine *e, const char *name, const char *question_id);
/* Remembers an answer under such a name. */
void engine_remember(engine *e, const char *name, body *answer);
/* Both only look in memory, so the loop may call them: a new reference or NULL. */
body *engine_recall_request(engine *e, const char *name, char ret_id[REMAT_ID_SIZE]);
body *engine_recall(engine *e, const char *question_id);

void engine_counts(engine *e, uint64_t *ret_answer_bytes, uint64_t *ret_table_bytes,
                   uint64_t *ret_evictions);

#endif
