/* Several processes on one store in PostgreSQL: leases, jobs, news, deaths, a server that goes
 * away. Run by tests/with_postgres. */
#include "unit/storage_support.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

/* ---- what a process hears ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char heard[2][4096];

static void on_event(void *data, remat_store_event event, const char *name)
{
    static const char *const names[] = {"released", "cancelled", "deleted", "reconnected"};
    char *text = data;
    pthread_mutex_lock(&lock);
    size_t used = strlen(text);
    snprintf(text + used, sizeof heard[0] - used, "%s %s\n", names[event], name);
    pthread_mutex_unlock(&lock);
}

static void assert_heard(int who, const char *line)
{
    for (int i = 0; i < 400; i++) {
        pthread_mutex_lock(&lock);
        bool found = strstr(heard[who], line) != NULL;
        pthread_mutex_unlock(&lock);
        if (found)
            return;
        usleep(50000);
    }
    fail_msg("%d did not hear %s, but %s", who, line, heard[who]);
}

/* A store as another process would open it. */
static remat_store *open_as(int who, unsigned lease_seconds)
{
    remat_store *store = NULL;
    heard[who][0] = '\0';
    remat_store_options options = {
        .event = on_event, .data = heard[who], .lease_seconds = lease_seconds, .connections = 4};
    assert_ok(remat_store_open(store_place, &options, &store, error));
    return store;
}

static bool take(remat_store *store, const char *name)
{
    bool taken;
    assert_ok(remat_store_take_lease(store, name, &taken, error));
    return taken;
}

static void put_job(remat_store *store, const char *id)
{
    remat_job_record job = {
        .id = (char *)(uintptr_t)id, .state = "queued", .question = {"{}", 2}, .created = 5};
    assert_ok(remat_store_put_job(store, &job, error));
}

static size_t claim(remat_store *store)
{
    remat_job_list list;
    assert_ok(remat_store_claim_jobs(store, 1000, &list, error));
    size_t length = list.length;
    remat_job_list_clear(&list);
    return length;
}

/* ---- tests ---- */

static void one_holder(void **state)
{
    remat_store *a = open_as(0, 60), *b = open_as(1, 60);
    assert_true(remat_store_is_shared(a));
    assert_true(take(a, "question"));
    assert_false(take(b, "question"));
    assert_true(take(b, "another"));
    assert_ok(remat_store_release_lease(b, "question", error)); /* not its own */
    assert_false(take(b, "question"));
    assert_ok(remat_store_release_lease(a, "question", error));
    assert_heard(1, "released question");
    assert_true(take(b, "question"));
    assert_false(take(a, "question"));
    remat_store_close(b); /* gives back what it held */
    assert_true(take(a, "question"));
    assert_true(take(a, "another"));
    remat_store_close(a);
}

enum { RACERS = 8, RACES = 20 };

typedef struct racer {
    remat_store *store;
    int race, won;
} racer;

static pthread_barrier_t start;

static void *race(void *data)
{
    racer *mine = data;
    char name[32];
    for (int i = 0; i < RACES; i++) {
        bool taken = false;
        snprintf(name, sizeof name, "race%d", i);
        pthread_barrier_wait(&start);
        if (remat_store_take_lease(mine->store, name, &taken, NULL) != REMAT_OK)
            mine->won = -1000;
        mine->won += taken;
    }
    return NULL;
}

/* Stores that ask for the same lease at the same moment: one gets it. */
static void races(void **state)
{
    racer racers[RACERS];
    pthread_t threads[RACERS];
    int won = 0;
    pthread_barrier_init(&start, NULL, RACERS);
    for (int i = 0; i < RACERS; i++)
        racers[i] = (racer){.store = open_as(0, 60)};
    for (int i = 0; i < RACERS; i++)
        pthread_create(&threads[i], NULL, race, &racers[i]);
    for (int i = 0; i < RACERS; i++) {
        pthread_join(threads[i], NULL);
        won += racers[i].won;
    }
    pthread_barrier_destroy(&start);
    assert_int_equal(won, RACES);
    for (int i = 0; i < RACERS; i++)
        remat_store_close(racers[i].store);
}

/* A killed process keeps what it held until its lease has expired, and not longer. */
static void death(void **state)
{
    enum { LEASE = 2 };
    int ends[2], status;
    char byte;
    remat_store_close(open_as(0, LEASE)); /* the schema is there */
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        remat_store *store = open_as(1, LEASE);
        if (!take(store, "question"))
            _exit(1);
        put_job(store, "a");
        put_job(store, "b");
        if (write(ends[1], "x", 1) != 1)
            _exit(2);
        pause();
    }
    remat_store *store = open_as(0, LEASE);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    close(ends[1]);
    for (int i = 0; i < 30; i++) { /* alive, it renews: longer than a lease */
        assert_false(take(store, "question"));
        assert_int_equal(claim(store), 0);
        usleep(100000);
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    assert_true(WIFSIGNALED(status));
    int64_t begun = (int64_t)time(NULL);
    while (!take(store, "question"))
        usleep(50000);
    assert_in_range(time(NULL) - begun, 0, LEASE + 1);
    assert_int_equal(claim(store), 2);
    assert_int_equal(claim(store), 0);
    remat_store_close(store);
}

static void *claim_all(void *data)
{
    racer *mine = data;
    remat_job_list list;
    pthread_barrier_wait(&start);
    for (int i = 0; i < 30; i++) {
        if (remat_store_claim_jobs(mine->store, 7, &list, NULL) != REMAT_OK) {
            mine->won = -1000;
            break;
        }
        mine->won += (int)list.length;
        remat_job_list_clear(&list);
    }
    return NULL;
}

/* The jobs of one that left, claimed by several at once: each by one. */
static void jobs_are_claimed_once(void **state)
{
    enum { JOBS = 60 };
    racer racers[4];
    pthread_t threads[4];
    int claimed = 0;
    remat_store *gone = open_as(0, 60);
    for (int i = 0; i < JOBS; i++) {
        char id[16];
        snprintf(id, sizeof id, "job%d", i);
        put_job(gone, id);
    }
    pthread_barrier_init(&start, NULL, 4);
    for (int i = 0; i < 4; i++)
        racers[i] = (racer){.store = open_as(1, 60)};
    assert_int_equal(claim(racers[0].store), 0);
    remat_store_close(gone);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, claim_all, &racers[i]);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        claimed += racers[i].won;
    }
    pthread_barrier_destroy(&start);
    assert_int_equal(claimed, JOBS);
    for (int i = 0; i < 4; i++)
        remat_store_close(racers[i].store);
}

static void news(void **state)
{
    remat_store *a = open_as(0, 2), *b = open_as(1, 2);
    put_job(a, "job");
    assert_ok(remat_store_cancel_job(b, "job", error));
    assert_heard(0, "cancelled job");
    assert_ok(remat_store_cancel_job(b, "none", error));
    assert_ok(put_profile(a, 1, 100, NULL, error));
    assert_ok(remat_store_delete_profile(a, "profile1", error));
    assert_heard(1, "deleted profile1");
    /* Nobody told of this one, as when the news was lost: it is found. */
    put_job(a, "quiet");
    sql("UPDATE jobs SET cancelling = 1 WHERE id = 'quiet'");
    assert_heard(0, "cancelled quiet");
    assert_null(strstr(heard[1], "quiet"));
    remat_store_close(a);
    remat_store_close(b);
}

/* Two stores put the same, and delete what the other adds to: nothing is there twice or half. */
static void *write_both(void *data)
{
    racer *mine = data;
    pthread_barrier_wait(&start);
    for (int i = 0; i < 25; i++) {
        bool created = false;
        remat_error why;
        remat_status status = put_profile(mine->store, i % 5, 300, NULL, &why);
        if (status == REMAT_OK)
            status = put_schedule(mine->store, i, i % 5, 300, &created, &why);
        if (status == REMAT_OK || status == REMAT_NOT_FOUND)
            status =
                remat_store_put_table(mine->store, "profile0", "rotor", "{}", "table", 5, &why);
        if (status == REMAT_OK && mine->race == 0 && i % 10 == 9)
            status = remat_store_delete_profile(mine->store, "profile0", &why);
        if (status != REMAT_OK && status != REMAT_NOT_FOUND) {
            print_message("# %s\n", why.message);
            mine->won = -1000;
        }
        mine->won += created;
    }
    return NULL;
}

static void conflicts(void **state)
{
    racer racers[4];
    pthread_t threads[4];
    pthread_barrier_init(&start, NULL, 4);
    for (int i = 0; i < 4; i++)
        racers[i] = (racer){.store = open_as(1, 60), .race = i};
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, write_both, &racers[i]);
    int created = 0;
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        created += racers[i].won;
    }
    pthread_barrier_destroy(&start);
    assert_in_range(created, 25, 40); /* those of profile0 possibly several times */
    assert_ok(remat_store_check(racers[0].store, error));
    for (int i = 0; i < 4; i++)
        remat_store_close(racers[i].store);
    /* No blob without a record. */
    sql("CREATE TABLE orphans (n BIGINT CHECK (n = 0));"
        "INSERT INTO orphans SELECT count(*) FROM blobs WHERE id NOT IN (SELECT document FROM "
        "profiles UNION SELECT body FROM schedules UNION SELECT data FROM tables)");
}

/* ---- opening ---- */

static void *open_at_once(void *data)
{
    pthread_barrier_wait(&start);
    return remat_store_open(store_place, NULL, data, NULL) == REMAT_OK ? NULL : data;
}

static void first_ones_migrate_once(void **state)
{
    remat_store *stores[6] = {NULL};
    pthread_t threads[6];
    pthread_barrier_init(&start, NULL, 6);
    for (int i = 0; i < 6; i++)
        pthread_create(&threads[i], NULL, open_at_once, &stores[i]);
    for (int i = 0; i < 6; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    pthread_barrier_destroy(&start);
    for (int i = 0; i < 6; i++) {
        assert_ok(remat_store_ping(stores[i], error));
        remat_store_close(stores[i]);
    }
}

static void refused(void **state)
{
    remat_store *store = NULL;
    remat_store_options options = {.read_only = true};
    assert_status(remat_store_open(store_place, &options, &store, error), REMAT_INVALID);
    remat_store_close(open_as(0, 60));
    assert_ok(remat_store_open(store_place, &options, &store, error));
    assert_status(put_profile(store, 1, 10, NULL, error), REMAT_INVALID);
    assert_ok(remat_store_check(store, error));
    remat_error why = {0};
    assert_int_equal(remat_store_backup(store, "/tmp/copy", &why), REMAT_INVALID);
    assert_non_null(strstr(why.message, "pg_dump --format=custom --schema=remat"));
    remat_store_close(store);
    store = NULL;
    sql("UPDATE version SET number = 99");
    assert_status(remat_store_open(store_place, NULL, &store, error), REMAT_NEWER);
    assert_status(remat_store_open(store_place, &options, &store, error), REMAT_NEWER);
    sql("DROP TABLE version");
    assert_status(remat_store_open(store_place, NULL, &store, error), REMAT_INVALID);
    assert_null(store);
}

/* Whatever goes wrong, the password is not told. */
static void passwords_are_kept(void **state)
{
    static const char *const urls[] = {
        "postgresql://remat:hunter2@127.0.0.1:1/none",
        "postgresql://remat:hunter2@%zz/none",
        "postgres://remat@127.0.0.1:1/none?password=hunter2",
        "postgresql://remat:hunter2@no.such.host.invalid/none",
        "postgresql://remat:hunter2@/none?host=/nowhere&nonsense=1",
    };
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        remat_store *store = NULL;
        remat_error why = {0};
        remat_status status = remat_store_open(urls[i], NULL, &store, &why);
        assert_true(status == REMAT_IO || status == REMAT_INVALID);
        assert_true(why.message[0] != '\0');
        assert_null(strstr(why.message, "hunter2"));
        char *name = NULL;
        if (remat_store_place_name(urls[i], &name, &why) == REMAT_OK)
            assert_null(strstr(name, "hunter2"));
        else
            assert_null(strstr(why.message, "hunter2"));
        free(name);
    }
    assert_true(remat_store_is_url(store_place));
    assert_false(remat_store_is_url("/tmp/postgresql://"));
}

/* ---- the server goes away ---- */

static void control(const char *word)
{
    char command[512];
    snprintf(command, sizeof command, "cd / && %s --mode=fast %s >/dev/null",
             getenv("REMAT_TEST_PG_CTL"), word);
    assert_int_equal(system(command), 0);
}

/* Errors while it is away, at once rather than after a time; when it is back so is the store. */
static void server_restarts(void **state)
{
    remat_store *store = open_as(0, 60);
    assert_ok(put_profile(store, 1, 3000, NULL, error));
    assert_ok(put_schedule(store, 1, 1, 3000, NULL, error));
    assert_true(take(store, "question"));
    control("restart");
    assert_schedule(store, 1, 3000); /* idle connections broke, and nobody saw it */
    assert_heard(0, "reconnected");
    assert_true(take(store, "question"));

    control("stop");
    for (int i = 0; i < 50; i++) {
        time_t begun = time(NULL);
        assert_status(remat_store_ping(store, error), REMAT_IO);
        assert_status(put_schedule(store, 2, 1, 3000, NULL, error), REMAT_IO);
        assert_in_range(time(NULL) - begun, 0, 2);
    }
    control("start");
    int tries = 0;
    while (remat_store_ping(store, NULL) != REMAT_OK && tries++ < 100)
        usleep(50000);
    assert_in_range(tries, 0, 99);
    assert_ok(put_schedule(store, 2, 1, 3000, NULL, error));
    assert_schedule(store, 1, 3000);
    assert_schedule(store, 2, 3000);
    remat_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_holder, set_up_any, tear_down),
        cmocka_unit_test_setup_teardown(races, set_up_any, tear_down),
        cmocka_unit_test_setup_teardown(death, set_up_any, tear_down),
        cmocka_unit_test_setup_teardown(jobs_are_claimed_once, set_up_any, tear_down),
        cmocka_unit_test_setup_teardown(news, set_up_any, tear_down),
        cmocka_unit_test_setup_teardown(conflicts, set_up_any, tear_down),
        cmocka_unit_test_setup_teardown(first_ones_migrate_once, set_up_any, tear_down),
        cmocka_unit_test_setup_teardown(refused, set_up_any, tear_down),
        cmocka_unit_test_setup_teardown(passwords_are_kept, set_up_any, tear_down),
        cmocka_unit_test_setup_teardown(server_restarts, set_up_any, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
