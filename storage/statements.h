/* Every SQL statement of the records; each engine adds its schema and its transactions. Statements
 * that read records begin with the columns seq, guard, checksum (private.h); lists take the cursor
 * as ?1 and the limit as ?2, checks the last seq as ?1 and a limit as ?2.
 *
 * Where dialects differ a name stands that each engine defines before it expands the list:
 *   SAME_AS           equality of which NULL is part
 *   NAME_CONTAINS     p.name contains ?3, without regard to the case of ASCII letters
 *   TABLE_OF_PROFILE  a table is of profile ?1, '' of none; one that is not there has none
 *   SKIP_LOCKED       leave out rows that another transaction is changing
 *   UNOWNED           the owner of job j is not ?1 and lives no more */
#ifndef REMAT_STORAGE_STATEMENTS_H
#define REMAT_STORAGE_STATEMENTS_H

#define PROFILE_FIELDS                                                                             \
    "p.seq, p.document, p.checksum, p.id, p.name, p.kind, p.nodes, p.edges, p.created, "           \
    "p.last_used, (SELECT count(*) FROM schedules WHERE profile = p.seq)"

#define SCHEDULE_FIELDS                                                                            \
    "s.seq, s.body, s.checksum, s.id, p.id, s.solver, s.requested_solver, s.budget, s.peak, "      \
    "s.makespan, s.overhead, s.created, s.last_used"

#define LIST_SCHEDULES(where)                                                                      \
    "SELECT " SCHEDULE_FIELDS " FROM schedules s JOIN profiles p ON p.seq = s.profile "            \
    "WHERE s.body IS NOT NULL AND s.seq < ?1 " where " ORDER BY s.seq DESC LIMIT ?2"

#define LIST_PROFILES(where)                                                                       \
    "SELECT " PROFILE_FIELDS " FROM profiles p WHERE p.document IS NOT NULL AND p.seq < ?1 " where \
    " ORDER BY p.seq DESC LIMIT ?2"

#define TABLE_FIELDS "t.seq, t.data, t.checksum, coalesce(p.id, ''), t.solver, t.options, t.bytes"
#define TABLES "tables t LEFT JOIN profiles p ON p.seq = t.profile"

#define JOB_FIELDS                                                                                 \
    "seq, checksum, checksum, id, state, schedule_id, created, ended, question, problem"

#define MEASUREMENT_FIELDS "m.seq, m.checksum, m.checksum, s.id, m.created, m.body"

#define AFTER(name) name ".seq > ?1 ORDER BY " name ".seq LIMIT ?2"

/* Marks that meet one another, or anybody else, in a row are left out: nobody waits for a mark. */
#define TOUCH(table, where, when)                                                                  \
    "UPDATE " table " SET last_used = " when " WHERE seq IN (SELECT seq FROM " table               \
    " WHERE " where SKIP_LOCKED ")"

/* Deletes the records longest not used, of those that the query names as x, until they make up ?1
 * bytes, ?2 records at most. */
#define PRUNE(table, query, bytes)                                                                 \
    "DELETE FROM " table " WHERE seq IN (SELECT seq FROM (SELECT x.seq, sum(" bytes ") "           \
    "OVER (ORDER BY x.last_used, x.seq ROWS UNBOUNDED PRECEDING) - " bytes " AS before "           \
    "FROM " query " ORDER BY x.last_used, x.seq LIMIT ?2) AS oldest WHERE before < ?1)"

/* name, text */
#define STORAGE_STATEMENTS(X)                                                                      \
    X(GET_BLOB, "SELECT data FROM blobs WHERE id = ?1")                                            \
    X(PUT_BLOB, "INSERT INTO blobs (data) VALUES (?1) RETURNING id")                               \
                                                                                                   \
    X(FIND_PROFILE, "SELECT seq, document FROM profiles WHERE id = ?1")                            \
    X(GET_PROFILE, "SELECT " PROFILE_FIELDS ", p.summary FROM profiles p "                         \
                   "WHERE p.id = ?1 AND p.document IS NOT NULL")                                   \
    X(PUT_PROFILE, "INSERT INTO profiles (id, name, kind, nodes, edges, created, last_used, "      \
                   "checksum, document, summary) "                                                 \
                   "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) "                             \
                   "ON CONFLICT (id) DO UPDATE SET name = ?2, kind = ?3, nodes = ?4, edges = ?5, " \
                   "created = ?6, last_used = ?7, checksum = ?8, document = ?9, summary = ?10")    \
    X(DROP_PROFILE,                                                                                \
      "UPDATE profiles SET document = NULL WHERE seq = ?1 AND document " SAME_AS " ?2")            \
    X(NAME_PROFILE, "UPDATE profiles SET name = ?2, checksum = ?3 WHERE seq = ?1")                 \
    X(DELETE_PROFILE, "DELETE FROM profiles WHERE id = ?1")                                        \
    X(TOUCH_PROFILE, TOUCH("profiles", "id = ?1 AND last_used < ?2", "?2"))                        \
    X(LIST_PROFILES, LIST_PROFILES(""))                                                            \
    X(LIST_PROFILES_NAMED, LIST_PROFILES("AND " NAME_CONTAINS))                                    \
    X(CHECK_PROFILES, "SELECT " PROFILE_FIELDS ", p.summary FROM profiles p "                      \
                      "WHERE p.document IS NOT NULL AND " AFTER("p"))                              \
    X(PRUNE_PROFILES,                                                                              \
      PRUNE("profiles",                                                                            \
            "profiles x JOIN blobs b ON b.id = x.document "                                        \
            "WHERE NOT EXISTS (SELECT 1 FROM schedules WHERE profile = x.seq) "                    \
            "AND NOT EXISTS (SELECT 1 FROM jobs WHERE ended = 0 AND profile_id IN ('', x.id))",    \
            "length(b.data)"))                                                                     \
                                                                                                   \
    X(FIND_SCHEDULE, "SELECT s.seq, s.body FROM schedules s "                                      \
                     "JOIN profiles p ON p.seq = s.profile WHERE s.id = ?1")                       \
    X(GET_SCHEDULE, "SELECT " SCHEDULE_FIELDS ", s.question FROM schedules s "                     \
                    "JOIN profiles p ON p.seq = s.profile WHERE s.id = ?1")                        \
    X(PUT_SCHEDULE,                                                                                \
      "INSERT INTO schedules (id, profile, solver, requested_solver, budget, peak, makespan, "     \
      "overhead, created, last_used, checksum, body, question) "                                   \
      "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13) "                           \
      "ON CONFLICT (id) DO UPDATE SET profile = ?2, solver = ?3, requested_solver = ?4, "          \
      "budget = ?5, peak = ?6, makespan = ?7, overhead = ?8, created = ?9, last_used = ?10, "      \
      "checksum = ?11, body = ?12, question = ?13")                                                \
    X(DROP_BODY, "UPDATE schedules SET body = NULL WHERE seq = ?1 AND body " SAME_AS " ?2")        \
    X(DROP_SCHEDULE, "DELETE FROM schedules WHERE seq = ?1 AND body IS NULL")                      \
    X(TOUCH_SCHEDULE, TOUCH("schedules", "id = ?1 AND last_used < ?2", "?2"))                      \
    X(LIST_SCHEDULES, LIST_SCHEDULES(""))                                                          \
    X(LIST_SCHEDULES_OF_PROFILE, LIST_SCHEDULES("AND p.id = ?3"))                                  \
    X(LIST_SCHEDULES_OF_SOLVER, LIST_SCHEDULES("AND s.solver = ?4"))                               \
    X(LIST_SCHEDULES_OF_BOTH, LIST_SCHEDULES("AND p.id = ?3 AND s.solver = ?4"))                   \
    X(CHECK_SCHEDULES, "SELECT " SCHEDULE_FIELDS ", s.question FROM schedules s "                  \
                       "JOIN profiles p ON p.seq = s.profile WHERE " AFTER("s"))                   \
    X(PRUNE_SCHEDULES,                                                                             \
      PRUNE("schedules", "schedules x JOIN blobs b ON b.id = x.body", "length(b.data)"))           \
                                                                                                   \
    X(GET_TABLE, "SELECT " TABLE_FIELDS " FROM " TABLES                                            \
                 " WHERE t.solver = ?2 AND t.options = ?3 AND " TABLE_OF_PROFILE)                  \
    X(PUT_TABLE,                                                                                   \
      "INSERT INTO tables (profile, solver, options, bytes, last_used, checksum, data) "           \
      "VALUES (nullif(?1, 0), ?2, ?3, ?4, ?5, ?6, ?7)")                                            \
    X(DELETE_TABLE, "DELETE FROM tables WHERE solver = ?2 AND options = ?3 AND " TABLE_OF_PROFILE) \
    X(QUARANTINE_TABLE, "UPDATE tables SET data = NULL WHERE seq = ?1 AND data " SAME_AS " ?2")    \
    X(DROP_TABLE, "DELETE FROM tables WHERE seq = ?1 AND data IS NULL")                            \
    X(TOUCH_TABLE,                                                                                 \
      TOUCH("tables", "solver = ?2 AND options = ?3 AND last_used < ?4 AND " TABLE_OF_PROFILE,     \
            "?4"))                                                                                 \
    X(CHECK_TABLES, "SELECT " TABLE_FIELDS " FROM " TABLES " WHERE " AFTER("t"))                   \
    X(PRUNE_TABLES, PRUNE("tables", "tables x", "x.bytes"))                                        \
                                                                                                   \
    X(GET_JOB, "SELECT " JOB_FIELDS " FROM jobs WHERE id = ?1")                                    \
    X(PUT_JOB,                                                                                     \
      "INSERT INTO jobs (id, state, schedule_id, created, ended, checksum, question, problem, "    \
      "profile_id, owner) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) "                       \
      "ON CONFLICT (id) DO UPDATE SET state = ?2, schedule_id = ?3, created = ?4, ended = ?5, "    \
      "checksum = ?6, question = ?7, problem = ?8, profile_id = ?9 WHERE jobs.ended = 0")          \
    X(DROP_JOB, "DELETE FROM jobs WHERE seq = ?1 AND checksum " SAME_AS " ?2")                     \
    X(LIST_JOBS, "SELECT " JOB_FIELDS " FROM jobs WHERE seq < ?1 ORDER BY seq DESC LIMIT ?2")      \
    X(LIST_UNFINISHED_JOBS,                                                                        \
      "SELECT " JOB_FIELDS " FROM jobs WHERE ended = 0 AND seq > ?1 ORDER BY seq LIMIT ?2")        \
    X(CLAIM_JOBS,                                                                                  \
      "UPDATE jobs SET owner = ?1 WHERE seq IN (SELECT j.seq FROM jobs j WHERE j.ended = 0 "       \
      "AND " UNOWNED " ORDER BY j.seq LIMIT ?2" SKIP_LOCKED ") RETURNING " JOB_FIELDS)             \
    X(CANCEL_JOB, "UPDATE jobs SET cancelling = 1 WHERE id = ?1 AND ended = 0")                    \
    X(FORGET_JOBS, "DELETE FROM jobs WHERE ended <> 0 AND ended < ?1")                             \
    X(CHECK_JOBS, "SELECT " JOB_FIELDS " FROM jobs WHERE seq > ?1 ORDER BY seq LIMIT ?2")          \
                                                                                                   \
    X(PUT_MEASUREMENT,                                                                             \
      "INSERT INTO measurements (schedule, created, checksum, body) VALUES (?1, ?2, ?3, ?4) "      \
      "RETURNING seq")                                                                             \
    X(DROP_MEASUREMENT, "DELETE FROM measurements WHERE seq = ?1 AND checksum " SAME_AS " ?2")     \
    X(LIST_MEASUREMENTS,                                                                           \
      "SELECT " MEASUREMENT_FIELDS " FROM measurements m JOIN schedules s ON s.seq = m.schedule "  \
      "WHERE s.id = ?3 AND m.seq < ?1 ORDER BY m.seq DESC LIMIT ?2")                               \
    X(CHECK_MEASUREMENTS,                                                                          \
      "SELECT " MEASUREMENT_FIELDS " FROM measurements m JOIN schedules s ON s.seq = m.schedule "  \
      "WHERE " AFTER("m"))                                                                         \
                                                                                                   \
    X(STATISTICS, "SELECT (SELECT count(*) FROM profiles WHERE document IS NOT NULL), "            \
                  "(SELECT count(*) FROM schedules WHERE body IS NOT NULL), "                      \
                  "(SELECT count(*) FROM tables), (SELECT count(*) FROM jobs WHERE ended = 0), "   \
                  "(SELECT count(*) FROM measurements), "                                          \
                  "(SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM tables)")                  \
    X(BLOB_BYTES, "SELECT CAST(coalesce(sum(length(data)), 0) AS BIGINT) FROM blobs")              \
    X(ENTRIES, "SELECT count(*) FROM pulse")                                                       \
    X(PULSE, "UPDATE pulse SET beat = ?1")

#endif
