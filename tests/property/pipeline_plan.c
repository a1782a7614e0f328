/* Plans of random pipelines against every choice of cuts and lists, each played by the judge. */
#include "unit/core_support.h"

#include "remat/pipeline.h"

#include "property/core_random.h"

enum { PIPELINES = 500, UNITS = 6, LISTS = 3, RANKS = 4 };

typedef struct example {
    remat_pipeline_question q;
    double least[UNITS];
    bool beside;      /* ranks take time beside their passes */
    uint32_t weights; /* bytes of a unit that are there whatever it runs */
    uint32_t asked;   /* for lists */
    remat_stage_list lists[UNITS][UNITS + 1][LISTS];
    remat_stage_menu menus[UNITS][UNITS + 1];
    double best;    /* of all; INFINITY: none fits */
    uint64_t needs; /* the least memory with which any fits */
} example;

static remat_status menu(void *data, uint32_t first, uint32_t end, remat_stage_menu *ret_menu,
                         remat_error *error)
{
    (void)error;
    example *e = data;
    assert_true(first < end && end <= e->q.n_units);
    e->asked++;
    *ret_menu = e->menus[first][end];
    return REMAT_OK;
}

static remat_status bytes(void *data, uint32_t first, uint32_t end, remat_stage_menu *ret_menu,
                          remat_error *error)
{
    (void)error;
    const example *e = data;
    assert_true(first < end && end <= e->q.n_units);
    *ret_menu = e->menus[first][end];
    ret_menu->lists = NULL;
    ret_menu->n_lists = 0;
    return REMAT_OK;
}

/* Lists of a stage: the more is made again the less is held. */
static void make_menu(dice *d, example *e, uint32_t first, uint32_t end)
{
    remat_stage_menu *x = &e->menus[first][end];
    double forward = 0, backward = 0;
    for (uint32_t u = first; u < end; u++) {
        forward += floor(e->least[u] / 3);
        backward += e->least[u] - floor(e->least[u] / 3);
    }
    *x = (remat_stage_menu){.fixed = e->weights * (end - first),
                            .input = first + 1,
                            .output = end + 1,
                            .beside = e->beside ? below(d, 40) * (end - first) : 0.0,
                            .lists = e->lists[first][end],
                            .n_lists = 1 + below(d, LISTS)};
    for (uint32_t i = 0; i < x->n_lists; i++) {
        const uint64_t held = 8 + (end - first) * (10 - 3 * i) + below(d, 4);
        e->lists[first][end][i] =
            (remat_stage_list){forward, backward + floor(i * forward * 0.4) + (i && chance(d, 50)),
                               held,    held + 4 + below(d, 12),
                               i,       0};
    }
}

static void make_example(dice *d, example *e)
{
    memset(e, 0, sizeof *e);
    e->q.n_units = 1 + below(d, UNITS);
    e->q.pipeline = (remat_pipeline){
        .order = chance(d, 70) ? REMAT_1F1B : REMAT_GPIPE,
        .ranks = 1 + below(d, e->q.n_units < RANKS ? e->q.n_units : RANKS),
        .microbatches = 1 + below(d, 6),
        .chunks = 1,
        .latency = chance(d, 50) ? 0.1 * below(d, 20) : 0.0,
        .bandwidth = chance(d, 50) ? 0.125 * (1 + below(d, 16)) : (double)INFINITY,
        .runtime = {.keeps_outputs = chance(d, 50), .all_inputs = chance(d, 50), .ahead = 1}};
    e->beside = chance(d, 50);
    e->weights = chance(d, 70) ? 3 : 3 + below(d, 200);
    e->q.memory = 40 + below(d, 200);
    e->q.least = e->least;
    for (uint32_t u = 0; u < e->q.n_units; u++)
        e->least[u] = 3 + below(d, 30);
    for (uint32_t first = 0; first < e->q.n_units; first++)
        for (uint32_t end = first + 1; end <= e->q.n_units; end++)
            make_menu(d, e, first, end);
    e->best = INFINITY;
    e->needs = UINT64_MAX;
}

static remat_pipeline_stage stage_of(const example *e, uint32_t first, uint32_t end, uint32_t i)
{
    const remat_stage_menu *x = &e->menus[first][end];
    return remat_stage_of(x, &x->lists[i]);
}

/* beside: the most of the ranks before. */
static void judge_all(example *e, remat_pipeline_stage *stages, uint32_t rank, uint32_t first,
                      double beside)
{
    const uint32_t ranks = e->q.pipeline.ranks;
    if (rank == ranks) {
        remat_pipeline_play *play = NULL;
        remat_error error = {0};
        uint64_t needs = 0;
        if (first != e->q.n_units)
            return;
        if (remat_pipeline_judge(&e->q.pipeline, stages, &play, &error))
            fail_msg("%s: %s", error.field, error.message);
        for (uint32_t r = 0; r < ranks; r++)
            needs = play->ranks[r].peak > needs ? play->ranks[r].peak : needs;
        e->needs = needs < e->needs ? needs : e->needs;
        if (needs <= e->q.memory)
            e->best = fmin(e->best, play->step + beside);
        remat_pipeline_play_free(play);
        return;
    }
    for (uint32_t end = first + 1; end <= e->q.n_units; end++)
        for (uint32_t i = 0; i < e->menus[first][end].n_lists; i++) {
            stages[rank] = stage_of(e, first, end, i);
            judge_all(e, stages, rank + 1, end, fmax(beside, e->menus[first][end].beside));
        }
}

static void judge_plan(const example *e, const remat_pipeline_plan *plan)
{
    remat_pipeline_play *play = NULL;
    remat_error error = {0};
    remat_pipeline_stage stages[RANKS];
    double beside = 0;
    for (uint32_t r = 0; r < e->q.pipeline.ranks; r++) {
        const remat_planned_stage *x = &plan->stages[r];
        beside = fmax(beside, e->menus[x->first][x->end].beside);
        assert_int_equal(x->first, r > 0 ? plan->stages[r - 1].end : 0);
        stages[r] = stage_of(e, x->first, x->end, (uint32_t)x->list.tag);
        assert_memory_equal(&stages[r], &x->stage, sizeof *stages);
    }
    assert_int_equal(remat_pipeline_judge(&e->q.pipeline, stages, &play, &error), REMAT_OK);
    assert_true(play->step == plan->step && plan->whole == plan->step + beside);
    for (uint32_t r = 0; r < e->q.pipeline.ranks; r++) {
        assert_true(play->ranks[r].peak <= e->q.memory);
        assert_int_equal(play->ranks[r].in_flight, plan->stages[r].in_flight);
    }
    remat_pipeline_play_free(play);
}

/* Who is asked what none of the lists is below. */
typedef struct asking {
    const example *e;
    bool promises; /* says what would be if all fitted; else that it may be nothing */
    uint32_t asked;
} asking;

static remat_status least_of(void *data, uint32_t rank, uint32_t in_flight, uint32_t first,
                             uint32_t end, remat_stage_least *ret, remat_error *error)
{
    (void)rank, (void)error;
    asking *a = data;
    const remat_stage_menu *x = &a->e->menus[first][end];
    *ret = (remat_stage_least){.beside = x->beside};
    a->asked += in_flight > 0;
    if (in_flight == 0 && !a->promises)
        return REMAT_OK;
    *ret = (remat_stage_least){INFINITY, INFINITY, INFINITY, x->input, x->output, x->beside};
    for (size_t i = 0; i < x->n_lists; i++) {
        const remat_stage_list *list = &x->lists[i];
        ret->forward = fmin(ret->forward, list->forward);
        ret->backward = fmin(ret->backward, list->backward);
        if (in_flight == 0 ||
            x->fixed + list->peak + (in_flight - 1) * list->held <= a->e->q.memory)
            ret->total = fmin(ret->total, list->forward + list->backward);
    }
    return REMAT_OK;
}

static double bound_of(asking *a)
{
    double bound = 0;
    remat_error error;
    const remat_least_host host = {a, least_of};
    if (remat_pipeline_bound(&a->e->q, &host, &bound, &error))
        fail_msg("%s", error.message);
    return bound;
}

/* How far the bound is below, on the average; it is never above. With what would be if all fitted
 * less is asked, and it is the same. */
static double bound_below(const example *e, uint32_t *asked, uint32_t *spared)
{
    asking all = {.e = e}, some = {.e = e, .promises = true};
    const double bound = bound_of(&some), without = bound_of(&all);
    if (!(bound > 0 && bound <= e->best))
        fail_msg("the bound is %.17g, the best %.17g", bound, e->best);
    assert_true(fabs(bound - without) <= 1e-12 * bound);
    assert_true(some.asked <= all.asked);
    *asked += some.asked;
    *spared += all.asked - some.asked;
    return e->best / bound - 1;
}

/* Asked for lists where they may matter alone, the planner has the same plans and refusals. */
static void with_bytes_less_is_asked(example *e, remat_status status,
                                     const remat_pipeline_plan *plan, uint64_t number,
                                     uint32_t *ret_asked)
{
    remat_pipeline_plan same = {0};
    remat_error error = {0};
    const uint32_t asked = e->asked;
    const remat_stage_host host = {.data = e, .menu = menu, .bytes = bytes};
    e->asked = 0;
    assert_int_equal(remat_pipeline_plan_make(&e->q, &host, &same, &error), status);
    assert_true(e->asked <= asked);
    *ret_asked += e->asked;
    if (status) {
        assert_int_equal(error.number, number);
        return;
    }
    assert_true(same.step == plan->step && same.whole == plan->whole && same.bound >= plan->bound &&
                same.bound <= e->best);
    for (uint32_t r = 0; r < e->q.pipeline.ranks; r++)
        assert_memory_equal(&same.stages[r], &plan->stages[r], sizeof same.stages[r]);
}

static void plans_are_the_best_there_are(void **state)
{
    (void)state;
    dice d = {36};
    uint32_t fit = 0, asked = 0, spared = 0, with = 0, without = 0;
    double below = 0;
    for (uint32_t k = 0; k < PIPELINES; k++) {
        example e;
        remat_pipeline_stage stages[RANKS];
        remat_pipeline_plan plan;
        remat_error error = {0};
        make_example(&d, &e);
        judge_all(&e, stages, 0, 0, 0);
        const remat_stage_host host = {.data = &e, .menu = menu};
        const remat_status status = remat_pipeline_plan_make(&e.q, &host, &plan, &error);
        if (status != (e.best < INFINITY ? REMAT_OK : REMAT_INFEASIBLE))
            fail_msg("%u: %s, the best is %g", k, error.message, e.best);
        without += e.asked;
        with_bytes_less_is_asked(&e, status, &plan, error.number, &with);
        if (status) {
            assert_true(error.number > 0 && error.number <= e.needs);
            continue;
        }
        fit++;
        below += bound_below(&e, &asked, &spared);
        judge_plan(&e, &plan);
        if (!(plan.bound <= e.best && plan.whole <= e.best * 1.01 && plan.all_cuts))
            fail_msg("%u: %.17g, the best is %.17g, bound %.17g", k, plan.whole, e.best,
                     plan.bound);
    }
    print_message("# bounds of every list are %.2f %% below on the average\n", 100 * below / fit);
    print_message("# %u menus, %u where bytes are known\n", without, with);
    assert_true(below / fit < 0.06 && spared > asked / 2 && with < without);
    assert_in_range(fit, PIPELINES / 3, PIPELINES - PIPELINES / 20);
}

/* The least of the longest time of a stage, of at most `ranks` from a unit on. */
static double best_steady(const example *e, uint32_t ranks, uint32_t first)
{
    double best = INFINITY;
    if (first == e->q.n_units)
        return 0;
    for (uint32_t k = 1; k <= ranks; k++)
        for (uint32_t end = first + 1; end <= e->q.n_units; end++)
            for (uint32_t i = 0; i < e->menus[first][end].n_lists; i++) {
                const remat_pipeline_stage s = stage_of(e, first, end, i);
                const uint32_t m = e->q.pipeline.microbatches;
                const uint32_t n = e->q.pipeline.order == REMAT_GPIPE || k > m ? m : k;
                /* exactly k - 1 behind it: n of them are alive */
                const double behind = k > 1                 ? best_steady(e, k - 1, end)
                                      : end == e->q.n_units ? 0
                                                            : INFINITY;
                if (s.fixed + s.peak - s.held + n * s.held <= e->q.memory)
                    best = fmin(best, fmax(s.forward + s.backward, behind));
            }
    return best;
}

static void steady_plans_are_the_best_there_are(void **state)
{
    (void)state;
    dice d = {67};
    uint32_t fit = 0, fewer = 0;
    for (uint32_t k = 0; k < PIPELINES; k++) {
        example e;
        remat_pipeline_plan plan;
        remat_error error;
        uint32_t ranks = 0;
        make_example(&d, &e);
        const double best = best_steady(&e, e.q.pipeline.ranks, 0);
        const remat_stage_host host = {.data = &e, .menu = menu};
        const remat_status status = remat_pipeline_plan_steady(&e.q, &host, &ranks, &plan, &error);
        assert_int_equal(status, best < INFINITY ? REMAT_OK : REMAT_INFEASIBLE);
        if (status)
            continue;
        double longest = 0;
        for (uint32_t r = 0; r < ranks; r++) {
            const remat_planned_stage *x = &plan.stages[r];
            const remat_pipeline_stage s = stage_of(&e, x->first, x->end, (uint32_t)x->list.tag);
            assert_memory_equal(&s, &x->stage, sizeof s);
            assert_int_equal(x->first, r > 0 ? plan.stages[r - 1].end : 0);
            assert_true(s.fixed + s.peak - s.held + x->in_flight * s.held <= e.q.memory);
            longest = fmax(longest, s.forward + s.backward);
        }
        assert_int_equal(plan.stages[ranks - 1].end, e.q.n_units);
        assert_true(plan.step == best && plan.bound == best && longest == best);
        fit++;
        fewer += ranks < e.q.pipeline.ranks;
    }
    assert_true(fit > PIPELINES / 3 && fewer > PIPELINES / 50);
}

static void what_cannot_be_planned_is_refused(void **state)
{
    (void)state;
    dice d = {1};
    example e;
    remat_error error;
    remat_pipeline_plan plan;
    make_example(&d, &e);
    const remat_stage_host host = {.data = &e, .menu = menu};
    e.q.pipeline.ranks = e.q.n_units + 1;
    assert_int_equal(remat_pipeline_plan_make(&e.q, &host, &plan, &error), REMAT_INVALID);
    assert_string_equal(error.field, "ranks");
    e.q.pipeline.ranks = 1;
    e.q.pipeline.order = REMAT_INTERLEAVED;
    assert_int_equal(remat_pipeline_plan_make(&e.q, &host, &plan, &error), REMAT_INVALID);
    assert_string_equal(error.field, "schedule");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(plans_are_the_best_there_are),
                                       cmocka_unit_test(steady_plans_are_the_best_there_are),
                                       cmocka_unit_test(what_cannot_be_planned_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
