/* What the service remembers: profiles, tables, schedules, jobs, measurements. One interface;
 * behind it SQLite, for one process, or PostgreSQL, for as many as share it (README.md).
 *
 * Threads: every function may be called from any thread. Reads run in parallel, each on a
 * connection of its own. A write returns when it is durable: neither a killed process nor a power
 * failure undoes it. On SQLite one writer thread commits as many waiting writes as there are in
 * one transaction. Only remat_store_touch does not wait.
 *
 * Strings and blobs passed in are copied or done with on return. Records given out own their
 * memory and are released by their _clear, which accepts a cleared record. Times are milliseconds
 * since 1970 UTC. Ids are lower-case hex or any UTF-8 without NUL; blobs are kept zstd-compressed
 * and checksummed, so a record that comes back is what was put in, byte for byte, or
 * REMAT_CORRUPT.
 *
 * Failures: REMAT_NOT_FOUND; REMAT_CORRUPT (damaged record: what it means is said at each
 * function); REMAT_NEWER (store written by a newer version: nothing was touched); REMAT_IO (disk,
 * permissions, disk full, no connection to the database: the message says which); REMAT_NO_MEMORY;
 * REMAT_TOO_LARGE (a blob past 8 GiB, or past 1 GB compressed); REMAT_INVALID. After a failed
 * write nothing of it is stored; only if the disk fails in the commit itself and the process then
 * dies before its next write, or the connection to the database breaks in it, may it be there
 * after all.
 *
 * Damage inside a record is dropped: the record can be put again, and the log hears of it. Lists
 * leave damaged records out. Damage to the pages of the database itself is REMAT_CORRUPT as well,
 * but stays until the store is replaced by a backup. */
#ifndef REMAT_STORAGE_H
#define REMAT_STORAGE_H

#include "remat/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct remat_store remat_store;

/* What a shared store tells its processes. */
typedef enum remat_store_event {
    REMAT_STORE_RELEASED,  /* the lease of that name */
    REMAT_STORE_CANCELLED, /* a job of this process is to be cancelled: its id; may be told again */
    REMAT_STORE_DELETED,   /* a profile: its id */
    REMAT_STORE_RECONNECTED /* after a time in which events went by unheard; name is "" */
} remat_store_event;

typedef struct remat_store_options {
    /* Hears of repairs: damaged records dropped, a store recovered, a connection lost or found
     * again. NULL: nobody listens. Called from any thread, and must not call the store. */
    void (*log)(void *data, const char *message);
    /* Hears of events. NULL: nobody listens. Called on a thread of the store, and must not call it.
     */
    void (*event)(void *data, remat_store_event event, const char *name);
    void *data;
    /* Beside a daemon, for its check and backup commands: a store that is there, while another
     * process may have it open. Writes are REMAT_INVALID, touch does nothing, damage is reported
     * but not dropped. */
    bool read_only;
    /* For the prune command: the room that a SQLite store keeps for it is given up first, so
     * that it works on a full disk. */
    bool prunes;
    unsigned connections; /* of a shared store, at most; 0: 16 */
    unsigned
        lease_seconds; /* of a shared store: how long a dead process keeps what it held; 0: 10 */
} remat_store_options;

/* Opens or creates the store and brings its schema up to date, each version in one transaction.
 *
 * place is the path of a SQLite file, whose directory has to be there: it has one process that
 * writes, and is REMAT_IO when another has it open, REMAT_INVALID (and untouched) when it is
 * something else than a store. Or it is a URL of PostgreSQL, postgresql://.. or postgres://..: a
 * database in which the schema "remat" is the store's. */
remat_status remat_store_open(const char *place, const remat_store_options *options,
                              remat_store **ret_store, remat_error *error);

/* Finishes the writes under way, checkpoints and closes. Accepts NULL. No other call may be
 * running. */
void remat_store_close(remat_store *store);

/* The path, or the URL without its password: for people. Lives as long as the store. */
const char *remat_store_name(const remat_store *store);
/* Whether place is a URL rather than a path; nothing is opened. */
bool remat_store_is_url(const char *place);
/* The same for a place that is not open. REMAT_INVALID when the URL cannot be read. */
remat_status remat_store_place_name(const char *place, char **ret_name, remat_error *error);

/* Whether other processes may write to the store at the same time. */
bool remat_store_is_shared(const remat_store *store);

/* Bytes of text or of a blob. */
typedef struct remat_blob {
    void *data; /* followed by one NUL that length does not count */
    size_t length;
} remat_blob;

/* ---- profiles ---- */

typedef struct remat_profile_record {
    char *id, *name, *kind; /* kind: "chain", .. */
    char *other_names;      /* that it was given later, a line each; NULL: none. Not read by put */
    uint32_t nodes, edges;
    remat_blob document; /* the profile as JSON; left empty by lists */
    remat_blob summary;  /* the answer to its POST as JSON; left empty by lists */
    int64_t created, last_used;
    uint64_t schedules; /* how many there are; not read by put */
} remat_profile_record;

/* Stores a profile unless its id is there already; *ret_created says which. */
remat_status remat_store_put_profile(remat_store *store, const remat_profile_record *profile,
                                     bool *ret_created, remat_error *error);
/* REMAT_CORRUPT: it was damaged; the profile has been dropped and can be posted again. Its
 * schedules and tables stay and are there again with it. */
remat_status remat_store_get_profile(remat_store *store, const char *id,
                                     remat_profile_record *ret_profile, remat_error *error);
/* With its tables, schedules and their measurements. */
remat_status remat_store_delete_profile(remat_store *store, const char *id, remat_error *error);
void remat_profile_record_clear(remat_profile_record *profile);

/* A page of a list, newest first, stable while records are added. */
typedef struct remat_page {
    const char *cursor; /* NULL or "": from the start; else next of the page before; REMAT_INVALID
                           if it is neither */
    uint32_t limit;     /* 1 to 1000 */
} remat_page;

typedef struct remat_profile_list {
    remat_profile_record *items;
    size_t length;
    char *next; /* cursor of the next page, NULL at the end */
} remat_profile_list;

/* Gives a profile one more name, unless it has it; *ret_added says which. Past 4000 bytes of
 * names the oldest but the first goes. REMAT_NOT_FOUND. */
remat_status remat_store_name_profile(remat_store *store, const char *id, const char *name,
                                      bool *ret_added, remat_error *error);

/* name: NULL, or a substring of a name, case-insensitive for ASCII. */
remat_status remat_store_list_profiles(remat_store *store, const char *name, remat_page page,
                                       remat_profile_list *ret_list, remat_error *error);
void remat_profile_list_clear(remat_profile_list *list);

/* ---- schedules ---- */

typedef struct remat_schedule_record {
    char *id, *profile_id;
    char *solver, *requested_solver;
    uint64_t budget, peak;
    double makespan, overhead;
    int64_t created, last_used;
    remat_blob question; /* the request as canonical JSON; left empty by lists */
    remat_blob body;     /* the answer as JSON; left empty by lists */
} remat_schedule_record;

/* Stores a schedule. If the id is there with an intact body, that one stays and *ret_created is
 * false; a dropped body is put back (*ret_created is true). REMAT_NOT_FOUND when the profile is not
 * there (any more); REMAT_INVALID when makespan or overhead is not finite. */
remat_status remat_store_put_schedule(remat_store *store, const remat_schedule_record *schedule,
                                      bool *ret_created, remat_error *error);
/* REMAT_CORRUPT: the body was damaged and has been dropped, now or by an earlier call;
 * *ret_schedule is filled all the same, with an empty body, so that its question can be solved
 * again. When the question is damaged too, the whole record is dropped and *ret_schedule is cleared
 * (question.length is 0). */
remat_status remat_store_get_schedule(remat_store *store, const char *id,
                                      remat_schedule_record *ret_schedule, remat_error *error);
void remat_schedule_record_clear(remat_schedule_record *schedule);

typedef struct remat_schedule_list {
    remat_schedule_record *items;
    size_t length;
    char *next;
} remat_schedule_list;

/* profile_id and solver: NULL for any. */
remat_status remat_store_list_schedules(remat_store *store, const char *profile_id,
                                        const char *solver, remat_page page,
                                        remat_schedule_list *ret_list, remat_error *error);
void remat_schedule_list_clear(remat_schedule_list *list);

/* ---- tables ---- */

/* One table per key (profile, solver, options); a put replaces what was there. profile_id "": a
 * table that belongs to no profile. REMAT_NOT_FOUND when the profile is not there. */
remat_status remat_store_put_table(remat_store *store, const char *profile_id, const char *solver,
                                   const char *options, const void *table, size_t length,
                                   remat_error *error);
/* REMAT_CORRUPT: it was damaged and has been dropped. The caller frees ret_table->data. */
remat_status remat_store_get_table(remat_store *store, const char *profile_id, const char *solver,
                                   const char *options, remat_blob *ret_table, remat_error *error);
/* For a table that storage found intact but its solver did not. REMAT_OK if there is none. */
remat_status remat_store_delete_table(remat_store *store, const char *profile_id,
                                      const char *solver, const char *options, remat_error *error);

/* ---- jobs ---- */

/* state is text that storage only compares: rows with ended = 0 are the unfinished ones. */
typedef struct remat_job_record {
    char *id, *state;
    char *profile_id;       /* of the profile it needs; NULL out of the store */
    remat_blob question;    /* the request as JSON */
    char *schedule_id;      /* NULL until done */
    remat_blob problem;     /* problem+json when failed; else empty */
    int64_t created, ended; /* ended: 0 while unfinished */
} remat_job_record;

/* Inserts, or replaces unless it has ended; this process then has it. */
remat_status remat_store_put_job(remat_store *store, const remat_job_record *job,
                                 remat_error *error);
/* REMAT_CORRUPT: it was damaged and has been dropped. */
remat_status remat_store_get_job(remat_store *store, const char *id, remat_job_record *ret_job,
                                 remat_error *error);
void remat_job_record_clear(remat_job_record *job);

typedef struct remat_job_list {
    remat_job_record *items;
    size_t length;
    char *next;
} remat_job_list;

/* unfinished_only: those with ended = 0, oldest first; else newest first. */
remat_status remat_store_list_jobs(remat_store *store, bool unfinished_only, remat_page page,
                                   remat_job_list *ret_list, remat_error *error);
void remat_job_list_clear(remat_job_list *list);
/* Takes up to limit (1 to 1000) unfinished jobs that no living process has, oldest first; two
 * processes never take the same. They are this process's until they end or it dies. Damaged ones
 * are dropped. */
remat_status remat_store_claim_jobs(remat_store *store, uint32_t limit, remat_job_list *ret_list,
                                    remat_error *error);
/* Asks the process that has the job to cancel it (REMAT_STORE_CANCELLED); what ended, or is not
 * there, is left alone. */
remat_status remat_store_cancel_job(remat_store *store, const char *id, remat_error *error);
/* Forgets jobs that ended before the given time; *ret_count of them. */
remat_status remat_store_forget_jobs(remat_store *store, int64_t ended_before, uint64_t *ret_count,
                                     remat_error *error);

/* ---- measurements ---- */

typedef struct remat_measurement_record {
    int64_t id, created; /* id is given by put */
    remat_blob body;     /* JSON */
} remat_measurement_record;

/* REMAT_NOT_FOUND when the schedule is not there. Of a schedule that is not there the list is
 * empty. */
remat_status remat_store_put_measurement(remat_store *store, const char *schedule_id,
                                         remat_measurement_record *measurement, remat_error *error);

typedef struct remat_measurement_list {
    remat_measurement_record *items;
    size_t length;
    char *next;
} remat_measurement_list;

remat_status remat_store_list_measurements(remat_store *store, const char *schedule_id,
                                           remat_page page, remat_measurement_list *ret_list,
                                           remat_error *error);
void remat_measurement_list_clear(remat_measurement_list *list);

/* ---- leases ---- */

/* Takes the lease of that name, for as long as this process lives and does not release it: the
 * store renews it. *ret_taken is false while another process has it; when that releases it,
 * REMAT_STORE_RELEASED tells (but ask again from time to time: the news may be lost), and when it
 * dies or loses the database the lease expires after lease_seconds of the database's clock. Then
 * two may work on the same for a while, so what it guards must be safe to do twice. On a store
 * that is not shared every lease is granted at once. */
remat_status remat_store_take_lease(remat_store *store, const char *name, bool *ret_taken,
                                    remat_error *error);
/* REMAT_OK also when this process does not have it. */
remat_status remat_store_release_lease(remat_store *store, const char *name, remat_error *error);

/* ---- care ---- */

/* Marks a profile and (unless NULL) a schedule and the table (solver, options; both NULL: none) of
 * it as used now. Does not wait; lost marks are harmless. */
void remat_store_touch(remat_store *store, const char *profile_id, const char *schedule_id,
                       const char *solver, const char *options);

typedef struct remat_store_statistics {
    uint64_t profiles, schedules, tables, unfinished_jobs, measurements;
    uint64_t table_bytes; /* compressed */
    uint64_t file_bytes;  /* database and log */
    int schema_version;
} remat_store_statistics;

remat_status remat_store_statistics_get(remat_store *store, remat_store_statistics *ret_statistics,
                                        remat_error *error);

/* Milliseconds since 1970 for last_used: where the clock is set back it stands, so that what is
 * used now never looks older than what was used before. */
int64_t remat_store_now(void);

typedef struct remat_store_pruned {
    uint64_t tables, schedules, profiles;
} remat_store_pruned;

/* Deletes what was longest not used until what is left takes at most keep_bytes (compressed blobs:
 * profiles, schedules and tables): first tables, then schedules with their measurements, then
 * profiles that have no schedules left and are not needed by an unfinished job. Jobs stay. The
 * space is used again by later writes. A SQLite store keeps some megabytes of the disk for this, in
 * the file that is its lock, so that it works on a full one. */
remat_status remat_store_prune(remat_store *store, uint64_t keep_bytes,
                               remat_store_pruned *ret_pruned, remat_error *error);

/* Whether the store can be read and written now (readiness); of a SQLite store, whether its disk
 * has some megabytes left. */
remat_status remat_store_ping(remat_store *store, remat_error *error);

/* The engine's integrity check, where it has one, and the checksum of every record. REMAT_CORRUPT
 * says in its message what is damaged; nothing is changed. */
remat_status remat_store_check(remat_store *store, remat_error *error);

/* A consistent copy at path, made while the store is in use; REMAT_INVALID if path exists. It
 * appears there when it is complete and on disk. Of PostgreSQL it is REMAT_INVALID, and the message
 * is the command that makes one. */
remat_status remat_store_backup(remat_store *store, const char *path, remat_error *error);

#endif
