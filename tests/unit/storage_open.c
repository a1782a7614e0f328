/* What may be opened and what is refused; migrations; a second process; backups. */
#include "unit/storage_support.h"

#include "sqlite/sqlite.h"

#include <sys/wait.h>

static void write_whole(const char *path, const void *data, size_t length)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_int_equal(write(file, data, length), length);
    close(file);
}

/* Refused with that status, and not one byte of the file is another. */
static void assert_refused(remat_status status, bool read_only)
{
    size_t before_length, after_length;
    void *before = read_whole(store_path, &before_length);
    remat_store *store = NULL;
    remat_store_options options = {.read_only = read_only};
    assert_status(remat_store_open(store_path, &options, &store, error), status);
    assert_null(store);
    void *after = read_whole(store_path, &after_length);
    assert_int_equal(before_length, after_length);
    assert_memory_equal(before, after, before_length);
    free(before);
    free(after);
}

static void newer_refused(void **state)
{
    remat_store_close(open_store());
    sql("PRAGMA user_version = 99");
    assert_refused(REMAT_NEWER, false);
    assert_refused(REMAT_NEWER, true);
}

/* A newer store whose process was killed: its log is left alone as well. */
static void newer_log_untouched(void **state)
{
    remat_store_close(open_store());
    pid_t child = fork();
    if (child == 0) {
        sqlite3 *db;
        sqlite3_open(store_path, &db);
        sqlite3_exec(db, "PRAGMA user_version = 99; UPDATE pulse SET beat = 5", NULL, NULL, NULL);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    size_t before_length, after_length;
    void *before = read_whole(wal_path, &before_length);
    assert_true(before_length > 0);
    assert_refused(REMAT_NEWER, false);
    assert_refused(REMAT_NEWER, true);
    void *after = read_whole(wal_path, &after_length);
    assert_int_equal(before_length, after_length);
    assert_memory_equal(before, after, before_length);
    free(before);
    free(after);
}

static void other_files_refused(void **state)
{
    char *garbage = make_bytes(20000, 5, false);
    write_whole(store_path, garbage, 20000);
    assert_refused(REMAT_INVALID, false);
    assert_refused(REMAT_INVALID, true);
    write_whole(store_path, "hello", 5);
    assert_refused(REMAT_INVALID, false);
    unlink(store_path);
    sql("CREATE TABLE theirs (x)");
    assert_refused(REMAT_INVALID, false);
    assert_refused(REMAT_INVALID, true);
    free(garbage);
}

static void bad_places(void **state)
{
    remat_store *store = NULL;
    remat_store_options options = {.read_only = true};
    char path[256];
    assert_status(remat_store_open("", NULL, &store, error), REMAT_INVALID);
    assert_status(remat_store_open(directory, NULL, &store, error), REMAT_IO);
    snprintf(path, sizeof path, "%s.lock", directory);
    unlink(path);
    snprintf(path, sizeof path, "%s/none/store.db", directory);
    assert_status(remat_store_open(path, NULL, &store, error), REMAT_IO);
    assert_status(remat_store_open(store_path, &options, &store, error), REMAT_IO);
    assert_int_equal(access(store_path, F_OK), -1); /* a reader creates nothing */
}

/* SQLite's special names are names of files. */
static void special_names(void **state)
{
    char before[512];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(directory), 0);
    static const char *const names[] = {":memory:", "file:a?mode=memory", "a b%20c"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        remat_store *store;
        assert_ok(remat_store_open(names[i], NULL, &store, error));
        assert_int_equal(chdir("/"), 0);
        assert_ok(put_profile(store, 1, 10, NULL, error));
        remat_store_close(store);
        assert_int_equal(chdir(directory), 0);
        assert_int_equal(access(names[i], R_OK), 0);
    }
    assert_int_equal(chdir(before), 0);
}

static void empty_file_is_new(void **state)
{
    write_whole(store_path, "", 0);
    remat_store *store = open_store();
    assert_ok(remat_store_check(store, error));
    remat_store_close(store);
    size_t length;
    unsigned char *bytes = read_whole(store_path, &length);
    assert_memory_equal(bytes + 68, "RMAT", 4); /* application_id in the header */
    free(bytes);
}

static void one_writer_many_readers(void **state)
{
    remat_store *store = open_store(), *other = NULL;
    assert_ok(put_profile(store, 1, 5000, NULL, error));
    assert_status(remat_store_open(store_path, NULL, &other, error), REMAT_IO);

    remat_store_options options = {.read_only = true, .log = log_line};
    assert_ok(remat_store_open(store_path, &options, &other, error));
    assert_ok(put_schedule(store, 1, 1, 5000, NULL, error));
    assert_schedule(other, 1, 5000);
    assert_ok(remat_store_check(other, error));
    assert_ok(remat_store_ping(other, error));
    assert_status(put_profile(other, 2, 10, NULL, error), REMAT_INVALID);
    assert_status(remat_store_delete_profile(other, "profile1", error), REMAT_INVALID);
    remat_store_touch(other, "profile1", NULL, NULL, NULL);
    char copy[160];
    snprintf(copy, sizeof copy, "%s/copy.db", directory);
    assert_ok(remat_store_backup(other, copy, error));
    remat_store_close(other);
    assert_ok(put_schedule(store, 2, 1, 5000, NULL, error));
    remat_store_close(store);

    /* Now there is nobody to create the log, and still it can be read. */
    assert_ok(remat_store_open(store_path, &options, &other, error));
    assert_schedule(other, 2, 5000);
    remat_store_close(other);
}

static void backups(void **state)
{
    remat_store *store = open_store();
    char copy[160];
    snprintf(copy, sizeof copy, "%s/copy.db", directory);
    assert_ok(put_profile(store, 1, 5000, NULL, error));
    assert_ok(put_schedule(store, 1, 1, 70000, NULL, error));
    assert_ok(remat_store_backup(store, copy, error));
    assert_status(remat_store_backup(store, copy, error), REMAT_INVALID);
    assert_status(remat_store_backup(store, store_path, error), REMAT_INVALID);
    assert_status(remat_store_backup(store, "/nowhere/at/all", error), REMAT_IO);
    remat_store_close(store);

    strcpy(store_path, copy);
    store = open_store();
    assert_schedule(store, 1, 70000);
    assert_ok(remat_store_check(store, error));
    remat_store_close(store);
    DIR *entries = opendir(directory);
    for (struct dirent *entry; (entry = readdir(entries));)
        assert_null(strstr(entry->d_name, "partial"));
    closedir(entries);
}

/* ---- migrations ---- */

static int64_t number(sqlite_connection *connection, const char *text)
{
    int64_t result = -1;
    assert_ok(sqlite_number(connection, text, &result, error));
    return result;
}

static void migrations(void **state)
{
    static const sqlite_migration good[] = {
        {"CREATE TABLE a (n INTEGER PRIMARY KEY);"
         "CREATE TABLE b (a INTEGER REFERENCES a (n) ON DELETE CASCADE);"
         "INSERT INTO a VALUES (1); INSERT INTO b VALUES (1)"},
        /* rebuilds a table that others refer to */
        {"CREATE TABLE c (n INTEGER PRIMARY KEY, m); INSERT INTO c SELECT n, 5 FROM a;"
         "DROP TABLE a; ALTER TABLE c RENAME TO a"},
        {"ALTER TABLE b ADD COLUMN d"},
    };
    sqlite_connection *connection;
    assert_ok(sqlite_connection_open(NULL, store_path, SQLITE_CREATE, &connection, error));
    assert_ok(sqlite_migrate(connection, 0, good, 1, error));
    assert_int_equal(number(connection, "PRAGMA user_version"), 1);
    assert_ok(sqlite_migrate(connection, 1, good, 3, error));
    assert_int_equal(number(connection, "PRAGMA user_version"), 3);
    assert_int_equal(number(connection, "SELECT count(*) FROM b JOIN a ON a.n = b.a"), 1);
    assert_ok(sqlite_migrate(connection, 3, good, 3, error));

    /* What fails half-way, or leaves a reference to nothing, has not happened. */
    static const sqlite_migration bad[] = {
        {""}, {""}, {""}, {"CREATE TABLE e (n); INSERT INTO nowhere VALUES (1)"}};
    static const sqlite_migration dangling[] = {
        {""}, {""}, {""}, {"CREATE TABLE e (n); DELETE FROM a"}};
    assert_status(sqlite_migrate(connection, 3, bad, 4, error), REMAT_INTERNAL);
    assert_status(sqlite_migrate(connection, 3, dangling, 4, error), REMAT_CORRUPT);
    assert_int_equal(number(connection, "PRAGMA user_version"), 3);
    assert_int_equal(number(connection, "SELECT count(*) FROM sqlite_schema WHERE name = 'e'"), 0);
    assert_int_equal(number(connection, "SELECT count(*) FROM a"), 1);
    sqlite_connection_close(connection);
}

/* ---- checksums ---- */

/* XXH64 as its reference implementation computes it: the published values for "" and "abc", and,
 * for every length up to 300, the low half that zstd writes behind a frame. */
static void hash_is_xxh64(void **state)
{
    assert_true(storage_hash("", 0, 0) == UINT64_C(0xEF46DB3751D8E999));
    assert_true(storage_hash("abc", 3, 0) == UINT64_C(0x44BC2CF5AD770999));
    for (size_t length = 0; length <= 300; length++) {
        char *bytes = make_bytes(length, length, false);
        remat_blob stored, raw;
        assert_ok(storage_encode(1, &(remat_blob){bytes, length}, &stored, error));
        unsigned char *end = (unsigned char *)stored.data + stored.length;
        uint32_t low = (uint32_t)end[-4] | (uint32_t)end[-3] << 8 | (uint32_t)end[-2] << 16 |
                       (uint32_t)end[-1] << 24;
        assert_true(low == (uint32_t)storage_hash(bytes, length, 0));
        assert_ok(storage_decode(1, stored.data, stored.length, &raw, error));
        assert_int_equal(raw.length, length);
        free(raw.data);
        free(stored.data);
        free(bytes);
    }
}

/* Every flipped bit, every shorter length and a wrong owner are noticed. */
static void blobs_are_watched(void **state)
{
    remat_blob stored, raw;
    char *bytes = make_bytes(300, 3, true);
    assert_ok(storage_encode(9, &(remat_blob){bytes, 300}, &stored, error));
    unsigned char *p = stored.data;
    for (size_t bit = 0; bit < stored.length * 8; bit++) {
        p[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_status(storage_decode(9, p, stored.length, &raw, error), REMAT_CORRUPT);
        p[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    for (size_t length = 0; length < stored.length; length++)
        assert_status(storage_decode(9, p, length, &raw, error), REMAT_CORRUPT);
    assert_status(storage_decode(8, p, stored.length, &raw, error), REMAT_CORRUPT);

    /* A length that lies under a checksum that does not: nothing of that size is allocated. */
    static const uint64_t lies[] = {0, 299, 301, UINT64_C(1) << 40, UINT64_MAX};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        memcpy(p + 8, &lies[i], 8);
        uint64_t checksum = storage_hash(p + 8, stored.length - 8, 9);
        memcpy(p, &checksum, 8);
        assert_status(storage_decode(9, p, stored.length, &raw, error), REMAT_CORRUPT);
    }
    free(stored.data);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(newer_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(newer_log_untouched, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_files_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bad_places, set_up, tear_down),
        cmocka_unit_test_setup_teardown(special_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(empty_file_is_new, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_writer_many_readers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(backups, set_up, tear_down),
        cmocka_unit_test_setup_teardown(migrations, set_up, tear_down),
        cmocka_unit_test(hash_is_xxh64),
        cmocka_unit_test(blobs_are_watched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
