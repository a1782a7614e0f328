/* Joint graphs and pins by hand: what is wrong with a profile is named, the judge's rules, and who
 * refuses what. */
#include "unit/core_support.h"

#include "api.h"
#include "remat/answer.h"

/* JSON with ' for ". */
static json_t *parsed(const char *text)
{
    json_t *json = NULL;
    remat_error error;
    char *copy = strdup(text);
    assert_non_null(copy);
    for (char *s = copy; *s; s++)
        *s = *s == '\'' ? '"' : *s;
    if (remat_json_parse(copy, strlen(copy), &json, &error))
        fail_msg("%s: %s", copy, error.message);
    free(copy);
    return json;
}

static remat_status decode(const char *text, remat_profile **profile, remat_error *error)
{
    json_t *json = parsed(text);
    remat_status status = remat_profile_decode(json, "", profile, error);
    json_decref(json);
    return status;
}

static remat_profile *made(const char *text)
{
    remat_profile *profile = NULL;
    remat_error error;
    if (decode(text, &profile, &error))
        fail_msg("%s: %s", error.field, error.message);
    return profile;
}

#define BEGIN "{'format': 'remat-profile/1', 'graph': 'joint', 'name': 'j', 'time_unit': 'units', "

/* norm has three results; step reads two of them after mid has read the first. */
#define NORM                                                                                       \
    "{'id': 'norm', 'inputs': ['x'], 'time': 4, 'outputs': [{'bytes': 8}, {'bytes': 1}, "          \
    "{'bytes': 2}]}"
#define MID "{'id': 'mid', 'inputs': ['norm', 'norm'], 'time': 3, 'output_bytes': 16}"
#define STEP "{'id': 'step', 'inputs': ['mid', 'norm:1', 'norm:2'], 'time': 2, 'output_bytes': 4}"
#define INPUTS_X "'inputs': [{'id': 'x', 'bytes': 32}], "
#define SMALL                                                                                      \
    BEGIN INPUTS_X "'nodes': [" NORM ", " MID ", " STEP "], 'outputs': ['step', 'norm:2']}"

static void results_are_values(void **state)
{
    (void)state;
    remat_profile *p = made(SMALL);
    assert_true(p->joint);
    assert_int_equal(p->kind, REMAT_GRAPH);
    assert_int_equal(p->n_results, 2);
    assert_int_equal(p->nodes[0].n_outputs, 3);
    assert_int_equal(p->nodes[1].n_inputs, 1); /* one need */
    assert_int_equal(remat_value_bytes(p, p->nodes[2].inputs[2]), 2);
    assert_int_equal(remat_value_node(p, p->nodes[2].inputs[2]), 0);
    assert_int_equal(p->nodes[0].n_consumers, 2);
    assert_int_equal(p->n_outputs, 2);
    assert_true(remat_store_all_makespan(p) == 9);
    uint64_t peak; /* 32 + 8 + 1 + 2 + 16 while mid runs; 32 + 1 + 2 + 16 + 4 while step does */
    assert_int_equal(remat_store_all_peak(p, &peak, NULL), REMAT_OK);
    assert_int_equal(peak, 59);
    remat_profile_free(p);
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *field, *part;
    } cases[] = {
        {BEGIN "'nodes': [{'id': 'a', 'time': 1, 'output_bytes': 1}]}", "outputs",
         "outputs is empty"},
        {BEGIN "'nodes': [{'id': 'a', 'time': 1, 'output_bytes': 1}], 'outputs': ['b']}",
         "outputs[0]", "there is no node or input \"b\""},
        {BEGIN "'nodes': [{'id': 'a', 'time': 1, 'output_bytes': 1}], 'outputs': ['a:1']}",
         "outputs[0]", "there is no result 1 of node \"a\", which has 1"},
        {BEGIN "'nodes': [{'id': 'a', 'time': 1, 'output_bytes': 1}], 'outputs': ['a', 'a:0']}",
         "outputs[1]", "\"a:0\" is there twice"},
        {BEGIN INPUTS_X "'nodes': [" NORM ", " MID "], 'outputs': ['norm']}", "nodes",
         "nodes[1] \"mid\": no output depends on it"},
        {BEGIN INPUTS_X "'nodes': [" NORM ", {'id': 'a', 'inputs': ['norm:3'], 'time': 1, "
                        "'output_bytes': 1}], 'outputs': ['a']}",
         "nodes[1].inputs[0]", "there is no result 3 of node \"norm\", which has 3"},
        {BEGIN "'nodes': [{'id': 'a', 'time': 1}], 'outputs': ['a']}", "nodes[0].output_bytes",
         "is missing"},
        {BEGIN "'nodes': [{'id': 'a', 'time': 1, 'outputs': []}], 'outputs': ['a']}",
         "nodes[0].outputs", "is empty"},
        {BEGIN "'nodes': [{'id': 'a', 'time': 1, 'output_bytes': 1, 'outputs': [{'bytes': 1}]}], "
               "'outputs': ['a']}",
         "nodes[0].outputs", "stands beside output_bytes"},
        {BEGIN "'nodes': [{'id': 'a', 'time': 1, 'outputs': [{'bytes': 1}, {'bytes': -1}]}], "
               "'outputs': ['a']}",
         "nodes[0].outputs[1].bytes", "is -1"},
        {BEGIN "'nodes': [{'id': 'a', 'time': -2, 'output_bytes': 1}], 'outputs': ['a']}",
         "nodes[0].time", "is -2"},
        {BEGIN "'nodes': [{'id': 'a', 'forward_time': 1, 'output_bytes': 1}], 'outputs': ['a']}",
         "nodes[0].forward_time", "not a known field"},
        {BEGIN "'nodes': [{'id': 'a', 'time': 1, 'output_bytes': 1, 'recompute': 'no'}], "
               "'outputs': ['a']}",
         "nodes[0].recompute", "\"no\"; free and never are known"},
        {BEGIN "'nodes': [{'id': 'a', 'time': 1, 'outputs': [{'bytes': 1}, {'bytes': 1}]}, "
               "{'id': 'a:1', 'inputs': ['a'], 'time': 1, 'output_bytes': 1}], 'outputs': ['a:1']}",
         "nodes", "the id \"a:1\" is also result 1 of node \"a\""},
        {BEGIN "'nodes': [{'id': 'a', 'inputs': ['b:0'], 'time': 1, 'output_bytes': 1}, "
               "{'id': 'b', 'inputs': ['a'], 'time': 1, 'output_bytes': 1}], 'outputs': ['b']}",
         "nodes[0].inputs[0]", "cycle"},
        {"{'format': 'remat-profile/1', 'graph': 'both', 'name': 'j', 'nodes': []}", "graph",
         "\"both\"; forward and joint are known"},
        {"{'format': 'remat-profile/1', 'name': 'f', 'nodes': [{'id': 'a', 'forward_time': 1, "
         "'output_bytes': 1}], 'outputs': ['a']}",
         "outputs", "of joint graphs"},
        {"{'format': 'remat-profile/1', 'name': 'f', 'held_elsewhere': true, 'nodes': [{'id': 'a', "
         "'forward_time': 1, 'output_bytes': 1}]}",
         "held_elsewhere", "of joint graphs"},
        {"{'format': 'remat-profile/1', 'name': 'f', 'nodes': [{'id': 'a', 'time': 1, "
         "'output_bytes': 1}]}",
         "nodes[0].time", "not a known field"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        remat_profile *profile = NULL;
        remat_error error = {0};
        assert_int_equal(decode(cases[i].text, &profile, &error), REMAT_INVALID);
        if (strcmp(error.field, cases[i].field) || !strstr(error.message, cases[i].part))
            fail_msg("case %zu: %s: %s", i, error.field, error.message);
    }
}

static void identities_differ(void **state)
{
    (void)state;
    static const char *const texts[] = {
        SMALL,
        BEGIN INPUTS_X "'nodes': [" NORM ", " MID ", " STEP "], 'outputs': ['step']}",
        BEGIN INPUTS_X "'nodes': [" NORM ", {'id': 'mid', 'inputs': ['norm:1'], 'time': 3, "
                       "'output_bytes': 16}, " STEP "], 'outputs': ['step', 'norm:2']}",
        BEGIN INPUTS_X "'nodes': [" NORM ", {'id': 'mid', 'inputs': ['norm'], 'time': 3, "
                       "'output_bytes': 16, 'recompute': 'never'}, " STEP
                       "], 'outputs': ['step', 'norm:2']}",
        BEGIN INPUTS_X "'nodes': [" NORM ", {'id': 'mid', 'inputs': ['norm'], 'time': 3, "
                       "'output_bytes': 16, 'keep': true}, " STEP
                       "], 'outputs': ['step', 'norm:2']}",
        BEGIN "'held_elsewhere': true, " INPUTS_X "'nodes': [" NORM ", " MID ", " STEP
              "], 'outputs': ['step']}"};
    char ids[COUNT(texts)][REMAT_ID_SIZE];
    for (size_t i = 0; i < COUNT(texts); i++) {
        remat_profile *profile = made(texts[i]);
        remat_profile_id(profile, ids[i]);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(ids[k], ids[i]);
        remat_profile_free(profile);
    }
}

/* ---- the judge ---- */

static remat_simulation judged(const remat_profile *profile, const char *list)
{
    remat_operations operations = {0};
    remat_simulation simulation;
    remat_error error;
    json_t *json = parsed(list);
    if (remat_operations_decode(json, profile, "operations", &operations, &error))
        fail_msg("%s", error.message);
    assert_int_equal(remat_simulate(profile, &operations, NULL, NULL, NULL, &simulation, NULL),
                     REMAT_OK);
    json_t *again = remat_operations_encode(&operations, profile);
    assert_true(json_equal(json, again));
    json_decref(again);
    json_decref(json);
    remat_operations_clear(&operations);
    return simulation;
}

static void refused(const remat_profile *profile, const char *list, size_t at, const char *part)
{
    remat_simulation s = judged(profile, list);
    if (s.valid || s.bad_operation != at || !strstr(s.reason, part))
        fail_msg("%s: valid %d, operation %zu: %s", list, s.valid, s.bad_operation, s.reason);
}

static void the_judge_knows_results(void **state)
{
    (void)state;
    remat_profile *p = made(SMALL);
    remat_simulation s =
        judged(p, "[['F', 0], ['F', 1], ['D', 0], ['F', 2], ['D', 1], ['D', 'output', 0, 1]]");
    assert_true(s.valid && s.makespan == 9 && s.peak == 59);
    /* norm runs again for its further results: 32 + 16 + 8 + 1 + 2 */
    s = judged(p, "[['F', 0], ['D', 'output', 0, 2], ['D', 'output', 0, 1], ['F', 1], ['D', 0], "
                  "['F', 0], ['D', 0], ['F', 2]]");
    assert_true(s.valid && s.makespan == 13 && s.peak == 59 && s.recomputed_time == 4);
    refused(p, "[['F', 0], ['F', 0]]", 1, "in memory already");
    refused(p, "[['F', 0], ['D', 0], ['F', 0]]", 2, "in memory already");
    refused(p, "[['F', 0], ['F', 1], ['D', 'output', 0, 1], ['F', 2]]", 3,
            "the output of \"norm\", which \"step\" reads");
    refused(p, "[['F', 0], ['F', 1]]", 2, "ends without F of \"step\"");
    refused(p, "[['F', 0], ['F', 1], ['F', 2], ['D', 'output', 0, 2]]", 4,
            "ends without output 1 of the profile, of \"norm\"");
    refused(p, "[['A', 0]]", 0, "no A, B and X");
    refused(p, "[['F', 0], ['B', 0]]", 1, "no A, B and X");
    refused(p, "[['F', 0], ['X', 0]]", 1, "no A, B and X");
    remat_profile_free(p);
}

/* What must be there at the end is not overwritten. */
static void outputs_are_not_overwritten(void **state)
{
    (void)state;
    static const char *const texts[] = {
        BEGIN "'nodes': [{'id': 'a', 'time': 1, 'output_bytes': 8}, {'id': 'b', 'inputs': ['a'], "
              "'time': 1, 'output_bytes': 8, 'in_place': true}], 'outputs': ['b']}",
        BEGIN "'nodes': [{'id': 'a', 'time': 1, 'output_bytes': 8}, {'id': 'b', 'inputs': ['a'], "
              "'time': 1, 'output_bytes': 8, 'in_place': true}], 'outputs': ['a', 'b']}"};
    for (int i = 0; i < 2; i++) {
        remat_profile *p = made(texts[i]);
        remat_simulation s = judged(p, "[['F', 0], ['F', 1]]");
        assert_true(s.valid);
        assert_int_equal(s.peak, i == 0 ? 8 : 16);
        remat_profile_free(p);
    }
}

/* Of a node with several results in place each has an address, result 0 that of the input. */
static void results_are_laid_out(void **state)
{
    (void)state;
    remat_profile *p =
        made(BEGIN "'nodes': [{'id': 'a', 'time': 1, 'outputs': [{'bytes': 3}, {'bytes': 8}]}, "
                   "{'id': 'b', 'inputs': ['a:1'], 'time': 1, 'in_place': true, 'outputs': "
                   "[{'bytes': 8}, {'bytes': 0}, {'bytes': 5}]}, {'id': 'c', 'inputs': ['a', 'b', "
                   "'b:2'], 'time': 1, 'output_bytes': 1}], 'outputs': ['c']}");
    json_t *json = parsed("[['F', 0], ['F', 1], ['D', 'output', 0, 1], ['F', 2]]");
    remat_operations list = {0};
    remat_layout layout = {0};
    remat_error error;
    assert_int_equal(remat_operations_decode(json, p, "", &list, &error), REMAT_OK);
    assert_int_equal(remat_layout_new(p, &list, 1, &layout, &error), REMAT_OK);
    if (remat_layout_check(p, &list, &layout, &error))
        fail_msg("%s", error.message);
    assert_int_equal(layout.n, 5); /* a, a:1, b, b:2, c */
    assert_int_equal(layout.items[1].result, 1);
    assert_int_equal(layout.items[2].offset, layout.items[1].offset);
    assert_int_equal(layout.items[3].result, 2);
    layout.items[3].result = 1;
    assert_int_equal(remat_layout_check(p, &list, &layout, &error), REMAT_INVALID);
    assert_non_null(strstr(error.message, "wrong number of result"));
    remat_layout_clear(&layout);
    remat_operations_clear(&list);
    json_decref(json);
    remat_profile_free(p);
}

/* ---- pins ---- */

static void pinned_nodes_run_once(void **state)
{
    (void)state;
    static const char *const texts[] = {
        BEGIN "'nodes': [{'id': 'a', 'time': 1, 'output_bytes': 1, 'recompute': 'never'}, "
              "{'id': 'b', 'inputs': ['a'], 'time': 1, 'output_bytes': 1}], 'outputs': ['b']}",
        "{'format': 'remat-profile/1', 'name': 'f', 'nodes': [{'id': 'a', 'forward_time': 1, "
        "'output_bytes': 1, 'keep': true}, {'id': 'b', 'inputs': ['a'], 'forward_time': 1, "
        "'output_bytes': 1}]}"};
    for (int i = 0; i < 2; i++) {
        remat_profile *p = made(texts[i]);
        assert_int_equal(p->n_pinned, 1);
        refused(p, "[['F', 0], ['D', 0], ['F', 0]]", 2, "is pinned: it runs once");
        remat_profile_free(p);
    }
}

static void kept_values_are_not_fetched_back(void **state)
{
    (void)state;
    const remat_link link = {.to_host = 1, .to_device = 1};
    for (int keep = 0; keep < 2; keep++) {
        remat_profile *p =
            made(keep ? BEGIN "'nodes': [{'id': 'a', 'time': 1, 'output_bytes': 1, 'keep': true}, "
                              "{'id': 'b', 'inputs': ['a'], 'time': 1, 'output_bytes': 1}], "
                              "'outputs': ['b']}"
                      : BEGIN "'nodes': [{'id': 'a', 'time': 1, 'output_bytes': 1, 'recompute': "
                              "'never'}, {'id': 'b', 'inputs': ['a'], 'time': 1, 'output_bytes': "
                              "1}], 'outputs': ['b']}");
        remat_operations list = {0};
        remat_simulation s;
        static const remat_operation_kind kinds[] = {REMAT_F, REMAT_O, REMAT_D, REMAT_P};
        for (size_t i = 0; i < COUNT(kinds); i++)
            assert_int_equal(remat_push(&list, kinds[i], 0), REMAT_OK);
        assert_int_equal(remat_push(&list, REMAT_F, 1), REMAT_OK);
        assert_int_equal(remat_simulate(p, &list, &link, NULL, NULL, &s, NULL), REMAT_OK);
        assert_int_equal(s.valid, !keep);
        if (keep)
            assert_non_null(strstr(s.reason, "is pinned: it stays in memory"));
        remat_operations_clear(&list);
        remat_profile_free(p);
    }
}

static void what_others_hold_is_not_copied(void **state)
{
    (void)state;
    const remat_link link = {.to_host = 1, .to_device = 1};
    remat_profile *p =
        made(BEGIN "'held_elsewhere': true, 'inputs': [{'id': 'x', 'bytes': 1}], 'nodes': ["
                   "{'id': 'a', 'inputs': ['x'], 'time': 1, 'output_bytes': 1}, "
                   "{'id': 'b', 'inputs': ['a'], 'time': 1, 'output_bytes': 1}], "
                   "'outputs': ['b']}");
    static const struct {
        const char *list;
        bool valid;
    } cases[] = {{"[['F', 0], ['O', 0], ['F', 1]]", true},
                 {"[['F', 0], ['F', 1], ['O', 1]]", false},
                 {"[['O', 'input', 0], ['F', 0], ['F', 1]]", false}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        remat_operations list = {0};
        remat_simulation s;
        remat_error error;
        json_t *json = parsed(cases[i].list);
        assert_int_equal(remat_operations_decode(json, p, "operations", &list, &error), REMAT_OK);
        assert_int_equal(remat_simulate(p, &list, &link, NULL, NULL, &s, NULL), REMAT_OK);
        assert_int_equal(s.valid, cases[i].valid);
        if (!s.valid)
            assert_non_null(strstr(s.reason, "stays: others hold it too"));
        json_decref(json);
        remat_operations_clear(&list);
    }
    remat_profile_free(p);
}

/* Every solver but three refuses both, by name. */
static void others_refuse(void **state)
{
    (void)state;
    static const char *const texts[] = {
        SMALL, "{'format': 'remat-profile/1', 'name': 'f', 'nodes': [{'id': 'a', 'forward_time': "
               "1, 'output_bytes': 1, 'recompute': 'never'}, {'id': 'b', 'inputs': ['a'], "
               "'forward_time': 1, 'output_bytes': 1}]}"};
    static const char *const parts[] = {"does not accept joint graphs",
                                        "node \"a\" (index 0) is pinned by recompute"};
    const remat_link link = {.to_host = 1, .to_device = 1};
    size_t n;
    const remat_solver *const *solvers = remat_solvers(&n);
    for (int i = 0; i < 2; i++) {
        remat_profile *p = made(texts[i]);
        for (size_t k = 0; k < n; k++) {
            remat_problem problem = {.profile = p, .link = &link, .max_budget = 100};
            remat_error error = {0};
            problem.options = remat_options_default(solvers[k]);
            bool does = strcmp(solvers[k]->name, "interval") == 0 ||
                        strcmp(solvers[k]->name, "store-all") == 0;
            remat_status status = remat_solver_accepts(solvers[k], &problem, &error);
            assert_int_equal(status, does ? REMAT_OK : REMAT_NOT_ACCEPTED);
            if (!does && (!strstr(error.message, parts[i]) ||
                          strncmp(error.message, solvers[k]->name, strlen(solvers[k]->name))))
                fail_msg("%s: %s", solvers[k]->name, error.message);
        }
        remat_profile_free(p);
    }
}

static remat_status asked(const remat_profile *profile, const char *solver, uint64_t budget,
                          remat_schedule *schedule, remat_error *error)
{
    const remat_solver *named = solver ? remat_solver_find(solver) : NULL;
    remat_problem problem = {.profile = profile, .max_budget = budget};
    remat_portfolio portfolio = {0};
    if (named)
        problem.options = remat_options_default(named);
    remat_status status = remat_portfolio_gather(named, &problem, NULL, NULL, &portfolio, error);
    if (!status)
        status = remat_portfolio_schedule(&portfolio, &problem, budget, 0, REMAT_QUICK, NULL,
                                          schedule, error);
    remat_portfolio_release(&portfolio);
    return status;
}

/* a is dear to keep while b runs. */
#define PINNABLE(pin)                                                                              \
    BEGIN                                                                                          \
    "'nodes': [{'id': 'a', 'time': 1, 'output_bytes': 8" pin "}, {'id': 'b', 'inputs': "           \
    "['a'], 'time': 1, 'output_bytes': 1}, {'id': 'c', 'inputs': ['b'], 'time': 1, "               \
    "'output_bytes': 8}, {'id': 'd', 'inputs': ['c'], 'time': 1, 'output_bytes': 1}, {'id': "      \
    "'e', 'inputs': ['a', 'd'], 'time': 1, 'output_bytes': 1}], 'outputs': ['e']}"

static void pins_make_budgets_infeasible(void **state)
{
    (void)state;
    static const char *const texts[] = {PINNABLE(""), PINNABLE(", 'recompute': 'never'"),
                                        PINNABLE(", 'keep': true")};
    for (size_t i = 0; i < COUNT(texts); i++) {
        remat_profile *p = made(texts[i]);
        remat_schedule schedule = {0};
        remat_error error = {0};
        remat_status status = asked(p, NULL, 10, &schedule, &error);
        assert_int_equal(status, i == 0 ? REMAT_OK : REMAT_INFEASIBLE);
        if (i == 0)
            assert_true(schedule.simulation.makespan == 6 && schedule.lower_bound > 5.5);
        else if (!strstr(error.message, "1 nodes are pinned by recompute or keep, their results of "
                                        "8 bytes"))
            fail_msg("%s", error.message);
        remat_schedule_clear(&schedule);
        assert_int_equal(asked(p, NULL, 17, &schedule, &error), REMAT_OK);
        assert_true(schedule.simulation.makespan == 5);
        remat_schedule_clear(&schedule);
        remat_profile_free(p);
    }
}

/* Two branches of which one leaves little: only the order decides. */
static void order_alone_lowers_the_peak(void **state)
{
    (void)state;
    remat_profile *p =
        made(BEGIN
             "'nodes': [{'id': 'a', 'time': 1, 'output_bytes': 8}, {'id': 'b', 'time': 1, "
             "'output_bytes': 8}, {'id': 'c', 'inputs': ['a'], 'time': 1, 'output_bytes': 1}, "
             "{'id': 'd', 'inputs': ['b', 'c'], 'time': 1, 'output_bytes': 1}], 'outputs': ['d']}");
    remat_schedule schedule = {0};
    remat_error error = {0};
    assert_int_equal(asked(p, "store-all", 17, &schedule, &error), REMAT_OK);
    remat_schedule_clear(&schedule);
    assert_int_equal(asked(p, "store-all", 16, &schedule, &error), REMAT_INFEASIBLE);
    assert_int_equal(asked(p, "interval", 10, &schedule, &error), REMAT_OK);
    assert_true(schedule.simulation.makespan == 4);
    remat_schedule_clear(&schedule);
    remat_profile_free(p);
}

/* ---- size ---- */

/* 20,000 nodes with 10^6 edges: made, judged, and refused by who searches. */
static void large_graphs_answer(void **state)
{
    (void)state;
    enum { N = 20000, DEGREE = 50 };
    remat_node_spec *nodes = calloc(N, sizeof *nodes);
    char(*ids)[12] = calloc(N, sizeof *ids);
    const char **inputs = calloc((size_t)N * DEGREE, sizeof *inputs);
    assert_true(nodes && ids && inputs);
    for (uint32_t v = 0; v < N; v++) {
        snprintf(ids[v], sizeof ids[v], "n%u", v);
        nodes[v] = (remat_node_spec){.id = ids[v],
                                     .forward_time = NUMBER(1),
                                     .output_bytes = NUMBER(1),
                                     .inputs = inputs + (size_t)v * DEGREE,
                                     .n_inputs = v < DEGREE ? v : DEGREE};
        for (uint32_t i = 0; i < nodes[v].n_inputs; i++)
            inputs[(size_t)v * DEGREE + i] = ids[v - 1 - i];
    }
    const remat_profile_spec spec = {HEADER,       .graph = "joint",         .nodes = nodes,
                                     .n_nodes = N, .outputs = IDS("n19999"), .n_outputs = 1};
    remat_profile *p = make_profile(&spec);
    free(nodes);
    free(ids);
    free(inputs);
    remat_schedule schedule = {0};
    remat_error error = {0};
    assert_int_equal(asked(p, NULL, 51, &schedule, &error), REMAT_OK);
    assert_true(schedule.simulation.makespan == N);
    remat_schedule_clear(&schedule);
    assert_int_equal(asked(p, NULL, 50, &schedule, &error), REMAT_INFEASIBLE);
    assert_int_equal(asked(p, "interval", 51, &schedule, &error), REMAT_NOT_ACCEPTED);
    assert_non_null(strstr(error.message, "up to 10000 nodes, not 20000"));
    remat_profile_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_values),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(identities_differ),
        cmocka_unit_test(the_judge_knows_results),
        cmocka_unit_test(outputs_are_not_overwritten),
        cmocka_unit_test(results_are_laid_out),
        cmocka_unit_test(pinned_nodes_run_once),
        cmocka_unit_test(kept_values_are_not_fetched_back),
        cmocka_unit_test(what_others_hold_is_not_copied),
        cmocka_unit_test(others_refuse),
        cmocka_unit_test(pins_make_budgets_infeasible),
        cmocka_unit_test(order_alone_lowers_the_peak),
        cmocka_unit_test(large_graphs_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
