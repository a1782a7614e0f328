/* On both engines. Every kind of record: what is put comes back; pages; deletion; statistics; a
 * re-opened store. */
#include "unit/storage_support.h"

static void profiles(void **state)
{
    remat_store *store = open_store();
    bool created = false;
    assert_ok(put_profile(store, 1, 5000, &created, error));
    assert_true(created);
    assert_ok(put_profile(store, 1, 9000, &created, error)); /* the first stays */
    assert_false(created);
    remat_profile_record profile;
    assert_ok(remat_store_get_profile(store, "profile1", &profile, error));
    char *document = make_bytes(5000, 1, true);
    assert_int_equal(profile.document.length, 5000);
    assert_memory_equal(profile.document.data, document, 5001);
    assert_string_equal(profile.summary.data, "{\"nodes\":1}");
    assert_string_equal(profile.id, "profile1");
    assert_string_equal(profile.name, "Net-1");
    assert_string_equal(profile.kind, "chain");
    assert_int_equal(profile.nodes, 2);
    assert_int_equal(profile.edges, 1);
    assert_int_equal(profile.created, 1001);
    assert_int_equal(profile.last_used, 1001);
    assert_int_equal(profile.schedules, 0);
    remat_profile_record_clear(&profile);
    remat_profile_record_clear(&profile);
    assert_status(remat_store_get_profile(store, "nothing", &profile, error), REMAT_NOT_FOUND);
    assert_status(remat_store_delete_profile(store, "nothing", error), REMAT_NOT_FOUND);
    remat_profile_record incomplete = {.id = "x", .kind = "chain"};
    assert_status(remat_store_put_profile(store, &incomplete, &created, error), REMAT_INVALID);
    free(document);
    remat_store_close(store);
}

static void names_of_a_profile(void **state)
{
    remat_store *store = open_store();
    bool created, added;
    remat_profile_record profile;
    remat_profile_list list;
    assert_ok(put_profile(store, 1, 50, &created, error));
    assert_ok(remat_store_name_profile(store, "profile1", "Net-1", &added, error));
    assert_false(added);
    assert_ok(remat_store_name_profile(store, "profile1", "other", &added, error));
    assert_true(added);
    assert_ok(remat_store_name_profile(store, "profile1", "two\nlines", &added, error));
    assert_true(added);
    assert_ok(remat_store_name_profile(store, "profile1", "two lines", &added, error));
    assert_false(added);
    assert_status(remat_store_name_profile(store, "nothing", "x", &added, error), REMAT_NOT_FOUND);
    assert_ok(remat_store_get_profile(store, "profile1", &profile, error));
    assert_string_equal(profile.name, "Net-1");
    assert_string_equal(profile.other_names, "other\ntwo lines");
    assert_string_equal(profile.summary.data, "{\"nodes\":1}");
    remat_profile_record_clear(&profile);
    assert_ok(remat_store_list_profiles(store, "OTHER", (remat_page){.limit = 10}, &list, error));
    assert_int_equal(list.length, 1);
    remat_profile_list_clear(&list);
    assert_ok(remat_store_check(store, error)); /* its checksum is that of all names */
    remat_store_close(store);
}

/* Both storage_encode's corners: nothing at all, and what zstd cannot make smaller. */
static void blobs_of_any_size(void **state)
{
    static const size_t lengths[] = {0, 1, 15, 16, 4096, 100000, 3000000};
    remat_store *store = open_store();
    assert_ok(put_profile(store, 0, 0, NULL, error));
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char *bytes = make_bytes(lengths[i], i, false);
        assert_ok(
            remat_store_put_table(store, "profile0", "rotor", "{}", bytes, lengths[i], error));
        remat_blob table;
        assert_ok(remat_store_get_table(store, "profile0", "rotor", "{}", &table, error));
        assert_int_equal(table.length, lengths[i]);
        assert_memory_equal(table.data, bytes, lengths[i] + 1);
        free(table.data);
        free(bytes);
    }
    assert_ok(remat_store_put_table(store, "profile0", "rotor", "null", NULL, 0, error));
    assert_ok(remat_store_check(store, error));
    remat_store_close(store);
}

static void schedules(void **state)
{
    remat_store *store = open_store();
    bool created = false;
    assert_status(put_schedule(store, 1, 1, 100, &created, error), REMAT_NOT_FOUND);
    assert_ok(put_profile(store, 1, 100, NULL, error));
    assert_ok(put_schedule(store, 1, 1, 70000, &created, error));
    assert_true(created);
    assert_schedule(store, 1, 70000);
    assert_ok(put_schedule(store, 1, 1, 100, &created, error));
    assert_false(created);
    assert_schedule(store, 1, 70000);
    remat_profile_record profile;
    assert_ok(remat_store_get_profile(store, "profile1", &profile, error));
    assert_int_equal(profile.schedules, 1);
    remat_profile_record_clear(&profile);
    remat_schedule_record schedule;
    assert_ok(remat_store_get_schedule(store, "schedule1", &schedule, error));
    schedule.makespan = 0.0 / 0.0;
    assert_status(remat_store_put_schedule(store, &schedule, &created, error), REMAT_INVALID);
    remat_schedule_record_clear(&schedule);
    remat_store_close(store);
}

static void tables(void **state)
{
    remat_store *store = open_store();
    remat_blob table;
    assert_status(remat_store_put_table(store, "profile1", "rotor", "{}", "a", 1, error),
                  REMAT_NOT_FOUND);
    assert_ok(put_profile(store, 1, 100, NULL, error));
    assert_ok(remat_store_put_table(store, "profile1", "rotor", "{}", "first", 5, error));
    assert_ok(remat_store_put_table(store, "profile1", "rotor", "{}", "second", 6, error));
    assert_ok(remat_store_put_table(store, "profile1", "rotor", "{1}", "third", 5, error));
    assert_ok(remat_store_get_table(store, "profile1", "rotor", "{}", &table, error));
    assert_string_equal(table.data, "second");
    free(table.data);
    assert_ok(remat_store_delete_table(store, "profile1", "rotor", "{}", error));
    assert_ok(remat_store_delete_table(store, "profile1", "rotor", "{}", error));
    assert_status(remat_store_get_table(store, "profile1", "rotor", "{}", &table, error),
                  REMAT_NOT_FOUND);
    assert_ok(remat_store_get_table(store, "profile1", "rotor", "{1}", &table, error));
    free(table.data);
    remat_store_close(store);
}

/* Tables go first, those longest not used before the others; touch is what says so. */
static void pruned_tables(void **state)
{
    remat_store *store = open_store();
    remat_store_pruned pruned;
    remat_store_statistics statistics;
    remat_blob table;
    assert_ok(put_profile(store, 1, 100, NULL, error));
    assert_ok(put_schedule(store, 1, 1, 100, NULL, error));
    for (int i = 0; i < 3; i++) {
        char options[16], *bytes = make_bytes(1000, (uint64_t)i, false);
        snprintf(options, sizeof options, "%d", i);
        assert_ok(remat_store_put_table(store, "profile1", "rotor", options, bytes, 1000, error));
        free(bytes);
    }
    usleep(20000);
    remat_store_touch(store, "profile1", NULL, "rotor", "0");
    wait_for_marks(store, "profile1", 1001);
    assert_ok(remat_store_prune(store, 5000, &pruned, error));
    assert_true(pruned.tables == 0 && pruned.schedules == 0 && pruned.profiles == 0);
    /* Two bodies of less than 200 bytes each and one table of more than 1000 stay. */
    assert_ok(remat_store_prune(store, 1500, &pruned, error));
    assert_true(pruned.tables == 2 && pruned.schedules == 0 && pruned.profiles == 0);
    assert_ok(remat_store_get_table(store, "profile1", "rotor", "0", &table, error));
    free(table.data);
    assert_ok(remat_store_prune(store, 500, &pruned, error));
    assert_true(pruned.tables == 1 && pruned.schedules == 0 && pruned.profiles == 0);
    assert_ok(remat_store_statistics_get(store, &statistics, error));
    assert_true(statistics.tables == 0 && statistics.table_bytes == 0);
    assert_schedule(store, 1, 100);
    assert_ok(remat_store_check(store, error));
    remat_store_close(store);
}

/* More than one transaction takes at once. */
static void pruned_in_parts(void **state)
{
    remat_store *store = open_store();
    remat_store_pruned pruned;
    char *bytes = make_bytes(100000, 1, false);
    assert_ok(remat_store_put_table(store, "", "rotor", "{}", bytes, 100000, error));
    free(bytes);
    sql("INSERT INTO tables (solver, options, bytes, last_used, checksum) "
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5200) "
        "SELECT 's', CAST(i AS TEXT), 10, i, 0 FROM n");
    assert_ok(remat_store_prune(store, 0, &pruned, error));
    assert_int_equal(pruned.tables, 5201);
    assert_ok(remat_store_check(store, error));
    remat_store_close(store);
}

/* Then schedules, then profiles that nobody needs: not those of an unfinished job. */
static void pruned_schedules_and_profiles(void **state)
{
    remat_store *store = open_store();
    remat_store_pruned pruned;
    remat_store_statistics statistics;
    for (int i = 0; i < 4; i++)
        assert_ok(put_profile(store, i, 2000, NULL, error));
    for (int i = 0; i < 6; i++) /* of profile 3 */
        assert_ok(put_schedule(store, i, 3, 4000, NULL, error));
    remat_measurement_record measurement = {.created = 1, .body = {"{}", 2}};
    assert_ok(remat_store_put_measurement(store, "schedule0", &measurement, error));
    remat_job_record job = {
        .id = "job", .state = "queued", .profile_id = "profile0", .question = {"{}", 2}};
    assert_ok(remat_store_put_job(store, &job, error));
    remat_store_touch(store, "profile1", "schedule0", NULL, NULL);
    wait_for_marks(store, "profile1", 1001);

    uint64_t total = 0;
    for (uint64_t keep = 40000; total == 0; keep -= 100) { /* until the first one goes */
        assert_ok(remat_store_prune(store, keep, &pruned, error));
        assert_int_equal(pruned.profiles, 0);
        total = pruned.schedules;
    }
    assert_int_equal(total, 1);
    assert_schedule(store, 0, 4000); /* was used last */
    remat_schedule_record schedule;
    assert_status(remat_store_get_schedule(store, "schedule1", &schedule, error), REMAT_NOT_FOUND);
    assert_ok(remat_store_prune(store, 0, &pruned, error));
    assert_true(pruned.tables == 0 && pruned.schedules == 5 && pruned.profiles == 3);
    assert_ok(remat_store_statistics_get(store, &statistics, error));
    assert_true(statistics.profiles == 1 && statistics.unfinished_jobs == 1);
    assert_int_equal(statistics.measurements, 0);
    job.state = "done";
    job.ended = 5;
    assert_ok(remat_store_put_job(store, &job, error));
    assert_ok(remat_store_prune(store, 0, &pruned, error));
    assert_int_equal(pruned.profiles, 1);
    assert_ok(remat_store_check(store, error));
    remat_store_close(store);
}

static void put_job(remat_store *store, const char *id, const char *state_text, int64_t ended,
                    const char *schedule_id)
{
    remat_job_record job = {.id = (char *)(uintptr_t)id,
                            .state = (char *)(uintptr_t)state_text,
                            .question = {"{}", 2},
                            .schedule_id = (char *)(uintptr_t)schedule_id,
                            .created = 5,
                            .ended = ended};
    assert_ok(remat_store_put_job(store, &job, error));
}

static void jobs(void **state)
{
    remat_store *store = open_store();
    remat_job_record job;
    put_job(store, "a", "queued", 0, NULL);
    put_job(store, "b", "queued", 0, NULL);
    put_job(store, "c", "queued", 0, NULL);
    put_job(store, "b", "done", 10, "schedule1");
    assert_ok(remat_store_get_job(store, "b", &job, error));
    assert_string_equal(job.state, "done");
    assert_string_equal(job.schedule_id, "schedule1");
    assert_string_equal(job.question.data, "{}");
    assert_int_equal(job.problem.length, 0);
    assert_int_equal(job.ended, 10);
    remat_job_record_clear(&job);
    assert_ok(remat_store_get_job(store, "a", &job, error));
    assert_null(job.schedule_id);
    remat_job_record_clear(&job);
    assert_status(remat_store_get_job(store, "z", &job, error), REMAT_NOT_FOUND);

    remat_job_list list;
    remat_page one = {.limit = 1};
    assert_ok(remat_store_list_jobs(store, true, one, &list, error));
    assert_string_equal(list.items[0].id, "a");
    char *next = list.next;
    list.next = NULL;
    remat_job_list_clear(&list);
    one.cursor = next;
    assert_ok(remat_store_list_jobs(store, true, one, &list, error));
    assert_string_equal(list.items[0].id, "c");
    assert_null(list.next);
    remat_job_list_clear(&list);
    assert_status(remat_store_list_jobs(store, false, one, &list, error), REMAT_INVALID);
    free(next);
    assert_ok(remat_store_list_jobs(store, false, (remat_page){.limit = 10}, &list, error));
    assert_int_equal(list.length, 3);
    assert_string_equal(list.items[0].id, "c");
    remat_job_list_clear(&list);

    uint64_t count = 9;
    assert_ok(remat_store_forget_jobs(store, 10, &count, error));
    assert_int_equal(count, 0);
    assert_ok(remat_store_forget_jobs(store, 11, &count, error));
    assert_int_equal(count, 1);
    assert_status(remat_store_get_job(store, "b", &job, error), REMAT_NOT_FOUND);
    remat_store_close(store);
}

/* Unfinished jobs of a process that is gone are taken once; ended ones stay as they are. */
static void claimed_jobs(void **state)
{
    remat_store *store = open_store();
    remat_job_list list;
    put_job(store, "a", "queued", 0, NULL);
    put_job(store, "b", "queued", 0, NULL);
    put_job(store, "c", "done", 9, "schedule1");
    put_job(store, "c", "queued", 0, NULL); /* it has ended: nothing changes */
    assert_ok(remat_store_claim_jobs(store, 10, &list, error));
    assert_int_equal(list.length, 0); /* they are this process's */
    remat_job_list_clear(&list);
    remat_store_close(store);

    store = open_store();
    assert_ok(remat_store_cancel_job(store, "c", error));
    assert_ok(remat_store_cancel_job(store, "none", error));
    assert_ok(remat_store_claim_jobs(store, 1, &list, error));
    assert_int_equal(list.length, 1);
    assert_string_equal(list.items[0].id, "a");
    assert_string_equal(list.items[0].question.data, "{}");
    remat_job_list_clear(&list);
    assert_ok(remat_store_claim_jobs(store, 10, &list, error));
    assert_int_equal(list.length, 1);
    assert_string_equal(list.items[0].id, "b");
    remat_job_list_clear(&list);
    assert_ok(remat_store_claim_jobs(store, 10, &list, error));
    assert_int_equal(list.length, 0);
    remat_job_list_clear(&list);
    assert_status(remat_store_claim_jobs(store, 0, &list, error), REMAT_INVALID);
    remat_job_record job;
    assert_ok(remat_store_get_job(store, "c", &job, error));
    assert_string_equal(job.state, "done");
    remat_job_record_clear(&job);
    remat_store_close(store);
}

static void leases(void **state)
{
    remat_store *store = open_store();
    bool taken = false;
    for (int i = 0; i < 2; i++) { /* its own may be taken again */
        assert_ok(remat_store_take_lease(store, "question", &taken, error));
        assert_true(taken);
    }
    assert_ok(remat_store_release_lease(store, "question", error));
    assert_ok(remat_store_release_lease(store, "another", error));
    remat_store_close(store);
}

static void measurements(void **state)
{
    remat_store *store = open_store();
    remat_measurement_record measurement = {.created = 77, .body = {"{\"step\":1}", 10}};
    assert_status(remat_store_put_measurement(store, "schedule1", &measurement, error),
                  REMAT_NOT_FOUND);
    assert_ok(put_profile(store, 1, 100, NULL, error));
    assert_ok(put_schedule(store, 1, 1, 100, NULL, error));
    assert_ok(remat_store_put_measurement(store, "schedule1", &measurement, error));
    int64_t first = measurement.id;
    measurement.created = 78;
    assert_ok(remat_store_put_measurement(store, "schedule1", &measurement, error));
    assert_true(measurement.id > first);
    remat_measurement_list list;
    remat_page page = {.limit = 10};
    assert_ok(remat_store_list_measurements(store, "schedule1", page, &list, error));
    assert_int_equal(list.length, 2);
    assert_int_equal(list.items[0].created, 78);
    assert_int_equal(list.items[1].id, first);
    assert_string_equal(list.items[1].body.data, "{\"step\":1}");
    remat_measurement_list_clear(&list);
    assert_ok(remat_store_list_measurements(store, "none", page, &list, error));
    assert_int_equal(list.length, 0);
    remat_measurement_list_clear(&list);
    remat_store_close(store);
}

/* A table may belong to no profile: the profiles' tables and a deletion leave it alone. */
static void table_of_no_profile(void **state)
{
    remat_store *store = open_store();
    remat_blob blob = {0};
    assert_ok(put_profile(store, 1, 50, NULL, error));
    assert_ok(remat_store_put_table(store, "", "join", "{}", "old", 3, error));
    assert_ok(remat_store_put_table(store, "", "join", "{}", "shared", 6, error));
    assert_ok(remat_store_put_table(store, "profile1", "join", "{}", "own", 3, error));
    assert_status(remat_store_get_table(store, "nobody", "join", "{}", &blob, error),
                  REMAT_NOT_FOUND);
    assert_status(remat_store_put_table(store, "nobody", "join", "{}", "x", 1, error),
                  REMAT_NOT_FOUND);
    remat_store_touch(store, "", NULL, "join", "{}");
    assert_ok(remat_store_delete_profile(store, "profile1", error));
    assert_ok(remat_store_get_table(store, "", "join", "{}", &blob, error));
    assert_int_equal(blob.length, 6);
    assert_memory_equal(blob.data, "shared", 6);
    free(blob.data);
    remat_store_statistics statistics;
    assert_ok(remat_store_statistics_get(store, &statistics, error));
    assert_int_equal(statistics.tables, 1);
    assert_ok(remat_store_check(store, error));
    assert_ok(remat_store_delete_table(store, "", "join", "{}", error));
    assert_status(remat_store_get_table(store, "", "join", "{}", &blob, error), REMAT_NOT_FOUND);
    remat_store_close(store);
}

/* Pages are of what was there when the first was asked for, however much is added between them. */
static void pages(void **state)
{
    remat_store *store = open_store();
    for (int i = 0; i < 25; i++)
        assert_ok(put_profile(store, i, 50, NULL, error));
    int expected = 24, added = 100;
    char *cursor = NULL;
    do {
        remat_profile_list list;
        remat_page page = {.cursor = cursor, .limit = 4};
        assert_ok(remat_store_list_profiles(store, NULL, page, &list, error));
        for (size_t i = 0; i < list.length; i++, expected--) {
            assert_int_equal(list.items[i].edges, expected);
            assert_null(list.items[i].document.data);
        }
        free(cursor);
        cursor = list.next;
        list.next = NULL;
        remat_profile_list_clear(&list);
        assert_ok(put_profile(store, added++, 50, NULL, error));
    } while (cursor);
    assert_int_equal(expected, -1);

    remat_profile_list list;
    remat_page page = {.limit = 1000};
    assert_ok(remat_store_list_profiles(store, "nET-2", page, &list, error));
    assert_int_equal(list.length, 6); /* 2, 20 to 24 */
    remat_profile_list_clear(&list);
    assert_ok(remat_store_list_profiles(store, "%", page, &list, error));
    assert_int_equal(list.length, 0);
    remat_profile_list_clear(&list);
    static const char *const wrong[] = {"p", "p0", "px", "s1", "p1x", "p99999999999999999999", "1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        page.cursor = wrong[i];
        assert_status(remat_store_list_profiles(store, NULL, page, &list, error), REMAT_INVALID);
    }
    assert_status(remat_store_list_profiles(store, NULL, (remat_page){.limit = 0}, &list, error),
                  REMAT_INVALID);
    assert_status(remat_store_list_profiles(store, NULL, (remat_page){.limit = 1001}, &list, error),
                  REMAT_INVALID);
    remat_store_close(store);
}

static size_t count_schedules(remat_store *store, const char *profile, const char *solver)
{
    remat_schedule_list list;
    assert_ok(remat_store_list_schedules(store, profile, solver, (remat_page){.limit = 1000}, &list,
                                         error));
    size_t length = list.length;
    for (size_t i = 0; i < length; i++) {
        assert_true(!profile || strcmp(list.items[i].profile_id, profile) == 0);
        assert_true(!solver || strcmp(list.items[i].solver, solver) == 0);
    }
    remat_schedule_list_clear(&list);
    return length;
}

static void filtered_schedules_and_deletion(void **state)
{
    remat_store *store = open_store();
    for (int i = 0; i < 2; i++)
        assert_ok(put_profile(store, i, 50, NULL, error));
    for (int i = 0; i < 30; i++) /* two of three are profile0's; the odd ones are rotor's */
        assert_ok(put_schedule(store, i, i % 3 == 0, 500, NULL, error));
    assert_int_equal(count_schedules(store, NULL, NULL), 30);
    assert_int_equal(count_schedules(store, "profile0", NULL), 20);
    assert_int_equal(count_schedules(store, NULL, "rotor"), 15);
    assert_int_equal(count_schedules(store, "profile1", "rotor"), 5);
    assert_int_equal(count_schedules(store, "none", NULL), 0);

    remat_measurement_record measurement = {.created = 1, .body = {"{}", 2}};
    assert_ok(remat_store_put_measurement(store, "schedule1", &measurement, error));
    assert_ok(remat_store_put_table(store, "profile0", "rotor", "{}", "table", 5, error));
    assert_ok(remat_store_delete_profile(store, "profile0", error));
    assert_int_equal(count_schedules(store, NULL, NULL), 10);
    remat_store_statistics statistics;
    assert_ok(remat_store_statistics_get(store, &statistics, error));
    assert_int_equal(statistics.profiles, 1);
    assert_int_equal(statistics.schedules, 10);
    assert_int_equal(statistics.tables, 0);
    assert_int_equal(statistics.measurements, 0);
    assert_ok(remat_store_check(store, error));
    remat_store_close(store);
    /* Nothing of it is left behind: one blob for each profile and each schedule. */
    sql("CREATE TABLE one (n BIGINT CHECK (n = 11));"
        "INSERT INTO one SELECT count(*) FROM blobs");
}

static void reopened(void **state)
{
    remat_store *store = open_store();
    assert_ok(put_profile(store, 1, 5000, NULL, error));
    for (int i = 0; i < 20; i++)
        assert_ok(put_schedule(store, i, 1, 3000, NULL, error));
    assert_ok(remat_store_put_table(store, "profile1", "rotor", "{}", "table", 5, error));
    put_job(store, "a", "queued", 0, NULL);
    remat_measurement_record measurement = {.created = 1, .body = {"{}", 2}};
    assert_ok(remat_store_put_measurement(store, "schedule1", &measurement, error));
    remat_store_touch(store, "profile1", "schedule3", "rotor", "{}");
    remat_store_statistics before, after;
    assert_ok(remat_store_statistics_get(store, &before, error));
    remat_store_close(store);
    if (!on_postgres())
        assert_int_equal(access(wal_path, F_OK), -1); /* closed clean: the log is gone */

    store = open_store();
    assert_ok(remat_store_statistics_get(store, &after, error));
    assert_int_equal(before.profiles, 1);
    assert_int_equal(before.schedules, 20);
    assert_int_equal(before.tables, 1);
    assert_int_equal(before.unfinished_jobs, 1);
    assert_int_equal(before.measurements, 1);
    assert_true(before.table_bytes > 0 && before.file_bytes > 0);
    assert_int_equal(before.schema_version, on_postgres() ? 1 : 3);
    assert_true(after.profiles == before.profiles && after.schedules == before.schedules);
    assert_true(after.tables == before.tables && after.table_bytes == before.table_bytes);
    assert_true(after.unfinished_jobs == 1 && after.measurements == 1);
    for (int i = 0; i < 20; i++)
        assert_schedule(store, i, 3000);
    remat_schedule_record schedule;
    assert_ok(remat_store_get_schedule(store, "schedule3", &schedule, error));
    assert_true(schedule.last_used > 1000000); /* close wrote the mark */
    assert_int_equal(schedule.created, 2003);
    remat_schedule_record_clear(&schedule);
    assert_ok(remat_store_ping(store, error));
    assert_ok(remat_store_check(store, error));
    remat_store_close(store);
    remat_store_close(NULL);
}

/* A mark is written within about a second though nothing else is. More marks than there is room
 * for, and marks of what is not there, do no harm. */
static void touched(void **state)
{
    remat_store *store = open_store();
    assert_ok(put_profile(store, 1, 100, NULL, error));
    for (int i = 0; i < 5000; i++) {
        char id[32];
        snprintf(id, sizeof id, "none%d", i);
        remat_store_touch(store, "profile1", i ? id : NULL, NULL, NULL);
        remat_store_touch(store, "profile1", NULL, NULL, NULL);
    }
    remat_store_touch(store, NULL, NULL, NULL, NULL);
    wait_for_marks(store, "profile1", 1001);
    remat_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(profiles, set_up_any, tear_down),
        cmocka_unit_test_setup_teardown(names_of_a_profile, set_up_any, tear_down),
        cmocka_unit_test_setup_teardown(blobs_of_any_size, set_up_any, tear_down),
        cmocka_unit_test_setup_teardown(schedules, set_up_any, tear_down),
        cmocka_unit_test_setup_teardown(tables, set_up_any, tear_down),
        cmocka_unit_test_setup_teardown(pruned_tables, set_up_any, tear_down),
        cmocka_unit_test_setup_teardown(pruned_in_parts, set_up_any, tear_down),
        cmocka_unit_test_setup_teardown(pruned_schedules_and_profiles, set_up_any, tear_down),
        cmocka_unit_test_setup_teardown(jobs, set_up_any, tear_down),
        cmocka_unit_test_setup_teardown(claimed_jobs, set_up_any, tear_down),
        cmocka_unit_test_setup_teardown(leases, set_up_any, tear_down),
        cmocka_unit_test_setup_teardown(measurements, set_up_any, tear_down),
        cmocka_unit_test_setup_teardown(table_of_no_profile, set_up_any, tear_down),
        cmocka_unit_test_setup_teardown(pages, set_up_any, tear_down),
        cmocka_unit_test_setup_teardown(filtered_schedules_and_deletion, set_up_any, tear_down),
        cmocka_unit_test_setup_teardown(reopened, set_up_any, tear_down),
        cmocka_unit_test_setup_teardown(touched, set_up_any, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
