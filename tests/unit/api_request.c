/* Requests: amounts, links, questions, operation lists, problems. */
#include "unit/core_support.h"

#include "api.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static json_t *parsed(const char *text)
{
    json_t *json = NULL;
    remat_error error;
    char list[4096]; /* a value alone is no document for every reader: parse it in a list */
    snprintf(list, sizeof list, "[%s]", text);
    if (remat_json_parse(list, strlen(list), &json, &error))
        fail_msg("%s: %s", text, error.message);
    json_t *value = json_incref(json_array_get(json, 0));
    json_decref(json);
    return value;
}

/* ---- amounts ---- */

static void amounts_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
        bool percent;
    } good[] = {{"0", 0, false},
                {"4294967296", 4294967296.0, false},
                {"1e3", 1000, false},
                {"9007199254740991", 9007199254740991.0, false}, /* 2^53 - 1 */
                {"\"17\"", 17, false},
                {"\"17B\"", 17, false},
                {"\"4GiB\"", 4294967296.0, false}, /* 4 x 2^30 */
                {"\"1.5 GB\"", 1.5e9, false},
                {"\"1.5   gib\"", 1610612736.0, false}, /* 1.5 x 2^30 */
                {"\"2KB\"", 2000, false},
                {"\"2KiB\"", 2048, false},
                {"\"3MB\"", 3e6, false},
                {"\"3MiB\"", 3145728, false}, /* 3 x 2^20 */
                {"\"2TB\"", 2e12, false},
                {"\"2TiB\"", 2199023255552.0, false}, /* 2 x 2^40 */
                {"\"1.7B\"", 1, false},               /* whole bytes that fit */
                {"\"1.001KB\"", 1001, false},         /* though 1.001 is no double */
                {"\"4G\"", 4e9, false},
                {"\"4Gi\"", 4294967296.0, false},
                {"\"512 mi\"", 536870912.0, false}, /* 512 x 2^20 */
                {"\"8k\"", 8000, false},
                {"\"0.5\"", 50, true},
                {"\"60%\"", 60, true},
                {"\"12.5 %\"", 12.5, true},
                {"\"150%\"", 150, true}};
    for (size_t i = 0; i < COUNT(good); i++) {
        json_t *json = parsed(good[i].text);
        remat_amount amount = {0};
        remat_error error;
        if (remat_amount_decode(json, "budget", true, &amount, &error))
            fail_msg("%s: %s", good[i].text, error.message);
        if (amount.value != good[i].value || amount.percent != good[i].percent || !amount.given)
            fail_msg("%s is read as %.17g", good[i].text, amount.value);
        json_decref(json);
    }
}

static void wrong_amounts_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"-1",
                                      "0.5",
                                      "9007199254740992",
                                      "1e300",
                                      "true",
                                      "null",
                                      "[]",
                                      "\"\"",
                                      "\"GiB\"",
                                      "\"-1GB\"",
                                      "\"4 GBB\"",
                                      "\"4X\"",
                                      "\"1e3\"",
                                      "\"1.2.3GB\"",
                                      "\"1.5\"",
                                      "\" 4GB\"",
                                      "\"4GB \"",
                                      "\"0x10\"",
                                      "\"nan\"",
                                      "\"inf\"",
                                      "\"9000TiB\"",
                                      "\"%\"",
                                      "\"60%%\"",
                                      "\"60% x\"",
                                      "\"00000000000000000000000000000000000000000000001\""};
    for (size_t i = 0; i < COUNT(bad); i++) {
        json_t *json = parsed(bad[i]);
        remat_amount amount = {.value = 77};
        remat_error error;
        if (remat_amount_decode(json, "budgets[3]", true, &amount, &error) != REMAT_INVALID)
            fail_msg("%s is accepted as %.17g", bad[i], amount.value);
        assert_true(amount.value == 77);
        assert_string_equal(error.field, "budgets[3]");
        json_decref(json);
    }
    json_t *json = parsed("\"60%\"");
    remat_amount amount;
    assert_int_equal(remat_amount_decode(json, "reserved", false, &amount, NULL), REMAT_INVALID);
    json_decref(json);
    json = parsed("\"0.5\"");
    assert_int_equal(remat_amount_decode(json, "reserved", false, &amount, NULL), REMAT_INVALID);
    json_decref(json);
}

/* ---- words that were meant ---- */

static void misspelt_words_are_guessed(void **state)
{
    (void)state;
    static const char *const good[][2] = {{"roter", "rotor"},
                                          {"rotro", "rotor"},
                                          {"pof", "pofo"},
                                          {"intervall", "interval"},
                                          {"lowerset-ap", "lowerset-approx"},
                                          {"atuo", "auto"}};
    static const char *const bad[] = {"", "x", "gurobi", "rot13xyz",
                                      "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"};
    remat_error error;
    char said[40];
    for (size_t i = 0; i < COUNT(good); i++) {
        snprintf(said, sizeof said, "; did you mean %s?", good[i][1]);
        assert_int_equal(remat_fail_solver(good[i][0], &error), REMAT_INVALID);
        assert_non_null(strstr(error.message, said));
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_int_equal(remat_fail_solver(bad[i], &error), REMAT_INVALID);
        assert_non_null(strstr(error.message, "; known are auto, store-all, "));
        assert_non_null(strstr(error.message, ", lowerset-exact"));
    }
    json_t *json = parsed("{\"budgte\": 1}");
    remat_request request;
    assert_int_equal(remat_request_decode(json, REMAT_ASK_SCHEDULE, &request, &error),
                     REMAT_INVALID);
    assert_non_null(strstr(error.message, "did you mean budget?"));
    json_decref(json);
}

/* ---- links ---- */

static remat_profile *timed(const char *unit)
{
    remat_profile_spec spec = {
        HEADER, .time_unit = unit, STATES({.id = "s", .bytes = NUMBER(1)}),
        GRAPH_INPUTS({.id = "x", .bytes = NUMBER(1)}),
        NODES({.id = "a",
               .forward_time = NUMBER(1),
               .output_bytes = NUMBER(1),
               INPUTS("x"),
               WRITES("s")},
              {.id = "loss", .forward_time = NUMBER(1), .output_bytes = NUMBER(1), INPUTS("a")})};
    return make_profile(&spec);
}

static void links_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text, *unit;
        double to_host, to_device, latency;
        bool shared;
    } good[] = {
        {"{\"bytes_per_time_unit\": 2}", "units", 2, 2, 0, false},
        {"{\"bandwidth\": \"12GB/s\"}", "s", 12e9, 12e9, 0, false},
        {"{\"bandwidth\": \"12GB/s\"}", "us", 12000, 12000, 0, false}, /* 12e9 / 1e6 */
        {"{\"bandwidth\": \"2 KiB/s\"}", "ms", 2.048, 2.048, 0, false},
        {"{\"to_host\": \"1GB/s\", \"to_device\": 7, \"latency\": 3, \"shared\": true}", "ns", 1, 7,
         3, true},
    };
    for (size_t i = 0; i < COUNT(good); i++) {
        remat_profile *p = timed(good[i].unit);
        json_t *json = parsed(good[i].text);
        remat_link link = {0};
        remat_error error;
        if (remat_link_decode(json, p, &link, &error))
            fail_msg("%s: %s", good[i].text, error.message);
        assert_true(fabs(link.to_host / good[i].to_host - 1) < 1e-15); /* one rounding */
        assert_true(fabs(link.to_device / good[i].to_device - 1) < 1e-15);
        assert_true(link.latency == good[i].latency && link.shared == good[i].shared);
        json_decref(json);
        remat_profile_free(p);
    }
}

/* Two encodings of one link would be two questions. */
static void no_link_has_a_negative_zero(void **state)
{
    (void)state;
    json_t *json = parsed("{\"bytes_per_time_unit\": -0.0, \"latency\": -0.0}");
    remat_link link;
    assert_int_equal(remat_link_decode(json, NULL, &link, NULL), REMAT_OK);
    assert_false(signbit(link.to_host) || signbit(link.to_device) || signbit(link.latency));
    json_decref(json);
}

static void wrong_links_are_refused(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"{}", "link"},
        {"[]", "link"},
        {"{\"bandwidth\": \"12GB/s\", \"bytes_per_time_unit\": 2}", "link.bytes_per_time_unit"},
        {"{\"to_host\": 1}", "link.to_device"},
        {"{\"to_host\": 1, \"bandwidth\": \"12GB/s\"}", "link.to_host"},
        {"{\"bandwidth\": 12}", "link.bandwidth"},
        {"{\"bandwidth\": \"12GB\"}", "link.bandwidth"},
        {"{\"bandwidth\": \"12GB/h\"}", "link.bandwidth"},
        {"{\"bandwidth\": \"12XB/s\"}", "link.bandwidth"},
        {"{\"bandwidth\": \"/s\"}", "link.bandwidth"},
        {"{\"bandwidth\": \"12 abcdefghi/s\"}", "link.bandwidth"},
        {"{\"bytes_per_time_unit\": -1}", "link.bytes_per_time_unit"},
        {"{\"bytes_per_time_unit\": \"2\"}", "link.bytes_per_time_unit"},
        {"{\"to_host\": 1, \"to_device\": -1}", "link.to_device"},
        {"{\"bytes_per_time_unit\": 1, \"latency\": -0.5}", "link.latency"},
        {"{\"bytes_per_time_unit\": 1, \"half_duplex\": true}", "link.half_duplex"}};
    remat_profile *p = timed("us"), *units = timed("units");
    for (size_t i = 0; i < COUNT(bad); i++) {
        json_t *json = parsed(bad[i][0]);
        remat_link link = {.latency = 77};
        remat_error error = {0};
        if (remat_link_decode(json, p, &link, &error) != REMAT_INVALID)
            fail_msg("%s is accepted", bad[i][0]);
        assert_string_equal(error.field, bad[i][1]);
        assert_true(link.latency == 77);
        json_decref(json);
    }
    json_t *json = parsed("{\"bandwidth\": \"12GB/s\"}"); /* a second is how many units? */
    remat_link link;
    assert_int_equal(remat_link_decode(json, units, &link, NULL), REMAT_INVALID);
    json_decref(json);
    remat_profile_free(p);
    remat_profile_free(units);
}

/* ---- requests ---- */

static void schedule_requests_are_read(void **state)
{
    (void)state;
    json_t *json = parsed("{\"profile_id\": \"" ID "\", \"budget\": \"50%\", \"reserved\": \"1KB\","
                          "\"solver\": \"rotor\", \"options\": {\"slots\": 500}, \"wait\": 2.5}");
    remat_request r;
    assert_int_equal(remat_request_decode(json, REMAT_ASK_SCHEDULE, &r, NULL), REMAT_OK);
    assert_string_equal(r.profile_id, ID);
    assert_null(r.profile);
    assert_ptr_equal(r.solver, remat_solver_find("rotor"));
    assert_true(r.wait == 2.5 && r.budget.percent && r.reserved.value == 1000);
    assert_true(r.options.values[0] == 500);
    assert_true(r.layout.wanted && !r.layout.given);
    remat_question q;
    assert_int_equal(remat_question_resolve(&r, ID, NULL, 10001, &q, NULL), REMAT_OK);
    assert_int_equal(q.budget, 4000); /* floor(10001 / 2) - 1000 */
    assert_int_equal(q.alignment, 1); /* the whole network is smaller than 64 KiB */
    remat_question_clear(&q);
    /* 999 < 1000 */
    assert_int_equal(remat_question_resolve(&r, ID, NULL, 1998, &q, NULL), REMAT_INVALID);
    assert_int_equal(remat_question_resolve(&r, ID, NULL, 2000, &q, NULL), REMAT_OK);
    assert_int_equal(q.budget, 0);
    remat_question_clear(&q);
    assert_int_equal(remat_question_resolve(&r, ID, NULL, 65536, &q, NULL), REMAT_OK);
    assert_int_equal(q.alignment, 256);
    remat_question_clear(&q);
    json_decref(json);
    json = parsed("{\"profile\": {}, \"budget\": 5}");
    assert_int_equal(remat_request_decode(json, REMAT_ASK_SCHEDULE, &r, NULL), REMAT_OK);
    assert_ptr_equal(r.profile, json_object_get(json, "profile"));
    assert_true(!r.solver && !r.profile_id[0] && r.wait == 30);
    assert_false(r.reserved.given);
    json_decref(json);
}

static void wrong_requests_are_refused(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"{\"budget\": 5}", "profile_id"},
        {"{\"profile_id\": \"" ID "\", \"profile\": {}, \"budget\": 5}", "profile_id"},
        {"{\"profile_id\": \"abc\", \"budget\": 5}", "profile_id"},
        {"{\"profile\": {}}", "budget"},
        {"{\"profile\": {}, \"budget\": 5, \"reserved\": \"5%\"}", "reserved"},
        {"{\"profile\": {}, \"budget\": 5, \"solver\": \"magic\"}", "solver"},
        {"{\"profile\": {}, \"budget\": 5, \"options\": {\"slots\": 5}}", "options"},
        {"{\"profile\": {}, \"budget\": 5, \"solver\": \"rotor\", \"options\": {\"slot\": 5}}",
         "options.slot"},
        {"{\"profile\": {}, \"budget\": 5, \"solver\": \"rotor\", \"options\": {\"slots\": null}}",
         "options.slots"},
        {"{\"profile\": {}, \"budget\": 5, \"layout\": 256}", "layout"},
        {"{\"profile\": {}, \"budget\": 5, \"layout\": {}}", "layout.alignment"},
        {"{\"profile\": {}, \"budget\": 5, \"layout\": {\"alignment\": 24}}", "layout.alignment"},
        {"{\"profile\": {}, \"budget\": 5, \"layout\": {\"alignment\": 2097152}}",
         "layout.alignment"},
        {"{\"profile\": {}, \"budget\": 5, \"link\": 12}", "link"},
        {"{\"profile\": {}, \"budget\": 5, \"wait\": -1}", "wait"},
        {"{\"profile\": {}, \"budget\": 5, \"wait\": 1e9}", "wait"},
        {"{\"profile\": {}, \"budget\": 5, \"bugdet\": 5}", "bugdet"}};
    for (size_t i = 0; i < COUNT(bad); i++) {
        json_t *json = parsed(bad[i][0]);
        remat_request r = {.reserved = {.value = 77}};
        remat_error error = {0};
        if (remat_request_decode(json, REMAT_ASK_SCHEDULE, &r, &error) != REMAT_INVALID)
            fail_msg("%s is accepted", bad[i][0]);
        assert_string_equal(error.field, bad[i][1]);
        assert_true(r.reserved.value == 77);
        json_decref(json);
    }
}

static void tradeoff_requests_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text, *field; /* NULL: accepted */
        size_t points;
        bool given; /* budgets */
    } cases[] = {{"{\"profile\": {}}", NULL, 50, 0},
                 {"{\"profile\": {}, \"points\": 2}", NULL, 2, 0},
                 {"{\"profile\": {}, \"points\": 1000}", NULL, 1000, 0},
                 {"{\"profile\": {}, \"budgets\": [1, \"2%\", \"3KB\"]}", NULL, 3, 1},
                 {"{\"profile\": {}, \"points\": 1}", "points", 0, 0},
                 {"{\"profile\": {}, \"points\": 1001}", "points", 0, 0},
                 {"{\"profile\": {}, \"points\": 2.5}", "points", 0, 0},
                 {"{\"profile\": {}, \"points\": 5, \"budgets\": [1]}", "points", 0, 0},
                 {"{\"profile\": {}, \"budgets\": []}", "budgets", 0, 0},
                 {"{\"profile\": {}, \"budgets\": [1, -1]}", "budgets[1]", 0, 0}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        remat_request r;
        json_t *json = parsed(cases[i].text);
        remat_error error = {0};
        r.points = 77;
        remat_status status = remat_request_decode(json, REMAT_ASK_TRADEOFF, &r, &error);
        assert_int_equal(status, cases[i].field ? REMAT_INVALID : REMAT_OK);
        assert_string_equal(error.field, cases[i].field ? cases[i].field : "");
        assert_int_equal(r.points, cases[i].field ? 77 : cases[i].points);
        assert_true(cases[i].field || (r.budgets != NULL) == cases[i].given);
        json_decref(json);
    }
}

/* ---- questions ---- */

/* Its text is canonical, and a question read from it is the same. */
static void check_text(const remat_question *q)
{
    remat_question read;
    remat_error error;
    if (remat_question_read(q->text, strlen(q->text), &read, &error))
        fail_msg("%s: %s", q->text, error.message);
    assert_string_equal(read.text, q->text);
    assert_string_equal(read.id, q->id);
    json_t *json = parsed(q->text);
    char *sorted = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
    assert_string_equal(sorted, q->text);
    assert_int_equal(read.kind, q->kind);
    assert_int_equal(read.budget, q->budget);
    assert_int_equal(read.points, q->points);
    for (size_t i = 0; q->budgets && i < q->points; i++)
        assert_int_equal(read.budgets[i], q->budgets[i]);
    assert_int_equal(read.alignment, q->alignment);
    assert_string_equal(read.profile_id, ID);
    assert_ptr_equal(read.solver, q->solver);
    assert_int_equal(read.linked, q->linked);
    assert_true(!q->linked || (read.link.to_host == 2.5 && read.link.to_device == 1 / 3. &&
                               read.link.latency == 1e-5 && read.link.shared));
    for (size_t i = 0; q->solver && i < q->solver->n_options; i++)
        assert_true(read.options.values[i] == q->options.values[i]);
    remat_question_clear(&read);
    json_decref(json);
    free(sorted);
}

static void check_question(const remat_solver *solver, const remat_options *options,
                           uint32_t alignment, bool linked)
{
    uint64_t budgets[] = {0, 4096, REMAT_MAX_BYTES - 1};
    remat_question q = {.profile_id = ID,
                        .solver = solver,
                        .options = *options,
                        .budget = 4096,
                        .alignment = alignment,
                        .linked = linked,
                        .link = {2.5, 1 / 3., 1e-5, true}};
    assert_int_equal(remat_question_identify(&q, NULL), REMAT_OK);
    check_text(&q);
    free(q.text);
    q.kind = REMAT_ASK_TRADEOFF;
    q.budget = q.alignment = 0;
    q.points = 3;
    for (int given = 0; given < 2; given++) {
        q.budgets = given ? budgets : NULL;
        assert_int_equal(remat_question_identify(&q, NULL), REMAT_OK);
        check_text(&q);
        free(q.text);
    }
}

/* Ids as the service gave them, of a solver of version 0 and of version 1: what is stored stays
 * found. */
static void ids_stay(void **state)
{
    (void)state;
    static const struct {
        const char *text, *id;
    } stored[] = {{"{\"budget\":5017406822,\"layout\":{\"alignment\":256},\"options\":{\"gap\":0."
                   "01,\"slots\":0},\"profile_id\":\"" ID "\",\"solver\":\"rotor\"}",
                   "3ff3c9ef861261a5c8b829a9c560c7ba4e9bca411189feb933625db329702b04"},
                  {"{\"budget\":4038486016,\"layout\":{\"alignment\":256},\"link\":{\"latency\":0."
                   "0,\"shared\":false,\"to_device\":12000.0,\"to_host\":12000.0},\"options\":{"
                   "\"slots\":0},\"profile_id\":\"" ID "\",\"solver\":\"pofo\",\"version\":1}",
                   "363aac5eeaa00f087e53e76d1c9c03f35fdab3dcb71836e0c12485208c7a4eb7"},
                  {"{\"budget\":23,\"layout\":false,\"options\":{\"keep_gradients\":true,\"model\":"
                   "\"pebble\",\"slots\":0},\"profile_id\":\"" ID
                   "\",\"solver\":\"join\",\"version\":1}",
                   "56949f508e41dde69ef71802c119f7644c4949584af92aa3f82cba056d96247b"}};
    for (size_t i = 0; i < COUNT(stored); i++) {
        remat_question q;
        assert_int_equal(remat_question_read(stored[i].text, strlen(stored[i].text), &q, NULL),
                         REMAT_OK);
        assert_string_equal(q.text, stored[i].text);
        assert_string_equal(q.id, stored[i].id);
        remat_question_clear(&q);
    }
}

/* Percentages are of what storing everything takes; what is past 2^53 is refused. */
static void budgets_of_tradeoffs_are_resolved(void **state)
{
    (void)state;
    remat_request r;
    remat_question q = {.text = NULL};
    remat_error error;
    json_t *json = parsed("{\"profile_id\": \"" ID "\", \"budgets\": [7, \"2.5%\", \"3KB\"]}");
    assert_int_equal(remat_request_decode(json, REMAT_ASK_TRADEOFF, &r, NULL), REMAT_OK);
    assert_int_equal(remat_question_resolve(&r, ID, NULL, 999, &q, NULL), REMAT_OK);
    assert_true(q.budgets[0] == 7 && q.budgets[1] == 24 && q.budgets[2] == 3000);
    remat_question_clear(&q);
    json_decref(json);
    json = parsed("{\"profile_id\": \"" ID "\", \"budgets\": [1, \"9000000000000000%\"]}");
    assert_int_equal(remat_request_decode(json, REMAT_ASK_TRADEOFF, &r, NULL), REMAT_OK);
    assert_int_equal(remat_question_resolve(&r, ID, NULL, 1000, &q, &error), REMAT_INVALID);
    assert_string_equal(error.field, "budgets[1]");
    json_decref(json);
}

static void questions_have_one_spelling(void **state)
{
    (void)state;
    size_t n;
    const remat_solver *const *solvers = remat_solvers(&n);
    const remat_options none = {{0}};
    check_question(NULL, &none, 256, true);
    check_question(NULL, &none, 0, false);
    for (size_t i = 0; i < n; i++) {
        remat_options options = remat_options_default(solvers[i]);
        check_question(solvers[i], &options, 256, true);
        check_question(solvers[i], &options, 0, false);
        for (size_t k = 0; k < solvers[i]->n_options; k++)
            if (solvers[i]->options[k].type != REMAT_OPTION_CHOICE)
                options.values[k] = solvers[i]->options[k].maximum;
        check_question(solvers[i], &options, 256, true);
        check_question(solvers[i], &options, 0, false);
    }
}

/* ---- operations ---- */

static void operations_go_there_and_back(void **state)
{
    (void)state;
    static const char *const text =
        "[[\"F\",0],[\"A\",1],[\"B\",1],[\"D\",0],[\"X\",1],[\"D\",\"input\",0],[\"O\",0],"
        "[\"O\",\"saved\",1],[\"O\",\"input\",0],[\"P\",1],[\"P\",\"saved\",0],"
        "[\"P\",\"input\",0],[\"S\",0,1],[\"R\",0,0]]";
    remat_profile *p = timed("us");
    json_t *json = parsed(text), *back;
    remat_operations list = {0};
    assert_int_equal(remat_operations_decode(json, p, "operations", &list, NULL), REMAT_OK);
    ASSERT_OPERATIONS(&list, OP_F(0), OP_A(1), OP_B(1), OP_D(0), OP_X(1), OP_DI(0), OP_O(0),
                      OP_OX(1), OP_OI(0), OP_P(1), OP_PX(0), OP_PI(0), OP_S(0, 1), OP_R(0, 0));
    back = remat_operations_encode(&list, p);
    char *spelled = remat_json_text(back);
    assert_string_equal(spelled, text);
    free(spelled);
    json_decref(back);
    json_decref(json);
    remat_operations_clear(&list);
    json = parsed("[[\"D\",\"saved\",1],[\"D\",\"out\",0]]"); /* X 1 and D 0 in long */
    assert_int_equal(remat_operations_decode(json, p, "operations", &list, NULL), REMAT_OK);
    ASSERT_OPERATIONS(&list, OP_X(1), OP_D(0));
    json_decref(json);
    remat_operations_clear(&list);
    remat_profile_free(p);
}

/* Alternatives go by their names; the node's own implementation has none. */
static void operations_name_alternatives(void **state)
{
    (void)state;
    static const char *const text = "[[\"F\",0,\"slow\"],[\"A\",0,\"fast\"],[\"B\",0],[\"B\",1]]";
    static const char *const bad[][2] = {
        {"[[\"F\",0,\"fas\"]]", "operations[0]: node \"a\" has no alternative \"fas\""},
        {"[[\"B\",1,\"fast\"]]", "operations[0]: node \"b\" has no alternative \"fast\""},
        {"[[\"F\",0,1]]", "operations[0]: F, A and B have"},
        {"[[\"F\",0,\"fast\",1]]", "operations[0]: F, A and B have"},
        {"[[\"F\",0,\"\"]]", "operations[0]: node \"a\" has no alternative \"\""},
        {"[[\"D\",0,\"fast\"]]", "operations[0]: it must be"}};
    remat_profile_spec spec = {
        HEADER,
        NODES({.id = "a",
               .forward_time = NUMBER(1),
               .output_bytes = NUMBER(1),
               .alternatives = (const remat_alternative_spec[]){{.name = "fast"}, {.name = "slow"}},
               .n_alternatives = 2},
              {.id = "b", .forward_time = NUMBER(1), .output_bytes = NUMBER(0), INPUTS("a")})};
    remat_profile *p = make_profile(&spec);
    json_t *json = parsed(text);
    remat_operations list = {0};
    assert_int_equal(remat_operations_decode(json, p, "operations", &list, NULL), REMAT_OK);
    ASSERT_OPERATIONS(&list, {.kind = REMAT_F, .alternative = 2},
                      {.kind = REMAT_A, .alternative = 1}, OP_B(0), OP_B(1));
    json_t *back = remat_operations_encode(&list, p);
    assert_true(json_equal(back, json));
    json_decref(back);
    json_decref(json);
    remat_operations_clear(&list);
    for (size_t i = 0; i < COUNT(bad); i++) {
        remat_error error = {0};
        json = parsed(bad[i][0]);
        assert_int_equal(remat_operations_decode(json, p, "operations", &list, &error),
                         REMAT_INVALID);
        if (strncmp(error.message, bad[i][1], strlen(bad[i][1])) != 0)
            fail_msg("%s: %s", bad[i][0], error.message);
        json_decref(json);
    }
    remat_profile_free(p);
}

static void wrong_operations_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"1",
                                      "[]",
                                      "[\"F\"]",
                                      "[\"F\",2]",
                                      "[\"F\",-1]",
                                      "[\"F\",0.5]",
                                      "[\"F\",\"a\"]",
                                      "[\"F\",0,0]",
                                      "[\"G\",0]",
                                      "[\"FA\",0]",
                                      "[\"\",0]",
                                      "[0,\"F\"]",
                                      "[\"X\",2]",
                                      "[\"X\",\"saved\",1]",
                                      "[\"D\",\"grad\",0]",
                                      "[\"D\",\"input\",1]",
                                      "[\"D\",\"saved\",2]",
                                      "[\"O\",0,1]",
                                      "[\"S\",0]",
                                      "[\"S\",1,0]",
                                      "[\"R\",0,2]",
                                      "[\"R\",0,-1]",
                                      "[\"F\",4294967296]",
                                      "[\"F\",9223372036854775807]",
                                      "[\"F\",null]",
                                      "null",
                                      "\"F\""};
    remat_profile *p = timed("us");
    for (size_t i = 0; i < COUNT(bad); i++) {
        char text[128];
        snprintf(text, sizeof text, "[[\"F\",0],%s]", bad[i]);
        json_t *json = parsed(text);
        remat_operations list = {.length = 77};
        remat_error error = {0};
        if (remat_operations_decode(json, p, "operations", &list, &error) != REMAT_INVALID)
            fail_msg("%s is accepted", text);
        assert_string_equal(error.field, "operations[1]");
        assert_int_equal(list.length, 77);
        json_decref(json);
    }
    json_t *json = parsed("{}");
    remat_operations list = {0};
    assert_int_equal(remat_operations_decode(json, p, "operations", &list, NULL), REMAT_INVALID);
    json_decref(json);
    remat_profile_free(p);
}

/* A stored list of the pebble model is played before it is shown. */
static void pebbles_are_played_again(void **state)
{
    (void)state;
    static const struct {
        const char *operations;
        remat_status status;
        const char *message;
    } lists[] = {
        {"[[\"S\",0,0],[\"F\",0,0],[\"T\"],[\"B\",0,0],[\"Db\",0]]", REMAT_OK, ""},
        {"[[\"S\",0,0],[\"F\",0,0],[\"T\"],[\"B\",0,0]]", REMAT_OK, ""}, /* the gradient is kept */
        {"[[\"F\",0,0],[\"T\"],[\"B\",0,0],[\"Db\",0]]", REMAT_INFEASIBLE,
         "the schedule is not valid for \"p\": operation 2: the value that the backward reads is "
         "not there"},
        {"[[\"S\",0,0],[\"F\",0,0],[\"T\"]]", REMAT_INFEASIBLE, "the schedule is not valid for"},
        {"[[\"F\",0,0],[\"F\",0]]", REMAT_INVALID,
         "operations[1] is not an operation of the pebble model"},
        {"[[\"F\",0,-1]]", REMAT_INVALID, "operations[0] is not"},
        {"[[\"G\",0,0]]", REMAT_INVALID, "operations[0] is not"},
        {"[[]]", REMAT_INVALID, "operations[0] is not"}};
    json_t *json =
        parsed("{\"format\": \"remat-profile/1\", \"name\": \"p\", \"inputs\": [{\"id\": \"x\","
               "\"bytes\": 1, \"gradient_bytes\": 1}], \"nodes\": [{\"id\": \"a\", \"inputs\":"
               "[\"x\"], \"forward_time\": 3, \"backward_time\": 5, \"output_bytes\": 1},"
               "{\"id\": \"loss\", \"inputs\": [\"a\"], \"forward_time\": 0,"
               "\"backward_time\": 2, \"output_bytes\": 0}]}");
    remat_profile *p = NULL;
    assert_int_equal(remat_profile_decode(json, "", &p, NULL), REMAT_OK);
    json_decref(json);
    for (size_t i = 0; i < COUNT(lists); i++) {
        json_t *answer = NULL;
        remat_error error = {0};
        json =
            json_pack("{s:s, s:o}", "model", "pebble", "operations", parsed(lists[i].operations));
        remat_status status = remat_answer_timeline(json, p, &answer, &error);
        assert_int_equal(status, lists[i].status);
        assert_int_equal(strncmp(error.message, lists[i].message, strlen(lists[i].message)), 0);
        if (!status) {
            assert_true(json_number_value(json_object_get(answer, "makespan")) == 10); /* 3+5+2 */
            assert_int_equal(json_integer_value(json_object_get(answer, "peak")), 2);
            json_t *ends = parsed("[0.0, 3.0, 5.0, 10.0, 10.0]");
            if (i == 0)
                assert_true(json_equal(json_object_get(answer, "end"), ends));
            json_decref(ends);
        }
        json_decref(answer);
        json_decref(json);
    }
    remat_profile_free(p);
}

/* ---- problems ---- */

static void problems_have_a_type_and_a_status(void **state)
{
    (void)state;
    static const struct {
        remat_status status;
        int http;
        const char *type;
    } map[] = {{REMAT_INVALID, 400, "/problems/invalid-request"},
               {REMAT_NOT_ACCEPTED, 422, "/problems/solver-does-not-accept"},
               {REMAT_INFEASIBLE, 422, "/problems/infeasible-budget"},
               {REMAT_TOO_LARGE, 413, "/problems/too-large"},
               {REMAT_NOT_FOUND, 404, "/problems/not-found"},
               {REMAT_NO_MEMORY, 503, "/problems/busy"},
               {REMAT_INTERNAL, 500, "/problems/internal"},
               {REMAT_CORRUPT, 500, "/problems/storage"}};
    for (size_t i = 0; i < COUNT(map); i++) {
        remat_error error = {
            .status = map[i].status, .field = "budget", .message = "it is \"5\"", .number = 4096};
        remat_problem_type type = remat_problem_of(&error);
        json_t *json = remat_problem_encode(type, &error);
        assert_int_equal(remat_problem_status(type), map[i].http);
        assert_string_equal(json_string_value(json_object_get(json, "type")), map[i].type);
        assert_int_equal(json_integer_value(json_object_get(json, "status")), map[i].http);
        assert_true(json_string_length(json_object_get(json, "title")) > 0);
        assert_string_equal(json_string_value(json_object_get(json, "detail")), "it is \"5\"");
        assert_string_equal(json_string_value(json_object_get(json, "field")), "budget");
        bool infeasible = map[i].status == REMAT_INFEASIBLE;
        assert_int_equal(json_integer_value(json_object_get(json, "minimum_budget")),
                         infeasible ? 4096 : 0);
        json_decref(json);
    }
    json_t *bare = remat_problem_encode(REMAT_PROBLEM_BUSY, NULL);
    assert_int_equal(json_object_size(bare), 3);
    json_decref(bare);
}

static void times_are_rfc_3339(void **state)
{
    (void)state;
    char text[32];
    remat_time_text(0, text);
    assert_string_equal(text, "1970-01-01T00:00:00.000Z");
    remat_time_text(INT64_C(1767225600042), text); /* 20454 days of 86400 s after 1970 */
    assert_string_equal(text, "2026-01-01T00:00:00.042Z");
}

/* Negative ones were looked for behind the last unit. */
static void numbers_for_people(void **state)
{
    (void)state;
    char text[REMAT_TEXT_SIZE];
    assert_string_equal(remat_text_seconds(0.0123, text), "12.3 ms");
    assert_string_equal(remat_text_seconds(-0.0123, text), "-0.0123 s");
    assert_string_equal(remat_text_seconds(-INFINITY, text), "-inf s");
    assert_string_equal(remat_text_time(-2, "us", text), "-2e-06 s");
    assert_string_equal(remat_text_bytes(-5, text), "-5 B");
}

static void the_document_is_json(void **state)
{
    (void)state;
    size_t length;
    const char *text = remat_openapi(&length);
    json_t *json = NULL;
    remat_error error;
    if (remat_json_parse(text, length, &json, &error))
        fail_msg("%s", error.message);
    assert_memory_equal(json_string_value(json_object_get(json, "openapi")), "3.1", 3);
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(amounts_are_read),
        cmocka_unit_test(wrong_amounts_are_refused),
        cmocka_unit_test(misspelt_words_are_guessed),
        cmocka_unit_test(links_are_read),
        cmocka_unit_test(no_link_has_a_negative_zero),
        cmocka_unit_test(wrong_links_are_refused),
        cmocka_unit_test(schedule_requests_are_read),
        cmocka_unit_test(wrong_requests_are_refused),
        cmocka_unit_test(tradeoff_requests_are_read),
        cmocka_unit_test(questions_have_one_spelling),
        cmocka_unit_test(ids_stay),
        cmocka_unit_test(budgets_of_tradeoffs_are_resolved),
        cmocka_unit_test(operations_go_there_and_back),
        cmocka_unit_test(operations_name_alternatives),
        cmocka_unit_test(wrong_operations_are_refused),
        cmocka_unit_test(pebbles_are_played_again),
        cmocka_unit_test(problems_have_a_type_and_a_status),
        cmocka_unit_test(times_are_rfc_3339),
        cmocka_unit_test(numbers_for_people),
        cmocka_unit_test(the_document_is_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
