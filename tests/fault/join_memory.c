/* The join solvers and the pebble tables when the nth allocation fails, for every n:
 * REMAT_NO_MEMORY, nothing leaks (AddressSanitizer looks), and the next try succeeds. */
#include "unit/join_support.h"

#include "fault/failing_malloc.h"
#include "papers/pebble/pebble.h"
#include "remat/table.h"

static remat_profile *bytes, *units;

static void fill(support_join *join, uint64_t size)
{
    *join = (support_join){.k = 2, .length = {3, 4}};
    join->loss = (support_stage){.uf = 1, .ub = 1};
    for (uint32_t j = 0; j < 2; j++) {
        join->input_bytes[j] = join->input_gradient[j] = 1;
        for (uint32_t i = 0; i < join->length[j]; i++)
            join->steps[j][i] =
                (support_stage){.a = size, .delta = size, .uf = 1, .ub = 1, .in_place = size == 1};
    }
}

static int set_up(void **state)
{
    (void)state;
    static support_join join;
    fill(&join, 3);
    bytes = support_join_profile(&join);
    fill(&join, 1);
    units = support_join_profile(&join);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    remat_profile_free(bytes);
    remat_profile_free(units);
    return 0;
}

static void fail_each(const char *name, remat_status (*call)(const char *name, remat_error *error))
{
    for (long n = 0;; n++) {
        remat_error error = {0};
        assert_true(n < 1000000);
        countdown = n;
        remat_status status = call(name, &error);
        bool reached = countdown < 0;
        countdown = -1;
        if (!reached) {
            if (status)
                fail_msg("%s: without a failure: %s", name, error.message);
            assert_true(n > 0); /* else the wrapping does not work */
            return;
        }
        if (status != REMAT_NO_MEMORY || error.status != REMAT_NO_MEMORY)
            fail_msg("%s: allocation %ld failed: %s: %s", name, n, remat_status_name(status),
                     error.message);
    }
}

/* Table, schedule with addresses, save and load. */
static remat_status use_solver(const char *name, remat_error *error)
{
    const remat_problem problem = support_problem(name, bytes, 60);
    remat_table *table = NULL, *again = NULL;
    remat_schedule schedule;
    remat_buffer buffer = {0};
    remat_status status = remat_tabulate(remat_solver_find(name), &problem, NULL, &table, error);
    const remat_table *one = table;
    if (!status)
        status = remat_best_schedule(&one, 1, name, &problem, 40, 1, &schedule, error);
    if (!status)
        remat_schedule_clear(&schedule);
    if (!status)
        status = remat_table_save(table, &buffer, error);
    if (!status)
        status = remat_table_load(remat_solver_find(name), &problem, buffer.data, buffer.length,
                                  &again, error);
    remat_table_free(table);
    remat_table_free(again);
    remat_buffer_clear(&buffer);
    return status;
}

static remat_status use_pebbles(const char *name, remat_error *error)
{
    const remat_problem problem = support_problem(name, units, 60);
    remat_pebble_problem pebbles;
    remat_schedule schedule = {.solver = NULL};
    remat_pebble_table *table = NULL, *again = NULL;
    remat_buffer buffer = {0};
    remat_status status = remat_pebble_problem_of(units, &problem.options, &pebbles, error);
    if (status)
        return status;
    status = remat_pebble_table_new(2, 4, 9, NULL, &table, error);
    if (!status)
        status = remat_pebble_solve(table, &pebbles, 6, &schedule, error);
    if (!status)
        status = remat_pebble_table_save(table, &buffer, error);
    remat_reader reader = {.data = buffer.data, .length = buffer.length};
    if (!status)
        status = remat_pebble_table_load(&reader, NULL, &again, error);
    remat_schedule_clear(&schedule);
    remat_pebble_table_free(table);
    remat_pebble_table_free(again);
    remat_pebble_problem_clear(&pebbles);
    remat_buffer_clear(&buffer);
    return status;
}

static void join_without_memory(void **state)
{
    (void)state;
    fail_each("join", use_solver);
}

static void equiv_chain_without_memory(void **state)
{
    (void)state;
    fail_each("equiv-chain", use_solver);
}

static void pebbles_without_memory(void **state)
{
    (void)state;
    fail_each("join", use_pebbles);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(join_without_memory),
                                       cmocka_unit_test(equiv_chain_without_memory),
                                       cmocka_unit_test(pebbles_without_memory)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
