/* Random edits of a timeline: what they keep up to date equals what is computed anew, an undone edit
 * leaves nothing behind, and the judge finds the same peak and makespan. */
#include "property/joint_random.h"

#include "interval/search.h"

#include <math.h>

/* One random edit; false if there was nothing to do. */
static bool edit(interval_timeline *t, dice *d)
{
    const interval_tasks *tasks = t->tasks;
    uint32_t run = t->live[below(d, t->n_live)], task = t->runs[run].task;
    uint32_t first = tasks->reads.first[task], reads = tasks->reads.first[task + 1] - first;
    uint32_t ways = tasks->ways_of.first[task + 1] - tasks->ways_of.first[task], low, high;
    switch (below(d, 5)) {
    case 0:
    case 1:
        if (reads == 0 || t->n_live > 5 * tasks->n_tasks)
            return false;
        uint32_t maker = tasks->maker[tasks->reads.items[first + below(d, reads)]];
        if (tasks->once[maker])
            return false;
        interval_insert(t, maker, run);
        return true;
    case 2:
        if (!interval_removable(t, run))
            return false;
        interval_remove(t, run);
        return true;
    case 3:
        interval_window(t, run, &low, &high);
        if (high <= low + 1)
            return false;
        uint32_t anchor = interval_run_from(t, low + 1 + below(d, high - low - 1));
        if (anchor == run || anchor == INTERVAL_NONE)
            return false;
        interval_shift(t, run, anchor);
        return true;
    default:
        interval_set_way(t, run, (uint16_t)below(d, ways));
        return ways > 1;
    }
}

static void judge(const interval_timeline *t)
{
    const remat_profile *profile = t->tasks->profile;
    remat_operations runs = {0}, list = {0};
    remat_simulation replay;
    assert_int_equal(interval_timeline_list(t, &runs), REMAT_OK);
    assert_int_equal(remat_liveness(profile, &runs, &list, NULL), REMAT_OK);
    assert_int_equal(remat_simulate(profile, &list, NULL, NULL, NULL, &replay, NULL), REMAT_OK);
    if (!replay.valid)
        fail_msg("%s", replay.reason);
    assert_true((double)replay.peak == interval_peak(t));
    assert_true(fabs(replay.makespan - interval_time(t)) <= 1e-9 * replay.makespan);
    remat_operations_clear(&runs);
    remat_operations_clear(&list);
}

/* Every other profile is joint, every fourth one in the order given. */
static void edits_keep_everything_true(void **state)
{
    (void)state;
    dice d = {.state = 17};
    const shape s = {.most_nodes = MOST_NODES, .alternatives = true};
    for (int i = 0; i < 600; i++) {
        remat_profile *profile =
            i % 2 ? random_joint(&d, JOINT_NODES, chance(&d, 50)) : random_profile(&d, &s);
        interval_tasks *tasks = NULL;
        interval_timeline *t = NULL;
        remat_operations list = {0};
        uint64_t peak;
        assert_int_equal(remat_store_all_peak(profile, &peak, NULL), REMAT_OK);
        assert_int_equal(interval_store_everything(profile, &list), REMAT_OK);
        assert_int_equal(interval_tasks_new(profile, 1, i % 4 == 3, &tasks, NULL), REMAT_OK);
        assert_int_equal(interval_timeline_new(tasks, &list, (double)(peak / 2), &t, NULL),
                         REMAT_OK);
        for (int k = 0; k < 60; k++) {
            bool done = edit(t, &d);
            done = edit(t, &d) || done;
            if (!interval_consistent(t))
                fail_msg("profile %d, edit %d: what is kept is not what is", i, k);
            if (chance(&d, 40)) {
                interval_undo(t);
                if (!interval_consistent(t))
                    fail_msg("profile %d, edit %d: undoing left something behind", i, k);
            } else {
                interval_commit(t);
            }
            if (done)
                judge(t);
        }
        interval_timeline_free(t);
        interval_tasks_free(tasks);
        remat_operations_clear(&list);
        remat_profile_free(profile);
    }
}

/* Sizes are whole, so every version of the kernel gives the same sums and the same memory. */
static void kernels_agree(void **state)
{
    (void)state;
    dice d = {.state = 5};
    interval_range_kernel kernels[3];
    size_t n_kernels = interval_range_kernels(kernels);
    double plain[200], other[200];
    for (int i = 0; i < 2000; i++) {
        size_t low = below(&d, 100), n = below(&d, 100);
        double delta = (double)below(&d, 1u << 30) - (1 << 29), budget = below(&d, 1u << 31);
        for (size_t k = 0; k < 200; k++)
            plain[k] = (double)(roll(&d) >> 20) - (chance(&d, 30) ? INTERVAL_EMPTY_SLOT : 0);
        for (size_t v = 1; v < n_kernels; v++) {
            double copy[200];
            memcpy(copy, plain, sizeof copy);
            memcpy(other, plain, sizeof other);
            double sum = kernels[0].add(copy + low, n, delta, budget);
            assert_true(kernels[0].probe(plain + low, n, delta, budget) == sum);
            assert_true(kernels[v].probe(other + low, n, delta, budget) == sum);
            assert_true(kernels[v].add(other + low, n, delta, budget) == sum);
            assert_memory_equal(copy, other, sizeof copy);
        }
    }
}

/* The generator's logarithm beside libm's. */
static void exponential_is_minus_log(void **state)
{
    (void)state;
    interval_search one = {.random = 12345}, same = {.random = 12345};
    double sum = 0;
    for (int i = 0; i < 100000; i++) {
        double x = interval_random_exponential(&one), y = -log(interval_random_unit(&same));
        assert_true(fabs(x - y) <= 1e-5);
        sum += x;
    }
    assert_true(fabs(sum / 100000 - 1) < 0.02);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edits_keep_everything_true),
        cmocka_unit_test(kernels_agree),
        cmocka_unit_test(exponential_is_minus_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
