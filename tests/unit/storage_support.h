/* What the tests of the store share. The suites that know only storage.h run on both engines: on
 * SQLite, and on the PostgreSQL whose URL REMAT_TEST_POSTGRES gives (tests/with_postgres). */
#ifndef REMAT_STORAGE_SUPPORT_H
#define REMAT_STORAGE_SUPPORT_H

/* What cmocka.h needs before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "storage.h"

#ifdef STORAGE_POSTGRES
#include <libpq-fe.h>
#endif

/* A directory for the test, with the paths of a store in it; store_place is what is opened: the
 * path or the URL. */
static char directory[64], store_path[80], wal_path[96];
static const char *store_place = store_path;

static inline bool on_postgres(void)
{
    return store_place != store_path;
}

/* One statement behind the store's back, on the file or in the database. */
#ifdef STORAGE_POSTGRES
static inline void sql_on_postgres(const char *text)
{
    PGconn *db = PQconnectdb(store_place);
    PGresult *result = PQexec(db, "SET search_path = remat; SET client_min_messages = error");
    PQclear(result);
    result = PQexec(db, text);
    ExecStatusType kind = PQresultStatus(result);
    if (kind != PGRES_COMMAND_OK && kind != PGRES_TUPLES_OK)
        fail_msg("%s: %s", text, PQerrorMessage(db));
    PQclear(result);
    PQfinish(db);
}
#endif

static inline void sql_on_sqlite(const char *path, const char *text)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 10000);
    char *message = NULL;
    if (sqlite3_exec(db, text, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s: %s", text, message);
    sqlite3_close(db);
}

static inline void sql(const char *text)
{
#ifdef STORAGE_POSTGRES
    if (on_postgres()) {
        sql_on_postgres(text);
        return;
    }
#endif
    sql_on_sqlite(store_path, text);
}

/* A new place for the suites of one engine. */
static inline int set_up(void **state)
{
    const char *where = getenv("TMPDIR");
    snprintf(directory, sizeof directory, "%s/remat-storage-XXXXXX", where ? where : "/tmp");
    if (!mkdtemp(directory))
        return -1;
    snprintf(store_path, sizeof store_path, "%s/store.db", directory);
    snprintf(wal_path, sizeof wal_path, "%s-wal", store_path);
    return 0;
}

/* The same for the suites of both. */
static inline int set_up_any(void **state)
{
    if (getenv("REMAT_TEST_POSTGRES")) {
        store_place = getenv("REMAT_TEST_POSTGRES");
        sql("DROP SCHEMA IF EXISTS remat CASCADE");
    }
    return set_up(state);
}

/* All tests, or on PostgreSQL all but the last of_files. */
static inline int run_store_tests(const struct CMUnitTest *tests, size_t count, size_t of_files)
{
    if (getenv("REMAT_TEST_POSTGRES"))
        count -= of_files;
    return _cmocka_run_group_tests("tests", tests, count, NULL, NULL);
}

static inline int tear_down(void **state)
{
    DIR *entries = opendir(directory);
    if (!entries)
        return -1;
    for (struct dirent *entry; (entry = readdir(entries));) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (entry->d_name[0] != '.')
            unlink(path);
    }
    closedir(entries);
    return rmdir(directory);
}

static char log_text[8192];
static inline void log_line(void *data, const char *message)
{
    size_t used = strlen(log_text);
    snprintf(log_text + used, sizeof log_text - used, "%s\n", message);
}

static inline remat_store *open_store(void)
{
    remat_store *store = NULL;
    remat_error error = {0};
    remat_store_options options = {.log = log_line};
    if (remat_store_open(store_place, &options, &store, &error) != REMAT_OK)
        fail_msg("open: %s", error.message);
    return store;
}

#define assert_ok(call)                                                                            \
    do {                                                                                           \
        remat_error error_ = {0}, *error = &error_;                                                \
        if ((call) != REMAT_OK)                                                                    \
            fail_msg("%s: %s", #call, error_.message);                                             \
    } while (0)

#define assert_status(call, expected)                                                              \
    do {                                                                                           \
        remat_error error_ = {0}, *error = &error_;                                                \
        remat_status got_ = (call);                                                                \
        if (got_ != (expected))                                                                    \
            fail_msg("%s is %s (%s), expected %s", #call, remat_status_name(got_), error_.message, \
                     remat_status_name(expected));                                                 \
        if (got_ != REMAT_OK) {                                                                    \
            assert_int_equal(error_.status, got_);                                                 \
            assert_true(error_.message[0] != '\0');                                                \
        }                                                                                          \
    } while (0)

/* Bytes of a small generator (Knuth's MMIX constants); text-like ones compress, others do not. */
static inline uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 33;
}

static inline char *make_bytes(size_t length, uint64_t seed, bool textual)
{
    char *bytes = malloc(length + 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < length; i++)
        bytes[i] =
            textual ? "0123456789[],\"FAB "[next_random(&seed) % 17] : (char)next_random(&seed);
    bytes[length] = '\0';
    return bytes;
}

/* Records whose every field follows from a number, so that any test knows what it should find. */
static inline remat_status put_profile(remat_store *store, int n, size_t length, bool *ret_created,
                                       remat_error *error)
{
    char id[32], name[64], *document = make_bytes(length, (uint64_t)n, true);
    snprintf(id, sizeof id, "profile%d", n);
    snprintf(name, sizeof name, "Net-%d", n);
    bool created;
    remat_profile_record profile = {.id = id,
                                    .name = name,
                                    .kind = "chain",
                                    .nodes = (uint32_t)n + 1,
                                    .edges = (uint32_t)n,
                                    .document = {document, length},
                                    .summary = {"{\"nodes\":1}", 11},
                                    .created = 1000 + n,
                                    .last_used = 1000 + n};
    remat_status status =
        remat_store_put_profile(store, &profile, ret_created ? ret_created : &created, error);
    free(document);
    return status;
}

static inline remat_status put_schedule(remat_store *store, int n, int profile, size_t length,
                                        bool *ret_created, remat_error *error)
{
    char id[32], profile_id[32];
    snprintf(id, sizeof id, "schedule%d", n);
    snprintf(profile_id, sizeof profile_id, "profile%d", profile);
    char *body = make_bytes(length, (uint64_t)n + 7, true);
    bool created;
    remat_schedule_record schedule = {.id = id,
                                      .profile_id = profile_id,
                                      .solver = n % 2 ? "rotor" : "revolve",
                                      .requested_solver = "auto",
                                      .budget = UINT64_MAX - (uint64_t)n,
                                      .peak = UINT64_C(1) << 63,
                                      .makespan = n * 0.1,
                                      .overhead = -0.0,
                                      .created = 2000 + n,
                                      .last_used = 2000 + n,
                                      .question = {"{\"budget\":1}", 12},
                                      .body = {body, length}};
    remat_status status =
        remat_store_put_schedule(store, &schedule, ret_created ? ret_created : &created, error);
    free(body);
    return status;
}

/* The schedule of that number as it was put. */
static inline void assert_schedule(remat_store *store, int n, size_t length)
{
    char id[32];
    snprintf(id, sizeof id, "schedule%d", n);
    remat_schedule_record schedule;
    assert_ok(remat_store_get_schedule(store, id, &schedule, error));
    char *body = make_bytes(length, (uint64_t)n + 7, true);
    assert_int_equal(schedule.body.length, length);
    assert_memory_equal(schedule.body.data, body, length + 1);
    assert_string_equal(schedule.question.data, "{\"budget\":1}");
    assert_true(schedule.budget == UINT64_MAX - (uint64_t)n);
    assert_true(schedule.peak == UINT64_C(1) << 63);
    assert_true(schedule.makespan == n * 0.1);
    free(body);
    remat_schedule_record_clear(&schedule);
}

/* Until the profile was used later than the given time: marks are on their way for a second. */
static inline void wait_for_marks(remat_store *store, const char *id, int64_t before)
{
    for (int i = 0; i < 200; i++) {
        remat_profile_record profile;
        usleep(50000);
        assert_ok(remat_store_get_profile(store, id, &profile, error));
        int64_t last_used = profile.last_used;
        remat_profile_record_clear(&profile);
        if (last_used > before)
            return;
    }
    fail_msg("the mark of %s was not written", id);
}

static inline void *read_whole(const char *path, size_t *ret_length)
{
    struct stat entry;
    int file = open(path, O_RDONLY);
    *ret_length = 0;
    if (file < 0)
        return calloc(1, 1);
    fstat(file, &entry);
    void *data = malloc((size_t)entry.st_size + 1);
    assert_int_equal(read(file, data, (size_t)entry.st_size), entry.st_size);
    close(file);
    *ret_length = (size_t)entry.st_size;
    return data;
}

#endif
