/* The disk fails below SQLite while it is read: the nth read is an I/O error, once or from then on.
 * What is asked is then answered right or with REMAT_IO, never wrong, and nothing is dropped as
 * damaged: once the disk is well everything is there. storage_io.c has the writes. */
#include "unit/storage_support.h"

#include <stdatomic.h>

/* ---- the shim ---- */

static sqlite3_vfs shim, *real_vfs;
/* The system has one set of methods for databases and one for the files beside them, which nobody
 * locks; both read in the same way. */
static sqlite3_io_methods methods[2];
static int (*real_read)(sqlite3_file *file, void *data, int length, sqlite3_int64 offset);
static atomic_int countdown = -1; /* reads until the failure; < 0: none */
static atomic_int failed;
static bool forever;

static bool fails(void)
{
    int before = atomic_fetch_sub(&countdown, 1);
    bool now = before == 0 || (forever && atomic_load(&failed) > 0);
    if (now)
        atomic_fetch_add(&failed, 1);
    return now;
}

static int shim_read(sqlite3_file *file, void *data, int length, sqlite3_int64 offset)
{
    return fails() ? SQLITE_IOERR_READ : real_read(file, data, length, offset);
}

static int shim_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                     int *ret_flags)
{
    int code = real_vfs->xOpen(real_vfs, name, file, flags, ret_flags);
    if (code != SQLITE_OK || !file->pMethods)
        return code;
    sqlite3_io_methods *mine = &methods[(flags & SQLITE_OPEN_MAIN_DB) != 0];
    real_read = file->pMethods->xRead;
    *mine = *file->pMethods;
    mine->iVersion = 2; /* no memory mapping: every read comes through here */
    mine->xRead = shim_read;
    file->pMethods = mine;
    return code;
}

static int install(void **state)
{
    real_vfs = sqlite3_vfs_find(NULL);
    shim = *real_vfs;
    shim.zName = "failing reads";
    shim.pNext = NULL;
    shim.xOpen = shim_open;
    return sqlite3_vfs_register(&shim, 1);
}

static void arm(int after)
{
    atomic_store(&failed, 0);
    atomic_store(&countdown, after);
}

/* ---- tests ---- */

enum { SCHEDULES = 8, LENGTH = 30000 };

static void fill(void)
{
    remat_store *store = open_store();
    assert_ok(put_profile(store, 1, 5000, NULL, error));
    for (int i = 0; i < SCHEDULES; i++)
        assert_ok(put_schedule(store, i, 1, LENGTH, NULL, error));
    remat_store_close(store);
}

/* The schedule is the right one, or the disk failed under it. */
static void right_or_failed(remat_store *store, int n)
{
    remat_schedule_record schedule;
    remat_error why = {0};
    char id[32], *body = make_bytes(LENGTH, (uint64_t)n + 7, true);
    snprintf(id, sizeof id, "schedule%d", n);
    remat_status status = remat_store_get_schedule(store, id, &schedule, &why);
    if (status == REMAT_OK) {
        assert_int_equal(schedule.body.length, LENGTH);
        assert_memory_equal(schedule.body.data, body, LENGTH);
        remat_schedule_record_clear(&schedule);
    } else if (status != REMAT_IO) {
        fail_msg("%s is %s: %s", id, remat_status_name(status), why.message);
    }
    free(body);
}

/* Asks for everything while the nth read fails. False when all was read before that. */
static bool survive(int after)
{
    remat_store *store = NULL;
    remat_error why = {0};
    arm(after);
    remat_status status = remat_store_open(store_path, NULL, &store, &why);
    if (status != REMAT_OK && status != REMAT_IO)
        fail_msg("read %d: %s: %s", after, remat_status_name(status), why.message);
    for (int i = 0; status == REMAT_OK && i < SCHEDULES; i++)
        right_or_failed(store, i);
    bool reached = atomic_load(&failed) > 0;
    arm(-1);
    for (int i = 0; status == REMAT_OK && i < SCHEDULES; i++)
        assert_schedule(store, i, LENGTH);
    remat_store_close(store);
    store = open_store();
    assert_ok(remat_store_check(store, error));
    for (int i = 0; i < SCHEDULES; i++)
        assert_schedule(store, i, LENGTH);
    remat_store_close(store);
    return reached;
}

static void every_read(bool from_then_on)
{
    int n = 0;
    forever = from_then_on;
    fill();
    while (survive(n))
        n++;
    print_message("# %d reads\n", n);
    assert_true(n > 2 * SCHEDULES);
}

static void read_error_once(void **state)
{
    every_read(false);
}

static void read_errors_from_then_on(void **state)
{
    every_read(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(read_error_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(read_errors_from_then_on, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, install, NULL);
}
