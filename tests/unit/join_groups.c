/* Joins of many branches: the groups that merging makes are those of looking at all of them each
 * time, and the estimate of 100,000 branches takes seconds. */
#include "../unit/join_support.h"

#include "papers/join/groups.h"
#include "remat/table.h"

#include <time.h>

enum { MANY = 40, STAR = 100000, SECONDS = 4 };

/* The two shortest, the first of those alike; the last group takes the number that is free. */
static void merge_plainly(const uint32_t *length, uint32_t k, uint32_t *number, uint32_t n)
{
    uint32_t longest[MANY] = {0}, a = 0, b;
    for (uint32_t j = 0; j < k; j++)
        if (length[j] > longest[number[j]])
            longest[number[j]] = length[j];
    for (uint32_t g = 1; g < n; g++)
        a = longest[g] < longest[a] ? g : a;
    b = a == 0;
    for (uint32_t g = b + 1; g < n; g++)
        b = g != a && longest[g] < longest[b] ? g : b;
    for (uint32_t j = 0; j < k; j++)
        number[j] = number[j] == a ? b : number[j];
    for (uint32_t j = 0; j < k; j++)
        number[j] = number[j] == n - 1 ? a : number[j];
}

static void groups(void **state)
{
    (void)state;
    uint64_t seed = 11;
    for (int round = 0; round < 300; round++) {
        join_branch branches[MANY] = {{0}};
        uint32_t length[MANY], number[MANY], k = 2 + (uint32_t)support_below(&seed, MANY - 1);
        for (uint32_t j = 0; j < k; j++) {
            length[j] = branches[j].length =
                1 + (uint32_t)support_below(&seed, 1 + (uint64_t)round % 9);
            number[j] = j;
        }
        const join_costs join = {.k = k, .branches = branches};
        join_groups g;
        assert_int_equal(join_groups_init(&join, &g), REMAT_OK);
        for (uint32_t n = k; n > 1; n--) {
            merge_plainly(length, k, number, n);
            join_groups_merge(&g);
            join_groups_number(&g);
            assert_int_equal(g.n, n - 1);
            assert_memory_equal(g.number, number, k * sizeof *number);
        }
        join_groups_clear(&g);
    }
}

/* STAR branches, of which the first has `first` nodes. */
static remat_profile *star(uint32_t first)
{
    uint32_t n = first + STAR;
    remat_node_spec *nodes = calloc(n, sizeof *nodes);
    char(*ids)[16] = calloc(n, sizeof *ids);
    const char **before = calloc(n, sizeof *before), **ends = calloc(STAR, sizeof *ends);
    const support_stage stage = {.a = 10, .delta = 10, .uf = 1, .ub = 2};
    for (uint32_t v = 0; v < n; v++) {
        snprintf(ids[v], sizeof *ids, "%u", v);
        before[v] = v > 0 ? ids[v - 1] : NULL;
        nodes[v] = support_node(&stage, ids[v], &before[v], v > 0 && v < first);
    }
    for (uint32_t j = 0; j < STAR; j++)
        ends[j] = ids[first - 1 + j];
    nodes[n - 1] = support_node(&stage, ids[n - 1], ends, STAR);
    const remat_profile_spec spec = {
        .format = "remat-profile/1", .name = "star", .nodes = nodes, .n_nodes = n};
    remat_profile *profile = NULL;
    remat_error error = {0};
    if (remat_profile_new(&spec, &profile, &error))
        fail_msg("%s: %s", error.field, error.message);
    free(nodes);
    free(ids);
    free(before);
    free(ends);
    return profile;
}

static remat_status estimate(const char *solver, const remat_profile *profile)
{
    remat_error error = {0};
    remat_estimate found;
    remat_problem problem = support_problem(solver, profile, UINT32_MAX);
    clock_t start = clock();
    remat_status status = remat_estimate_table(remat_solver_find(solver), &problem, &found, &error);
    assert_true(clock() - start < (clock_t)SECONDS * CLOCKS_PER_SEC);
    return status;
}

static void estimates_of_many_branches(void **state)
{
    (void)state;
    remat_profile *even = star(1), *uneven = star(50000);
    assert_int_equal(estimate("join", even), REMAT_OK);
    assert_int_equal(estimate("equiv-chain", even), REMAT_OK);
    assert_int_equal(estimate("equiv-chain", uneven), REMAT_TOO_LARGE);
    assert_int_equal(estimate("join", uneven), REMAT_TOO_LARGE);
    remat_profile_free(even);
    remat_profile_free(uneven);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(groups),
                                       cmocka_unit_test(estimates_of_many_branches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
