/* The schema: every version of it, and whether a file is a store at all. */
#include "sqlite.h"

#include <stdio.h>

/* "RMAT", in the header of the file: the store knows itself, and file(1) can know it. */
#define APPLICATION_ID 0x524d4154
#define STRING_OF(x) #x
#define STRING(x) STRING_OF(x)

/* Records are small rows, so that lists and marks of use stay cheap; what is large is in blobs. seq
 * is the order of insertion and is never given twice, so a cursor stays good while records come and
 * go. Budgets and peaks are uint64_t in the bits of an integer.
 *
 * document, body and data are NULL when what was there has been dropped because of damage. The
 * damaged blob itself stays, belonging to nobody: to delete it SQLite would walk its chain of
 * pages, and a damaged chain may lead into the pages of a sound record; nor is a sector that failed
 * once used again. */
static const char version_1[] = "PRAGMA application_id = " STRING(
    APPLICATION_ID) ";"

                    "CREATE TABLE blobs ("
                    "  id INTEGER PRIMARY KEY AUTOINCREMENT,"
                    "  data BLOB NOT NULL);"

                    "CREATE TABLE profiles ("
                    "  seq INTEGER PRIMARY KEY AUTOINCREMENT,"
                    "  id TEXT NOT NULL UNIQUE,"
                    "  name TEXT NOT NULL,"
                    "  kind TEXT NOT NULL,"
                    "  nodes INTEGER NOT NULL,"
                    "  edges INTEGER NOT NULL,"
                    "  created INTEGER NOT NULL,"
                    "  last_used INTEGER NOT NULL,"
                    "  checksum INTEGER NOT NULL," /* of what does not change: all but last_used */
                    "  document INTEGER UNIQUE REFERENCES blobs (id),"
                    "  summary BLOB NOT NULL);"

                    "CREATE TABLE schedules ("
                    "  seq INTEGER PRIMARY KEY AUTOINCREMENT,"
                    "  id TEXT NOT NULL UNIQUE,"
                    "  profile INTEGER NOT NULL REFERENCES profiles (seq) ON DELETE CASCADE,"
                    "  solver TEXT NOT NULL,"
                    "  requested_solver TEXT NOT NULL,"
                    "  budget INTEGER NOT NULL,"
                    "  peak INTEGER NOT NULL,"
                    "  makespan REAL NOT NULL,"
                    "  overhead REAL NOT NULL,"
                    "  created INTEGER NOT NULL,"
                    "  last_used INTEGER NOT NULL,"
                    "  checksum INTEGER NOT NULL,"
                    "  body INTEGER UNIQUE REFERENCES blobs (id),"
                    "  question BLOB NOT NULL);"
                    "CREATE INDEX schedules_of_profile ON schedules (profile);"
                    "CREATE INDEX schedules_of_solver ON schedules (solver);"

                    "CREATE TABLE tables ("
                    "  seq INTEGER PRIMARY KEY AUTOINCREMENT,"
                    "  profile INTEGER NOT NULL REFERENCES profiles (seq) ON DELETE CASCADE,"
                    "  solver TEXT NOT NULL,"
                    "  options TEXT NOT NULL,"
                    "  bytes INTEGER NOT NULL," /* compressed */
                    "  last_used INTEGER NOT NULL,"
                    "  checksum INTEGER NOT NULL,"
                    "  data INTEGER UNIQUE REFERENCES blobs (id),"
                    "  UNIQUE (profile, solver, options));"
                    "CREATE INDEX tables_by_use ON tables (last_used);"

                    "CREATE TABLE jobs ("
                    "  seq INTEGER PRIMARY KEY AUTOINCREMENT,"
                    "  id TEXT NOT NULL UNIQUE,"
                    "  state TEXT NOT NULL,"
                    "  schedule_id TEXT," /* no reference: a job may outlive its schedule */
                    "  created INTEGER NOT NULL,"
                    "  ended INTEGER NOT NULL,"
                    "  checksum INTEGER NOT NULL,"
                    "  question BLOB NOT NULL,"
                    "  problem BLOB NOT NULL);"
                    "CREATE INDEX jobs_by_end ON jobs (ended);"

                    "CREATE TABLE measurements ("
                    "  seq INTEGER PRIMARY KEY AUTOINCREMENT,"
                    "  schedule INTEGER NOT NULL REFERENCES schedules (seq) ON DELETE CASCADE,"
                    "  created INTEGER NOT NULL,"
                    "  checksum INTEGER NOT NULL,"
                    "  body BLOB NOT NULL);"
                    "CREATE INDEX measurements_of_schedule ON measurements (schedule);"

                    /* One row that remat_store_ping writes to. */
                    "CREATE TABLE pulse (one INTEGER PRIMARY KEY CHECK (one = 1), beat INTEGER NOT "
                    "NULL);"
                    "INSERT INTO pulse VALUES (1, 0);"

                    "CREATE TRIGGER profile_deleted AFTER DELETE ON profiles BEGIN"
                    "  DELETE FROM blobs WHERE id = OLD.document; END;"
                    "CREATE TRIGGER schedule_deleted AFTER DELETE ON schedules BEGIN"
                    "  DELETE FROM blobs WHERE id = OLD.body; END;"
                    "CREATE TRIGGER table_deleted AFTER DELETE ON tables BEGIN"
                    "  DELETE FROM blobs WHERE id = OLD.data; END;";

/* A table need not belong to a profile: those of other machines depend on less. SQLite can drop NOT
 * NULL only by making the table again. */
static const char version_2[] = "CREATE TABLE tables_2 ("
                                "  seq INTEGER PRIMARY KEY AUTOINCREMENT,"
                                "  profile INTEGER REFERENCES profiles (seq) ON DELETE CASCADE,"
                                "  solver TEXT NOT NULL,"
                                "  options TEXT NOT NULL,"
                                "  bytes INTEGER NOT NULL,"
                                "  last_used INTEGER NOT NULL,"
                                "  checksum INTEGER NOT NULL,"
                                "  data INTEGER UNIQUE REFERENCES blobs (id),"
                                "  UNIQUE (profile, solver, options));"
                                "INSERT INTO tables_2 SELECT * FROM tables;"
                                "DROP TABLE tables;"
                                "ALTER TABLE tables_2 RENAME TO tables;"
                                "CREATE INDEX tables_by_use ON tables (last_used);"
                                "CREATE UNIQUE INDEX tables_of_none ON tables (solver, options) "
                                "  WHERE profile IS NULL;"
                                "CREATE TRIGGER table_deleted AFTER DELETE ON tables BEGIN"
                                "  DELETE FROM blobs WHERE id = OLD.data; END;";

/* Who has a job, whether it is to be cancelled, and the profile that must stay for it. */
static const char version_3[] = "ALTER TABLE jobs ADD COLUMN owner TEXT NOT NULL DEFAULT '';"
                                "ALTER TABLE jobs ADD COLUMN cancelling INTEGER NOT NULL DEFAULT 0;"
                                "ALTER TABLE jobs ADD COLUMN profile_id TEXT NOT NULL DEFAULT '';";

/* The nth brings a store from version n - 1 to n. Never changed once released: a change of the
 * schema is one more entry. */
const sqlite_migration sqlite_migrations[] = {
    {version_1},
    {version_2},
    {version_3},
};
const int sqlite_version = (int)(sizeof sqlite_migrations / sizeof *sqlite_migrations);

remat_status sqlite_inspect(sqlite_connection *connection, int *ret_version, remat_error *error)
{
    int64_t application = 0, version = 0, entries = 0;
    remat_error why;
    remat_status status = sqlite_number(connection, "PRAGMA application_id", &application, &why);
    if (status == REMAT_OK)
        status = sqlite_number(connection, "PRAGMA user_version", &version, &why);
    if (status == REMAT_OK)
        status = sqlite_number(connection, "SELECT count(*) FROM sqlite_schema", &entries, &why);
    if (sqlite3_errcode(connection->db) == SQLITE_NOTADB)
        return remat_fail(error, REMAT_INVALID, NULL,
                          "%s is not a remat store, or its first page is damaged",
                          connection->path);
    if (status != REMAT_OK)
        return remat_fail(error, status, NULL, "%s", why.message);
    bool new_file = application == 0 && version == 0 && entries == 0;
    if (application != APPLICATION_ID && !new_file)
        return remat_fail(error, REMAT_INVALID, NULL,
                          "%s is a database of another application, not a remat store",
                          connection->path);
    if (version > sqlite_version)
        return remat_fail(error, REMAT_NEWER, NULL,
                          "%s was written by a newer version of remat (schema version %lld; this "
                          "one knows up to %d)",
                          connection->path, (long long)version, sqlite_version);
    *ret_version = (int)version;
    return REMAT_OK;
}

/* Inside the transaction of a migration: what it left must be whole. */
static remat_status check_references(sqlite_connection *connection, int version, remat_error *error)
{
    sqlite3_stmt *query;
    if (sqlite3_prepare_v2(connection->db, "PRAGMA foreign_key_check", -1, &query, NULL) !=
        SQLITE_OK)
        return sqlite_fail(connection, error, "migrate");
    int code = sqlite3_step(query);
    remat_status status = REMAT_OK;
    if (code == SQLITE_ROW)
        status = remat_fail(error, REMAT_CORRUPT, NULL,
                            "cannot bring %s to schema version %d: a row of table %s refers to a "
                            "record that is not there",
                            connection->path, version, sqlite3_column_text(query, 0));
    else if (code != SQLITE_DONE)
        status = sqlite_fail(connection, error, "migrate");
    sqlite3_finalize(query);
    return status;
}

static remat_status migrate_once(sqlite_connection *connection, int version, const char *sql,
                                 remat_error *error)
{
    char mark[48];
    snprintf(mark, sizeof mark, "PRAGMA user_version = %d", version);
    remat_status status = sqlite_exec(connection, "BEGIN IMMEDIATE", error);
    if (status != REMAT_OK)
        return status;
    status = sqlite_exec(connection, sql, error);
    if (status == REMAT_OK)
        status = check_references(connection, version, error);
    if (status == REMAT_OK)
        status = sqlite_exec(connection, mark, error);
    if (status == REMAT_OK)
        status = sqlite_exec(connection, "COMMIT", error);
    if (status != REMAT_OK)
        sqlite3_exec(connection->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

remat_status sqlite_migrate(sqlite_connection *connection, int version,
                            const sqlite_migration *migrations, int count, remat_error *error)
{
    /* A migration may rebuild a table; that must not cascade. Each is checked as a whole instead.
     */
    remat_status status =
        sqlite_exec(connection, "PRAGMA synchronous = FULL; PRAGMA foreign_keys = OFF", error);
    for (int next = version + 1; status == REMAT_OK && next <= count; next++)
        status = migrate_once(connection, next, migrations[next - 1].sql, error);
    return status;
}
