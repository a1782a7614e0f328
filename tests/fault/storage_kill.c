/* On both engines. kill -9 of a process that writes under load, at 25 random moments: whatever it
 * was told is stored is there afterwards, byte for byte, and the store passes its check. */
#include "unit/storage_support.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

enum { ROUNDS = 25, WRITERS = 6, LENGTH = 2500 };

typedef struct writer {
    remat_store *store;
    int first, pipe;
} writer;

/* Tells of each schedule as soon as it is acknowledged. A write of 4 bytes to a pipe is whole or
 * not. */
static void *write_on(void *data)
{
    writer *mine = data;
    for (int n = mine->first;; n += WRITERS) {
        if (put_schedule(mine->store, n, 1, LENGTH, NULL, NULL) != REMAT_OK)
            _exit(3);
        if (write(mine->pipe, &n, sizeof n) != sizeof n)
            _exit(4);
    }
}

static void child(int pipe, int first)
{
    remat_store *store;
    pthread_t thread;
    writer writers[WRITERS];
    if (remat_store_open(store_place, NULL, &store, NULL) != REMAT_OK ||
        put_profile(store, 1, 1000, NULL, NULL) != REMAT_OK)
        _exit(2);
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (writer){store, first + i, pipe};
        pthread_create(&thread, NULL, write_on, &writers[i]);
    }
    pause();
}

static void killed_writers(void **state)
{
    enum { MOST = 400000 };
    static char acknowledged[MOST];
    uint64_t seed = (uint64_t)time(NULL);
    int total = 0, next = 0;
    print_message("# seed %" PRIu64 "\n", seed);
    memset(acknowledged, 0, sizeof acknowledged);
    for (int round = 0; round < ROUNDS; round++) {
        int ends[2], status, n;
        assert_int_equal(pipe(ends), 0);
        pid_t pid = fork();
        if (pid == 0) {
            close(ends[0]);
            child(ends[1], next);
        }
        close(ends[1]);
        /* From the moment of the first acknowledgement on, or (every fifth) while it opens. */
        if (round % 5 != 4) {
            assert_int_equal(read(ends[0], &n, sizeof n), sizeof n);
            acknowledged[n] = 1;
            total++;
        }
        usleep((useconds_t)(next_random(&seed) % (round % 5 == 4 ? 20000 : 120000)));
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        assert_true(WIFSIGNALED(status));
        int highest = next;
        while (read(ends[0], &n, sizeof n) == sizeof n) {
            assert_true(n < MOST);
            acknowledged[n] = 1;
            total++;
            if (n > highest)
                highest = n;
        }
        close(ends[0]);
        next = highest + 2 * WRITERS;

        if (round % 3 == 1)
            continue; /* the next process finds the log as this one left it */
        remat_store *store = open_store();
        assert_ok(remat_store_check(store, error));
        for (int i = 0; i < next; i++)
            if (acknowledged[i])
                assert_schedule(store, i, LENGTH);
        remat_store_close(store);
    }
    if (!on_postgres())
        assert_non_null(strstr(log_text, "recovered from its log"));
    print_message("# %d acknowledged writes, all there\n", total);
    assert_true(total > ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(killed_writers, set_up_any, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
