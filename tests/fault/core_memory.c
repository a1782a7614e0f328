/* The nth allocation fails, for every n (the linker sends malloc, calloc and realloc of the library
 * here, and jansson is told to come here too): the call says REMAT_NO_MEMORY, its outputs are
 * untouched, nothing leaks (AddressSanitizer looks), and the next try succeeds. */
#include "unit/core_support.h"

#include "api.h"
#include "fault/failing_malloc.h"
#include "remat/layout.h"

static void *json_malloc(size_t size)
{
    return malloc(size); /* wrapped */
}

/* ---- what the calls work on, made while nothing fails ---- */

static const char document[] =
    "{\"format\": \"remat-profile/1\", \"name\": \"n\", \"inputs\": [{\"id\": \"x\", \"bytes\": "
    "4}],"
    "\"states\": [{\"id\": \"rng\", \"bytes\": 16}], \"nodes\": ["
    "{\"id\": \"a\", \"inputs\": [\"x\"], \"forward_time\": 1, \"output_bytes\": 40,"
    " \"reads\": [\"rng\"], \"writes\": [\"rng\"],"
    " \"alternatives\": [{\"name\": \"fast\", \"forward_time\": 0.5}]},"
    "{\"id\": \"b\", \"inputs\": [\"a\"], \"forward_time\": 2, \"output_bytes\": 60},"
    "{\"id\": \"c\", \"inputs\": [\"b\"], \"forward_time\": 3, \"output_bytes\": 50},"
    "{\"id\": \"loss\", \"inputs\": [\"c\"], \"forward_time\": 1, \"output_bytes\": 0}]}";

static json_t *json;
static remat_profile *profile;
static remat_profile_spec spec, out_of_order;
static const remat_solver *solver;
static remat_problem problem;
static remat_table *table;
static remat_buffer saved;
static remat_operations recomputing, with_states; /* the second one is valid: it has S and R */

static void make_specs(void)
{
    static const char *const to_a[] = {"a"}, *const to_b[] = {"b"};
    static remat_node_spec nodes[3], turned[2];
    nodes[0] = (remat_node_spec){.id = "a", .forward_time = NUMBER(1), .output_bytes = NUMBER(1)};
    nodes[1] = (remat_node_spec){.id = "b",
                                 .op = "add",
                                 .inputs = to_a,
                                 .n_inputs = 1,
                                 .forward_time = NUMBER(1),
                                 .output_bytes = NUMBER(1)};
    turned[0] = nodes[1];
    turned[1] = nodes[0];
    nodes[2] = nodes[1];
    nodes[2].id = "loss";
    nodes[2].inputs = to_b;
    spec = (remat_profile_spec){HEADER, .nodes = nodes, .n_nodes = 3};
    out_of_order = (remat_profile_spec){HEADER, .nodes = turned, .n_nodes = 2};
}

static int set_up(void **state)
{
    (void)state;
    remat_error error;
    json_set_alloc_funcs(json_malloc, free);
    json_object_seed(1);
    make_specs();
    solver = remat_solver_find("rotor");
    if (remat_json_parse(document, strlen(document), &json, &error) ||
        remat_profile_decode(json, "", &profile, &error))
        return -1;
    problem = (remat_problem){
        .profile = profile, .options = remat_options_default(solver), .max_budget = 400};
    static const remat_operation list[] = {OP_F(0), OP_F(1), OP_F(2), OP_F(3), OP_B(3),
                                           OP_D(2), OP_D(1), OP_D(0), OP_F(0), OP_F(1),
                                           OP_F(2), OP_B(2), OP_B(1), OP_B(0)};
    for (size_t i = 0; i < COUNT(list); i++)
        if (remat_operations_push(&recomputing, list[i]))
            return -1;
    return remat_insert_states(profile, &recomputing, &with_states, &error) ||
           remat_tabulate(solver, &problem, NULL, &table, &error) ||
           remat_table_save(table, &saved, &error);
}

static int tear_down(void **state)
{
    (void)state;
    json_decref(json);
    remat_profile_free(profile);
    remat_table_free(table);
    remat_buffer_clear(&saved);
    remat_operations_clear(&recomputing);
    remat_operations_clear(&with_states);
    return 0;
}

/* ---- one call each: its status; on failure its outputs must be as they were ---- */

static char untouched; /* its address stands in every output pointer */

static remat_status new_profile(remat_error *error)
{
    remat_profile *made = (remat_profile *)&untouched;
    remat_status status = remat_profile_new(&spec, &made, error);
    if (status)
        assert_ptr_equal(made, &untouched);
    else
        remat_profile_free(made);
    return status;
}

static remat_status cut(remat_error *error)
{
    remat_profile *made = (remat_profile *)&untouched;
    remat_status status = remat_profile_cut(profile, 0, 2, &made, error);
    if (status)
        assert_ptr_equal(made, &untouched);
    else
        remat_profile_free(made);
    return status;
}

/* A wrong specification: with the memory to say why it is wrong, or without. */
static remat_status new_wrong_profile(remat_error *error)
{
    remat_profile *made = (remat_profile *)&untouched;
    remat_status status = remat_profile_new(&out_of_order, &made, error);
    assert_ptr_equal(made, &untouched);
    return status == REMAT_INVALID ? REMAT_OK : status;
}

static void assert_empty(const remat_operations *list)
{
    assert_null(list->items);
    assert_true(list->length == 0 && list->capacity == 0);
}

static remat_status liveness(remat_error *error)
{
    remat_operations live = {0};
    remat_status status = remat_liveness(profile, &recomputing, &live, error);
    if (status)
        assert_empty(&live);
    remat_operations_clear(&live);
    return status;
}

static remat_status states(remat_error *error)
{
    remat_operations whole = {0};
    remat_status status = remat_insert_states(profile, &recomputing, &whole, error);
    if (status)
        assert_empty(&whole);
    else
        assert_true(whole.length > recomputing.length);
    remat_operations_clear(&whole);
    return status;
}

static remat_status simulate(remat_error *error)
{
    remat_simulation simulation = {.makespan = 77};
    remat_status status =
        remat_simulate(profile, &recomputing, NULL, NULL, NULL, &simulation, error);
    if (status)
        assert_true(simulation.makespan == 77);
    return status;
}

static remat_status layout(remat_error *error)
{
    remat_layout made = {.arena = 77};
    remat_status status = remat_layout_new(profile, &with_states, 256, &made, error);
    if (status)
        assert_true(made.arena == 77 && !made.items);
    else
        remat_layout_clear(&made);
    return status;
}

static remat_layout answer_layout;

static remat_status check_layout(remat_error *error)
{
    return remat_layout_check(profile, &with_states, &answer_layout, error);
}

static remat_status tabulate_with(const char *name, remat_error *error)
{
    remat_table *made = (remat_table *)&untouched;
    remat_problem own = problem;
    own.options = remat_options_default(remat_solver_find(name));
    remat_status status = remat_tabulate(remat_solver_find(name), &own, NULL, &made, error);
    if (status)
        assert_ptr_equal(made, &untouched);
    else
        remat_table_free(made);
    return status;
}

static remat_status tabulate_store_all(remat_error *error)
{
    return tabulate_with("store-all", error);
}

static remat_status tabulate_chen(remat_error *error)
{
    return tabulate_with("chen-sqrt", error);
}

static remat_status tabulate_rotor(remat_error *error)
{
    return tabulate_with("rotor", error);
}

static remat_status schedule(remat_error *error)
{
    remat_schedule made = {.nominal_budget = 77};
    remat_status status = remat_table_schedule(table, &problem, 400, &made, error);
    if (status)
        assert_true(made.nominal_budget == 77 && !made.operations.items);
    else
        remat_schedule_clear(&made);
    return status;
}

static remat_status save(remat_error *error)
{
    remat_buffer buffer = {0};
    remat_status status = remat_table_save(table, &buffer, error);
    if (!status)
        assert_int_equal(buffer.length, saved.length);
    remat_buffer_clear(&buffer);
    return status;
}

static remat_status load(remat_error *error)
{
    remat_table *made = (remat_table *)&untouched;
    remat_status status =
        remat_table_load(solver, &problem, saved.data, saved.length, &made, error);
    if (status)
        assert_ptr_equal(made, &untouched);
    else
        remat_table_free(made);
    return status;
}

/* Where jansson 2.14 lacks memory for a token it takes it for a wrong one, or (the growth of its
 * token buffer is not checked) loses a character of it, and nobody can tell: so here it counts only
 * that nothing crashes or leaks and that the output is untouched when the call fails. */
static remat_status parse(remat_error *error)
{
    json_t *made = (json_t *)(void *)&untouched;
    remat_status status = remat_json_parse(document, strlen(document), &made, error);
    if (status)
        assert_ptr_equal(made, &untouched);
    else
        json_decref(made);
    return countdown < 0 ? remat_fail_memory(error) : status;
}

static remat_status decode(remat_error *error)
{
    remat_profile *made = (remat_profile *)&untouched;
    remat_status status = remat_profile_decode(json, "", &made, error);
    if (status)
        assert_ptr_equal(made, &untouched);
    else
        remat_profile_free(made);
    return status;
}

/* Encoders return NULL for want of memory. */
static remat_status encoded(json_t *made, remat_error *error)
{
    if (!made)
        return remat_fail_memory(error);
    json_decref(made);
    return REMAT_OK;
}

static remat_status encode_operations(remat_error *error)
{
    return encoded(remat_operations_encode(&recomputing, profile), error);
}

static remat_status identify(bool of_curve, remat_error *error)
{
    uint64_t budgets[] = {5, 7};
    remat_question question = {.kind = of_curve ? REMAT_ASK_TRADEOFF : REMAT_ASK_SCHEDULE,
                               .profile_id = "id",
                               .solver = solver,
                               .options = problem.options,
                               .budget = 5,
                               .alignment = 256,
                               .points = 2,
                               .budgets = of_curve ? budgets : NULL,
                               .linked = true,
                               .link = {1, 2, 0, false}};
    remat_status status = remat_question_identify(&question, error);
    free(question.text);
    return status;
}

static remat_status encode_question(remat_error *error)
{
    return identify(false, error);
}

static remat_status encode_curve_question(remat_error *error)
{
    return identify(true, error);
}

static remat_status encode_summary(remat_error *error)
{
    const remat_minimum minimum = {.solver = solver, .bytes = 5};
    return encoded(remat_profile_summary(profile, 5, &minimum, 1), error);
}

static remat_status encode_solvers(remat_error *error)
{
    return encoded(remat_solvers_encode(), error);
}

static remat_status encode_problem(remat_error *error)
{
    const remat_error infeasible = {
        .status = REMAT_INFEASIBLE, .field = "budget", .message = "no", .number = 5};
    return encoded(remat_problem_encode(REMAT_PROBLEM_INFEASIBLE_BUDGET, &infeasible), error);
}

static remat_status encode_simulation(remat_error *error)
{
    static const remat_simulation simulation = {.valid = true, .makespan = 1};
    static const double recomputed[4] = {1, 0, 2, 0};
    return encoded(remat_simulation_encode(profile, &simulation, 2, recomputed), error);
}

static remat_status encode_timeline(remat_error *error)
{
    static const remat_simulation simulation = {.valid = true};
    static const remat_moment moments[32];
    json_t *operations = remat_operations_encode(&recomputing, profile);
    json_t *made = operations
                       ? remat_timeline_encode("id", 5, profile, operations, moments, &simulation)
                       : NULL;
    json_decref(operations);
    return encoded(made, error);
}

static remat_answered answered;

static remat_status encode_schedule(remat_error *error)
{
    static const remat_question question = {.profile_id = "p", .alignment = 256};
    const remat_schedule_answer answer = {
        .question = &question, .profile = profile, .answered = &answered};
    double overhead;
    return encoded(remat_schedule_encode(&answer, &overhead), error);
}

/* To the byte what the tree gives. */
static remat_status write_schedule(remat_error *error)
{
    static const remat_question question = {.profile_id = "p", .alignment = 256};
    const remat_schedule_answer answer = {
        .question = &question, .profile = profile, .answered = &answered};
    double overhead;
    char *text = remat_schedule_text(&answer, &overhead);
    json_t *tree = text ? remat_schedule_encode(&answer, &overhead) : NULL;
    char *expected = tree ? remat_json_text(tree) : NULL;
    if (expected)
        assert_string_equal(text, expected);
    free(text);
    json_decref(tree);
    free(expected);
    return expected ? REMAT_OK : remat_fail_memory(error);
}

/* ---- the nth fails ---- */

static void fail_each(const char *name, remat_status (*call)(remat_error *error))
{
    remat_error error = {0};
    for (long n = 0;; n++) {
        assert_true(n < 100000);
        error = (remat_error){0};
        countdown = n;
        remat_status status = call(&error);
        bool reached = countdown < 0;
        countdown = -1;
        if (!reached) {
            if (status)
                fail_msg("%s: without a failure: %s: %s", name, remat_status_name(status),
                         error.message);
            assert_true(n > 0); /* else the wrapping does not work */
            return;
        }
        if (status == REMAT_OK && call == new_wrong_profile)
            continue; /* the cycle search only words the error */
        if (status != REMAT_NO_MEMORY || error.status != REMAT_NO_MEMORY)
            fail_msg("%s: allocation %ld failed: %s: %s", name, n, remat_status_name(status),
                     error.message);
    }
}

#define TEST(call)                                                                                 \
    static void call##_without_memory(void **state)                                                \
    {                                                                                              \
        (void)state;                                                                               \
        fail_each(#call, call);                                                                    \
    }

TEST(new_profile)
TEST(new_wrong_profile)
TEST(cut)
TEST(liveness)
TEST(states)
TEST(simulate)
TEST(layout)
TEST(tabulate_store_all)
TEST(tabulate_chen)
TEST(tabulate_rotor)
TEST(schedule)
TEST(save)
TEST(load)
TEST(parse)
TEST(decode)
TEST(encode_operations)
TEST(encode_question)
TEST(encode_curve_question)
TEST(encode_summary)
TEST(encode_solvers)
TEST(encode_problem)
TEST(encode_simulation)
TEST(encode_timeline)

/* All of an answer over a link. A bound may be less than it could be, and the answer is one then:
 * it fits. */
static void answer_without_memory(void **state)
{
    (void)state;
    const remat_link link = {.to_host = 10, .to_device = 10};
    const remat_query query = {.problem = {.profile = profile, .link = &link, .max_budget = 250},
                               .budget = 250,
                               .alignment = 1};
    const long part = getenv("REMAT_SLOW_BUILD") ? 8 : 40;
    bool reached = true;
    for (long n = 0; reached; n += 1 + n / part) {
        remat_answered made = {.portfolio = {.n = 0}};
        remat_error error = {0};
        countdown = n;
        const remat_status status = remat_answer(&query, NULL, NULL, &made, &error);
        reached = countdown < 0;
        countdown = -1;
        assert_true(!status == (made.schedule.operations.length > 0));
        if (status && (status != REMAT_NO_MEMORY || error.status != status))
            fail_msg("allocation %ld failed: %s: %s", n, remat_status_name(status), error.message);
        assert_true(status || made.schedule.layout.arena <= 250);
        assert_true(reached || !status);
        remat_answered_clear(&made);
    }
}

static void check_layout_without_memory(void **state)
{
    (void)state;
    assert_int_equal(remat_layout_new(profile, &with_states, 256, &answer_layout, NULL), REMAT_OK);
    fail_each("check_layout", check_layout);
    remat_layout_clear(&answer_layout);
}

static void encode_schedule_without_memory(void **state)
{
    (void)state;
    remat_error error;
    assert_int_equal(remat_table_schedule(table, &problem, 400, &answered.schedule, &error),
                     REMAT_OK);
    fail_each("encode_schedule", encode_schedule);
    fail_each("write_schedule", write_schedule);
    remat_schedule_clear(&answered.schedule);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_profile_without_memory),
        cmocka_unit_test(new_wrong_profile_without_memory),
        cmocka_unit_test(cut_without_memory),
        cmocka_unit_test(liveness_without_memory),
        cmocka_unit_test(states_without_memory),
        cmocka_unit_test(simulate_without_memory),
        cmocka_unit_test(layout_without_memory),
        cmocka_unit_test(answer_without_memory),
        cmocka_unit_test(check_layout_without_memory),
        cmocka_unit_test(tabulate_store_all_without_memory),
        cmocka_unit_test(tabulate_chen_without_memory),
        cmocka_unit_test(tabulate_rotor_without_memory),
        cmocka_unit_test(schedule_without_memory),
        cmocka_unit_test(save_without_memory),
        cmocka_unit_test(load_without_memory),
        cmocka_unit_test(parse_without_memory),
        cmocka_unit_test(decode_without_memory),
        cmocka_unit_test(encode_operations_without_memory),
        cmocka_unit_test(encode_question_without_memory),
        cmocka_unit_test(encode_curve_question_without_memory),
        cmocka_unit_test(encode_summary_without_memory),
        cmocka_unit_test(encode_solvers_without_memory),
        cmocka_unit_test(encode_problem_without_memory),
        cmocka_unit_test(encode_simulation_without_memory),
        cmocka_unit_test(encode_timeline_without_memory),
        cmocka_unit_test(encode_schedule_without_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
