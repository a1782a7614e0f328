/* On both engines. Many threads on one store: nothing is lost, pages stay whole, a backup under
 * load is a store. With the argument "measure" it prints what writes and reads cost instead. */
#include "unit/storage_support.h"

#include <pthread.h>
#include <stdatomic.h>

enum { WRITERS = 8, READERS = 4, EACH = 60 };

typedef struct shared {
    remat_store *store;
    int first, count;
    size_t length;
    atomic_int *written; /* of this writer: so many are acknowledged */
    atomic_bool *stop;
} shared;

/* cmocka's assertions are not for other threads: these count. */
static atomic_int failures;

static void *write_many(void *data)
{
    shared *mine = data;
    remat_error error;
    for (int i = 0; i < mine->count; i++) {
        int n = mine->first + i;
        if (put_schedule(mine->store, n, 1, mine->length, NULL, &error) != REMAT_OK)
            failures++;
        if (mine->written)
            atomic_store(mine->written, i + 1);
        remat_store_touch(mine->store, "profile1", NULL, NULL, NULL);
    }
    return NULL;
}

/* Reads what writers have been told is there. */
static void *read_many(void *data)
{
    shared *mine = data;
    uint64_t seed = (uint64_t)mine->first;
    while (!atomic_load(mine->stop)) {
        int writer = (int)(next_random(&seed) % WRITERS);
        int written = atomic_load(&mine->written[writer]);
        if (!written)
            continue;
        char id[32];
        snprintf(id, sizeof id, "schedule%d",
                 writer * EACH + (int)(next_random(&seed) % (uint64_t)written));
        remat_schedule_record schedule;
        if (remat_store_get_schedule(mine->store, id, &schedule, NULL) != REMAT_OK)
            failures++;
        else
            remat_schedule_record_clear(&schedule);
        remat_schedule_list list;
        if (remat_store_list_schedules(mine->store, "profile1", NULL, (remat_page){.limit = 5},
                                       &list, NULL) != REMAT_OK)
            failures++;
        else
            remat_schedule_list_clear(&list);
    }
    return NULL;
}

static void readers_and_writers(void **state)
{
    remat_store *store = open_store();
    assert_ok(put_profile(store, 1, 1000, NULL, error));
    atomic_int written[WRITERS] = {0};
    atomic_bool stop = false;
    shared writers[WRITERS], readers[READERS];
    pthread_t threads[WRITERS + READERS];
    failures = 0;
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (shared){store, i * EACH, EACH, 3000, &written[i], &stop};
        pthread_create(&threads[i], NULL, write_many, &writers[i]);
    }
    for (int i = 0; i < READERS; i++) {
        readers[i] = (shared){store, i, 0, 0, written, &stop};
        pthread_create(&threads[WRITERS + i], NULL, read_many, &readers[i]);
    }
    /* Two backups and checks while they are at it. */
    char copies[2][128];
    for (int i = 0; i < 2; i++) {
        snprintf(copies[i], sizeof copies[i], "%s/copy%d.db", directory, i);
        assert_status(remat_store_backup(store, copies[i], error),
                      on_postgres() ? REMAT_INVALID : REMAT_OK);
        assert_ok(remat_store_check(store, error));
        assert_ok(remat_store_ping(store, error));
    }
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&stop, true);
    for (int i = 0; i < READERS; i++)
        pthread_join(threads[WRITERS + i], NULL);
    assert_int_equal(failures, 0);
    for (int i = 0; i < WRITERS * EACH; i++)
        assert_schedule(store, i, 3000);
    assert_ok(remat_store_check(store, error));
    remat_store_close(store);
    for (int i = 0; i < 2 && !on_postgres(); i++) {
        assert_ok(remat_store_open(copies[i], NULL, &store, error));
        assert_ok(remat_store_check(store, error));
        remat_store_close(store);
    }
}

/* The same schedule from everywhere at once is stored once; a bad write fails alone. */
static void *write_same(void *data)
{
    shared *mine = data;
    bool created = false;
    for (int i = 0; i < 20; i++) {
        if (put_schedule(mine->store, i, 1, 500, &created, NULL) != REMAT_OK)
            failures++;
        if (created)
            atomic_fetch_add(mine->written, 1);
        if (put_schedule(mine->store, 1000 + i, 77, 500, NULL, NULL) != REMAT_NOT_FOUND)
            failures++;
    }
    return NULL;
}

static void same_from_everywhere(void **state)
{
    remat_store *store = open_store();
    assert_ok(put_profile(store, 1, 1000, NULL, error));
    atomic_int written = 0;
    shared mine = {.store = store, .written = &written};
    pthread_t threads[16];
    failures = 0;
    for (int i = 0; i < 16; i++)
        pthread_create(&threads[i], NULL, write_same, &mine);
    for (int i = 0; i < 16; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(failures, 0);
    assert_int_equal(written, 20);
    remat_store_close(store);
}

/* The log starts over though readers never pause. */
static void log_stays_small(void **state)
{
    remat_store *store = open_store();
    assert_ok(put_profile(store, 1, 1000, NULL, error));
    assert_ok(put_schedule(store, 0, 1, 100, NULL, error));
    atomic_int written[WRITERS] = {1};
    for (int i = 1; i < WRITERS; i++)
        written[i] = 0;
    atomic_bool stop = false;
    shared reader = {store, 1, 0, 0, written, &stop};
    pthread_t thread;
    failures = 0;
    pthread_create(&thread, NULL, read_many, &reader);
    char *bytes = make_bytes(1 << 20, 1, false);
    off_t largest = 0;
    for (int i = 0; i < 150; i++) { /* 150 MiB through the log */
        struct stat entry;
        assert_ok(remat_store_put_table(store, "profile1", "rotor", "{}", bytes, 1 << 20, error));
        assert_int_equal(stat(wal_path, &entry), 0);
        if (entry.st_size > largest)
            largest = entry.st_size;
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    free(bytes);
    assert_int_equal(failures, 0);
    assert_true(largest < 100 << 20);
    remat_store_close(store);
}

/* ---- measure ---- */

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void measure_writes(remat_store *store, int writers, int each, int first)
{
    pthread_t threads[64];
    shared mine[64];
    double begin = seconds();
    for (int i = 0; i < writers; i++) {
        mine[i] =
            (shared){.store = store, .first = first + i * each, .count = each, .length = 2000};
        pthread_create(&threads[i], NULL, write_many, &mine[i]);
    }
    for (int i = 0; i < writers; i++)
        pthread_join(threads[i], NULL);
    double took = seconds() - begin;
    printf("%2d writers: %.0f writes/s (%.2f ms each), %d failed\n", writers, writers * each / took,
           took * 1000 / each, failures);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure_reads(remat_store *store)
{
    enum { READS = 5000 };
    static double took[READS];
    for (int i = 0; i < READS; i++) {
        remat_schedule_record schedule;
        double begin = seconds();
        if (remat_store_get_schedule(store, "schedule1000000", &schedule, NULL) != REMAT_OK)
            abort();
        took[i] = seconds() - begin;
        remat_schedule_record_clear(&schedule);
    }
    qsort(took, READS, sizeof *took, compare);
    printf("read of a 64 KB body: median %.0f us, 99th percentile %.0f us\n", took[READS / 2] * 1e6,
           took[READS * 99 / 100] * 1e6);
}

static int measure(void)
{
    if (set_up_any(NULL) != 0)
        return 1;
    remat_store *store;
    if (remat_store_open(store_place, NULL, &store, NULL) != REMAT_OK)
        return 1;
    put_profile(store, 1, 5000, NULL, NULL);
    measure_writes(store, 1, 500, 0);
    measure_writes(store, 32, 200, 10000);
    put_schedule(store, 1000000, 1, 65536, NULL, NULL);
    measure_reads(store);
    remat_store_close(store);
    return tear_down(NULL);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "measure") == 0)
        return measure();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(readers_and_writers, set_up_any, tear_down),
        cmocka_unit_test_setup_teardown(same_from_everywhere, set_up_any, tear_down),
        /* of files alone */
        cmocka_unit_test_setup_teardown(log_stays_small, set_up, tear_down),
    };
    return run_store_tests(tests, sizeof tests / sizeof *tests, 1);
}
