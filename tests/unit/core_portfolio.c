/* auto: one portfolio for server, CLI and executor. What a limit stops is left out, what is not
 * kept is counted, what is held is given back, and the executor gets the schedule that the others
 * get (server and CLI: integration/test_cli.py). */
#include "unit/core_support.h"

#include "api.h"
#include "plan/plan.h"
#include "remat/answer.h"
#include "remat_exec.h"

/* A source that refuses the solvers named in `refuses`, has none of those in `lacks`. */
typedef struct stock {
    const char *refuses, *lacks;
    int out; /* tables held now */
    int asked;
} stock;

static remat_status get(void *data, const remat_solver *solver, const remat_problem *problem,
                        const remat_host *host, remat_held_table *ret_held, remat_error *error)
{
    stock *s = data;
    remat_table *table = NULL;
    s->asked++;
    assert_true(!problem->link || solver->accepts & REMAT_NEEDS_LINK);
    if (strstr(s->refuses, solver->name))
        return remat_fail(error, REMAT_TOO_LARGE, NULL, "%s is too large", solver->name);
    if (strstr(s->lacks, solver->name))
        return REMAT_OK;
    remat_status status = remat_tabulate(solver, problem, NULL, &table, error);
    *ret_held = (remat_held_table){table, s};
    s->out += !status;
    return status;
}

static void release(void *data, remat_held_table held)
{
    stock *s = data;
    assert_ptr_equal(held.handle, s);
    s->out--;
    remat_table_free((remat_table *)held.table);
}

static remat_profile *load(const char *name)
{
    char path[512];
    json_error_t wrong;
    remat_profile *profile = NULL;
    remat_error error = {0};
    snprintf(path, sizeof path, TEST_PROFILES "/%s.json", name);
    json_t *json = json_load_file(path, 0, &wrong);
    if (remat_profile_decode(json, "", &profile, &error))
        fail_msg("%s: %s", name, error.message);
    json_decref(json);
    return profile;
}

static remat_problem half(const remat_profile *profile)
{
    uint64_t peak;
    assert_int_equal(remat_store_all_peak(profile, &peak, NULL), REMAT_OK);
    return (remat_problem){.profile = profile, .max_budget = peak * 3 / 4};
}

static void limits_are_forgiven(void **state)
{
    (void)state;
    static const struct {
        const char *refuses, *lacks;
        remat_status status;
        size_t held;
        bool missing;
    } rows[] = {
        {"", "", REMAT_OK, 15, false},
        {"rotor", "", REMAT_OK, 14, false},
        {"rotor store-all lowerset", "", REMAT_OK, 12, false},
        {"store-all chen-sqrt chen-greedy bptt-hsm bptt-ism bptt-msm butt rotor equiv-chain join "
         "chen-graph lowerset-approx lowerset interval selective",
         "", REMAT_TOO_LARGE, 0, false},
        {"", "rotor", REMAT_OK, 14, true},
        {"rotor", "store-all", REMAT_OK, 13, true}};
    remat_profile *profile = load("vgg19.chain");
    remat_problem problem = half(profile);
    for (size_t i = 0; i < COUNT(rows); i++) {
        stock s = {.refuses = rows[i].refuses, .lacks = rows[i].lacks};
        const remat_table_source source = {.data = &s, .get = get, .release = release};
        remat_portfolio p = {.n = 0};
        remat_error error = {0};
        assert_int_equal(remat_portfolio_gather(NULL, &problem, NULL, &source, &p, &error),
                         rows[i].status);
        assert_int_equal(s.asked, 15); /* auto's solvers of a chain without a link */
        assert_int_equal(p.n, rows[i].held);
        assert_int_equal(s.out, rows[i].held);
        assert_int_equal(p.missing > 0, rows[i].missing);
        if (rows[i].status)
            assert_non_null(strstr(error.message, "too large"));
        remat_portfolio_release(&p);
        assert_int_equal(s.out, 0);
    }
    remat_profile_free(profile);
}

/* A limit of memory below every estimate but the cheapest leaves those out; a named solver that
 * does not fit is refused. */
static void memory_is_forgiven(void **state)
{
    (void)state;
    remat_profile *profile = load("vgg19.chain");
    remat_problem problem = half(profile);
    const remat_solver *rotor = remat_solver_find("rotor");
    remat_estimate estimate;
    remat_portfolio p = {.n = 0};
    remat_error error = {0};
    remat_problem own = problem;
    own.options = remat_options_default(rotor);
    assert_int_equal(rotor->estimate(&own, &estimate, NULL), REMAT_OK);
    uint64_t least = estimate.least_bytes ? estimate.least_bytes : estimate.table_bytes;
    const remat_host host = {.memory_limit = least - 1};
    assert_int_equal(remat_portfolio_gather(NULL, &problem, &host, NULL, &p, &error), REMAT_OK);
    assert_true(p.n > 0);
    for (size_t i = 0; i < p.n; i++)
        assert_string_not_equal(remat_table_solver(p.tables[i])->name, "rotor");
    remat_portfolio_release(&p);
    assert_int_equal(remat_portfolio_gather(rotor, &own, &host, NULL, &p, &error), REMAT_TOO_LARGE);
    remat_profile_free(profile);
}

static void the_executor_gets_the_same(void **state)
{
    (void)state;
    static const char *const names[] = {"vgg19.chain", "unet.cpu", "resnet50.cpu"};
    for (size_t i = 0; i < COUNT(names); i++) {
        remat_profile *profile = load(names[i]);
        remat_problem problem = half(profile);
        remat_portfolio p = {.n = 0};
        remat_schedule schedule;
        remat_plan plan;
        remat_error error = {0};
        assert_int_equal(remat_portfolio_gather(NULL, &problem, NULL, NULL, &p, &error), REMAT_OK);
        assert_int_equal(remat_portfolio_schedule(&p, &problem, problem.max_budget, 256,
                                                  REMAT_QUICK, NULL, &schedule, &error),
                         REMAT_OK);
        assert_int_equal(
            remat_plan_solve(profile, NULL, problem.max_budget, NULL, 256, &plan, &error),
            REMAT_OK);
        assert_true(plan.makespan == schedule.simulation.makespan);
        assert_true(plan.peak == schedule.simulation.peak);
        assert_true(plan.layout.arena == schedule.layout.arena);
        remat_plan_clear(&plan);
        remat_schedule_clear(&schedule);
        remat_portfolio_release(&p);
        remat_profile_free(profile);
    }
}

/* What one moment proves of this network is 1.2 % below (specification bound.md); the search over
 * whole values goes on to the end. */
static void whole_values_close_the_gap(void **state)
{
    (void)state;
    remat_profile *profile = load("siamese-resnet18.chain");
    uint64_t peak;
    assert_int_equal(remat_store_all_peak(profile, &peak, NULL), REMAT_OK);
    const remat_problem problem = {.profile = profile, .max_budget = peak / 5 * 4};
    remat_portfolio p = {.n = 0};
    remat_schedule schedule;
    remat_error error = {0};
    assert_int_equal(remat_portfolio_gather(NULL, &problem, NULL, NULL, &p, &error), REMAT_OK);
    assert_int_equal(remat_portfolio_schedule(&p, &problem, problem.max_budget, 256, REMAT_QUICK,
                                              NULL, &schedule, &error),
                     REMAT_OK);
    assert_int_equal(schedule.optimality, REMAT_OPTIMAL);
    remat_schedule_clear(&schedule);
    remat_portfolio_release(&p);
    remat_profile_free(profile);
}

/* ---- refusals of large graphs ---- */

static remat_profile *llama(uint32_t layers, remat_kernels kernels)
{
    const remat_network_settings settings = {
        .batch = 4, .precision = REMAT_BFLOAT16, .layers = layers, .kernels = kernels};
    json_t *json = json_string("a100-80gb");
    remat_network_graph *graph = NULL;
    remat_profile *profile = NULL;
    remat_device device;
    remat_error error = {0};
    if (remat_device_decode(json, "device", &device, &error) ||
        remat_network_graph_new("llama3-8b", &settings, &device, &graph, &error) ||
        remat_profile_new(&graph->spec, &profile, &error))
        fail_msg("%s: %s", error.field, error.message);
    remat_network_graph_free(graph);
    json_decref(json);
    return profile;
}

/* Loops over so many chains of a search: its epochs. */
typedef struct epochs {
    bool searching;
    unsigned loops, quick, patient; /* all; of four and of eight chains */
} epochs;

static void note_search(void *data, const char *what)
{
    ((epochs *)data)->searching = strcmp(what, "improving") == 0;
}

static void count_epochs(void *data, size_t count,
                         void (*body)(void *context, size_t index, unsigned worker), void *context)
{
    epochs *e = data;
    e->loops += e->searching;
    e->quick += e->searching && count == 4;
    e->patient += e->searching && count == 8;
    for (size_t i = 0; i < count; i++)
        body(context, i, 0);
}

static remat_error refuse(const remat_profile *profile, const remat_link *link, uint64_t budget,
                          epochs *e)
{
    const remat_query query = {.problem = {.profile = profile, .link = link, .max_budget = budget},
                               .budget = budget};
    const remat_host host = {
        .data = e, .parallel_for = count_epochs, .workers = 2, .doing = note_search};
    remat_answered answered = {.portfolio = {.n = 0}};
    remat_error error = {0};
    assert_int_equal(remat_answer(&query, &host, NULL, &answered, &error), REMAT_INFEASIBLE);
    remat_answered_clear(&answered);
    return error;
}

/* Below what no schedule does without, the tables tell the least of all of them at a part of their
 * cost. */
static void a_proven_refusal_asks_few(void **state)
{
    (void)state;
    remat_profile *profile = llama(32, REMAT_EAGER);
    remat_floor floor;
    assert_int_equal(remat_find_floor(profile, &floor, NULL), REMAT_OK);
    const remat_problem problems[] = {{.profile = profile, .max_budget = floor.bytes - 1},
                                      {.profile = profile, .max_budget = floor.bytes}};
    remat_portfolio p;
    uint64_t least[2];
    for (size_t i = 0; i < COUNT(problems); i++) {
        size_t searched = 0;
        assert_int_equal(remat_portfolio_gather(NULL, &problems[i], NULL, NULL, &p, NULL),
                         REMAT_OK);
        for (size_t k = 0; k < p.n; k++)
            searched += remat_table_solver(p.tables[k]) == remat_solver_find("lowerset");
        assert_int_equal(searched, i);
        remat_best_table(p.tables, p.n, 1, &least[i]);
        remat_portfolio_release(&p);
    }
    assert_true(least[0] > floor.bytes);
    assert_true(least[0] == least[1]);
    epochs e = {0};
    assert_true(refuse(profile, NULL, floor.bytes - 1, &e).number >= least[0]);
    assert_int_equal(e.loops, 0);
    remat_profile_free(profile);
}

/* Where one operation needs more than the budget no copy to the host helps, and none is searched
 * for. */
static void a_refusal_over_a_link_asks_few(void **state)
{
    (void)state;
    remat_profile *profile = llama(32, REMAT_EAGER);
    const remat_link link = {.to_host = 20000, .to_device = 20000, .latency = 10};
    /* of the loss alone: logits, their gradient and what is saved, in four bytes each */
    const uint64_t logits = UINT64_C(4) * 4 * 8192 * 128256;
    epochs e = {0};
    const remat_error error = refuse(profile, &link, 2 * logits, &e);
    assert_true(error.proven > 2 * logits && error.number >= error.proven);
    assert_int_equal(e.loops, 0);
    remat_profile_free(profile);
}

/* Between that and what the tables have, a search from nothing that stays far above the budget
 * ends, and is not done twice. */
static void a_hopeless_search_ends(void **state)
{
    (void)state;
    remat_profile *profile = llama(80, REMAT_FUSED);
    remat_portfolio p;
    uint64_t least;
    const remat_problem problem = {.profile = profile, .max_budget = REMAT_MAX_BYTES};
    assert_int_equal(remat_portfolio_gather(NULL, &problem, NULL, NULL, &p, NULL), REMAT_OK);
    remat_best_table(p.tables, p.n, 1, &least);
    remat_portfolio_release(&p);
    epochs e = {0};
    assert_true(refuse(profile, NULL, least / 2, &e).number >= least);
    assert_int_equal(e.quick, 2);
    assert_int_equal(e.patient, 0); /* more than 1,000 nodes */
    remat_profile_free(profile);
}

/* A quick answer of selective, and what was searched for it. */
static remat_answered ask_selective(const remat_profile *profile, uint64_t budget,
                                    uint32_t in_flight, epochs *e)
{
    const remat_solver *solver = remat_solver_find("selective");
    remat_query query = {.solver = solver,
                         .problem = {.profile = profile,
                                     .max_budget = budget,
                                     .in_flight = in_flight,
                                     .options = remat_options_default(solver)},
                         .budget = budget};
    const remat_host host = {
        .data = e, .parallel_for = count_epochs, .workers = 2, .doing = note_search};
    remat_answered answered = {.portfolio = {.n = 0}};
    remat_error error = {0};
    if (remat_answer(&query, &host, NULL, &answered, &error))
        fail_msg("%s", error.message);
    return answered;
}

/* Layers that are all the same keep the same: what their cut says is near to the bound, and nothing
 * is searched. */
static void equal_layers_are_not_searched(void **state)
{
    (void)state;
    remat_profile *profile = llama(80, REMAT_EAGER);
    uint64_t all;
    assert_int_equal(remat_store_all_peak(profile, &all, NULL), REMAT_OK);
    for (unsigned tenths = 4; tenths < 9; tenths++) {
        epochs e = {0};
        remat_answered answered = ask_selective(profile, all / 10 * tenths, 1, &e);
        const remat_schedule *s = &answered.schedule;
        assert_true(s->simulation.makespan <= 1.002 * s->lower_bound);
        assert_true(s->simulation.peak <= all / 10 * tenths);
        assert_int_equal(e.loops, 0);
        remat_answered_clear(&answered);
    }
    remat_profile_free(profile);
}

/* With many in flight groups of layers run again twice; from there two chains end soon. */
static void groups_run_again_twice(void **state)
{
    (void)state;
    enum { IN_FLIGHT = 8 };
    remat_profile *profile = llama(20, REMAT_EAGER);
    const remat_solver *solver = remat_solver_find("selective");
    remat_problem problem = {.profile = profile, .max_budget = REMAT_MAX_BYTES};
    remat_table *table, *several;
    size_t n;
    problem.options = remat_options_default(solver);
    assert_int_equal(remat_tabulate(solver, &problem, NULL, &table, NULL), REMAT_OK);
    assert_int_equal(remat_table_in_flight(table, IN_FLIGHT, &several, NULL), REMAT_OK);
    const remat_point *points = remat_table_frontier(several, &n);
    const uint64_t budget = points[0].peak + points[0].peak / 10;
    const double slowest = points[remat_table_point(several, budget)].makespan;
    epochs e = {0};
    remat_answered answered = ask_selective(profile, budget, IN_FLIGHT, &e);
    assert_true(answered.schedule.simulation.makespan < 0.9 * slowest);
    assert_true(answered.schedule.simulation.peak <= budget);
    assert_int_equal(e.quick, 0);
    assert_int_equal(e.patient, 0);
    assert_in_range(e.loops, 1, 3);
    remat_answered_clear(&answered);
    remat_table_free(several);
    remat_table_free(table);
    remat_profile_free(profile);
}

/* What was found for other budgets changes no bound, and a yes without the table is the table's. */
static void what_is_kept_says_the_same(void **state)
{
    (void)state;
    remat_profile *profile = llama(12, REMAT_EAGER);
    const remat_solver *solver = remat_solver_find("selective");
    remat_problem problem = {.profile = profile, .max_budget = REMAT_MAX_BYTES, .in_flight = 1};
    remat_moments *kept = NULL;
    remat_table *table, *several;
    uint64_t all;
    problem.options = remat_options_default(solver);
    assert_int_equal(remat_store_all_peak(profile, &all, NULL), REMAT_OK);
    assert_int_equal(remat_tabulate(solver, &problem, NULL, &table, NULL), REMAT_OK);
    assert_int_equal(remat_table_in_flight(table, 4, &several, NULL), REMAT_OK);
    unsigned yes = 0;
    for (unsigned i = 0; i < 40; i++) {
        const uint64_t budget = all / 40 * (i * 17 % 40 + 1);
        double fresh, old;
        bool reaches;
        assert_int_equal(remat_least_makespan(profile, NULL, budget, 1 + i % 4, &fresh, NULL),
                         REMAT_OK);
        assert_int_equal(remat_least_makespan(profile, &kept, budget, 1 + i % 4, &old, NULL),
                         REMAT_OK);
        assert_true(fresh == old || fabs(fresh - old) <= 1e-6 * fresh);
        problem.in_flight = i % 2 ? 4 : 1;
        assert_int_equal(remat_reaches(solver, &problem, budget, NULL, &reaches, NULL), REMAT_OK);
        assert_int_equal(reaches, remat_table_point(i % 2 ? several : table, budget) >= 0);
        yes += reaches;
    }
    assert_in_range(yes, 1, 39);
    remat_moments_free(kept);
    remat_table_free(several);
    remat_table_free(table);
    remat_profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_forgiven),
        cmocka_unit_test(memory_is_forgiven),
        cmocka_unit_test(the_executor_gets_the_same),
        cmocka_unit_test(whole_values_close_the_gap),
        cmocka_unit_test(a_proven_refusal_asks_few),
        cmocka_unit_test(a_refusal_over_a_link_asks_few),
        cmocka_unit_test(a_hopeless_search_ends),
        cmocka_unit_test(equal_layers_are_not_searched),
        cmocka_unit_test(groups_run_again_twice),
        cmocka_unit_test(what_is_kept_says_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
