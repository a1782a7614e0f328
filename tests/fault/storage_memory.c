/* The nth allocation fails, in the store (the linker sends its calls here) and in SQLite (its
 * configuration does): an error comes back, nothing leaks, nothing acknowledged is lost, the store
 * checks. */
#include "unit/storage_support.h"

#include <stdatomic.h>

static atomic_int countdown = -1;
static atomic_bool failed;

static bool fails(void)
{
    if (atomic_load(&countdown) < 0 || atomic_fetch_sub(&countdown, 1) != 0)
        return false;
    atomic_store(&failed, true);
    return true;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}

static sqlite3_mem_methods real_methods;

static void *sqlite_malloc(int size)
{
    return fails() ? NULL : real_methods.xMalloc(size);
}

static void *sqlite_realloc(void *old, int size)
{
    return fails() ? NULL : real_methods.xRealloc(old, size);
}

static int install(void **state)
{
    sqlite3_mem_methods methods;
    if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real_methods) != SQLITE_OK)
        return -1;
    methods = real_methods;
    methods.xMalloc = sqlite_malloc;
    methods.xRealloc = sqlite_realloc;
    return sqlite3_config(SQLITE_CONFIG_MALLOC, &methods);
}

/* Prepared ahead, so that the test itself allocates nothing while allocations fail. */
static char *document, *body, *table;
enum { LENGTH = 20000 };

static remat_status use_store(remat_store *store, bool acknowledged[4])
{
    remat_error why;
    bool created;
    remat_status status, worst = REMAT_OK;
#define NOTE(call)                                                                                 \
    do {                                                                                           \
        status = (call);                                                                           \
        if (status == REMAT_NO_MEMORY)                                                             \
            worst = status;                                                                        \
        else if (status != REMAT_OK && status != REMAT_NOT_FOUND)                                  \
            fail_msg("%s: %s: %s", #call, remat_status_name(status), why.message);                 \
    } while (0)
    remat_profile_record profile = {.id = "profile1",
                                    .name = "n",
                                    .kind = "chain",
                                    .document = {document, LENGTH},
                                    .summary = {"{}", 2}},
                         got_profile;
    NOTE(remat_store_put_profile(store, &profile, &created, &why));
    acknowledged[0] = status == REMAT_OK;
    remat_schedule_record schedule = {.id = "schedule1",
                                      .profile_id = "profile1",
                                      .solver = "rotor",
                                      .requested_solver = "auto",
                                      .question = {"{}", 2},
                                      .body = {body, LENGTH}},
                          got_schedule;
    NOTE(remat_store_put_schedule(store, &schedule, &created, &why));
    acknowledged[1] = status == REMAT_OK;
    NOTE(remat_store_put_table(store, "profile1", "rotor", "{}", table, LENGTH, &why));
    acknowledged[2] = status == REMAT_OK;
    remat_job_record job = {.id = "job1", .state = "queued", .question = {"{}", 2}}, got_job;
    NOTE(remat_store_put_job(store, &job, &why));
    acknowledged[3] = status == REMAT_OK;
    remat_measurement_record measurement = {.body = {"{}", 2}};
    NOTE(remat_store_put_measurement(store, "schedule1", &measurement, &why));
    remat_store_touch(store, "profile1", "schedule1", "rotor", "{}");

    NOTE(remat_store_get_profile(store, "profile1", &got_profile, &why));
    if (status == REMAT_OK)
        remat_profile_record_clear(&got_profile);
    NOTE(remat_store_get_schedule(store, "schedule1", &got_schedule, &why));
    if (status == REMAT_OK)
        remat_schedule_record_clear(&got_schedule);
    remat_blob got_table;
    NOTE(remat_store_get_table(store, "profile1", "rotor", "{}", &got_table, &why));
    if (status == REMAT_OK)
        free(got_table.data);
    NOTE(remat_store_get_job(store, "job1", &got_job, &why));
    if (status == REMAT_OK)
        remat_job_record_clear(&got_job);
    remat_page page = {.limit = 1};
    remat_profile_list profiles;
    remat_job_list jobs;
    remat_measurement_list measurements;
    NOTE(remat_store_list_profiles(store, "n", page, &profiles, &why));
    if (status == REMAT_OK)
        remat_profile_list_clear(&profiles);
    NOTE(remat_store_list_jobs(store, true, page, &jobs, &why));
    if (status == REMAT_OK)
        remat_job_list_clear(&jobs);
    NOTE(remat_store_list_measurements(store, "schedule1", page, &measurements, &why));
    if (status == REMAT_OK)
        remat_measurement_list_clear(&measurements);
    remat_store_statistics statistics;
    NOTE(remat_store_statistics_get(store, &statistics, &why));
    NOTE(remat_store_ping(store, &why));
    /* SQLite does not always say why it could not read a page; that it is damaged is never the
     * answer. */
    status = remat_store_check(store, &why);
    assert_true(status == REMAT_OK || status == REMAT_NO_MEMORY || status == REMAT_IO);
    return worst;
}

static bool survive(int after, const char *copy)
{
    bool acknowledged[4] = {false};
    remat_store *store = NULL;
    remat_error why = {0};
    atomic_store(&failed, false);
    atomic_store(&countdown, after);
    remat_status status = remat_store_open(store_path, NULL, &store, &why);
    if (status == REMAT_OK) {
        use_store(store, acknowledged);
        status = remat_store_backup(store, copy, &why);
        if (status != REMAT_OK && status != REMAT_NO_MEMORY)
            fail_msg("backup: %s: %s", remat_status_name(status), why.message);
        remat_store_close(store);
    } else if (status != REMAT_NO_MEMORY) {
        fail_msg("open: %s: %s", remat_status_name(status), why.message);
    }
    atomic_store(&countdown, -1);
    bool reached = atomic_load(&failed);
    store = open_store();
    assert_ok(remat_store_check(store, error));
    remat_profile_record profile;
    if (acknowledged[0]) {
        assert_ok(remat_store_get_profile(store, "profile1", &profile, error));
        assert_memory_equal(profile.document.data, document, LENGTH);
        remat_profile_record_clear(&profile);
    }
    remat_schedule_record schedule;
    if (acknowledged[1]) {
        assert_ok(remat_store_get_schedule(store, "schedule1", &schedule, error));
        assert_memory_equal(schedule.body.data, body, LENGTH);
        remat_schedule_record_clear(&schedule);
    }
    remat_store_close(store);
    unlink(store_path);
    unlink(copy);
    return reached;
}

static void every_allocation(void **state)
{
    char copy[128];
    snprintf(copy, sizeof copy, "%s/copy.db", directory);
    document = make_bytes(LENGTH, 1, true);
    body = make_bytes(LENGTH, 2, true);
    table = make_bytes(LENGTH, 3, false);
    const bool slow = getenv("REMAT_SLOW_BUILD");
    int n = 0;
    while (survive(n, copy))
        n += n < 400 ? (slow ? 3 : 1) : (slow ? 37 : 7);
    print_message("# %d allocations\n", n);
    assert_true(n > 100);
    free(document);
    free(body);
    free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_allocation, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, install, NULL);
}
