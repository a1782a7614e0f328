/* auto with a link against exhaustive search: random forward graphs of up to 7 nodes at random
 * budgets. No bound is above an optimum, and of a hundred answers two at most are not optimal.
 * REMAT_GRAPHS says how many graphs, REMAT_FIRST from which one on (the first); else it is some
 * that older versions were wrong about. */
#include "property/exhaustive_link.h"

#include "remat/answer.h"

#include <math.h>

enum { LABELS = 40000 };

/* Usually asked: all nodes of 15 take no time; in 276 a copy is waited for that pays; of 410 a
 * graph input that is read no more has to leave, and that takes a hundred times as long as the
 * step; in 881 what is saved goes over the link while its output is made again; in 271 quick seeds
 * end 3 % above the optimum, patient ones in it; in 11401 an A whose saved bytes are freed at once
 * takes less than an F. */
static const uint32_t known[] = {15,  135, 136, 137, 138, 139, 140, 141,
                                 142, 143, 144, 271, 276, 410, 881, 11401};
enum { KNOWN = sizeof known / sizeof *known };

typedef struct tally {
    uint32_t asked, solved, optimal, far, refused, wrongly, orders;
} tally;

static bool answer(const remat_profile *profile, const remat_link *link, uint64_t budget,
                   double *ret_makespan, double *ret_bound, uint64_t *ret_enough)
{
    remat_error error = {0};
    const remat_query query = {.problem = {.profile = profile, .link = link, .max_budget = budget},
                               .budget = budget};
    remat_answered a = {.portfolio = {.n = 0}};
    const remat_status status = remat_answer(&query, NULL, NULL, &a, &error);
    if (status && status != REMAT_INFEASIBLE)
        fail_msg("%s: %s", remat_status_text(status), error.message);
    *ret_makespan = status ? INFINITY : a.schedule.simulation.makespan;
    *ret_bound = status ? 0 : a.schedule.lower_bound;
    *ret_enough = error.number;
    remat_answered_clear(&a);
    return !status;
}

static void check(dice *d, const remat_profile *profile, tally *t, uint32_t k)
{
    uint64_t peak, low;
    double makespan, bound;
    const remat_link link = random_link(d);
    assert_int_equal(remat_store_all_peak(profile, &peak, NULL), REMAT_OK);
    if (answer(profile, &link, 0, &makespan, &bound, &low))
        return;
    /* below the least that auto names now and then */
    const uint64_t budget = low - low / 10 + below(d, (uint32_t)(peak - low + low / 10 + 1));
    const bool any_order = chance(d, 10);
    const bool found = answer(profile, &link, budget, &makespan, &bound, &low);
    t->asked++;
    const double enough = found ? makespan * (1 - 1e-6) : INFINITY;
    const double least = least_over_link(profile, &link, budget, true, enough, LABELS);
    if (least == LINK_NONE)
        return;
    t->solved++;
    if (!found) {
        t->refused++;
        t->wrongly += least < enough;
        if (least < enough && getenv("REMAT_TELL"))
            fprintf(stderr, "graph %u: refused, %g exists\n", k, least);
        return;
    }
    t->optimal += least == enough;
    t->far += least < makespan / 1.02;
    if (least < enough && getenv("REMAT_TELL"))
        fprintf(stderr, "graph %u: %u nodes, budget %llu of %llu: %g, optimal %g (%.2f %%)\n", k,
                profile->n_nodes, (unsigned long long)budget, (unsigned long long)peak, makespan,
                least, 100 * (makespan / least - 1));
    if (least < bound * (1 - 1e-6))
        fail_msg("graph %u: the bound %.17g is above %.17g", k, bound, least);
    if (any_order && profile->n_nodes < 6) {
        const double any = least_over_link(profile, &link, budget, false, enough, LABELS);
        t->orders += any != LINK_NONE;
        if (any != LINK_NONE && any < bound * (1 - 1e-6))
            fail_msg("graph %u: the bound %.17g is above %.17g", k, bound, any);
    }
}

static void forward_profiles(void **state)
{
    (void)state;
    tally t = {0};
    const char *asked = getenv("REMAT_GRAPHS"), *from = getenv("REMAT_FIRST");
    const uint32_t first = from ? (uint32_t)atoi(from) : 0;
    const uint32_t n = asked ? (uint32_t)atoi(asked) : KNOWN;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t k = asked ? first + i : known[i];
        dice d = {20261126 + UINT64_C(1000003) * k};
        const shape s = {.most_nodes = MOST_NODES, .chain = k % 4 == 0, .apart = true};
        remat_profile *profile = random_profile(&d, &s);
        check(&d, profile, &t, k);
        remat_profile_free(profile);
    }
    print_message(
        "# %u asked, %u solved: %u optimal, %u more than 2 %% off, %u refused of which %u "
        "wrongly; %u in any order\n",
        t.asked, t.solved, t.optimal, t.far, t.refused, t.wrongly, t.orders);
    assert_true(t.solved >= n * 8 / 10);
    assert_int_equal(t.wrongly, 0);
    assert_true(t.optimal + t.refused >= t.solved * 98 / 100);
    assert_true(t.far <= t.solved / 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(forward_profiles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
