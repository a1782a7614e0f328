/* The small parts: buffers and readers, UTF-8, statuses and errors, options, the registry, what a
 * host lends. */
#include "unit/core_support.h"

#include "model/text.h"

/* ---- bytes ---- */

static void numbers_are_written_little_endian(void **state)
{
    (void)state;
    /* 1.0 is 0x3FF0000000000000 (IEEE 754) */
    static const uint8_t expected[] = {0x04, 0x03, 0x02, 0x01, 0x0d, 0x0c, 0x0b, 0x0a,
                                       0x09, 0x08, 0x07, 0x06, 0,    0,    0,    0,
                                       0,    0,    0xf0, 0x3f, 'x',  'y'};
    remat_buffer buffer = {0};
    assert_int_equal(remat_buffer_put_u32(&buffer, 0x01020304), REMAT_OK);
    assert_int_equal(remat_buffer_put_u64(&buffer, UINT64_C(0x060708090a0b0c0d)), REMAT_OK);
    assert_int_equal(remat_buffer_put_f64(&buffer, 1.0), REMAT_OK);
    assert_int_equal(remat_buffer_put(&buffer, "xy", 2), REMAT_OK);
    assert_int_equal(remat_buffer_put(&buffer, NULL, 0), REMAT_OK);
    assert_int_equal(buffer.length, sizeof expected);
    assert_memory_equal(buffer.data, expected, sizeof expected);
    remat_reader reader = {.data = buffer.data, .length = buffer.length};
    assert_int_equal(remat_reader_u32(&reader), 0x01020304);
    assert_true(remat_reader_u64(&reader) == UINT64_C(0x060708090a0b0c0d));
    assert_true(remat_reader_f64(&reader) == 1.0);
    assert_memory_equal(remat_reader_bytes(&reader, 2), "xy", 2);
    assert_false(reader.failed);
    remat_buffer_clear(&buffer);
    remat_buffer_clear(&buffer);
    assert_null(buffer.data);
}

static void readers_stop_at_the_end_and_stay_failed(void **state)
{
    (void)state;
    static const uint8_t bytes[7] = {1, 0, 0, 0, 2, 3, 4};
    remat_reader reader = {.data = bytes, .length = sizeof bytes};
    assert_int_equal(remat_reader_u32(&reader), 1);
    assert_int_equal(remat_reader_u32(&reader), 0); /* three bytes are left */
    assert_true(reader.failed);
    assert_null(remat_reader_bytes(&reader, 1)); /* would fit, but it has failed */
    assert_true(remat_reader_u64(&reader) == 0 && remat_reader_f64(&reader) == 0);
    remat_reader again = {.data = bytes, .length = sizeof bytes, .position = 7};
    assert_non_null(remat_reader_bytes(&again, 0));
    assert_null(remat_reader_bytes(&again, SIZE_MAX));
    assert_true(again.failed);
}

static void buffers_refuse_what_cannot_be(void **state)
{
    (void)state;
    remat_buffer buffer = {0};
    assert_int_equal(remat_buffer_put_u32(&buffer, 5), REMAT_OK);
    assert_int_equal(remat_buffer_put(&buffer, "", SIZE_MAX), REMAT_NO_MEMORY);
    assert_int_equal(buffer.length, 4);
    for (uint32_t i = 0; i < 10000; i++)
        assert_int_equal(remat_buffer_put_u32(&buffer, i), REMAT_OK);
    remat_reader reader = {.data = buffer.data, .length = buffer.length, .position = 4};
    for (uint32_t i = 0; i < 10000; i++)
        assert_int_equal(remat_reader_u32(&reader), i);
    remat_buffer_clear(&buffer);
}

static void any_double_survives(void **state)
{
    (void)state;
    const double values[] = {0.0, -0.0, 0x1p-1074, -0x1.fffffffffffffp1023, INFINITY, 0.1};
    for (size_t i = 0; i < COUNT(values); i++) {
        remat_buffer buffer = {0};
        assert_int_equal(remat_buffer_put_f64(&buffer, values[i]), REMAT_OK);
        remat_reader reader = {.data = buffer.data, .length = buffer.length};
        double back = remat_reader_f64(&reader);
        assert_memory_equal(&back, &values[i], sizeof back);
        remat_buffer_clear(&buffer);
    }
}

/* ---- UTF-8 ---- */

/* Every code point is read as RFC 3629 encodes it; surrogates are not. */
static void every_code_point_is_read(void **state)
{
    (void)state;
    for (uint32_t point = 1; point <= 0x10FFFF; point++) {
        char s[5] = {0};
        size_t n = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
        static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
        for (size_t i = n; i-- > 1;)
            s[i] = (char)(0x80 | ((point >> (6 * (n - 1 - i))) & 0x3F));
        s[0] = (char)(lead[n] | (point >> (6 * (n - 1))));
        uint32_t found = 0;
        bool surrogate = point >= 0xD800 && point <= 0xDFFF;
        assert_int_equal(model_utf8_character(s, &found), surrogate ? 0 : n);
        if (!surrogate)
            assert_int_equal(found, point);
    }
}

static void text_is_cleaned(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"", ""},
        {"plain", "plain"},
        {"\u00e9\u20ac\U0001F600", "\u00e9\u20ac\U0001F600"},
        {"a\xffz", "a?z"},
        {"a\xc3", "a"}, /* cut off at the end: dropped */
        {"a\xe2\x82", "a"},
        {"a\xf0\x9f\x98", "a"},
        {"a\xe2\x82z", "a??z"}, /* in the middle: marked */
        {"\x80\x80", ""},
        {"\xc0\x80z", "??z"},
    };
    for (size_t i = 0; i < COUNT(pairs); i++) {
        char text[32];
        snprintf(text, sizeof text, "%s", pairs[i][0]);
        model_utf8_clean(text);
        assert_string_equal(text, pairs[i][1]);
    }
}

/* Whatever the bytes: afterwards it is well-formed and no longer than before. */
static void cleaning_always_gives_utf8(void **state)
{
    (void)state;
    uint32_t seed = 1;
    for (unsigned round = 0; round < 20000; round++) {
        char text[16] = {0};
        for (size_t i = 0; i < 12; i++) {
            seed = seed * 1664525u + 1013904223u; /* Numerical Recipes' generator */
            text[i] = (char)(seed >> 24 ? (seed >> 24) | (i % 3 ? 0x80u : 0u) : 1u);
        }
        model_utf8_clean(text);
        for (const char *s = text; *s;) {
            uint32_t point;
            size_t length = model_utf8_character(s, &point);
            assert_true(length > 0);
            s += length;
        }
    }
}

/* ---- errors ---- */

static void errors_are_filled_and_cut_at_characters(void **state)
{
    (void)state;
    remat_error error = {.number = 5};
    assert_int_equal(remat_fail(&error, REMAT_IO, "place", "%d of %s", 3, "them"), REMAT_IO);
    assert_int_equal(error.status, REMAT_IO);
    assert_string_equal(error.field, "place");
    assert_string_equal(error.message, "3 of them");
    assert_true(error.number == 0);
    assert_int_equal(remat_fail(NULL, REMAT_IO, NULL, "%s", "nobody listens"), REMAT_IO);
    char text[2000];
    for (size_t i = 0; i + 2 < sizeof text; i += 2)
        memcpy(text + i, "\u00e9", 3);
    remat_fail(&error, REMAT_INVALID, text, "a%s", text);
    /* An odd number of bytes is left for characters of two: 255 and, after the a, 766. */
    assert_int_equal(strlen(error.field), REMAT_FIELD_SIZE - 2);
    assert_int_equal(strlen(error.message), REMAT_MESSAGE_SIZE - 1);
    remat_fail(&error, REMAT_INVALID, NULL, "%s", text);
    assert_string_equal(error.field, "");
    assert_int_equal(strlen(error.message), REMAT_MESSAGE_SIZE - 2);
    assert_int_equal(remat_fail_memory(&error), REMAT_NO_MEMORY);
    assert_string_equal(error.message, remat_status_text(REMAT_NO_MEMORY));
}

static void statuses_have_names(void **state)
{
    (void)state;
    assert_string_equal(remat_status_name(REMAT_OK), "OK");
    assert_string_equal(remat_status_name(REMAT_INFEASIBLE), "INFEASIBLE");
    assert_string_equal(remat_status_text(REMAT_INFEASIBLE), "no schedule fits the budget");
    assert_string_equal(remat_status_name((remat_status)99), "INTERNAL");
    assert_non_null(remat_status_text((remat_status)99));
    assert_string_equal(remat_optimality_name(REMAT_OPTIMAL), "optimal");
    assert_string_equal(remat_optimality_name(REMAT_OPTIMAL_IN_CLASS), "optimal-in-class");
    assert_string_equal(remat_optimality_name(REMAT_HEURISTIC), "heuristic");
}

/* ---- the registry ---- */

static void every_solver_is_complete(void **state)
{
    (void)state;
    size_t n;
    const remat_solver *const *solvers = remat_solvers(&n);
    assert_true(n >= 4); /* issue 2, deliverable 3 */
    for (size_t i = 0; i < n; i++) {
        const remat_solver *s = solvers[i];
        assert_ptr_equal(remat_solver_find(s->name), s); /* so names are unique */
        assert_true(s->summary[0] && s->source[0] && s->optimal_for && s->solve);
        assert_true(s->accepts & REMAT_ACCEPTS_ANY_SHAPE);
        assert_true(s->n_options <= REMAT_MAX_OPTIONS);
        assert_true(!s->bounds_all || s->class_name);
    }
    static const char *const first[] = {"store-all", "chen-sqrt", "revolve", "rotor"};
    for (size_t i = 0; i < COUNT(first); i++)
        assert_non_null(remat_solver_find(first[i]));
    assert_null(remat_solver_find("Rotor"));
    assert_null(remat_solver_find(""));
}

/* A solver made up for the test: one option of every type. */
static const char *const colours[] = {"red", "green", NULL};
static const remat_option options[] = {
    {.name = "count", .type = REMAT_OPTION_INTEGER, .minimum = 1, .maximum = 9, .default_value = 4},
    {.name = "share",
     .type = REMAT_OPTION_NUMBER,
     .minimum = 0,
     .maximum = 1,
     .default_value = 0.5},
    {.name = "fast", .type = REMAT_OPTION_BOOLEAN, .default_value = 1},
    {.name = "colour", .type = REMAT_OPTION_CHOICE, .choices = colours, .default_value = 1}};
static const remat_solver made_up = {.name = "made-up", .options = options, .n_options = 4};

static void options_are_set_by_name(void **state)
{
    (void)state;
    remat_options o = remat_options_default(&made_up);
    assert_true(o.values[0] == 4 && o.values[1] == 0.5 && o.values[2] == 1 && o.values[3] == 1);
    remat_error error;
    assert_int_equal(remat_options_set(&made_up, &o, "count", 9, NULL, &error), REMAT_OK);
    assert_int_equal(remat_options_set(&made_up, &o, "share", 0.25, NULL, &error), REMAT_OK);
    assert_int_equal(remat_options_set(&made_up, &o, "fast", 0, NULL, &error), REMAT_OK);
    assert_int_equal(remat_options_set(&made_up, &o, "colour", 0, "red", &error), REMAT_OK);
    assert_true(o.values[0] == 9 && o.values[1] == 0.25 && o.values[2] == 0 && o.values[3] == 0);
}

static void wrong_options_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text, *says;
        double number;
    } bad[] = {{"count", NULL, "9", 10},        {"count", NULL, "1", 0},
               {"count", NULL, "2.5", 2.5},     {"count", NULL, "number", NAN},
               {"count", "4", "number", 0},     {"share", NULL, "1", 1.01},
               {"fast", NULL, "boolean", 2},    {"fast", NULL, "integer", 0.5},
               {"colour", "blue", "blue", 0},   {"colour", NULL, "choice", 1},
               {"colours", "red", "made-up", 0}};
    for (size_t i = 0; i < COUNT(bad); i++) {
        remat_options o = remat_options_default(&made_up), before = o;
        remat_error error;
        char field[64];
        snprintf(field, sizeof field, "options.%s", bad[i].name);
        if (!remat_options_set(&made_up, &o, bad[i].name, bad[i].number, bad[i].text, &error))
            fail_msg("%s: %g is accepted", bad[i].name, bad[i].number);
        assert_int_equal(error.status, REMAT_INVALID);
        assert_string_equal(error.field, field);
        if (!strstr(error.message, bad[i].says))
            fail_msg("\"%s\" does not say \"%s\"", error.message, bad[i].says);
        assert_memory_equal(&o, &before, sizeof o);
    }
}

static void solvers_refuse_with_the_node(void **state)
{
    (void)state;
    remat_profile_spec spec = {
        HEADER,
        NODES({.id = "fork", .forward_time = NUMBER(1), .output_bytes = NUMBER(1)},
              {.id = "odd", .forward_time = NUMBER(2), .output_bytes = NUMBER(1), INPUTS("fork")},
              {.id = "loss",
               .forward_time = NUMBER(1),
               .output_bytes = NUMBER(1),
               INPUTS("fork", "odd")})};
    remat_profile *p = make_profile(&spec);
    remat_problem problem = {.profile = p};
    remat_error error;
    remat_solver solver = {.name = "picky", .accepts = REMAT_ACCEPTS_CHAIN};
    assert_int_equal(remat_solver_accepts(&solver, &problem, &error), REMAT_NOT_ACCEPTED);
    assert_non_null(strstr(error.message, "\"fork\""));
    assert_non_null(strstr(error.message, "2 consumers"));
    solver.accepts = REMAT_ACCEPTS_CHAIN | REMAT_ACCEPTS_JOIN;
    assert_int_equal(remat_solver_accepts(&solver, &problem, &error), REMAT_NOT_ACCEPTED);
    assert_non_null(strstr(error.message, "\"fork\""));
    solver.accepts = REMAT_ACCEPTS_ANY_SHAPE | REMAT_HOMOGENEOUS_ONLY;
    assert_int_equal(remat_solver_accepts(&solver, &problem, &error), REMAT_NOT_ACCEPTED);
    assert_non_null(strstr(error.message, "\"odd\""));
    solver.accepts = REMAT_ACCEPTS_ANY_SHAPE | REMAT_NEEDS_LINK;
    assert_int_equal(remat_solver_accepts(&solver, &problem, &error), REMAT_NOT_ACCEPTED);
    assert_string_equal(error.field, "link");
    const remat_link link = {.to_host = 1, .to_device = 1};
    problem.link = &link;
    assert_int_equal(remat_solver_accepts(&solver, &problem, &error), REMAT_OK);
    solver.accepts = REMAT_ACCEPTS_GRAPH;
    assert_int_equal(remat_solver_accepts(&solver, &problem, NULL), REMAT_OK);
    remat_profile_free(p);
}

/* ---- the host ---- */

static void count_index(void *context, size_t index, unsigned worker)
{
    size_t *sum = context;
    assert_int_equal(worker, 0);
    *sum += index + 1;
}

static void no_host_means_one_worker_and_no_limit(void **state)
{
    (void)state;
    const remat_host empty = {0}, *hosts[] = {NULL, &empty};
    for (size_t i = 0; i < 2; i++) {
        size_t sum = 0;
        remat_host_parallel_for(hosts[i], 10, count_index, &sum);
        assert_int_equal(sum, 55); /* 1 + .. + 10 */
        assert_int_equal(remat_host_workers(hosts[i]), 1);
        assert_false(remat_host_cancelled(hosts[i]));
        remat_host_progress(hosts[i], 0.5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_written_little_endian),
        cmocka_unit_test(readers_stop_at_the_end_and_stay_failed),
        cmocka_unit_test(buffers_refuse_what_cannot_be),
        cmocka_unit_test(any_double_survives),
        cmocka_unit_test(every_code_point_is_read),
        cmocka_unit_test(text_is_cleaned),
        cmocka_unit_test(cleaning_always_gives_utf8),
        cmocka_unit_test(errors_are_filled_and_cut_at_characters),
        cmocka_unit_test(statuses_have_names),
        cmocka_unit_test(every_solver_is_complete),
        cmocka_unit_test(options_are_set_by_name),
        cmocka_unit_test(wrong_options_are_named),
        cmocka_unit_test(solvers_refuse_with_the_node),
        cmocka_unit_test(no_host_means_one_worker_and_no_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
