/* The disk fails below SQLite: a VFS shim under which the nth write, sync or truncation of any file
 * of the store fails, once or from then on, as an I/O error or as a full disk. After each failure
 * nothing acknowledged is lost, nothing that failed is half there, and the store reopens and
 * checks. */
#include "sqlite/sqlite.h"
#include "unit/storage_support.h"

#include <stdatomic.h>

/* ---- the shim ---- */

typedef struct shim_file {
    sqlite3_file base;
    sqlite3_file *real; /* in the memory behind */
} shim_file;

static sqlite3_vfs shim, *real_vfs;
static atomic_int countdown; /* operations until the failure; < 0: none */
static atomic_bool persistent;
static atomic_int failed;
static int failure; /* SQLITE_FULL or SQLITE_IOERR */

static bool fails(void)
{
    int before = atomic_fetch_sub(&countdown, 1);
    bool now = before == 0 || (before < 0 && atomic_load(&failed) && atomic_load(&persistent));
    if (now)
        atomic_fetch_add(&failed, 1);
    return now;
}

#define REAL(file) (((shim_file *)(file))->real)
#define CALL(file, method, ...) REAL(file)->pMethods->method(REAL(file), __VA_ARGS__)

static int shim_close(sqlite3_file *file)
{
    return REAL(file)->pMethods->xClose(REAL(file));
}
static int shim_read(sqlite3_file *file, void *data, int length, sqlite3_int64 offset)
{
    return CALL(file, xRead, data, length, offset);
}
/* A failing write leaves half of itself behind. */
static int shim_write(sqlite3_file *file, const void *data, int length, sqlite3_int64 offset)
{
    if (!fails())
        return CALL(file, xWrite, data, length, offset);
    if (length > 1)
        CALL(file, xWrite, data, length / 2, offset);
    return failure == SQLITE_FULL ? SQLITE_FULL : SQLITE_IOERR_WRITE;
}
static int shim_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    return fails() ? SQLITE_IOERR_TRUNCATE : CALL(file, xTruncate, size);
}
static int shim_sync(sqlite3_file *file, int flags)
{
    return fails() ? SQLITE_IOERR_FSYNC : CALL(file, xSync, flags);
}
static int shim_size(sqlite3_file *file, sqlite3_int64 *size)
{
    return CALL(file, xFileSize, size);
}
static int shim_lock(sqlite3_file *file, int level)
{
    return CALL(file, xLock, level);
}
static int shim_unlock(sqlite3_file *file, int level)
{
    return CALL(file, xUnlock, level);
}
static int shim_check_lock(sqlite3_file *file, int *result)
{
    return CALL(file, xCheckReservedLock, result);
}
static int shim_control(sqlite3_file *file, int op, void *argument)
{
    return CALL(file, xFileControl, op, argument);
}
static int shim_sector(sqlite3_file *file)
{
    return REAL(file)->pMethods->xSectorSize(REAL(file));
}
static int shim_device(sqlite3_file *file)
{
    return REAL(file)->pMethods->xDeviceCharacteristics(REAL(file));
}
static int shim_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **memory)
{
    return CALL(file, xShmMap, page, size, extend, memory);
}
static int shim_shm_lock(sqlite3_file *file, int offset, int n, int flags)
{
    return CALL(file, xShmLock, offset, n, flags);
}
static void shim_shm_barrier(sqlite3_file *file)
{
    REAL(file)->pMethods->xShmBarrier(REAL(file));
}
static int shim_shm_unmap(sqlite3_file *file, int delete)
{
    return CALL(file, xShmUnmap, delete);
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = shim_close,
    .xRead = shim_read,
    .xWrite = shim_write,
    .xTruncate = shim_truncate,
    .xSync = shim_sync,
    .xFileSize = shim_size,
    .xLock = shim_lock,
    .xUnlock = shim_unlock,
    .xCheckReservedLock = shim_check_lock,
    .xFileControl = shim_control,
    .xSectorSize = shim_sector,
    .xDeviceCharacteristics = shim_device,
    .xShmMap = shim_shm_map,
    .xShmLock = shim_shm_lock,
    .xShmBarrier = shim_shm_barrier,
    .xShmUnmap = shim_shm_unmap,
};

static int shim_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                     int *ret_flags)
{
    shim_file *mine = (shim_file *)file;
    mine->real = (sqlite3_file *)(mine + 1);
    int code = real_vfs->xOpen(real_vfs, name, mine->real, flags, ret_flags);
    mine->base.pMethods = mine->real->pMethods ? &methods : NULL;
    return code;
}

static int install(void **state)
{
    real_vfs = sqlite3_vfs_find(NULL);
    shim = *real_vfs;
    shim.zName = "failing";
    shim.pNext = NULL;
    shim.szOsFile = (int)sizeof(shim_file) + real_vfs->szOsFile;
    shim.xOpen = shim_open;
    atomic_store(&countdown, -1);
    return sqlite3_vfs_register(&shim, 1);
}

static void arm(int after, int kind, bool forever)
{
    failure = kind;
    atomic_store(&persistent, forever);
    atomic_store(&failed, 0);
    atomic_store(&countdown, after);
}

static void disarm(void)
{
    atomic_store(&persistent, false);
    atomic_store(&countdown, -1);
}

/* ---- tests ---- */

enum { SCHEDULES = 12, LENGTH = 30000 };

/* Opens, writes and closes while the nth operation fails; then everything acknowledged must be
 * there. False when the work was done before the nth operation came. */
static bool survive(int after, int kind, bool forever)
{
    bool acknowledged[SCHEDULES] = {false}, table = false, profile = false;
    remat_store *store = NULL;
    arm(after, kind, forever);
    remat_error why = {0};
    remat_status status = remat_store_open(store_path, NULL, &store, &why);
    if (status == REMAT_OK) {
        profile = put_profile(store, 1, 5000, NULL, NULL) == REMAT_OK;
        for (int i = 0; i < SCHEDULES; i++) {
            status = put_schedule(store, i, 1, LENGTH, NULL, &why);
            acknowledged[i] = status == REMAT_OK;
            if (status != REMAT_OK && status != REMAT_NOT_FOUND && status != REMAT_IO)
                fail_msg("operation %d: %s: %s", after, remat_status_name(status), why.message);
            if (status == REMAT_IO)
                assert_non_null(strstr(why.message, store_path));
            if (status == REMAT_IO && kind == SQLITE_FULL && strstr(why.message, "code 13"))
                assert_non_null(strstr(why.message, "disk is full"));
        }
        char *bytes = make_bytes(300000, 5, false);
        table = remat_store_put_table(store, "profile1", "rotor", "{}", bytes, 300000, NULL) ==
                REMAT_OK;
        free(bytes);
        if (forever && atomic_load(&failed))
            assert_status(remat_store_ping(store, error), REMAT_IO);
        /* The disk is well again: so is the store, without a restart. */
        bool reached = atomic_load(&failed) > 0;
        if (after % 2) {
            disarm();
            assert_ok(remat_store_ping(store, error));
            assert_ok(put_profile(store, 1, 5000, NULL, error));
            assert_ok(put_schedule(store, 99, 1, LENGTH, NULL, error));
            assert_schedule(store, 99, LENGTH);
        }
        remat_store_close(store);
        if (reached)
            atomic_store(&failed, 1);
    } else {
        assert_true(status == REMAT_IO);
    }
    bool reached = atomic_load(&failed) > 0;
    disarm();
    store = open_store();
    assert_ok(remat_store_check(store, error));
    for (int i = 0; i < SCHEDULES; i++) {
        assert_true(!acknowledged[i] || profile);
        if (acknowledged[i])
            assert_schedule(store, i, LENGTH);
    }
    if (table) {
        remat_blob got;
        assert_ok(remat_store_get_table(store, "profile1", "rotor", "{}", &got, error));
        free(got.data);
    }
    assert_ok(put_profile(store, 1, 5000, NULL, error));
    assert_ok(put_schedule(store, 0, 1, LENGTH, NULL, error));
    remat_store_close(store);
    unlink(store_path);
    unlink(wal_path);
    return reached;
}

static void every_operation(int kind, bool forever)
{
    int n = 0;
    while (survive(n, kind, forever))
        n += n < 150 ? 1 : 7; /* each of the schema and the first writes; then a sample */
    print_message("# %d operations\n", n);
    assert_true(n > 100);
}

static void io_error_once(void **state)
{
    every_operation(SQLITE_IOERR, false);
}

static void io_error_from_then_on(void **state)
{
    every_operation(SQLITE_IOERR, true);
}

static void disk_full_once(void **state)
{
    every_operation(SQLITE_FULL, false);
}

static void disk_full_from_then_on(void **state)
{
    every_operation(SQLITE_FULL, true);
}

/* A backup that fails leaves nothing behind, and the store as it was. */
static void failing_backup(void **state)
{
    remat_store *store = open_store();
    assert_ok(put_profile(store, 1, 5000, NULL, error));
    for (int i = 0; i < 5; i++)
        assert_ok(put_schedule(store, i, 1, LENGTH, NULL, error));
    char copy[128];
    snprintf(copy, sizeof copy, "%s/copy.db", directory);
    for (int n = 0;; n++) {
        arm(n, SQLITE_FULL, true);
        remat_error why = {0};
        remat_status status = remat_store_backup(store, copy, &why);
        disarm();
        if (status == REMAT_OK)
            break;
        assert_int_equal(status, REMAT_IO);
        assert_int_equal(access(copy, F_OK), -1);
    }
    assert_ok(remat_store_check(store, error));
    remat_store_close(store);
    strcpy(store_path, copy);
    store = open_store();
    assert_schedule(store, 4, LENGTH);
    remat_store_close(store);
}

/* A store as an earlier version left it. */
static void make_older(int version)
{
    static const char *const steps_back[] = {
        [1] = "DROP INDEX tables_of_none; PRAGMA user_version = 1",
        [2] = "ALTER TABLE jobs DROP COLUMN owner; ALTER TABLE jobs DROP COLUMN cancelling;"
              "ALTER TABLE jobs DROP COLUMN profile_id; PRAGMA user_version = 2"};
    remat_store *store = open_store();
    assert_ok(put_profile(store, 1, 5000, NULL, error));
    for (int i = 0; i < SCHEDULES; i++)
        assert_ok(put_schedule(store, i, 1, LENGTH, NULL, error));
    assert_ok(remat_store_put_table(store, "profile1", "rotor", "{}", "table", 5, error));
    remat_store_close(store);
    assert_int_equal(sqlite_version,
                     sizeof steps_back /
                         sizeof *steps_back); /* a newer one has its step back here */
    sqlite3 *db;
    assert_int_equal(sqlite3_open(store_path, &db), SQLITE_OK);
    for (int at = sqlite_version - 1; at >= version; at--)
        if (sqlite3_exec(db, steps_back[at], NULL, NULL, NULL) != SQLITE_OK)
            fail_msg("back to %d: %s", at, sqlite3_errmsg(db));
    sqlite3_close(db);
}

/* Whether the upgrade came to the nth operation, after which the process wrote nothing more. */
static bool upgrade_survives(int version, int after)
{
    make_older(version);
    remat_store *store = NULL;
    arm(after, SQLITE_IOERR, true);
    remat_status status = remat_store_open(store_path, NULL, &store, NULL);
    bool reached = atomic_load(&failed) > 0;
    if (status == REMAT_OK)
        remat_store_close(store);
    else
        assert_int_equal(status, REMAT_IO);
    disarm();
    remat_store_statistics found;
    store = open_store();
    assert_ok(remat_store_check(store, error));
    assert_ok(remat_store_statistics_get(store, &found, error));
    assert_int_equal(found.schema_version, sqlite_version);
    assert_int_equal(found.tables, 1);
    for (int i = 0; i < SCHEDULES; i++)
        assert_schedule(store, i, LENGTH);
    remat_store_close(store);
    unlink(store_path);
    unlink(wal_path);
    return reached;
}

static void upgrades_that_are_cut_off(void **state)
{
    for (int version = 1; version < sqlite_version; version++) {
        int n = 0;
        while (upgrade_survives(version, n))
            n++;
        print_message("# from version %d: %d operations\n", version, n);
        assert_true(n > 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(io_error_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(io_error_from_then_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(disk_full_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(disk_full_from_then_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(upgrades_that_are_cut_off, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failing_backup, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, install, NULL);
}
