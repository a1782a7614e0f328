/* The liveness pass on random valid lists, against what remat/schedule.h promises: still valid, the
 * same time, no byte more, nothing freed later than it could be (by trying every earlier place). */
#include "property/core_random.h"

enum { PROFILES = 3000, LISTS = 3, SEED = 20260102 };

static bool is_drop(const remat_operation *o)
{
    return o->kind == REMAT_D && o->target != REMAT_INPUT;
}

static bool same_operation(const remat_operation *a, const remat_operation *b)
{
    return a->kind == b->kind && a->target == b->target && a->index == b->index &&
           a->version == b->version;
}

static bool same_list(const remat_operations *a, const remat_operations *b)
{
    if (a->length != b->length)
        return false;
    for (size_t i = 0; i < a->length; i++)
        if (!same_operation(&a->items[i], &b->items[i]))
            return false;
    return true;
}

static remat_simulation replay(const remat_profile *p, const remat_operations *list,
                               const remat_link *link, remat_moment *moments)
{
    remat_simulation simulation;
    remat_error error;
    assert_int_equal(remat_simulate(p, list, link, moments, NULL, &simulation, &error), REMAT_OK);
    return simulation;
}

/* Operations other than drops are the same in both lists; none may hold more bytes than before. */
static void compare_memory(const remat_operations *before, const remat_operations *after,
                           const remat_moment *old, const remat_moment *new)
{
    size_t i = 0, j = 0;
    for (;; i++, j++) {
        while (i < before->length && is_drop(&before->items[i]))
            i++;
        while (j < after->length && is_drop(&after->items[j]))
            j++;
        if (i == before->length || j == after->length)
            break;
        assert_true(same_operation(&before->items[i], &after->items[j]));
        assert_true(new[j].memory_during <= old[i].memory_during);
        assert_true(new[j].memory_after <= old[i].memory_after);
        assert_true(new[j].start == old[i].start &&new[j].end == old[i].end);
    }
    assert_true(i == before->length && j == after->length);
}

/* Whether the value that a drop frees is made by this operation. */
static bool makes(const remat_operation *o, const remat_operation *drop)
{
    return o->index == drop->index &&
           (o->kind == REMAT_A || (o->kind == REMAT_F && drop->target == REMAT_OUT));
}

/* Whether the value that list[at] drops was copied by an O or a P since it was made: the copy is
 * waited for, so an earlier D may take time. */
static bool copied(const remat_operations *list, size_t at)
{
    const remat_operation *drop = &list->items[at];
    for (size_t i = at; i-- > 0;) {
        const remat_operation *o = &list->items[i];
        if (makes(o, drop))
            return false;
        bool copies = o->kind == REMAT_O || o->kind == REMAT_P;
        if (copies && o->index == drop->index && o->target == drop->target)
            return true;
    }
    return false;
}

/* Every D, put before the operation before it: no longer valid. (Past other D it may go freely.) */
static void check_earliest(const remat_profile *p, const remat_operations *list,
                           const remat_link *link)
{
    for (size_t at = 0; at < list->length; at++) {
        if (!is_drop(&list->items[at]) || copied(list, at))
            continue;
        size_t to = at;
        while (to > 0 && is_drop(&list->items[to - 1]))
            to--;
        assert_true(to > 0);
        if (makes(&list->items[to - 1], &list->items[at]))
            continue;
        remat_operations moved = copy_list(list);
        remat_operation drop = moved.items[at];
        remove_operation(&moved, at);
        insert_operation(&moved, to - 1, drop);
        if (replay(p, &moved, link, NULL).valid) {
            print_list(list);
            fail_msg("operation %zu can move before %zu", at, to - 1);
        }
        remat_operations_clear(&moved);
    }
}

/* Nothing is left at the end that one more D could free without waiting. */
static void check_nothing_left(const remat_profile *p, const remat_operations *list,
                               const remat_link *link, double makespan)
{
    for (unsigned target = REMAT_OUT; target <= REMAT_SAVED; target++)
        for (uint32_t v = 0; v < p->n_nodes; v++) {
            remat_operations longer = copy_list(list);
            remat_operation drop = {.kind = REMAT_D, .target = (uint8_t)target, .index = v};
            insert_operation(&longer, longer.length, drop);
            remat_simulation simulation = replay(p, &longer, link, NULL);
            bool may_stay = copied(&longer, longer.length - 1);
            if (simulation.valid && !may_stay)
                fail_msg("%s of node %u is never freed; makespan %g, with a D %g",
                         target == REMAT_OUT ? "output" : "saved values", v, makespan,
                         simulation.makespan);
            remat_operations_clear(&longer);
        }
}

static void check_list(const remat_profile *p, const remat_operations *list, const remat_link *link)
{
    static remat_moment old[MOST_OPERATIONS], new[2 * MOST_OPERATIONS];
    remat_operations live = {0}, again = {0};
    remat_error error;
    remat_simulation before = replay(p, list, link, old);
    assert_true(before.valid);
    assert_int_equal(remat_liveness(p, list, &live, &error), REMAT_OK);
    assert_true(live.length <= 2 * MOST_OPERATIONS);
    remat_simulation after = replay(p, &live, link, new);
    if (!after.valid || after.makespan != before.makespan || after.peak > before.peak) {
        print_list(list);
        print_list(&live);
        fail_msg("valid %d (%s), makespan %g was %g, peak %llu was %llu", after.valid, after.reason,
                 after.makespan, before.makespan, (unsigned long long)after.peak,
                 (unsigned long long)before.peak);
    }
    compare_memory(list, &live, old, new);
    check_earliest(p, &live, link);
    check_nothing_left(p, &live, link, after.makespan);
    assert_int_equal(remat_liveness(p, &live, &again, &error), REMAT_OK);
    assert_true(same_list(&live, &again));
    remat_operations_clear(&live);
    remat_operations_clear(&again);
}

/* Some D of the list removed: values then stay longer than they need. */
static void forget_drops(dice *d, const remat_profile *p, remat_operations *list,
                         const remat_link *link)
{
    for (size_t i = list->length; i-- > 0;) {
        if (!is_drop(&list->items[i]) || !chance(d, 50))
            continue;
        remat_operation drop = list->items[i];
        remove_operation(list, i);
        if (!replay(p, list, link, NULL).valid)
            insert_operation(list, i, drop);
    }
}

static void check_random_lists(unsigned seed, bool offloads)
{
    dice d = {seed};
    for (unsigned i = 0; i < PROFILES; i++) {
        shape s = {
            .most_nodes = MOST_NODES, .states = chance(&d, 30), .alternatives = chance(&d, 50)};
        remat_profile *p = random_profile(&d, &s);
        for (unsigned k = 0; k < LISTS; k++) {
            remat_link link = random_link(&d);
            remat_operations list = random_whole_list(&d, p, offloads);
            check_list(p, &list, offloads ? &link : NULL);
            forget_drops(&d, p, &list, offloads ? &link : NULL);
            check_list(p, &list, offloads ? &link : NULL);
            remat_operations_clear(&list);
        }
        remat_profile_free(p);
    }
}

static void lists_without_a_link(void **state)
{
    (void)state;
    check_random_lists(SEED, false);
}

static void lists_with_copies(void **state)
{
    (void)state;
    check_random_lists(SEED + 1, true);
}

/* Lists that no simulator accepts still give a list: nothing is read out of bounds. */
static void damaged_lists_do_no_harm(void **state)
{
    (void)state;
    dice d = {SEED + 2};
    for (unsigned i = 0; i < PROFILES; i++) {
        shape s = {.most_nodes = MOST_NODES, .states = true};
        remat_profile *p = random_profile(&d, &s);
        remat_operations list = random_whole_list(&d, p, true), live = {0}, whole = {0};
        for (unsigned m = 0; m < 10; m++)
            mutate(&d, p, &list);
        assert_int_equal(remat_liveness(p, &list, &live, NULL), REMAT_OK);
        assert_int_equal(remat_insert_states(p, &live, &whole, NULL), REMAT_OK);
        remat_operations_clear(&list);
        remat_operations_clear(&live);
        remat_operations_clear(&whole);
        remat_profile_free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_without_a_link),
        cmocka_unit_test(lists_with_copies),
        cmocka_unit_test(damaged_lists_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
