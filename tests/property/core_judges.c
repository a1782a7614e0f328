/* Two judges of the same contract: remat_simulate and the naive one of core_naive.h, written apart
 * from it, must say the same of every list: valid ones, and valid ones damaged at random. */
#include "property/core_random.h"

enum { PROFILES = 4000, LISTS = 3, MUTANTS = 12, SEED = 20260101 };

typedef struct tally {
    unsigned valid, invalid, unfinished, idle;
} tally;

static void compare_moments(const remat_moment *a, const remat_moment *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (a[i].memory_during != b[i].memory_during || a[i].memory_after != b[i].memory_after)
            fail_msg("operation %zu: memory %llu then %llu; naive %llu then %llu", i,
                     (unsigned long long)a[i].memory_during, (unsigned long long)a[i].memory_after,
                     (unsigned long long)b[i].memory_during, (unsigned long long)b[i].memory_after);
        if (a[i].start != b[i].start || a[i].end != b[i].end)
            fail_msg("operation %zu: from %g to %g; naive from %g to %g", i, a[i].start, a[i].end,
                     b[i].start, b[i].end);
    }
}

static void compare(const remat_simulation *a, const naive_verdict *b)
{
    if (a->valid != b->valid || (!a->valid && a->bad_operation != b->bad_operation))
        fail_msg("valid %d, operation %zu (%s); naive: valid %d, operation %zu", a->valid,
                 a->bad_operation, a->reason, b->valid, b->bad_operation);
    if (!a->valid) {
        assert_true(a->reason[0] != '\0');
        return;
    }
    assert_true(a->makespan == b->makespan);
    assert_true(a->compute_time == b->compute_time);
    assert_true(a->idle_time == b->makespan - b->compute_time);
    assert_true(a->recomputed_time == b->recomputed_time);
    assert_true(a->peak == b->peak);
    assert_true(a->peak_operation == b->peak_operation);
    assert_true(a->host_peak == b->host_peak);
    assert_true(a->bytes_to_host == b->bytes_to_host);
    assert_true(a->bytes_to_device == b->bytes_to_device);
}

static bool judge_both(const remat_profile *p, const remat_operations *list, const remat_link *link,
                       tally *t)
{
    static remat_moment ours[MOST_OPERATIONS + MUTANTS], theirs[MOST_OPERATIONS + MUTANTS];
    double recomputed[MOST_NODES], sum = 0;
    remat_simulation simulation;
    remat_error error;
    assert_int_equal(remat_simulate(p, list, link, ours, recomputed, &simulation, &error),
                     REMAT_OK);
    naive_verdict verdict = naive_judge(p, list, link, theirs);
    if (simulation.valid != verdict.valid)
        print_list(list);
    compare(&simulation, &verdict);
    t->valid += verdict.valid;
    t->invalid += !verdict.valid;
    t->unfinished += !verdict.valid && verdict.bad_operation == list->length;
    t->idle += verdict.valid && simulation.idle_time > 0;
    if (!verdict.valid)
        return false;
    compare_moments(ours, theirs, list->length);
    for (uint32_t v = 0; v < p->n_nodes; v++)
        sum += recomputed[v];
    assert_true(sum == simulation.recomputed_time);
    return true;
}

static void judge_mutants(dice *d, const remat_profile *p, const remat_operations *list,
                          const remat_link *link, tally *t)
{
    remat_operations mutant = copy_list(list);
    for (unsigned m = 0; m < MUTANTS; m++) {
        if (m % 4 == 0) { /* up to four wounds, then afresh */
            remat_operations_clear(&mutant);
            mutant = copy_list(list);
        }
        mutate(d, p, &mutant);
        judge_both(p, &mutant, chance(d, 5) ? NULL : link, t);
    }
    remat_operations_clear(&mutant);
}

static void both_judges_agree(void **state)
{
    (void)state;
    dice d = {SEED};
    tally t = {0};
    for (unsigned i = 0; i < PROFILES; i++) {
        shape s = {.most_nodes = MOST_NODES, .states = chance(&d, 50), .alternatives = i % 2};
        remat_profile *p = random_profile(&d, &s);
        for (unsigned k = 0; k < LISTS; k++) {
            remat_link link = random_link(&d);
            bool offloads = chance(&d, 50);
            remat_operations list = random_whole_list(&d, p, offloads);
            if (!judge_both(p, &list, offloads ? &link : NULL, &t)) {
                print_list(&list);
                fail_msg("profile %u: a list made to be valid is not", i);
            }
            judge_mutants(&d, p, &list, &link, &t);
            remat_operations_clear(&list);
        }
        remat_profile_free(p);
    }
    print_message("# %u valid (%u with idle time), %u invalid, of these %u unfinished\n", t.valid,
                  t.idle, t.invalid, t.unfinished);
    /* Both kinds must be there in numbers, or the comparison says little. */
    assert_true(t.valid > 10000 && t.invalid > 10000 && t.unfinished > 1000 && t.idle > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_judges_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
