/* Damage: known for what it is, dropped, and put back. */
#include "unit/storage_support.h"

static void fill(void)
{
    remat_store *store = open_store();
    assert_ok(put_profile(store, 1, 9000, NULL, error));
    for (int i = 0; i < 4; i++)
        assert_ok(put_schedule(store, i, 1, 40000, NULL, error));
    char *table = make_bytes(50000, 1, false);
    assert_ok(remat_store_put_table(store, "profile1", "rotor", "{}", table, 50000, error));
    free(table);
    remat_job_record job = {.id = "job", .state = "queued", .question = {"{}", 2}};
    assert_ok(remat_store_put_job(store, &job, error));
    job.id = "job2";
    assert_ok(remat_store_put_job(store, &job, error));
    remat_measurement_record measurement = {.created = 1, .body = {"{}", 2}};
    assert_ok(remat_store_put_measurement(store, "schedule2", &measurement, error));
    remat_store_close(store);
    log_text[0] = '\0';
}

/* Another connection changes one byte in the middle of the blob that the query names. */
#define FLIP(which)                                                                                \
    (on_postgres()                                                                                 \
         ? "UPDATE blobs SET data = set_byte(data, 99, 255 - get_byte(data, 99)) "                 \
           "WHERE id = (" which ")"                                                                \
         : "UPDATE blobs SET data = CAST(substr(data, 1, 99) || x'00' || substr(data, 101) AS "    \
           "BLOB) WHERE id = (" which ")")

static void damaged_body(void **state)
{
    fill();
    sql(FLIP("SELECT body FROM schedules WHERE id = 'schedule2'"));
    remat_store *store = open_store();
    assert_status(remat_store_check(store, error), REMAT_CORRUPT);
    remat_schedule_record schedule;
    for (int i = 0; i < 2; i++) { /* the second time it has been dropped before */
        assert_status(remat_store_get_schedule(store, "schedule2", &schedule, error),
                      REMAT_CORRUPT);
        assert_string_equal(schedule.id, "schedule2");
        assert_string_equal(schedule.question.data, "{\"budget\":1}");
        assert_int_equal(schedule.body.length, 0);
        remat_schedule_record_clear(&schedule);
    }
    assert_non_null(strstr(log_text, "dropped the damaged body of schedule schedule2"));
    assert_ok(remat_store_check(store, error));
    remat_schedule_list list;
    assert_ok(
        remat_store_list_schedules(store, NULL, NULL, (remat_page){.limit = 10}, &list, error));
    assert_int_equal(list.length, 3);
    remat_schedule_list_clear(&list);
    bool created = false;
    assert_ok(put_schedule(store, 2, 1, 41000, &created, error));
    assert_true(created);
    assert_schedule(store, 2, 41000);
    remat_measurement_list kept;
    assert_ok(
        remat_store_list_measurements(store, "schedule2", (remat_page){.limit = 10}, &kept, error));
    assert_int_equal(kept.length, 1);
    remat_measurement_list_clear(&kept);
    assert_ok(remat_store_check(store, error));
    remat_store_close(store);
}

/* A put over a damaged body puts it back without a get before it. */
static void put_over_damage(void **state)
{
    fill();
    sql(FLIP("SELECT body FROM schedules WHERE id = 'schedule1'"));
    sql(FLIP("SELECT document FROM profiles"));
    remat_store *store = open_store();
    bool created = false;
    assert_status(put_profile(store, 2, 100, &created, error), REMAT_OK);
    assert_ok(put_profile(store, 1, 9000, &created, error));
    assert_true(created);
    assert_ok(put_schedule(store, 1, 1, 40000, &created, error));
    assert_true(created);
    for (int i = 0; i < 4; i++)
        assert_schedule(store, i, 40000);
    assert_ok(remat_store_check(store, error));
    remat_store_close(store);
}

static void damaged_profile(void **state)
{
    fill();
    sql(FLIP("SELECT document FROM profiles"));
    remat_store *store = open_store();
    remat_profile_record profile;
    assert_status(remat_store_get_profile(store, "profile1", &profile, error), REMAT_CORRUPT);
    assert_status(remat_store_get_profile(store, "profile1", &profile, error), REMAT_NOT_FOUND);
    assert_status(put_schedule(store, 9, 1, 100, NULL, error), REMAT_NOT_FOUND);
    assert_non_null(strstr(log_text, "dropped the damaged profile profile1"));
    assert_ok(put_profile(store, 1, 9000, NULL, error));
    assert_ok(remat_store_get_profile(store, "profile1", &profile, error));
    assert_int_equal(profile.schedules, 4);
    remat_profile_record_clear(&profile);
    assert_schedule(store, 1, 40000);
    remat_store_close(store);
}

static void damaged_table(void **state)
{
    fill();
    sql(FLIP("SELECT data FROM tables"));
    remat_store *store = open_store();
    remat_blob table;
    assert_status(remat_store_get_table(store, "profile1", "rotor", "{}", &table, error),
                  REMAT_CORRUPT);
    assert_status(remat_store_get_table(store, "profile1", "rotor", "{}", &table, error),
                  REMAT_NOT_FOUND);
    assert_ok(remat_store_put_table(store, "profile1", "rotor", "{}", "again", 5, error));
    assert_ok(remat_store_get_table(store, "profile1", "rotor", "{}", &table, error));
    assert_string_equal(table.data, "again");
    free(table.data);
    assert_ok(remat_store_check(store, error));
    remat_store_close(store);
}

#define DAMAGE(bytes)                                                                              \
    "UPDATE schedules SET peak = peak + 1 WHERE id = 'schedule0';"                                 \
    "UPDATE schedules SET question = " bytes " WHERE id = 'schedule3';"                            \
    "UPDATE jobs SET state = 'Queued' WHERE id = 'job';"                                           \
    "UPDATE jobs SET question = " bytes " WHERE id = 'job2';"                                      \
    "UPDATE measurements SET body = " bytes ";"                                                    \
    "UPDATE schedules SET body = NULL WHERE id = 'schedule2';"                                     \
    "UPDATE schedules SET body = (SELECT document FROM profiles) "                                 \
    "WHERE id = 'schedule2'" /* another's blob */

/* Fields of records: no wrong number is ever handed out. */
static void damaged_fields(void **state)
{
    fill();
    sql(on_postgres() ? DAMAGE("''") : DAMAGE("x'00'"));
    remat_store *store = open_store();
    remat_schedule_record schedule;
    remat_error why = {0};
    assert_int_equal(remat_store_check(store, &why), REMAT_CORRUPT);
    assert_non_null(strstr(why.message, "in 6 places"));
    remat_schedule_list list;
    assert_ok(
        remat_store_list_schedules(store, NULL, NULL, (remat_page){.limit = 10}, &list, error));
    assert_int_equal(list.length, 3); /* without schedule0, which is gone now */
    remat_schedule_list_clear(&list);
    assert_status(remat_store_get_schedule(store, "schedule0", &schedule, error), REMAT_NOT_FOUND);
    assert_status(remat_store_get_schedule(store, "schedule3", &schedule, error), REMAT_CORRUPT);
    assert_null(schedule.id);
    assert_int_equal(schedule.question.length, 0);
    remat_schedule_record_clear(&schedule);
    assert_status(remat_store_get_schedule(store, "schedule3", &schedule, error), REMAT_NOT_FOUND);
    remat_measurement_list measurements;
    assert_ok(remat_store_list_measurements(store, "schedule2", (remat_page){.limit = 10},
                                            &measurements, error));
    assert_int_equal(measurements.length, 0);
    remat_measurement_list_clear(&measurements);
    assert_status(remat_store_get_schedule(store, "schedule2", &schedule, error), REMAT_CORRUPT);
    remat_schedule_record_clear(&schedule);
    remat_job_record job;
    assert_status(remat_store_get_job(store, "job", &job, error), REMAT_CORRUPT);
    assert_status(remat_store_get_job(store, "job", &job, error), REMAT_NOT_FOUND);
    remat_job_list jobs;
    assert_ok(remat_store_list_jobs(store, true, (remat_page){.limit = 10}, &jobs, error));
    assert_int_equal(jobs.length, 0);
    remat_job_list_clear(&jobs);
    assert_ok(remat_store_check(store, error));
    assert_ok(put_schedule(store, 0, 1, 40000, NULL, error));
    assert_schedule(store, 0, 40000);
    remat_profile_record profile; /* whose blob schedule2 had pointed at */
    assert_ok(remat_store_get_profile(store, "profile1", &profile, error));
    remat_profile_record_clear(&profile);
    remat_store_close(store);
}

static void read_only_reports(void **state)
{
    fill();
    sql(FLIP("SELECT body FROM schedules WHERE id = 'schedule2'"));
    remat_store *store;
    remat_store_options options = {.read_only = true, .log = log_line};
    assert_ok(remat_store_open(store_place, &options, &store, error));
    remat_schedule_record schedule;
    assert_status(remat_store_get_schedule(store, "schedule2", &schedule, error), REMAT_CORRUPT);
    remat_schedule_record_clear(&schedule);
    assert_status(remat_store_check(store, error), REMAT_CORRUPT);
    assert_string_equal(log_text, "");
    remat_store_close(store);
}

/* An unfinished job that nobody can read is dropped by who takes it; the others are taken. */
static void damaged_claim(void **state)
{
    fill();
    sql("UPDATE jobs SET created = created + 1 WHERE id = 'job'");
    remat_store *store = open_store();
    remat_job_list list;
    remat_job_record job;
    assert_ok(remat_store_claim_jobs(store, 5, &list, error));
    assert_int_equal(list.length, 1);
    assert_string_equal(list.items[0].id, "job2");
    remat_job_list_clear(&list);
    assert_non_null(strstr(log_text, "dropped the damaged unfinished job"));
    assert_status(remat_store_get_job(store, "job", &job, error), REMAT_NOT_FOUND);
    assert_ok(remat_store_check(store, error));
    remat_store_close(store);
}

/* ---- raw bytes ---- */

/* A schedule is what was put, or is not handed out. */
static void assert_true_or_absent(remat_store *store, int n)
{
    char id[32];
    snprintf(id, sizeof id, "schedule%d", n);
    remat_schedule_record schedule;
    remat_error why;
    remat_status status = remat_store_get_schedule(store, id, &schedule, &why);
    if (status == REMAT_OK)
        assert_schedule(store, n, 40000);
    else if (status != REMAT_CORRUPT && status != REMAT_NOT_FOUND && status != REMAT_IO)
        fail_msg("get_schedule: %s: %s", remat_status_name(status), why.message);
    if (status == REMAT_OK || status == REMAT_CORRUPT)
        remat_schedule_record_clear(&schedule);
}

static void use(remat_store *store)
{
    remat_profile_record profile;
    remat_profile_list profiles;
    remat_job_list jobs;
    remat_blob table;
    if (remat_store_get_profile(store, "profile1", &profile, NULL) == REMAT_OK) {
        char *document = make_bytes(9000, 1, true);
        assert_memory_equal(profile.document.data, document, 9001);
        free(document);
        remat_profile_record_clear(&profile);
    }
    for (int i = 0; i < 4; i++)
        assert_true_or_absent(store, i);
    if (remat_store_get_table(store, "profile1", "rotor", "{}", &table, NULL) == REMAT_OK) {
        char *expected = make_bytes(50000, 1, false);
        assert_memory_equal(table.data, expected, 50001);
        free(expected);
        free(table.data);
    }
    if (remat_store_list_profiles(store, NULL, (remat_page){.limit = 9}, &profiles, NULL) ==
        REMAT_OK)
        remat_profile_list_clear(&profiles);
    if (remat_store_list_jobs(store, true, (remat_page){.limit = 9}, &jobs, NULL) == REMAT_OK)
        remat_job_list_clear(&jobs);
    put_schedule(store, 1, 1, 40000, NULL, NULL);
    put_schedule(store, 50, 1, 40000, NULL, NULL);
    remat_store_check(store, NULL);
}

/* Eight random bytes at a random place of the file, 150 times: nothing crashes, nothing wrong comes
 * out. */
static void random_damage(void **state)
{
    fill();
    size_t length;
    char *whole = read_whole(store_path, &length);
    uint64_t seed = 1;
    int opened = 0;
    for (int round = 0; round < 150; round++) {
        int file = open(store_path, O_WRONLY | O_TRUNC);
        assert_int_equal(pwrite(file, whole, length, 0), length);
        uint64_t junk = next_random(&seed) << 32 ^ next_random(&seed);
        size_t place = next_random(&seed) % (length - 8);
        /* Every fourth in the first bytes of a page, where headers and chain pointers are. */
        if (round % 4 == 0)
            place -= place % 4096;
        assert_int_equal(pwrite(file, &junk, sizeof junk, (off_t)place), sizeof junk);
        close(file);
        unlink(wal_path);
        remat_store *store;
        remat_store_options options = {.log = log_line};
        if (remat_store_open(store_path, &options, &store, NULL) != REMAT_OK)
            continue;
        opened++;
        use(store);
        remat_store_close(store);
        log_text[0] = '\0';
    }
    assert_true(opened > 100);
    free(whole);
}

/* A byte of a blob changed on the disk itself: found, dropped, put back. */
static void raw_byte(void **state)
{
    fill();
    size_t length;
    char *whole = read_whole(store_path, &length);
    /* The compressed body of schedule3 is found by its last bytes, which no other blob has. */
    sqlite3 *db;
    sqlite3_stmt *query;
    assert_int_equal(sqlite3_open(store_path, &db), SQLITE_OK);
    sqlite3_prepare_v2(db,
                       "SELECT substr(data, -40) FROM blobs "
                       "WHERE id = (SELECT body FROM schedules WHERE id = 'schedule3')",
                       -1, &query, NULL);
    assert_int_equal(sqlite3_step(query), SQLITE_ROW);
    char *place = memmem(whole, length, sqlite3_column_blob(query, 0), 40);
    assert_non_null(place);
    sqlite3_finalize(query);
    sqlite3_close(db);
    int file = open(store_path, O_WRONLY);
    char other = (char)~*place;
    assert_int_equal(pwrite(file, &other, 1, place - whole), 1);
    close(file);
    free(whole);

    remat_store *store = open_store();
    assert_status(remat_store_check(store, error), REMAT_CORRUPT);
    remat_schedule_record schedule;
    assert_status(remat_store_get_schedule(store, "schedule3", &schedule, error), REMAT_CORRUPT);
    assert_non_null(schedule.question.data);
    remat_schedule_record_clear(&schedule);
    assert_ok(put_schedule(store, 3, 1, 40000, NULL, error));
    assert_schedule(store, 3, 40000);
    assert_ok(remat_store_check(store, error));
    remat_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(damaged_body, set_up_any, tear_down),
        cmocka_unit_test_setup_teardown(put_over_damage, set_up_any, tear_down),
        cmocka_unit_test_setup_teardown(damaged_profile, set_up_any, tear_down),
        cmocka_unit_test_setup_teardown(damaged_table, set_up_any, tear_down),
        cmocka_unit_test_setup_teardown(damaged_fields, set_up_any, tear_down),
        cmocka_unit_test_setup_teardown(read_only_reports, set_up_any, tear_down),
        cmocka_unit_test_setup_teardown(damaged_claim, set_up_any, tear_down),
        /* of files alone */
        cmocka_unit_test_setup_teardown(raw_byte, set_up, tear_down),
        cmocka_unit_test_setup_teardown(random_damage, set_up, tear_down),
    };
    return run_store_tests(tests, sizeof tests / sizeof *tests, 2);
}
