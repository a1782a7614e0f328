/* Who waits gets a turn: small solves, however many, do not keep a large one from memory or from a
 * thread. */
#include "jobs/queue.h"
#include "memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

static uv_loop_t *loop;
static queue *q;

static int set_up(void **state)
{
    (void)state;
    loop = uv_default_loop();
    return queue_new(loop, 1, 10, &q, NULL) == REMAT_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    queue_free(q);
    uv_run(loop, UV_RUN_DEFAULT);
    return uv_loop_close(loop);
}

/* ---- memory ---- */

typedef struct large {
    memory *account;
    uint64_t bytes;
    atomic_bool waiting, cancelled, taken;
} large;

static bool is_cancelled(void *data)
{
    large *one = data;
    atomic_store(&one->waiting, true);
    return atomic_load(&one->cancelled);
}

static void wait_for_memory(void *data)
{
    large *one = data;
    atomic_store(&one->taken,
                 memory_wait(one->account, MEMORY_SOLVE, one->bytes, is_cancelled, one));
}

static void large_solves_get_memory(void **state)
{
    (void)state;
    memory *account = memory_new(loop, q, 0, 100);
    large one = {.account = account, .bytes = 80};
    uv_thread_t thread;
    assert_true(memory_take(account, MEMORY_SOLVE, 30));
    uv_thread_create(&thread, wait_for_memory, &one);
    while (!atomic_load(&one.waiting))
        uv_sleep(1);
    /* One of two small ones always holds 30. */
    unsigned turns = 0;
    while (turns < 1000 && memory_take(account, MEMORY_SOLVE, 30)) {
        memory_give(account, MEMORY_SOLVE, 30);
        uv_sleep(10);
        turns++;
    }
    const bool early = atomic_load(&one.taken);
    const bool loads = memory_take(account, MEMORY_LOAD, 30); /* what soon comes back is no solve */
    memory_give(account, MEMORY_LOAD, loads ? 30 : 0);
    memory_give(account, MEMORY_SOLVE, 30);
    atomic_store(&one.cancelled, turns == 1000);
    uv_thread_join(&thread);
    memory_give(account, MEMORY_SOLVE, atomic_load(&one.taken) ? 80 : 0);
    const bool whole = memory_take(account, MEMORY_SOLVE, 100);
    memory_free(account);
    assert_in_range(turns, 100, 999); /* of 10 ms: it waits for two seconds before others do */
    assert_true(!early && loads && atomic_load(&one.taken) && whole);
}

static void free_it(uv_timer_t *timer)
{
    memory_free(timer->data);
    uv_close((uv_handle_t *)timer, NULL);
}

static void sleep_a_while(task *t)
{
    (void)t;
    uv_sleep(1500);
}

static void no_work(task *t)
{
    (void)t;
}

/* The memory that was stirred is still to be trimmed, by a thread that is not yet free. */
static void memory_ends_after_its_task(void **state)
{
    (void)state;
    task tasks[LIGHT_THREADS];
    uv_timer_t timer;
    memory *account = memory_new(loop, q, 0, 100);
    memory_stir(account);
    for (int i = 0; i < LIGHT_THREADS; i++) {
        tasks[i] = (task){.work = sleep_a_while, .done = no_work, .lane = LANE_LIGHT};
        assert_true(queue_submit(q, &tasks[i]));
    }
    uv_timer_init(loop, &timer);
    timer.data = account;
    uv_timer_start(&timer, free_it, 1200, 0); /* it looks once a second */
    uv_run(loop, UV_RUN_DEFAULT);
    assert_int_equal(queue_count(q).light_waiting + queue_count(q).light_running, 0);
}

/* ---- threads ---- */

typedef struct timed {
    task task;
    int *order, *next, name;
} timed;

static void note(task *t)
{
    timed *one = (timed *)t;
    one->order[(*one->next)++] = one->name;
}

static void large_solves_get_a_thread(void **state)
{
    (void)state;
    enum { SECOND = 1000000000 };
    static const int expected[] = {0, 2, 1, 3};
    int order[4], next = 0;
    timed tasks[4] = {{.name = 0, .task = {.work = sleep_a_while, .cost = SECOND}},
                      {.name = 1, .task = {.work = no_work, .cost = SECOND / 4}},
                      {.name = 2, .task = {.work = no_work, .cost = SECOND / 5}},
                      {.name = 3, .task = {.work = no_work, .cost = SECOND / 5}}};
    for (int i = 0; i < 4; i++) {
        tasks[i].order = order;
        tasks[i].next = &next;
        tasks[i].task.lane = LANE_HEAVY;
        tasks[i].task.done = note;
    }
    for (int i = 0; i < 3; i++)
        assert_true(queue_submit(q, &tasks[i].task)); /* the smaller passes the larger */
    uv_sleep(1000);
    assert_true(
        queue_submit(q, &tasks[3].task)); /* which has waited for longer than this is less */
    uv_run(loop, UV_RUN_DEFAULT);
    assert_int_equal(next, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(order[i], expected[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_solves_get_a_thread),
        cmocka_unit_test(large_solves_get_memory),
        cmocka_unit_test(memory_ends_after_its_task),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
