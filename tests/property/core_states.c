/* The states pass on random lists that recompute: what it inserts satisfies the simulator, none of
 * it can be left out, it comes as late as it can, and it is as few as exhaustive search finds.
 * Store-all on random graphs: verified, with the makespan promised, bit for bit. */
#include "property/core_random.h"

enum { PROFILES = 4000, TINY_PROFILES = 3000, STORE_ALL_PROFILES = 5000, SEED = 20260103 };

static bool judge(const remat_profile *p, const remat_operations *list, remat_simulation *ret)
{
    assert_int_equal(remat_simulate(p, list, NULL, NULL, NULL, ret, NULL), REMAT_OK);
    return ret->valid;
}

static bool is_state(const remat_operation *o)
{
    return o->kind == REMAT_S || o->kind == REMAT_R;
}

static void check_needed(const remat_profile *p, const remat_operations *whole)
{
    remat_simulation simulation;
    for (size_t i = 0; i < whole->length; i++) {
        if (!is_state(&whole->items[i]))
            continue;
        remat_operations less = copy_list(whole);
        remove_operation(&less, i);
        if (judge(p, &less, &simulation)) {
            print_list(whole);
            fail_msg("operation %zu is not needed", i);
        }
        remat_operations_clear(&less);
    }
}

/* Every S, put behind the next operation (S and R of other states apart): no longer valid. */
static void check_latest(const remat_profile *p, const remat_operations *whole)
{
    remat_simulation simulation;
    for (size_t i = 0; i + 1 < whole->length; i++) {
        size_t next = i + 1;
        if (whole->items[i].kind != REMAT_S)
            continue;
        while (next < whole->length && is_state(&whole->items[next]) &&
               whole->items[next].index != whole->items[i].index)
            next++;
        if (next == whole->length)
            continue;
        remat_operations later = copy_list(whole);
        remat_operation save = later.items[i];
        remove_operation(&later, i);
        insert_operation(&later, next, save);
        if (judge(p, &later, &simulation)) {
            print_list(whole);
            fail_msg("the S at %zu can come after %zu", i, next);
        }
        remat_operations_clear(&later);
    }
}

/* The states pass ignores and replaces S and R that are there. */
static void check_replaces(const remat_profile *p, const remat_operations *whole)
{
    remat_operations again = {0};
    assert_int_equal(remat_insert_states(p, whole, &again, NULL), REMAT_OK);
    assert_int_equal(again.length, whole->length);
    for (size_t i = 0; i < whole->length; i++) {
        assert_int_equal(again.items[i].kind, whole->items[i].kind);
        assert_int_equal(again.items[i].index, whole->items[i].index);
        assert_int_equal(again.items[i].version, whole->items[i].version);
    }
    remat_operations_clear(&again);
}

static void random_lists_keep_their_states(void **state)
{
    (void)state;
    dice d = {SEED};
    size_t inserted = 0;
    for (unsigned i = 0; i < PROFILES; i++) {
        shape s = {.most_nodes = MOST_NODES, .states = true};
        remat_profile *p = random_profile(&d, &s);
        remat_operations bare = random_list(&d, p, false), whole = {0};
        assert_int_equal(remat_insert_states(p, &bare, &whole, NULL), REMAT_OK);
        remat_simulation simulation;
        if (!judge(p, &whole, &simulation)) {
            print_list(&whole);
            fail_msg("operation %zu: %s", simulation.bad_operation, simulation.reason);
        }
        inserted += whole.length - bare.length;
        check_needed(p, &whole);
        check_latest(p, &whole);
        check_replaces(p, &whole);
        remat_operations_clear(&bare);
        remat_operations_clear(&whole);
        remat_profile_free(p);
    }
    print_message("# %zu S and R inserted\n", inserted);
    assert_true(inserted > 1000); /* else the lists show nothing */
}

/* ---- the fewest S, by search ---- */

/* Fewest S and R of state k from operation i on, over every way to place them: `saved` holds the
 * versions saved so far, `version` the one the state holds. A walk through every choice. */
typedef struct search {
    const remat_profile *p;
    const remat_operations *list;
    uint32_t k;
    unsigned cost_s, cost_r; /* what one S and one R weigh */
} search;

enum { IMPOSSIBLE = 1000000 };

static unsigned best(const search *s, size_t i, unsigned saved, uint32_t version, bool moved);

/* Operation i runs with the state as it is. */
static unsigned best_of_running(const search *s, size_t i, unsigned saved, uint32_t version)
{
    const remat_profile *p = s->p;
    if (i == s->list->length)
        return version == p->states[s->k].n_writers ? 0 : IMPOSSIBLE;
    const remat_operation *o = &s->list->items[i];
    if (o->kind != REMAT_F && o->kind != REMAT_A)
        return best(s, i + 1, saved, version, false);
    const remat_node *node = &p->nodes[o->index];
    uint32_t plain = naive_writers_before(p, o->index, s->k);
    for (uint32_t j = 0; j < node->n_reads; j++)
        if (node->reads[j] == s->k && version != plain)
            return IMPOSSIBLE;
    for (uint32_t j = 0; j < node->n_writes; j++)
        if (node->writes[j] == s->k)
            version = plain + 1;
    return best(s, i + 1, saved, version, false);
}

/* Before operation i: save or not, then (once) restore any saved version or not. Only forwards and
 * the end can tell the difference, so elsewhere there is no choice to try. */
static unsigned best(const search *s, size_t i, unsigned saved, uint32_t version, bool moved)
{
    unsigned least = best_of_running(s, i, saved, version);
    bool matters = i == s->list->length || s->list->items[i].kind == REMAT_F ||
                   s->list->items[i].kind == REMAT_A;
    if (!matters)
        return least;
    if (!(saved & 1u << version)) {
        unsigned one = s->cost_s + best(s, i, saved | 1u << version, version, moved);
        least = one < least ? one : least;
    }
    for (uint32_t n = 0; !moved && n <= s->p->states[s->k].n_writers; n++) {
        if (n == version || !(saved & 1u << n))
            continue;
        unsigned one = s->cost_r + best(s, i, saved, n, true);
        least = one < least ? one : least;
    }
    return least;
}

static void count_state(const remat_operations *whole, uint32_t k, unsigned *ret_s, unsigned *ret_r)
{
    *ret_s = *ret_r = 0;
    for (size_t i = 0; i < whole->length; i++) {
        *ret_s += whole->items[i].kind == REMAT_S && whole->items[i].index == k;
        *ret_r += whole->items[i].kind == REMAT_R && whole->items[i].index == k;
    }
}

static size_t count_forwards(const remat_operations *list)
{
    size_t n = 0;
    for (size_t i = 0; i < list->length; i++)
        n += list->items[i].kind == REMAT_F || list->items[i].kind == REMAT_A;
    return n;
}

static void no_list_needs_fewer_saves(void **state)
{
    (void)state;
    dice d = {SEED + 1};
    unsigned tried = 0, with_saves = 0;
    for (unsigned i = 0; i < TINY_PROFILES; i++) {
        shape s = {.most_nodes = 4, .states = true};
        remat_profile *p = random_profile(&d, &s);
        remat_operations bare = random_list(&d, p, false), whole = {0};
        assert_int_equal(remat_insert_states(p, &bare, &whole, NULL), REMAT_OK);
        for (uint32_t k = 0; k < p->n_states && count_forwards(&bare) <= 9; k++) {
            unsigned n_s, n_r;
            count_state(&whole, k, &n_s, &n_r);
            search only_s = {p, &bare, k, 1, 0}, only_r = {p, &bare, k, 0, 1};
            assert_int_equal(best(&only_s, 0, 0, 0, false), n_s);
            assert_int_equal(best(&only_r, 0, 0, 0, false), n_r);
            tried++;
            with_saves += n_s > 0;
        }
        remat_operations_clear(&bare);
        remat_operations_clear(&whole);
        remat_profile_free(p);
    }
    print_message("# %u searches, %u with saves\n", tried, with_saves);
    assert_true(with_saves > 100);
}

/* ---- store-all ---- */

static void store_all_keeps_its_promise(void **state)
{
    (void)state;
    dice d = {SEED + 2};
    const remat_solver *solver = remat_solver_find("store-all");
    for (unsigned i = 0; i < STORE_ALL_PROFILES; i++) {
        shape s = {.most_nodes = MOST_NODES, .states = chance(&d, 50), .any_times = true};
        remat_profile *p = random_profile(&d, &s);
        remat_problem problem = {
            .profile = p, .options = remat_options_default(solver), .max_budget = REMAT_MAX_BYTES};
        remat_table *table = NULL;
        remat_schedule schedule;
        remat_error error;
        if (remat_tabulate(solver, &problem, NULL, &table, &error))
            fail_msg("profile %u: %s", i, error.message);
        assert_int_equal(remat_table_schedule(table, &problem, REMAT_MAX_BYTES, &schedule, &error),
                         REMAT_OK);
        assert_true(schedule.simulation.valid);
        assert_true(schedule.simulation.makespan == remat_store_all_makespan(p));
        assert_true(schedule.simulation.recomputed_time == 0);
        assert_int_equal(schedule.optimality, REMAT_OPTIMAL);
        for (size_t j = 0; j < schedule.operations.length; j++)
            assert_false(is_state(&schedule.operations.items[j]));
        remat_schedule_clear(&schedule);
        remat_table_free(table);
        remat_profile_free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_lists_keep_their_states),
        cmocka_unit_test(no_list_needs_fewer_saves),
        cmocka_unit_test(store_all_keeps_its_promise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
