/* Random edits of a timeline: what they keep up to date equals what is computed anew, an undone
 * edit leaves nothing behind, and the judge finds the same peak and makespan. */
#include "property/joint_random.h"

#include "model/lists.h"
#include "search/search.h"

#include <math.h>

/* One random edit; false if there was nothing to do. */
static bool edit(interval_timeline *t, dice *d)
{
    const interval_tasks *tasks = t->tasks;
    uint32_t run = t->live[below(d, t->n_live)], task = t->runs[run].task;
    uint32_t first = tasks->reads.first[task], reads = tasks->reads.first[task + 1] - first;
    uint32_t ways = interval_n_ways(tasks, task), low, high;
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
    remat_put_in_flight(&replay, t->tasks->others + 1);
    assert_true((double)replay.peak == interval_peak(t));
    assert_true(fabs(replay.makespan - interval_time(t)) <= 1e-9 * replay.makespan);
    remat_operations_clear(&runs);
    remat_operations_clear(&list);
}

/* Everything computed again from the runs alone equals what the edits left. */
static bool consistent(const interval_timeline *t)
{
    remat_operations list = {0};
    interval_timeline *fresh = NULL;
    bool same =
        !interval_timeline_list(t, &list) &&
        !interval_timeline_new(t->tasks, &list, t->budget + t->tasks->resident, &fresh, NULL);
    same =
        same && fresh->excess == t->excess && fresh->n_live == t->n_live && fresh->held == t->held;
    for (uint32_t s = 0, f = 0; same && s < t->n_slots; s++) {
        if (t->run_at[s] == INTERVAL_NONE)
            continue;
        while (fresh->run_at[f] == INTERVAL_NONE)
            f++;
        const interval_run *one = &t->runs[t->run_at[s]], *other = &fresh->runs[fresh->run_at[f]];
        same = interval_memory_at(&t->memory, s) == interval_memory_at(&fresh->memory, f) &&
               one->task == other->task && one->time == other->time;
        f++;
    }
    remat_operations_clear(&list);
    interval_timeline_free(fresh);
    return same;
}

/* Takes away what a random value takes between two runs, and says what that relieves: as much as
 * making it again does, where nothing else changes. */
static void relieve(interval_timeline *t, dice *d)
{
    uint32_t low = below(d, t->n_slots), high = low + 1 + below(d, t->n_slots - low);
    const interval_tasks *tasks = t->tasks;
    double bytes = 1 + below(d, 20), plain = 0;
    uint32_t turn = t->turn == INTERVAL_NONE
                        ? INTERVAL_NONE
                        : t->runs[t->turn].slot + (tasks->turn_task != INTERVAL_NONE);
    bool held = turn != INTERVAL_NONE && low <= turn && turn <= high;
    for (uint32_t s = 0; s < t->n_slots; s++) {
        double away = bytes * ((s >= low && s < high) + (held ? tasks->others : 0));
        double memory = interval_memory_at(&t->memory, s);
        plain += fmax(memory - t->budget, 0) - fmax(memory - away - t->budget, 0);
    }
    assert_true(interval_relief(t, low, high, bytes) == plain);
}

/* Edits of the timeline of a profile at half its memory; every so many are looked at. */
static void edit_profile(dice *d, const remat_profile *profile, bool in_order, uint32_t in_flight,
                         int edits, int each)
{
    interval_tasks *tasks = NULL;
    interval_timeline *t = NULL;
    remat_operations list = {0};
    uint64_t peak;
    assert_int_equal(model_store_everything(profile, &list), REMAT_OK);
    assert_int_equal(remat_store_all_in_flight(profile, in_flight, &peak, NULL), REMAT_OK);
    assert_int_equal(interval_tasks_new(profile, 1, in_order, in_flight, &tasks, NULL), REMAT_OK);
    assert_int_equal(interval_timeline_new(tasks, &list, (double)(peak / 2), &t, NULL), REMAT_OK);
    for (int k = 0; k < edits; k++) {
        bool done = edit(t, d);
        done = edit(t, d) || done;
        bool look = k % each == 0, undo = chance(d, 40);
        if (look && !consistent(t))
            fail_msg("%u nodes, edit %d: what is kept is not what is", profile->n_nodes, k);
        if (undo)
            interval_undo(t);
        else
            interval_commit(t);
        if (look && undo && !consistent(t))
            fail_msg("%u nodes, edit %d: undoing left something behind", profile->n_nodes, k);
        if (look && done)
            judge(t);
        if (look)
            relieve(t, d);
    }
    interval_timeline_free(t);
    interval_tasks_free(tasks);
    remat_operations_clear(&list);
}

/* Every other profile is joint, every fourth one in the order given; half of all several times in
 * flight. */
static void edits_keep_everything_true(void **state)
{
    (void)state;
    dice d = {.state = 17};
    const shape s = {.most_nodes = MOST_NODES, .alternatives = true};
    for (int i = 0; i < 600; i++) {
        remat_profile *profile =
            i % 2 ? random_joint_graph(&d, JOINT_NODES, chance(&d, 50), i % 8 > 3)
                  : random_profile(&d, &s);
        edit_profile(&d, profile, i % 4 == 3, i % 8 > 3 ? 1 + below(&d, 4) : 1, 60, 1);
        remat_profile_free(profile);
    }
}

/* A graph whose runs fill many blocks: every node reads the one before and any earlier one. */
static remat_profile *many_nodes(dice *d)
{
    enum { NODES = 1100 };
    static remat_node_spec nodes[NODES];
    static const char *inputs[NODES][2];
    static char names[NODES][8];
    const remat_profile_spec spec = {
        .format = "remat-profile/1", .name = "many", .nodes = nodes, .n_nodes = NODES};
    for (uint32_t v = 0; v < NODES; v++) {
        uint32_t other = v > 1 ? below(d, v - 1) : 0;
        snprintf(names[v], sizeof names[v], "n%u", v);
        inputs[v][0] = names[v > 0 ? v - 1 : 0];
        inputs[v][1] = names[other];
        nodes[v] = (remat_node_spec){.id = names[v],
                                     .inputs = inputs[v],
                                     .n_inputs = v > 1 ? 2 : v,
                                     .forward_time = {true, 1 + below(d, 9)},
                                     .output_bytes = {true, 1 + below(d, 1u << 20)},
                                     .saved_bytes = {true, below(d, 1u << 20)}};
    }
    remat_profile *profile = NULL;
    remat_error error;
    if (remat_profile_new(&spec, &profile, &error))
        fail_msg("%s: %s", error.field, error.message);
    return profile;
}

static void edits_of_many_runs(void **state)
{
    (void)state;
    dice d = {.state = 23};
    remat_profile *profile = many_nodes(&d);
    edit_profile(&d, profile, false, 1, getenv("REMAT_SLOW_BUILD") ? 300 : 3000, 10);
    edit_profile(&d, profile, false, 4, getenv("REMAT_SLOW_BUILD") ? 60 : 600, 10);
    remat_profile_free(profile);
}

static double growth_by_definition(const double *memory, size_t n, double delta, double budget)
{
    double sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += fmax(0, memory[k] + delta - budget) - fmax(0, memory[k] - budget);
    return sum;
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
        for (size_t v = 0; v < n_kernels; v++) {
            double copy[200];
            memcpy(copy, plain, sizeof copy);
            memcpy(other, plain, sizeof other);
            double sum = kernels[0].add(copy + low, n, delta, budget);
            assert_true(growth_by_definition(plain + low, n, delta, budget) == sum);
            assert_true(kernels[0].probe(plain + low, n, delta, budget) == sum);
            assert_true(kernels[v].probe(other + low, n, delta, budget) == sum);
            double low_memory, high_memory, floor = -(double)below(&d, 1u << 31);
            assert_true(kernels[v].scan(other + low, n, delta, budget, floor, &low_memory,
                                        &high_memory) == sum);
            double lowest = INFINITY, highest = -INFINITY;
            for (size_t k = low; k < low + n; k++) {
                lowest = plain[k] >= floor && plain[k] < lowest ? plain[k] : lowest;
                highest = plain[k] > highest ? plain[k] : highest;
            }
            assert_true(low_memory == lowest && high_memory == highest);
            assert_true(kernels[v].add(other + low, n, delta, budget) == sum);
            assert_memory_equal(copy, other, sizeof copy);
        }
    }
}

enum { SLOTS = 2500, MANY_SLOTS = 2 * INTERVAL_SECTION + 300 };

/* The memory by slot of a list, one number each. */
typedef struct plain_memory {
    double slots[MANY_SLOTS];
} plain_memory;

static double plain_add(plain_memory *m, uint32_t low, uint32_t high, double delta, double budget)
{
    double grown = 0;
    for (uint32_t s = low; s < high; s++) {
        double old = m->slots[s];
        m->slots[s] += delta;
        grown += fmax(m->slots[s] - budget, 0) - fmax(old - budget, 0);
    }
    return grown;
}

/* The same to both; where sizes are near the limit the sum over many slots is not exact. */
static void add_to_both(interval_memory *m, plain_memory *plain, uint32_t low, uint32_t high,
                        double delta, double budget)
{
    bool exact = fabs(delta) < 0x1p40;
    double probed = interval_memory_probe(m, low, high, delta, budget);
    double grown = interval_memory_add(m, low, high, delta, budget);
    double expected = plain_add(plain, low, high, delta, budget);
    assert_true(probed == grown);
    assert_true(!exact || grown == expected);
}

/* Ranges, and runs that come and go, beside one number for each slot. Now and then two parts of a
 * block get what all of it then loses: slots and what is pending drift apart. */
static void blocks_are_their_slots(dice *d, const interval_range_kernel *kernel, uint32_t n,
                                   uint32_t size_bits, int edits)
{
    static plain_memory plain;
    interval_memory m = {.kernel = *kernel};
    assert_true(interval_memory_clear(&m, n));
    double size = ldexp(1, (int)size_bits), budget = floor(size / 2);
    for (uint32_t s = 0; s < n; s++)
        plain.slots[s] = m.slots[s] = chance(d, 50) ? -INTERVAL_EMPTY_SLOT : below(d, 1u << 20);
    interval_memory_index(&m);
    for (int i = 0; i < edits; i++) {
        uint32_t low = below(d, n + 1), high = low + below(d, n + 1 - low), kind = below(d, 100);
        double delta = 1 + floor(size * (double)(roll(d) >> 12) * 0x1p-52);
        if (kind < 40) {
            double up_or_down = chance(d, 50) ? delta : -delta;
            uint32_t middle = low + (high - low) / 2;
            add_to_both(&m, &plain, low, high, up_or_down, budget);
            if (chance(d, 90)) /* what is alive stays about as large */
                add_to_both(&m, &plain, low, middle, -up_or_down, budget);
            add_to_both(&m, &plain, middle, high, -up_or_down, budget);
        } else if (kind < 70) {
            uint32_t unit =
                n >= 2 * INTERVAL_SECTION && chance(d, 50) ? INTERVAL_SECTION : INTERVAL_BLOCK;
            uint32_t whole = below(d, 2) * unit, cut = 1 + below(d, unit - 1);
            add_to_both(&m, &plain, whole, whole + cut, delta, budget);
            add_to_both(&m, &plain, whole + cut, whole + unit, delta, budget);
            add_to_both(&m, &plain, whole, whole + unit, -delta, budget);
        } else if (kind < 90 && low < n) {
            double other = plain.slots[low] < INTERVAL_NO_RUN ? 1 : -1;
            plain.slots[low] += other * INTERVAL_EMPTY_SLOT;
            interval_memory_set(&m, low, plain.slots[low]);
        } else {
            budget = floor(size * (double)(roll(d) >> 12) * 0x1p-52);
        }
        for (uint32_t s = (uint32_t)i % 16; s < n; s += 16)
            assert_true(interval_memory_at(&m, s) == plain.slots[s]);
    }
    interval_memory_free(&m);
}

static void blocks_are_slots(void **state)
{
    (void)state;
    dice d = {.state = 29};
    interval_range_kernel kernels[3];
    size_t n_kernels = interval_range_kernels(kernels);
    int edits = getenv("REMAT_SLOW_BUILD") ? 400 : 4000;
    for (size_t v = 0; v < n_kernels; v++) {
        blocks_are_their_slots(&d, &kernels[v], 300, 20, edits / 10);
        blocks_are_their_slots(&d, &kernels[v], SLOTS, 20, edits);
        blocks_are_their_slots(&d, &kernels[v], SLOTS, 46, edits);
        blocks_are_their_slots(&d, &kernels[v], 17 * INTERVAL_BLOCK, 5, edits);
        blocks_are_their_slots(&d, &kernels[v], MANY_SLOTS, 20, edits / 2);
        blocks_are_their_slots(&d, &kernels[v], MANY_SLOTS, 46, edits / 2);
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
        cmocka_unit_test(edits_of_many_runs),
        cmocka_unit_test(kernels_agree),
        cmocka_unit_test(blocks_are_slots),
        cmocka_unit_test(exponential_is_minus_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
